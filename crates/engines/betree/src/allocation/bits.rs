//! A set of the blocks of one segment: one bit a block.

use std::ops::Range;

/// Blocks of a segment: 1 GiB.
pub(crate) const SEGMENT: u32 = 1 << 18;

/// Bits of a word.
const WORD: u32 = u64::BITS;

/// Words of a set that has any.
pub(crate) const WORDS: usize = (SEGMENT / WORD) as usize;

/// A set of blocks of a segment.
#[derive(Clone, Default)]
pub(crate) struct Bits {
    /// [`WORDS`] words, the lowest block in the lowest bit; or none, if no bit was ever set.
    words: Vec<u64>,
}

impl Bits {
    /// The set that these words are; [`WORDS`] of them.
    pub(crate) fn of_words(words: Vec<u64>) -> Self {
        assert_eq!(words.len(), WORDS, "a segment has all its words");
        Self { words }
    }

    /// The blocks of a word: 64 of them, from `64 * at` on.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    /// Adds blocks.
    pub(crate) fn set(&mut self, blocks: Range<u32>) {
        if self.words.is_empty() {
            self.words = vec![0; WORDS];
        }
        masks(blocks).for_each(|(at, mask)| self.words[at] |= mask);
    }

    /// Removes blocks.
    pub(crate) fn clear(&mut self, blocks: Range<u32>) {
        if !self.words.is_empty() {
            masks(blocks).for_each(|(at, mask)| self.words[at] &= !mask);
        }
    }

    /// Adds the blocks of another set.
    pub(crate) fn unite(&mut self, other: &Self) {
        other.runs().for_each(|run| self.set(run));
    }

    /// Removes the blocks of another set.
    pub(crate) fn subtract(&mut self, other: &Self) {
        other.runs().for_each(|run| self.clear(run));
    }

    /// Whether it has all of these blocks.
    pub(crate) fn has_all(&self, blocks: Range<u32>) -> bool {
        masks(blocks).all(|(at, mask)| self.word(at) & mask == mask)
    }

    /// Whether it has any of these blocks.
    pub(crate) fn has_any(&self, blocks: Range<u32>) -> bool {
        masks(blocks).any(|(at, mask)| self.word(at) & mask != 0)
    }

    /// How many blocks it has.
    pub(crate) fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Its blocks in ascending runs, each as long as it can be.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u32>> {
        let end = if self.words.is_empty() { 0 } else { SEGMENT };
        runs(|at| self.word(at), 0..end)
    }
}

/// The runs of set bits of words, within a range.
pub(crate) fn runs(
    word: impl Fn(usize) -> u64,
    within: Range<u32>,
) -> impl Iterator<Item = Range<u32>> {
    let mut from = within.start;
    std::iter::from_fn(move || {
        let start = next(&word, from..within.end)?;
        from = next(|at| !word(at), start..within.end).unwrap_or(within.end);
        Some(start..from)
    })
}

/// The first set bit of words, within a range.
fn next(word: impl Fn(usize) -> u64, within: Range<u32>) -> Option<u32> {
    masks(within).find_map(|(at, mask)| {
        let bits = word(at) & mask;
        (bits != 0).then(|| at as u32 * WORD + bits.trailing_zeros())
    })
}

/// The words that a range of bits touches, and their bits in it.
fn masks(range: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let Range { start, end } = range;
    assert!(start <= end && end <= SEGMENT, "the blocks are in a segment");
    (start / WORD..end.div_ceil(WORD)).map(move |at| {
        let (low, high) = (start.saturating_sub(at * WORD), (end - at * WORD).min(WORD));
        (at as usize, (u64::MAX >> (WORD - high)) & (u64::MAX << low))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The blocks of a set, one by one.
    pub(crate) fn blocks(bits: &Bits) -> BTreeSet<u32> {
        bits.runs().flatten().collect()
    }

    /// Ranges in a segment, often at the borders of words and of the segment.
    pub(crate) fn range() -> impl Strategy<Value = Range<u32>> {
        let start = prop_oneof![0..300_u32, SEGMENT - 300..=SEGMENT, 0..=SEGMENT];
        (start, prop_oneof![0..5_u32, 60..70_u32, 0..1000_u32])
            .prop_map(|(start, len)| start..(start + len).min(SEGMENT))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), range()), 1..30), probe in range()) {
            let (mut bits, mut model) = (Bits::default(), BTreeSet::new());
            let mut other = Bits::default();
            for (sets, range) in steps {
                if sets {
                    bits.set(range.clone());
                    model.extend(range.clone());
                } else {
                    bits.clear(range.clone());
                    range.clone().for_each(|block| {
                        model.remove(&block);
                    });
                    other.set(range);
                }
            }
            prop_assert_eq!(&blocks(&bits), &model);
            prop_assert_eq!(bits.count() as usize, model.len());
            prop_assert_eq!(bits.has_all(probe.clone()), probe.clone().all(|block| model.contains(&block)));
            prop_assert_eq!(bits.has_any(probe.clone()), probe.clone().any(|block| model.contains(&block)));
            let runs: Vec<_> = bits.runs().collect();
            prop_assert!(runs.is_sorted_by(|a, b| a.end < b.start), "runs have gaps between them");

            let (mut union, mut rest) = (bits.clone(), bits.clone());
            union.unite(&other);
            rest.subtract(&other);
            prop_assert_eq!(blocks(&union), &model | &blocks(&other));
            prop_assert_eq!(blocks(&rest), &model - &blocks(&other));
        }
    }
}
