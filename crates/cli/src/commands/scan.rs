//! `halite scan`.

use std::ops::Bound;
use std::path::PathBuf;

use clap::Args;
use halite::{Iter, KeyRange, KeySpace};
use serde_json::json;

use crate::folder::{find_space, in_database, open};
use crate::formats::Format;
use crate::interrupt::Interrupt;
use crate::place::{DEFAULT_SPACE, Escapes, Keys};
use crate::remote::{Server, ServerArgs, Wanted, need};
use crate::size::count;
use crate::values::Values;
use crate::{Result, output};

const EXAMPLES: &str = "\
Examples:
  halite scan ./data                                every key and value, in the order of the keys
  halite scan ./data --prefix user: --keys-only
  halite scan ./data --from 2024 --to 2025          from `2024` up to, not including, `2025`
  halite scan ./data --reverse --limit 10           the ten largest keys
  halite scan ./data --prefix user: --count
  halite scan ./data --snapshot monday              as it was, of an engine that keeps snapshots
  halite scan --server 127.0.0.1:6379/2 --prefix user:   of a server that has the database open
  halite scan ./data --json | jq .key

A line is a key, a tab and a value, with the escapes of `halite load --help`. With --json, a
line is an object {\"key\": ..., \"value\": ...}; what is not UTF-8 is `key_base64` or `value_base64`.

With --server, the keys are collected before the first is printed; one that is set meanwhile may be left out. Only
--keys-only lists keys that hold no strings, but hashes, lists and the like.";

/// List keys and values in order
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Scan {
    /// The database's folder
    #[arg(required_unless_present = "server", conflicts_with = "server")]
    path: Option<PathBuf>,

    /// The key space; the server serves `db0` as database 0
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SPACE, conflicts_with = "server")]
    space: String,

    #[command(flatten)]
    keys: Keys,

    /// From the largest key to the smallest
    #[arg(long)]
    reverse: bool,

    /// At most N keys
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Print no values
    #[arg(long)]
    keys_only: bool,

    /// Print only how many keys there are
    #[arg(long, conflicts_with = "keys_only")]
    count: bool,

    #[command(flatten)]
    escapes: Escapes,

    #[command(flatten)]
    server: ServerArgs,

    /// Read the key space as this snapshot of it has it, see `halite snapshot`
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    snapshot: Option<String>,

    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

impl Scan {
    pub(crate) fn run(&self) -> Result<()> {
        let range = self.keys.range(&self.escapes)?;
        let interrupt = Interrupt::catch()?;
        if let Some(server) = self.server.connect()? {
            return self.scan_server(server, range, &interrupt);
        }
        let path = need(self.path.as_ref(), "PATH")?;
        let db = open(path)?;
        let values = Values::of(&db)?;
        let failed = |error| in_database(path, error);
        let limit = self.limit.unwrap_or(usize::MAX);
        let pairs = match find_space(&db, &self.space)? {
            Some(space) => Some(self.pairs(&space, range).map_err(failed)?),
            None => None,
        };
        let mut pairs =
            pairs.into_iter().flatten().take(limit).take_while(|_| !interrupt.is_raised());
        if self.count {
            let count = pairs.try_fold(0_u64, |count, pair| pair.map(|_| count + 1));
            interrupt.check()?;
            return self.print_count(count.map_err(failed)?);
        }
        let format = if self.json { Format::Jsonl } else { Format::Tsv };
        let mut writer = format.writer(output::stdout());
        for pair in pairs {
            let (key, value) = pair.map_err(failed)?;
            let written = if self.keys_only {
                writer.write_key(&key)
            } else {
                writer.write(&key, values.plain(&self.space, &key, &value)?)
            };
            written.map_err(output::failed)?;
        }
        writer.flush().map_err(output::failed)?;
        interrupt.check()
    }

    /// Lists what a server has.
    fn scan_server(
        &self,
        mut server: Server,
        range: KeyRange,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let limit = self.limit.unwrap_or(usize::MAX);
        let prefix = self.keys.prefix(&self.escapes)?;
        let wanted = Wanted { range, prefix, reverse: self.reverse, limit };
        let keys = server.scan(&wanted, interrupt)?;
        if self.count {
            return self.print_count(keys.len() as u64);
        }
        let format = if self.json { Format::Jsonl } else { Format::Tsv };
        let mut writer = format.writer(output::stdout());
        let mut others = 0;
        if self.keys_only {
            keys.iter().try_for_each(|key| writer.write_key(key)).map_err(output::failed)?;
        } else {
            others = server.values(&keys, |key, value| {
                interrupt.check()?;
                writer.write(key, value).map_err(output::failed)
            })?;
        }
        writer.flush().map_err(output::failed)?;
        if others > 0 {
            let keys = count(others, "key");
            output::message(format_args!(
                "{keys} left out, which have no string, as hashes and lists have none, or are gone; --keys-only has them"
            ));
        }
        Ok(())
    }

    fn pairs(&self, space: &KeySpace, range: KeyRange) -> halite::Result<Iter> {
        let start = Bound::Included(range.start());
        let end = range.end().map_or(Bound::Unbounded, Bound::Excluded);
        let range = (start, end);
        match (&self.snapshot, self.reverse) {
            (None, false) => space.range::<&[u8]>(range),
            (None, true) => space.range_rev::<&[u8]>(range),
            (Some(name), false) => space.kept_snapshot(name)?.range::<&[u8]>(range),
            (Some(name), true) => space.kept_snapshot(name)?.range_rev::<&[u8]>(range),
        }
    }

    fn print_count(&self, count: u64) -> Result<()> {
        if self.json {
            output::json(&json!({ "count": count }))
        } else {
            output::text(&format!("{count}\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        scan: Scan,
    }

    fn range(arguments: &[&str]) -> KeyRange {
        let line = Line::parse_from([&["scan", "data"], arguments].concat());
        line.scan.keys.range(&line.scan.escapes).unwrap()
    }

    #[test]
    fn from_to_and_prefix_all_hold() {
        let key = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(range(&[]), KeyRange::all());
        assert_eq!(range(&["--prefix", "b"]), KeyRange::new(*b"b", key("c")));
        assert_eq!(range(&["--prefix", "b", "--from", "bx"]), KeyRange::new(*b"bx", key("c")));
        assert_eq!(range(&["--prefix", "b", "--to", "bx"]), KeyRange::new(*b"b", key("bx")));
        assert_eq!(range(&["--from", "a", "--to", "z"]), KeyRange::new(*b"a", key("z")));
        assert!(range(&["--prefix", "b", "--to", "a"]).is_empty());
        assert_eq!(range(&["-e", "--from", r"\x00"]), KeyRange::new(*b"\0", None));
    }
}
