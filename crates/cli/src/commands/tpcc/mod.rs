//! `halite tpcc`.

mod check;
mod conditions;
mod load;
mod report;
mod run;
mod store;

use clap::{Args, Subcommand};

use crate::Result;
use check::Check;
use load::Load;
use run::Run;

const EXAMPLES: &str = "\
Examples:
  halite tpcc load ./tpcc --warehouses 2 --engine lsm      a warehouse takes about 130 MiB
  halite tpcc run ./tpcc --threads 2 --duration 60s
  halite tpcc check ./tpcc                                 the twelve conditions of its consistency
  halite tpcc load ./small --warehouses 1 --scale tiny     a few hundred rows, to try it
  halite tpcc load ./bed --warehouses 2 --engine table:nvm-inp --partitions 2 --threads 2

The database is one like any other, and each table and index of TPC-C is a key space of it; those of an engine table:METHOD
are tables of the testbed, which `halite table` shows. The results are TPC-C-like: no terminal is emulated over a network,
nothing is priced, and no auditor has seen them. docs/TPCC.md has what is run, and how it deviates.";

/// Load, run and check TPC-C: orders, payments and deliveries of a wholesale supplier
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tpcc {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Load(Load),
    Run(Run),
    Check(Check),
}

impl Tpcc {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.action {
            Action::Load(load) => load.run(),
            Action::Run(run) => run.run(),
            Action::Check(check) => check.run(),
        }
    }
}
