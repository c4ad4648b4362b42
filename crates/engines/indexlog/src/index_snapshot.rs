//! Snapshots of the index, which bound the time that an opening takes (Lersch §5.6.4 reads all records).
//!
//! A snapshot is a partition's index and tombstones at a moment, with the blocks of records that there were then and
//! how much of each was used (`capture`). An opening that finds one reads the trees as they were stored (`read`), and
//! of the records only those that came later: behind the used part of a block, and in other blocks (`merge`). So it
//! costs a copy of the index, and the reading of the records written since the snapshot.
//!
//! **When.** When so many bytes were written since the last one ([`halite_contract::EngineOptions::index_snapshot`]),
//! but no less than four times the length of that one, so that snapshots are at most a fifth of all bytes written;
//! when the store is closed, if an eighth of that was written; and on request. A store with a hash index has none.
//!
//! **How.** Once no collection is under way, everything is made durable, a line of each block is read, and the trees
//! are cloned, which is done in constant time. The rest is done in steps that read no record (`packer`). Writes pay
//! for them, as for those of a collection, and idle callers take them. While there are neither writes nor idle
//! callers, a snapshot that was begun waits, and the old tree with it.
//!
//! **Where.** In segments of a device of the partition's own:
//!
//! ```text
//! segment   frame (blocks/src/log/frame.rs): number of the snapshot, items
//! item      kind  len   head: version, k, last record's number    1 a snapshot, the first
//!            1     4    blocks: number, life, used, first sum     of each block of records
//!                       tree: key space, kind of its content      before its leaves
//!                       leaf: its image (halite-index)
//!                       range: a tombstone of a range
//!                       end                                       1 a snapshot, the last
//! ```
//!
//! The segments of odd numbers are in another part of the device than those of even ones, so that a snapshot stays
//! until the next one is whole. It is whole when its last segment is allocated, which is one word that changes
//! failure-atomically; each segment is durable before it is allocated.
//!
//! **Trust.** A snapshot is never needed: one that is not whole, not of this store, not of this kind of index, or
//! that does not fit the map is not used, and all records are read. A store that needs the space releases its
//! snapshots, and where a pool has little space left none is taken.
//!
//! **Blocks that are gone.** The incarnation of a block in the map, and its first record's checksum, tell whether it
//! is still the block that the snapshot knows. If it is not, its live records were moved by the collector, and are
//! found among the later records; or they died, and the record that superseded them is found there, or has no older
//! version left to suppress. So entries that point into such blocks are left out. The records that such an entry
//! counted as stale may still be on the medium: its count is added to that of the same key, found by the bytes that
//! the index keeps of it. So counts may be too high, never too low: a tombstone may stay until an opening that reads
//! all records.

mod capture;
pub(crate) mod merge;
pub(crate) mod packer;
mod read;

use std::sync::Arc;

use halite_alloc::{Device, Grant, SEGMENT, Segments};
use halite_blocks::log::frame;
use halite_contract::{Error, Result};
use halite_pmem::Fresh;
use halite_sim::locks::{Mutex, MutexGuard};

use crate::layout::{Layout, salt_of};
use crate::snapshot_device;

/// The version of the form.
const VERSION: u32 = 1;

/// Where the segments of odd snapshots begin.
const ODD: u32 = 1 << 16;

/// Segments that stay free in the pool beside those of a snapshot.
const SPARE: u64 = 2;

/// The highest number of a snapshot: more than are ever taken.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// Bytes of an item before its content.
const ITEM_HEAD: usize = 5;

/// The kinds of items.
mod item {
    pub(super) const HEAD: u8 = 1;
    pub(super) const BLOCKS: u8 = 2;
    pub(super) const TREE: u8 = 3;
    pub(super) const LEAF: u8 = 4;
    pub(super) const RANGE: u8 = 5;
    pub(super) const END: u8 = 6;

    /// Whether an item may follow the `last` one, which is `None` before the first. Items that point into blocks come
    /// behind all items that describe these.
    pub(super) fn may_follow(last: Option<u8>, kind: u8) -> bool {
        let Some(last) = last else { return kind == HEAD };
        match kind {
            BLOCKS => last <= BLOCKS,
            TREE => last <= LEAF,
            LEAF => last == TREE || last == LEAF,
            RANGE | END => last <= RANGE,
            _ => false,
        }
    }
}

/// The kinds of trees.
mod tree {
    pub(super) const INDEX: u8 = 0;
    pub(super) const TOMBSTONES: u8 = 1;
}

/// The snapshots of a store's partitions.
#[derive(Clone)]
pub(crate) struct Snapshots {
    /// Locked one at a time, after a writer.
    areas: Arc<[Mutex<Area>]>,
    /// Bytes of log between two snapshots; none are taken without.
    interval: Option<u64>,
}

impl Snapshots {
    /// The snapshots of a store's partitions. Without an interval, those on the medium are released.
    pub(crate) fn open(
        segments: &Arc<Segments>,
        layout: Layout,
        interval: Option<u64>,
    ) -> Result<Self> {
        let areas = (0..layout.partitions).map(|partition| {
            let number = snapshot_device(layout.generation, partition);
            let device = segments.device(number);
            let salt = salt_of(segments, number);
            let mut area = Area {
                segments: Arc::clone(segments),
                device,
                salt,
                number: 0,
                writing: false,
                open: None,
            };
            if interval.is_none() {
                area.release()?;
            }
            Ok(Mutex::new(area))
        });
        let areas: Result<Vec<_>> = areas.collect();
        Ok(Self { areas: areas?.into(), interval })
    }

    /// Gives the space of all snapshots back. Returns whether there was any.
    pub(crate) fn release(&self) -> Result<bool> {
        let mut released = false;
        for area in &*self.areas {
            released |= area.lock().release()?;
        }
        Ok(released)
    }
}

/// The snapshots of a partition, for its writer.
#[derive(Clone)]
pub(crate) struct Own {
    all: Snapshots,
    partition: usize,
    /// The bytes written at which the next snapshot is due.
    due_at: u64,
    /// How many were written when counting began, and how many of these were behind the last snapshot.
    begun_at: u64,
    since: u64,
    /// How long the last one was, in bytes.
    len: u64,
    /// The number of the last one that this opening has taken.
    taken: u64,
}

/// Bytes that are written between two snapshots for each byte of a snapshot, at least.
const WRITTEN_SHARE: u64 = 4;

/// The part of the bytes between two snapshots that is written between a snapshot that could not be taken and the
/// next attempt: an eighth.
const POSTPONED_SHARE: u64 = 8;

/// The part of the bytes between two snapshots below which a close takes none: an eighth.
const CLOSE_SHARE: u64 = 8;

impl Own {
    pub(crate) fn new(all: &Snapshots, partition: usize) -> Self {
        Self { all: all.clone(), partition, due_at: 0, begun_at: 0, since: 0, len: 0, taken: 0 }
    }

    fn area(&self) -> MutexGuard<'_, Area> {
        self.all.areas[self.partition].lock()
    }

    /// Bytes that are to be written between two.
    fn interval(&self) -> u64 {
        self.all.interval.unwrap_or(u64::MAX).max(WRITTEN_SHARE * self.len)
    }

    /// Begins to count: `written` bytes were before, of which the last `since` are behind a snapshot of `len`
    /// bytes.
    pub(crate) fn begin(&mut self, written: u64, since: u64, len: u64) {
        self.len = len;
        (self.begun_at, self.since) = (written, since);
        self.due_at = written.saturating_add(self.interval().saturating_sub(since));
    }

    /// Postpones the next snapshot a little, because one could not be taken.
    pub(crate) fn postpone(&mut self, written: u64) {
        self.due_at = written.saturating_add(self.interval() / POSTPONED_SHARE);
    }

    /// Bytes of the last one.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether one is due.
    pub(crate) fn is_due(&self, written: u64) -> bool {
        written >= self.due_at
    }

    /// Whether a snapshot is due when the store is closed.
    pub(crate) fn is_due_at_close(&self, written: u64) -> bool {
        let share = self.interval() / CLOSE_SHARE;
        self.all.interval.is_some()
            && written.saturating_sub(self.begun_at) + self.since >= share.max(1)
    }
}

/// The snapshots of a partition on the medium: one, and the next one while it is written.
struct Area {
    segments: Arc<Segments>,
    device: Device,
    salt: u64,
    /// The number of the last one that was begun, or found.
    number: u64,
    /// Whether that one is being written.
    writing: bool,
    /// The segment of it that is being written.
    open: Option<Open>,
}

/// A segment that is not yet allocated.
struct Open {
    fresh: Fresh,
    grant: Grant,
    /// Bytes of it that are durable.
    written: u64,
}

/// Bytes of a segment that are written at once.
const CHUNK: u64 = 64 << 10;

/// The progress of a segment, or of a snapshot, that is being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    More,
    Whole,
    GivenUp,
}

impl Area {
    /// The place on the device of a segment of a snapshot.
    fn place(number: u64, segment: u32) -> u32 {
        if number.is_multiple_of(2) { segment } else { ODD + segment }
    }

    fn is_of(number: u64, place: u32) -> bool {
        (place >= ODD) != number.is_multiple_of(2)
    }

    /// The seed of a segment's checksum.
    fn seed(&self, place: u32) -> u64 {
        frame::place(frame::seed(self.salt, u64::from(place)), 0)
    }

    /// Whether there is room for a snapshot of about `len` bytes.
    fn has_room(&self, len: u64) -> bool {
        self.segments.available() >= len / SEGMENT + 1 + SPARE
    }

    /// Begins a snapshot of about `len` bytes, and returns its number; `None` if there is no room. A snapshot that is
    /// being written is given up.
    fn begin(&mut self, len: u64) -> Result<Option<u64>> {
        self.end(self.number, false)?;
        if !self.has_room(len) {
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        // Segments that could not be given back earlier are still there.
        self.device.retain(|place| !Self::is_of(number, place))?;
        self.writing = true;
        Ok(Some(number))
    }

    /// Writes a chunk of a segment of snapshot `number`, durably, and adds its bytes to `worked`. Gives up if the
    /// snapshot was given up, or if the pool is full. One fence, and one when the segment is whole.
    fn put(
        &mut self,
        number: u64,
        segment: u32,
        frame: &mut [u8],
        worked: &mut u64,
    ) -> Result<Put> {
        if !self.writing || self.number != number || segment >= ODD {
            return Ok(Put::GivenUp);
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let place = Self::place(number, segment);
                frame::seal(frame, self.seed(place));
                let grant = match self.device.get(place) {
                    Ok(grant) => grant,
                    Err(halite_alloc::Error::Full { .. }) => return Ok(Put::GivenUp),
                    Err(error) => return Err(error.into()),
                };
                Open { fresh: grant.claim(0, frame.len() as u64)?, grant, written: 0 }
            }
        };
        let (begin, end) = (open.written, frame.len().min((open.written + CHUNK) as usize));
        let flushed = open.fresh.write_stream(begin, &frame[begin as usize..end]);
        self.segments.pool().fence([flushed])?;
        *worked += end as u64 - begin;
        open.written = end as u64;
        if end < frame.len() {
            self.open = Some(open);
            return Ok(Put::More);
        }
        open.grant.commit()?;
        Ok(Put::Whole)
    }

    /// Ends snapshot `number`: if it is whole, it takes the place of the one before, else it is released. Returns
    /// whether it was still there.
    fn end(&mut self, number: u64, is_whole: bool) -> Result<bool> {
        let is_there = self.writing && self.number == number;
        if is_there {
            (self.writing, self.open) = (false, None);
            self.device.retain(|place| Self::is_of(number, place) == is_whole)?;
            // The next snapshot must not take the place of the one before.
            self.number -= u64::from(!is_whole);
        }
        Ok(is_there)
    }

    /// Gives the space back of all but the last one that was begun or found.
    fn keep_newest(&mut self) -> Result<()> {
        let number = self.number;
        self.device.retain(|place| Self::is_of(number, place))?;
        Ok(())
    }

    /// Gives all space back, of a snapshot that is being written, too. Returns whether there was any.
    fn release(&mut self) -> Result<bool> {
        self.writing = false;
        let had_open = self.open.take().is_some();
        Ok(self.device.retain(|_| false)? > 0 || had_open)
    }
}

/// The error of a snapshot that is damaged or does not fit the store. It is not used then.
struct Unfit;

/// A part of a snapshot, if it is whole and fits the store.
type Fit<T> = std::result::Result<T, Unfit>;

impl From<Error> for Unfit {
    fn from(_: Error) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_could_not_be_taken_is_tried_again_before_the_next_would_be_due() {
        let all = Snapshots { areas: Arc::new([]), interval: Some(800) };
        let mut own = Own::new(&all, 0);
        own.begin(1_000, 0, 100);
        assert!(!own.is_due(1_799) && own.is_due(1_800));
        own.postpone(1_800);
        assert!(!own.is_due(1_899) && own.is_due(1_900));
    }
}
