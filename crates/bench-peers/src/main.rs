//! Halite beside other people's software: the same work, in one run, in one folder, equally durable
//! on every side.
//!
//! An embedded store is an adapter to `halite_bench::Store`, in a file of its own, configured for this
//! work: caches that hold all the data, no compression, and durability as its documentation asks.
//! This program starts itself once more for each reopening after a kill. PMDK's libraries ([`pmdk`])
//! join the experiments of the building blocks, whose command line is that of `halite bench`.

mod fjall;
mod lmdb;
mod peers;
#[cfg(feature = "pmdk")]
mod pmdk;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;

use clap::Parser;
use halite_bench::command::{self, Program};
use halite_bench::{HaliteStore, Hooks, KvOptions, Peers, Phase, Report, Store, kv, load_and_wait};
use peers::BuiltIn;
use serde_json::json;

/// Bytes of cache that a peer is given; what it does not need it does not take.
const CACHE_BYTES: usize = 2 << 30;

/// Measures Halite and other stores with the same workload and compares them.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<command::Command>,
    /// Where the stores are made, in fresh folders.
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,
    /// Records to load.
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Random records to get.
    #[arg(long, default_value_t = 1_000_000)]
    gets: u64,
    /// How often everything is measured.
    #[arg(long, default_value_t = 5)]
    repeats: u32,
    /// The seed of the records.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The stores to measure, all by default.
    #[arg(long, value_delimiter = ',', value_parser = NAMES.to_vec())]
    stores: Vec<String>,
    /// Also overwrite every record.
    #[arg(long)]
    overwrite: bool,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Be the process that is killed: load the one store in this folder, and wait.
    #[arg(long, hide = true)]
    load_and_wait: Option<PathBuf>,
}

const NAMES: &[&str] = &[
    "halite",
    "fjall",
    "lmdb",
    "redb",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

/// The peers that the targets are set against: the best of these.
const TARGET_PEERS: &[&str] = &["rocksdb", "fjall", "lmdb"];

/// What Halite is to be, as a multiple of the best of [`TARGET_PEERS`].
const TARGETS: &[(Phase, f64)] = &[(Phase::Load, 4.0), (Phase::Get, 2.0)];

fn store(name: &str) -> Option<Box<dyn Store>> {
    if name == "halite" { Some(Box::new(HaliteStore::new())) } else { BuiltIn.store(name) }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Some(command) => run_command(command),
        None => run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The experiments of `halite bench`, and the peers that can join them.
fn run_command(command: &command::Command) -> Result<(), Box<dyn Error>> {
    #[cfg(feature = "pmdk")]
    pmdk::match_durability(command.folder())?;
    let mut out = io::stdout().lock();
    let interrupted = AtomicBool::new(false);
    command.run(&mut Program { peers: &BuiltIn, out: &mut out, interrupted: &interrupted })?;
    Ok(out.flush()?)
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let options = KvOptions {
        records: arguments.records,
        overwrite: arguments.overwrite,
        gets: arguments.gets,
        repeats: arguments.repeats,
        seed: arguments.seed,
        ..KvOptions::default()
    };
    let all: Vec<_> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let names = if arguments.stores.is_empty() { &all } else { &arguments.stores };
    let mut stores: Vec<_> = names.iter().filter_map(|name| store(name)).collect();
    if let Some(folder) = &arguments.load_and_wait {
        let store = stores.first_mut().ok_or("no store to load")?;
        return Ok(load_and_wait(&options, &mut **store, folder)?);
    }

    let child = |name: &str, folder: &Path| -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--stores", name]);
        command.args(["--records", &arguments.records.to_string()]);
        command.args(["--seed", &arguments.seed.to_string()]);
        command.arg("--load-and-wait").arg(folder);
        Ok(command)
    };
    let progress = |line: &str| eprintln!("{line}");
    let hooks = Hooks { child: Some(&child), progress: Some(&progress) };
    let report = kv(&options, &arguments.folder, &mut stores, &hooks)?;
    if arguments.json {
        let mut json = report.to_json();
        json["targets"] = targets(&report)
            .map(|(phase, ratio, best, target)| {
                let phase = phase.name();
                json!({ "phase": phase, "ratio": ratio, "best_peer": best, "target": target })
            })
            .collect();
        println!("{json:#}");
    } else {
        println!("{report}");
        for (phase, ratio, best, target) in targets(&report) {
            let met = if ratio >= target { "met" } else { "missed" };
            println!("{phase}: {ratio:.2}x the best peer, {best}; target {target}x: {met}");
        }
    }
    Ok(())
}

fn targets(report: &Report) -> impl Iterator<Item = (Phase, f64, String, f64)> + '_ {
    TARGETS.iter().filter_map(|&(phase, target)| {
        let ratio = report.ratio("halite", TARGET_PEERS, phase)?;
        Some((phase, ratio.ratio, ratio.best, target))
    })
}
