//! `bench rstore`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Common, EXAMPLES, Program, seconds};
use crate::kv::Distribution;
use crate::rstore::{RstoreOptions, rstore};
use crate::{Error, Result};

/// Repeats, unless the command line says how many: servers are many, and each has to be loaded.
const REPEATS: u32 = 3;
const REPEATS_QUICK: u32 = 2;

/// `bench rstore`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Rstore {
    /// Only these experiments: messages, prefetch, ranges, throughput, tail, gc, recovery,
    /// memory, scans, scaling
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,

    /// Servers: halite, halite-in-memory, redis-always, redis-everysec, memcached, rocksdb [default: all that are
    /// there]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    subject: Vec<String>,

    /// Records to load [default: 1000000, recovery 10000000; quick: 10000, recovery 20000]
    #[arg(long)]
    records: Option<u64>,

    /// Seconds of each measurement [default: 1, or 0.1 if quick]
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,

    /// Connections of all clients together
    #[arg(long, default_value_t = RstoreOptions::default().connections)]
    connections: usize,

    /// Threads of the load generator
    #[arg(long, default_value_t = RstoreOptions::default().client_threads)]
    client_threads: usize,

    /// Threads of each server that takes a number of them
    #[arg(long, default_value_t = RstoreOptions::default().server_threads)]
    server_threads: usize,

    /// uniform or zipfian: which records are asked for
    #[arg(long, default_value_t = RstoreOptions::default().distribution)]
    distribution: Distribution,

    /// Bytes of the pool that gc fills [default: 1073741824; quick: 67108864]
    #[arg(long, value_name = "BYTES")]
    pool_size: Option<u64>,

    /// Operations a second at which gc measures latencies
    #[arg(long, default_value_t = RstoreOptions::default().rate)]
    rate: u64,

    /// Dollars for 128 GiB of DRAM
    #[arg(long, value_name = "DOLLARS", default_value_t = RstoreOptions::default().dram_price)]
    dram_price: f64,

    /// Dollars for 128 GiB of persistent memory
    #[arg(long, value_name = "DOLLARS", default_value_t = RstoreOptions::default().pmem_price)]
    pmem_price: f64,

    /// The program `halite` [default: this one, or the one beside it]
    #[arg(long, value_name = "FILE")]
    halite_bin: Option<PathBuf>,

    /// The program `halite-bench-peers`, for RocksDB [default: this one, or the one beside it]
    #[arg(long, value_name = "FILE")]
    peers_bin: Option<PathBuf>,

    #[command(flatten)]
    pub(super) common: Common,
}

impl Rstore {
    pub(super) fn run(&self, program: &mut Program<'_>) -> Result<()> {
        if self.common.profile.is_some() {
            let why = "a profile slows down pools of this process, not servers; leave it out";
            return Err(Error::Wrong { option: "--profile", why: why.to_owned() });
        }
        let options = RstoreOptions {
            subjects: self.subject.clone(),
            records: self.records,
            seconds: self.seconds,
            connections: self.connections,
            client_threads: self.client_threads,
            server_threads: self.server_threads,
            distribution: self.distribution,
            pool_bytes: self.pool_size,
            rate: self.rate,
            dram_price: self.dram_price,
            pmem_price: self.pmem_price,
            halite_bin: self.halite_bin.clone(),
            peers_bin: self.peers_bin.clone(),
        };
        options.check()?;
        crate::rstore::check(&self.only)?;
        let repeats = if self.common.quick { REPEATS_QUICK } else { REPEATS };
        let common = self.common.with_repeats(repeats);
        common.run(program, Vec::new(), |run| rstore(&options, &self.only, run))
    }
}
