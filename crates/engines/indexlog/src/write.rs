//! The write path.
//!
//! [`Writer::write`] checks the operations, makes room (`collection/room.rs`), writes large values (`log/overflow.rs`),
//! encodes records behind the log's tail and waits for one fence for both (`log/append.rs`), and applies the operations
//! to the view (`storage/apply.rs`). A failure before the records are written leaves no trace; if the fence itself
//! fails, it is unknown which bytes are durable, so the writer takes no more writes.

use halite_contract::{Durability, Error, Op, Result};
use halite_sim::locks::RwLock;
use halite_sim::planted;

use crate::collection::collector::Collector;
use crate::index_snapshot::Own;
use crate::index_snapshot::packer::Packer;
use crate::key_spaces::CATALOGUE;
use crate::log::overflow::Values;
use crate::read::view::View;
use crate::storage::Storage;

/// The one writer of a partition: the state that only the holder of its lock changes.
pub(crate) struct Writer {
    pub(crate) storage: Storage,
    pub(crate) collector: Collector,
    /// The snapshots of the index.
    pub(crate) snapshots: Own,
    /// The snapshot of the index that is being taken.
    pub(crate) packer: Option<Packer>,
    /// Whether the write is bookkeeping, for which puts leave room.
    is_bookkeeping: bool,
    /// The number of the next key space that is made.
    next_space: u32,
}

impl Writer {
    /// The writer of a partition whose records are read.
    pub(crate) fn new(storage: Storage, collector: Collector, snapshots: Own) -> Self {
        let next_space = CATALOGUE + 1;
        Self { storage, collector, snapshots, packer: None, is_bookkeeping: false, next_space }
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
                self.storage.give_back_room()?;
                return Err(full);
            }
            values => values?,
        };
        let written = self.append(view, ops, values, waits);
        let Storage { space, .. } = &mut self.storage;
        space.health.poison_by(written)?;
        space.health.place("a write that is not shown yet");
        let applied = self.storage.apply(&mut view.write(), ops);
        self.storage.space.health.poison_by(applied)
    }

    /// Makes sure that the operations find room, so that nothing can fail halfway for lack of it.
    pub(crate) fn make_room_for(&mut self, view: &RwLock<View>, ops: &[Op<'_>]) -> Result<()> {
        self.collector.make_room_for(&mut self.storage, view, ops, self.is_bookkeeping)
    }

    /// Writes the values of operations that do not fit a record, for which there is room.
    pub(crate) fn write_values(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        waits: bool,
    ) -> Result<Values> {
        let first = self.storage.next();
        self.storage.space.write_values(view, ops, first, waits)
    }

    /// Writes the records of operations, which refer to `values`. Waits for one fence, if it `waits`.
    pub(crate) fn append(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        values: Values,
        waits: bool,
    ) -> Result<()> {
        let Storage { space, log, .. } = &mut self.storage;
        log.append(space, view, ops, values, waits)
    }

    /// Makes every write so far durable: in the change log, if there is one. One fence, if there is anything to wait
    /// for.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let Storage { space, log, .. } = &mut self.storage;
        log.sync(space)
    }

    /// Takes a step of the snapshot of the index or of the collection that is under way, or begins a collection if the
    /// pool cannot grow and few blocks are free. Returns whether there is more to do.
    pub(crate) fn collect_ahead(&mut self, view: &RwLock<View>) -> Result<bool> {
        self.check_health()?;
        if self.packer.is_some() {
            self.step_snapshot()?;
            return Ok(true);
        }
        self.collector.collect_ahead(&mut self.storage, view)
    }

    /// Ends the log's current block, durably, so that the next open finds a clean end. Returns the digest
    /// of the map.
    pub(crate) fn close(&mut self) -> Result<u64> {
        let Storage { space, log, .. } = &mut self.storage;
        log.close(space)
    }

    /// Bytes of log and copies that this opening has written, more or less.
    pub(crate) fn written(&self) -> u64 {
        self.storage.written() + self.collector.moved_bytes()
    }

    /// Lets the next writes be bookkeeping, or puts again.
    pub(crate) fn set_bookkeeping(&mut self, is_bookkeeping: bool) {
        self.is_bookkeeping = is_bookkeeping;
    }

    /// The number of the next key space.
    pub(crate) fn next_space(&self) -> u32 {
        self.next_space
    }

    /// Notes that a key space has a number.
    pub(crate) fn note_space(&mut self, id: u32) {
        self.next_space = self.next_space.max(id.saturating_add(1));
    }

    /// Refuses if the partition may not be written any more.
    pub(crate) fn check_health(&self) -> Result<()> {
        self.storage.space.health.check()
    }
}

/// Whether a write is acknowledged only when it is durable.
fn waits(durability: Durability) -> bool {
    planted!("indexlog.acknowledged-before-fence", false, durability == Durability::Immediate)
}

/// Whether the only operation deletes a key or a range that is not there.
pub(crate) fn is_needless(view: &View, ops: &[Op<'_>]) -> Result<bool> {
    Ok(match *ops {
        [Op::Delete { space, key }] => view.live(space.0, key)?.is_none(),
        [Op::DeleteRange { space, start, end }] => match view.spaces.get(&space.0) {
            Some(space) => !space.index.has_any(start, end, &view.blocks)?,
            None => true,
        },
        _ => false,
    })
}
