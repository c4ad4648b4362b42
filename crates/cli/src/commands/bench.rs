//! `halite bench`.

use std::io::{self, Write};

use clap::Args;
use halite_bench::command::{Command, EXAMPLES, Program};

use crate::interrupt::Interrupt;
use crate::{Error, Result, output};

/// Measure the medium, the building blocks and whole stores
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: Command,
}

impl Bench {
    pub(crate) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        interrupt.at_end(halite_bench::remove_scratch);
        let interrupted = interrupt.flag();
        let mut out = output::stdout();
        let mut program = Program { peers: &(), out: &mut out, interrupted: &interrupted };
        let outcome = self.command.run(&mut program);
        out.flush().map_err(output::failed)?;
        Ok(outcome?)
    }
}

impl From<halite_bench::Error> for Error {
    fn from(error: halite_bench::Error) -> Self {
        use halite_bench::Error as Bench;
        match error {
            Bench::Interrupted => Self::BenchInterrupted,
            Bench::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                Self::OutputClosed
            }
            Bench::Unknown { .. } | Bench::PeerApart { .. } | Bench::Wrong { .. } => {
                Self::Usage(format!("bench: {error}"))
            }
            error => Self::input("bench", error),
        }
    }
}
