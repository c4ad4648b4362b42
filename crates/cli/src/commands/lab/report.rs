//! The output of experiments.

use std::fmt::Write;
use std::time::{Duration, Instant};

use halite_lab::{Finding, Lints, Plan, Tally, place};
use serde_json::{Value, json};

use super::{Bench, not_replayed};
use crate::Result;
use crate::size::{count, grouped};

/// Lines of a story that a summary shows.
const STORY_MAX: usize = 30;

/// How long stories are printed once the budget is spent: a twentieth of it, and at most so long.
const STORIES_MAX: Duration = Duration::from_secs(1);

/// The summary of an experiment, as text.
pub(super) struct Table(String);

impl Table {
    pub(super) fn new(plan: &Plan, bench: &Bench, elapsed: Duration) -> Self {
        let mut table = Self(String::new());
        table.row("engine", &bench.engine);
        table.row("rules", bench.rules.0.iter().map(|r| r.name()).collect::<Vec<_>>().join(", "));
        table.row("seed", format!("{:x}", plan.seed));
        let threads = count(plan.threads as u64, "thread");
        table.row("time", format!("{:.1} s on {threads}", elapsed.as_secs_f64()));
        table
    }

    pub(super) fn row(&mut self, name: &str, value: impl AsRef<str>) {
        self.line(format!("{name:<18}{}", value.as_ref()));
    }

    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        // A string takes every write.
        let _ = writeln!(self.0, "{}", line.as_ref().trim_end());
    }

    pub(super) fn tally(&mut self, plan: &Plan, tally: &Tally, elapsed: Duration) {
        self.row("histories", grouped(tally.histories));
        let complete = grouped(tally.complete_points);
        let points = grouped(tally.crash_points);
        self.row("crash points", format!("{points}, all images of {complete}"));
        let distinct = grouped(tally.distinct.len() as u64);
        self.row("images", format!("{}, {distinct} of them distinct", grouped(tally.images)));
        let nested = grouped(tally.nested);
        self.row("recoveries", format!("{}, {nested} of them nested", grouped(tally.recoveries)));
        self.row("schedules", grouped(tally.schedules));
        self.row("failures detected", grouped(tally.detected));
        let [all, one] = rates(plan, tally, elapsed).map(|rate| grouped(rate as u64));
        self.row("speed", format!("{all} images recovered a second, {one} on each thread"));
    }

    /// Violations, with the beginning of how each comes about.
    pub(super) fn findings(
        &mut self,
        bench: &Bench,
        findings: &[Finding],
        is_interrupted: bool,
    ) -> Result<()> {
        self.row("violations", grouped(findings.len() as u64));
        let left = if is_interrupted { Duration::ZERO } else { STORIES_MAX.min(bench.budget / 20) };
        let until = Instant::now() + left;
        for finding in findings {
            self.line(format!("\nviolation: {}", finding.what));
            self.line(format!("replay it:  halite lab crash --replay {}", finding.case));
            let (job, case) = bench.job_of(&finding.case)?;
            let story = match halite_lab::replay(&job, case, None, Some(until)) {
                Ok(told) => told.story,
                Err(why) => vec![not_replayed(why)],
            };
            for line in story.iter().take(STORY_MAX) {
                self.line(format!("  {line}"));
            }
            if story.len() > STORY_MAX {
                self.line(format!(
                    "  and {}",
                    count((story.len() - STORY_MAX) as u64, "more line")
                ));
            }
        }
        Ok(())
    }

    /// The cases that were unfinished when the time was over.
    pub(super) fn unfinished(&mut self, unfinished: &[String]) {
        for case in unfinished {
            self.line(format!(
                "\nnot finished: a call did not return when the time was over: {case}"
            ));
            self.line(format!("look at it:  halite lab crash --replay {case}"));
        }
    }

    pub(super) fn lints(&mut self, lints: &Lints) {
        if lints.met().next().is_some() {
            self.line("\nlints");
        }
        for (lint, site, met, chances) in lints.met() {
            let chances = format!("{} of {}", grouped(met), grouped(chances));
            let wrong = if lint.is_wrong() { "  WRONG" } else { "" };
            self.line(format!("  {:<50}{:<44}{chances}{wrong}", lint.name(), place(site)));
        }
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Recoveries of images a second: on all threads, and on one. Images that were recovered before do not count again.
fn rates(plan: &Plan, tally: &Tally, elapsed: Duration) -> [f64; 2] {
    let rate = tally.recoveries as f64 / elapsed.as_secs_f64().max(1e-9);
    [rate, rate / plan.threads as f64]
}

/// The numbers of a summary.
pub(super) fn numbers(bench: &Bench, plan: &Plan, tally: &Tally, elapsed: Duration) -> Value {
    let [all, one] = rates(plan, tally, elapsed);
    json!({
        "engine": bench.engine,
        "rules": bench.rules.0.iter().map(|rules| rules.name()).collect::<Vec<_>>(),
        "seed": format!("{:x}", plan.seed),
        "threads": plan.threads,
        "seconds": elapsed.as_secs_f64(),
        "histories": tally.histories,
        "crash_points": tally.crash_points,
        "complete_crash_points": tally.complete_points,
        "images": tally.images,
        "distinct_images": tally.distinct.len(),
        "recoveries": tally.recoveries,
        "nested_recoveries": tally.nested,
        "schedules": tally.schedules,
        "failures_detected": tally.detected,
        "images_per_second": all,
        "images_per_second_per_thread": one,
    })
}

pub(super) fn findings_json(findings: &[Finding]) -> Value {
    findings.iter().map(|found| json!({ "case": found.case, "what": found.what })).collect()
}

pub(super) fn lints_json(lints: &Lints) -> Value {
    let met = lints.met().map(|(lint, site, met, chances)| {
        json!({
            "lint": lint.name(),
            "place": place(site),
            "count": met,
            "chances": chances,
            "wrong": lint.is_wrong(),
        })
    });
    met.collect()
}
