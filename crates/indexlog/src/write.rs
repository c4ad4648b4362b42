//! The write path.
//!
//! [`Writer::write`] checks the operations, makes room (`space`), writes large values (`overflow`), encodes
//! records behind the log's tail and waits for one fence (`append`), and applies the operations to the view
//! (`apply`). Nothing has happened if anything fails before the records are written; if the fence itself
//! fails, nobody knows what is durable, so the writer takes no more writes.

use std::collections::BTreeMap;

use halite_alloc::{Device, Segments};
use halite_engine::{Durability, Error, Op, Result};
use halite_pmem::locks::RwLock;
use halite_pmem::{Pool, planted};

use crate::block_map::BlockMap;
use crate::blocks::Blocks;
use crate::change_log::ChangeLog;
use crate::collect::Collection;
use crate::entry::Entry;
use crate::index_snapshot;
use crate::limbo::Waiting;
use crate::log::{Pending, Tail};
use crate::overflow::Unfenced;
use crate::read::View;
use crate::record::{Draft, Piece};
use crate::tombstones::Tombstones;

/// The key space that holds the names of the others: name → id. Only the first partition's has any.
pub(crate) const CATALOGUE: u32 = 0;

/// The key space of what a partition notes for itself.
pub(crate) const INTERNAL: u32 = u32::MAX;

/// The one writer: what only the holder of its lock changes.
pub(crate) struct Writer {
    pub(crate) pool: Pool,
    pub(crate) device: Device,
    pub(crate) salt: u64,
    pub(crate) map: BlockMap,
    pub(crate) blocks: Blocks,
    pub(crate) log: Tail,
    /// None while what it has is replayed, too.
    pub(crate) changes: Option<ChangeLog>,
    pub(crate) collector: Tail,
    /// The collection that is under way.
    pub(crate) collection: Option<Collection>,
    pub(crate) tombstones: Tombstones,
    /// The number of the next record.
    pub(crate) next_seq: u64,
    /// Records up to this one are durable.
    pub(crate) durable_seq: u64,
    pub(crate) pending: Vec<Pending>,
    /// Blocks that were left before all of them was durable.
    pub(crate) unsealed: Vec<(u32, u64)>,
    pub(crate) limbo: Waiting,
    /// The snapshots of the index, if any are taken.
    pub(crate) index_snapshots: Option<index_snapshot::Own>,
    /// Whether other partitions, or a change log, take segments from the same pool.
    pub(crate) shares_pool: bool,
    /// Whether the pool had no segment when one was wanted last.
    pub(crate) is_full: bool,
    /// The record number that the map keeps.
    pub(crate) near: u64,
    pub(crate) next_space: u32,
    poisoned: Option<String>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) user_bytes: u64,
    pub(crate) moved_bytes: u64,
    pub(crate) collected_blocks: u64,
}

impl Writer {
    /// The writer of an empty partition.
    pub(crate) fn new(segments: &Segments, device: Device, map: BlockMap) -> Result<Self> {
        Ok(Self {
            pool: segments.pool().clone(),
            device,
            salt: map.salt(),
            near: map.near()?,
            map,
            blocks: Blocks::new(segments.pool().random()?),
            log: Tail::default(),
            changes: None,
            collector: Tail::default(),
            collection: None,
            tombstones: Tombstones::default(),
            next_seq: 1,
            durable_seq: 0,
            pending: Vec::new(),
            unsealed: Vec::new(),
            limbo: Waiting::default(),
            index_snapshots: None,
            shares_pool: false,
            is_full: false,
            next_space: CATALOGUE + 1,
            poisoned: None,
            entries: Vec::new(),
            user_bytes: 0,
            moved_bytes: 0,
            collected_blocks: 0,
        })
    }

    /// Applies operations atomically. The caller has checked them, and that their key spaces exist.
    pub(crate) fn write(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        durability: Durability,
        oldest_scan: impl Fn() -> Option<u64>,
    ) -> Result<()> {
        self.check_health()?;
        if ops.is_empty() || is_needless(&view.read(), ops)? {
            // What makes it needless may not be durable yet.
            return if durability == Durability::Immediate { self.sync() } else { Ok(()) };
        }
        let made = self.make_room_for(view, ops, &oldest_scan);
        let values = match made.and_then(|()| self.write_values(ops, &oldest_scan)) {
            Err(full @ Error::Full { .. }) => {
                self.give_back_room()?;
                return Err(full);
            }
            values => values?,
        };
        let written = self.append_with_values(view, ops, values, durability);
        self.poison_by(written)?;
        let applied = self.apply(&mut view.write(), ops);
        self.poison_by(applied)
    }

    /// Writes the values of operations that do not fit a record into free blocks, of which there are
    /// enough. They are not yet durable.
    pub(crate) fn write_values(
        &mut self,
        ops: &[Op<'_>],
        oldest_scan: &impl Fn() -> Option<u64>,
    ) -> Result<Values> {
        let mut values = Values::default();
        for (at, op) in ops.iter().enumerate() {
            let Op::Put { key, value, .. } = *op else { continue };
            if Draft::needs_overflow(key, value) {
                let (device, blocks) = (&self.device, &mut self.blocks);
                let seq = self.next_seq + at as u64;
                match values.unfenced.write(device, blocks, value, self.salt, seq) {
                    Ok(written) => drop(values.pieces.insert(at, written)),
                    Err(error) => {
                        self.discard(values);
                        return Err(error.unwrap_or_else(|| self.full(oldest_scan())));
                    }
                }
            }
        }
        Ok(values)
    }

    /// Gives the blocks of values back that nothing refers to.
    pub(crate) fn discard(&mut self, values: Values) {
        values.unfenced.discard(&mut self.blocks);
    }

    /// Writes the records of operations, behind the fence of their values.
    pub(crate) fn append_with_values(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        values: Values,
        durability: Durability,
    ) -> Result<()> {
        let Values { unfenced, pieces } = values;
        planted!(
            ValueReferencedBeforeFence,
            self.append(view, ops, &pieces, durability)
                .and_then(|()| unfenced.publish(&self.pool, view)),
            unfenced
                .publish(&self.pool, view)
                .and_then(|()| self.append(view, ops, &pieces, durability))
        )
    }

    /// Ends the log's current block, durably, so that the next open finds a clean end. Returns the digest
    /// of the map.
    pub(crate) fn close(&mut self) -> Result<u64> {
        self.sync_records()?;
        self.leave_block();
        // Sealing what was just fenced takes a second fence, this one.
        let closed = self.sync_pending(Vec::new());
        self.poison_by(closed)?;
        Ok(self.map.digest())
    }

    /// Writes that are not durable.
    pub(crate) fn unsynced(&self) -> u64 {
        let durable = self.changes.as_ref().map_or(self.durable_seq, ChangeLog::durable);
        self.next_seq - 1 - durable
    }

    /// Refuses if nobody knows what of an earlier write is durable: one of this partition, or, where the
    /// kernel failed to sync the pool that they share, of any.
    pub(crate) fn check_health(&self) -> Result<()> {
        match &self.poisoned {
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
            None => Ok(self.pool.check_synced()?),
        }
    }

    pub(crate) fn poison_by<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.poisoned = Some(error.to_string());
        }
        result
    }

    /// Takes no more writes, because an earlier one failed halfway.
    pub(crate) fn poison(&mut self, why: &str) {
        self.poisoned = Some(why.to_owned());
    }
}

/// Whether the only operation deletes what is not there.
fn is_needless(view: &View, ops: &[Op<'_>]) -> Result<bool> {
    Ok(match *ops {
        [Op::Delete { space, key }] => view.live(space.0, key)?.is_none(),
        [Op::DeleteRange { space, start, end }] => match view.spaces.get(&space.0) {
            Some(space) => !space.index.has_any(start, end, &view.blocks)?,
            None => true,
        },
        _ => false,
    })
}

/// The values of operations that do not fit a record: written, and not yet durable.
#[derive(Default)]
pub(crate) struct Values {
    unfenced: Unfenced,
    /// By operation.
    pieces: BTreeMap<usize, Vec<Piece>>,
}
