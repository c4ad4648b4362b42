//! `halite put`.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;
use halite::Database;

use crate::engine::EngineArgs;
use crate::folder::{WriteSpace, in_database};
use crate::formats::read_value;
use crate::place::{Escapes, Place};
use crate::remote::{ServerArgs, need};
use crate::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  halite put ./data greeting hello            creates ./data if there is none
  date | halite put ./data now                the value from standard input, byte for byte
  halite put ./data logo --file logo.png      the value from a file
  halite put ./data user:7 Ada --space people
  halite put ./data -- -k- -v-                a key or value that begins with a dash
  halite put --server 127.0.0.1:6379 greeting hello      by a server that has the database open
  halite put ./new greeting hello --engine lsm --levels /ssd/levels

The write is durable when the command returns; `halite stat` says what that means on this medium.
As with the server's SET, the key loses its time to live if it had one.";

/// Set the value of a key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Put {
    #[command(flatten)]
    place: Place,

    /// The key, at most 64 KiB; with --server, the first argument, and the value the second
    #[arg(allow_negative_numbers = true, required_unless_present = "server")]
    key: Option<OsString>,

    /// The value, at most 512 MiB; `-` or none: from standard input
    #[arg(allow_negative_numbers = true, conflicts_with_all = ["file", "server"])]
    value: Option<OsString>,

    /// Take the value from FILE
    #[arg(long)]
    file: Option<PathBuf>,

    #[command(flatten)]
    escapes: Escapes,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    engine: EngineArgs,
}

impl Put {
    pub(crate) fn run(&self) -> Result<()> {
        if self.server.is_given() && self.key.is_some() && self.file.is_some() {
            return Err(Error::Usage("--file: the value is there already; leave one out".into()));
        }
        if let Some(mut server) = self.server.connect_in(&self.place)? {
            let key = self.escapes.key(self.place.first())?;
            return server.put(&key, &self.value(self.key.as_ref())?);
        }
        let key = self.escapes.key(need(self.key.as_ref(), "KEY")?)?;
        let value = self.value(self.value.as_ref())?;
        let path = &self.place.path;
        let db = self.engine.open_or_create(Database::builder(), path, None)?;
        let mut batch = db.batch();
        let space = WriteSpace::create(&db, &self.place.space)?;
        space
            .put(&mut batch, &key, &value)
            .and_then(|()| batch.commit())
            .map_err(|error| in_database(path, error))
    }

    /// The value: the argument, a file's contents, or what standard input has.
    fn value(&self, argument: Option<&OsString>) -> Result<Vec<u8>> {
        match (argument, &self.file) {
            (Some(value), _) if value != "-" => Ok(value.as_bytes().to_vec()),
            (None, Some(file)) => File::open(file)
                .and_then(read_value)
                .map_err(|error| Error::io(file.display(), error)),
            _ => read_value(io::stdin().lock()).map_err(|error| Error::io("standard input", error)),
        }
    }
}
