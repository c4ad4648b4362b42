//! Collection of garbage (Lersch §5.6.3).
//!
//! The victim is the block with the most to reclaim while the pool can grow, and then the one with the best benefit for
//! its cost (`space/victims.rs`). Its live records are copied into the collector's own block, its dead ones are taken
//! off their counts (`storage/liveness.rs`); when the copies are durable, the index points to them. When all of the
//! victim is done, the collector's word in the map covers the copies, and the victim goes to limbo (`space/limbo.rs`):
//! its word becomes free, durably, and it may be reused once no scan can read it.
//!
//! **Pace.** A victim of `n` bytes of which `g` are dead makes room for `g` bytes of new records, so each byte that
//! is written has `n / g` bytes of the victim examined ([`Collector::pace`]), in steps of [`STEP`]. So no write waits
//! for a whole block, and each pays for the space that it takes. Only if that does not suffice, as where readers hold
//! blocks, a write waits for the rest of a victim. An idle caller collects ahead, a step at a time
//! ([`Collector::collect_ahead`]): a burst of writes then finds free blocks.
//!
//! **Costs.** A step reads records one after the other, and asks for all of their leaves before it looks at the
//! first. It compares no key and reads no other record, but for deleted keys: a live record's entry is the one that
//! points to it, and a dead record's count is in the only entry that may be its key's. The copies of a step are
//! streamed and have one fence; the victim has one for the collector's word, and one for its own.
//!
//! A crash may leave the copies without the word (they are ignored, the victim is whole), or the word and the victim
//! (each record is there twice, with one sequence number, and one of the two counts as stale), but never neither.
//!
//! From the time that a block is examined until it is free, its dead records are off their counts and still on the
//! medium. So a tombstone that counts no record stays, and moves like a live one, until every such block is free in
//! the map. One block is examined at a time, so no tombstone of another block is dropped before this one is in limbo.

use std::sync::Arc;

use halite_contract::{Error, Result};
use halite_pmem::Published;
use halite_sim::locks::RwLock;
use halite_sim::planted;

use crate::log::tail::Tail;
use crate::read::readable::Readable;
use crate::read::view::View;
use crate::space::limbo::Limbo;
use crate::space::reserves::RESERVE_BOOKKEEPING;
use crate::space::victims::WORTHWHILE;
use crate::storage::Storage;
use crate::{BLOCK, BLOCKS_PER_SEGMENT};

/// Bytes of a victim that are examined at once: the least that a write waits for if it waits at all.
const STEP: u64 = 4 << 10;

/// Entries of limbo that readers hold and that one write tries to release, in turns.
const HELD_AT_ONCE: usize = 4;

/// Free blocks below which collection begins before the last moment, and below which it hurries.
pub(crate) const PACE_BELOW: u32 = RESERVE_BOOKKEEPING + 4;
const HURRY_BELOW: u32 = RESERVE_BOOKKEEPING + 2;

/// Free blocks below which an idle partition collects ahead: 2 MiB more than writes leave. The later a block is
/// collected, the more there is to reclaim of it, so the other blocks are left alone.
const AHEAD_BELOW: u32 = PACE_BELOW + BLOCKS_PER_SEGMENT;

/// A block with this much to reclaim, in bytes, is collected before the pool grows: three quarters. Under random
/// overwrites a block moves a third of a record for each that is written, and the pool settles at 1.85 times the live
/// bytes (the mean of the blocks' live share, falling from 1 to 1/4).
pub(crate) const COLLECT_BEFORE_GROWING: u64 = BLOCK / 4 * 3;

/// The collection of a block.
pub(super) struct Collection {
    pub(super) victim: u32,
    pub(super) records: Arc<Published>,
    pub(super) seed: u64,
    /// Where the next record is.
    pub(super) at: u64,
    /// Bytes to reclaim when it began.
    gain: u64,
    /// Bytes that are paid for and not yet examined.
    pub(super) credit: u64,
    /// Whether the victim is free only when scans that read it have ended.
    is_for_later: bool,
}

/// The collector of a partition.
///
/// - One block is collected at a time.
/// - A live record of it is in the block of `tail`, durable, before the index points to it there; the map covers that
///   before the collected block goes to limbo.
#[derive(Default)]
pub(crate) struct Collector {
    /// The block that copies go to.
    pub(super) tail: Tail,
    /// The collection that is under way.
    collection: Option<Collection>,
    /// Bytes of copies, and blocks that were collected.
    moved_bytes: u64,
    collected_blocks: u64,
}

impl Collector {
    /// Whether a collection is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.collection.is_some()
    }

    /// Bytes of records and values that were moved.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// Counts bytes that were moved.
    pub(super) fn count_moved(&mut self, bytes: u64) {
        self.moved_bytes += bytes;
    }

    /// Blocks that were collected.
    pub(crate) fn collected_blocks(&self) -> u64 {
        self.collected_blocks
    }

    /// Examines as much of a victim as `appended` bytes of new records pay for.
    pub(crate) fn pace(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
        appended: u64,
    ) -> Result<()> {
        if self.collection.is_none() {
            if storage.space.blocks().free_count() >= PACE_BELOW + storage.space.room_for_waiting()
            {
                return Ok(());
            }
            storage.release_limbo(view, HELD_AT_ONCE)?;
            if !self.begin_in_time(storage, view)? {
                return Ok(());
            }
        }
        let hurries = storage.space.blocks().free_count() < HURRY_BELOW;
        if let Some(collection) = &mut self.collection {
            let looked_through = collection.records.len() * appended / collection.gain;
            collection.credit += match collection.is_for_later {
                // A higher pace would take more room before it gives any.
                true => looked_through + looked_through / 4,
                false => looked_through * (u64::from(hurries) + 1),
            };
        }
        while self.collection.as_ref().is_some_and(|collection| collection.credit >= STEP) {
            self.step(storage, view, STEP)?;
        }
        if self.collection.is_none() {
            storage.release_limbo(view, HELD_AT_ONCE)?;
        }
        Ok(())
    }

    /// Takes a step of the collection that is under way, or begins a collection if the pool cannot grow and few blocks
    /// are free. Returns whether there is more to do.
    pub(crate) fn collect_ahead(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
    ) -> Result<bool> {
        if self.collection.is_none() {
            storage.release_limbo(view, HELD_AT_ONCE)?;
            let is_near =
                storage.space.is_full() && storage.space.blocks().free_count() < AHEAD_BELOW;
            // Collecting takes free blocks, and gives none back until readers let go of the blocks that were
            // collected.
            let is_held_up = storage.space.limbo().has_waiting_block()
                && storage.space.blocks().free_count() <= HURRY_BELOW;
            if !is_near || is_held_up || storage.space.blocks().reclaimable() < BLOCK {
                return Ok(false);
            }
            let victim = storage.space.victim_at_once(storage.log.durability.next());
            let Some((victim, gain)) = victim.filter(|(_, gain)| *gain >= WORTHWHILE) else {
                return Ok(false);
            };
            self.begin_collection(storage, view, victim, gain)?;
        }
        self.step(storage, view, STEP)?;
        if self.collection.is_none() {
            storage.release_limbo(view, HELD_AT_ONCE)?;
        }
        Ok(true)
    }

    /// Begins to collect a block if that is worthwhile, and the pool does not grow instead.
    fn begin_in_time(&mut self, storage: &mut Storage, view: &RwLock<View>) -> Result<bool> {
        // Blocks held in limbo and the copies of live records take up free blocks.
        if storage.space.limbo().has_waiting_block()
            && storage.space.blocks().free_count() <= HURRY_BELOW
        {
            return Ok(false);
        }
        let free_at_once = storage.space.emptiest();
        let free_soon = storage.space.emptiest_soon();
        if free_soon.is_none_or(|(_, gain)| gain < WORTHWHILE) {
            return Ok(false);
        }
        // While there is room, a block that moves more bytes than it gives can wait, and so can growing the pool.
        let is_early = storage.space.blocks().free_count() >= PACE_BELOW;
        let is_full = storage.space.is_full() || !storage.space.device().may_get();
        let enough = if is_early && is_full { BLOCK / 2 } else { COLLECT_BEFORE_GROWING };
        let mut emptiest = [free_at_once, free_soon].into_iter().flatten();
        if let Some((emptiest, gain)) = emptiest.find(|(_, gain)| *gain >= enough) {
            self.begin_collection(storage, view, emptiest, gain)?;
            return Ok(true);
        }
        if is_early
            || storage.space.blocks().reclaimable() < BLOCK
            || storage.space.add_segment()?
        {
            return Ok(false);
        }
        let Some((victim, gain)) = storage.space.victim(storage.log.durability.next()) else {
            return Ok(false);
        };
        self.begin_collection(storage, view, victim, gain)?;
        Ok(true)
    }

    /// Begins to collect `victim`, a sealed block with `gain` bytes to reclaim.
    pub(crate) fn begin_collection(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
        victim: u32,
        gain: u64,
    ) -> Result<()> {
        let readable = view.read().block(victim).cloned();
        let Some(Readable { published: records, seed: Some(seed) }) = readable else {
            return Err(Error::Damaged {
                what: format!("block {victim}"),
                why: "its records are not there".into(),
            });
        };
        records.read_ahead(0);
        let gain = gain.max(1);
        let is_for_later = storage.space.is_kept(victim);
        let collection = Collection { victim, records, seed, at: 0, gain, credit: 0, is_for_later };
        self.collection = Some(collection);
        Ok(())
    }

    /// Ends the collection that is under way.
    pub(crate) fn finish_collection(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
    ) -> Result<()> {
        while self.collection.is_some() {
            self.step(storage, view, BLOCK)?;
        }
        Ok(())
    }

    /// Examines so many bytes of the victim, or the rest of it; at its end the victim goes to limbo.
    fn step(&mut self, storage: &mut Storage, view: &RwLock<View>, bytes: u64) -> Result<()> {
        let Some(mut collection) = self.collection.take() else { return Ok(()) };
        storage.space.health.place("a collection");
        let stepped = self.move_live_records(storage, view, &mut collection, bytes);
        storage.space.health.poison_by(stepped)?;
        if collection.at < collection.records.len() {
            self.collection = Some(collection);
            return Ok(());
        }
        // The records that superseded those of the victim become durable with the word: until then the victim is
        // needed.
        planted!(
            "indexlog.victim-freed-before-covered",
            storage.sync_records().map(|()| self.cover_block(storage))?,
            {
                self.cover_block(storage);
                storage.sync_records()?;
            }
        );
        if storage.log.changes().is_some() {
            // The newest record may be dead, and dropped with the victim: its entry in the change log must not be
            // replayed then.
            storage.space.map_mut().set_durable(storage.log.durability.records());
        }
        storage.space.blocks_mut().condemn(collection.victim);
        self.collected_blocks += 1;
        let shown = storage.space.blocks().shown(collection.victim);
        let last = storage.next() - 1;
        storage.space.push_limbo(Limbo::block(collection.victim, shown, last));
        Ok(())
    }
}
