//! `bench betree`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Common, EXAMPLES, Program, seconds};
use crate::betree::{BetreeBenchOptions, Medium, Setting, betree};
use crate::{Result, peers};

/// Repeats, unless the command line says how many: stores have to be loaded, and disks are slow.
const REPEATS: u32 = 3;
const REPEATS_QUICK: u32 = 2;

/// `bench betree`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Betree {
    /// Only these experiments: access, objects, block-size, archive, node-size, in-place, insert, reads, scans, ycsb,
    /// commit, constant, scrub, damage, resilver, migration
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,

    /// Peers to measure beside Halite: redb, lmdb, rocksdb, fjall [default: all that are built in]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    peer: Vec<String>,

    /// Media to measure on: pmem, which is --folder, and disk [default: both]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    medium: Vec<Medium>,

    /// Where stores on a disk are made, and removed again
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk: PathBuf,

    /// Records of the experiments with key-value stores [default: insert 10000000, reads and scans 2000000, ycsb and
    /// in-place 500000; quick: 20000, 20000, 5000]
    #[arg(long)]
    records: Option<u64>,

    /// Bytes of an object, of the region of access, and of the data of scrub, damage, resilver and migration
    /// [default: 536870912; quick: 8388608]
    #[arg(long, value_name = "BYTES")]
    object_bytes: Option<u64>,

    /// Seconds of each measurement of throughput [default: 10, or 0.2 if quick]
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,

    /// Threads that ask key-value stores
    #[arg(long, default_value_t = BetreeBenchOptions::default().threads)]
    threads: usize,

    /// Let the kernel keep the stores' files in its page cache
    #[arg(long)]
    page_cache: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

impl Betree {
    pub(super) fn run(&self, program: &mut Program<'_>) -> Result<()> {
        let is_profiled = self.common.profile.is_some();
        let peers = peers::choose(program.peers, "betree", peers::BETREE, &self.peer, is_profiled)?;
        let mut options = BetreeBenchOptions {
            disk: self.disk.clone(),
            records: self.records,
            object_bytes: self.object_bytes,
            seconds: self.seconds,
            threads: self.threads,
            page_cache: self.page_cache,
            ..BetreeBenchOptions::default()
        };
        if !self.medium.is_empty() {
            options.media.clone_from(&self.medium);
        }
        crate::betree::check(&self.only)?;
        let repeats = if self.common.quick { REPEATS_QUICK } else { REPEATS };
        let common = self.common.with_repeats(repeats);
        let built = (program.peers, peers.clone());
        let setting = Setting::new(options, &common.options(), built)?;
        common.run(program, peers, |run| betree(&setting, &self.only, run))
    }
}
