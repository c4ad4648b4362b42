//! `halite tail`: of a folder here, of a running server in [`server`], and [`print`] has the lines.

mod print;
mod server;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use halite::Database;

use self::print::{Names, Printer};
use crate::folder::{in_database, open};
use crate::interrupt::Interrupt;
use crate::remote::ServerArgs;
use crate::values::Values;
use crate::{Error, Result, output};

const EXAMPLES: &str = "\
Examples:
  halite tail ./data                      every change that the change log retains
  halite tail ./data --from 0:1042,1:877  what came after those positions
  halite tail ./data --json | jq .ops[]
  halite tail --server 127.0.0.1:6379     of a server that has the database open, up to now
  halite tail --server 127.0.0.1:6379 --follow            ... and what comes, until Ctrl-C
  halite tail --server unix:/run/halite.sock --follow --from 0:1042

Of each partition in turn, a line is a position, as PARTITION:NUMBER, and what was changed: `create
SPACE`, `drop SPACE`, `put SPACE KEY VALUE`, `superseded SPACE KEY` (a large value that a later change
replaced), `delete SPACE KEY`, `delete-range SPACE START [END]`, separated by tabs, with the escapes of
`halite load --help`. A server's collection is `put-list`, `put-set`, `put-zset`, `put-hash` or
`put-stream`, with its stored bytes; the elements of a larger one are keys of `db<N>:elements`. The
operations of one write have one position. --from names a position that was printed: the output goes on
behind it. Partitions that it does not name begin with the oldest change. Positions stay the same when the server is started again.

The database must have been made with a change log: `halite load --change-log` or `halite serve
--change-log`. A change log retains so many bytes: if a position was released before it was read, this
says so and ends.

With --server, the server sends what is durable, a piece for each request: one that is read slowly keeps
nothing for it. --follow asks again some ten times a second, and goes on until it is interrupted, or the
server ends; then it says where to go on. A user needs the right to HALITE.CHANGES, which is among the
@admin and @dangerous ones. Without --server this reads a folder that no process has open, so there is
nothing to follow.";

/// Print the changes of a database in the order in which they happened
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tail {
    /// The database's folder
    #[arg(required_unless_present = "server", conflicts_with = "server")]
    path: Option<PathBuf>,

    #[command(flatten)]
    server: ServerArgs,

    /// With --server: when everything is printed, go on with what comes
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
        if self.follow && !self.server.is_given() {
            let why = "--follow: nothing is added to a folder that no process has open; follow a server by --server, \
                       or, in a program that has the database open, `Database::changes`";
            return Err(Error::Usage(why.into()));
        }
        let interrupt = Interrupt::catch()?;
        match (self.server.connect_to_all("tail")?, &self.path) {
            (Some(server), _) => self.print_server(server, &interrupt),
            (None, Some(path)) => self.print_folder(&open(path)?, &interrupt),
            (None, None) => Err(Error::Usage("name the folder, or a server".into())),
        }
    }

    /// Refuses positions of partitions that are not there.
    fn check_from(&self, name: &str, partitions: usize) -> Result<()> {
        match self.from.iter().find(|(at, _)| *at >= partitions) {
            Some((partition, _)) => Err(Error::Usage(format!(
                "--from names partition {partition}; {name} has {partitions}, numbered from 0"
            ))),
            None => Ok(()),
        }
    }

    /// The position to begin behind, if one is named.
    fn named(&self, partition: usize) -> Option<u64> {
        self.from.iter().find(|(of, _)| *of == partition).map(|(_, position)| *position)
    }

    fn print_folder(&self, db: &Database, interrupt: &Interrupt) -> Result<()> {
        self.check_from(&db.path().display().to_string(), db.partitions())?;
        let failed = |error| in_database(db.path(), error);
        let spaces = db.key_spaces().map_err(failed)?;
        let names = Names::new(spaces.iter().map(|space| (space.id(), space.name().to_owned())));
        let mut printer = Printer { names, values: Values::of(db)?, as_json: self.json };
        let mut out = output::stdout();
        for partition in 0..db.partitions() {
            let oldest = db.change_positions(partition).map_err(failed)?.start;
            let from = self.named(partition).unwrap_or(oldest);
            for change in db.changes(partition, from).map_err(failed)? {
                interrupt.check()?;
                printer.print(&mut out, partition, change.map_err(failed)?)?;
            }
        }
        out.flush().map_err(output::failed)
    }
}

/// `PARTITION:NUMBER`.
fn position(text: &str) -> std::result::Result<(usize, u64), String> {
    let parsed = text
        .split_once(':')
        .and_then(|(partition, number)| Some((partition.parse().ok()?, number.parse().ok()?)));
    parsed.ok_or_else(|| "a position is PARTITION:NUMBER, such as 0:1042".to_owned())
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
}
