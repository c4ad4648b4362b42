//! `halite tpcc check`.

use std::path::PathBuf;

use clap::Args;

use super::conditions::{as_json, as_text, examine, verdict};
use super::store::Tables;
use crate::interrupt::Interrupt;
use crate::{Result, output};

const EXAMPLES: &str = "\
Examples:
  halite tpcc check ./tpcc
  halite tpcc check ./tpcc --json | jq '.conditions[] | select(.ok | not)'

The conditions are those of the specification, which say that sums and counts of one table are those of another. Rows
that violate one are told, the first hundred of them.
Exit code 1: a condition is violated.";

/// Check the twelve conditions of a consistent database
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Check {
    /// The database's folder
    path: PathBuf,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let tables = Tables::open(&self.path)?;
        let report = examine(&*tables.store, &self.path, &interrupt)?;
        match self.json {
            true => output::json(&as_json(&report))?,
            false => output::text(&as_text(&report))?,
        }
        verdict(&report, &self.path)
    }
}
