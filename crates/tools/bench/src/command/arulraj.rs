//! `bench arulraj` and `bench tpcc`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use halite_table::Kind;
use halite_workload::ycsb003::Mix;

use super::{Common, EXAMPLES, Program};
use crate::arulraj::{ArulrajOptions, Setting, arulraj, check, load_and_wait};
use crate::run::Run;
use crate::{Error, Result, peers};

/// Repeats, unless the command line says how many: stores have to be loaded.
const REPEATS: u32 = 3;
const REPEATS_QUICK: u32 = 2;

/// `bench arulraj`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arulraj {
    /// Only these experiments: ycsb, tpcc, recovery, footprint, node-size, sync, interface, loads-stores,
    /// checkpoint; breakdown and cost, if they are built in [default: all but tpcc]
    #[arg(long, visible_alias = "figure", value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,

    /// Only these methods, by the names that `--engine table:NAME` has [default: all]
    #[arg(long, visible_alias = "engine", value_delimiter = ',', value_name = "NAME")]
    method: Vec<Kind>,

    /// Peers to measure beside, where each commit is durable by itself: sqlite, lmdb [default: all that are built in]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    peer: Vec<String>,

    /// Read latencies of the medium in ns: 160, the machine's own memory, 320 and 1280, emulated. Memory that does not
    /// persist and files are not slowed: compare methods at 160 alone
    #[arg(long, value_delimiter = ',', value_name = "NS", default_values_t = [160])]
    latency: Vec<u64>,

    /// Skews of YCSB: low, half of the transactions about a fifth of the tuples, and high, nine tenths about a tenth
    /// [default: both]. nstore-low and nstore-high are those of the code of nstore, for runs beside it
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    skew: Vec<String>,

    /// Mixes of YCSB: read-only, read-heavy, balanced, write-heavy [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = mix)]
    mix: Vec<Mix>,

    /// Tuples of YCSB [default: 200000; quick: 2000; the source: 2000000]
    #[arg(long)]
    tuples: Option<u64>,

    /// Transactions of a measurement of YCSB, and before the kill of recovery at most [default: 400000; quick: 2000;
    /// the source: 8000000]
    #[arg(long)]
    transactions: Option<u64>,

    /// Change one column of a tuple, not all ten
    #[arg(long)]
    ycsb_update_one: bool,

    /// Milliseconds of a group of commits of YCSB that become durable together; 0: each by itself
    #[arg(long, value_name = "MS", default_value_t = ArulrajOptions::default().group_ms)]
    group: u64,

    #[command(flatten)]
    killed: Killed,

    #[command(flatten)]
    place: Place,
}

/// `bench tpcc`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Tpcc {
    /// Only these methods of the testbed [default: all]
    #[arg(long, visible_alias = "engine", value_delimiter = ',', value_name = "NAME")]
    method: Vec<Kind>,

    /// Peers to measure beside: sqlite, lmdb [default: all that are built in]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    peer: Vec<String>,

    /// Read latencies of the medium in ns: 160, 320, 1280
    #[arg(long, value_delimiter = ',', value_name = "NS", default_values_t = [160])]
    latency: Vec<u64>,

    /// Warehouses, at full cardinality
    #[arg(long, value_name = "W", default_value_t = ArulrajOptions::default().warehouses)]
    warehouses: u32,

    /// Transactions of a measurement [default: 40000; quick: 300]
    #[arg(long)]
    transactions: Option<u64>,

    #[command(flatten)]
    place: Place,
}

/// The place of the measurements.
#[derive(Debug, Args)]
struct Place {
    /// Partitions of a store, and threads that ask them
    #[arg(long, visible_alias = "threads", value_name = "N", default_value_t = ArulrajOptions::default().partitions)]
    partitions: usize,

    #[command(flatten)]
    common: Common,
}

/// The process that is killed.
#[derive(Debug, Args)]
struct Killed {
    /// Be the process that is killed: make a store in this folder, and wait
    #[arg(long, hide = true, requires = "load_store")]
    load_and_wait: Option<PathBuf>,

    /// By which method
    #[arg(long, hide = true)]
    load_store: Option<String>,

    /// Behind so many transactions
    #[arg(long, hide = true, default_value_t = 0)]
    load_transactions: u64,
}

fn mix(name: &str) -> std::result::Result<Mix, String> {
    let found = Mix::ALL.into_iter().find(|mix| mix.name() == name);
    found.ok_or_else(|| format!("there is {}", Mix::ALL.map(Mix::name).join(", ")))
}

impl Place {
    fn common(&self) -> Common {
        let repeats = if self.common.quick { REPEATS_QUICK } else { REPEATS };
        self.common.with_repeats(repeats)
    }

    fn folder(&self) -> &Path {
        &self.common.folder
    }
}

impl Arulraj {
    pub(super) fn folder(&self) -> &Path {
        self.place.folder()
    }

    pub(super) fn run(&self, program: &mut Program<'_>) -> Result<()> {
        check(&self.only)?;
        let options = ArulrajOptions {
            methods: self.method.clone(),
            tuples: self.tuples,
            transactions: self.transactions,
            mixes: self.mix.clone(),
            skews: self.skew.clone(),
            latencies: self.latency.clone(),
            partitions: self.place.partitions,
            group_ms: self.group,
            updates_one: self.ycsb_update_one,
            ..ArulrajOptions::default()
        };
        if self.group > 60_000 {
            let why = "give at most 60,000 milliseconds".to_owned();
            return Err(Error::Wrong { option: "--group", why });
        }
        let common = self.place.common();
        let (peers, run_options) =
            (chosen(program, "arulraj", &self.peer, &common)?, common.options());
        let setting = Setting::new(options, &run_options, (program.peers, peers.clone()), &child)?;
        let Killed { load_and_wait: folder, load_store: name, load_transactions } = &self.killed;
        if let Some((folder, name)) = folder.as_ref().zip(name.as_ref()) {
            let run = Run::new(run_options, &(), program.interrupted);
            return load_and_wait(&setting, name, folder, *load_transactions, &run);
        }
        common.run(program, peers, |run| arulraj(&setting, &self.only, run))
    }
}

impl Tpcc {
    pub(super) fn folder(&self) -> &Path {
        self.place.folder()
    }

    pub(super) fn run(&self, program: &mut Program<'_>) -> Result<()> {
        let options = ArulrajOptions {
            methods: self.method.clone(),
            latencies: self.latency.clone(),
            partitions: self.place.partitions,
            warehouses: self.warehouses,
            tpcc_transactions: self.transactions,
            ..ArulrajOptions::default()
        };
        let common = self.place.common();
        let peers = chosen(program, "tpcc", &self.peer, &common)?;
        let built = (program.peers, peers.clone());
        let setting = Setting::new(options, &common.options(), built, &child)?;
        common.run(program, peers, |run| arulraj(&setting, &["tpcc".to_owned()], run))
    }
}

fn chosen(
    program: &Program<'_>,
    workload: &'static str,
    asked: &[String],
    common: &Common,
) -> Result<Vec<String>> {
    let is_profiled = common.profile.is_some();
    peers::choose(program.peers, workload, peers::ROWS, asked, is_profiled)
}

/// This program once more, with the same options, to make the store of that method and be killed.
fn child(store: &str, folder: &Path, transactions: u64) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1));
    command.arg("--load-store").arg(store).arg("--load-and-wait").arg(folder);
    command.arg("--load-transactions").arg(transactions.to_string());
    Ok(command)
}
