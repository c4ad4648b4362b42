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
use crate::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  halite put ./data greeting hello            creates ./data if there is none
  date | halite put ./data now                the value from standard input, byte for byte
  halite put ./data logo --file logo.png      the value from a file
  halite put ./data user:7 Ada --space people
  halite put ./data -- -k- -v-                a key or value that begins with a dash
  halite put ./new greeting hello --engine lsm --levels /ssd/levels

The write is durable when the command returns; `halite stat` says what that means on this medium.
As with the server's SET, the key loses its time to live if it had one.";

/// Set the value of a key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Put {
    #[command(flatten)]
    place: Place,

    /// The key, at most 64 KiB
    #[arg(allow_negative_numbers = true)]
    key: OsString,

    /// The value, at most 512 MiB; `-` or none: from standard input
    #[arg(allow_negative_numbers = true, conflicts_with = "file")]
    value: Option<OsString>,

    /// Take the value from FILE
    #[arg(long)]
    file: Option<PathBuf>,

    #[command(flatten)]
    escapes: Escapes,

    #[command(flatten)]
    engine: EngineArgs,
}

impl Put {
    pub(crate) fn run(&self) -> Result<()> {
        let (key, value) = (self.escapes.key(&self.key)?, self.value()?);
        let path = &self.place.path;
        let db = self.engine.open_or_create(Database::builder(), path, None)?;
        let mut batch = db.batch();
        let space = WriteSpace::create(&db, &self.place.space)?;
        space
            .put(&mut batch, &key, &value)
            .and_then(|()| batch.commit())
            .map_err(|error| in_database(path, error))
    }

    fn value(&self) -> Result<Vec<u8>> {
        match (&self.value, &self.file) {
            (Some(value), _) if value != "-" => Ok(value.as_bytes().to_vec()),
            (None, Some(file)) => File::open(file)
                .and_then(read_value)
                .map_err(|error| Error::io(file.display(), error)),
            _ => read_value(io::stdin().lock()).map_err(|error| Error::io("standard input", error)),
        }
    }
}
