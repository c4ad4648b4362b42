//! `halite dataset copy`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::folder::{in_database, need_space, open};
use crate::place::{Escapes, Keys};
use crate::values::{check_companions, check_form, check_not_note, prepare};
use crate::{Error, Result, escape};

const EXAMPLES: &str = "\
Examples:
  halite dataset copy ./data people persons
  halite dataset copy ./data people people --prefix user: --new-prefix member:
  halite dataset copy ./data events archive --from 2024 --to 2025

It takes one commit, whatever the size, and copies the source as it is before that. Keys that the destination has in the
range of the new keys are gone then, and the others stay. A destination that is not there is created.";

/// Copy keys to another key space, or to other names in the same one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Copy {
    /// The database's folder
    path: PathBuf,

    /// The key space with the keys
    source: String,

    /// The key space that gets them
    destination: String,

    #[command(flatten)]
    keys: Keys,

    /// The copies begin with Q instead of the P of --prefix
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    new_prefix: Option<OsString>,

    #[command(flatten)]
    escapes: Escapes,
}

impl Copy {
    pub(crate) fn run(&self) -> Result<()> {
        let failed = |error| in_database(&self.path, error);
        let range = self.keys.range(&self.escapes)?;
        let new_prefix = self.new_prefix.as_ref().map(|prefix| self.escapes.key(prefix));
        let new_prefix = new_prefix.transpose()?;
        // Without another beginning, a copy has the key of its origin.
        let old_prefix = match new_prefix {
            Some(_) => self.keys.prefix(&self.escapes)?,
            None => Vec::new(),
        };
        if self.source == self.destination && new_prefix.is_none() {
            let name = escape::to_text(self.source.as_bytes());
            let why = "it would be copied onto itself; name another key space, or a --new-prefix";
            return Err(Error::input(name, why));
        }
        let db = open(&self.path)?;
        let source = need_space(&db, &self.source)?;
        check_not_note(&self.source)?;
        check_not_note(&self.destination)?;
        check_form(&self.source, &self.destination)?;
        let destination = db.find_key_space(&self.destination).map_err(failed)?;
        for space in destination.iter().chain([&source]) {
            check_companions(&db, space, "the copy")?;
        }
        // An engine without copies has no snapshots either, and refuses before a destination is made.
        source.kept_snapshots().map_err(failed)?;
        prepare(&db, &self.destination)?;
        let destination = match destination {
            Some(destination) => destination,
            None => db.key_space(&self.destination).map_err(failed)?,
        };
        let new_prefix = new_prefix.unwrap_or_default();
        source.copy_range(&range, &old_prefix, &destination, &new_prefix).map_err(failed)
    }
}
