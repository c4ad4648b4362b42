//! Snapshots: one point in time across all partitions.
//!
//! The views of all partitions are locked, in order, and the indexes of their key spaces cloned, each in constant
//! time. Each partition notes the epoch, as for a scan: space that is hidden later waits in limbo until the snapshot,
//! and the scans of it, are gone.
//!
//! The catalogue says which key spaces there were: a key space comes to the views, and leaves them, after its name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_contract::{
    Bytes, Direction, Error, KeyRange, KeySpaceId, Partitioning, Positions, Reader, Result, Scan,
    Snapshot,
};

use crate::catalogue::read_catalogue;
use crate::index::Index;
use crate::partition::{self, Partition};
use crate::read::scan::{Moment, RangeScan, join};
use crate::read::view::KeySpace;

/// A snapshot of a store.
pub(crate) struct StoreSnapshot {
    partitioning: Partitioning,
    positions: Option<Positions>,
    names: BTreeMap<u32, Arc<str>>,
    parts: Vec<Part>,
    /// Whether only one more write relies on it.
    is_ending: AtomicBool,
}

/// The state of a partition.
pub(crate) struct Part {
    moment: Moment,
    spaces: BTreeMap<u32, KeySpace>,
    /// The number behind the last operation that it has.
    pub(crate) position: u64,
}

impl Part {
    /// The index of a key space, if there is anything of it.
    pub(crate) fn index(&self, space: KeySpaceId) -> Option<&Index> {
        self.spaces.get(&space.0).map(|space| &space.index)
    }
}

impl StoreSnapshot {
    /// The present of all partitions; `history` is the history in which the positions of their change logs are valid.
    pub(crate) fn take(
        partitions: &[Arc<Partition>],
        partitioning: &Partitioning,
        history: Option<u128>,
    ) -> Result<Self> {
        let mut names = Ok(Vec::new());
        let mut positions = Vec::new();
        let parts = partition::views(partitions, |partition, view| {
            if positions.is_empty() {
                names = read_catalogue(view, partition.salt);
            }
            positions.push(view.position);
            Part {
                moment: Moment::of(partition, view, Reader::Snapshot),
                spaces: view.spaces.clone(),
                position: view.position,
            }
        });
        Ok(Self {
            partitioning: partitioning.clone(),
            positions: history.map(|history| Positions { history, partitions: positions }),
            names: names?.into_iter().collect(),
            parts,
            is_ending: AtomicBool::new(false),
        })
    }

    /// The state of each partition, if this is a snapshot of these.
    pub(crate) fn parts_of(&self, partitions: &[Arc<Partition>]) -> Option<&[Part]> {
        let is_of = |(part, partition): (&Part, &Arc<Partition>)| {
            std::ptr::eq(part.moment.partition(), &**partition)
        };
        let are_of =
            self.parts.len() == partitions.len() && self.parts.iter().zip(partitions).all(is_of);
        are_of.then_some(&self.parts)
    }

    /// Keeps no space for it any more, if the write that has been validated by it is the last that relies on it.
    pub(crate) fn end_if_last(&self) {
        if self.is_ending.load(Ordering::Relaxed) {
            self.parts.iter().for_each(|part| part.moment.end());
        }
    }

    /// A key space in a part, if there is anything of it.
    fn space(&self, part: usize, space: KeySpaceId) -> Result<Option<&KeySpace>> {
        match self.names.contains_key(&space.0) {
            true => Ok(self.parts[part].spaces.get(&space.0)),
            false => Err(Error::NoSuchKeySpace),
        }
    }
}

impl Snapshot for StoreSnapshot {
    fn name_reader(&self, reader: Reader) {
        self.parts.iter().for_each(|part| part.moment.name(reader));
    }

    fn end_reads(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    fn positions(&self) -> Option<Positions> {
        self.positions.clone()
    }

    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        let mut all: Vec<_> =
            self.names.iter().map(|(id, name)| (name.to_string(), KeySpaceId(*id))).collect();
        all.sort();
        all
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let part = self.partitioning.partition_of(key);
        let Some(space) = self.space(part, space)? else { return Ok(None) };
        self.parts[part].moment.partition().get_in(&space.index, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        let len = |part| Ok(self.space(part, space)?.map_or(0, |space| space.index.len()));
        (0..self.parts.len()).map(len).sum()
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        let mut scans = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            let Some(space) = self.space(number, space)? else { continue };
            let (moment, view) = (part.moment.clone(), part.moment.partition().view.read());
            scans.push(RangeScan::of(moment, &space.index, &view.blocks, &range, direction)?);
        }
        Ok(join(scans, &self.partitioning, direction))
    }
}
