//! `halite obj set` and `halite obj migrate`.

use std::ffi::OsString;

use clap::Args;

use crate::Result;
use crate::classes::{Prefer, migrate};
use crate::folder::in_database;
use crate::interrupt::Interrupt;
use crate::objects::ObjectPlace;

const SET_EXAMPLES: &str = "\
Examples:
  halite obj set ./data photos/beach --prefer slowest
  halite obj set ./data photos/beach --prefer none

It counts for what is written from then on; `halite obj migrate` moves the rest. `halite obj stat` shows it.";

const MIGRATE_EXAMPLES: &str = "\
Examples:
  halite obj migrate ./data photos/beach --to 1

Class 0 is the fastest; `halite pool status` shows the classes and their room. A migration that was interrupted (exit
code 130) has moved a part, and the next one moves the rest.";

/// Set the storage class that an object prefers
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub(crate) struct Set {
    #[command(flatten)]
    place: ObjectPlace,

    /// The object's name
    #[arg(allow_negative_numbers = true)]
    name: OsString,

    /// The storage class for its bytes
    #[arg(long, value_name = "CLASS")]
    prefer: Prefer,
}

/// Move an object to a storage class
#[derive(Debug, Args)]
#[command(after_help = MIGRATE_EXAMPLES)]
pub(crate) struct Migrate {
    #[command(flatten)]
    place: ObjectPlace,

    /// The object's name
    #[arg(allow_negative_numbers = true)]
    name: OsString,

    /// The number of the storage class
    #[arg(long, value_name = "CLASS")]
    to: u8,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Set {
    pub(crate) fn run(&self) -> Result<()> {
        let (_db, object) = self.place.object(&self.name)?;
        let set = object.set_preference(self.prefer.into());
        set.map_err(|error| in_database(&self.place.path, error))
    }
}

impl Migrate {
    pub(crate) fn run(&self) -> Result<()> {
        let name = self.place.name(&self.name)?;
        let interrupt = Interrupt::catch()?;
        let (_db, store) = self.place.find()?;
        let store = self.place.with_object(store, &name)?;
        migrate(&self.place.path, self.json, &interrupt, |progress| {
            store.migrate(&name, self.to, progress)
        })
    }
}
