//! Pages in DRAM: as many as the options allow, by the clock algorithm.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Things by the numbers of pages.
pub(super) type ByPage<T> = HashMap<u32, T, BuildHasherDefault<PageHasher>>;

/// A hash of a page's number: the number is multiplied, as it comes from no adversary.
#[derive(Debug, Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

struct Kept {
    page: Arc<[u8]>,
    was_read: bool,
}

/// Pages that were checked.
pub(super) struct Cache {
    pages: ByPage<Kept>,
    /// The numbers of pages that may be kept, in a circle.
    clock: Vec<u32>,
    hand: usize,
    pages_max: usize,
}

impl Cache {
    /// A cache of so many pages.
    pub(super) fn new(pages_max: usize) -> Self {
        Self { pages: ByPage::default(), clock: Vec::new(), hand: 0, pages_max }
    }

    pub(super) fn get(&mut self, page: u32) -> Option<Arc<[u8]>> {
        let kept = self.pages.get_mut(&page)?;
        kept.was_read = true;
        Some(Arc::clone(&kept.page))
    }

    /// Keeps a page, in the place of one that was not read for a while.
    pub(super) fn insert(&mut self, number: u32, page: Arc<[u8]>) {
        if self.pages.insert(number, Kept { page, was_read: false }).is_some() {
            return;
        }
        if self.clock.len() < self.pages_max {
            self.clock.push(number);
            return;
        }
        loop {
            let place = self.hand;
            self.hand = (place + 1) % self.clock.len();
            match self.pages.get_mut(&self.clock[place]) {
                Some(kept) if kept.was_read => kept.was_read = false,
                _ => {
                    self.pages.remove(&self.clock[place]);
                    self.clock[place] = number;
                    return;
                }
            }
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.pages.remove(&number);
    }

    /// How many pages there are.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_keeps_no_more_pages_than_it_may_and_those_that_are_read() {
        let mut cache = Cache::new(16);
        for number in 0..1000_u32 {
            cache.insert(number, Arc::new([number as u8]));
            assert!(cache.len() <= 16);
            assert!(cache.get(0).is_some(), "page 0 is read all the time");
            if number % 7 == 0 {
                cache.remove(number.max(1));
            }
        }
        cache.insert(0, Arc::new([77]));
        assert_eq!(cache.get(0).as_deref(), Some(&[77][..]));
        assert!(cache.get(500).is_none());
    }
}
