//! Other people's software under the same measurements.

use std::path::Path;

use halite::Durability;
use halite_table::TableSchema;
use halite_workload::store::Store as RowStore;

use crate::kv::Store;
use crate::row::Params;
use crate::run::{Contender, RunOptions};
use crate::{Error, Result};

/// The peers of `halite bench kv`, whether they are built into a program or not.
pub(crate) const STORES: &[&str] =
    &["fjall", "lmdb", "redb", "rocksdb", "sqlite", "raw-buffered", "raw-direct"];

/// Those of them that are the limit of the disk, and no stores: they take puts alone.
pub(crate) const RAW: [&str; 2] = ["raw-buffered", "raw-direct"];

/// The peers of `halite bench blocks`.
pub(crate) const BLOCKS: &[&str] = &["libpmemlog", "libpmemblk", "libpmemobj"];

/// The peers of `halite bench lsm`.
pub(crate) const LSM: &[&str] = &["rocksdb", "fjall", "crossbeam-skiplist", "congee", "libpmemobj"];

/// The peers of `halite bench betree`.
pub(crate) const BETREE: &[&str] = &["redb", "lmdb", "rocksdb", "fjall"];

/// The peers of `halite bench arulraj` and `halite bench tpcc`.
pub(crate) const ROWS: &[&str] = &["sqlite", "lmdb"];

/// The peers that a program is built with.
pub trait Peers {
    /// Their names.
    fn names(&self) -> &[&str];

    /// The store of that name, if it is one.
    fn store(&self, name: &str) -> Option<Box<dyn Store>>;

    /// The store of rows of that name, opened or made in a folder, if there is one; each commit is durable by itself, unless
    /// the durability says otherwise.
    fn rows(
        &self,
        _name: &str,
        _schemas: &[TableSchema],
        _folder: &Path,
        _durability: Durability,
    ) -> Option<Result<Box<dyn RowStore>>> {
        None
    }

    /// Returns the peers that take part in the comparison `experiment` with these `params`. Each measures as
    /// docs/BENCH.md describes for that experiment, and yields samples of the same metrics and units.
    ///
    /// # Errors
    /// The errors of preparing them.
    fn contenders(
        &self,
        experiment: &str,
        params: &Params,
        options: &RunOptions,
    ) -> Result<Vec<Contender<'_>>>;
}

/// No peers.
impl Peers for () {
    fn names(&self) -> &[&str] {
        &[]
    }

    fn store(&self, _: &str) -> Option<Box<dyn Store>> {
        None
    }

    fn contenders(&self, _: &str, _: &Params, _: &RunOptions) -> Result<Vec<Contender<'_>>> {
        Ok(Vec::new())
    }
}

/// The peers in `known` that take part in the subcommand `workload`: those `asked` for, or all that are built in. Under
/// a profile there are none, because it slows down Halite alone.
pub(crate) fn choose(
    peers: &dyn Peers,
    workload: &'static str,
    known: &'static [&'static str],
    asked: &[String],
    is_profiled: bool,
) -> Result<Vec<String>> {
    let built = peers.names();
    if is_profiled && !asked.is_empty() {
        let why = "a profile slows down Halite alone; leave out --peer or --profile".to_owned();
        return Err(Error::Wrong { option: "--peer", why });
    }
    if is_profiled {
        return Ok(Vec::new());
    }
    if asked.is_empty() {
        let chosen = known.iter().filter(|name| built.contains(name));
        return Ok(chosen.map(|name| (*name).to_owned()).collect());
    }
    for name in asked {
        if !known.contains(&name.as_str()) {
            return Err(Error::unknown("peer", name, known.iter().copied()));
        }
        if !built.contains(&name.as_str()) {
            let known = known.join(", ");
            return Err(Error::PeerApart { peer: name.clone(), workload, known });
        }
    }
    Ok(asked.to_vec())
}
