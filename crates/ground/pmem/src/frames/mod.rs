//! Pages that are updated where they lie: frames of a region, each behind a latch.
//!
//! Elsewhere in a pool, published bytes never change. The frames of a buffer pool are the exception (Lersch §4.2: a page in
//! persistent memory is read and updated in place, and no update flushes it). What makes them sound is that their bytes
//! change by aligned words of 8 bytes only, which are atomics, and under a latch only:
//!
//! | access | latch | sees |
//! |---|---|---|
//! | [`Frames::exclusive`] → [`FrameMut`] | held by one writer | the newest bytes, and stores to them |
//! | [`Frames::shared`] → [`FrameRef`] | held by up to 254 readers | the bytes of one version, also in place (`&[u8]`) |
//! | [`Frames::read_optimistic`] | not touched | words ([`FrameWords`]), to be believed if the version has not changed |
//!
//! Latches and versions lie in DRAM (the frame table: 8 bytes a frame), and begin anew when the pool is opened. Whether the
//! stored bytes are whole by then is for checksums to tell.
//!
//! A request walks `Frames` (which frame) → `latch` (who may) → `guards` (`FrameMut`, `FrameRef`) → `words` (the accesses,
//! told to the pool's counters, emulation and model).
//!
//! **Costs.** `n` is the number of lines in the range.
//!
//! | call | latch word | flushes of lines | fences |
//! |---|---|---|---|
//! | `read_optimistic` | 2 loads, no store: readers do not share a line that changes | 0 | 0 |
//! | `shared`, and its end | 2 read-modify-writes | 0 | 0 |
//! | `exclusive`, and its end | 1 read-modify-write, 1 store | 0 | 0 |
//! | `write`, `write_words`, `store` | – | 0 | 0 |
//! | `flush` | – | n | 0 |
//! | `persist` | – | n | 1; on an ordinary file a sync of its pages |

use std::hint;
use std::thread;

use halite_sim::locks;

use crate::region::Region;
use crate::{LINE, Pool};

mod guards;
mod latch;
mod words;

use guards::Frame;
pub use guards::{FrameMut, FrameRef};
use latch::Latch;
pub use words::FrameWords;

/// Frames of one length, which many threads read and write. Frames are numbered from 0 on.
///
/// A thread that waits for a latch spins, and gives way to other threads then: a holder does not wait for anything that
/// takes long, and takes a second latch in an order that all threads keep, or by a method that does not wait.
pub struct Frames {
    region: Region,
    frame_len: u64,
    table: Box<[Latch]>,
}

/// A version of a frame: another one after each [`FrameMut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(u64);

impl Frames {
    /// The caller owns the region.
    pub(crate) fn new(region: Region, frame_len: u64) -> Self {
        let (offset, len) = (region.offset(), region.len());
        assert!(
            frame_len > 0 && frame_len.is_multiple_of(LINE) && offset.is_multiple_of(LINE),
            "a frame is some whole lines, not {frame_len} bytes from {offset} on"
        );
        assert!(len.is_multiple_of(frame_len), "{len} bytes are not some frames of {frame_len}");
        let table = (0..len / frame_len).map(|_| Latch::new()).collect();
        Self { region, frame_len, table }
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.region.pool()
    }

    /// The offset of a frame in the pool.
    ///
    /// # Panics
    /// If there is no such frame.
    #[must_use]
    pub fn offset(&self, frame: u64) -> u64 {
        self.region.offset() + self.frame(frame).start
    }

    /// The length of each frame in bytes, a multiple of a line.
    #[must_use]
    pub fn frame_len(&self) -> u64 {
        self.frame_len
    }

    /// How many frames there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.table.len() as u64
    }

    /// Waits for the latch of a frame, to write it.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    pub fn exclusive(&self, frame: u64) -> FrameMut<'_> {
        wait_for(|| self.try_exclusive(frame))
    }

    /// The frame, to be written, if nothing holds its latch.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    pub fn try_exclusive(&self, frame: u64) -> Option<FrameMut<'_>> {
        let frame = self.frame(frame);
        frame.latch.try_exclusive().then(|| FrameMut::new(frame))
    }

    /// The frame, to be written, if nothing holds its latch and it still has the version: what an optimistic reader read
    /// of that version is so until this writer changes it.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    pub fn try_exclusive_at(&self, frame: u64, version: Version) -> Option<FrameMut<'_>> {
        let frame = self.frame(frame);
        frame.latch.try_exclusive_at(version.0).then(|| FrameMut::new(frame))
    }

    /// Waits until no thread writes the frame, and keeps writers out.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    pub fn shared(&self, frame: u64) -> FrameRef<'_> {
        wait_for(|| self.try_shared(frame))
    }

    /// The frame, to be read, if no thread writes it.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    pub fn try_shared(&self, frame: u64) -> Option<FrameRef<'_>> {
        let frame = self.frame(frame);
        frame.latch.try_shared().then(|| FrameRef::new(frame))
    }

    /// Reads a frame without its latch: runs `read`, and returns its result if no writer held the latch from the beginning
    /// to the end. On `None`, the caller tries again, or waits ([`Frames::shared`]).
    ///
    /// `read` may see words of several versions, and must not fail by what they say: it neither panics nor runs for ever,
    /// whatever it loads, and its effects are undone if the result is `None`.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    pub fn read_optimistic<R>(
        &self,
        frame: u64,
        read: impl FnOnce(FrameWords<'_>) -> R,
    ) -> Option<R> {
        let version = self.version(frame)?;
        let result = read(self.words(frame));
        self.is_current(frame, version).then_some(result)
    }

    /// The version of a frame, unless a thread writes it. Where a reader goes through several frames, it takes the version
    /// of each before it loads words of it, and checks it after ([`Frames::is_current`]).
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    #[must_use]
    pub fn version(&self, frame: u64) -> Option<Version> {
        locks::point();
        self.frame(frame).latch.version().map(Version)
    }

    /// The words of a frame, to be believed once [`Frames::is_current`] says so.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    #[must_use]
    pub fn words(&self, frame: u64) -> FrameWords<'_> {
        self.frame(frame).words()
    }

    /// Whether all words of a frame that this thread loaded since it took the version are of that version.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    #[must_use]
    pub fn is_current(&self, frame: u64, version: Version) -> bool {
        locks::point();
        self.frame(frame).latch.is_current(version.0)
    }

    #[inline]
    fn frame(&self, number: u64) -> Frame<'_> {
        let latch = usize::try_from(number).ok().and_then(|number| self.table.get(number));
        let latch = latch.unwrap_or_else(|| panic!("frame {number} of {}", self.count()));
        let (start, len) = (number * self.frame_len, self.frame_len);
        Frame { region: &self.region, latch, start, len }
    }
}

/// Tries until it succeeds.
#[inline]
fn wait_for<T>(try_take: impl Fn() -> Option<T>) -> T {
    const SPINS: u32 = 64;
    let mut tries = 0;
    loop {
        locks::point();
        if let Some(taken) = try_take() {
            return taken;
        }
        // A scheduled thread has given way already.
        match tries {
            _ if locks::is_scheduled() => {}
            SPINS.. => thread::yield_now(),
            _ => hint::spin_loop(),
        }
        tries = tries.saturating_add(1);
    }
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames")
            .field("count", &self.count())
            .field("frame_len", &self.frame_len)
            .finish_non_exhaustive()
    }
}
