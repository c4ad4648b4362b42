//! The change log: a redo-only logical log (Lersch §5.6.4), where a store is made with one.
//!
//! Every operation is in it once more, under the number of its record. A durable write persists its entry here, by
//! one fence; its record is written through the cache and made durable when its block is left. After a crash, the
//! records that are missing are replayed from here (`replay`). Readers follow it as a stream of changes
//! (`reader`).
//!
//! The log is a run of segments of a logical device, numbered without gaps and never twice. The oldest segment is
//! released, whole, when the records of all its entries are durable and the newer segments have the bytes to retain.
//! A log always has two segments of its own, so that a full store can delete: where the pool has none left, snapshots
//! of the index give theirs, and then the oldest segment becomes the next one before its time.
//!
//! | operation | fences | lines written |
//! |---|---|---|
//! | put, delete, batch | 1 | the entry's bytes, rounded up to lines; the record's, by the cache |
//! | the same, if a block was left | 1 | the same, and the records' lines that are not durable yet |
//! | entering a segment | 1, and 1 to release one, or 1 to use it again | 2 words, or 1 |

pub(crate) mod entry;
pub(crate) mod found_log;
pub(crate) mod reader;
mod replay;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_alloc::{Device, Error as SpaceError, SEGMENT};
use halite_contract::{Error, Result};
use halite_pmem::{Appender, Fenced, Flushed, Published};
use halite_sim::locks::RwLock;
use halite_sim::planted;

use self::entry::{HEAD_LEN, Head};
use crate::BLOCK;
use crate::durability::pending::Pending;
use crate::record::{BATCH_ALIGN, Draft};

/// The writer of a partition's change log.
pub(crate) struct ChangeLog {
    device: Device,
    seed_salt: u64,
    /// Bytes of entries to keep for readers.
    retain: u64,
    segments: Arc<Segments>,
    appender: Appender,
    /// The number of the newest segment.
    number: u32,
    /// Segments behind the newest that are allocated.
    spare: u32,
    /// The entry that is being made.
    chunk: Vec<u8>,
    pending: Vec<Pending>,
    opening: u32,
    before: u32,
}

/// The part of a change log that readers see.
pub(crate) struct Segments {
    pub(crate) salt: u64,
    pub(crate) all: RwLock<VecDeque<Segment>>,
    /// Entries up to this number are durable.
    durable: AtomicU64,
}

/// A segment of entries.
pub(crate) struct Segment {
    pub(crate) number: u32,
    /// The number of its first operation.
    pub(crate) first: u64,
    pub(crate) published: Arc<Published>,
}

impl Segments {
    /// Entries up to this number are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }
}

/// The end of a log, where its writer goes on.
pub(crate) struct End {
    /// Segments of entries, but for the newest.
    pub(crate) older: VecDeque<Segment>,
    /// The newest.
    pub(crate) number: u32,
    pub(crate) first: u64,
    pub(crate) appender: Appender,
    /// Allocated segments behind it.
    pub(crate) spare: u32,
    /// The opening in which the last entry was written.
    pub(crate) before: u32,
    /// The number of the last operation.
    pub(crate) last: u64,
}

impl ChangeLog {
    /// A writer that goes on behind `end`, where everything is durable. `opening` is a random number.
    pub(crate) fn new(device: Device, salt: u64, retain: u64, opening: u32, end: End) -> Self {
        let End { older: mut all, number, first, appender, spare, before, last } = end;
        all.push_back(Segment { number, first, published: Arc::clone(appender.published()) });
        Self {
            device,
            seed_salt: salt,
            retain,
            segments: Arc::new(Segments {
                salt,
                all: RwLock::new(all),
                durable: AtomicU64::new(last),
            }),
            appender,
            number,
            spare,
            chunk: Vec::new(),
            pending: Vec::new(),
            opening,
            before,
        }
    }

    /// The segments, as readers see them.
    pub(crate) fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// Bytes of the pool.
    pub(crate) fn bytes(&self) -> u64 {
        (self.segments.all.read().len() as u64 + u64::from(self.spare)) * SEGMENT
    }

    /// Entries up to this number are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.segments.durable()
    }

    /// Makes sure that operations of so many bytes find room. Returns false if there is none. The records up to
    /// `durable` are durable. Where the pool has no segment, `give_way` releases other space and says whether there
    /// was any, before a segment is released that readers may want.
    pub(crate) fn make_room(
        &mut self,
        len: u64,
        durable: u64,
        give_way: impl Fn() -> Result<bool>,
    ) -> Result<bool> {
        let entry = (HEAD_LEN + len).next_multiple_of(BATCH_ALIGN);
        // The rest of a segment may be too short for the operation that is next.
        let per_segment = SEGMENT - 2 * BLOCK;
        if entry <= self.appender.remaining() {
            return Ok(true);
        }
        let needed = 1 + entry / per_segment;
        self.release_old(durable)?;
        while u64::from(self.spare) < needed {
            let reused = self.is_oldest_unwanted() && self.reuse_oldest(durable)?;
            let found = reused || self.add_spare()? || give_way()?;
            if !found && !self.reuse_oldest(durable)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Allocates a segment, if the pool has one.
    fn add_spare(&mut self) -> Result<bool> {
        match self.allocate_spare() {
            Err(Error::Alloc(SpaceError::Full { .. })) => Ok(false),
            allocated => allocated.map(|()| true),
        }
    }

    /// Allocates a segment.
    pub(crate) fn allocate_spare(&mut self) -> Result<()> {
        self.device.get(self.number + 1 + self.spare)?.commit()?;
        self.spare += 1;
        Ok(())
    }

    /// Releases segments behind the newest, but for the one that is kept: they were allocated for a write
    /// that was refused. One fence each.
    pub(crate) fn release_spare(&mut self) -> Result<()> {
        while self.spare > 1 {
            self.device.release(self.number + self.spare)?;
            self.spare -= 1;
        }
        Ok(())
    }

    /// Releases the oldest segments that are not to be retained. The records up to `durable` are durable. Returns
    /// whether there were any.
    pub(crate) fn release_old(&self, durable: u64) -> Result<bool> {
        let mut released = false;
        let is_one_of_more = || self.segments.all.read().len() + self.spare as usize > 2;
        while is_one_of_more() && self.is_oldest_unwanted() && self.release_oldest(durable)? {
            released = true;
        }
        Ok(released)
    }

    /// Whether the newer segments have the bytes to retain.
    fn is_oldest_unwanted(&self) -> bool {
        let all = self.segments.all.read();
        let newer = all.iter().skip(1).map(|segment| segment.published.len());
        newer.sum::<u64>() >= self.retain
    }

    /// Releases the oldest segment, if [`ChangeLog::take_oldest`] gives it.
    fn release_oldest(&self, durable: u64) -> Result<bool> {
        let Some(oldest) = self.take_oldest(durable) else { return Ok(false) };
        self.device.release(oldest)?;
        Ok(true)
    }

    /// Lets the oldest segment be the next that is entered, on the same conditions. It is at no moment free, since
    /// another partition could take it.
    fn reuse_oldest(&mut self, durable: u64) -> Result<bool> {
        let Some(oldest) = self.take_oldest(durable) else { return Ok(false) };
        self.device.renumber(oldest, self.number + 1 + self.spare)?;
        self.spare += 1;
        Ok(true)
    }

    /// Takes the oldest segment from the readers, which hold none longer than the lock, if its records are durable
    /// and the segment behind it begins durably. Without that beginning a crash would leave no log at all, and its
    /// end would be unknown.
    fn take_oldest(&self, durable: u64) -> Option<u32> {
        let durable_here = self.durable();
        let mut all = self.segments.all.write();
        let is_behind =
            |next: &&Segment| next.first <= durable.saturating_add(1) && next.first <= durable_here;
        all.get(1).filter(is_behind)?;
        let oldest = all.pop_front()?;
        match oldest.published.reclaim() {
            Ok(_) => Some(oldest.number),
            Err(published) => {
                all.push_front(Segment { published, ..oldest });
                None
            }
        }
    }

    /// Adds an operation to the entry that is being made; `first` is the number of its batch's first operation. The
    /// records up to `durable` are durable.
    pub(crate) fn push(&mut self, draft: &Draft<'_>, first: u64, durable: u64) -> Result<()> {
        let len = entry::len_of(draft);
        let begun = if self.chunk.is_empty() { HEAD_LEN } else { self.chunk.len() as u64 };
        if (begun + len).next_multiple_of(BATCH_ALIGN) > self.appender.remaining() {
            self.write();
            self.enter(draft.seq)?;
        }
        if self.chunk.is_empty() {
            let head = Head {
                opening: self.opening.into(),
                before: self.before.into(),
                logged: self.durable().into(),
                durable: durable.into(),
                first: first.into(),
            };
            self.before = self.opening;
            entry::begin(&mut self.chunk, &head);
        }
        entry::add(&mut self.chunk, draft);
        Ok(())
    }

    /// Goes on in the next segment, whose first operation is number `first`.
    fn enter(&mut self, first: u64) -> Result<()> {
        self.spare = self.spare.checked_sub(1).ok_or_else(|| Error::Poisoned {
            why: "an entry of the change log is longer than the room made for it".into(),
        })?;
        self.number += 1;
        self.appender = self.device.claim(self.number, 0, SEGMENT)?.into_appender(0);
        let published = Arc::clone(self.appender.published());
        self.segments.all.write().push_back(Segment { number: self.number, first, published });
        Ok(())
    }

    fn end_entry(&mut self) {
        let seed = entry::seed(self.seed_salt, self.number);
        entry::end(&mut self.chunk, seed, self.appender.tail());
    }

    /// Whether an entry was written through the cache and not yet flushed.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes the entry past the cache; [`ChangeLog::publish`] shows it once it is fenced.
    #[track_caller]
    pub(crate) fn stream(&mut self) -> Flushed {
        self.end_entry();
        let flushed = self.appender.write_stream(&self.chunk);
        self.chunk.clear();
        flushed
    }

    /// Shows the streamed entry.
    pub(crate) fn publish(&mut self, proof: &Fenced) {
        self.appender.publish(proof);
    }

    /// Writes the entry through the cache, to be flushed and fenced.
    pub(crate) fn write(&mut self) {
        if self.chunk.is_empty() {
            return;
        }
        self.end_entry();
        let range = self.appender.write(&self.chunk);
        self.chunk.clear();
        self.appender.reveal();
        let pending = Pending::new(Arc::clone(self.appender.published()), range);
        if !self.pending.last_mut().is_some_and(|last| last.extend(&pending)) {
            self.pending.push(pending);
        }
    }

    /// Starts the write-back of the entries that were written through the cache.
    #[track_caller]
    pub(crate) fn flush_pending(&mut self, flushed: &mut Vec<Flushed>) {
        flushed.extend(std::mem::take(&mut self.pending).iter().map(Pending::flush));
    }

    /// Notes that entries up to a number are durable.
    pub(crate) fn end_sync(&self, last: u64) {
        self.segments.durable.store(last, Ordering::Release);
        planted!(
            "indexlog.changes-released-before-records",
            while matches!(self.release_oldest(u64::MAX), Ok(true)) {}
        );
    }
}
