//! Rows in LMDB.

use std::ops::{Bound, ControlFlow};
use std::path::Path;

use halite_contract::{Direction, Durability};
use halite_table::{KeyRange, TableSchema};
use halite_workload::store::keyed::{Keyed, Pairs, Tables, VisitPair};
use halite_workload::store::{Body, Ended, Homes, Outcome, Store};
use halite_workload::{Error, Result};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithTls};

use super::failed;

/// Bytes of the map: address space, not memory.
const MAP_BYTES: usize = 64 << 30;

type Space = Database<'static, Bytes, Bytes>;

/// LMDB with a database for each table and index.
pub(crate) struct LmdbRows {
    env: Env,
    tables: Tables,
    spaces: Vec<Space>,
}

impl LmdbRows {
    /// The tables, created where they are missing.
    pub(crate) fn open(
        folder: &Path,
        schemas: &[TableSchema],
        durability: Durability,
    ) -> Result<Self> {
        let tables = Tables::new(schemas);
        let names = tables.names();
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_dbs(names.len() as u32);
        #[expect(unsafe_code, reason = "a map of a file is only sound if nobody else changes it")]
        // SAFETY: the folder is this run's own; no other process or handle has it open. Without a sync at each commit, the
        // store lives no longer than the process, or is synced by the next opening's commits.
        let env = unsafe {
            if durability == Durability::Deferred {
                options.flags(EnvFlags::NO_SYNC);
            }
            options.open(folder).map_err(failed)?
        };
        let create = |name: &String| -> heed::Result<Space> {
            let transaction = env.write_txn()?;
            let created = env.create_databases_and_commit(transaction, |opener, transaction| {
                let created = opener.create_database::<Bytes, Bytes>(transaction, Some(name));
                created.map(CommitOrAbort::<_, ()>::Commit)
            })?;
            Ok(created.unwrap_commit())
        };
        let spaces = names.iter().map(create).collect::<heed::Result<Vec<_>>>().map_err(failed)?;
        Ok(Self { env, tables, spaces })
    }
}

/// A transaction that began as a reader wants to write.
#[derive(Debug, thiserror::Error)]
#[error("the transaction writes")]
struct Writes;

fn writes() -> Error {
    Error::Store(Box::new(Writes))
}

impl Store for LmdbRows {
    fn run(&self, _homes: Homes<'_>, body: &mut Body<'_>) -> Result<Ended> {
        let inner = Inner::Reads(self.env.read_txn().map_err(failed)?);
        let pairs = LmdbPairs { spaces: &self.spaces, inner };
        let done = body(&mut Keyed { tables: &self.tables, pairs });
        match done {
            Err(Error::Store(error)) if error.is::<Writes>() => {}
            done => return Ok(Ended { outcome: done?, retries: 0 }),
        }
        let inner = Inner::Writes(self.env.write_txn().map_err(failed)?);
        let pairs = LmdbPairs { spaces: &self.spaces, inner };
        let mut transaction = Keyed { tables: &self.tables, pairs };
        let outcome = body(&mut transaction)?;
        let Inner::Writes(inner) = transaction.pairs.inner else { unreachable!("it writes") };
        if outcome == Outcome::Commit {
            inner.commit().map_err(failed)?;
        }
        Ok(Ended { outcome, retries: 0 })
    }
}

enum Inner<'a> {
    Reads(RoTxn<'a, WithTls>),
    Writes(RwTxn<'a>),
}

struct LmdbPairs<'a> {
    spaces: &'a [Space],
    inner: Inner<'a>,
}

impl<'a> LmdbPairs<'a> {
    fn reader(&self) -> &RoTxn<'a> {
        match &self.inner {
            Inner::Reads(inner) => inner,
            Inner::Writes(inner) => inner,
        }
    }

    fn writer(&mut self) -> Result<&mut RwTxn<'a>> {
        match &mut self.inner {
            Inner::Reads(_) => Err(writes()),
            Inner::Writes(inner) => Ok(inner),
        }
    }
}

impl Pairs for LmdbPairs<'_> {
    type Value = Vec<u8>;

    fn get(&self, space: usize, key: &[u8], for_update: bool) -> Result<Option<Vec<u8>>> {
        if for_update && matches!(self.inner, Inner::Reads(_)) {
            return Err(writes());
        }
        let found = self.spaces[space].get(self.reader(), key).map_err(failed)?;
        Ok(found.map(<[u8]>::to_vec))
    }

    fn put(&mut self, space: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let space = &self.spaces[space];
        space.put(self.writer()?, key, value).map_err(failed)
    }

    fn delete(&mut self, space: usize, key: &[u8]) -> Result<()> {
        let space = &self.spaces[space];
        space.delete(self.writer()?, key).map(drop).map_err(failed)
    }

    fn scan(
        &self,
        space: usize,
        range: KeyRange,
        direction: Direction,
        visit: &mut VisitPair<'_>,
    ) -> Result<()> {
        let to = range.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let bounds = (Bound::Included(&range.from[..]), to);
        let mut visit_pair = |pair: heed::Result<(&[u8], &[u8])>| {
            let (key, value) = pair.map_err(failed)?;
            visit(key, value)
        };
        match direction {
            Direction::Forward => {
                for pair in self.spaces[space].range(self.reader(), &bounds).map_err(failed)? {
                    if let ControlFlow::Break(()) = visit_pair(pair)? {
                        break;
                    }
                }
            }
            Direction::Reverse => {
                for pair in self.spaces[space].rev_range(self.reader(), &bounds).map_err(failed)? {
                    if let ControlFlow::Break(()) = visit_pair(pair)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
