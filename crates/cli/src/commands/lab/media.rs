//! `halite lab media`.

use clap::Args;
use halite_lab::{Answers, MediaTally, Report, explore};
use serde_json::{Value, json};

use super::report::{Table, findings_json};
use super::{Bench, show};
use crate::size::{count, grouped};
use crate::{Error, Result, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite lab media                               a minute
  halite lab media --seed 7 --budget 10m
  halite lab media --json | jq .faults
  halite lab media --replay indexlog-few:media:1f2e3d:7

A store is closed, or its process killed, and then the medium gives back something else than what was
stored: a flipped bit, a zeroed or stale line or block, a shorter file, superblock copies that changed
places. The store must name the damage or return the right data.

Ctrl-C ends it with the summary so far.

Exit codes: 0 nothing found, 5 wrong data, a panic or an error without a name, 130 interrupted.
With --replay: 0 the case is well, 5 it is a violation, 1 there is no such case.";

/// Damage closed and killed stores, and check whether they notice
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Media {
    #[command(flatten)]
    bench: Bench,

    /// Look at this case alone, and tell how it comes about
    #[arg(long, value_name = "CASE", conflicts_with_all = ["seed", "budget", "threads"])]
    replay: Option<String>,
}

impl Media {
    pub(super) fn run(&self) -> Result<()> {
        match &self.replay {
            Some(case) => self.bench.replay(case, None),
            None => self.strike(),
        }
    }

    fn strike(&self) -> Result<()> {
        let bench = &self.bench;
        let plan = bench.plan()?;
        let bar = progress::lab();
        let report = explore(&plan, &bench.media_jobs()?, &show(&bar, "striking"));
        bar.finish_and_clear();
        let Report { tally, findings, elapsed, .. } = &report;
        let MediaTally { histories, strikes, faults } = &tally.media;
        let rate = strikes.total() as f64 / elapsed.as_secs_f64().max(1e-9);
        if bench.json {
            let faults: serde_json::Map<String, Value> = faults
                .iter()
                .map(|(kind, answers)| (kind.name().to_owned(), answers_json(answers)))
                .collect();
            output::json(&json!({
                "engine": bench.engine,
                "seed": format!("{:x}", plan.seed),
                "threads": plan.threads,
                "seconds": elapsed.as_secs_f64(),
                "histories": histories,
                "strikes": answers_json(strikes),
                "strikes_per_second": rate,
                "faults": faults,
                "interrupted": report.is_interrupted,
                "violations": findings_json(findings),
                "unfinished": report.unfinished,
            }))?;
        } else {
            let mut table = Table::new(&plan, bench, *elapsed);
            table.row("histories", grouped(*histories));
            let total = grouped(strikes.total());
            table.row("strikes", format!("{total}, {} a second", grouped(rate as u64)));
            table.findings(bench, findings, report.is_interrupted)?;
            table.unfinished(&report.unfinished);
            table.line(format!(
                "\n{:<24}{:>10}{:>10}{:>10}{:>10}{:>10}",
                "fault", "refused", "named", "verified", "right", "cut"
            ));
            for (kind, answers) in faults {
                table.line(row(kind.name(), answers));
            }
            table.line(row("all", strikes));
            table.line(
                "\nrefused: did not open, and named the damage; named: when it was read; verified:\n\
                 all data was right, and `verify` named the damage; cut: right but for the last,\n\
                 unproven writes before a kill",
            );
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

fn row(name: &str, answers: &Answers) -> String {
    let Answers { refused, named, found, right, shortened } = *answers;
    let [refused, named, found, right, shortened] =
        [refused, named, found, right, shortened].map(grouped);
    format!("{name:<24}{refused:>10}{named:>10}{found:>10}{right:>10}{shortened:>10}")
}

fn answers_json(answers: &Answers) -> Value {
    json!({
        "total": answers.total(),
        "refused": answers.refused,
        "named": answers.named,
        "verified": answers.found,
        "right": answers.right,
        "cut": answers.shortened,
    })
}
