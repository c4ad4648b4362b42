//! A pool of objects of one size (Yan §3.4.1).
//!
//! The segments of a device, from logical number 0 on without a gap, each with
//!
//! ```text
//! 0        64                                  a multiple of 256
//! ┌────────┬────────┬────────┬─────┬─────────┐┌──────────┬──────────┬─────
//! │ header │ word 0 │ word 1 │ ... │ padding ││ object 0 │ object 1 │ ...
//! └────────┴────────┴────────┴─────┴─────────┘└──────────┴──────────┴─────
//! ```
//!
//! The header (`segment_header`) identifies the segment. The word of an object has the bit that commits it:
//!
//! ```text
//! bits 63..17                                16            15..0
//!      generation: how often committed       committed     check
//! ```
//!
//! The check is over the other bits, the device, the object's index and the pool's salt, also in the words
//! of free objects: a word that was zeroed, or that landed at a wrong place, is found.
//!
//! An allocation walks [`ObjectPool::get`] (volatile: a crash forgets it) → the caller writes the object and
//! makes it durable → [`Object::commit`] (the word, one flush, one fence). [`ObjectPool::release`] is the same
//! for the opposite. So an object of any size is committed or free at every moment.
//!
//! Yan's pool also has a persistent list of free objects. Its changes and the bit's are several words that
//! no processor stores at once, so a crash may leave an object that is neither committed nor in the list;
//! at startup the list is walked and the bits are scanned for such objects. Here the list is in DRAM only,
//! and that scan alone builds it: an object that is not committed is free. This gives the same as their
//! list, a free object in constant time, and needs no order of stores, no bit in the list and no search for
//! leaks; the scan of the words, which theirs needs too, costs a few nanoseconds an object.
//!
//! Costs: get and drop, no access to the medium; commit and release, one flush and one fence of one line
//! each; a new segment two flushes and two fences, when no object is free; opening, one fence for all.
//! Space: 8 bytes an object, and the remainder of the segment that is shorter than an object.

use std::ops::{Deref, DerefMut};

use halite_pmem::{Flushed, Fresh, LINE, MEDIA_BLOCK, Pool, Words};
use halite_sim::locks::{Mutex, RwLock};
use halite_sim::planted;

use crate::segment_header::{HEADER_LEN, Header};
use crate::{Device, Error, Result, SEGMENT, check};

/// The longest object, in bytes: one fills a segment.
pub const OBJECT_LEN_MAX: u64 = SEGMENT - MEDIA_BLOCK;

/// Objects of one size in the segments of a device, to be shared by threads.
pub struct ObjectPool {
    device: Device,
    salt: u64,
    shape: Shape,
    /// The segments by logical number.
    segments: RwLock<Vec<Segment>>,
    /// Objects that are neither committed nor held by a caller.
    free: Mutex<Vec<u64>>,
}

/// How a segment is divided.
#[derive(Debug, Clone, Copy)]
struct Shape {
    object_len: u64,
    count: u64,
    objects_at: u64,
}

struct Segment {
    /// The header, which never changes, and the words behind it.
    words: Words,
    /// The offset in the pool.
    offset: u64,
}

/// The state in the word of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    generation: u64,
    is_committed: bool,
}

impl Shape {
    fn new(object_len: u64) -> Self {
        assert!(
            object_len.is_multiple_of(LINE) && (LINE..=OBJECT_LEN_MAX).contains(&object_len),
            "objects of {object_len} bytes: not whole lines, or too long for a segment"
        );
        let objects_at = |count: u64| (HEADER_LEN + count * 8).next_multiple_of(MEDIA_BLOCK);
        let mut count = (SEGMENT - HEADER_LEN) / (object_len + 8);
        while objects_at(count) + count * object_len > SEGMENT {
            count -= 1;
        }
        Self { object_len, count, objects_at: objects_at(count) }
    }

    fn header(&self, device: u16, number: u32) -> Header {
        let (object_len, count) = (self.object_len as u32, self.count as u32);
        Header { device, number, object_len, count }
    }
}

impl ObjectPool {
    /// Opens the pool in the segments of `device`, which have no other user; without a segment, it is a new
    /// one. Objects are of `object_len` bytes. Objects that were not committed are free.
    ///
    /// # Errors
    /// [`Error::NotObjects`] if there are segments with other contents, or of a pool of another shape;
    /// [`Error::Damaged`]; the pool's errors.
    ///
    /// # Panics
    /// If `object_len` is not some whole lines, or more than [`OBJECT_LEN_MAX`].
    pub fn open(device: &Device, object_len: u64) -> Result<Self> {
        let pool = Self {
            device: device.clone(),
            salt: device.segments().salt(),
            shape: Shape::new(object_len),
            segments: RwLock::new(Vec::new()),
            free: Mutex::new(Vec::new()),
        };
        let (mut segments, mut found, mut free) = (Vec::new(), Vec::new(), Vec::new());
        for (number, logical) in (0..).zip(device.logical_segments()) {
            if number != logical {
                let why = format!("segment {logical} is there without it");
                return Err(pool.damaged(format!("segment {number}"), why));
            }
            let fresh = device.claim(number, 0, pool.shape.objects_at)?;
            let header = pool.shape.header(device.id(), number);
            header.check(fresh.read(0, HEADER_LEN), pool.pool(), pool.salt)?;
            // The process that stored a word may have died before its fence.
            found.push(fresh.flush(0..fresh.len()));
            let segment = Segment { offset: fresh.offset(), words: fresh.into_words() };
            let first = u64::from(number) * pool.shape.count;
            for index in first..first + pool.shape.count {
                if !pool.read_word(&segment.words, index)?.is_committed {
                    free.push(index);
                }
            }
            segments.push(segment);
        }
        if !found.is_empty() {
            pool.pool().fence_found(&found)?;
        }
        free.reverse();
        Ok(Self { segments: RwLock::new(segments), free: Mutex::new(free), ..pool })
    }

    /// Bytes of an object.
    #[must_use]
    pub fn object_len(&self) -> u64 {
        self.shape.object_len
    }

    /// Objects in the segments that the pool has.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.segments.read().len() as u64 * self.shape.count
    }

    /// Objects of these that are free.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.free.lock().len() as u64
    }

    /// Gets a free object. A crash forgets it until it is committed. Its contents are undefined.
    ///
    /// # Errors
    /// [`Error::Full`]; the pool's errors.
    pub fn get(&self) -> Result<Object<'_>> {
        let index = loop {
            let free = self.free.lock().pop();
            match free {
                Some(index) => break index,
                None => self.grow()?,
            }
        };
        match self.claim_bytes(index) {
            Ok(fresh) => Ok(Object { pool: self, index, fresh: Some(fresh) }),
            Err(error) => {
                self.free.lock().push(index);
                Err(error)
            }
        }
    }

    /// Whether the object at `index` is committed, which may be any number.
    ///
    /// # Errors
    /// [`Error::Damaged`] if its word is.
    pub fn check(&self, index: u64) -> Result<bool> {
        Ok(self.state(index)?.is_some_and(|state| state.is_committed))
    }

    /// How often the object at `index` was committed so far: a caller that stores it with an index can tell
    /// later whether that is still the same object. `None` if there is no such object.
    ///
    /// # Errors
    /// As [`ObjectPool::check`].
    pub fn generation(&self, index: u64) -> Result<Option<u64>> {
        Ok(self.state(index)?.map(|state| state.generation))
    }

    /// The committed objects, ascending.
    ///
    /// # Errors
    /// As [`ObjectPool::check`].
    pub fn committed(&self) -> Result<Vec<u64>> {
        let all = 0..self.capacity();
        all.filter_map(|index| match self.check(index) {
            Ok(is_committed) => is_committed.then_some(Ok(index)),
            Err(error) => Some(Err(error)),
        })
        .collect()
    }

    /// Claims the bytes of the committed object at `index`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not committed; [`Error::Pool`] if it has an owner.
    pub fn claim(&self, index: u64) -> Result<Fresh> {
        self.committed_state(index)?;
        self.claim_bytes(index)
    }

    /// Releases the committed object at `index`, which no owner has claimed, durably. One flush, one fence.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not committed; [`Error::Pool`] if it has an owner, or with the pool's
    /// error: the next open then tells whether it is released.
    pub fn release(&self, index: u64) -> Result<()> {
        self.pool().check_synced()?;
        self.committed_state(index)?;
        // From here on no other thread can release it, so its word is read again.
        let fresh = self.claim_bytes(index)?;
        let State { generation, .. } = self.committed_state(index)?;
        let free = State { generation, is_committed: false };
        planted!(
            "alloc.object-reused-before-released",
            drop(self.store_word(index, free)),
            self.write_word(index, free)?
        );
        drop(fresh);
        self.free.lock().push(index);
        Ok(())
    }

    fn pool(&self) -> &Pool {
        self.device.segments().pool()
    }

    /// Adds a segment if no object is free. Two fences.
    fn grow(&self) -> Result<()> {
        let mut segments = self.segments.write();
        if !self.free.lock().is_empty() {
            return Ok(());
        }
        let number = u32::try_from(segments.len()).expect("a device has no more segments");
        let first = u64::from(number) * self.shape.count;
        let grant = self.device.get(number)?;
        let mut fresh = grant.claim(0, self.shape.objects_at)?;
        let mut bytes = self.shape.header(self.device.id(), number).encode(self.salt).to_vec();
        let unused = State { generation: 0, is_committed: false };
        let words = (first..first + self.shape.count).map(|index| self.encode(index, unused));
        bytes.extend(words.flat_map(u64::to_le_bytes));
        let written = fresh.write_stream(0, &bytes);
        planted!(
            "alloc.pool-segment-before-its-words",
            Ok(()),
            self.pool().fence([written]).map(drop)
        )?;
        grant.commit()?;
        segments.push(Segment { offset: fresh.offset(), words: fresh.into_words() });
        self.free.lock().extend((first..first + self.shape.count).rev());
        Ok(())
    }

    /// Claims an object without a look at its word.
    fn claim_bytes(&self, index: u64) -> Result<Fresh> {
        let (number, place) = (index / self.shape.count, index % self.shape.count);
        let segment = self.segments.read()[number as usize].offset;
        let at = segment + self.shape.objects_at + place * self.shape.object_len;
        Ok(self.pool().claim(at, self.shape.object_len)?)
    }

    /// The state in the word of an object, if there is one.
    fn state(&self, index: u64) -> Result<Option<State>> {
        let segments = self.segments.read();
        let segment = usize::try_from(index / self.shape.count).ok();
        let segment = segment.and_then(|number| segments.get(number));
        segment.map(|segment| self.read_word(&segment.words, index)).transpose()
    }

    fn committed_state(&self, index: u64) -> Result<State> {
        self.state(index)?.filter(|state| state.is_committed).ok_or_else(|| {
            let why = "something refers to it, but it is not committed".to_owned();
            self.damaged(format!("object {index}"), why)
        })
    }

    fn read_word(&self, words: &Words, index: u64) -> Result<State> {
        let word = words.load(self.word_at(index));
        let state = State { generation: word >> 17, is_committed: word >> 16 & 1 == 1 };
        if word != self.encode(index, state) {
            let why = format!("the word {word:#018x} does not have its check");
            return Err(self.damaged(format!("object {index}"), why));
        }
        Ok(state)
    }

    /// Stores the word of an object, durably. One flush, one fence.
    #[track_caller]
    fn write_word(&self, index: u64, state: State) -> Result<()> {
        let flushed = self.store_word(index, state);
        self.pool().fence([flushed])?;
        Ok(())
    }

    /// Stores the word of an object, and starts its write-back.
    #[track_caller]
    fn store_word(&self, index: u64, state: State) -> Flushed {
        let segments = self.segments.read();
        let words = &segments[(index / self.shape.count) as usize].words;
        let at = self.word_at(index);
        words.store(at, self.encode(index, state));
        words.flush(at..at + 8)
    }

    fn word_at(&self, index: u64) -> u64 {
        HEADER_LEN + index % self.shape.count * 8
    }

    fn encode(&self, index: u64, state: State) -> u64 {
        let word = state.generation << 17 | u64::from(state.is_committed) << 16;
        word | check::of(self.salt, u64::from(self.device.id()) << 48 | index, word)
    }

    fn damaged(&self, what: String, why: String) -> Error {
        let path = self.pool().path().to_owned();
        Error::Damaged {
            path,
            what: format!("object pool, device {}, {what}", self.device.id()),
            why,
        }
    }
}

/// An object that is not committed yet: its bytes, with one owner. If it is dropped, it was never
/// allocated.
#[must_use = "an object that is not committed is free again"]
pub struct Object<'a> {
    pool: &'a ObjectPool,
    index: u64,
    /// `None` once the object is committed.
    fresh: Option<Fresh>,
}

impl Object<'_> {
    /// Its number in the pool.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Makes the allocation of an object durable, whose bytes are durable already; returns them. One flush,
    /// one fence.
    ///
    /// # Errors
    /// The pool's errors; the next open then tells whether the object is allocated.
    pub fn commit(mut self) -> Result<Fresh> {
        let pool = self.pool;
        pool.pool().check_synced()?;
        let state = pool.state(self.index)?.expect("what was got is there");
        let fresh = self.fresh.take().expect("it is committed once");
        let state = State { generation: state.generation + 1, is_committed: true };
        pool.write_word(self.index, state)?;
        Ok(fresh)
    }
}

impl Deref for Object<'_> {
    type Target = Fresh;

    fn deref(&self) -> &Fresh {
        self.fresh.as_ref().expect("it is not committed")
    }
}

impl DerefMut for Object<'_> {
    fn deref_mut(&mut self) -> &mut Fresh {
        self.fresh.as_mut().expect("it is not committed")
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        // Its claim ends before another caller may get it.
        if self.fresh.take().is_some() {
            self.pool.free.lock().push(self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_fill_their_segment_and_begin_with_a_block_of_the_medium() {
        for len in (1..=OBJECT_LEN_MAX / LINE).map(|lines| lines * LINE) {
            let Shape { object_len, count, objects_at } = Shape::new(len);
            assert_eq!(object_len, len);
            assert!(count > 0 && objects_at >= HEADER_LEN + count * 8, "{len}");
            assert!(objects_at.is_multiple_of(MEDIA_BLOCK));
            assert!(objects_at + count * len <= SEGMENT, "{len}");
            let more = (HEADER_LEN + (count + 1) * 8).next_multiple_of(MEDIA_BLOCK);
            assert!(more + (count + 1) * len > SEGMENT, "{len}: one more would fit");
        }
    }
}
