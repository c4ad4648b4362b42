//! `halite snapshot receive`.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::PathBuf;

use clap::Args;
use halite::{Database, Feature, StreamInfo, TransferReport};
use serde_json::json;

use super::stream::{Kept, Named, counts};
use crate::folder::{check_folder, in_database, open_with};
use crate::interrupt::Interrupt;
use crate::values::{check_companions, check_form, check_not_note, prepare};
use crate::{Error, Result, escape, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite snapshot receive ./copy people.monday                   creates ./copy if there is none
  halite snapshot send ./data monday | halite snapshot receive ./copy
  halite snapshot receive ./copy people.tuesday --rollback       what was written in ./copy since monday is gone
  halite snapshot receive ./copy people.monday --space persons   under another name

All of a stream takes effect in one commit, with the snapshot, or nothing does. Changes are taken by a key space whose
newest snapshot is the one that they are based on. What was received of a stream that was interrupted (exit code 130), cut
off or damaged (exit code 4) stays until the rest is there: see `halite snapshot send --help`.";

/// Make a key space of a stream, or change it by one, from a file or standard input
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Receive {
    /// The database's folder
    path: PathBuf,

    /// The file with the stream; `-` or none: standard input
    file: Option<PathBuf>,

    /// The key space; without it, that which has the name of the one that was sent
    #[arg(long, value_name = "NAME")]
    space: Option<String>,

    /// Take a key space that has changed back to the snapshot that the changes are based on; newer snapshots go
    #[arg(long)]
    rollback: bool,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Receive {
    pub(crate) fn run(&self) -> Result<()> {
        let file = self.file.as_ref().filter(|file| file.as_os_str() != "-");
        let (name, reader, len): (_, Box<dyn Read>, _) = match file {
            None => ("standard input".to_owned(), Box::new(io::stdin().lock()), None),
            Some(path) => {
                let failed = |error| Error::io(path.display(), error);
                let file = File::open(path).map_err(failed)?;
                let metadata = file.metadata().map_err(failed)?;
                let len = metadata.is_file().then_some(metadata.len());
                let reader = BufReader::with_capacity(1 << 18, file);
                (path.display().to_string(), Box::new(reader), len)
            }
        };
        let interrupt = Interrupt::catch()?;
        let mut input = Named { name: &name, inner: interrupt.reader(reader) };
        check_folder(&self.path)?;
        let db = open_with(Database::builder().needs(Feature::Transfers), &self.path)?;
        let received = self.receive(&db, &mut input, len, &interrupt);
        let (space, info, report) = received.map_err(|error| match interrupt.is_raised() {
            true => Error::Stopped {
                left: "the key space is as it was; `halite snapshot token` asks for the rest",
            },
            false => error,
        })?;
        if self.json {
            return output::json(&json!({
                "space": space,
                "snapshot": info.snapshot,
                "from": info.from,
                "puts": report.puts,
                "deletes": report.deletes,
                "ranges": report.ranges,
                "bytes": report.bytes,
            }));
        }
        let (space, name) =
            (escape::to_text(space.as_bytes()), escape::to_text(info.snapshot.as_bytes()));
        output::text(&format!("{space}: snapshot `{name}`, {}\n", counts(&report)))
    }

    /// Receives the stream in the key space that it is for. Returns the name of that.
    fn receive(
        &self,
        db: &Database,
        input: &mut impl Read,
        len: Option<u64>,
        interrupt: &Interrupt,
    ) -> Result<(String, StreamInfo, TransferReport)> {
        let failed = |error| in_database(&self.path, error);
        let mut beginning = Kept { inner: &mut *input, bytes: Vec::new() };
        let info = db.stream_info(&mut beginning).map_err(failed)?;
        let beginning = beginning.bytes;
        let space = self.space.clone().unwrap_or_else(|| info.key_space.clone());
        check_not_note(&space)?;
        check_form(&info.key_space, &space)?;
        if let Some(space) = db.find_key_space(&space).map_err(failed)? {
            check_companions(db, &space, "the received values")?;
        }
        prepare(db, &space)?;
        let bar = progress::bytes("receiving", len);
        let mut input = Cursor::new(beginning).chain(input);
        let report = db.receive(&mut input, &space, self.rollback, &mut |done, _| {
            bar.set_position(done);
            interrupt.flow()
        });
        bar.finish_and_clear();
        Ok((space, info, report.map_err(failed)?))
    }
}
