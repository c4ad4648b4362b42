//! Halite beside other people's software: the same work, in one run, in one folder, equally durable
//! on every side. The command line is that of `halite bench`.
//!
//! An embedded store is an adapter to `halite_bench::kv::Store`, in a file of its own, configured for
//! this work: caches that hold all the data, no compression, and durability as its documentation asks.
//! PMDK's libraries ([`pmdk`]) join the experiments of the building blocks. [`peers`] lists the peers that are
//! built in. `serve` puts RocksDB behind Halite's server, for `rstore`.

mod fjall;
mod indexes;
mod lmdb;
mod peers;
#[cfg(feature = "pmdk")]
mod pmdk;
mod raw;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "rocksdb")]
mod rocksdb_engine;
mod rows;
#[cfg(feature = "rocksdb")]
mod serve;
mod skiplist;
mod sqlite;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};
use halite_bench::command::{Command, EXAMPLES, Program};
use halite_bench::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use peers::BuiltIn;

/// Bytes of cache that a peer may use; a peer that needs less takes less.
const CACHE_BYTES: usize = 2 << 30;

/// Measures Halite and other people's software with the same experiments.
#[derive(Debug, Parser)]
#[command(name = "bench-peers", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    #[command(flatten)]
    Bench(Command),
    #[cfg(feature = "rocksdb")]
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().action {
        Action::Bench(command) => run(&command),
        #[cfg(feature = "rocksdb")]
        Action::Serve(serve) => serve.run(),
    };
    if let Err(error) = &outcome {
        eprintln!("bench-peers: {error}");
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Interrupted) => ExitCode::from(130),
        Err(Error::Unknown { .. } | Error::PeerApart { .. } | Error::Wrong { .. }) => {
            ExitCode::from(2)
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(command: &Command) -> Result<()> {
    #[cfg(feature = "pmdk")]
    pmdk::match_durability(command.folder())?;
    let interrupted = Arc::new(AtomicBool::new(false));
    raise(&interrupted).map_err(|source| Error::Write { thing: "signals".to_owned(), source })?;
    let mut out = io::stdout().lock();
    let outcome =
        command.run(&mut Program { peers: &BuiltIn, out: &mut out, interrupted: &interrupted });
    out.flush().map_err(|source| Error::Write { thing: "standard output".to_owned(), source })?;
    outcome
}

/// Makes `interrupted` true at the first SIGINT or SIGTERM; the second ends the process.
fn raise(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(interrupted))?;
        flag::register(signal, Arc::clone(interrupted))?;
    }
    Ok(())
}
