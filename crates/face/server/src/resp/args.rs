//! The words of a request, in place.

use std::ops::{Index, Range};

/// The words of a request: ranges of the bytes that they arrived in.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    /// The words that lie at `ranges` of `bytes`.
    ///
    /// # Panics
    /// Later, when a word is looked at whose range reaches beyond `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], ranges: &'a [Range<usize>]) -> Self {
        Self { bytes, ranges }
    }

    /// The number of words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is no word: an empty request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The word at `index`, or `None`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|range| &self.bytes[range.clone()])
    }

    /// The words from `index` on, none if there are not that many.
    #[must_use]
    pub fn from(&self, index: usize) -> Self {
        Self { bytes: self.bytes, ranges: self.ranges.get(index..).unwrap_or_default() }
    }

    /// The first `count` words, or all if there are not that many.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        Self { bytes: self.bytes, ranges: &self.ranges[..count.min(self.ranges.len())] }
    }

    /// The words in order.
    #[must_use]
    pub fn iter(&self) -> ArgsIter<'a> {
        ArgsIter { bytes: self.bytes, ranges: self.ranges.iter() }
    }

    /// Returns where the words lie in the bytes that they arrived in.
    pub(crate) fn ranges(&self) -> &'a [Range<usize>] {
        self.ranges
    }

    /// Bytes of all words together.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        &self.bytes[self.ranges[index].clone()]
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgsIter<'a>;

    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

/// The words of a request, one after the other.
#[derive(Debug, Clone)]
pub struct ArgsIter<'a> {
    bytes: &'a [u8],
    ranges: std::slice::Iter<'a, Range<usize>>,
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.ranges.next().map(|range| &self.bytes[range.clone()])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranges.size_hint()
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}
