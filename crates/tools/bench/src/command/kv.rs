//! `bench kv`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use halite::ENGINES;

use super::{Common, EXAMPLES, Program, seconds};
use crate::kv::{
    Distribution, HaliteStore, KvOptions, Length, Mix, Store, Workload, kv, load_and_wait,
};
use crate::{Error, Result, peers};

/// Bytes that the change log retains, without readers.
const CHANGES_RETAINED: u64 = 16 << 20;

/// Records and operations of a quick run.
const QUICK: u64 = 10_000;

/// `bench kv`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Kv {
    /// Workloads: a, b, c, d, e, f, pibench, load, overwrite, get, scan, reopen, kill [default: a to f]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    workload: Vec<String>,

    /// Engines of Halite [default: the database's default]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    engine: Vec<String>,

    /// Measure Halite with a change log beside it, too
    #[arg(long)]
    change_log: bool,

    /// Peers to measure beside Halite [default: all that are built in]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    peer: Vec<String>,

    /// Records to load [default: 1000000, or 10000 if quick]
    #[arg(long)]
    records: Option<u64>,

    /// Operations of the measured phase, of all threads together [default: as --records]
    #[arg(long)]
    operations: Option<u64>,

    /// Seconds of the measured phase, in place of a number of operations
    #[arg(long, conflicts_with = "operations", value_parser = seconds)]
    seconds: Option<Duration>,

    /// Threads
    #[arg(long, default_value_t = KvOptions::default().threads)]
    threads: usize,

    /// Operations a second, on a fixed schedule; latencies then count from when each was due
    #[arg(long)]
    rate: Option<u64>,

    /// Fields of a record of a to f
    #[arg(long, default_value_t = KvOptions::default().fields)]
    fields: usize,

    /// Bytes of a field
    #[arg(long, default_value_t = KvOptions::default().field_len)]
    field_len: usize,

    /// Bytes of a key of the other workloads [default: 16; pibench 8]
    #[arg(long)]
    key_len: Option<usize>,

    /// Bytes of a value of the other workloads [default: 100; pibench 8]
    #[arg(long)]
    value_len: Option<usize>,

    /// The operations of pibench, as in read=50,update=30,insert=10,scan=5,delete=5 [default: read=100]
    #[arg(long)]
    mix: Option<String>,

    /// uniform, zipfian, self-similar or latest, in place of the workload's own
    #[arg(long)]
    distribution: Option<String>,

    /// Theta of the zipfian distributions, h of the self-similar one [default: 0.99; 0.2]
    #[arg(long)]
    skew: Option<f64>,

    /// Be the process that is killed: load a store in this folder, and wait
    #[arg(long, hide = true, requires = "load_store")]
    load_and_wait: Option<PathBuf>,

    /// Which store that is
    #[arg(long, hide = true)]
    load_store: Option<String>,

    #[command(flatten)]
    pub(super) common: Common,
}

impl Kv {
    pub(super) fn run(&self, program: &mut Program<'_>) -> Result<()> {
        let options = self.options()?;
        let mut peers = peers::choose(
            program.peers,
            "kv",
            peers::STORES,
            &self.peer,
            self.common.profile.is_some(),
        )?;
        let are_all_loads = options.workloads.iter().all(|workload| *workload == Workload::Load);
        peers.retain(|name| are_all_loads || !peers::RAW.contains(&&**name));
        let mut stores = self.stores(program, &peers)?;
        if let Some(folder) = &self.load_and_wait {
            let named =
                |store: &&mut Box<dyn Store>| self.load_store.as_deref() == Some(store.name());
            let store = stores.iter_mut().find(named);
            let name = self.load_store.clone().unwrap_or_default();
            let store = store.ok_or_else(|| Error::unknown("store", &name, []))?;
            let (seed, interrupted) = (self.common.seed, program.interrupted);
            return load_and_wait(&options, seed, &mut **store, folder, interrupted);
        }
        self.common.run(program, Vec::new(), |run| kv(&options, &mut stores, &child, run))
    }

    fn options(&self) -> Result<KvOptions> {
        let defaults = KvOptions::default();
        let records =
            self.records.unwrap_or(if self.common.quick { QUICK } else { defaults.records });
        let workloads =
            self.workload.iter().map(|name| name.parse()).collect::<Result<Vec<Workload>>>()?;
        let options = KvOptions {
            workloads: if workloads.is_empty() { defaults.workloads } else { workloads },
            records,
            length: match self.seconds {
                Some(time) => Length::Time(time),
                None => Length::Operations(self.operations.unwrap_or(records)),
            },
            threads: self.threads,
            rate: self.rate,
            fields: self.fields,
            field_len: self.field_len,
            key_len: self.key_len,
            value_len: self.value_len,
            mix: match &self.mix {
                Some(mix) => mix.parse::<Mix>()?,
                None => defaults.mix,
            },
            distribution: match &self.distribution {
                Some(name) => Some(name.parse::<Distribution>()?),
                None => None,
            },
            skew: self.skew,
        };
        options.check()?;
        Ok(options)
    }

    /// Halite, once for each engine, and the peers.
    fn stores(&self, program: &Program<'_>, peers: &[String]) -> Result<Vec<Box<dyn Store>>> {
        let mut stores: Vec<Box<dyn Store>> = Vec::new();
        for engine in &self.engine {
            if !ENGINES.contains(&engine.as_str()) {
                return Err(Error::unknown("engine", engine, ENGINES.iter().copied()));
            }
            let store = HaliteStore::with_engine(format!("halite-{engine}"), engine);
            stores.push(Box::new(store.with_profile(self.common.profile.clone())));
        }
        if stores.is_empty() {
            let store = HaliteStore::default().with_profile(self.common.profile.clone());
            stores.push(Box::new(store));
        }
        if self.change_log {
            let store = HaliteStore::with_engine("halite-change-log", ENGINES[0]);
            let store = store.with_change_log(CHANGES_RETAINED);
            stores.push(Box::new(store.with_profile(self.common.profile.clone())));
        }
        stores.extend(peers.iter().filter_map(|name| program.peers.store(name)));
        Ok(stores)
    }
}

/// This program once more, with the same options, to load the store of that name and be killed.
fn child(store: &str, folder: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1));
    command.arg("--load-store").arg(store).arg("--load-and-wait").arg(folder);
    Ok(command)
}
