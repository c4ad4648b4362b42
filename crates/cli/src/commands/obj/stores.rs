//! `halite obj stores` and `halite obj drop-store`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::folder::{in_database, open};
use crate::objects::no_store;
use crate::{Result, escape, output};

const EXAMPLES: &str = "\
Examples:
  halite obj stores ./data
  halite obj stores ./data --json | jq -r .name";

const DROP_EXAMPLES: &str = "\
Examples:
  halite obj drop-store ./data raw

It takes one commit, whatever the number and the sizes of the objects.";

/// List object stores
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stores {
    /// The database's folder
    path: PathBuf,

    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

/// Remove an object store with all its objects
#[derive(Debug, Args)]
#[command(after_help = DROP_EXAMPLES)]
pub(crate) struct DropStore {
    /// The database's folder
    path: PathBuf,

    /// The object store
    name: String,
}

impl Stores {
    pub(crate) fn run(&self) -> Result<()> {
        let db = open(&self.path)?;
        let stores = db.object_stores().map_err(|error| in_database(&self.path, error))?;
        stores.iter().try_for_each(|name| match self.json {
            true => output::json(&json!({ "name": name })),
            false => output::text(&format!("{}\n", escape::to_text(name.as_bytes()))),
        })
    }
}

impl DropStore {
    pub(crate) fn run(&self) -> Result<()> {
        let failed = |error| in_database(&self.path, error);
        let db = open(&self.path)?;
        match db.object_stores().map_err(failed)?.contains(&self.name) {
            true => db.drop_objects(&self.name).map_err(failed),
            false => Err(no_store(&db, &self.name)?),
        }
    }
}
