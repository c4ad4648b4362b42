//! `halite snapshot send`.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use halite::{KeySpace, TransferReport};
use serde_json::json;

use super::stream::{Named, counts};
use super::with_space;
use crate::folder::in_database;
use crate::interrupt::Interrupt;
use crate::place::Place;
use crate::target::Target;
use crate::values::prepare;
use crate::{Error, Result, escape, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite snapshot send ./data monday --space people -o people.monday
  halite snapshot send ./data tuesday --space people --from monday | ssh host halite snapshot receive ./copy
  token=$(halite snapshot token ./copy --space people)
  halite snapshot send ./data tuesday --space people --resume $token | halite snapshot receive ./copy

Changes cost what was changed, and not what there is. A file appears when it is complete. A stream that was interrupted, or
was damaged on its way, goes on where its receiver came to: with the token that `halite snapshot token` prints there, and
the same --from as before. Times to live of a server's keys are in another key space, and are not sent.";

/// Write a snapshot, or the changes since an older one, to a file or standard output
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Send {
    #[command(flatten)]
    place: Place,

    /// The snapshot
    name: String,

    /// Only the changes since this snapshot
    #[arg(long, value_name = "NAME")]
    from: Option<String>,

    /// Only what the receiver lacks that printed this token
    #[arg(long, value_name = "TOKEN")]
    resume: Option<String>,

    /// The file to write; `-`: standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Print a JSON object, where a file is written
    #[arg(long)]
    json: bool,
}

impl Send {
    pub(crate) fn run(&self) -> Result<()> {
        let is_file = self.output.as_os_str() != "-";
        if !is_file && io::stdout().is_terminal() {
            let why = "a terminal shows no stream; name a file with -o, or a pipe";
            return Err(Error::input("standard output", why));
        }
        let interrupt = Interrupt::catch()?;
        with_space(&self.place, |db, space| {
            // Values without the server's tags would be taken for such with tags.
            prepare(db, space.name())?;
            match is_file {
                true => self.write_file(space, &interrupt),
                false => {
                    let mut out = output::stdout();
                    self.send(space, &mut out, "standard output", &interrupt)?;
                    Ok(())
                }
            }
        })
    }

    fn write_file(&self, space: &KeySpace, interrupt: &Interrupt) -> Result<()> {
        let target = Target::open(&self.output, &self.place.path)?;
        interrupt.remove_at_end(&target.part);
        let mut out = BufWriter::with_capacity(1 << 18, &target.file);
        let name = self.output.display().to_string();
        let sent = self.send(space, &mut out, &name, interrupt);
        let sent = sent.and_then(|report| target.name().map(|()| report));
        if sent.is_err() {
            target.give_up();
        }
        interrupt.keep();
        let report = sent?;
        if self.json {
            return output::json(&json!({
                "file": self.output.to_string_lossy(),
                "puts": report.puts,
                "deletes": report.deletes,
                "ranges": report.ranges,
                "bytes": report.bytes,
            }));
        }
        let snapshot = escape::to_text(self.name.as_bytes());
        output::text(&format!("{name}: snapshot `{snapshot}`, {}\n", counts(&report)))
    }

    fn send(
        &self,
        space: &KeySpace,
        out: &mut impl Write,
        name: &str,
        interrupt: &Interrupt,
    ) -> Result<TransferReport> {
        let bar = progress::bytes("sending", Some(0));
        let mut out = Named { name, inner: out };
        let (from, token) = (self.from.as_deref(), self.resume.as_deref());
        let sent = space.send(&self.name, from, token, &mut out, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
            interrupt.flow()
        });
        bar.finish_and_clear();
        let failed = |error| match interrupt.is_raised() {
            true => Error::Stopped { left: "the stream is not complete" },
            false => error,
        };
        let report = sent.map_err(|error| failed(in_database(&self.place.path, error)))?;
        out.inner.flush().map_err(|error| failed(Error::io(name, error)))?;
        Ok(report)
    }
}
