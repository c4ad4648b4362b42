//! Memory (Fig. 5.18 and Table 5.1): the DRAM and the storage of each server for a record, and their cost.
//!
//! Halite has rows for each of its indexes.
//!
//! DRAM is memory of the process that belongs to no file, less that of an empty server; storage is the space of the
//! files in its folder, including space that is allocated ahead, which counts for much where there are few records.
//! `cost` is that of as many records as Lersch has, at the prices of the options.

use super::fleet::{Fleet, KEY_LEN, with};
use super::load::{Operations, Workload, insert};
use super::server::{Launch, Server, Subject};
use super::throughput::{RECORDS, RECORDS_QUICK, VALUE_LENS};
use crate::{Contender, Result, Run, Sample};

const NAME: &str = "rstore.memory";

/// Bytes that the prices are of.
const PRICED_BYTES: f64 = (128_u64 << 30) as f64;

/// Bytes of values in Lersch's stores: 16 million of 1000, or 160 million of 100.
const PAYLOAD_BYTES: f64 = 16e9;

/// Dollars, by subject: for values of 1000 and of 100 bytes (Table 5.1). His Redis kept no log.
const COSTS: [(&str, [f64; 2]); 5] = [
    ("halite", [98.0, 227.0]),
    ("memcached", [207.0, 335.0]),
    ("redis-always", [200.0, 361.0]),
    ("redis-everysec", [200.0, 361.0]),
    ("rocksdb", [160.0, 187.0]),
];

pub(super) fn plan(fleet: &Fleet, _: &Run<'_>) -> u64 {
    let contenders: usize = fleet.subjects.iter().map(|subject| subject.indexes().len()).sum();
    (VALUE_LENS.len() * contenders) as u64
}

pub(super) fn run(fleet: &Fleet, run: &mut Run<'_>) -> Result<()> {
    let records = fleet.options.records(&run.options, RECORDS, RECORDS_QUICK);
    // The same load takes the same memory: once is enough.
    let repeats = std::mem::replace(&mut run.options.repeats, 1);
    let outcome = VALUE_LENS.iter().enumerate().try_for_each(|(place, value_len)| {
        let operations = Operations::Insert { from: 0 };
        let (value_len, seed) = (*value_len, run.options.seed);
        let workload = &Workload { records, value_len, operations, seed };
        let (folder, interrupted) = (run.options.folder.clone(), run.interrupted());
        let folder = &folder;
        let contender = |(subject, index): (&'_ Subject, Option<&'static str>)| {
            let (name, subject) = (subject.name(), subject.clone());
            let durability = subject.durability.clone();
            // The index of the thesis comes first.
            let is_first = subject.indexes().first() == Some(&index);
            let cost = COSTS.iter().find(|(known, _)| *known == name && is_first);
            let contender = Contender::new(name, move || {
                let launch = Launch { index, ..fleet.launch(records, value_len) };
                let server = Server::start(&subject, &launch, folder, interrupted)?;
                let empty = server.dram_bytes();
                insert(&server.target, workload, 0, fleet.clients(1), interrupted)?;
                Ok(taken(fleet, &server, workload, empty))
            });
            let contender = match index {
                Some(index) => contender.with_param("index", index.into()),
                None => contender,
            };
            contender
                .with_source("cost", cost.map(|(_, costs)| costs[place]))
                .with_param("durability", durability.into())
        };
        let variants = fleet
            .subjects
            .iter()
            .flat_map(|subject| subject.indexes().iter().map(move |index| (subject, *index)));
        let mut contenders: Vec<_> = variants.map(contender).collect();
        let params = fleet.params(records, value_len);
        let params = with(&params, "dram-price", fleet.options.dram_price);
        let params = with(&params, "pmem-price", fleet.options.pmem_price);
        run.compare(NAME, &params, &mut contenders)
    });
    run.options.repeats = repeats;
    outcome
}

/// The memory of a loaded server.
fn taken(fleet: &Fleet, server: &Server, workload: &Workload, empty: u64) -> Vec<Sample> {
    let records = workload.records as f64;
    let dram = server.dram_bytes().saturating_sub(empty) as f64 / records;
    let storage = server.storage_bytes() as f64 / records;
    let dollars = dram * fleet.options.dram_price + storage * fleet.options.pmem_price;
    let cost = dollars / PRICED_BYTES * PAYLOAD_BYTES / workload.value_len as f64;
    let mut samples = vec![
        Sample::new("dram", "B/record", dram),
        Sample::new("storage", "B/record", storage),
        Sample::new("cost", "$", cost),
        Sample::new("cost-per-gb", "$", cost / (PAYLOAD_BYTES / 1e9)),
    ];
    // Files are allocated ahead of their content.
    if let Some(live) = server.info().ok().and_then(|info| info.get("live_bytes").copied()) {
        let data = (KEY_LEN + workload.value_len as u64) as f64;
        samples.push(Sample::new("storage-live", "B/record", live / records));
        samples.push(Sample::new("storage-overhead", "B/record", live / records - data));
    }
    samples
}
