//! `halite lab mutate`.

use clap::Args;
use halite_lab::{Score, Verdict, mutate, place};
use serde_json::{Value, json};

use super::report::{Table, findings_json, numbers};
use super::{Bench, show};
use crate::size::{count, grouped};
use crate::{Error, Result, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite lab mutate                          a minute, under all rules
  halite lab mutate --rules memory --budget 10m
  halite lab mutate --json | jq '.mutants[] | select(.caught == null)'

Every place that asks for a flush, a fence or a sync is switched off by itself, and the lab looks for a
crash that shows it. It ends when all are caught, or with the budget, which the survivors share. A
survivor is a request that nobody needs, or a hole in the lab.

Ctrl-C ends it with the summary so far.

Exit codes: 0 all are caught, 5 a survivor or a violation, 130 interrupted.";

/// Leave out each flush, fence and sync in turn, and see whether it is noticed
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Mutate {
    #[command(flatten)]
    bench: Bench,
}

impl Mutate {
    pub(super) fn run(&self) -> Result<()> {
        let bench = &self.bench;
        let plan = bench.plan()?;
        let bar = progress::lab();
        let score = mutate(&plan, &bench.jobs(), &|_| true, &show(&bar, "caught"));
        bar.finish_and_clear();
        let Score { verdicts, findings, tally, elapsed, .. } = &score;
        let (caught, all) = (score.caught(), verdicts.len());
        if bench.json {
            let mut object = numbers(bench, &plan, tally, *elapsed);
            object["interrupted"] = score.is_interrupted.into();
            object["mutants"] = verdicts.iter().map(verdict_json).collect();
            object["caught"] = caught.into();
            object["score"] = percent(caught, all).into();
            object["violations"] = findings_json(findings);
            object["unfinished"] = json!(score.unfinished);
            output::json(&object)?;
        } else {
            let mut table = Table::new(&plan, bench, *elapsed);
            table.tally(&plan, tally, *elapsed);
            table.row(
                "mutation score",
                match percent(caught, all) {
                    Some(percent) => format!("{percent:.1}%: {caught} of {all} caught"),
                    None => "no mutants were found in this time".to_owned(),
                },
            );
            table.findings(bench, findings, score.is_interrupted)?;
            table.unfinished(&score.unfinished);
            if all > 0 {
                table.line("\nmutants; a caught one is replayed by");
                table.line("  halite lab crash --replay CASE --without REQUEST@PLACE");
            }
            verdicts.iter().for_each(|verdict| table.line(row(verdict)));
            output::text(&table.into_text())?;
        }
        outcome(&score)
    }
}

fn outcome(score: &Score) -> Result<()> {
    let survivors = score.verdicts.len() - score.caught();
    match (score.findings.len(), survivors) {
        (0, _) if score.is_interrupted => Err(Error::LabInterrupted),
        (0, 0) if score.verdicts.is_empty() => Err(Error::LabFound {
            found: "no mutants were found in this time; give a larger --budget".to_owned(),
        }),
        (0, 0) => Ok(()),
        (0, _) => Err(Error::LabFound {
            found: format!("{} not caught", count(survivors as u64, "mutant")),
        }),
        (violations, _) => Err(Error::LabFound {
            found: format!(
                "{} found although nothing was left out; look at it first",
                count(violations as u64, "violation")
            ),
        }),
    }
}

fn percent(caught: usize, all: usize) -> Option<f64> {
    (all > 0).then(|| caught as f64 / all as f64 * 100.0)
}

fn row(verdict: &Verdict) -> String {
    let mutant = verdict.mutant;
    let fate = match &verdict.caught {
        Some(finding) => finding.case.clone(),
        None => format!(
            "SURVIVES {} in {:.1} s",
            if verdict.histories == 1 {
                "1 history".to_owned()
            } else {
                format!("{} histories", grouped(verdict.histories))
            },
            verdict.time.as_secs_f64()
        ),
    };
    format!("  {:<56}{fate}", mutant.to_string())
}

fn verdict_json(verdict: &Verdict) -> Value {
    let mutant = verdict.mutant;
    json!({
        "request": mutant.request.name(),
        "place": place(mutant.site),
        "caught": verdict.caught.as_ref().map(|finding| &finding.case),
        "what": verdict.caught.as_ref().map(|finding| &finding.what),
        "histories": verdict.histories,
        "seconds": verdict.time.as_secs_f64(),
    })
}
