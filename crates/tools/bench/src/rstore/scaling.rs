//! Scaling: the balanced mix, pipelines of sixteen, and more and more threads of the server. Servers
//! that take no number of threads have one.
//!
//! With a contention point that all threads share, fences and messages an operation would grow with
//! them, or throughput would not.

use super::RstoreOptions;
use super::fleet::{Fleet, MIXES, measure, with};
use super::load::Pace;
use super::server::Subject;
use super::throughput::{RECORDS, RECORDS_QUICK};
use crate::{Result, Run};

const NAME: &str = "rstore.scaling";

const THREADS: [usize; 2] = [1, 2];

const VALUE_LEN: usize = 100;

const PIPELINE: usize = 16;

fn subjects(fleet: &Fleet, threads: usize) -> Vec<&Subject> {
    fleet.subjects.iter().filter(|subject| threads == 1 || subject.has_threads).collect()
}

pub(super) fn plan(fleet: &Fleet, run: &Run<'_>) -> u64 {
    let turns = THREADS.iter().map(|threads| subjects(fleet, *threads).len() as u64);
    turns.sum::<u64>() * u64::from(run.options.repeats)
}

pub(super) fn run(fleet: &Fleet, run: &mut Run<'_>) -> Result<()> {
    let records = fleet.options.records(&run.options, RECORDS, RECORDS_QUICK);
    let time = fleet.options.time(&run.options);
    let (seed, interrupted) = (run.options.seed, run.interrupted());
    let (name, mix) = MIXES[1];
    let workload = &fleet.mixed(records, VALUE_LEN, mix, seed)?;
    for threads in THREADS {
        let options = RstoreOptions { server_threads: threads, ..fleet.options.clone() };
        let fleet = &Fleet { options, subjects: fleet.subjects.clone() };
        let servers = fleet.start(&subjects(fleet, threads), workload, NAME, run)?;
        let mut params = with(&fleet.params(records, VALUE_LEN), "mix", name);
        params = with(&params, "distribution", fleet.options.distribution.to_string());
        params = with(&params, "pipeline", PIPELINE);
        let clients = fleet.clients(PIPELINE);
        let mut contenders = fleet.contenders(&servers, move |server| {
            measure(server, workload, clients, Pace::Closed(time), interrupted)
        });
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}
