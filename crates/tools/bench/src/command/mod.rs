//! The command line of the bench, shared by `halite bench` and the program with the peer stores.
//!
//! A [`Command`] checks its options and opens the files for its rows (`outputs`) before the first measurement. Then it
//! makes a [`Run`] that a person can watch (`progress`), passes it to the experiments, and writes the rows, whether the
//! run is complete or was stopped.

mod arulraj;
mod betree;
mod kv;
mod lsm;
mod outputs;
mod progress;
mod rstore;
mod soak;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Subcommand};
use halite_pmem::Profile;

use crate::run::{Run, RunOptions};
use crate::{BLOCKS, DEVICE, Peers, Result, experiment, machine, peers};
pub use arulraj::{Arulraj, Tpcc};
pub use betree::Betree;
pub use kv::Kv;
pub use lsm::Lsm;
use outputs::Outputs;
use progress::Progress;
pub use rstore::Rstore;
pub use soak::Soak;

/// How `halite bench` is used; the programs that have this command line show it.
pub const EXAMPLES: &str = "\
Examples:
  halite bench device                         what the medium can do: the limits of all else
  halite bench blocks --only log --quick      one experiment, to see that it works
  halite bench blocks --json blocks.json      every row for machines, and a table
  halite bench device --folder /mnt/pmem0     on another medium
  halite bench device --profile optane        on a medium made as slow as another
  halite bench blocks --report blocks         a page with plots: blocks/index.html
  halite bench lsm --only halloc,commit       allocations and commits in persistent memory
  halite bench lsm --only ycsb --disk /mnt/ssd  YCSB with persistent memory and with a log
  halite bench betree --only insert,objects   random inserts and objects, in memory and on a disk
  halite bench arulraj --only ycsb --mix balanced   recovery methods over tuples, in groups of commits
  halite bench tpcc --warehouses 2            orders and payments, each durable, by each method
  halite bench kv                             YCSB A to F, a million records of 1 KB
  halite bench kv --workload load,get,kill    durable puts, gets, reopening after a kill
  halite bench rstore --only throughput,tail  servers over the network, beside Redis and memcached
  halite bench kv --workload a --threads 2 --rate 100000 --seconds 10
  halite bench rstore --only messages         a shared mutex against messages
  halite bench soak --minutes 30              a server that is killed again and again

docs/BENCH.md describes every experiment, its parameters and its metrics, and the form of the JSON.
Ctrl-C ends a run early: what was measured is kept and marked, and the exit code is 130.";

/// Repeats, unless the command line says how many.
const REPEATS: u32 = 5;
const REPEATS_QUICK: u32 = 3;

/// The subcommands of the bench.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The medium: latency and bandwidth of reads and persists
    Device(Device),
    /// The building blocks: logs, pages, cells, interleaving
    Blocks(Blocks),
    /// Key-value stores: YCSB, PiBench, and loading, reading, scanning and reopening by themselves
    Kv(Box<Kv>),
    /// The LSM engine and its parts: allocation, index, commits, YCSB, recovery, beside a log and beside peers
    Lsm(Box<Lsm>),
    /// The Bε-tree engine: objects, random inserts, reads, scans, YCSB, commits, on persistent memory and on a disk
    Betree(Box<Betree>),
    /// The testbed of recovery methods: YCSB, recovery, footprint, each method beside the others
    Arulraj(Box<Arulraj>),
    /// TPC-C on each recovery method of the testbed, beside the LSM engine
    Tpcc(Box<Tpcc>),
    /// RStore: the costs that its design rests on, and its server's performance beside others
    Rstore(Box<Rstore>),
    /// One server under mixed load for long, killed again and again: nothing acknowledged is lost
    Soak(Box<Soak>),
}

/// `bench device`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Device {
    /// Only these experiments
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,

    #[command(flatten)]
    common: Common,
}

/// `bench blocks`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Blocks {
    /// Only these experiments
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,

    /// Peers to measure beside Halite's blocks [default: all that are built in]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    peer: Vec<String>,

    #[command(flatten)]
    common: Common,
}

/// The arguments of every subcommand.
#[derive(Debug, Clone, Args)]
struct Common {
    /// Where pools and stores are made, and removed again
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,

    /// How often everything is measured [default: 5, or 3 if quick; lsm, betree, arulraj, tpcc, rstore: 3, or 2 if quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: Option<u32>,

    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Make pools as slow as another medium: dram, optane, cxl, nvm-2x, nvm-8x, pcm, rram, mram, or figures such as
    /// read=300,persist=150,read-bw=8GB,write-bw=2GB,block=256 (ns, B/s, bytes)
    #[arg(long, value_name = "NAME|FIGURES")]
    profile: Option<Profile>,

    /// Smaller and fewer: to see that it works, not to publish
    #[arg(long)]
    quick: bool,

    /// Write every row to this file as JSON; `-` is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write an HTML report with plots into this folder, as index.html
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// The program around the command line.
pub struct Program<'a> {
    /// The peers that it is built with.
    pub peers: &'a dyn Peers,
    /// Its standard output.
    pub out: &'a mut dyn Write,
    /// Becomes true when it is asked to stop.
    pub interrupted: &'a AtomicBool,
}

impl Command {
    /// Returns the folder in which pools and stores are made.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self {
            Self::Device(device) => &device.common.folder,
            Self::Blocks(blocks) => &blocks.common.folder,
            Self::Kv(kv) => &kv.common.folder,
            Self::Lsm(lsm) => &lsm.common.folder,
            Self::Betree(betree) => &betree.common.folder,
            Self::Arulraj(arulraj) => arulraj.folder(),
            Self::Tpcc(tpcc) => tpcc.folder(),
            Self::Rstore(rstore) => &rstore.common.folder,
            Self::Soak(soak) => &soak.common.folder,
        }
    }

    /// Measures, and writes the rows.
    ///
    /// # Errors
    /// [`Error::Unknown`](crate::Error::Unknown) and other errors in the options, before the first measurement;
    /// [`Error::Interrupted`](crate::Error::Interrupted) and the errors of an experiment, after the rows until then are
    /// written.
    pub fn run(&self, program: &mut Program<'_>) -> Result<()> {
        match self {
            Self::Device(device) => {
                let chosen = experiment::choose(DEVICE, &device.only)?;
                device.common.run(program, Vec::new(), |run| experiment::run(run, &chosen))
            }
            Self::Blocks(blocks) => {
                let chosen = experiment::choose(BLOCKS, &blocks.only)?;
                let peers = peers::choose(
                    program.peers,
                    "blocks",
                    peers::BLOCKS,
                    &blocks.peer,
                    blocks.common.profile.is_some(),
                )?;
                blocks.common.run(program, peers, |run| experiment::run(run, &chosen))
            }
            Self::Kv(kv) => kv.run(program),
            Self::Lsm(lsm) => lsm.run(program),
            Self::Betree(betree) => betree.run(program),
            Self::Arulraj(arulraj) => arulraj.run(program),
            Self::Tpcc(tpcc) => tpcc.run(program),
            Self::Rstore(rstore) => rstore.run(program),
            Self::Soak(soak) => soak.run(program),
        }
    }
}

impl Common {
    /// Returns the options with this number of repeats unless they set another.
    fn with_repeats(&self, repeats: u32) -> Self {
        Self { repeats: self.repeats.or(Some(repeats)), ..self.clone() }
    }

    fn options(&self) -> RunOptions {
        let repeats = if self.quick { REPEATS_QUICK } else { REPEATS };
        RunOptions {
            folder: self.folder.clone(),
            quick: self.quick,
            repeats: self.repeats.unwrap_or(repeats),
            seed: self.seed,
            profile: self.profile.clone(),
        }
    }

    fn run(
        &self,
        program: &mut Program<'_>,
        peers: Vec<String>,
        measure: impl FnOnce(&mut Run<'_>) -> Result<()>,
    ) -> Result<()> {
        let options = self.options();
        let mut outputs = Outputs::open(self.json.as_deref(), self.report.as_deref())?;
        let facts = machine::facts(&options)?;
        let progress = Progress::new();
        let mut run =
            Run::new(options, &progress, program.interrupted).with_peers(program.peers, peers);
        let outcome = measure(&mut run);
        run.push(machine::row(facts, outcome.is_err()));
        let rows = run.into_rows();
        drop(progress);
        outputs.write(&rows, program.out)?;
        outcome
    }
}

/// A length of time from a number of seconds.
fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
