//! Throughput (Fig. 5.11 and 5.12): three mixes of reads and updates, two sizes of values, one request
//! or sixteen at a time on each connection.

use super::fleet::{Fleet, MIXES, measure, with};
use super::load::Pace;
use crate::{Result, Run};

const NAME: &str = "rstore.throughput";

/// Bytes of a value: those of Fig. 5.11 and of Fig. 5.12.
pub(super) const VALUE_LENS: [usize; 2] = [1000, 100];

const PIPELINES: [usize; 2] = [1, 16];

/// Records of the experiments that do not say another number.
pub(super) const RECORDS: u64 = 1_000_000;
pub(super) const RECORDS_QUICK: u64 = 10_000;

pub(super) fn plan(fleet: &Fleet, run: &Run<'_>) -> u64 {
    (VALUE_LENS.len() * MIXES.len() * PIPELINES.len()) as u64 * fleet.turns(run)
}

pub(super) fn run(fleet: &Fleet, run: &mut Run<'_>) -> Result<()> {
    let records = fleet.options.records(&run.options, RECORDS, RECORDS_QUICK);
    let time = fleet.options.time(&run.options);
    let (seed, interrupted) = (run.options.seed, run.interrupted());
    for value_len in VALUE_LENS {
        let workload = fleet.mixed(records, value_len, MIXES[0].1, seed)?;
        let servers = fleet.start(&fleet.all(), &workload, NAME, run)?;
        for (name, mix) in MIXES {
            let workload = &fleet.mixed(records, value_len, mix, seed)?;
            for pipeline in PIPELINES {
                let mut params = with(&fleet.params(records, value_len), "mix", name);
                params = with(&params, "distribution", fleet.options.distribution.to_string());
                params = with(&params, "pipeline", pipeline);
                let clients = fleet.clients(pipeline);
                let mut contenders = fleet.contenders(&servers, move |server| {
                    measure(server, workload, clients, Pace::Closed(time), interrupted)
                });
                run.compare(NAME, &params, &mut contenders)?;
            }
        }
    }
    Ok(())
}
