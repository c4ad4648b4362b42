//! Which pages are free: the maps of the groups, and the pages that wait until no directory needs them.
//!
//! A group is as many pages as a map has bits. Its first two pages are the two places of its map. A commit writes
//! the maps of the groups that it changed to the place that the current directory does not need, with its sequence.
//!
//! In DRAM there are two bits a page: *used*, as the newest directory or the dirty one leads to it, and *kept*, for
//! snapshots and the current directory. An allocation takes the next page with neither, behind the last
//! one: so pages that a batch writes are adjacent where they can be, and all pages wear alike.

use std::collections::{BTreeSet, VecDeque};

use halite_codec::Seed;
use halite_sim::planted;

use super::page::{HEAD, MAP, Pages, blank};

/// Bytes of a map before its bits.
const MAP_HEAD: usize = HEAD + 8;

/// The highest number of a page, and 1.
const PAGES_MAX: u32 = u32::MAX;

/// The copy of a map that counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) sequence: u64,
    /// 0 or 1.
    pub(super) place: u8,
}

#[derive(Debug)]
pub(super) struct Space {
    pages: Pages,
    /// Pages of a group.
    group_len: u32,
    used: Vec<u64>,
    kept: Vec<u64>,
    /// Pages up to the last one that was ever used.
    len: u32,
    /// Of those, the ones that can be allocated.
    free: u32,
    next: u32,
    groups: Vec<Group>,
    /// Groups whose maps are not those of the current directory.
    changed: BTreeSet<u32>,
    /// Groups with a map of a batch that did not commit, which the next one overwrites: it would count otherwise once
    /// the master record is newer.
    stale: BTreeSet<u32>,
    /// Pages that the batch no longer needs.
    freed: Vec<u32>,
    /// Pages that batches before it no longer needed, with the sequence of the directory that did not.
    waiting: VecDeque<(u64, Vec<u32>)>,
    /// The length when the batch began.
    len_before: u32,
}

impl Space {
    /// A space without any page beside those for master records and maps.
    pub(super) fn new(pages: Pages) -> Self {
        let mut space = Self {
            pages,
            group_len: (pages.len - MAP_HEAD) as u32 * 8,
            used: Vec::new(),
            kept: Vec::new(),
            len: 0,
            free: 0,
            next: 0,
            groups: Vec::new(),
            changed: BTreeSet::new(),
            stale: BTreeSet::new(),
            freed: Vec::new(),
            waiting: VecDeque::new(),
            len_before: 0,
        };
        space.grow_to(pages.first() + 2);
        space.len_before = space.len;
        space
    }

    /// The number of the first of the two pages of a group's map.
    fn map_page(&self, group: u32) -> u32 {
        if group == 0 { self.pages.first() } else { group * self.group_len }
    }

    /// Makes the space longer. New pages are free, but those of maps.
    fn grow_to(&mut self, len: u32) {
        while self.len < len {
            let (page, group) = (self.len, self.len / self.group_len);
            if group as usize == self.groups.len() {
                self.groups.push(Group::default());
                self.changed.insert(group);
            }
            let words = page as usize / 64 + 1;
            self.used.resize(words.max(self.used.len()), 0);
            self.kept.resize(words.max(self.kept.len()), 0);
            let map = self.map_page(group);
            match page < self.pages.first() || page == map || page == map + 1 {
                true => set(&mut self.used, page),
                false => self.free += 1,
            }
            self.len += 1;
        }
    }

    /// Allocates a page, or none if there can be none.
    pub(super) fn allocate(&mut self) -> Option<u32> {
        if self.free == 0 {
            // The first pages of a group are those of its map.
            let len = self.len;
            if len >= PAGES_MAX - 3 {
                return None;
            }
            let mut more = 1;
            while self.free == 0 {
                self.grow_to(len + more);
                more += 1;
            }
            self.next = self.len - 1;
        }
        let page = self.next_free();
        set(&mut self.used, page);
        self.free -= 1;
        self.next = page + 1;
        self.changed.insert(page / self.group_len);
        Some(page)
    }

    /// The next free page, of which there is one.
    fn next_free(&self) -> u32 {
        let words = self.used.len();
        let (mut word, mut mask) = (self.next as usize / 64, u64::MAX << (self.next % 64));
        for _ in 0..=words {
            if word >= words {
                (word, mask) = (0, u64::MAX);
            }
            let behind_end = match (self.len as usize).saturating_sub(word * 64) {
                bits @ 0..64 => u64::MAX << bits,
                _ => 0,
            };
            let free = !(self.used[word] | self.kept[word] | behind_end) & mask;
            if free != 0 {
                return word as u32 * 64 + free.trailing_zeros();
            }
            (word, mask) = (word + 1, u64::MAX);
        }
        unreachable!("{} pages are free", self.free)
    }

    /// Gives a page back that the batch allocated: no other directory leads to it.
    pub(super) fn release_new(&mut self, page: u32) {
        unset(&mut self.used, page);
        self.free += 1;
    }

    /// Takes note that the batch does not need a page of the current directory.
    pub(super) fn release_old(&mut self, page: u32) {
        planted!("table.page-reused-before-master", return self.release_new(page));
        // Of a damaged tree, whose pages are in two places or none, a page is left as it is.
        if self.is_used(page) && !self.is_own(page) {
            self.changed.insert(page / self.group_len);
            self.freed.push(page);
        }
    }

    /// How many pages the batch does not need.
    pub(super) fn freed(&self) -> usize {
        self.freed.len()
    }

    /// Forgets the batch, whose pages were these.
    pub(super) fn abort(&mut self, allocated: impl Iterator<Item = u32>) {
        allocated.for_each(|page| self.release_new(page));
        self.freed.clear();
        self.changed.clear();
        let behind = (self.len_before..self.len).filter(|&page| !is_set(&self.used, page));
        self.free -= behind.count() as u32;
        self.len = self.len_before;
        self.groups.truncate(self.len.div_ceil(self.group_len) as usize);
        // The pages of maps behind the end.
        let words = self.len as usize / 64 + 1;
        self.used.truncate(words);
        self.kept.truncate(words);
        if let Some(last) = self.used.get_mut(self.len as usize / 64) {
            *last &= !(u64::MAX << (self.len % 64));
        }
    }

    /// Pages up to the last one that was ever used.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The maps that a commit has to write: their pages, and what their groups are once it is durable.
    pub(super) fn maps(&mut self, sequence: u64) -> Maps {
        for &page in &self.freed {
            unset(&mut self.used, page);
        }
        let encode = |&group: &u32| {
            let place = 1 - self.groups[group as usize].place;
            let page = self.map_page(group) + u32::from(place);
            let mut bytes = blank(self.pages.len, MAP);
            bytes[HEAD..MAP_HEAD].copy_from_slice(&sequence.to_le_bytes());
            let bits = self.group_bits(group);
            for (to, number) in bytes[MAP_HEAD..].iter_mut().zip(0..) {
                *to = bits(number);
            }
            self.pages.seal(page, &mut bytes);
            (page, bytes, group, Group { sequence, place })
        };
        let all: Vec<_> = self.changed.union(&self.stale).map(encode).collect();
        for &page in &self.freed {
            set(&mut self.used, page);
        }
        let mut groups = self.groups.clone();
        all.iter().for_each(|(_, _, group, new)| groups[*group as usize] = *new);
        Maps {
            sum: sum(&groups),
            pages: all.into_iter().map(|(page, bytes, ..)| (page, bytes)).collect(),
            groups,
        }
    }

    /// The bytes of a group's bits, by their numbers.
    fn group_bits(&self, group: u32) -> impl Fn(u32) -> u8 {
        // A group has a multiple of eight pages.
        let first = group * (self.group_len / 8);
        move |number| {
            let byte = (first + number) as usize;
            self.used.get(byte / 8).map_or(0, |word| word.to_le_bytes()[byte % 8])
        }
    }

    /// Takes note that maps may be written, and their batch does not commit.
    pub(super) fn fail(&mut self) {
        let groups = self.len_before.div_ceil(self.group_len);
        self.stale.extend(self.changed.iter().filter(|&&group| group < groups));
    }

    /// Takes note that a commit is durable, with these maps.
    pub(super) fn commit(&mut self, sequence: u64, maps: Maps) {
        self.groups = maps.groups;
        self.changed.clear();
        self.stale.clear();
        self.len_before = self.len;
        self.freed.sort_unstable();
        self.freed.dedup();
        for &page in &self.freed {
            unset(&mut self.used, page);
            set(&mut self.kept, page);
        }
        if !self.freed.is_empty() {
            self.waiting.push_back((sequence, std::mem::take(&mut self.freed)));
        }
    }

    /// Frees the pages that no snapshot needs, of which the oldest is of directory `oldest`.
    pub(super) fn free_up_to(&mut self, oldest: u64) {
        while let Some((sequence, pages)) = self.waiting.front()
            && *sequence <= oldest
        {
            for &page in pages {
                unset(&mut self.kept, page);
            }
            self.free += pages.len() as u32;
            self.waiting.pop_front();
        }
    }

    /// The places of all maps of a file with so many pages.
    pub(super) fn map_places(&self, len: u32) -> impl Iterator<Item = [u32; 2]> {
        (0..len.div_ceil(self.group_len))
            .map(|group| [self.map_page(group), self.map_page(group) + 1])
    }

    /// Takes over what was read from a file of so many pages: of each group the copy that counts, the bits, and whether
    /// the other copy is of a batch that did not commit. Returns the number by which the master record knows the maps.
    pub(super) fn load(&mut self, len: u32, groups: Vec<FoundMap>) -> Result<u64, &'static str> {
        self.grow_to(len);
        self.changed.clear();
        self.len_before = len;
        for (group, FoundMap { counts, bits, is_stale }) in (0..).zip(groups) {
            self.groups[group as usize] = counts;
            if is_stale {
                self.stale.insert(group);
            }
            let first = group * self.group_len;
            let end = len.min(first + self.group_len);
            for page in first..end {
                let number = page - first;
                let is_used = bits[number as usize / 8] >> (number % 8) & 1 != 0;
                match (is_used, is_set(&self.used, page)) {
                    (true, false) => {
                        set(&mut self.used, page);
                        self.free -= 1;
                    }
                    (false, true) => return Err("the map has its own pages as free"),
                    _ => {}
                }
            }
        }
        Ok(sum(&self.groups))
    }

    /// The sequence and the bits of a map.
    pub(super) fn decode(content: &[u8]) -> Option<(u64, &[u8])> {
        let (sequence, bits) = content.split_first_chunk()?;
        Some((u64::from_le_bytes(*sequence), bits))
    }

    /// Whether the newest directory, or the dirty one, leads to a page, as far as the maps say.
    pub(super) fn is_used(&self, page: u32) -> bool {
        page < self.len && is_set(&self.used, page)
    }

    /// Whether a page is of a master record or a map.
    pub(super) fn is_own(&self, page: u32) -> bool {
        let map = self.map_page(page / self.group_len);
        page < self.pages.first() || page == map || page == map + 1
    }

    /// Pages that can be allocated before the file grows, and pages that wait.
    pub(super) fn free(&self) -> (u32, u32) {
        (self.free, self.waiting.iter().map(|(_, pages)| pages.len() as u32).sum())
    }
}

/// The map of a group, as it was read.
pub(super) struct FoundMap {
    pub(super) counts: Group,
    pub(super) bits: Vec<u8>,
    pub(super) is_stale: bool,
}

/// The pages of maps that a commit writes.
pub(super) struct Maps {
    pub(super) pages: Vec<(u32, Box<[u8]>)>,
    pub(super) sum: u64,
    groups: Vec<Group>,
}

/// The number by which a master record knows the maps.
fn sum(groups: &[Group]) -> u64 {
    let of = |(number, group): (u64, &Group)| {
        Seed::NONE.at(number + 1).checksum(&group.sequence.to_le_bytes())
    };
    (0..).zip(groups).map(of).fold(0, u64::wrapping_add)
}

fn set(bits: &mut [u64], page: u32) {
    bits[page as usize / 64] |= 1 << (page % 64);
}

fn unset(bits: &mut [u64], page: u32) {
    bits[page as usize / 64] &= !(1 << (page % 64));
}

fn is_set(bits: &[u64], page: u32) -> bool {
    bits[page as usize / 64] >> (page % 64) & 1 != 0
}
