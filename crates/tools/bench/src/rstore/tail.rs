//! Tail latency (Fig. 5.13 to 5.16): the throughput of each server in a closed loop, and then all of them on a
//! schedule, at 20, 40, 60 and 80 % of the slowest one's throughput.
//!
//! Latencies count from when a request was due. `send-delay-p99.9` is the part of that delay that the load generator
//! itself caused.

use super::fleet::{Fleet, MIXES, measure, with};
use super::load::Pace;
use super::median;
use super::throughput::{RECORDS, RECORDS_QUICK, VALUE_LENS};
use crate::{Result, Run};

const NAME: &str = "rstore.tail";
const CAPACITY: &str = "rstore.capacity";

const PERCENTAGES: [u64; 4] = [20, 40, 60, 80];

/// Names and mixes.
type Mixes = &'static [(&'static str, &'static str)];

/// The sizes of values, each with the mixes that are measured with it: large values with one, and a quick
/// run has no other.
fn parts(quick: bool) -> &'static [(usize, Mixes)] {
    const PARTS: [(usize, Mixes); 2] = [(VALUE_LENS[0], &[MIXES[1]]), (VALUE_LENS[1], &MIXES)];
    const QUICK: [(usize, Mixes); 1] = [(VALUE_LENS[1], &[MIXES[1]])];
    if quick { &QUICK } else { &PARTS }
}

pub(super) fn plan(fleet: &Fleet, run: &Run<'_>) -> u64 {
    let mixes: usize = parts(run.options.quick).iter().map(|(_, mixes)| mixes.len()).sum();
    (mixes * (1 + PERCENTAGES.len())) as u64 * fleet.turns(run)
}

pub(super) fn run(fleet: &Fleet, run: &mut Run<'_>) -> Result<()> {
    let records = fleet.options.records(&run.options, RECORDS, RECORDS_QUICK);
    let time = fleet.options.time(&run.options);
    let (seed, interrupted) = (run.options.seed, run.interrupted());
    let clients = fleet.clients(1);
    for (value_len, mixes) in parts(run.options.quick).iter().copied() {
        let workload = fleet.mixed(records, value_len, mixes[0].1, seed)?;
        let servers = fleet.start(&fleet.all(), &workload, NAME, run)?;
        for (name, mix) in mixes.iter().copied() {
            let workload = &fleet.mixed(records, value_len, mix, seed)?;
            let mut params = with(&fleet.params(records, value_len), "mix", name);
            params = with(&params, "distribution", fleet.options.distribution.to_string());
            let mut contenders = fleet.contenders(&servers, move |server| {
                measure(server, workload, clients, Pace::Closed(time), interrupted)
            });
            run.compare(CAPACITY, &params, &mut contenders)?;
            let capacities = servers.iter().filter_map(|server| {
                median(run, CAPACITY, server.subject.name(), "throughput", &params)
            });
            let Some(slowest) = capacities.min_by(f64::total_cmp) else { return Ok(()) };
            for percentage in PERCENTAGES {
                let rate = ((slowest * percentage as f64 / 100.0) as u64).max(1);
                let params = with(&with(&params, "load-percent", percentage), "rate", rate);
                let mut contenders = fleet.contenders(&servers, move |server| {
                    measure(server, workload, clients, Pace::Open { rate, time }, interrupted)
                });
                run.compare(NAME, &params, &mut contenders)?;
            }
        }
    }
    Ok(())
}
