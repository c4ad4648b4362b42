//! `halite tail`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use halite::{Change, ChangeOp, Database, KeySpaceId};
use serde_json::{Map, Value, json};

use crate::escape;
use crate::folder::{in_database, open};
use crate::interrupt::Interrupt;
use crate::values::Values;
use crate::{Error, Result, output};

const EXAMPLES: &str = "\
Examples:
  halite tail ./data                      every change that the change log retains
  halite tail ./data --from 0:1042,1:877  what came after those positions
  halite tail ./data --json | jq .ops[]

Of each partition in turn, a line is a position, as PARTITION:NUMBER, and what was changed: `create
SPACE`, `drop SPACE`, `put SPACE KEY VALUE`, `superseded SPACE KEY` (a large value that a later change
replaced), `delete SPACE KEY`, `delete-range SPACE START [END]`, separated by tabs, with the escapes of
`halite load --help`. The operations of one write have one position. What --from names is a position
that was printed: the output goes on behind it. Partitions that it does not name begin with the oldest
change.

The database must have been made with a change log: `halite load --change-log` or `halite serve
--change-log`. This reads a folder that no process has open, so nothing can be added meanwhile and there
is nothing to follow: a program that has the database open follows it with `Database::changes`. A server does not
send its change log over the protocol: --server and --follow are refused. What was changed since a backup comes with
`halite backup --server HOST:PORT FILE --since BACKUP`.";

/// Print the changes of a database in the order in which they happened
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tail {
    /// The database's folder
    #[arg(required_unless_present_any = ["server", "follow"])]
    path: Option<PathBuf>,

    /// Is refused: no server sends its change log
    #[arg(long, value_name = "HOST:PORT[/DB]")]
    server: Option<String>,

    /// Is refused: nothing is added to a folder that no process has open
    #[arg(long)]
    follow: bool,

    /// Begin behind these positions
    #[arg(long, value_name = "P:N", value_delimiter = ',', value_parser = position)]
    from: Vec<(usize, u64)>,

    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

impl Tail {
    pub(crate) fn run(&self) -> Result<()> {
        if let Some(address) = &self.server {
            let why = "the change log is not sent over the protocol; stop the server and name its folder, or have \
                       what was changed since a backup with `halite backup --server ... --since`";
            return Err(Error::input(address, why));
        }
        let path = match &self.path {
            Some(path) if !self.follow => path,
            _ => {
                let why = "--follow: nothing is added to a folder that no process has open; in the program that has \
                           it open, `Database::changes` follows";
                return Err(Error::Usage(why.into()));
            }
        };
        let interrupt = Interrupt::catch()?;
        let db = open(path)?;
        if let Some((partition, _)) = self.from.iter().find(|(at, _)| *at >= db.partitions()) {
            return Err(Error::Usage(format!(
                "--from names partition {partition}; {} has {}, numbered from 0",
                path.display(),
                db.partitions()
            )));
        }
        let mut names = Names::of(&db).map_err(|error| in_database(path, error))?;
        let values = Values::of(&db)?;
        let mut out = output::stdout();
        for partition in 0..db.partitions() {
            self.print(&db, partition, (&mut names, &values), &interrupt, &mut out)?;
        }
        out.flush().map_err(output::failed)
    }

    fn print(
        &self,
        db: &Database,
        partition: usize,
        (names, values): (&mut Names, &Values),
        interrupt: &Interrupt,
        out: &mut impl Write,
    ) -> Result<()> {
        let failed = |error| in_database(db.path(), error);
        let named = self.from.iter().find(|(of, _)| *of == partition);
        let oldest = db.change_positions(partition).map_err(failed)?.start;
        let from = named.map_or(oldest, |(_, position)| *position);
        for change in db.changes(partition, from).map_err(failed)? {
            interrupt.check()?;
            let mut change = change.map_err(failed)?;
            names.learn(&change);
            names.take_tags(&mut change, values)?;
            if change.ops.is_empty() {
                continue;
            }
            if self.json {
                let line = as_json(partition, &change, names);
                writeln!(out, "{line}").map_err(output::failed)?;
            } else {
                write_lines(out, partition, &change, names).map_err(output::failed)?;
            }
        }
        Ok(())
    }
}

/// `PARTITION:NUMBER`.
fn position(text: &str) -> std::result::Result<(usize, u64), String> {
    let parsed = text
        .split_once(':')
        .and_then(|(partition, number)| Some((partition.parse().ok()?, number.parse().ok()?)));
    parsed.ok_or_else(|| "a position is PARTITION:NUMBER, such as 0:1042".to_owned())
}

/// The names of key spaces, as far as they are known.
struct Names(BTreeMap<KeySpaceId, String>);

impl Names {
    fn of(db: &Database) -> halite::Result<Self> {
        let spaces = db.key_spaces()?;
        Ok(Self(spaces.iter().map(|space| (space.id(), space.name().to_owned())).collect()))
    }

    fn learn(&mut self, change: &Change) {
        for op in &change.ops {
            if let ChangeOp::CreateKeySpace { space, name } = op {
                self.0.insert(*space, name.clone());
            }
        }
    }

    /// Takes the tags off the values of a change.
    fn take_tags(&self, change: &mut Change, values: &Values) -> Result<()> {
        for op in &mut change.ops {
            if let ChangeOp::Put { space, key, value } = op {
                let plain_len = values.plain(&self.name(*space), key, value)?.len();
                value.drain(..value.len() - plain_len);
            }
        }
        Ok(())
    }

    /// The name of a key space; its number if it was dropped before the first change.
    fn name(&self, space: KeySpaceId) -> String {
        self.0.get(&space).cloned().unwrap_or_else(|| format!("#{}", space.0))
    }
}

/// The name of an operation, its key space, and the rest.
fn parts<'a>(op: &'a ChangeOp, names: &Names) -> (&'static str, String, Vec<&'a [u8]>) {
    match op {
        ChangeOp::CreateKeySpace { name, .. } => ("create", name.clone(), vec![]),
        ChangeOp::DropKeySpace { name } => ("drop", name.clone(), vec![]),
        ChangeOp::Put { space, key, value } => ("put", names.name(*space), vec![key, value]),
        ChangeOp::Superseded { space, key } => ("superseded", names.name(*space), vec![key]),
        ChangeOp::Delete { space, key } => ("delete", names.name(*space), vec![key]),
        ChangeOp::DeleteRange { space, start, end } => {
            let range = std::iter::once(start).chain(end).map(Vec::as_slice);
            ("delete-range", names.name(*space), range.collect())
        }
        _ => ("other", String::new(), vec![]),
    }
}

fn write_lines(
    out: &mut impl Write,
    partition: usize,
    change: &Change,
    names: &Names,
) -> std::io::Result<()> {
    for op in &change.ops {
        let (what, space, rest) = parts(op, names);
        write!(out, "{partition}:{}\t{what}\t", change.position)?;
        escape::write(out, space.as_bytes())?;
        for bytes in rest {
            out.write_all(b"\t")?;
            escape::write(out, bytes)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn as_json(partition: usize, change: &Change, names: &Names) -> Value {
    let op = |op: &ChangeOp| {
        let (what, space, rest) = parts(op, names);
        let fields: &[&str] = match op {
            ChangeOp::DeleteRange { .. } => &["start", "end"],
            _ => &["key", "value"],
        };
        let mut object = Map::new();
        object.insert("op".to_owned(), json!(what));
        object.insert("space".to_owned(), json!(space));
        for (field, bytes) in fields.iter().zip(rest) {
            match std::str::from_utf8(bytes) {
                Ok(text) => object.insert((*field).to_owned(), json!(text)),
                Err(_) => object.insert(format!("{field}_base64"), json!(STANDARD.encode(bytes))),
            };
        }
        Value::Object(object)
    };
    let ops: Vec<_> = change.ops.iter().map(op).collect();
    json!({ "partition": partition, "position": change.position, "ops": ops })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read() {
        assert_eq!(position("3:1042"), Ok((3, 1042)));
        for text in ["", "3", ":", "3:", "a:1", "1:-1"] {
            assert!(position(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_operation_has_its_line() {
        let space = KeySpaceId(4);
        let names = Names(BTreeMap::from([(space, "db0".to_owned())]));
        let ops = vec![
            ChangeOp::CreateKeySpace { space, name: "db0".to_owned() },
            ChangeOp::Put { space, key: b"k\t".to_vec(), value: vec![0xff] },
            ChangeOp::Delete { space: KeySpaceId(9), key: b"k".to_vec() },
            ChangeOp::DeleteRange { space, start: b"a".to_vec(), end: None },
        ];
        let change = Change { position: 7, ops };
        let mut out = Vec::new();
        write_lines(&mut out, 1, &change, &names).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "1:7\tcreate\tdb0\n1:7\tput\tdb0\tk\\t\t\\xff\n1:7\tdelete\t#9\tk\n\
             1:7\tdelete-range\tdb0\ta\n"
        );
        let json = as_json(1, &change, &names);
        assert_eq!(
            (&json["position"], &json["ops"][1]["value_base64"]),
            (&json!(7), &json!("/w=="))
        );
        assert_eq!(json["ops"][3], json!({ "op": "delete-range", "space": "db0", "start": "a" }));
    }
}
