//! The end of the log: the segment that is appended to, those that it goes on in, and the bytes that are not durable.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use halite_pmem::{Appender, Flushed, Pool, Published};
use smallvec::SmallVec;

use super::cut::{self, Step};
use super::frame::{self, Batch, HEADER, LINE, Life, Part};
use super::place::Place;
use super::ready::Ready;
use crate::Result;
use crate::error::pool_failed;

/// Bytes of DRAM that are kept for the next batch.
const KEPT: usize = 1 << 20;

/// The end of the log.
pub(super) struct Tail {
    segment_bytes: usize,
    current: Ready,
    pub(super) ready: VecDeque<Ready>,
    /// The segments that have batches, the current one among them.
    pub(super) readable: BTreeMap<u32, Arc<Published>>,
    /// Bytes that were stored through the cache, and not written back yet.
    pending: Vec<(Arc<Published>, Range<u64>)>,
    /// The sequence of the next batch; 0: any.
    next: u64,
    /// The sequence below which everything is durable.
    durable: u64,
    /// Whether a fence failed.
    has_failed: bool,
    /// Memory for a batch, and for one frame of several.
    batch: Vec<u8>,
    part: Vec<u8>,
}

/// Frames of a batch that were streamed, and wait for their fence.
#[derive(Default)]
struct Streamed {
    flushed: SmallVec<[Flushed; 2]>,
    /// The segments that they ended.
    ended: SmallVec<[Appender; 1]>,
}

impl Tail {
    /// The end of a log that goes on behind the bytes of a segment that may be read: all before is durable.
    pub(super) fn new(
        segment_bytes: usize,
        (number, life, appender): (u32, Life, Appender),
        next: u64,
    ) -> Self {
        let readable = BTreeMap::from([(number, Arc::clone(appender.published()))]);
        Self {
            segment_bytes,
            current: Ready { number, life, appender },
            ready: VecDeque::new(),
            readable,
            pending: Vec::new(),
            next,
            durable: next,
            has_failed: false,
            batch: Vec::new(),
            part: Vec::new(),
        }
    }

    /// The segment that is appended to, and the offset of the next frame.
    pub(super) fn end(&self) -> (u32, u64) {
        (self.current.number, self.current.appender.tail())
    }

    /// The sequence of the next batch; 0: any.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The sequence below which everything is durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Segments that a batch needs behind the current one.
    pub(super) fn needed(&self, len: usize) -> usize {
        cut::segments(cut::steps(self.segment_bytes, self.end().1 as usize, len))
    }

    /// Appends a batch: durably, with all before it, if the caller `waits`.
    pub(super) fn append(
        &mut self,
        pool: &Pool,
        (sequence, records): (u64, u32),
        waits: bool,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Place> {
        self.check()?;
        let is_next = self.next == 0 || sequence == self.next;
        assert!(is_next && records > 0, "batches follow each other");
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        batch.resize(HEADER, 0);
        payload(&mut batch);
        let len = batch.len() - HEADER;
        assert!(len <= super::BATCH_MAX, "a batch has at most {} bytes", super::BATCH_MAX);
        assert!(self.needed(len) <= self.ready.len(), "the batch was given its place");
        let fields = Batch { sequence, durable: self.durable, records };
        self.next = sequence + u64::from(records);
        let mut streamed = Streamed::default();
        let place = self.write(fields, &mut batch, waits.then_some(&mut streamed));
        batch.shrink_to(KEPT);
        self.batch = batch;
        if waits {
            self.wait(pool, streamed)?;
        }
        Ok(place)
    }

    /// Writes the frames of a batch, whose payload lies behind room for a header. Returns where they are.
    fn write(
        &mut self,
        batch: Batch,
        bytes: &mut Vec<u8>,
        mut streamed: Option<&mut Streamed>,
    ) -> Place {
        let len = bytes.len() - HEADER;
        let (mut first, mut written) = (None, 0);
        for step in cut::steps(self.segment_bytes, self.end().1 as usize, len) {
            let (number, at) = self.end();
            let life = self.current.life;
            let salt = self.ready.front().map(|ready| ready.life.salt);
            let behind = || salt.expect("a segment is ready");
            let (part, goes_on) = match step {
                Step::End => {
                    self.put(&frame::end(life, at, batch.sequence, behind()), &mut streamed);
                    self.move_on(&mut streamed);
                    continue;
                }
                Step::Part(part) => (part, Some(((len - written - part) as u32, behind()))),
                Step::Last(part) => (part, None),
            };
            first.get_or_insert((number, at));
            if written == 0 && goes_on.is_none() {
                frame::seal_whole(bytes, life, at, batch);
                self.put(bytes, &mut streamed);
            } else {
                let payload = &bytes[HEADER + written..][..part];
                let mut frame = std::mem::take(&mut self.part);
                frame::put_part(&mut frame, life, at, &Part { batch, payload, goes_on });
                self.put(&frame, &mut streamed);
                self.part = frame;
            }
            written += part;
            if goes_on.is_some() {
                self.move_on(&mut streamed);
            }
        }
        self.part.shrink_to(KEPT);
        let (segment, at) = first.expect("a batch has a frame");
        Place { segment, at: at as u32, len: len as u32 }
    }

    /// Writes a frame behind the current segment's frames.
    fn put(&mut self, frame: &[u8], streamed: &mut Option<&mut Streamed>) {
        let appender = &mut self.current.appender;
        if let Some(streamed) = streamed {
            streamed.flushed.push(appender.write_stream(frame));
            return;
        }
        let range = appender.write(frame);
        appender.reveal();
        let published = appender.published();
        match self.pending.last_mut() {
            Some((last, pending)) if Arc::ptr_eq(last, published) && pending.end == range.start => {
                pending.end = range.end;
            }
            _ => self.pending.push((Arc::clone(published), range)),
        }
    }

    /// Goes on in the next segment, whose header is written back with what follows.
    fn move_on(&mut self, streamed: &mut Option<&mut Streamed>) {
        let next = self.ready.pop_front().expect("a segment is ready");
        let published = next.appender.published();
        self.readable.insert(next.number, Arc::clone(published));
        self.pending.push((Arc::clone(published), 0..LINE as u64));
        let ended = std::mem::replace(&mut self.current, next);
        if let Some(streamed) = streamed {
            streamed.ended.push(ended.appender);
        }
    }

    /// Makes everything that was appended durable.
    #[track_caller]
    pub(super) fn sync(&mut self, pool: &Pool) -> Result<()> {
        self.check()?;
        if self.pending.is_empty() { Ok(()) } else { self.wait(pool, Streamed::default()) }
    }

    /// Waits for the streamed frames and for all pending bytes.
    #[track_caller]
    fn wait(&mut self, pool: &Pool, streamed: Streamed) -> Result<()> {
        self.has_failed = true;
        let Streamed { mut flushed, ended } = streamed;
        let is_streamed = !flushed.is_empty();
        if self.pending.is_empty() && flushed.len() == 1 {
            let flushed = flushed.pop().expect("there is one");
            let [proof] = pool.fence([flushed]).map_err(pool_failed)?;
            self.current.appender.publish(&proof);
        } else {
            let pending = self.pending.drain(..);
            flushed.extend(pending.map(|(published, range)| published.flush(range)));
            let proofs = pool.fence_all(&flushed).map_err(pool_failed)?;
            let current = is_streamed.then_some(&mut self.current.appender);
            let mut ended = ended;
            let appenders = ended.iter_mut().chain(current);
            appenders.zip(&proofs).for_each(|(appender, proof)| appender.publish(proof));
        }
        (self.has_failed, self.durable) = (false, self.next);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.has_failed { Err(crate::Error::Failed) } else { Ok(()) }
    }
}
