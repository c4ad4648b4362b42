//! `halite get`.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use clap::Args;

use crate::folder::{find_space, in_database, open};
use crate::formats::write_json_bytes;
use crate::place::{Escapes, Place};
use crate::remote::{ServerArgs, need};
use crate::values::Values;
use crate::{Error, Result, escape, output};

const EXAMPLES: &str = "\
Examples:
  halite get ./data greeting                  print the value
  halite get ./docs bash/copyright > copy     the value's bytes, and nothing else
  halite get ./data 'row\\x00\\x01' -e          a key that is not text
  halite get ./data greeting --json           {\"key\":\"greeting\",\"value\":\"hello\"}
  halite get ./data greeting --snapshot monday     as it was, of an engine that keeps snapshots
  halite get --server 127.0.0.1:6379 greeting of a server that has the database open
  halite get ./data greeting || echo none     exit code 3: there is no such key

With --json, a key or value that is not UTF-8 is `key_base64` or `value_base64`.";

/// Print the value of a key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    #[command(flatten)]
    place: Place,

    /// The key; with --server, the first argument
    #[arg(
        allow_negative_numbers = true,
        required_unless_present = "server",
        conflicts_with = "server"
    )]
    key: Option<OsString>,

    #[command(flatten)]
    escapes: Escapes,

    #[command(flatten)]
    server: ServerArgs,

    /// Read the key space as this snapshot of it has it, see `halite snapshot`
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    snapshot: Option<String>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Get {
    pub(crate) fn run(&self) -> Result<()> {
        if let Some(mut server) = self.server.connect_in(&self.place)? {
            let key = self.escapes.key(self.place.first())?;
            let value = server.get(&key)?.ok_or_else(|| Error::NoKey {
                path: server.address().into(),
                space: server.space(),
                key: escape::to_text(&key),
            })?;
            return self.print(&key, &value).map_err(output::failed);
        }
        let key = self.escapes.key(need(self.key.as_ref(), "KEY")?)?;
        let db = open(&self.place.path)?;
        let value = match find_space(&db, &self.place.space)? {
            Some(space) => {
                let value = match &self.snapshot {
                    Some(name) => space.kept_snapshot(name).and_then(|space| space.get(&key)),
                    None => space.get(&key),
                };
                value.map_err(|error| in_database(&self.place.path, error))?
            }
            None => None,
        };
        let value = value.ok_or_else(|| Error::NoKey {
            path: self.place.path.clone(),
            space: self.place.space.clone(),
            key: escape::to_text(&key),
        })?;
        let value = Values::of(&db)?.plain(&self.place.space, &key, &value)?;
        self.print(&key, value).map_err(output::failed)
    }

    fn print(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let mut out = output::stdout();
        if self.json {
            out.write_all(b"{")?;
            write_json_bytes(&mut out, "key", key)?;
            out.write_all(b",")?;
            write_json_bytes(&mut out, "value", value)?;
            out.write_all(b"}\n")?;
        } else {
            out.write_all(value)?;
            if io::stdout().is_terminal() && !value.ends_with(b"\n") {
                out.write_all(b"\n")?;
            }
        }
        out.flush()
    }
}
