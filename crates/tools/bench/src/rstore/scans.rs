//! Scans (Fig. 5.17): `SCAN` with a `COUNT` of 10 to 1000, each connection from where its last one
//! ended, round and round. The protocol returns keys, not values. memcached has no scans.

use super::fleet::{Fleet, measure, with};
use super::load::{Operations, Pace, Protocol, Workload};
use super::server::Subject;
use super::throughput::{RECORDS, RECORDS_QUICK};
use crate::{Result, Run};

const NAME: &str = "rstore.scans";

const COUNTS: [u64; 5] = [10, 100, 300, 500, 1000];

const VALUE_LEN: usize = 100;

fn subjects(fleet: &Fleet) -> Vec<&Subject> {
    fleet.subjects.iter().filter(|subject| subject.protocol() == Protocol::Resp).collect()
}

pub(super) fn plan(fleet: &Fleet, run: &Run<'_>) -> u64 {
    (COUNTS.len() * subjects(fleet).len()) as u64 * u64::from(run.options.repeats)
}

pub(super) fn run(fleet: &Fleet, run: &mut Run<'_>) -> Result<()> {
    let records = fleet.options.records(&run.options, RECORDS, RECORDS_QUICK);
    let time = fleet.options.time(&run.options);
    let (seed, interrupted) = (run.options.seed, run.interrupted());
    let of = |operations| Workload { records, value_len: VALUE_LEN, operations, seed };
    let servers = fleet.start(&subjects(fleet), &of(Operations::Insert { from: 0 }), NAME, run)?;
    for count in COUNTS {
        let workload = &of(Operations::Scan { count });
        let params = with(&fleet.params(records, VALUE_LEN), "count", count);
        let clients = fleet.clients(1);
        let mut contenders = fleet.contenders(&servers, move |server| {
            measure(server, workload, clients, Pace::Closed(time), interrupted)
        });
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}
