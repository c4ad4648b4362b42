//! The emulation of a slower medium at the pool's interface.
//!
//! A pool with a [`Profile`] reports each of its operations to an [`Emulation`]. The emulation asks the
//! thread's [`Processor`] (`processor.rs`) until when the medium would take, and waits that long. The
//! machine's own work overlaps this wait: lines to be read are prefetched before it, so an operation takes
//! the longer of its time on this machine and its time by the profile, not their sum.
//!
//! **The model.** Each thread has a small cache, and as many line fills under way as a core has buffers
//! for. A read waits for the lines that are not in that cache: the first line takes the medium's latency,
//! those behind it follow at its bandwidth. A prefetch takes as long, but only a reader of the line waits,
//! for the rest of that time. A write-back is complete once the latency is over and all its blocks are
//! through the medium's channel, which all threads share; a fence waits for the thread's own write-backs. A
//! line that was just written back takes another write-back later ([`Profile::same_line_ns`]).
//!
//! **Simplifications.** Single reads of one thread do not overlap as they do in a processor that looks
//! ahead: a reader that wants overlap prefetches. A store never waits for the line that it is to change,
//! because a store buffer hides that. The eviction of a dirty line from the cache costs nothing. Lines are
//! compared by their number and a part of their pool's.

use std::cell::RefCell;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{self, Clock};
use crate::processor::Processor;
use crate::{LINE, Profile, prefetch};

/// A pool's medium. Times are in units of the [`Clock`].
pub(crate) struct Emulation {
    profile: Profile,
    /// The number of the pool's first line; no two pools share lines.
    first_line: u64,
    /// A read of a line in no buffer.
    pub(crate) read: u64,
    /// A read of a line in the block that was read last.
    pub(crate) buffered_read: u64,
    pub(crate) persist: u64,
    pub(crate) same_line: u64,
    /// A line's number, shifted right by this, is its block's.
    pub(crate) block_shift: u32,
    pub(crate) reads: Channel,
    pub(crate) writes: Channel,
}

/// The emulation's own overhead for an operation that waits, in clock units; it is deducted from the wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnCost {
    pub(crate) read: u64,
    pub(crate) persist: u64,
}

impl OwnCost {
    /// Measures the overhead on operations that wait for a known time. Work that overlaps the wait costs
    /// nothing.
    fn measure(clock: Clock) -> Self {
        const OPERATIONS: u64 = 100;
        const WAIT_NS: u64 = 500;
        /// The distance of the test's lines: none is cached, and none is near another.
        const STRIDE: u64 = LINE * 5;
        let profile = Profile {
            read_ns: WAIT_NS,
            sequential_read_ns: WAIT_NS,
            persist_ns: WAIT_NS,
            same_line_ns: WAIT_NS,
            ..Profile::dram()
        };
        let medium = Emulation::with_costs(&profile, u64::MAX, clock, Self { read: 0, persist: 0 });
        let line = [0_u8; LINE as usize];
        // The least of several rounds, because some are interrupted.
        let least = |operation: &dyn Fn(u64)| {
            let rounds = (0..20).map(|round| {
                let start = clock::now();
                for number in 0..OPERATIONS {
                    operation((round * OPERATIONS + number) * STRIDE);
                }
                (clock::now() - start) / OPERATIONS
            });
            rounds.min().unwrap_or_default().saturating_sub(clock.units(WAIT_NS as f64))
        };
        Self {
            read: least(&|at| _ = medium.read(at, 8, line.as_ptr())),
            persist: least(&|at| {
                medium.stored(at, LINE);
                medium.write_back(at, LINE);
                medium.fence();
            }),
        }
    }
}

thread_local! {
    /// Its address tells threads apart.
    static USER: u8 = const { 0 };
    static PROCESSOR: RefCell<Processor> = const { RefCell::new(Processor::new()) };
}

impl Emulation {
    /// The medium of pool number `pool`.
    pub(crate) fn new(profile: &Profile, pool: u64) -> Self {
        static OWN_COST: OnceLock<OwnCost> = OnceLock::new();
        let clock = Clock::get();
        let cost = *OWN_COST.get_or_init(|| OwnCost::measure(clock));
        Self::with_costs(profile, pool, clock, cost)
    }

    pub(crate) fn with_costs(profile: &Profile, pool: u64, clock: Clock, cost: OwnCost) -> Self {
        /// Pools of up to 1 TiB have lines of their own.
        const POOL_LINES: u64 = 1 << 34;
        let latency = |ns: f64, own: u64| clock.units(ns).saturating_sub(own);
        let lines_per_block = profile.block / LINE;
        let (read, sequential) = (profile.read_ns as f64, profile.sequential_read_ns as f64);
        // The first line of a block takes `read` and each other one this, so that the mean is `sequential`.
        let buffered = match lines_per_block as f64 {
            1.0 => read,
            lines => ((sequential * lines - read) / (lines - 1.0)).max(0.0),
        };
        let block_time = |rate: u64| profile.block as f64 * 1e9 / rate as f64 * clock.units_per_ns;
        Self {
            first_line: pool.wrapping_mul(POOL_LINES),
            read: latency(read, cost.read),
            buffered_read: latency(buffered, cost.read),
            persist: latency(profile.persist_ns as f64, cost.persist),
            same_line: if profile.same_line_ns > profile.persist_ns {
                clock.units(profile.same_line_ns as f64)
            } else {
                0
            },
            block_shift: lines_per_block.ilog2(),
            reads: Channel::new(block_time(profile.read_bytes_per_s)),
            writes: Channel::new(block_time(profile.write_bytes_per_s)),
            profile: profile.clone(),
        }
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Waits until `len` bytes at `offset`, which lie at `address`, have been read. Returns how many lines the medium was
    /// asked for, as of all reads.
    #[cold]
    pub(crate) fn read(&self, offset: u64, len: u64, address: *const u8) -> u64 {
        if len == 0 {
            return 0;
        }
        let mut at = 0;
        while at < len {
            prefetch::line(address.wrapping_add(at as usize));
            at += LINE;
        }
        prefetch::line(address.wrapping_add(len as usize - 1));
        let (until, lines) = PROCESSOR.with_borrow_mut(|processor| {
            let until = processor.read(self, self.lines(offset, len), clock::now);
            (until, processor.take_lines_read())
        });
        Self::wait(until);
        lines
    }

    /// The start time of an operation that is reported later.
    pub(crate) fn begin(&self) -> u64 {
        clock::now()
    }

    /// Waits until `len` bytes at each of `offsets` have been read, since `began`, with as many reads at
    /// once as a core has fill buffers.
    pub(crate) fn read_at_once(
        &self,
        began: u64,
        offsets: impl Iterator<Item = u64>,
        len: u64,
    ) -> u64 {
        let mut now = began;
        let (until, lines) = PROCESSOR.with_borrow_mut(|processor| {
            for offset in offsets {
                // A line that is not cached waits for a fill buffer, and so do all lines after it.
                let free_at = processor.fetch_ahead(self, self.lines(offset, len), || now);
                now = free_at.unwrap_or(now);
            }
            (processor.all_filled(), processor.take_lines_read())
        });
        Self::wait(until);
        lines
    }

    /// Starts to read the line at `offset`; waits only if too much is under way.
    #[cold]
    pub(crate) fn prefetch(&self, offset: u64, address: *const u8) -> u64 {
        prefetch::line(address);
        let (until, lines) = PROCESSOR.with_borrow_mut(|processor| {
            let until = processor.fetch_ahead(self, self.lines(offset, 1), clock::now);
            (until, processor.take_lines_read())
        });
        Self::wait(until);
        lines
    }

    /// Bytes stored through the cache are in it.
    #[cold]
    pub(crate) fn stored(&self, offset: u64, len: u64) {
        let lines = self.lines(offset, len);
        PROCESSOR.with_borrow_mut(|processor| processor.cache.fill(lines));
    }

    /// Bytes about to be stored past the cache are not in it. Their write-back begins now, though it is
    /// reported only when all of them are stored.
    #[cold]
    pub(crate) fn streams(&self, offset: u64, len: u64) {
        let (lines, now) = (self.lines(offset, len), clock::now());
        PROCESSOR.with_borrow_mut(|processor| processor.stream(lines, now));
    }

    /// The write-back of `len` bytes at `offset` begins.
    #[cold]
    pub(crate) fn write_back(&self, offset: u64, len: u64) {
        let lines = self.lines(offset, len);
        PROCESSOR.with_borrow_mut(|processor| processor.write_back(self, lines, clock::now));
    }

    /// Waits for this thread's write-backs.
    #[cold]
    pub(crate) fn fence(&self) {
        Self::wait(PROCESSOR.with_borrow_mut(Processor::fence));
    }

    fn wait(until: Option<u64>) {
        if let Some(until) = until {
            clock::wait_until(until);
        }
    }

    pub(crate) fn lines(&self, offset: u64, len: u64) -> Range<u64> {
        let start = self.first_line + offset / LINE;
        match len {
            0 => start..start,
            _ => start..self.first_line + (offset + len).div_ceil(LINE),
        }
    }
}

/// One direction of a medium, which all threads share.
#[repr(align(128))]
pub(crate) struct Channel {
    free_at: AtomicU64,
    /// The thread that used it last.
    last_user: AtomicU64,
    /// How long a block takes.
    pub(crate) block_time: f64,
}

impl Channel {
    fn new(block_time: f64) -> Self {
        Self { free_at: AtomicU64::new(0), last_user: AtomicU64::new(0), block_time }
    }

    /// Takes the channel for `blocks` as soon as it is free, from `now` on; returns when it is free
    /// again.
    ///
    /// A locked instruction waits for the walks through the page tables that prefetches before it began,
    /// and they would not overlap any more. So there is none while one thread alone uses the channel.
    /// When another one comes, one use of the first may be lost.
    pub(crate) fn occupy(&self, blocks: u64, now: u64) -> u64 {
        let time = (blocks as f64 * self.block_time) as u64;
        let mut free_at = self.free_at.load(Ordering::Relaxed);
        let user = USER.with(|user| ptr::from_ref(user).addr() as u64);
        if self.last_user.load(Ordering::Relaxed) == user {
            let end = free_at.max(now) + time;
            self.free_at.store(end, Ordering::Relaxed);
            return end;
        }
        self.last_user.store(user, Ordering::Relaxed);
        loop {
            let end = free_at.max(now) + time;
            let taken = self.free_at.compare_exchange_weak(
                free_at,
                end,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return end,
                Err(other) => free_at = other,
            }
        }
    }
}
