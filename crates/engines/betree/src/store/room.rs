//! Room in the storage pool, and a full one.
//!
//! A put begins a memtable only if all that is in memory has room in the pool, several times: a flush writes more than the
//! memtable, and what it replaces is free two checkpoints later. Otherwise puts are refused, and removals go on: they use
//! the blocks that are kept from data. The first put after a removal has the removals take effect: all buffers
//! go to their leaves, a part of the trees at a time, as the blocks of each part come back before the next one.

use std::sync::atomic::{AtomicBool, Ordering};

use halite_contract::Result;
use halite_vdev::BLOCK;

use crate::Error;
use crate::dataset::effect::Effect;
use crate::store::Store;
use crate::store::view::{Trees, View};
use crate::tree::Update;

/// Bytes that a flush takes of the pool for a byte in memory, at the most that is expected.
const FLUSHED: u64 = 3;

/// The part of the free blocks that a step of emptying buffers may write.
const STEP_PART: u64 = 4;

/// Whether the pool is full.
#[derive(Default)]
pub(crate) struct Room {
    is_full: AtomicBool,
    /// Whether something was removed since room was looked for.
    was_removed: AtomicBool,
}

impl Room {
    /// Whether puts were refused the last time.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Notes that something was removed.
    pub(crate) fn note_removal(&self) {
        self.was_removed.store(true, Ordering::Relaxed);
    }

    /// Whether something was removed since this was asked the last time.
    pub(crate) fn take_removed(&self) -> bool {
        self.was_removed.swap(false, Ordering::Relaxed)
    }
}

impl Store {
    /// Whether what is in memory, and another memtable, has room.
    pub(crate) fn has_room(&self, view: &View) -> Result<bool> {
        self.has_room_for(view, 0)
    }

    /// Whether there is room for so many bytes beside that, which a flush writes.
    pub(crate) fn has_room_for(&self, view: &View, more: u64) -> Result<bool> {
        let bytes: u64 = view.memtables().map(|memtable| memtable.bytes()).sum();
        let bytes = FLUSHED * (bytes + self.settings.memtable_bytes + view.grafted_bytes() + more);
        let has_room = self.trees.storage.ensure_free(bytes)?;
        self.room.is_full.store(!has_room, Ordering::Relaxed);
        Ok(has_room)
    }

    /// The error of a put for which there is no room.
    pub(crate) fn no_room(&self) -> halite_contract::Error {
        let blocks = FLUSHED * self.settings.memtable_bytes / BLOCK as u64;
        Error::NoSpace { blocks: blocks.try_into().unwrap_or(u32::MAX) }.into()
    }

    /// Has removals take effect, so that their space comes back.
    pub(crate) fn make_room(&self) -> Result<()> {
        self.freeze()?;
        self.flush_frozen()?;
        while self.empty_buffers()? {
            self.give_back()?;
        }
        self.give_back()
    }

    /// Flushes what is frozen, and makes checkpoints as they are due: writers that freeze memtables as fast as these are
    /// flushed would make the log, and the nodes that have no blocks yet, ever more.
    pub(crate) fn flush_frozen(&self) -> Result<()> {
        loop {
            let was_flushed = self.flush_or_give_back()?;
            if was_flushed {
                self.signals.let_writers_on();
            }
            if self.is_checkpoint_due() {
                self.checkpoint()?;
            }
            if !was_flushed {
                return Ok(());
            }
        }
    }

    /// Flushes the oldest frozen memtable. If there is no room for that, it may be in what earlier flushes have replaced.
    fn flush_or_give_back(&self) -> Result<bool> {
        match self.flush_oldest() {
            Err(error) if error.lacks_space() => {
                self.give_back()?;
                self.flush_oldest()
            }
            flushed => flushed,
        }
    }

    /// Lets the blocks of what was replaced be allocated again: they are, when two more checkpoints are durable.
    pub(crate) fn give_back(&self) -> Result<()> {
        self.checkpoint()?;
        self.checkpoint()
    }

    /// Brings buffers to their leaves, as many as a part of the free blocks has room for. Returns whether there are more.
    fn empty_buffers(&self) -> Result<bool> {
        let mut checkpoints = self.checkpoints.lock();
        self.health.check()?;
        let view = self.view();
        let mut trees = Trees::clone(&view.trees);
        let budget = self.trees.storage.space(|space| space.free_blocks()) / STEP_PART;
        let placement = self.settings.tree.placement;
        let preferences = self.catalogue.load().preferences().clone();
        let mut update = Update::emptying(&self.trees, placement.of_metadata(), budget);
        let mut effect = Effect::default();
        for (dataset, tree) in &*view.trees {
            update.of_dataset(*dataset, preferences.placed(placement, *dataset));
            match update.empty_buffers(tree) {
                Ok(emptied) if emptied.is_empty() => drop(trees.remove(dataset)),
                Ok(emptied) => drop(trees.insert(*dataset, emptied)),
                Err(error) => {
                    update.undo();
                    return Err(error.into());
                }
            }
            let history = checkpoints.histories.of(*dataset);
            effect.drop_all(*dataset, &history, update.take_dropped());
        }
        let has_more = update.has_more();
        drop(view);
        self.publish_rewritten(&mut checkpoints, (update, effect), trees)?;
        Ok(has_more)
    }
}
