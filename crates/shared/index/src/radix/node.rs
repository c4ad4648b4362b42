//! The nodes: of four sizes, so that a node has as many slots as it needs (Leis et al. 2013).
//!
//! ```text
//! Four         64 B   | lock, level, count, keys | window | 4 slots |
//! Sixteen     192 B   | lock, level, count       | window | keys, terminal | 16 slots      |
//! FortyEight  704 B   | lock, level, count       | window | terminal | 256 numbers | 48 slots |
//! Full       2112 B   | lock, level              | window | terminal | 256 slots           |
//! ```
//!
//! All keys below a node have its first `level` bytes in common, and differ in the byte behind them, or end
//! there: the *terminal* slot is for the key that ends there. A Four has no slot to spare, there the
//! terminal is in the last one. Level and window, the bytes before the level, never change: a new node
//! above a node leaves it unchanged.
//!
//! In a Four and a Sixteen, keys and slots are sorted. All fields that change are atomic and guarded by the
//! node's lock.

mod grow;

use std::ops::{ControlFlow, Range};
use std::ptr::NonNull;

use super::Direction;
use super::lock::VersionLock;
use super::sought::WINDOW;
use crate::prefetch;
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The lengths of the nodes' slots in memory, ascending.
pub(super) const CLASS_LENS: [usize; 4] = [
    size_of::<Four>().next_multiple_of(64),
    size_of::<Sixteen>().next_multiple_of(64),
    size_of::<FortyEight>().next_multiple_of(64),
    size_of::<Full>().next_multiple_of(64),
];

#[cfg(all(not(loom), target_pointer_width = "64"))]
const _: () = assert!(CLASS_LENS[0] == 64 && CLASS_LENS[1] == 192);

/// The largest level that three bytes can hold.
pub(super) const LEVEL_MAX: usize = (1 << 24) - 1;

/// A bit in the count of a Four: its last slot is that of the key that ends here.
const HAS_TERMINAL: u8 = 0x80;

/// The beginning of a node of any size.
#[repr(C)]
pub(super) struct Header {
    lock: VersionLock,
    /// Bytes that all keys below have in common.
    level: [u8; 3],
    /// Keys in use.
    count: AtomicU8,
    /// The keys of a Four.
    keys: AtomicU32,
    window: u128,
}

#[repr(C, align(64))]
pub(super) struct Four {
    header: Header,
    slots: [AtomicU64; 4],
}

#[repr(C, align(64))]
pub(super) struct Sixteen {
    header: Header,
    keys: [AtomicU64; 2],
    terminal: AtomicU64,
    _line: u64,
    slots: [AtomicU64; 16],
}

#[repr(C, align(64))]
pub(super) struct FortyEight {
    header: Header,
    terminal: AtomicU64,
    /// For each byte the number of its slot, from 1 on; or 0. Eight to a word.
    numbers: [AtomicU64; 32],
    slots: [AtomicU64; 48],
}

#[repr(C, align(64))]
pub(super) struct Full {
    header: Header,
    terminal: AtomicU64,
    slots: [AtomicU64; 256],
}

/// A node of any size.
#[derive(Clone, Copy)]
pub(super) enum Node<'a> {
    Four(&'a Four),
    Sixteen(&'a Sixteen),
    FortyEight(&'a FortyEight),
    Full(&'a Full),
}

/// The places of bytes that equal `byte` among the first `count` of eight, as set top bits.
#[inline]
fn equal_bytes(keys: u32, byte: u8, count: usize) -> u32 {
    let differences = keys ^ (u32::from(byte) * 0x0101_0101);
    let zeros = differences.wrapping_sub(0x0101_0101) & !differences & 0x8080_8080;
    // Bits above the first equal place may be set wrongly; only the first one counts.
    zeros & ((1_u64 << (8 * count)) - 1) as u32
}

/// The place of the first of the sorted keys that is not below `byte`.
fn first_from(keys: u128, byte: u8, count: usize) -> usize {
    keys.to_le_bytes()[..count].iter().take_while(|&&key| key < byte).count()
}

impl Header {
    fn new(level: usize, window: u128, count: u8, keys: u32) -> Self {
        let [low, middle, high, _] = (level as u32).to_le_bytes();
        Self {
            lock: VersionLock::new(),
            level: [low, middle, high],
            count: AtomicU8::new(count),
            keys: AtomicU32::new(keys),
            window,
        }
    }
}

impl Four {
    fn count(&self) -> (usize, bool) {
        let count = self.header.count.load(Ordering::Relaxed);
        (usize::from(count & !HAS_TERMINAL).min(4), count & HAS_TERMINAL != 0)
    }

    fn keys(&self) -> u128 {
        self.header.keys.load(Ordering::Relaxed).into()
    }
}

impl Sixteen {
    fn keys(&self) -> u128 {
        let [low, high] = &self.keys;
        u128::from(high.load(Ordering::Relaxed)) << 64 | u128::from(low.load(Ordering::Relaxed))
    }

    fn count(&self) -> usize {
        usize::from(self.header.count.load(Ordering::Relaxed)).min(16)
    }

    /// The places whose keys equal `byte`, as bits.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn equal(&self, byte: u8) -> u32 {
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
        let [low, high] = &self.keys;
        let (low, high) = (low.load(Ordering::Relaxed), high.load(Ordering::Relaxed));
        // SAFETY: SSE2 is part of the architecture.
        let equal = unsafe {
            let keys = _mm_set_epi64x(high as i64, low as i64);
            _mm_movemask_epi8(_mm_cmpeq_epi8(keys, _mm_set1_epi8(byte as i8)))
        };
        equal as u32 & ((1 << self.count()) - 1)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn equal(&self, byte: u8) -> u32 {
        let keys = self.keys().to_le_bytes();
        let equal = keys[..self.count()].iter().position(|&key| key == byte);
        equal.map_or(0, |at| 1 << at)
    }
}

impl FortyEight {
    fn count(&self) -> usize {
        usize::from(self.header.count.load(Ordering::Relaxed)).min(48)
    }

    /// The number of a byte's slot, or 0.
    #[inline]
    fn number(&self, byte: u8) -> u8 {
        let word = self.numbers[usize::from(byte / 8)].load(Ordering::Relaxed);
        (word >> (8 * (byte % 8))) as u8
    }

    /// Gives a byte that has none the number of its slot. The caller holds the lock.
    fn set_number(&self, byte: u8, number: u8) {
        let word = &self.numbers[usize::from(byte / 8)];
        let set = word.load(Ordering::Relaxed) | u64::from(number) << (8 * (byte % 8));
        word.store(set, Ordering::Relaxed);
    }

    /// Does as [`Node::words`].
    fn words(
        &self,
        mut rest: Range<usize>,
        direction: Direction,
        mut take: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Range<usize> {
        let word_of = |byte: usize| {
            let slot = self.slots.get(usize::from(self.number(byte as u8)).wrapping_sub(1));
            slot.map_or(0, |slot| slot.load(Ordering::Acquire))
        };
        while !rest.is_empty() {
            let place = match direction {
                Direction::Ascending => rest.start,
                Direction::Descending => rest.end - 1,
            };
            // The terminal is before all bytes.
            let Some(byte) = place.checked_sub(1) else {
                match direction {
                    Direction::Ascending => rest.start = 1,
                    Direction::Descending => rest.end = 0,
                }
                let word = self.terminal.load(Ordering::Acquire);
                if word != 0 && take(word).is_break() {
                    return rest;
                }
                continue;
            };
            // The bytes of the group that are in `rest`.
            let start = byte & !63;
            let low = rest.start.saturating_sub(1).max(start);
            let high = (rest.end - 2).min(start + 63);
            let mut used = self.used(start / 64);
            used &= u64::MAX << (low - start) & u64::MAX >> (start + 63 - high);
            while used != 0 {
                let at = match direction {
                    Direction::Ascending => used.trailing_zeros(),
                    Direction::Descending => 63 - used.leading_zeros(),
                };
                used &= !(1 << at);
                let byte = start + at as usize;
                let word = word_of(byte);
                if word != 0 && take(word).is_break() {
                    match direction {
                        Direction::Ascending => rest.start = byte + 2,
                        Direction::Descending => rest.end = byte + 1,
                    }
                    return rest;
                }
            }
            match direction {
                Direction::Ascending => rest.start = high + 2,
                Direction::Descending => rest.end = low + 1,
            }
        }
        rest
    }

    /// Which of 64 bytes from `64 * group` on have a slot, as bits.
    #[inline]
    fn used(&self, group: usize) -> u64 {
        let words = self.numbers[8 * group..][..8].iter().enumerate();
        words.fold(0, |used, (at, word)| {
            let word = word.load(Ordering::Relaxed);
            // Numbers are below 128: the top bit of each byte that is not zero, then all in one byte.
            let tops = (word + 0x7f7f_7f7f_7f7f_7f7f) & 0x8080_8080_8080_8080;
            used | ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at)
        })
    }
}

/// The words at places of `rest`, as [`Node::words`] has them.
#[inline(always)]
fn words_of(
    mut rest: Range<usize>,
    direction: Direction,
    mut take: impl FnMut(u64) -> ControlFlow<()>,
    at: impl Fn(usize) -> u64,
) -> Range<usize> {
    let mut next = |place| match at(place) {
        0 => ControlFlow::Continue(()),
        word => take(word),
    };
    match direction {
        Direction::Ascending => while rest.next().is_some_and(|place| next(place).is_continue()) {},
        Direction::Descending => {
            while rest.next_back().is_some_and(|place| next(place).is_continue()) {}
        }
    }
    rest
}

impl<'a> Node<'a> {
    #[inline]
    fn header(self) -> &'a Header {
        match self {
            Self::Four(node) => &node.header,
            Self::Sixteen(node) => &node.header,
            Self::FortyEight(node) => &node.header,
            Self::Full(node) => &node.header,
        }
    }

    #[inline]
    pub(super) fn lock(self) -> &'a VersionLock {
        &self.header().lock
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        let [low, middle, high] = self.header().level;
        u32::from_le_bytes([low, middle, high, 0]) as usize
    }

    /// The bytes before the level, as in [`Sought::window`](super::sought::Sought::window).
    #[inline]
    pub(super) fn window(self) -> u128 {
        self.header().window
    }

    /// The first byte that the window has.
    pub(super) fn window_start(self) -> usize {
        self.level().saturating_sub(WINDOW)
    }

    /// The byte of all keys below at a place that the window has.
    pub(super) fn window_byte(self, at: usize) -> u8 {
        let place = at.saturating_sub(self.window_start());
        self.window().to_le_bytes().get(place).copied().unwrap_or_default()
    }

    /// Asks for the line behind the header's that a search for a byte will need, in case the level is
    /// `level`.
    #[inline]
    pub(super) fn prefetch(self, byte: u8) {
        let byte = usize::from(byte);
        match self {
            Self::Four(_) => {}
            Self::Sixteen(node) => prefetch::lines(node.slots.as_ptr().cast(), 128),
            Self::FortyEight(node) => {
                prefetch::lines((&raw const node.numbers[byte / 8]).cast(), 1)
            }
            Self::Full(node) => prefetch::lines((&raw const node.slots[byte]).cast(), 1),
        }
    }

    /// The slot for a byte, or for the key that ends here, if the node has one; it may be empty.
    #[inline]
    pub(super) fn find(self, byte: Option<u8>) -> Option<&'a AtomicU64> {
        let Some(byte) = byte else { return self.terminal() };
        match self {
            Self::Four(node) => {
                let keys = node.header.keys.load(Ordering::Relaxed);
                let equal = equal_bytes(keys, byte, node.count().0);
                (equal != 0).then(|| &node.slots[equal.trailing_zeros() as usize / 8])
            }
            Self::Sixteen(node) => {
                let equal = node.equal(byte);
                (equal != 0).then(|| &node.slots[equal.trailing_zeros() as usize])
            }
            Self::FortyEight(node) => {
                node.slots.get(usize::from(node.number(byte)).wrapping_sub(1))
            }
            Self::Full(node) => Some(&node.slots[usize::from(byte)]),
        }
    }

    fn terminal(self) -> Option<&'a AtomicU64> {
        match self {
            Self::Four(node) => node.count().1.then(|| &node.slots[3]),
            Self::Sixteen(node) => Some(&node.terminal),
            Self::FortyEight(node) => Some(&node.terminal),
            Self::Full(node) => Some(&node.terminal),
        }
    }

    /// Returns where the node lies, and its length, for the arena.
    pub(super) fn slot(self) -> (NonNull<u8>, usize) {
        match self {
            Self::Four(node) => (NonNull::from(node).cast(), size_of::<Four>()),
            Self::Sixteen(node) => (NonNull::from(node).cast(), size_of::<Sixteen>()),
            Self::FortyEight(node) => (NonNull::from(node).cast(), size_of::<FortyEight>()),
            Self::Full(node) => (NonNull::from(node).cast(), size_of::<Full>()),
        }
    }

    /// The node's places in the order of keys: the terminal, then those of the bytes.
    pub(super) fn places(self) -> usize {
        1 + match self {
            Self::Four(node) => node.count().0,
            Self::Sixteen(node) => node.count(),
            Self::FortyEight(_) | Self::Full(_) => 256,
        }
    }

    /// The first place whose byte is not below `byte`.
    pub(super) fn place_from(self, byte: u8) -> usize {
        1 + match self {
            Self::Four(node) => first_from(node.keys(), byte, node.count().0),
            Self::Sixteen(node) => first_from(node.keys(), byte, node.count()),
            Self::FortyEight(_) | Self::Full(_) => byte.into(),
        }
    }

    /// Calls `take` with the words that are not empty at places of `rest`, in a direction, until it has
    /// enough. Returns the places that are left.
    #[inline]
    pub(super) fn words(
        self,
        rest: Range<usize>,
        direction: Direction,
        take: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Range<usize> {
        let load = |slot: &AtomicU64| slot.load(Ordering::Acquire);
        match self {
            Self::Four(node) => words_of(rest, direction, take, |place| match place {
                0 => self.terminal().map_or(0, load),
                _ => node.slots.get(place - 1).map_or(0, load),
            }),
            Self::Sixteen(Sixteen { slots, terminal, .. }) => {
                words_of(rest, direction, take, |place| match place {
                    0 => load(terminal),
                    _ => slots.get(place - 1).map_or(0, load),
                })
            }
            Self::Full(Full { slots, terminal, .. }) => {
                words_of(rest, direction, take, |place| match place {
                    0 => load(terminal),
                    _ => slots.get(place - 1).map_or(0, load),
                })
            }
            Self::FortyEight(node) => node.words(rest, direction, take),
        }
    }

    /// The byte and the word at a place; the word may be zero, for an empty slot.
    #[inline]
    pub(super) fn at(self, place: usize) -> (Option<u8>, u64) {
        let load = |slot: &AtomicU64| slot.load(Ordering::Acquire);
        let Some(at) = place.checked_sub(1) else {
            return (None, self.terminal().map_or(0, load));
        };
        match self {
            Self::Four(node) => {
                (node.keys().to_le_bytes().get(at).copied(), node.slots.get(at).map_or(0, load))
            }
            Self::Sixteen(node) => {
                (node.keys().to_le_bytes().get(at).copied(), node.slots.get(at).map_or(0, load))
            }
            Self::FortyEight(_) | Self::Full(_) => {
                (Some(at as u8), self.find(Some(at as u8)).map_or(0, load))
            }
        }
    }
}
