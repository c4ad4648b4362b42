//! `bench lsm`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use super::{Common, EXAMPLES, Program, seconds};
use crate::lsm::{LsmBenchOptions, Setting, load_and_wait, lsm};
use crate::run::Run;
use crate::{Result, peers};

/// Repeats, unless the command line says how many: stores have to be loaded, and disks are slow.
const REPEATS: u32 = 3;
const REPEATS_QUICK: u32 = 2;

/// `bench lsm`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Lsm {
    /// Only these experiments: halloc, index, commit, memtable, rebuild, global-index, ycsb, size,
    /// recovery, stability
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,

    /// Peers to measure beside Halite: rocksdb, fjall, crossbeam-skiplist, congee, libpmemobj
    /// [default: all that are built in]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    peer: Vec<String>,

    /// Where levels, logs and the files of peers are made, and removed again: on an SSD
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk: PathBuf,

    /// Bytes of persistent memory, taken in --folder; other stores have as many of DRAM instead
    /// [default: 1073741824; quick: 67108864]
    #[arg(long, value_name = "BYTES")]
    pmem: Option<u64>,

    /// Bytes of the database for each byte of persistent memory, in ycsb
    #[arg(long, default_value_t = LsmBenchOptions::default().fill)]
    fill: f64,

    /// Seconds of each measurement of throughput [default: 10, or 0.3 if quick]
    #[arg(long, value_parser = seconds)]
    seconds: Option<Duration>,

    /// Minutes of stability, for each store [default: 10, or 0.03 if quick]
    #[arg(long, value_parser = minutes)]
    minutes: Option<Duration>,

    /// Threads that ask stores
    #[arg(long, default_value_t = LsmBenchOptions::default().threads)]
    threads: usize,

    /// Bytes of keys and values to recover [default: 4294967296; quick: 8388608]
    #[arg(long, value_name = "BYTES")]
    recovery_bytes: Option<u64>,

    /// Let the kernel keep the stores' files in its page cache
    #[arg(long)]
    page_cache: bool,

    /// Be the process that is killed: load a store in this folder, and wait
    #[arg(long, hide = true, requires = "load_store")]
    load_and_wait: Option<PathBuf>,

    /// Which store that is
    #[arg(long, hide = true)]
    load_store: Option<String>,

    #[command(flatten)]
    pub(super) common: Common,
}

impl Lsm {
    pub(super) fn run(&self, program: &mut Program<'_>) -> Result<()> {
        let is_profiled = self.common.profile.is_some();
        let peers = peers::choose(program.peers, "lsm", peers::LSM, &self.peer, is_profiled)?;
        let options = LsmBenchOptions {
            disk: self.disk.clone(),
            pmem: self.pmem,
            fill: self.fill,
            seconds: self.seconds,
            stability: self.minutes,
            threads: self.threads,
            recovery_bytes: self.recovery_bytes,
            page_cache: self.page_cache,
        };
        crate::lsm::check(&self.only)?;
        let repeats = if self.common.quick { REPEATS_QUICK } else { REPEATS };
        let common = self.common.with_repeats(repeats);
        let run_options = common.options();
        let built = (program.peers, peers.clone());
        let setting = Setting::new(options, &run_options, built, &child)?;
        if let Some((folder, name)) = self.load_and_wait.as_ref().zip(self.load_store.as_ref()) {
            let run = Run::new(run_options, &(), program.interrupted);
            return load_and_wait(&setting, name, folder, &run);
        }
        common.run(program, peers, |run| lsm(&setting, &self.only, run))
    }
}

/// A length of time from a number of minutes.
fn minutes(text: &str) -> std::result::Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number of minutes".to_owned())?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())
}

/// This program once more, with the same options, to load the store of that name and be killed.
fn child(store: &str, folder: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1));
    command.arg("--load-store").arg(store).arg("--load-and-wait").arg(folder);
    Ok(command)
}
