//! `halite obj mv`.

use std::ffi::OsString;

use clap::Args;

use crate::Result;
use crate::folder::in_database;
use crate::objects::ObjectPlace;

const EXAMPLES: &str = "\
Examples:
  halite obj mv ./data photos/beach photos/sea
  halite obj mv ./data new current --replace        delete the object `current` in the same moment

It moves no bytes. Exit code 3: there is no object of the old name.";

/// Give an object another name
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Mv {
    #[command(flatten)]
    place: ObjectPlace,

    /// The object's name
    #[arg(allow_negative_numbers = true)]
    old: OsString,

    /// The new name
    #[arg(allow_negative_numbers = true)]
    new: OsString,

    /// Replace the object that has the new name
    #[arg(long)]
    replace: bool,
}

impl Mv {
    pub(crate) fn run(&self) -> Result<()> {
        let (old, new) = (self.place.name(&self.old)?, self.place.name(&self.new)?);
        let (_db, store) = self.place.find()?;
        let store = self.place.with_object(store, &old)?;
        let renamed = match self.replace {
            true => store.rename_replacing(&old, &new),
            false => store.rename(&old, &new),
        };
        renamed.map_err(|error| in_database(&self.place.path, error))
    }
}
