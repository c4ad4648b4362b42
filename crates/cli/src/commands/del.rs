//! `halite del`.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::folder::{WriteSpace, find_space, in_database, open};
use crate::place::{Escapes, Place};
use crate::remote::ServerArgs;
use crate::values::check_removal;
use crate::{Result, output, size};

const EXAMPLES: &str = "\
Examples:
  halite del ./data greeting
  halite del ./data user:7 user:8 --space people    all of them, or none after a crash
  halite del --server 127.0.0.1:6379 greeting       by a server that has the database open
  halite del ./data greeting --json                 {\"deleted\":1}";

/// Remove keys
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Del {
    #[command(flatten)]
    place: Place,

    /// The keys; one that is not there counts as nothing. With --server, the first argument is one, too
    #[arg(required_unless_present = "server", allow_negative_numbers = true, value_name = "KEY")]
    keys: Vec<OsString>,

    #[command(flatten)]
    escapes: Escapes,

    #[command(flatten)]
    server: ServerArgs,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Del {
    pub(crate) fn run(&self) -> Result<()> {
        let mut keys =
            self.keys.iter().map(|key| self.escapes.key(key)).collect::<Result<Vec<_>>>()?;
        if let Some(mut server) = self.server.connect_in(&self.place)? {
            keys.push(self.escapes.key(self.place.first())?);
            return self.print(server.delete(&keys)?);
        }
        keys.sort();
        keys.dedup();
        let db = open(&self.place.path)?;
        let mut deleted = 0;
        if let Some(space) = find_space(&db, &self.place.space)? {
            check_removal(&db, space.name())?;
            let failed = |error| in_database(&self.place.path, error);
            let space = WriteSpace::of(&db, space).map_err(failed)?;
            let mut batch = db.batch();
            for key in keys {
                deleted += u64::from(space.delete(&mut batch, &key).map_err(failed)?);
            }
            batch.commit().map_err(failed)?;
        }
        self.print(deleted)
    }

    fn print(&self, deleted: u64) -> Result<()> {
        if self.json {
            output::json(&json!({ "deleted": deleted }))
        } else {
            output::text(&format!("deleted {}\n", size::count(deleted, "key")))
        }
    }
}
