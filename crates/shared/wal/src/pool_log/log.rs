//! An open log on a pool: appending, room, and its segments.

use std::sync::Arc;

use halite_alloc::{Device, SEGMENT};
use halite_pmem::{Fresh, Pinned, Pool, Published};
use halite_sim::locks::Mutex;

use super::found::{End, PoolFound, Segment};
use super::frame::{self, LINE, Life};
use super::place::{Piece, Place};
use super::ready::Ready;
use super::tail::Tail;
use crate::Result;
use crate::error::{no_segment, pool_failed};

/// The most bytes of a batch's payload.
pub const BATCH_MAX: usize = 16 << 20;

/// The segments of a log on a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolShape {
    /// Bytes that are used of each segment: some whole lines, and all of it outside tests.
    pub segment_bytes: u64,
    /// Segments that are set aside for bookkeeping and removals, so that these do not fail in a full pool.
    pub spare: usize,
    /// Segments that are kept to serve again, these among them.
    pub kept: usize,
}

impl Default for PoolShape {
    fn default() -> Self {
        Self { segment_bytes: SEGMENT, spare: 2, kept: 4 }
    }
}

/// The log of an open store, on a pool.
pub struct PoolLog {
    device: Device,
    pool: Pool,
    store_id: u128,
    shape: PoolShape,
    // Locks are taken in this order.
    segments: Mutex<Segments>,
    tail: Mutex<Tail>,
}

/// The segments that change hands.
struct Segments {
    /// The largest number.
    last: u32,
    /// Released ones, with bytes that are pinned.
    released: Vec<(u32, Arc<Published>)>,
}

impl PoolLog {
    /// Goes on behind the batches that were found, which are durable then, or begins a log where there is none.
    /// Segments that are not needed any more are given back.
    ///
    /// # Errors
    /// The error of a broken log; [`NoSegment`](crate::Error::NoSegment) where there is no room for a log's first
    /// one; an error of the pool.
    pub fn open(found: PoolFound) -> Result<Self> {
        let PoolFound { device, store_id, shape, mut segments, stale, end, next, broken } = found;
        if let Some(error) = broken {
            return Err(error);
        }
        // A new log's first segment may have the number of one of these.
        for number in stale {
            device.release(number)?;
        }
        let behind = end.map_or(0, |end| end.index + 1);
        let spaces = segments.split_off(behind);
        let (tail, pool) = match end {
            Some(end) => resume(store_id, shape, segments, end, next)?,
            None => begin(&device, store_id, shape, next)?,
        };
        let last = spaces.last().map_or(tail.end().0, |segment| segment.number);
        let segments = Segments { last, released: Vec::new() };
        let (segments, tail) = (Mutex::new(segments), Mutex::new(tail));
        let log = Self { device, pool, store_id, shape, segments, tail };
        for Segment { number, space } in spaces {
            let ready = log.prepare(number, space)?;
            log.tail.lock().ready.push_back(ready);
        }
        Ok(log)
    }

    /// Makes a claimed segment one that the log can go on in.
    fn prepare(&self, number: u32, space: Fresh) -> Result<Ready> {
        let salt = self.pool.random().map_err(pool_failed)?;
        Ok(Ready::new(self.store_id, number, salt, space))
    }

    /// The segment that is appended to, and how many of its bytes have batches.
    #[must_use]
    pub fn end(&self) -> (u32, u64) {
        self.tail.lock().end()
    }

    /// The sequence of the next batch; 0: it may have any.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.tail.lock().next()
    }

    /// The sequence below which everything is durable.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.tail.lock().durable()
    }

    /// Bytes of its segments: of those that have batches, and of those that it goes on in.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        let tail = self.tail.lock();
        let of = |count: usize| count as u64 * self.shape.segment_bytes;
        (of(tail.readable.len()), of(tail.ready.len()))
    }

    /// Segments that are set aside for bookkeeping and removals.
    #[must_use]
    pub fn spare(&self) -> usize {
        self.shape.spare
    }

    /// How many of these are missing.
    #[must_use]
    pub fn missing_spare(&self) -> usize {
        self.shape.spare.saturating_sub(self.tail.lock().ready.len())
    }

    /// Whether a batch needs more segments than the log has: that of a payload of `len` bytes, when `left` segments are
    /// to be ready behind it.
    #[must_use]
    pub fn lacks(&self, len: usize, left: usize) -> bool {
        let tail = self.tail.lock();
        tail.ready.len() < tail.needed(len) + left
    }

    /// Makes the segments ready that [`PoolLog::lacks`] finds missing. One fence each.
    ///
    /// # Errors
    /// [`NoSegment`](crate::Error::NoSegment): the log is as it was, though it may have got some.
    /// [`Pool`](crate::Error::Pool): so for every method.
    pub fn grow(&self, len: usize, left: usize) -> Result<()> {
        let mut segments = self.segments.lock();
        while self.lacks(len, left) {
            let number = segments.last + 1;
            let grant = self.device.get(number).map_err(no_segment)?;
            let ready = self.prepare(number, grant.claim(0, self.shape.segment_bytes)?)?;
            grant.commit()?;
            segments.last = number;
            self.tail.lock().ready.push_back(ready);
        }
        Ok(())
    }

    /// Appends a batch, in its turn and with its room ([`PoolLog::lacks`]): the sequence of its first record, which is
    /// the one behind the last batch, how many records it has, and the bytes that `payload` appends to what it is
    /// given. If the caller `waits`, it is durable when this returns, and so are all before it; else the next
    /// [`PoolLog::sync`] makes it durable. Returns where the payload lies.
    ///
    /// # Errors
    /// [`Pool`](crate::Error::Pool), if the kernel cannot write: which batches are durable is not known then, and
    /// nothing can be appended any more ([`Failed`](crate::Error::Failed)). So for [`PoolLog::sync`].
    ///
    /// # Panics
    /// If it is not its turn, there is no room for it, or it is longer than [`BATCH_MAX`].
    pub fn append(
        &self,
        sequence: u64,
        records: u32,
        waits: bool,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Place> {
        self.tail.lock().append(&self.pool, (sequence, records), waits, payload)
    }

    /// Makes everything durable that was appended.
    ///
    /// # Errors
    /// See [`PoolLog::append`].
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        self.tail.lock().sync(&self.pool)
    }

    /// The parts of a payload, each in one segment: one, unless the batch is longer than that.
    pub fn pieces(&self, place: Place) -> impl Iterator<Item = Piece> {
        place.pieces(self.shape.segment_bytes as usize)
    }

    /// The bytes of a segment that has batches, to read them in place; none, if it was released.
    #[must_use]
    pub fn segment(&self, number: u32) -> Option<Arc<Published>> {
        self.tail.lock().readable.get(&number).cloned()
    }

    /// The bytes of a payload, in place; none, if its segments were released, or it lies in more than one.
    #[must_use]
    pub fn pin(&self, place: Place) -> Option<Pinned> {
        let mut pieces = self.pieces(place);
        let Piece { segment, at, len } = pieces.next()?;
        let pinned = self.segment(segment)?.pin(at..at + len)?;
        pieces.next().is_none().then_some(pinned)
    }

    /// A copy of the bytes of a payload; none, if its segments were released.
    #[must_use]
    pub fn read(&self, place: Place) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(place.len as usize);
        for Piece { segment, at, len } in self.pieces(place) {
            bytes.extend_from_slice(self.segment(segment)?.read(at..at + len)?);
        }
        Some(bytes)
    }

    /// Releases the segments before one that is needed, which the caller knows durably ([`super::PoolKnown::first`]):
    /// they serve again, up to [`PoolShape::kept`] of them, or are given back. One fence each. A segment of which
    /// bytes are pinned waits for the next call.
    ///
    /// # Errors
    /// [`Pool`](crate::Error::Pool). The segments that were not released stay with the log until it is opened again.
    pub fn release(&self, first: u32) -> Result<()> {
        let mut segments = self.segments.lock();
        {
            let mut tail = self.tail.lock();
            let first = first.min(tail.end().0);
            let kept = tail.readable.split_off(&first);
            let released = std::mem::replace(&mut tail.readable, kept);
            segments.released.extend(released);
        }
        for (number, published) in std::mem::take(&mut segments.released) {
            let space = match published.reclaim() {
                Ok(space) => space,
                Err(published) => {
                    segments.released.push((number, published));
                    continue;
                }
            };
            if self.tail.lock().ready.len() < self.shape.kept {
                let next = segments.last + 1;
                self.device.renumber(number, next)?;
                segments.last = next;
                let ready = self.prepare(next, space)?;
                self.tail.lock().ready.push_back(ready);
            } else {
                drop(space);
                self.device.release(number)?;
            }
        }
        Ok(())
    }

    /// Makes everything durable, and gives the segments back that are ready, but for the spare ones, as nothing more
    /// will be appended. Returns where the log ends ([`super::PoolKnown::end`]).
    ///
    /// # Errors
    /// [`Pool`](crate::Error::Pool).
    pub fn close(&self) -> Result<(u32, u64)> {
        self.sync()?;
        let mut segments = self.segments.lock();
        loop {
            let surplus = {
                let mut tail = self.tail.lock();
                if tail.ready.len() > self.shape.spare { tail.ready.pop_back() } else { None }
            };
            // The last first: so there is no gap.
            let Some(ready) = surplus else { return Ok(self.end()) };
            let number = ready.number;
            drop(ready);
            self.device.release(number)?;
            segments.last = number - 1;
        }
    }
}

/// Begins a log with one segment, whose header is durable before the segment is.
fn begin(device: &Device, store_id: u128, shape: PoolShape, next: u64) -> Result<(Tail, Pool)> {
    let number = 1;
    let grant = device.get(number).map_err(no_segment)?;
    let mut space = grant.claim(0, shape.segment_bytes)?;
    let pool = space.pool().clone();
    let salt = pool.random().map_err(pool_failed)?;
    let flushed = space.write_stream(0, &frame::header(store_id, number, salt));
    pool.fence([flushed]).map_err(pool_failed)?;
    grant.commit()?;
    let life = Life::new(store_id, number, salt);
    let appender = space.into_appender(LINE as u64);
    Ok((Tail::new(shape.segment_bytes as usize, (number, life, appender), next), pool))
}

/// Resumes a log at its end: makes what was found durable, and then everything behind it unreadable. Two fences.
fn resume(
    store_id: u128,
    shape: PoolShape,
    mut segments: Vec<Segment>,
    end: End,
    next: u64,
) -> Result<(Tail, Pool)> {
    let Segment { number, mut space } = segments.pop().expect("the log ends in a segment");
    let pool = space.pool().clone();
    let End { at, mut life, has_header, .. } = end;
    let mut at = at as u64;
    if !has_header {
        space.write(0, &frame::header(store_id, number, life.salt));
    }
    // A killed process may have stored what was found, and not have waited for it.
    let ended = segments.iter().map(|segment| segment.space.flush(0..shape.segment_bytes));
    let found: Vec<_> = ended.chain([space.flush(0..at)]).collect();
    pool.fence_found(&found).map_err(pool_failed)?;
    if at + LINE as u64 == shape.segment_bytes {
        // No resumption fits here with the segment's end behind it. The torn frame that may be there fills the segment,
        // and those behind it get another salt: so it is enough that this one does not come back.
        let flushed = space.zero(at..at + LINE as u64);
        pool.fence([flushed]).map_err(pool_failed)?;
    } else {
        let flushed = space.write_stream(at, &frame::resumption(life, at, next));
        pool.fence([flushed]).map_err(pool_failed)?;
        life = life.resumed(at);
        at += LINE as u64;
    }
    let appender = space.into_appender(at);
    let mut tail = Tail::new(shape.segment_bytes as usize, (number, life, appender), next);
    for Segment { number, space } in segments {
        let appender = space.into_appender(shape.segment_bytes);
        tail.readable.insert(number, Arc::clone(appender.published()));
    }
    Ok((tail, pool))
}
