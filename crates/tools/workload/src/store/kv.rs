//! Rows in a database of any engine, through its face: a key space for each table and index.

use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use halite::{Bytes, Database, Durability, KeySpace, TransactionOptions};
use halite_contract::Direction;
use halite_table::{KeyRange, TableSchema};

use super::keyed::{Keyed, Pairs, Tables, VisitPair};
use super::{Body, Ended, Homes, Outcome, Store};
use crate::{Error, Result};

/// How often a transaction is run before it gives up.
const TRIES: u32 = 1000;

/// The longest wait before a transaction is run again for the first time, and at all.
const WAIT_FIRST: Duration = Duration::from_micros(20);
const WAIT_MAX: Duration = Duration::from_millis(10);

/// How a [`KvStore`] runs transactions.
#[derive(Debug, Clone)]
pub struct KvOptions {
    /// Isolation and locking.
    pub transaction: TransactionOptions,
    /// The durability of a commit.
    pub durability: Durability,
}

impl Default for KvOptions {
    /// Serializable, optimistic, durable.
    fn default() -> Self {
        let durability = Durability::Immediate;
        Self { transaction: TransactionOptions::default(), durability }
    }
}

/// A store of rows in the key spaces of a database.
#[derive(Debug)]
pub struct KvStore {
    db: Database,
    tables: Tables,
    spaces: Vec<KeySpace>,
    options: KvOptions,
}

impl KvStore {
    /// The tables in a database, created where they are missing; key spaces have the names of tables, and
    /// `table.index` of indexes.
    ///
    /// # Errors
    /// Those of the database.
    pub fn create(db: &Database, schemas: &[TableSchema], options: KvOptions) -> Result<Self> {
        let tables = Tables::new(schemas);
        let create = |name: &String| db.key_space(name).map_err(failed);
        let spaces = tables.names().iter().map(create).collect::<Result<_>>()?;
        Ok(Self { db: db.clone(), spaces, tables, options })
    }

    /// The tables that are in a database; nothing is written.
    ///
    /// # Errors
    /// [`Error::NotLoaded`] if one is missing; those of the database.
    pub fn open(db: &Database, schemas: &[TableSchema], options: KvOptions) -> Result<Self> {
        let tables = Tables::new(schemas);
        let find = |name: &String| db.find_key_space(name).map_err(failed)?.ok_or(Error::NotLoaded);
        let spaces = tables.names().iter().map(find).collect::<Result<_>>()?;
        Ok(Self { db: db.clone(), spaces, tables, options })
    }

    fn try_once(&self, body: &mut Body<'_>) -> Result<Outcome> {
        let inner = self.db.begin(self.options.transaction.clone()).map_err(failed)?;
        let pairs = SpacePairs { spaces: &self.spaces, inner };
        let mut transaction = Keyed { tables: &self.tables, pairs };
        let outcome = body(&mut transaction)?;
        match outcome {
            Outcome::Commit => {
                transaction.pairs.inner.commit(self.options.durability).map_err(failed)?;
            }
            Outcome::Rollback => transaction.pairs.inner.rollback(),
        }
        Ok(outcome)
    }
}

fn failed(error: halite::Error) -> Error {
    Error::Store(Box::new(error))
}

/// Whether another transaction was in the way.
fn is_retryable(error: &Error) -> bool {
    let Error::Store(error) = error else { return false };
    error.downcast_ref::<halite::Error>().is_some_and(halite::Error::is_retryable)
}

impl Store for KvStore {
    fn run(&self, _homes: Homes<'_>, body: &mut Body<'_>) -> Result<Ended> {
        let mut wait = WAIT_FIRST;
        let mut random = Rng::with_seed(RandomState::new().hash_one(()));
        for retries in 0..TRIES {
            match self.try_once(body) {
                Err(error) if is_retryable(&error) => {
                    thread::sleep(wait.mul_f64(random.f64()));
                    wait = (2 * wait).min(WAIT_MAX);
                }
                done => return Ok(Ended { outcome: done?, retries }),
            }
        }
        Err(Error::Conflict { tries: TRIES })
    }
}

/// The pairs of key spaces in a transaction of the database.
struct SpacePairs<'a> {
    spaces: &'a [KeySpace],
    inner: halite::Transaction,
}

impl Pairs for SpacePairs<'_> {
    type Value = Bytes;

    fn get(&self, space: usize, key: &[u8], for_update: bool) -> Result<Option<Bytes>> {
        let space = &self.spaces[space];
        let value = match for_update {
            true => self.inner.get_for_update(space, key),
            false => self.inner.get(space, key),
        };
        value.map_err(failed)
    }

    fn put(&mut self, space: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(&self.spaces[space], key, value).map_err(failed)
    }

    fn delete(&mut self, space: usize, key: &[u8]) -> Result<()> {
        self.inner.delete(&self.spaces[space], key).map_err(failed)
    }

    fn scan(
        &self,
        space: usize,
        range: KeyRange,
        direction: Direction,
        visit: &mut VisitPair<'_>,
    ) -> Result<()> {
        let (space, from) = (&self.spaces[space], range.from);
        let to = range.to.map_or(Bound::Unbounded, Bound::Excluded);
        let bounds = (Bound::Included(from), to);
        let pairs = match direction {
            Direction::Forward => self.inner.range(space, bounds),
            Direction::Reverse => self.inner.range_rev(space, bounds),
        };
        for pair in pairs.map_err(failed)? {
            let (key, value) = pair.map_err(failed)?;
            if visit(&key, &value)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}
