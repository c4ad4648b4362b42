//! The versions of one key, if there are several: a sorted array (Yan §3.1).
//!
//! ```text
//! | room, len | oldest | ... | newest | free | ... |     8 bytes each, in the arena's slots
//! ```
//!
//! It is changed in place, under the lock of the node that leads to it, and readers validate that lock
//! behind their reads. Versions mostly come in order, so adding one is an append. A full array is replaced
//! by one of the next class.

use std::ptr::NonNull;

use super::arena::Arena;
use crate::sync::{AtomicU64, Ordering};

/// The beginning of an array. Behind it lie `room` words.
pub(super) struct Versions {
    room: u32,
    len: AtomicU64,
}

impl Versions {
    const fn len_of(room: usize) -> usize {
        size_of::<Self>() + room * size_of::<AtomicU64>()
    }

    /// An array with room for at least one more than these entries, ascending.
    pub(super) fn with(
        arena: &Arena,
        entries: impl ExactSizeIterator<Item = u64>,
    ) -> NonNull<Self> {
        let slot_len = Arena::slot_len(Self::len_of(entries.len() + 1));
        let room = (slot_len - size_of::<Self>()) / size_of::<AtomicU64>();
        let place = arena.take(Self::len_of(room)).cast::<Self>();
        let len = AtomicU64::new(entries.len() as u64);
        let words = entries.chain(std::iter::repeat(0)).take(room);
        // SAFETY: the slot has room for the beginning and as many words, and has no other user.
        unsafe {
            place.write(Self { room: room as u32, len });
            let start = place.add(1).cast::<AtomicU64>();
            words.enumerate().for_each(|(at, word)| start.add(at).write(AtomicU64::new(word)));
        }
        place
    }
}

/// A view of an array.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    versions: &'a Versions,
    words: &'a [AtomicU64],
    place: NonNull<Versions>,
}

impl<'a> View<'a> {
    /// # Safety
    /// The array came from [`Versions::with`], and is not given back while `'a` lasts.
    pub(super) unsafe fn new(place: NonNull<Versions>) -> Self {
        // SAFETY: the array is alive, and was initialised with as many words as it has room.
        unsafe {
            let versions: &Versions = place.as_ref();
            let words = place.add(1).cast::<AtomicU64>();
            let words = std::slice::from_raw_parts(words.as_ptr(), versions.room as usize);
            Self { versions, words, place }
        }
    }

    pub(super) fn place(self) -> NonNull<u8> {
        self.place.cast()
    }

    /// Bytes that were asked of the arena.
    pub(super) fn slot_len(self) -> usize {
        Versions::len_of(self.words.len())
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        // A thread that sees the length sees the entries up to it.
        (self.versions.len.load(Ordering::Acquire) as usize).min(self.words.len())
    }

    pub(super) fn has_room(self) -> bool {
        self.len() < self.words.len()
    }

    #[inline]
    pub(super) fn entry(self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    /// The newest entry. An array is never empty.
    #[inline]
    pub(super) fn newest(self) -> u64 {
        self.entry(self.len().saturating_sub(1))
    }

    /// Ascending.
    pub(super) fn entries(self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
        self.words[..self.len()].iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// How many versions are at most `at`. Compares the newest first, then searches by halves.
    pub(super) fn count_up_to(self, at: u64, version: impl Fn(u64) -> u64) -> usize {
        let len = self.len();
        if len == 0 || version(self.entry(len - 1)) <= at {
            return len;
        }
        let (mut low, mut high) = (0, len - 1);
        while low < high {
            let middle = low.midpoint(high);
            if version(self.entry(middle)) <= at { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Inserts an entry. The caller holds the lock. There must be room.
    pub(super) fn insert(self, at: usize, entry: u64) {
        let len = self.len();
        for to in (at + 1..=len).rev() {
            self.words[to].store(self.entry(to - 1), Ordering::Relaxed);
        }
        self.words[at].store(entry, Ordering::Relaxed);
        self.versions.len.store(len as u64 + 1, Ordering::Release);
    }

    /// Drops the entries for which `needed`, given their version and that of the next newer one, returns
    /// false. The caller holds the lock. Returns how many.
    pub(super) fn retain_needed(
        self,
        version: impl Fn(u64) -> u64,
        needed: impl Fn(u64, u64) -> bool,
    ) -> usize {
        let len = self.len();
        let (mut kept, mut older) = (0, version(self.entry(0)));
        for at in 0..len {
            let entry = self.entry(at);
            let newer = (at + 1 < len).then(|| version(self.entry(at + 1)));
            if newer.is_none_or(|newer| needed(older, newer)) {
                self.words[kept].store(entry, Ordering::Relaxed);
                kept += 1;
            }
            older = newer.unwrap_or_default();
        }
        self.versions.len.store(kept as u64, Ordering::Release);
        len - kept
    }
}
