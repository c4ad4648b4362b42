//! `halite pool scrub` and `halite pool resilver`.

use std::time::Duration;

use clap::Args;
use halite::{Database, Progress, ScrubReport};

use super::{PoolPlace, report};
use crate::folder::in_database;
use crate::interrupt::Interrupt;
use crate::size::count;
use crate::{Error, Result, output, progress};

const SCRUB_EXAMPLES: &str = "\
Examples:
  halite pool scrub ./data                    read all replicas and parity of everything, and repair
  halite pool scrub ./data --json | jq .repaired
  halite pool scrub ./data || echo lost       exit code 4: something is lost on all devices

A scrub reads space in use only. One that was interrupted (exit code 130) goes on where it stopped when it is run again.
`halite check` reads one replica of everything, and compares the bitmaps with what is in use.";

const RESILVER_EXAMPLES: &str = "\
Examples:
  halite pool online ./data 0/0/1 && halite pool resilver ./data
  halite pool replace ./data 0/0/1 file:/ssd3/a && halite pool resilver ./data
  halite pool resilver ./data --json | jq .complete

It reads space in use only, and writes what the devices lack that were away, or are new. One that was interrupted (exit
code 130) goes on where it stopped when it is run again.";

/// How long a pass has to note where it stopped: it writes a checkpoint then.
const PATIENCE: Duration = Duration::from_secs(20);

/// Read everything on all devices of a pool, and repair what is damaged
#[derive(Debug, Args)]
#[command(after_help = SCRUB_EXAMPLES)]
pub(crate) struct Scrub {
    #[command(flatten)]
    pass: Pass,
}

/// Write what they lack to the devices of a pool that missed writes
#[derive(Debug, Args)]
#[command(after_help = RESILVER_EXAMPLES)]
pub(crate) struct Resilver {
    #[command(flatten)]
    pass: Pass,
}

impl Scrub {
    pub(crate) fn run(&self) -> Result<()> {
        let stopped = "the next scrub goes on where this one stopped";
        self.pass.run("scrubbing", stopped, |db, progress| db.scrub(progress))
    }
}

impl Resilver {
    pub(crate) fn run(&self) -> Result<()> {
        let stopped = "the next resilver goes on where this one stopped";
        self.pass.run("resilvering", stopped, |db, progress| db.resilver(progress))
    }
}

#[derive(Debug, Args)]
struct Pass {
    #[command(flatten)]
    place: PoolPlace,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Pass {
    fn run(
        &self,
        doing: &'static str,
        stopped: &'static str,
        pass: impl FnOnce(&Database, Progress<'_>) -> halite::Result<ScrubReport>,
    ) -> Result<()> {
        let interrupt = Interrupt::catch_for(PATIENCE, || ())?;
        let (db, _) = self.place.open()?;
        let path = &self.place.path;
        let bar = progress::bytes(doing, Some(0));
        let report = pass(&db, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
            interrupt.flow()
        });
        bar.finish_and_clear();
        let report = report.map_err(|error| in_database(path, error))?;
        if !report.is_complete && interrupt.is_raised() {
            return Err(Error::Stopped { left: stopped });
        }
        if self.json {
            output::json(&report::as_json(&report))?;
        } else {
            let (losses, summary) = (report::losses(&report), report::summary(&report));
            output::text(&format!("{losses}{}: {summary}\n", path.display()))?;
        }
        match report.lost {
            0 if report.is_complete => Ok(()),
            0 => {
                let why =
                    "a device did not take what it lacks; see `halite pool status`, and replace it";
                Err(Error::input(path.display(), why))
            }
            lost => {
                let parts = count(lost, "extent");
                Err(Error::DamageFound { path: path.clone(), parts })
            }
        }
    }
}
