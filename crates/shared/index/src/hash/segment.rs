//! A segment of the hash index: the entries whose hashes begin with the same bits.
//!
//! ```text
//! hash   | depth bits: the segment's prefix | the line, as a fraction |                  |
//!             | base bits | tag: 16 bits of the hash            |
//! line   | 6 entries of 8 B | 6 tags of 2 B | spilled | used | 64 B
//! ```
//!
//! A tag's bits behind the prefix, read as a fraction, give an entry's home line, in a segment of any
//! number of lines. So a segment grows by a few lines at a time, and splits, without reading a key. An
//! entry whose line is full goes into the next line with room, and the lines on the way count that it
//! spilled past them: a search goes on while the count is not zero.

use std::sync::Arc;

/// Entries in a line.
const SLOTS: usize = 6;

/// Lines that a segment has at least.
const LINES_MIN: usize = 2;

/// A cache line of entries.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Line {
    entries: [u64; SLOTS],
    tags: [u16; SLOTS],
    /// Counts the entries whose home is this line or one before it, and which lie behind it. Once
    /// saturated, it is never lowered.
    spilled: u16,
    /// A bit for each slot.
    used: u8,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// The used slots whose tag is `tag`, a bit each.
    #[inline]
    fn with_tag(&self, tag: u16) -> u8 {
        let same = (0..SLOTS).map(|slot| u8::from(self.tags[slot] == tag) << slot);
        same.fold(0, |same, bit| same | bit) & self.used
    }
}

#[derive(Clone)]
pub(super) struct Segment {
    lines: Arc<[Line]>,
    /// The bits that the hashes begin with, and zeros.
    prefix: u64,
    len: u32,
    /// How many bits that are.
    depth: u8,
    /// Where in a hash the tags begin; not behind the prefix.
    base: u8,
}

/// The place of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    line: usize,
    slot: usize,
}

impl Segment {
    /// A segment of entries and their hashes, of which the bits of the tag must be right.
    pub(super) fn new(prefix: u64, depth: u8, base: u8, entries: &[(u64, u64)]) -> Self {
        // Five sixths full.
        let lines = entries.len().div_ceil(SLOTS - 1).max(LINES_MIN);
        Self::with_lines(lines, prefix, depth, base, entries)
    }

    fn with_lines(lines: usize, prefix: u64, depth: u8, base: u8, entries: &[(u64, u64)]) -> Self {
        let lines = std::iter::repeat_n(Line::default(), lines).collect();
        let mut segment = Self { lines, prefix, len: 0, depth, base };
        entries.iter().for_each(|&(hash, entry)| segment.put(hash, entry));
        segment
    }

    pub(super) fn prefix(&self) -> u64 {
        self.prefix
    }

    pub(super) fn depth(&self) -> u8 {
        self.depth
    }

    pub(super) fn base(&self) -> u8 {
        self.base
    }

    #[inline]
    fn tag_of(&self, hash: u64) -> u16 {
        (hash << self.base >> 48) as u16
    }

    /// The bits of a tag behind the prefix, as a fraction of 16 bits.
    #[inline]
    fn fraction(&self, tag: u16) -> u16 {
        (u32::from(tag) << (self.depth - self.base)) as u16
    }

    /// The line that an entry is at home in.
    #[inline]
    fn home(&self, tag: u16) -> usize {
        (usize::from(self.fraction(tag)) * self.lines.len()) >> 16
    }

    fn next(&self, line: usize) -> usize {
        if line + 1 == self.lines.len() { 0 } else { line + 1 }
    }

    /// Asks for the line that a search reads first.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let line = &self.lines[self.home(self.tag_of(hash))];
        crate::prefetch::lines(std::ptr::from_ref(line).cast(), size_of::<Line>());
    }

    /// The lines in which an entry may lie that is at home in `home`.
    #[inline]
    fn probe(&self, home: usize) -> impl Iterator<Item = usize> {
        let mut next = Some(home);
        (0..self.lines.len()).map_while(move |_| {
            let line = next?;
            next = (self.lines[line].spilled > 0).then(|| self.next(line));
            Some(line)
        })
    }

    /// The entries that may have this hash.
    #[inline]
    pub(super) fn candidates(&self, hash: u64) -> impl Iterator<Item = (Place, u64)> {
        let tag = self.tag_of(hash);
        self.probe(self.home(tag)).flat_map(move |line| {
            let mut same = self.lines[line].with_tag(tag);
            std::iter::from_fn(move || {
                let slot = same.trailing_zeros() as usize;
                same &= same.wrapping_sub(1);
                (slot < SLOTS).then(|| (Place { line, slot }, self.lines[line].entries[slot]))
            })
        })
    }

    /// Adds an entry, and lines if those that are there are nine tenths full.
    pub(super) fn insert(&mut self, hash: u64, entry: u64) {
        let lines = self.lines.len();
        if (self.len as usize + 1) * 10 > lines * SLOTS * 9 {
            *self = Self::with_lines(
                lines + (lines / 8).max(1),
                self.prefix,
                self.depth,
                self.base,
                &self.entries(),
            );
        }
        self.put(hash, entry);
    }

    fn put(&mut self, hash: u64, entry: u64) {
        let tag = self.tag_of(hash);
        let mut line = self.home(tag);
        loop {
            let next = self.next(line);
            let this = &mut self.lines_mut()[line];
            let slot = this.used.trailing_ones() as usize;
            if slot < SLOTS {
                this.entries[slot] = entry;
                this.tags[slot] = tag;
                this.used |= 1 << slot;
                break;
            }
            this.spilled = this.spilled.saturating_add(1);
            line = next;
        }
        self.len += 1;
    }

    pub(super) fn set(&mut self, place: Place, entry: u64) {
        self.lines_mut()[place.line].entries[place.slot] = entry;
    }

    /// Removes an entry, and lines if few are left.
    pub(super) fn remove(&mut self, place: Place) -> u64 {
        let Line { entries, tags, .. } = &self.lines[place.line];
        let (old, mut line) = (entries[place.slot], self.home(tags[place.slot]));
        while line != place.line {
            let next = self.next(line);
            let spilled = &mut self.lines_mut()[line].spilled;
            if *spilled != u16::MAX {
                *spilled -= 1;
            }
            line = next;
        }
        self.lines_mut()[line].used &= !(1 << place.slot);
        self.len -= 1;
        if (self.len as usize) < self.lines.len() * SLOTS / 2 && self.lines.len() > LINES_MIN {
            *self = Self::new(self.prefix, self.depth, self.base, &self.entries());
        }
        old
    }

    fn lines_mut(&mut self) -> &mut [Line] {
        Arc::make_mut(&mut self.lines)
    }

    /// The entries, each with the known bits of its hash: the prefix and the tag; zeros behind.
    pub(super) fn entries(&self) -> Vec<(u64, u64)> {
        let used = self.lines.iter().flat_map(|line| (0..SLOTS).map(move |slot| (line, slot)));
        used.filter(|(line, slot)| line.used >> slot & 1 != 0)
            .map(|(line, slot)| (self.known_hash(line.tags[slot]), line.entries[slot]))
            .collect()
    }

    fn known_hash(&self, tag: u16) -> u64 {
        self.prefix | u64::from(tag) << 48 >> self.base
    }

    /// Whether the bit of the hashes behind the prefix is known.
    pub(super) fn can_split(&self) -> bool {
        self.depth < self.base + 16
    }

    /// Visits the entries that are at home in the line that `hash` is, and perhaps others near it.
    /// Returns where in the hashes the next line begins; `None` behind the segment.
    pub(super) fn visit_line(&self, hash: u64, visit: &mut impl FnMut(u64)) -> Option<u64> {
        let tag = self.tag_of(hash);
        let home = self.home(tag);
        for line in self.probe(home) {
            let line = &self.lines[line];
            for slot in (0..SLOTS).filter(|slot| line.used >> slot & 1 != 0) {
                if self.home(line.tags[slot]) == home {
                    visit(line.entries[slot]);
                }
            }
        }
        // Rounded up to the resolution of the tags.
        let next = ((home + 1) << 16).div_ceil(self.lines.len());
        let next = next.next_multiple_of(1 << (self.depth - self.base)) as u64;
        (next < 1 << 16).then(|| self.prefix | next << 48 >> self.depth)
    }

    /// An entry at or behind a line chosen by `random`, if there is one.
    pub(super) fn sample(&self, random: u64) -> Option<u64> {
        let (start, random) = (random % self.lines.len() as u64, random / self.lines.len() as u64);
        let (before, behind) = self.lines.split_at(start as usize);
        let line = behind.iter().chain(before).find(|line| line.used != 0)?;
        let mut used = (0..SLOTS).filter(|slot| line.used >> slot & 1 != 0);
        let chosen = random % u64::from(line.used.count_ones());
        used.nth(chosen as usize).map(|slot| line.entries[slot])
    }

    /// Bytes on the heap, with the counts of `Arc`.
    pub(super) fn heap_len(&self) -> usize {
        size_of::<Line>() + size_of_val(&*self.lines)
    }
}
