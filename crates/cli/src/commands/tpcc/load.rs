//! `halite tpcc load`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::{Args, ValueEnum, value_parser};
use halite_table::testbed::PARTITIONS_MAX;
use halite_workload::tpcc::{Scale, load};
use serde_json::json;

use super::store::{THREADS_MAX, Tables, in_tables};
use crate::engine::EngineArgs;
use crate::interrupt::Interrupt;
use crate::size::{count, grouped};
use crate::{Error, Result, output, progress};

const EXAMPLES: &str = "\
Examples:
  halite tpcc load ./tpcc --warehouses 1
  halite tpcc load ./tpcc --warehouses 8 --threads 4 --engine lsm
  halite tpcc load ./small --warehouses 2 --scale tiny
  halite tpcc load ./bed --warehouses 2 --threads 2 --engine table:nvm-inp --partitions 2

A load that was interrupted, by Ctrl-C or by a power cut, is continued by the same command: each batch of rows is one
durable transaction. A database that was loaded in another size is refused.

With an engine table:METHOD the rows are in tables of the testbed, which `halite table` shows; with any other in key spaces.
Warehouse W is in partition W-1 modulo the number of partitions, and a transaction locks the partitions of its warehouses.";

/// The seed of the rows, so that two loads of a size have the same rows.
const SEED: u64 = 1;

/// Fill a database with the rows of TPC-C
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Load {
    /// The database's folder, which is made if it is not there
    path: PathBuf,

    /// Warehouses, which the size of the database follows
    #[arg(
        long,
        value_name = "W",
        value_parser = value_parser!(u32).range(1..=i64::from(Scale::WAREHOUSES_MAX)),
    )]
    warehouses: u32,

    /// The rows of a warehouse
    #[arg(long, value_enum, default_value_t = Rows::Full)]
    scale: Rows,

    /// Threads that load, each a warehouse at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=THREADS_MAX))]
    threads: u32,

    #[command(flatten)]
    engine: EngineArgs,

    /// The partitions of a new store of an engine table:METHOD; by default 1. A store that is there has to have so many
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=PARTITIONS_MAX as u64))]
    partitions: Option<u64>,

    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rows {
    /// Those of the specification: 10 districts, 30,000 customers, 100,000 items
    Full,
    /// 2 districts, 60 customers, 100 items, for a trial; its figures mean nothing
    Tiny,
}

impl Load {
    pub(super) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let partitions = self.partitions.map(|partitions| partitions as usize);
        let tables = Tables::create(&self.path, &self.engine, partitions)?;
        let scale = match self.scale {
            Rows::Full => Scale::full(self.warehouses),
            Rows::Tiny => Scale::tiny(self.warehouses),
        };
        let bar = progress::share("loading");
        let (started, loaded) = (Instant::now(), AtomicU64::new(0));
        let is_whole = load(&*tables.store, scale, SEED, self.threads, &|done, all| {
            loaded.fetch_add(1, Ordering::Relaxed);
            progress::set(&bar, done.into(), all.into());
            !interrupt.is_raised()
        });
        bar.finish_and_clear();
        let seconds = started.elapsed().as_secs_f64();
        let loaded = loaded.into_inner();
        if !is_whole.map_err(|error| in_tables(&self.path, error))? {
            return Err(Error::Stopped {
                left: "what was loaded is kept; the same command goes on there",
            });
        }
        if self.json {
            return output::json(&json!({
                "warehouses": self.warehouses,
                "batches": loaded,
                "seconds": seconds,
                "engine": tables.engine,
                "partitions": tables.partitions,
                "domain": tables.domain.name(),
            }));
        }
        let warehouses = count(self.warehouses.into(), "warehouse");
        output::text(&match loaded {
            0 => format!("{}: {warehouses} were loaded before\n", self.path.display()),
            _ => format!("loaded {warehouses}, {}, in {seconds:.2} s\n", batches(loaded)),
        })
    }
}

fn batches(number: u64) -> String {
    match number {
        1 => "1 batch".to_owned(),
        _ => format!("{} batches", grouped(number)),
    }
}
