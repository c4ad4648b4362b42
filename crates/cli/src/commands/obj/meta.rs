//! `halite obj meta`.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;

use clap::{Args, Subcommand};

use crate::folder::in_database;
use crate::formats::{Format, read_value};
use crate::objects::ObjectPlace;
use crate::{Error, Result, escape, output};

const EXAMPLES: &str = "\
Examples:
  halite obj meta set ./data photos/beach camera X100
  date | halite obj meta set ./data photos/beach taken     the value from standard input
  halite obj meta get ./data photos/beach camera           exit code 3: there is none
  halite obj meta ls ./data photos/beach --json
  halite obj meta rm ./data photos/beach camera

Metadata is keys and values, of any bytes, that belong to an object: they follow it to another name, and go with it.";

const LS_EXAMPLES: &str = "\
Examples:
  halite obj meta ls ./data photos/beach
  halite obj meta ls ./data photos/beach --json      {\"key\":\"camera\",\"value\":\"X100\"}

A line is a key, a tab and a value, with the escapes of `halite load --help`.";

const GET_EXAMPLES: &str = "\
Examples:
  halite obj meta get ./data photos/beach camera
  halite obj meta get ./data photos/beach camera || echo none      exit code 3";

const SET_EXAMPLES: &str = "\
Examples:
  halite obj meta set ./data photos/beach camera X100
  halite obj meta set ./data photos/beach thumbnail < small.jpg";

const RM_EXAMPLES: &str = "\
Examples:
  halite obj meta rm ./data photos/beach camera      a key that is not there counts as removed";

/// Read and set the metadata of an object
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Meta {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List keys and values
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        #[command(flatten)]
        of: Of,

        /// Print JSON objects
        #[arg(long)]
        json: bool,
    },
    /// Print a value
    #[command(after_help = GET_EXAMPLES)]
    Get {
        #[command(flatten)]
        of: Of,

        /// The key
        #[arg(allow_negative_numbers = true)]
        key: OsString,
    },
    /// Set a value
    #[command(after_help = SET_EXAMPLES)]
    Set {
        #[command(flatten)]
        of: Of,

        /// The key
        #[arg(allow_negative_numbers = true)]
        key: OsString,

        /// The value; `-` or none: from standard input
        #[arg(allow_negative_numbers = true)]
        value: Option<OsString>,
    },
    /// Remove a key
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        #[command(flatten)]
        of: Of,

        /// The key
        #[arg(allow_negative_numbers = true)]
        key: OsString,
    },
}

/// An object.
#[derive(Debug, Args)]
struct Of {
    #[command(flatten)]
    place: ObjectPlace,

    /// The object's name
    #[arg(allow_negative_numbers = true)]
    name: OsString,
}

impl Meta {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.action {
            Action::Ls { of, json } => of.list(*json),
            Action::Get { of, key } => of.get(&of.place.escapes.key(key)?),
            Action::Set { of, key, value } => {
                let key = of.place.escapes.key(key)?;
                let value = match value {
                    Some(value) if value != "-" => value.as_bytes().to_vec(),
                    _ => read_value(io::stdin().lock())
                        .map_err(|error| Error::io("standard input", error))?,
                };
                let (_db, object) = of.place.object(&of.name)?;
                let set = object.set_metadata(&key, &value);
                set.map_err(|error| in_database(&of.place.path, error))
            }
            Action::Rm { of, key } => {
                let key = of.place.escapes.key(key)?;
                let (_db, object) = of.place.object(&of.name)?;
                let removed = object.delete_metadata(&key);
                removed.map_err(|error| in_database(&of.place.path, error))
            }
        }
    }
}

impl Of {
    fn list(&self, json: bool) -> Result<()> {
        let (_db, object) = self.place.object(&self.name)?;
        let pairs = object.list_metadata();
        let pairs = pairs.map_err(|error| in_database(&self.place.path, error))?;
        let format = if json { Format::Jsonl } else { Format::Tsv };
        let mut writer = format.writer(output::stdout());
        for (key, value) in pairs {
            writer.write(&key, &value).map_err(output::failed)?;
        }
        writer.flush().map_err(output::failed)
    }

    fn get(&self, key: &[u8]) -> Result<()> {
        let (_db, object) = self.place.object(&self.name)?;
        let value = object.metadata(key);
        let value = value.map_err(|error| in_database(&self.place.path, error))?;
        let value = value.ok_or_else(|| Error::NoMetadata {
            key: escape::to_text(key),
            name: escape::to_text(self.name.as_bytes()),
        })?;
        let mut out = output::stdout();
        let mut write = || {
            out.write_all(&value)?;
            if io::stdout().is_terminal() && !value.ends_with(b"\n") {
                out.write_all(b"\n")?;
            }
            out.flush()
        };
        write().map_err(output::failed)
    }
}
