//! The stores that a workload runs on: transactions over tables of rows.
//!
//! A workload is a number of procedures over [`Transaction`]; a store runs them ([`Store::run`]). A store says nothing
//! of its tables: it is opened with their schemas, and a table's number is its place among them. [`ModelStore`] has the
//! rows in memory, and [`KvStore`] in the key spaces of a database; both keep tables and indexes as pairs of bytes
//! (`keyed`). [`TestbedStore`] has them in the tables of a testbed of recovery methods.

use std::ops::{Bound, ControlFlow};

use halite_table::{Change, RowRef, ValueRef};

use crate::Result;

pub mod keyed;
mod kv;
mod model;
mod testbed;

pub use halite_contract::Direction;
pub use kv::{KvOptions, KvStore};
pub use model::ModelStore;
pub use testbed::TestbedStore;

/// The rows that a transaction touches, told beforehand, so that a store with partitions knows them.
///
/// In a transaction of one home all rows are that home's. In one of several homes the first column of a row's primary
/// key is its home. Rows of tables that are everywhere are read from the first home's copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Homes<'a> {
    /// Those of these homes, which are numbers from 1; the first is the one that asks.
    Of(&'a [u32]),
    /// The rows of tables that no home owns. A store that has copies of them runs the body once on each copy.
    Everywhere,
}

/// How the body of a transaction ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its changes happen.
    Commit,
    /// None of its changes happens (§2.4.1.4).
    Rollback,
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The outcome that the body asked for.
    pub outcome: Outcome,
    /// How often the body was run again because another transaction was in the way.
    pub retries: u32,
}

/// The body of a transaction. A store may run it several times, and from another thread.
pub type Body<'a> = dyn FnMut(&mut dyn Transaction) -> Result<Outcome> + Send + 'a;

/// A store of rows.
pub trait Store: Sync {
    /// Runs a transaction: its changes happen whole, durably as the store has it, and as if no other ran; or, if the
    /// body asks for a rollback or fails, not at all.
    ///
    /// # Errors
    /// Those of the body, and of the store.
    fn run(&self, homes: Homes<'_>, body: &mut Body<'_>) -> Result<Ended>;
}

/// Rows of a table or index, and their order.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'a> {
    /// The index by which rows are sought; `None` is the primary key.
    pub index: Option<usize>,
    /// The beginning of the first key.
    pub from: Bound<&'a [ValueRef<'a>]>,
    /// The beginning of the last key.
    pub to: Bound<&'a [ValueRef<'a>]>,
    /// The order.
    pub direction: Direction,
}

impl<'a> Scan<'a> {
    /// The rows whose primary keys begin with these values, ascending.
    #[must_use]
    pub fn prefix(values: &'a [ValueRef<'a>]) -> Self {
        Self::between(Bound::Included(values), Bound::Included(values))
    }

    /// The rows between two beginnings of primary keys, ascending.
    #[must_use]
    pub fn between(from: Bound<&'a [ValueRef<'a>]>, to: Bound<&'a [ValueRef<'a>]>) -> Self {
        Self { index: None, from, to, direction: Direction::Forward }
    }

    /// The same by the keys of an index.
    #[must_use]
    pub fn by(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }

    /// The same, descending.
    #[must_use]
    pub fn descending(self) -> Self {
        Self { direction: Direction::Reverse, ..self }
    }
}

/// Takes the row that was found.
pub type Read<'a> = dyn FnMut(RowRef<'_>) -> Result<()> + 'a;

/// Takes one row after another, until it breaks off.
pub type Visit<'a> = dyn FnMut(RowRef<'_>) -> Result<ControlFlow<()>> + 'a;

/// A transaction over the tables of a store, which are known by their numbers.
pub trait Transaction {
    /// Reads the row with this primary key; false if there is none.
    ///
    /// # Errors
    /// Those of the store, and of `read`.
    fn get(&mut self, table: usize, key: &[ValueRef<'_>], read: &mut Read<'_>) -> Result<bool>;

    /// [`Transaction::get`] of a row that the transaction will change: a store with locks may take the stronger one.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn get_for_update(
        &mut self,
        table: usize,
        key: &[ValueRef<'_>],
        read: &mut Read<'_>,
    ) -> Result<bool> {
        self.get(table, key, read)
    }

    /// Adds a row of these values.
    ///
    /// # Errors
    /// [`halite_table::Error::DuplicateKey`] if its primary key, or that of a unique index, is there already.
    fn insert(&mut self, table: usize, values: &[ValueRef<'_>]) -> Result<()>;

    /// Changes columns of the row with this primary key, none of which are of that key; false if there is no row.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    fn update(
        &mut self,
        table: usize,
        key: &[ValueRef<'_>],
        changes: &[Change<'_>],
    ) -> Result<bool>;

    /// Removes the row with this primary key; false if there is none.
    ///
    /// # Errors
    /// Those of the store.
    fn delete(&mut self, table: usize, key: &[ValueRef<'_>]) -> Result<bool>;

    /// Visits rows in the order of their keys.
    ///
    /// # Errors
    /// Those of the store, and of `visit`.
    fn scan(&mut self, table: usize, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<()>;
}
