//! A range that is claimed once, and carved into parcels by those who share it.
//!
//! A parcel is taken, written through its [`Parcel`], and then kept: its bytes are immutable and readable, by their
//! place, and no object in DRAM stands for it. It is reclaimed by its place once no byte of it is pinned. What is known
//! of a parcel is in two tables:
//!
//! - `taken`: a bit for each *grain* of 256 bytes: the grain belongs to a parcel;
//! - `windows`: a word for each *window* of 2 KiB: the kept parcel that begins in it, and how often it is pinned. A
//!   parcel takes a window's length at least, so no two begin in one window. The words of 64 windows are allocated when
//!   the first parcel is kept there.
//!
//! ```text
//! bits 63     62..60                  59..40    31..0
//!      kept   first grain of window   grains    pins
//! ```
//!
//! So a parcel costs bits and words that were there before, and no lock: threads that have no parcels of one range meet
//! nowhere. `claims.rs` has the argument why this is sound.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
use std::marker::PhantomData;
use std::ops::Range;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::region::Region;
use crate::{Error, Fenced, Flushed, Fresh, LINE, MEDIA_BLOCK, Pinned, Pool, Result};

/// Parcels begin and end at multiples of this, in bytes, counted from the start of their range.
pub const GRAIN: u64 = MEDIA_BLOCK;

/// The least space that a parcel takes, in bytes.
pub const WINDOW: u64 = 8 * GRAIN;

/// Grains that a word has bits for.
const WORD_GRAINS: u64 = u64::BITS as u64;

/// Windows whose words are allocated together.
const GROUP: usize = 64;

/// The most grains that a word of a window can count.
const GRAINS_MAX: u64 = 1 << 20;

const KEPT: u64 = 1 << 63;
const PINS: u64 = u32::MAX as u64;

/// Pins of one parcel at once. Beyond these lies room for as many threads as may add one before they notice.
const PINS_MAX: u64 = 1 << 31;

type Group = OnceLock<Box<[AtomicU64; GROUP]>>;

/// A range of a pool that has been claimed, of which threads take parcels.
pub struct Parcels {
    pool: Pool,
    offset: u64,
    len: u64,
    taken: Taken,
    windows: Box<[Group]>,
    /// The life of proofs about kept parcels: no [`Fresh`] has it.
    life: u64,
    /// Whether the range is given back: 1 then.
    ended: AtomicU64,
}

/// A bit for each grain of a range.
struct Taken(Box<[AtomicU64]>);

impl Taken {
    fn new(grains: u64) -> Self {
        Self((0..grains.div_ceil(WORD_GRAINS)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Takes grains if none of them is taken.
    fn take(&self, grains: Range<u64>) -> bool {
        for (number, mask) in masks(&grains) {
            // Acquires the reads of all who pinned these grains, which `free` released.
            let before = self.0[number].fetch_or(mask, Ordering::AcqRel);
            if before & mask != 0 {
                self.0[number].fetch_and(!(mask & !before), Ordering::Release);
                self.free(grains.start..number as u64 * WORD_GRAINS);
                return false;
            }
        }
        true
    }

    /// Frees grains that the caller took.
    fn free(&self, grains: Range<u64>) {
        for (number, mask) in masks(&grains) {
            let before = self.0[number].fetch_and(!mask, Ordering::Release);
            debug_assert_eq!(before & mask, mask, "a grain is freed once");
        }
    }
}

/// The words that have the bits of `grains`, and which bits these are.
fn masks(grains: &Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let (start, end) = (grains.start, grains.end.max(grains.start));
    (start / WORD_GRAINS..end.div_ceil(WORD_GRAINS)).map(move |number| {
        let first = number * WORD_GRAINS;
        let from = start.saturating_sub(first);
        let to = (end - first).min(WORD_GRAINS);
        let below = |bit: u64| if bit == WORD_GRAINS { u64::MAX } else { (1_u64 << bit) - 1 };
        (number as usize, below(to) & !below(from))
    })
}

/// The grains of a parcel.
fn grains(at: u64, len: u64) -> Range<u64> {
    at / GRAIN..(at + len.max(WINDOW)).div_ceil(GRAIN)
}

impl Parcels {
    /// The caller has taken the range from the pool's claims, inside the pool's bounds.
    pub(crate) fn new(pool: Pool, offset: u64, len: u64, life: u64) -> Arc<Self> {
        assert!(
            offset.is_multiple_of(LINE) && len.is_multiple_of(WINDOW) && len / GRAIN < GRAINS_MAX,
            "parcels are whole windows"
        );
        let groups = (len / WINDOW).div_ceil(GROUP as u64);
        Arc::new(Self {
            pool,
            offset,
            len,
            taken: Taken::new(len / GRAIN),
            windows: (0..groups).map(|_| OnceLock::new()).collect(),
            life,
            ended: AtomicU64::new(0),
        })
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The length of the range, in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the range has no bytes; it always has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes `at..at + len`, no byte of which is in a parcel, as a parcel. It takes the grains that it begins, and a
    /// window's length at least.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if it is not inside or does not begin with a grain, [`Error::Claimed`].
    pub fn take(self: &Arc<Self>, at: u64, len: u64) -> Result<Parcel> {
        let path = || self.pool.path().to_owned();
        let end = at.checked_add(len.max(WINDOW)).filter(|&end| end <= self.len);
        if len == 0 || !at.is_multiple_of(GRAIN) || end.is_none() {
            let offset = self.offset.saturating_add(at);
            return Err(Error::OutOfBounds {
                path: path(),
                offset,
                len,
                pool_len: self.pool.len(),
            });
        }
        let offset = self.offset + at;
        if !self.taken.take(grains(at, len)) {
            return Err(Error::Claimed { path: path(), offset, len });
        }
        Ok(Parcel { fresh: Fresh::new(Region::of_parcels(Arc::clone(self), offset, len)) })
    }

    /// Frees the grains of a parcel that was never kept. Called when its region is dropped.
    pub(crate) fn free(&self, offset: u64, len: u64) {
        self.taken.free(grains(offset - self.offset, len));
    }

    /// Lets the bytes of a parcel be pinned, whose region the caller gives up without freeing it.
    fn keep(&self, offset: u64, len: u64) {
        let at = offset - self.offset;
        let Range { start, end } = grains(at, len);
        let group = self.windows[(at / WINDOW) as usize / GROUP]
            .get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU64::new(0))));
        let first = start % (WINDOW / GRAIN);
        // Releases the bytes to those who pin them.
        group[(at / WINDOW) as usize % GROUP]
            .store(KEPT | first << 60 | (end - start) << 40, Ordering::Release);
    }

    /// The word of the window that `at` is in.
    fn window(&self, at: u64) -> Option<&AtomicU64> {
        let number = (at / WINDOW) as usize;
        Some(&self.windows.get(number / GROUP)?.get()?[number % GROUP])
    }

    /// Pins the first `len` bytes of the parcel that begins at `at`. `None` if none is kept there, or it is shorter.
    /// Counts as one load.
    #[must_use]
    pub fn pin(self: &Arc<Self>, at: u64, len: u64) -> Option<Pinned> {
        if !pin(self.window(at)?, at, len) {
            return None;
        }
        let (offset, start) = (self.offset + at, self.pool.address(self.offset + at));
        self.pool.counters().load();
        self.pool.note_read(offset, len);
        Some(Pinned::of_parcel(start, len as usize, Pin { parcels: Arc::clone(self), at }))
    }

    /// Whether a parcel of `len` bytes or more is kept at `at`.
    #[must_use]
    pub fn is_kept(&self, at: u64, len: u64) -> bool {
        self.window(at).is_some_and(|word| has(word.load(Ordering::Acquire), at, len))
    }

    /// Has the kernel read the parcel that begins at `at`, as [`Fresh::read_ahead`] does.
    pub fn read_ahead(&self, at: u64, len: u64) {
        if self.is_kept(at, len) {
            self.pool.read_ahead(self.offset + at, len);
        }
    }

    /// Starts the write-back of the parcel that begins at `at`, which was revealed and not yet fenced.
    ///
    /// # Panics
    /// If none of so many bytes is kept there.
    #[track_caller]
    pub fn flush(&self, at: u64, len: u64) -> Flushed {
        assert!(self.is_kept(at, len), "only what is revealed is flushed here");
        let (pool, offset) = (self.pool.id(), self.offset + at);
        let range = crate::fence::Range { pool, life: self.life, writes: 0, offset, len };
        self.pool.write_back(self.pool.address(offset), range)
    }

    /// Frees the parcel that is kept at `at`, to be taken and written anew, if no byte of it is pinned. Returns
    /// whether it was.
    pub fn reclaim(&self, at: u64) -> bool {
        let Some(grains) = self.window(at).and_then(|word| unkeep(word, at)) else { return false };
        self.taken.free(at / GRAIN..at / GRAIN + grains);
        true
    }

    /// Ends the carving, if no byte is in a parcel: the range may be claimed from the pool again, and no parcel is
    /// taken any more. Returns whether it ended; a second call finds all bytes taken.
    pub fn end(&self) -> bool {
        let ended = self.taken.take(0..self.len / GRAIN);
        if ended {
            self.ended.store(1, Ordering::Relaxed);
            self.pool.give_back(self.offset);
        }
        ended
    }

    fn unpin(&self, at: u64) {
        if let Some(word) = self.window(at) {
            unpin(word);
        }
    }
}

/// Adds a pin to the word of the window at `at`, if it keeps a parcel of `len` bytes or more there.
fn pin(word: &AtomicU64, at: u64, len: u64) -> bool {
    let mut now = word.load(Ordering::Relaxed);
    while has(now, at, len) {
        assert!(now & PINS < PINS_MAX, "a parcel is pinned too often");
        // Acquires the bytes, which the keeping released.
        match word.compare_exchange_weak(now, now + 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
    false
}

/// Takes a pin off, and releases its reads to those who reclaim the parcel.
fn unpin(word: &AtomicU64) {
    word.fetch_sub(1, Ordering::Release);
}

/// Ends the keeping of the parcel at `at`, if no byte is pinned. Returns its grains, which are the caller's to free.
fn unkeep(word: &AtomicU64, at: u64) -> Option<u64> {
    let now = word.load(Ordering::Relaxed);
    if !has(now, at, 0) || now & PINS != 0 {
        return None;
    }
    // Acquires the reads of all who pinned it; `Taken::free` passes them on.
    let ended = word.compare_exchange(now, 0, Ordering::Acquire, Ordering::Relaxed);
    ended.is_ok().then_some(now >> 40 & (GRAINS_MAX - 1))
}

/// Whether a window's word says that a parcel of `len` bytes or more is kept at `at`.
fn has(word: u64, at: u64, len: u64) -> bool {
    let begins = at.is_multiple_of(GRAIN) && word >> 60 & 7 == at / GRAIN % (WINDOW / GRAIN);
    word & KEPT != 0 && begins && len.div_ceil(GRAIN) <= word >> 40 & (GRAINS_MAX - 1)
}

impl Drop for Parcels {
    fn drop(&mut self) {
        // No owner of a parcel, and no pin, is there any more: each holds the range.
        if self.ended.load(Ordering::Relaxed) == 0 {
            self.pool.give_back(self.offset);
        }
    }
}

/// The owner of a parcel that is not kept yet, which writes it.
pub struct Parcel {
    fresh: Fresh,
}

impl Parcel {
    /// The parcel as a range of its own, for other uses than to be kept: it is freed when that is dropped.
    #[must_use]
    pub fn into_fresh(self) -> Fresh {
        self.fresh
    }

    /// All bytes ([`Fresh::bytes`]).
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.fresh.bytes()
    }

    /// Has the kernel read it ([`Fresh::read_ahead`]).
    pub fn read_ahead(&self) {
        self.fresh.read_ahead();
    }

    /// Starts the write-back of all bytes.
    #[track_caller]
    pub fn flush(&self) -> Flushed {
        self.fresh.flush(0..self.fresh.len())
    }

    /// Stores all bytes, past the cache, which are to be fenced by this thread. One store; as a write-back, its lines.
    ///
    /// # Panics
    /// If they are not as long as the parcel.
    #[track_caller]
    pub fn stream(mut self, bytes: &[u8]) -> (InFlight, Flushed) {
        assert_eq!(bytes.len() as u64, self.fresh.len(), "a parcel is written whole");
        let flushed = self.fresh.stream_undrained(bytes);
        (InFlight { fresh: Some(self.fresh), on_this_processor: PhantomData }, flushed)
    }

    /// Stores all bytes through the cache, and keeps the parcel: readers in this process see it, durable or not. No
    /// stored pointer may lead to these bytes before they are fenced ([`Parcels::flush`]). One store.
    ///
    /// # Panics
    /// If they are not as long as the parcel.
    #[track_caller]
    pub fn write(mut self, bytes: &[u8]) {
        assert_eq!(bytes.len() as u64, self.fresh.len(), "a parcel is written whole");
        self.fresh.write(0, bytes);
        self.keep_found();
    }

    /// Keeps the parcel with the bytes that were found in it.
    pub fn keep_found(self) {
        keep(self.fresh);
    }
}

/// A parcel whose bytes were streamed, to be kept once they are fenced. It stays on the thread that streamed them: only
/// this one can wait for its own streaming stores.
pub struct InFlight {
    /// Until it is kept.
    fresh: Option<Fresh>,
    on_this_processor: PhantomData<*const ()>,
}

impl InFlight {
    /// Keeps the parcel. Takes the proof that all bytes are durable.
    ///
    /// # Panics
    /// If `proof` is about other bytes.
    #[track_caller]
    pub fn keep(mut self, proof: &Fenced) {
        if let Some(fresh) = &self.fresh {
            fresh.assert_proven(proof);
        }
        self.fresh.take().into_iter().for_each(keep);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(fresh) = &self.fresh {
            // The next owner may be on another thread, whose stores have to come after these.
            fresh.pool().drain();
        }
    }
}

fn keep(fresh: Fresh) {
    let (parcels, offset, len) = fresh.into_region().leave();
    parcels.keep(offset, len);
}

/// A pin of a parcel: its bytes do not change as long as this lives.
pub(crate) struct Pin {
    parcels: Arc<Parcels>,
    at: u64,
}

impl Clone for Pin {
    fn clone(&self) -> Self {
        let parcels = Arc::clone(&self.parcels);
        if let Some(word) = parcels.window(self.at) {
            let before = word.fetch_add(1, Ordering::Relaxed);
            if before & PINS >= PINS_MAX {
                word.fetch_sub(1, Ordering::Relaxed);
                panic!("a parcel is pinned too often");
            }
        }
        Self { parcels, at: self.at }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.parcels.unpin(self.at);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_grain_is_taken_once(steps in prop::collection::vec((0..400_u64, 1..200_u64, any::<bool>()), 0..100)) {
            let (taken, mut model) = (Taken::new(600), std::collections::BTreeMap::new());
            for (start, len, frees) in steps {
                if frees && let Some((start, end)) = model.pop_first() {
                    taken.free(start..end);
                    continue;
                }
                let end = start + len;
                let is_free = model.iter().all(|(&from, &to)| to <= start || end <= from);
                prop_assert_eq!(taken.take(start..end), is_free);
                if is_free {
                    model.insert(start, end);
                }
            }
            let bits: u32 = taken.0.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum();
            prop_assert_eq!(u64::from(bits), model.iter().map(|(start, end)| end - start).sum::<u64>());
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread::spawn;

    use super::*;

    /// One grain with its bit, the word of its window, and its byte. Loom fails a test that writes it beside a read.
    struct Grain {
        taken: Taken,
        window: AtomicU64,
        byte: UnsafeCell<u8>,
    }

    impl Grain {
        /// As a writer does that finds the grain free: takes, writes and keeps it.
        fn write(&self, byte: u8) -> bool {
            let took = self.taken.take(0..1);
            if took {
                // SAFETY: a grain that is taken has one owner, which loom checks.
                self.byte.with_mut(|place| unsafe { *place = byte });
                self.window.store(KEPT | 1 << 40, Ordering::Release);
            }
            took
        }

        /// As a reader does: pins, reads and lets go.
        fn read(&self) {
            if pin(&self.window, 0, 1) {
                // SAFETY: what is pinned does not change, which loom checks.
                assert!(self.byte.with(|place| unsafe { *place }) > 0);
                unpin(&self.window);
            }
        }

        fn reclaim(&self) -> bool {
            let Some(grains) = unkeep(&self.window, 0) else { return false };
            self.taken.free(0..grains);
            true
        }
    }

    #[test]
    fn what_is_pinned_is_not_written() {
        loom::model(|| {
            let grain = Arc::new(Grain {
                taken: Taken::new(1),
                window: AtomicU64::new(0),
                byte: UnsafeCell::new(0),
            });
            assert!(grain.write(1));
            let reader = spawn({
                let grain = Arc::clone(&grain);
                move || grain.read()
            });
            let writer = spawn({
                let grain = Arc::clone(&grain);
                move || grain.write(2)
            });
            grain.reclaim();
            reader.join().unwrap();
            writer.join().unwrap();
            grain.read();
        });
    }
}
