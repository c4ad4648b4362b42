//! Traffic counters.

use std::cell::Cell;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::{LINE, MEDIA_BLOCK};

/// The operations of a pool since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Reads: views of bytes, and loads of words.
    pub loads: u64,
    /// Writes: stores of bytes of any length, streamed ones included, and stores of words.
    pub stores: u64,
    /// Write-backs: ranges flushed, and ranges streamed.
    pub flushes: u64,
    /// Fences; for [`crate::Domain::PageCache`], calls of the kernel's sync.
    pub fences: u64,
    /// Lines of 64 bytes in the flushed and streamed ranges.
    pub lines: u64,
    /// Blocks of 256 bytes in the flushed and streamed ranges.
    pub media_blocks: u64,
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            loads: self.loads - earlier.loads,
            stores: self.stores - earlier.stores,
            flushes: self.flushes - earlier.flushes,
            fences: self.fences - earlier.fences,
            lines: self.lines - earlier.lines,
            media_blocks: self.media_blocks - earlier.media_blocks,
        }
    }
}

/// The traffic of a pool's emulated medium since the pool was opened: [`Pool::medium_traffic`](crate::Pool::medium_traffic).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MediumTraffic {
    /// Lines read from the medium: those that the emulated cache of the reading thread did not have.
    pub lines_read: u64,
    /// Bytes stored, through the cache and past it.
    pub bytes_stored: u64,
}

impl Sub for MediumTraffic {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            lines_read: self.lines_read - earlier.lines_read,
            bytes_stored: self.bytes_stored - earlier.bytes_stored,
        }
    }
}

/// Counters of a pool. Each thread adds to a stripe of its own, with plain loads and stores; only
/// threads beyond the first [`OWNED_STRIPES`] share one, with atomic additions.
pub(crate) struct Counters {
    stripes: Box<[Stripe]>,
}

/// Stores past the cache, to be counted at once.
#[derive(Default)]
pub(crate) struct Streamed {
    stores: u64,
    flushes: u64,
    lines: u64,
    media_blocks: u64,
}

impl Streamed {
    /// Adds a store, and the write-back of its bytes.
    #[inline]
    pub(crate) fn add(&mut self, offset: u64, len: u64) {
        self.stores += 1;
        if len > 0 {
            self.flushes += 1;
            self.lines += units(offset, len, LINE);
            self.media_blocks += units(offset, len, MEDIA_BLOCK);
        }
    }
}

/// The number of units that `len` bytes span, at least one.
#[inline]
fn units(offset: u64, len: u64, unit: u64) -> u64 {
    (offset + len - 1) / unit - offset / unit + 1
}

const OWNED_STRIPES: usize = 63;

#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    loads: AtomicU64,
    stores: AtomicU64,
    flushes: AtomicU64,
    fences: AtomicU64,
    lines: AtomicU64,
    media_blocks: AtomicU64,
    lines_read: AtomicU64,
    bytes_stored: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..=OWNED_STRIPES).map(|_| Stripe::default()).collect() }
    }

    #[inline]
    pub(crate) fn load(&self) {
        self.with(|stripe, owned| add(&stripe.loads, 1, owned));
    }

    #[inline]
    pub(crate) fn store(&self) {
        self.with(|stripe, owned| add(&stripe.stores, 1, owned));
    }

    /// A flushed or streamed range.
    #[inline]
    pub(crate) fn flush(&self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        self.with(|stripe, owned| {
            add(&stripe.flushes, 1, owned);
            add(&stripe.lines, units(offset, len, LINE), owned);
            add(&stripe.media_blocks, units(offset, len, MEDIA_BLOCK), owned);
        });
    }

    /// Stores past the cache.
    pub(crate) fn streamed(&self, streamed: &Streamed) {
        self.with(|stripe, owned| {
            add(&stripe.stores, streamed.stores, owned);
            add(&stripe.flushes, streamed.flushes, owned);
            add(&stripe.lines, streamed.lines, owned);
            add(&stripe.media_blocks, streamed.media_blocks, owned);
        });
    }

    /// A store past the cache and the fence that waits for it.
    #[inline]
    pub(crate) fn persisted(&self, offset: u64, len: u64) {
        self.with(|stripe, owned| {
            add(&stripe.stores, 1, owned);
            add(&stripe.flushes, 1, owned);
            add(&stripe.lines, units(offset, len, LINE), owned);
            add(&stripe.media_blocks, units(offset, len, MEDIA_BLOCK), owned);
            add(&stripe.fences, 1, owned);
        });
    }

    #[inline]
    pub(crate) fn fence(&self) {
        self.with(|stripe, owned| add(&stripe.fences, 1, owned));
    }

    /// Lines that the emulation read from its medium.
    pub(crate) fn read_lines(&self, count: u64) {
        if count > 0 {
            self.with(|stripe, owned| add(&stripe.lines_read, count, owned));
        }
    }

    /// Bytes that the emulation was told of.
    pub(crate) fn stored_bytes(&self, count: u64) {
        self.with(|stripe, owned| add(&stripe.bytes_stored, count, owned));
    }

    fn sum(&self, counter: fn(&Stripe) -> &AtomicU64) -> u64 {
        self.stripes.iter().map(|stripe| counter(stripe).load(Relaxed)).sum()
    }

    pub(crate) fn of_medium(&self) -> MediumTraffic {
        MediumTraffic {
            lines_read: self.sum(|stripe| &stripe.lines_read),
            bytes_stored: self.sum(|stripe| &stripe.bytes_stored),
        }
    }

    pub(crate) fn total(&self) -> Traffic {
        let sum = |counter| self.sum(counter);
        Traffic {
            loads: sum(|stripe| &stripe.loads),
            stores: sum(|stripe| &stripe.stores),
            flushes: sum(|stripe| &stripe.flushes),
            fences: sum(|stripe| &stripe.fences),
            lines: sum(|stripe| &stripe.lines),
            media_blocks: sum(|stripe| &stripe.media_blocks),
        }
    }

    #[inline]
    fn with(&self, f: impl FnOnce(&Stripe, bool)) {
        // A thread that is about to end has no stripe of its own any more.
        let own = OWN.try_with(|own| {
            let index = own.index.get();
            if index == UNASSIGNED { own.assign() } else { index }
        });
        let index = own.unwrap_or(SHARED);
        f(&self.stripes[index], index != SHARED);
    }
}

#[inline]
fn add(counter: &AtomicU64, count: u64, owned: bool) {
    if owned {
        counter.store(counter.load(Relaxed) + count, Relaxed);
    } else {
        counter.fetch_add(count, Relaxed);
    }
}

const SHARED: usize = OWNED_STRIPES;
const UNASSIGNED: usize = usize::MAX;

/// Stripes that no living thread owns.
static UNOWNED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Stripes ever handed out.
static HANDED_OUT: Mutex<usize> = Mutex::new(0);

thread_local! {
    static OWN: OwnStripe = const { OwnStripe { index: Cell::new(UNASSIGNED) } };
}

/// The index of a thread's stripe; given back when the thread ends.
struct OwnStripe {
    index: Cell<usize>,
}

impl OwnStripe {
    #[cold]
    fn assign(&self) -> usize {
        let index = UNOWNED.lock().pop().unwrap_or_else(|| {
            let mut handed_out = HANDED_OUT.lock();
            let index = *handed_out;
            if index < SHARED {
                *handed_out += 1;
            }
            index
        });
        self.index.set(index);
        index
    }
}

impl Drop for OwnStripe {
    fn drop(&mut self) {
        let index = self.index.replace(SHARED);
        if index < SHARED {
            UNOWNED.lock().push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_stripes() {
        let counters = Counters::new();
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| (0..1000).for_each(|_| counters.flush(60, 8)));
            }
        });
        let total = counters.total();
        assert_eq!((total.flushes, total.lines, total.media_blocks), (100_000, 200_000, 100_000));
    }
}
