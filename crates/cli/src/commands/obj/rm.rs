//! `halite obj rm`.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::folder::in_database;
use crate::objects::ObjectPlace;
use crate::{Result, output, size};

const EXAMPLES: &str = "\
Examples:
  halite obj rm ./data photos/beach
  halite obj rm ./data old/1 old/2 --json          {\"deleted\":2}

However long an object is, its removal takes one commit. Exit code 3: one of the names is that of no object; none is removed
then.";

/// Remove objects
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rm {
    #[command(flatten)]
    place: ObjectPlace,

    /// The objects' names
    #[arg(required = true, allow_negative_numbers = true, value_name = "NAME")]
    names: Vec<OsString>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Rm {
    pub(crate) fn run(&self) -> Result<()> {
        // Also an object that was not finished can be removed.
        let names = self.names.iter().map(|name| self.place.escapes.key(name));
        let mut names = names.collect::<Result<Vec<_>>>()?;
        names.sort();
        names.dedup();
        let (_db, mut store) = self.place.find()?;
        for name in &names {
            store = Some(self.place.with_object(store, name)?);
        }
        for (store, name) in
            store.iter().flat_map(|store| names.iter().map(move |name| (store, name)))
        {
            store.delete(name).map_err(|error| in_database(&self.place.path, error))?;
        }
        let deleted = names.len() as u64;
        match self.json {
            true => output::json(&json!({ "deleted": deleted })),
            false => output::text(&format!("deleted {}\n", size::count(deleted, "object"))),
        }
    }
}
