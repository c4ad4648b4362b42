//! `halite obj stat`.

use std::ffi::OsString;
use std::fmt::Write;

use clap::Args;
use halite::{AccessPattern, ObjectInfo};
use serde_json::json;

use crate::classes::name_of;
use crate::folder::in_database;
use crate::objects::ObjectPlace;
use crate::size::{count, grouped, human};
use crate::{Result, escape, output, time};

const EXAMPLES: &str = "\
Examples:
  halite obj stat ./data photos/beach
  halite obj stat ./data photos/beach --json | jq .size
  halite obj stat ./data photos/beach || echo none      exit code 3: there is no such object";

/// Show the size, the time and the other state of an object
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stat {
    #[command(flatten)]
    place: ObjectPlace,

    /// The object's name
    #[arg(allow_negative_numbers = true)]
    name: OsString,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Stat {
    pub(crate) fn run(&self) -> Result<()> {
        let failed = |error| in_database(&self.place.path, error);
        let (_db, object) = self.place.object(&self.name)?;
        let info = object.info().map_err(failed)?;
        let metadata = object.list_metadata().map_err(failed)?.len() as u64;
        let ObjectInfo { id, size, mtime, preference, access_pattern } = info;
        let (preference, pattern) = (name_of(preference), pattern_of(access_pattern));
        if self.json {
            return output::json(&json!({
                "id": id,
                "size": size,
                "mtime": time::to_nanosecond(mtime),
                "preference": preference,
                "access_pattern": pattern,
                "metadata": metadata,
            }));
        }
        let mut table = String::new();
        for (name, value) in [
            ("object", escape::to_text(&self.place.name(&self.name)?)),
            ("id", id.to_string()),
            ("size", format!("{} B ({})", grouped(size), human(size))),
            ("changed", time::to_nanosecond(mtime)),
            ("class", preference.to_owned()),
            ("access", pattern.to_owned()),
            ("metadata", count(metadata, "key")),
        ] {
            // A string takes every write.
            let _ = writeln!(table, "{name:<12}{value}");
        }
        output::text(&table)
    }
}

fn pattern_of(pattern: AccessPattern) -> &'static str {
    match pattern {
        AccessPattern::Unknown => "unknown",
        AccessPattern::ReadMostly => "read-mostly",
        AccessPattern::WriteMostly => "write-mostly",
        AccessPattern::Sequential => "sequential",
        AccessPattern::Random => "random",
    }
}
