//! The use of each block of the data device, and how much of it is alive.
//!
//! All of it is volatile and rebuilt on open. The block of records that is collected next is chosen by `victims`. Large
//! values have places of their own (`pieces`).

pub(crate) mod pieces;

use halite_sim::planted;

use crate::entry::Entry;
use crate::read::scans::Shown;
use crate::record::INLINE_LEN_MAX;
use crate::space::allocations::Allocations;
use crate::space::block_map::INCARNATIONS;
use crate::space::free_blocks::FreeBlocks;
use crate::space::split::Splits;
use crate::space::victims::{Victims, WORTHWHILE};
use crate::{BLOCK, BLOCKS_PER_SEGMENT};

/// The use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Its segment is not allocated.
    Absent,
    Free,
    /// Records, still appended to or not yet sealed.
    Appending,
    /// Records, sealed.
    Sealed,
    /// A part of a value.
    Overflow,
    /// Runs of units for parts of values.
    Split,
    /// No records that the index points to, but a scan may still read it.
    Limbo,
}

#[derive(Clone, Copy)]
struct Block {
    used_as: Use,
    /// Lives as a block of records so far.
    incarnation: u32,
    /// Bytes of records, dead ones included; of a block that was ended early, all of it ([`spent_of`]).
    spent: u64,
    /// Bytes of live records.
    live: u64,
    /// Bytes of these that are tombstones, which no scan reads.
    tombstones: u64,
    /// The epochs in which indexes pointed to its records (`read/scans.rs`).
    shown: Shown,
}

impl Block {
    /// Bytes that collection of it can reclaim, if it is sealed.
    fn reclaimable(&self) -> Option<u64> {
        (self.used_as == Use::Sealed).then(|| self.spent - self.live)
    }

    /// Whether it is free as soon as its live records have moved. `youngest` is the epoch of the youngest scan:
    /// records that an index points to now, and pointed to when that scan began, stay for the scan.
    fn can_go(&self, youngest: Option<u64>) -> bool {
        self.live == self.tombstones || youngest.is_none_or(|epoch| epoch <= self.shown.born)
    }
}

/// The bytes that collection of a block reclaims if none of its records is alive, which take `used` bytes. The bytes
/// behind them are unused because the next record did not fit, and would be unused again in the block that the
/// records move to. But if there was room for most records, a crash or a closing has ended the block, and collection
/// reclaims the bytes behind them too.
pub(crate) fn spent_of(used: u64) -> u64 {
    if BLOCK - used > 2 * INLINE_LEN_MAX as u64 { BLOCK } else { used }
}

const ABSENT: Block = Block {
    used_as: Use::Absent,
    incarnation: 0,
    spent: 0,
    live: 0,
    tombstones: 0,
    shown: Shown { born: 0, hidden: 0 },
};

/// The blocks of the data device.
pub(crate) struct Blocks {
    /// The distance between two successive incarnations of a block while the store is open. Every opening draws it
    /// anew: an incarnation that a power cut kept from the map, but not from the block, is not used again.
    step: u32,
    blocks: Vec<Block>,
    free: FreeBlocks,
    splits: Splits,
    victims: Victims,
    allocations: Allocations,
    live: u64,
    /// Sealed blocks, and the bytes that can be reclaimed of them.
    sealed: u64,
    reclaimable: u64,
}

impl Blocks {
    /// No blocks yet; `random` makes this opening different from all others.
    pub(crate) fn new(random: u64) -> Self {
        Self {
            step: planted!("indexlog.block-life-lived-twice", 1, random as u32 | 1),
            blocks: Vec::new(),
            free: FreeBlocks::default(),
            splits: Splits::default(),
            victims: Victims::default(),
            allocations: Allocations::default(),
            live: 0,
            sealed: 0,
            reclaimable: 0,
        }
    }

    /// Adds a segment's blocks, with the incarnation of each.
    pub(crate) fn add_segment(&mut self, segment: u32, incarnations: impl Iterator<Item = u32>) {
        let first = segment * BLOCKS_PER_SEGMENT;
        let end = (first + BLOCKS_PER_SEGMENT) as usize;
        if self.blocks.len() < end {
            self.blocks.resize(end, ABSENT);
        }
        for (block, incarnation) in self.blocks[first as usize..end].iter_mut().zip(incarnations) {
            debug_assert_eq!(block.used_as, Use::Absent);
            *block = Block { used_as: Use::Free, incarnation, ..ABSENT };
        }
        self.free.add_segment(segment);
    }

    /// Forgets a segment whose blocks are all free.
    pub(crate) fn remove_segment(&mut self, segment: u32) {
        let first = (segment * BLOCKS_PER_SEGMENT) as usize;
        self.blocks[first..first + BLOCKS_PER_SEGMENT as usize].fill(ABSENT);
        self.free.remove_segment(segment);
    }

    /// The lowest segment that is not there.
    pub(crate) fn absent_segment(&self) -> u32 {
        let mut segments = self.blocks.chunks(BLOCKS_PER_SEGMENT as usize);
        let absent = segments.position(|blocks| blocks[0].used_as == Use::Absent);
        absent.unwrap_or(self.blocks.len() / BLOCKS_PER_SEGMENT as usize) as u32
    }

    pub(crate) fn is_segment_free(&self, segment: u32) -> bool {
        self.free.is_segment_free(segment)
    }

    /// Numbers of blocks are below this.
    pub(crate) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.count()
    }

    /// Bytes of live records and values.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Bytes that collection of sealed blocks can reclaim.
    pub(crate) fn reclaimable(&self) -> u64 {
        self.reclaimable
    }

    pub(crate) fn used_as(&self, block: u32) -> Use {
        self.blocks.get(block as usize).map_or(Use::Absent, |block| block.used_as)
    }

    pub(crate) fn incarnation(&self, block: u32) -> u32 {
        self.blocks[block as usize].incarnation
    }

    /// Takes a free block for records, in an epoch, and begins an incarnation of it. The search begins behind the
    /// block that was taken last, so that all blocks wear alike. Segments that are in use already are preferred, so
    /// that whole ones stay for large values.
    pub(crate) fn take(&mut self, epoch: u64) -> Option<u32> {
        let block = self.free.next()?;
        self.take_found(block);
        let meta = &mut self.blocks[block as usize];
        meta.incarnation = meta.incarnation.wrapping_add(self.step) % INCARNATIONS;
        meta.shown.born = epoch;
        self.allocations.note(epoch, 1, self.blocks.len());
        Some(block)
    }

    /// Takes a block in which records were found; it keeps its incarnation.
    pub(crate) fn take_found(&mut self, block: u32) {
        self.mark_used(block, Use::Appending);
    }

    /// The epochs in which blocks were taken.
    pub(crate) fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    fn mark_used(&mut self, block: u32, used_as: Use) {
        let meta = &mut self.blocks[block as usize];
        assert_eq!(meta.used_as, Use::Free, "block {block} is taken once");
        *meta = Block { used_as, incarnation: meta.incarnation, ..ABSENT };
        self.free.take(block);
    }

    /// Frees a block that can no longer be reached.
    pub(crate) fn free(&mut self, block: u32) {
        let meta = &mut self.blocks[block as usize];
        assert!(!matches!(meta.used_as, Use::Free | Use::Absent), "block {block} is freed once");
        *meta = Block { used_as: Use::Free, incarnation: meta.incarnation, ..ABSENT };
        self.free.put(block);
    }

    /// Counts a live record of a block, or a part of a value.
    pub(crate) fn born(&mut self, block: u32, bytes: u64) {
        self.blocks[block as usize].live += bytes;
        self.live += bytes;
    }

    /// Counts the death of a record of a block, or of a part of a value.
    pub(crate) fn died(&mut self, block: u32, bytes: u64) {
        let meta = &mut self.blocks[block as usize];
        debug_assert!(meta.live >= bytes, "what dies was alive");
        meta.live -= bytes;
        self.live -= bytes;
        if meta.used_as == Use::Sealed {
            self.reclaimable += bytes;
            self.victims.changed(block);
        }
    }

    /// Counts the death of a record of a block that the index pointed to until now, in this epoch.
    pub(crate) fn hide(&mut self, block: u32, bytes: u64, epoch: u64) {
        self.blocks[block as usize].shown.hidden = epoch;
        self.died(block, bytes);
    }

    /// Counts a live tombstone of a block.
    pub(crate) fn tombstone_born(&mut self, block: u32, bytes: u64) {
        self.note_tombstone(block, bytes);
        self.born(block, bytes);
    }

    /// Notes that so many live bytes of a block are a tombstone.
    pub(crate) fn note_tombstone(&mut self, block: u32, bytes: u64) {
        self.blocks[block as usize].tombstones += bytes;
    }

    /// Counts the death of a tombstone of a block.
    pub(crate) fn tombstone_died(&mut self, block: u32, bytes: u64) {
        self.blocks[block as usize].tombstones -= bytes;
        self.died(block, bytes);
    }

    /// The epochs in which indexes pointed to the records of a block, up to now.
    pub(crate) fn shown(&self, block: u32) -> Shown {
        self.blocks[block as usize].shown
    }

    /// Ends the appending to a block, before the record number `seq`. `spent` bytes of it can be reclaimed once all
    /// its records are dead.
    pub(crate) fn seal(&mut self, block: u32, spent: u64, seq: u64) {
        let meta = &mut self.blocks[block as usize];
        debug_assert_eq!(meta.used_as, Use::Appending);
        debug_assert!(meta.live <= spent && spent <= BLOCK);
        meta.used_as = Use::Sealed;
        meta.spent = spent;
        self.reclaimable += spent - meta.live;
        self.sealed += 1;
        self.victims.sealed(block, seq);
    }

    /// Takes a sealed block, whose live records have moved, out of use. Scans may still read it.
    pub(crate) fn condemn(&mut self, block: u32) {
        let meta = &mut self.blocks[block as usize];
        debug_assert!(meta.used_as == Use::Sealed && meta.live == 0);
        self.reclaimable -= meta.spent;
        self.sealed -= 1;
        meta.used_as = Use::Limbo;
        self.victims.condemned(block);
    }

    /// The sealed block with the most to reclaim, within the width of a class of [`Victims`], of those that no scan
    /// keeps from being freed; and how much that is in bytes. `youngest` is the epoch of the youngest scan.
    pub(crate) fn emptiest(&mut self, youngest: Option<u64>) -> Option<(u32, u64)> {
        self.rank();
        let can_go = |block: u32| self.blocks[block as usize].can_go(youngest);
        self.with_gain(self.victims.first(can_go))
    }

    /// The sealed block to collect where the pool cannot grow, of those that no scan keeps from being freed, and how
    /// much can be reclaimed of it, in bytes: no less than of a sealed block on average, so the cost to a write is
    /// bounded. `seq` is the number of the next record, `youngest` the epoch of the youngest scan.
    pub(crate) fn victim(&mut self, seq: u64, youngest: Option<u64>) -> Option<(u32, u64)> {
        self.rank();
        let mean = self.reclaimable / self.sealed.max(1);
        let can_go = |block: u32| self.blocks[block as usize].can_go(youngest);
        let best = self.victims.best(mean.max(WORTHWHILE), seq, can_go, |block| {
            let block = &self.blocks[block as usize];
            (block.live, block.spent - block.live)
        });
        self.with_gain(best)
    }

    /// Whether a block is still not free when its live records have moved, because scans read it. `youngest` is the
    /// epoch of the youngest scan.
    pub(crate) fn is_kept(&self, block: u32, youngest: Option<u64>) -> bool {
        !self.blocks[block as usize].can_go(youngest)
    }

    /// Bytes that only scans keep from being collected: none as long as another block can be. `youngest` is the epoch
    /// of the youngest scan.
    pub(crate) fn kept(&mut self, youngest: Option<u64>) -> u64 {
        let other = self.emptiest(youngest);
        let can_collect = other.is_some_and(|(_, gain)| gain >= WORTHWHILE);
        if can_collect { 0 } else { self.victims.worth() }
    }

    fn rank(&mut self) {
        self.victims.rank_changed(|block| {
            let block = &self.blocks[block as usize];
            Some((block.reclaimable()?, block.live == 0))
        });
    }

    fn with_gain(&self, block: Option<u32>) -> Option<(u32, u64)> {
        block.and_then(|block| Some((block, self.blocks[block as usize].reclaimable()?)))
    }
}

const _: () = assert!(Entry::BLOCKS_MAX <= u32::MAX as u64);

#[cfg(test)]
mod tests {
    use super::*;

    fn two_segments() -> Blocks {
        let mut blocks = Blocks::new(7);
        (0..2).for_each(|segment| blocks.add_segment(segment, (0..16).map(|_| 0)));
        blocks
    }

    #[test]
    fn records_leave_whole_segments_to_values() {
        let mut blocks = two_segments();
        let first = blocks.take(1).unwrap();
        assert_eq!(blocks.take_run(16), Some((16, 16)));
        assert_eq!(blocks.take_run(16), Some((first + 1, 15)));
        assert_eq!((blocks.take(1), blocks.take_run(1), blocks.free_count()), (None, None, 0));
        (16..32).for_each(|block| blocks.free(block));
        assert!(blocks.is_segment_free(1));
        blocks.remove_segment(1);
        assert_eq!((blocks.absent_segment(), blocks.free_count()), (1, 0));
    }

    #[test]
    fn free_blocks_take_turns() {
        let mut blocks = two_segments();
        assert!((0..32).all(|_| blocks.take(1).is_some()));
        let free = [3, 7, 18];
        free.into_iter().for_each(|block| blocks.free(block));
        let mut lives = [0; 3];
        for _ in 0..30 {
            let taken = blocks.take(1).unwrap();
            lives[free.iter().position(|block| *block == taken).unwrap()] += 1;
            blocks.free(taken);
        }
        assert_eq!(lives, [10; 3]);
    }

    #[test]
    fn what_a_scan_keeps_is_no_victim() {
        let mut blocks = two_segments();
        let [old, dead, young] = [1, 1, 5].map(|epoch| blocks.take(epoch).unwrap());
        for (block, at) in [(old, 1), (young, 2), (dead, 3)] {
            blocks.born(block, BLOCK);
            blocks.seal(block, BLOCK, at);
        }
        blocks.hide(old, 100_000, 6);
        blocks.hide(young, 50_000, 7);
        let block = |found: Option<(u32, u64)>| found.map(|(block, _)| block);
        assert_eq!(block(blocks.emptiest(None)), Some(old));
        assert_eq!(block(blocks.emptiest(Some(5))), Some(young));
        assert_eq!(block(blocks.victim(9, Some(5))), Some(young));
        assert_eq!((blocks.emptiest(Some(6)), blocks.victim(9, Some(6))), (None, None));
        // A block without live records is free at once, even if a scan reads it.
        blocks.hide(dead, BLOCK, 8);
        assert_eq!(block(blocks.emptiest(Some(8))), Some(dead));
        assert_eq!(block(blocks.victim(9, Some(8))), Some(dead));
        assert_eq!(blocks.shown(dead), Shown { born: 1, hidden: 8 });
    }

    #[test]
    fn the_victim_has_the_most_to_reclaim() {
        let mut blocks = two_segments();
        let [a, b] = [blocks.take(1).unwrap(), blocks.take(1).unwrap()];
        for block in [a, b] {
            blocks.born(block, BLOCK);
            blocks.seal(block, BLOCK, 5);
        }
        assert_eq!((blocks.victim(6, None), blocks.emptiest(None)), (None, None));
        blocks.died(a, 10_000);
        blocks.died(b, 20_000);
        blocks.died(a, 15_000);
        assert_eq!(blocks.victim(6, None), Some((a, 25_000)));
        blocks.died(b, BLOCK - 20_000);
        assert_eq!(
            (blocks.victim(6, None), blocks.emptiest(None)),
            (Some((b, BLOCK)), Some((b, BLOCK)))
        );
        blocks.condemn(b);
        blocks.free(b);
        assert_eq!((blocks.victim(6, None), blocks.reclaimable()), (Some((a, 25_000)), 25_000));
        while blocks.take(1) != Some(b) {}
        assert_eq!(blocks.incarnation(b), blocks.step.wrapping_mul(2) % INCARNATIONS);
    }
}
