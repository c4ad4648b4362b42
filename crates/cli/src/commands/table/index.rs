//! `halite table create-index` and `halite table drop-index`.

use std::path::PathBuf;

use clap::Args;

use super::schema::{NewIndex, check_unique};
use super::store::Store;
use crate::Result;
use crate::interrupt::Interrupt;

const CREATE_EXAMPLES: &str = "\
Examples:
  halite table create-index ./bank account 'by_owner(owner)'
  halite table create-index ./bank account 'by_mail(mail)' --unique

The index is made of the rows that are there. If two of them have one key of a unique index, there is no index.";

const DROP_EXAMPLES: &str = "\
Examples:
  halite table drop-index ./bank account by_owner";

/// Create a secondary index of a table
#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub(super) struct CreateIndex {
    /// The store's folder
    path: PathBuf,

    /// The table
    table: String,

    /// The index
    #[arg(value_name = "NAME(COLUMN,..)")]
    index: NewIndex,

    /// No two rows may have one key without NULL
    #[arg(long)]
    unique: bool,
}

/// Remove a secondary index of a table
#[derive(Debug, Args)]
#[command(after_help = DROP_EXAMPLES)]
pub(super) struct DropIndex {
    /// The store's folder
    path: PathBuf,

    /// The table
    table: String,

    /// The index
    index: String,
}

impl CreateIndex {
    pub(super) fn run(&self) -> Result<()> {
        let store = Store::open(&self.path)?;
        if self.unique {
            let schema = store.schema(&self.table)?;
            check_unique(&schema, [&self.index], store.testbed.partitions())?;
        }
        let (name, columns) = (&self.index.name, self.index.columns().collect::<Vec<_>>());
        store.done(store.testbed.create_index(&self.table, name, &columns, self.unique))
    }
}

impl DropIndex {
    pub(super) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let store = Store::open(&self.path)?;
        store.done(store.testbed.drop_index(&self.table, &self.index))?;
        store.reclaim(&interrupt)
    }
}
