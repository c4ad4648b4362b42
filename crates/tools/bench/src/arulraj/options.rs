//! The options of the experiments.

use halite_table::Kind;
use halite_workload::ycsb003::{Mix, Skew};

use crate::{Error, Result};

/// The options of `halite bench arulraj` and `halite bench tpcc`.
#[derive(Debug, Clone)]
pub struct ArulrajOptions {
    /// The methods; none stands for all.
    pub methods: Vec<Kind>,
    /// Tuples of YCSB.
    pub tuples: Option<u64>,
    /// Transactions of a measurement of YCSB.
    pub transactions: Option<u64>,
    /// The mixes of YCSB; none stands for all.
    pub mixes: Vec<Mix>,
    /// The skews of YCSB, by name: `low`, `high`, `nstore-low`, `nstore-high`; none stands for the first two.
    pub skews: Vec<String>,
    /// Read latencies of the medium in ns, of those of the source; none stands for 160 alone, the machine's own memory.
    pub latencies: Vec<u64>,
    /// Partitions, and threads that ask them.
    pub partitions: usize,
    /// Milliseconds of a group of commits that become durable together; 0: each by itself.
    pub group_ms: u64,
    /// Whether an update of YCSB changes one column, not all.
    pub updates_one: bool,
    /// Warehouses of TPC-C.
    pub warehouses: u32,
    /// Transactions of a measurement of TPC-C.
    pub tpcc_transactions: Option<u64>,
}

impl Default for ArulrajOptions {
    fn default() -> Self {
        Self {
            methods: Vec::new(),
            tuples: None,
            transactions: None,
            mixes: Vec::new(),
            skews: Vec::new(),
            latencies: Vec::new(),
            partitions: 2,
            group_ms: 5,
            updates_one: false,
            warehouses: 2,
            tpcc_transactions: None,
        }
    }
}

/// The latencies of the source, each with the profile that emulates it: none for the machine's own memory.
pub(super) const LATENCIES: [(u64, Option<&str>); 3] =
    [(160, None), (320, Some("nvm-2x")), (1280, Some("nvm-8x"))];

/// The skews: those of the source, and behind them those of nstore, for runs beside it.
pub(super) const SKEWS: [(&str, Skew); 4] = [
    ("low", Skew::LOW),
    ("high", Skew::HIGH),
    ("nstore-low", Skew::Simple { alpha: 0.1 }),
    ("nstore-high", Skew::Simple { alpha: 0.5 }),
];

/// How many are the source's.
pub(super) const SKEWS_OF_SOURCE: usize = 2;

impl ArulrajOptions {
    /// Refuses what makes no sense.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = |option, why: &str| Err(Error::Wrong { option, why: why.to_owned() });
        let names = SKEWS.map(|(name, _)| name);
        if let Some(unknown) = self.skews.iter().find(|skew| !names.contains(&skew.as_str())) {
            return Err(Error::unknown("skew", unknown, names));
        }
        let known = |latency: &u64| LATENCIES.iter().any(|(known, _)| known == latency);
        if let Some(unknown) = self.latencies.iter().find(|latency| !known(latency)) {
            return Err(Error::unknown("latency", &unknown.to_string(), ["160", "320", "1280"]));
        }
        if !(1..=64).contains(&self.partitions) {
            return wrong("--partitions", "give a number from 1 to 64");
        }
        if self.tuples.is_some_and(|tuples| tuples < 32 * self.partitions as u64) {
            return wrong("--tuples", "give 32 or more for each partition");
        }
        if self.transactions == Some(0) || self.tpcc_transactions == Some(0) {
            return wrong("--transactions", "give at least one");
        }
        if self.warehouses == 0 || self.warehouses > 65_535 {
            return wrong("--warehouses", "give a number from 1 to 65,535");
        }
        Ok(())
    }
}
