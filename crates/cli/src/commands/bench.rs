//! `halite bench`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};
use halite_bench::command::{self, Program};
use halite_bench::{HaliteStore, Hooks, KvOptions, Store, kv, load_and_wait};

use crate::{Error, Result, interrupt, output};

const EXAMPLES: &str = "\
Examples:
  halite bench kv                             a million records on /dev/shm
  halite bench kv --folder /mnt/pmem0         the same on another medium
  halite bench kv --records 100000 --json

Every put is durable in the medium's domain before the next begins; the table says what that means
for each row. `scripts/bench-peers` runs the same workload on Halite and other stores in one run.";

/// Measure the medium, the building blocks and the store
#[derive(Debug, Args)]
#[command(after_help = command::EXAMPLES)]
pub(crate) struct Bench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    #[command(flatten)]
    Shared(command::Command),
    Kv(Kv),
}

/// One thread: durable puts, gets, scans, and reopening after a close and after a kill
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Kv {
    /// Where the store is made, in a fresh folder that is removed again
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,

    /// Records to load
    #[arg(long, default_value_t = KvOptions::default().records)]
    records: u64,

    /// Random records to get
    #[arg(long, default_value_t = KvOptions::default().gets)]
    gets: u64,

    /// Bytes of a key
    #[arg(long, default_value_t = KvOptions::default().key_len)]
    key_len: usize,

    /// Bytes of a value
    #[arg(long, default_value_t = KvOptions::default().value_len)]
    value_len: usize,

    /// How often everything is measured
    #[arg(long, default_value_t = KvOptions::default().repeats)]
    repeats: u32,

    /// The seed of the records
    #[arg(long, default_value_t = KvOptions::default().seed)]
    seed: u64,

    /// Also overwrite every record once
    #[arg(long)]
    overwrite: bool,

    /// Print a JSON object
    #[arg(long)]
    json: bool,

    /// Be the process that is killed: load the store in this folder, and wait
    #[arg(long, hide = true)]
    load_and_wait: Option<PathBuf>,
}

impl Bench {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.workload {
            Workload::Shared(command) => run(command),
            Workload::Kv(kv) => kv.run(),
        }
    }
}

fn run(command: &command::Command) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::raise(&interrupted)?;
    let mut out = output::stdout();
    let mut program = Program { peers: &(), out: &mut out, interrupted: &interrupted };
    let outcome = command.run(&mut program);
    out.flush().map_err(output::failed)?;
    Ok(outcome?)
}

impl Kv {
    fn run(&self) -> Result<()> {
        let options = self.options();
        if let Some(folder) = &self.load_and_wait {
            return Ok(load_and_wait(&options, &mut HaliteStore::new(), folder)?);
        }
        let child = |_: &str, folder: &Path| self.child(folder);
        let progress = |what: &str| output::message(what);
        let hooks = Hooks { child: Some(&child), progress: Some(&progress) };
        let mut stores: [Box<dyn Store>; 1] = [Box::new(HaliteStore::new())];
        let report = kv(&options, &self.folder, &mut stores, &hooks)?;
        if self.json { output::json(&report.to_json()) } else { output::text(&report.to_string()) }
    }

    fn options(&self) -> KvOptions {
        KvOptions {
            records: self.records,
            key_len: self.key_len,
            value_len: self.value_len,
            overwrite: self.overwrite,
            gets: self.gets,
            repeats: self.repeats,
            seed: self.seed,
            ..KvOptions::default()
        }
    }

    /// This program once more, to load the same records and be killed.
    fn child(&self, folder: &Path) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "kv"]);
        for (option, value) in [
            ("--records", self.records),
            ("--key-len", self.key_len as u64),
            ("--value-len", self.value_len as u64),
            ("--seed", self.seed),
        ] {
            command.arg(option).arg(value.to_string());
        }
        command.arg("--load-and-wait").arg(folder);
        Ok(command)
    }
}

impl From<halite_bench::Error> for Error {
    fn from(error: halite_bench::Error) -> Self {
        use halite_bench::Error as Bench;
        match error {
            Bench::Interrupted => Self::BenchInterrupted,
            Bench::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                Self::OutputClosed
            }
            Bench::Unknown { .. } | Bench::PeerApart { .. } | Bench::Option { .. } => {
                Self::Usage(format!("bench: {error}"))
            }
            error => Self::input("bench", error),
        }
    }
}
