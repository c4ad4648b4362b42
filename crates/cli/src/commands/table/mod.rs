//! `halite table`.
//!
//! A command opens the store of the testbed in a folder (`store.rs`), which `create` makes. Rows come and go as
//! comma-separated values (`csv.rs`), which `value.rs` turns into values of columns.

mod create;
mod csv;
mod describe;
mod dump;
mod index;
mod load;
mod print;
mod scan;
mod schema;
mod store;
mod value;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::Result;
use crate::interrupt::Interrupt;

use create::Create;
use describe::Describe;
use dump::Dump;
use index::{CreateIndex, DropIndex};
use load::Load;
use scan::Scan;
use store::Store;
pub(super) use store::{in_store, options};

const EXAMPLES: &str = "\
Examples:
  halite table create ./bank account --column 'id int64' --column 'balance decimal(12,2)' --primary-key id
  halite table load ./bank account accounts.csv
  halite table scan ./bank account --from 100 --limit 10
  halite table dump ./bank account copy.csv
  halite table describe ./bank --count

A store of tables is a folder with a pool in it, as a database is, under one recovery method of the testbed: where rows
are, what is logged, and what a crash leaves to do. docs/TABLE.md has the methods, the types and the limits.";

const DROP_EXAMPLES: &str = "\
Examples:
  halite table drop ./bank account

The table is gone in one step, whatever it has. Then its space is given back; if that is interrupted, the next
`table drop` or `table drop-index` goes on with it.";

/// Create, fill and read tables of the testbed of recovery methods
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Table {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    /// Remove a table with all its rows
    #[command(after_help = DROP_EXAMPLES)]
    Drop {
        /// The store's folder
        path: PathBuf,

        /// The table
        table: String,
    },
    CreateIndex(CreateIndex),
    DropIndex(DropIndex),
    Describe(Describe),
    Scan(Scan),
    Load(Load),
    Dump(Dump),
}

impl Table {
    pub(crate) fn run(&self) -> Result<()> {
        match &self.action {
            Action::Create(create) => create.run(),
            Action::Drop { path, table } => {
                let interrupt = Interrupt::catch()?;
                let store = Store::open(path)?;
                store.done(store.testbed.drop_table(table))?;
                store.reclaim(&interrupt)
            }
            Action::CreateIndex(create) => create.run(),
            Action::DropIndex(drop) => drop.run(),
            Action::Describe(describe) => describe.run(),
            Action::Scan(scan) => scan.run(),
            Action::Load(load) => load.run(),
            Action::Dump(dump) => dump.run(),
        }
    }
}
