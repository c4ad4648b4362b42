//! `halite lab crash`.

use clap::Args;
use halite_lab::{Report, explore};
use serde_json::json;

use super::report::{Table, findings_json, lints_json, numbers};
use super::{Bench, show};
use crate::size::count;
use crate::{Error, Result, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite lab crash                               a minute, under all rules
  halite lab crash --seed 7 --budget 10m         the same histories, and more of them
  halite lab crash --rules memory --json
  halite lab crash --replay indexlog-few:memory:1f2e3d:120.3/8.1
  halite lab crash --replay alloc:memory:1f2e3d:35.0 --without fence@crates/shared/alloc/src/table.rs:98

Histories are made from the seed; the power is cut at every event of each after which something else
may be left; the engine comes back from what may be left, is compared with what it had acknowledged,
and is crashed again while it recovers. Of few images all are looked at, of many a sample.

Ctrl-C ends it with the summary so far.

Exit codes: 0 nothing found, 5 a violation, 130 interrupted without one.
With --replay: 0 the case is well, 5 it is a violation, 1 there is no such case.";

/// Cut the power at every event of many histories, and check the recovered states
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Crash {
    #[command(flatten)]
    bench: Bench,

    /// Look at this case alone, and tell how it comes about
    #[arg(long, value_name = "CASE", conflicts_with_all = ["seed", "budget", "rules", "threads"])]
    replay: Option<String>,

    /// Replay with this request left out, as `halite lab mutate` prints it
    #[arg(long, value_name = "REQUEST@PLACE", requires = "replay")]
    without: Option<String>,
}

impl Crash {
    pub(super) fn run(&self) -> Result<()> {
        match &self.replay {
            Some(case) => self.bench.replay(case, self.without.as_deref()),
            None => self.explore(),
        }
    }

    fn explore(&self) -> Result<()> {
        let bench = &self.bench;
        let plan = bench.plan()?;
        let bar = progress::lab();
        let report = explore(&plan, &bench.jobs(), &show(&bar, "crashing"));
        bar.finish_and_clear();
        let Report { tally, lints, findings, elapsed, .. } = &report;
        if bench.json {
            let mut object = numbers(bench, &plan, tally, *elapsed);
            object["interrupted"] = report.is_interrupted.into();
            object["violations"] = findings_json(findings);
            object["unfinished"] = json!(report.unfinished);
            object["lints"] = lints_json(lints);
            output::json(&object)?;
        } else {
            let mut table = Table::new(&plan, bench, *elapsed);
            table.tally(&plan, tally, *elapsed);
            table.findings(bench, findings, report.is_interrupted)?;
            table.unfinished(&report.unfinished);
            table.lints(lints);
            output::text(&table.into_text())?;
        }
        match findings.len() {
            0 if report.is_interrupted => Err(Error::LabInterrupted),
            0 => Ok(()),
            found => Err(Error::LabFound {
                found: format!("{} found", count(found as u64, "violation")),
            }),
        }
    }
}
