//! `halite dataset set` and `halite dataset migrate`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use halite::KeyRange;

use crate::Result;
use crate::classes::{Prefer, migrate};
use crate::folder::{in_database, need_space, open};
use crate::interrupt::Interrupt;
use crate::place::Escapes;

const SET_EXAMPLES: &str = "\
Examples:
  halite dataset set ./data logs --prefer slowest
  halite dataset set ./data logs --prefer none

It counts for what is written from then on; `halite dataset migrate` moves the rest. Where the pool has fewer classes, the
nearest one takes the data; `halite pool status` shows the classes.";

const MIGRATE_EXAMPLES: &str = "\
Examples:
  halite dataset migrate ./data logs --to 1
  halite dataset migrate ./data logs --to 1 --prefix 2024-

Class 0 is the fastest; `halite pool status` shows the classes and their room. Snapshots keep their data where it is. A
migration that was interrupted (exit code 130) has moved a part, and the next one moves the rest.";

/// Set the storage class that a key space prefers
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub(crate) struct Set {
    /// The database's folder
    path: PathBuf,

    /// The key space
    name: String,

    /// The storage class for its leaves, buffers and large values
    #[arg(long, value_name = "CLASS")]
    prefer: Prefer,
}

/// Move keys to a storage class
#[derive(Debug, Args)]
#[command(after_help = MIGRATE_EXAMPLES)]
pub(crate) struct Migrate {
    /// The database's folder
    path: PathBuf,

    /// The key space
    name: String,

    /// The number of the storage class
    #[arg(long, value_name = "CLASS")]
    to: u8,

    /// Only keys that begin with P
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    prefix: Option<OsString>,

    #[command(flatten)]
    escapes: Escapes,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Set {
    pub(crate) fn run(&self) -> Result<()> {
        let db = open(&self.path)?;
        let set = need_space(&db, &self.name)?.set_preference(self.prefer.into());
        set.map_err(|error| in_database(&self.path, error))
    }
}

impl Migrate {
    pub(crate) fn run(&self) -> Result<()> {
        let prefix = self.prefix.as_ref().map(|prefix| self.escapes.key(prefix)).transpose()?;
        let range = KeyRange::prefix(&prefix.unwrap_or_default());
        let interrupt = Interrupt::catch()?;
        let db = open(&self.path)?;
        let space = need_space(&db, &self.name)?;
        migrate(&self.path, self.json, &interrupt, |progress| {
            space.migrate(&range, self.to, progress)
        })
    }
}
