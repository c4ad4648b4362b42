//! Raw loops that measure the machine's own speed: the same instructions as in the pool's methods, with no
//! count inside the loop. All other measurements are compared with them.
//!
//! On a pool with a [`crate::Profile`] they go through its emulation as the pool's methods do, so that they
//! measure the profile's medium. On a modelled medium they panic: it has no time.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::clock::{self, Clock};
use crate::emulate::Emulation;
use crate::stream::{self, Stream};
use crate::writeback::WriteBack;
use crate::{Domain, Fresh, LINE};

/// How lines are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Through the cache, and left there.
    Store,
    /// Through the cache, and `clflush`.
    Clflush,
    /// Through the cache, and `clflushopt`.
    ClflushOpt,
    /// Through the cache, and `clwb`.
    Clwb,
    /// Past the cache.
    NonTemporal,
}

impl Way {
    /// The ways that make a line durable.
    pub const PERSISTENT: [Self; 4] =
        [Self::Clflush, Self::ClflushOpt, Self::Clwb, Self::NonTemporal];

    /// The name: `store`, `clflush`, `clflushopt`, `clwb` or `non-temporal`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Clflush => "clflush",
            Self::ClflushOpt => "clflushopt",
            Self::Clwb => "clwb",
            Self::NonTemporal => "non-temporal",
        }
    }

    /// Whether this processor has the instruction.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Store => true,
            Self::NonTemporal => Stream::detect() != Stream::Cached,
            _ => self.write_back().is_available(),
        }
    }

    fn write_back(self) -> WriteBack {
        match self {
            Self::Store | Self::NonTemporal => WriteBack::None,
            Self::Clflush => WriteBack::Clflush,
            Self::ClflushOpt => WriteBack::ClflushOpt,
            Self::Clwb => WriteBack::Clwb,
        }
    }
}

/// The nanoseconds since some moment, read as cheaply as the processor allows.
#[must_use]
pub fn nanos() -> u64 {
    (clock::now() as f64 / Clock::get().units_per_ns) as u64
}

/// Stores `bytes` past the cache at each of `offsets` in turn, each time with one fence, and returns
/// how long that took. It counts as nothing.
///
/// # Panics
/// If they do not fit at one of the offsets.
pub fn persist_stream(fresh: &mut Fresh, bytes: &[u8], offsets: &[u64]) -> Duration {
    let len = bytes.len() as u64;
    check(fresh, offsets, len, 1);
    let pool = fresh.pool().clone();
    let base = fresh.offset();
    let start = Instant::now();
    for &at in offsets {
        if let Some(emulation) = pool.emulation() {
            emulation.streams(base + at, len);
        }
        // SAFETY: the range is inside `fresh`, borrowed mutably, as was looked at above.
        unsafe { stream::copy(&pool, pool.address(base + at), bytes) };
        if let Some(emulation) = pool.emulation() {
            emulation.write_back(base + at, len);
        }
        pool.drain();
    }
    start.elapsed()
}

/// Stores a line at each of `offsets` in turn, each time with one fence, and returns how long that
/// took. It counts as nothing.
///
/// # Panics
/// If an offset is not that of a line inside, or the instruction is not available.
pub fn persist(fresh: &mut Fresh, way: Way, offsets: &[u64]) -> Duration {
    store(fresh, way, offsets, LINE, true)
}

/// Stores `len` bytes at each of `offsets` in turn, with one fence at the end, and returns how long
/// that took. It counts as nothing.
///
/// # Panics
/// If an offset is not that of `len` bytes of whole lines inside, or the instruction is not available.
pub fn write(fresh: &mut Fresh, way: Way, offsets: &[u64], len: u64) -> Duration {
    store(fresh, way, offsets, len, false)
}

fn store(fresh: &mut Fresh, way: Way, offsets: &[u64], len: u64, fence_each: bool) -> Duration {
    /// Bytes that are reported to an emulation at once: it begins with them while others follow.
    const TOLD: u64 = 16 << 10;
    assert!(way.is_available(), "this processor has no {}", way.name());
    assert!(len.is_multiple_of(LINE), "{len} bytes are not whole lines");
    check(fresh, offsets, len, LINE);
    let pool = fresh.pool().clone();
    let base = fresh.offset();
    let emulation = pool.emulation();
    let is_emulated_alone = emulation.is_some() && pool.domain() == Domain::Process;
    let line = [0xa5_u8; LINE as usize];
    let (write_back, stream) = match (is_emulated_alone, way) {
        (true, _) => (WriteBack::None, Stream::Cached),
        (false, Way::NonTemporal) => (WriteBack::None, Stream::detect()),
        (false, _) => (way.write_back(), Stream::Cached),
    };
    let start = Instant::now();
    for &at in offsets {
        let (start, end) = (base + at, base + at + len);
        for at in (start..end).step_by(TOLD as usize) {
            let len = TOLD.min(end - at);
            if let Some(emulation) = emulation.filter(|_| way == Way::NonTemporal) {
                emulation.streams(at, len);
            }
            for at in (at..at + len).step_by(LINE as usize) {
                let address = pool.address(at);
                // SAFETY: the line is inside `fresh`, borrowed mutably, as was looked at above, and
                // the processor has the instruction.
                unsafe {
                    if stream == Stream::Cached {
                        address.copy_from_nonoverlapping(black_box(&line).as_ptr(), line.len());
                        write_back.lines(address, LINE);
                    } else {
                        stream.copy(&pool, address, &line);
                    }
                }
            }
            let Some(emulation) = emulation else { continue };
            if way != Way::NonTemporal {
                emulation.stored(at, len);
            }
            if way != Way::Store {
                emulation.write_back(at, len);
            }
        }
        if fence_each {
            pool.drain();
        }
    }
    pool.drain();
    start.elapsed()
}

/// Reads the word at each of `offsets`, each once the one before has arrived, and returns how long that
/// took. It counts as nothing.
///
/// # Panics
/// If an offset is not that of an aligned word inside.
pub fn read_dependent(fresh: &Fresh, offsets: &[u64]) -> Duration {
    check(fresh, offsets, size_of::<u64>() as u64, size_of::<u64>() as u64);
    let pool = fresh.pool();
    let base = fresh.offset();
    // Zero, but the compiler does not know: each address depends on the word read before, yet stays the
    // same.
    let nothing = black_box(0);
    let mut word = 0;
    let start = Instant::now();
    for &at in offsets {
        let at = base + at + (word & nothing);
        let address = pool.address(at);
        // SAFETY: the word is inside `fresh`, which only its owner writes, and aligned, as was looked
        // at above.
        word = unsafe { address.cast::<u64>().read_volatile() };
        if let Some(emulation) = pool.emulation() {
            emulation.read(at, size_of::<u64>() as u64, address);
        }
    }
    black_box(word);
    start.elapsed()
}

/// Reads the `len` bytes at each of `offsets`, none of which depends on another, and returns how long
/// that took. It counts as nothing.
///
/// # Panics
/// If an offset is not that of `len` bytes of whole lines inside.
pub fn read(fresh: &Fresh, offsets: &[u64], len: u64) -> Duration {
    /// Ranges that are reported to an emulation at once: more than a core has under way.
    const TOLD: usize = 64;
    assert!(len.is_multiple_of(LINE), "{len} bytes are not whole lines");
    check(fresh, offsets, len, LINE);
    let pool = fresh.pool();
    let base = fresh.offset();
    let start = Instant::now();
    for offsets in offsets.chunks(TOLD) {
        let began = pool.emulation().map(Emulation::begin);
        let mut sum = 0;
        for &at in offsets {
            // SAFETY: the range is inside `fresh`, which only its owner writes, and aligned to lines.
            let words = unsafe {
                let address = pool.address(base + at).cast::<u64>();
                std::slice::from_raw_parts(address, len as usize / size_of::<u64>())
            };
            sum = words.iter().fold(sum, |sum, word| sum ^ word);
        }
        black_box(sum);
        if let Some((emulation, began)) = pool.emulation().zip(began) {
            let _ = emulation.read_at_once(began, offsets.iter().map(|at| base + at), len);
        }
    }
    start.elapsed()
}

/// # Panics
/// If one of the ranges is not inside, or does not begin at a multiple of `align` of the pool; or
/// if the pool is on a modelled medium, to which these stores would not be reported.
fn check(fresh: &Fresh, offsets: &[u64], len: u64, align: u64) {
    assert!(fresh.pool().medium().is_none(), "a modelled medium has no time");
    for &at in offsets {
        assert!(
            at.checked_add(len).is_some_and(|end| end <= fresh.len())
                && (fresh.offset() + at).is_multiple_of(align),
            "{at}..+{len} is not inside, or not aligned to {align}"
        );
    }
}
