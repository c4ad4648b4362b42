//! Which lines of a page were changed.

use std::ops::Range;

use halite_pmem::LINE;

use super::PageSize;

const WORDS: usize = (PageSize::MAX_BYTES / LINE / 64) as usize;

/// A set of lines of a page: a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirtyLines {
    words: [u64; WORDS],
}

impl DirtyLines {
    /// All lines of a page.
    #[must_use]
    pub fn all(page_size: PageSize) -> Self {
        let mut lines = Self::default();
        lines.words[..page_size.lines() as usize / 64].fill(u64::MAX);
        lines
    }

    /// The lines whose bits are set in words, the first line being the least bit of the first word;
    /// `None` if there are more words than the largest page has.
    pub(super) fn of_words(words: impl Iterator<Item = u64>) -> Option<Self> {
        let mut lines = Self::default();
        for (number, word) in words.enumerate() {
            *lines.words.get_mut(number)? = word;
        }
        Some(lines)
    }

    /// The words of a page's lines.
    pub(super) fn words(&self, page_size: PageSize) -> &[u64] {
        &self.words[..page_size.lines() as usize / 64]
    }

    /// Adds a line.
    ///
    /// # Panics
    /// If the largest page does not have it.
    #[inline]
    pub fn insert(&mut self, line: u32) {
        self.words[line as usize / 64] |= 1 << (line % 64);
    }

    /// Adds the lines of another set that a page has.
    pub(super) fn insert_all(&mut self, lines: &Self, page_size: PageSize) {
        for (word, more) in self.words.iter_mut().zip(lines.words(page_size)) {
            *word |= more;
        }
    }

    /// Whether a line is among them.
    #[must_use]
    pub fn contains(&self, line: u32) -> bool {
        self.words.get(line as usize / 64).is_some_and(|word| word >> (line % 64) & 1 == 1)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The lines, upwards, neighbours together.
    pub fn runs(&self) -> impl Iterator<Item = Range<u32>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.find(at, |word| word)?;
            at = self.find(start, |word| !word).unwrap_or(WORDS as u32 * 64);
            Some(start..at)
        })
    }

    /// The first line in each of the words that has one: a word's lines are 4 KiB, a page of memory.
    #[inline]
    pub(super) fn first_of_each_word(&self) -> impl Iterator<Item = u32> {
        let words = (0..).zip(&self.words).filter(|(_, word)| **word != 0);
        words.map(|(number, word): (u32, _)| number * 64 + word.trailing_zeros())
    }

    /// The first line from `from` on whose bit is set in the words as `seen`.
    #[inline]
    fn find(&self, from: u32, seen: impl Fn(u64) -> u64) -> Option<u32> {
        let mut number = from as usize / 64;
        let mut word = seen(*self.words.get(number)?) & u64::MAX << (from % 64);
        while word == 0 {
            number += 1;
            word = seen(*self.words.get(number)?);
        }
        Some(number as u32 * 64 + word.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_the_lines_that_were_inserted(
            lines in proptest::collection::btree_set(0..1024_u32, 0..300)
        ) {
            let mut dirty = DirtyLines::default();
            lines.iter().for_each(|&line| dirty.insert(line));
            prop_assert_eq!(dirty.count() as usize, lines.len());
            prop_assert_eq!(dirty.is_empty(), lines.is_empty());
            let runs: Vec<_> = dirty.runs().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
            let told: Vec<_> = runs.into_iter().flatten().collect();
            let mut firsts: Vec<_> = lines.iter().copied().collect();
            firsts.dedup_by_key(|line| *line / 64);
            prop_assert_eq!(dirty.first_of_each_word().collect::<Vec<_>>(), firsts);
            prop_assert_eq!(told, lines.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn all_lines_are_one_run() {
        for bytes in [4096, 65_536] {
            let size = PageSize::new(bytes).unwrap();
            let all = DirtyLines::all(size);
            assert_eq!(all.runs().collect::<Vec<_>>(), vec![0..size.lines()]);
        }
    }
}
