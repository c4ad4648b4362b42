//! `serve`: RocksDB behind Halite's server, so that only the stores differ.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use clap::Args;
use halite::Database;
use halite_bench::{Error, Result};
use halite_server::{Config, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::rocksdb_engine::RocksDbEngine;

/// Serve RocksDB to Redis clients; each write is synced before it is acknowledged
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The database's folder, created if there is none
    path: PathBuf,

    /// The port of 127.0.0.1 to listen on
    #[arg(long, default_value_t = 6379)]
    port: u16,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<()> {
        let failed = |why: String| Error::Server { server: "rocksdb".to_owned(), why };
        let engine = RocksDbEngine::open(&self.path).map_err(|error| failed(error.to_string()))?;
        let database = Database::with_engine(Arc::new(engine), &self.path);
        let mut config = Config::default();
        config.port = self.port;
        let server = Server::bind(database, config).map_err(|error| failed(error.to_string()))?;
        let handle = server.handle();
        let signals = Signals::new([SIGINT, SIGTERM]);
        let mut signals = signals.map_err(|error: io::Error| failed(error.to_string()))?;
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                handle.shutdown();
            }
        });
        server.run().map_err(|error| failed(error.to_string()))
    }
}
