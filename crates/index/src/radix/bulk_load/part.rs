//! Items that are divided by ranges, as they come.

use super::item::Item;
use crate::large_pages::{self, LARGE_PAGE};

/// Items of a range that lie together.
const CHUNK_LEN: usize = 32;

/// Items that are allocated together, in large pages: 12 MiB.
const SLAB_LEN: usize = 1 << 19;

/// Words of an item.
const WORDS: usize = 3;

/// What one thread has divided.
pub(super) struct Part {
    slabs: Vec<Slab>,
    /// Chunks that were taken. Their items are numbered through all slabs.
    taken: usize,
    /// Of each range, the number of its next item; where its chunk is full, the first behind that.
    next: Vec<usize>,
    /// Of each range, the first items' numbers in its chunks.
    chunks: Vec<Vec<usize>>,
}

/// Items' words, from a place on at which a large page begins.
struct Slab {
    words: Vec<u64>,
    start: usize,
}

impl Slab {
    /// The first page of the first slab is no large one: of few items it would be mostly empty.
    fn new(is_first: bool) -> Self {
        const PAGE: usize = LARGE_PAGE / size_of::<u64>();
        let len = SLAB_LEN * WORDS;
        // What is not touched takes no memory.
        let mut words = vec![0; len + PAGE];
        let start = words.as_ptr().align_offset(LARGE_PAGE).min(PAGE);
        let large = &mut words[start + usize::from(is_first) * PAGE..start + len];
        large_pages::advise(large.as_mut_ptr().cast(), size_of_val(large));
        Self { words, start }
    }
}

impl Part {
    pub(super) fn new(ranges: usize) -> Self {
        let (slabs, chunks) = (Vec::new(), vec![Vec::new(); ranges]);
        Self { slabs, taken: 0, next: vec![0; ranges], chunks }
    }

    /// Adds an item to a range.
    #[inline]
    pub(super) fn push(&mut self, range: usize, item: Item) {
        if self.next[range].is_multiple_of(CHUNK_LEN) {
            self.take_chunk(range);
        }
        let number = self.next[range];
        let slab = &mut self.slabs[number / SLAB_LEN];
        let at = slab.start + number % SLAB_LEN * WORDS;
        slab.words[at..at + WORDS].copy_from_slice(&item.words());
        self.next[range] += 1;
    }

    #[cold]
    fn take_chunk(&mut self, range: usize) {
        let first = self.taken * CHUNK_LEN;
        if first == self.slabs.len() * SLAB_LEN {
            self.slabs.push(Slab::new(first == 0));
        }
        self.chunks[range].push(first);
        self.next[range] = first;
        self.taken += 1;
    }

    /// How many items a range has.
    pub(super) fn len(&self, range: usize) -> usize {
        let chunks = &self.chunks[range];
        let free = chunks.last().map_or(0, |last| last + CHUNK_LEN - self.next[range]);
        chunks.len() * CHUNK_LEN - free
    }

    /// Shows a range's items, in the order in which they came.
    #[inline]
    pub(super) fn each(&self, range: usize, show: &mut impl FnMut(Item)) {
        let mut left = self.len(range);
        for &first in &self.chunks[range] {
            let slab = &self.slabs[first / SLAB_LEN];
            let (at, len) = (slab.start + first % SLAB_LEN * WORDS, left.min(CHUNK_LEN));
            let (items, _) = slab.words[at..at + len * WORDS].as_chunks();
            items.iter().for_each(|words| show(Item::from_words(*words)));
            left -= len;
        }
    }
}
