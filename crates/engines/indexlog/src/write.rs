//! The write path.
//!
//! [`Writer::write`] checks the operations, makes room (`space`), writes large values (`overflow`), encodes records
//! behind the log's tail and waits for one fence for both (`append`), and applies the operations to the view
//! (`apply`). A failure before the records are written leaves no trace; if the fence itself fails, it is unknown
//! which bytes are durable, so the writer takes no more writes.

use crate::key_spaces::CATALOGUE;
use std::sync::Arc;

use halite_alloc::{Device, Segments};
use halite_contract::{Durability, Error, Health, Op, Result};
use halite_pmem::Pool;
use halite_sim::locks::RwLock;
use halite_sim::planted;

use crate::change_log::ChangeLog;
use crate::collection::collect::Collection;
use crate::dropped_tombstones::DroppedTombstones;
use crate::entry::Entry;
use crate::index_snapshot;
use crate::log::tail::{Pending, Tail};
use crate::read::scans::Scans;
use crate::read::view::View;
use crate::space::block_map::BlockMap;
use crate::space::blocks::Blocks;
use crate::space::limbo::Waiting;
use crate::tombstones::Tombstones;

/// The one writer of a partition: the state that only the holder of its lock changes.
pub(crate) struct Writer {
    pub(crate) pool: Pool,
    pub(crate) device: Device,
    pub(crate) salt: u64,
    pub(crate) map: BlockMap,
    pub(crate) blocks: Blocks,
    pub(crate) log: Tail,
    /// `None` also while the change log is replayed.
    pub(crate) changes: Option<ChangeLog>,
    pub(crate) collector: Tail,
    /// The collection that is under way.
    pub(crate) collection: Option<Collection>,
    pub(crate) tombstones: Tombstones,
    pub(crate) forgotten: DroppedTombstones,
    /// The number of the next record.
    pub(crate) next_seq: u64,
    /// Records up to this one are durable.
    pub(crate) durable_seq: u64,
    /// The number up to which the last record, or the last entry of the change log, says the records to be durable.
    pub(crate) said_seq: u64,
    /// A durable record, entry or word proves to recovery that records up to this one are durable.
    pub(crate) proved_seq: u64,
    pub(crate) pending: Vec<Pending>,
    /// Values that were written through the cache and are not yet durable.
    pub(crate) pending_values: Vec<Pending>,
    /// Blocks that the log left before all of their records were durable.
    pub(crate) unsealed: Vec<(u32, u64)>,
    pub(crate) limbo: Waiting,
    /// The scans that may still read the space in limbo.
    pub(crate) scans: Arc<Scans>,
    /// The snapshots of the index, if any are taken.
    pub(crate) index_snapshots: Option<index_snapshot::Own>,
    /// The snapshot of the index that is being taken.
    pub(crate) packer: Option<index_snapshot::Packer>,
    /// Whether other partitions, or a change log, take segments from the same pool.
    pub(crate) shares_pool: bool,
    /// Whether the pool had no segment when one was wanted last.
    pub(crate) is_full: bool,
    /// Whether the write is bookkeeping, for which puts leave room.
    pub(crate) is_bookkeeping: bool,
    /// The record number that the map keeps.
    pub(crate) near: u64,
    pub(crate) next_space: u32,
    poisoned: Option<String>,
    /// The health of the store, shared by all its partitions.
    pub(crate) health: Arc<Health>,
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
            forgotten: DroppedTombstones::default(),
            next_seq: 1,
            durable_seq: 0,
            said_seq: 0,
            proved_seq: 0,
            pending: Vec::new(),
            pending_values: Vec::new(),
            unsealed: Vec::new(),
            limbo: Waiting::default(),
            scans: Arc::default(),
            index_snapshots: None,
            packer: None,
            shares_pool: false,
            is_full: false,
            is_bookkeeping: false,
            next_space: CATALOGUE + 1,
            poisoned: None,
            health: Arc::default(),
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
    ) -> Result<()> {
        self.check_health()?;
        if ops.is_empty() || is_needless(&view.read(), ops)? {
            // The writes that make it needless may not be durable yet.
            return if durability == Durability::Immediate { self.sync() } else { Ok(()) };
        }
        let waits = waits(durability);
        let made = self.make_room_for(view, ops);
        let values = made.and_then(|()| self.write_values(view, ops, waits));
        let values = match values {
            Err(full @ Error::Full { .. }) => {
                self.give_back_room()?;
                return Err(full);
            }
            values => values?,
        };
        let written = self.append(view, ops, values, waits);
        self.poison_by(written)?;
        self.health.place("a write that is not shown yet");
        let applied = self.apply(&mut view.write(), ops);
        self.poison_by(applied)
    }

    /// Ends the log's current block, durably, so that the next open finds a clean end. Returns the digest
    /// of the map.
    pub(crate) fn close(&mut self) -> Result<u64> {
        self.sync_records()?;
        self.leave_block();
        if self.changes.is_some() {
            self.map.set_durable(self.durable_seq);
        }
        // Sealing the block that was just fenced takes a second fence, this one.
        let closed = self.sync_pending(Vec::new(), Vec::new());
        self.poison_by(closed)?;
        Ok(self.map.digest())
    }

    /// Writes that are not durable.
    pub(crate) fn unsynced(&self) -> u64 {
        let durable = self.changes.as_ref().map_or(self.durable_seq, ChangeLog::durable);
        self.next_seq - 1 - durable
    }

    /// Refuses if it is unknown how much of an earlier write is durable: one of this partition, or, where the kernel
    /// failed to sync the pool that they share, of any; and if a thread panicked that changed one of them.
    pub(crate) fn check_health(&self) -> Result<()> {
        self.health.check()?;
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

    /// [`Writer::poison_by`] of finding room for a write, before anything is written: if the kernel refused the room,
    /// and no sync has failed, nothing has changed.
    pub(crate) fn poison_by_room<T>(&mut self, result: Result<T>) -> Result<T> {
        let is_refused = |error: &Error| error.is_of_pool_kernel();
        if result.as_ref().is_err_and(is_refused) && self.pool.check_synced().is_ok() {
            return result;
        }
        self.poison_by(result)
    }

    /// Takes no more writes, because an earlier one failed halfway.
    pub(crate) fn poison(&mut self, why: &str) {
        self.poisoned = Some(why.to_owned());
    }
}

/// Whether a write is acknowledged only when it is durable.
fn waits(durability: Durability) -> bool {
    planted!(AcknowledgedBeforeFence, false, durability == Durability::Immediate)
}

/// Whether the only operation deletes a key or a range that is not there.
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
