//! Ranges of keys.

use std::ops::{Bound, RangeBounds};

use crate::{Bytes, Result};

/// The order in which a scan visits its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key to the largest.
    Forward,
    /// From the largest key to the smallest.
    Reverse,
}

impl Direction {
    /// Whether one of two scans' next pairs comes before the other's. An error comes before all pairs.
    #[inline]
    #[must_use]
    pub fn is_before(self, a: &Result<(Bytes, Bytes)>, b: &Result<(Bytes, Bytes)>) -> bool {
        match (a, b, self) {
            (Ok((a, _)), Ok((b, _)), Self::Forward) => a[..] < b[..],
            (Ok((a, _)), Ok((b, _)), Self::Reverse) => a[..] > b[..],
            (Err(_), Ok(_), _) => true,
            (_, Err(_), _) => false,
        }
    }
}

/// A half-open range of keys: from `start` up to, not including, `end`.
///
/// Every interval of byte strings has this form, because the smallest string above `k` is `k\0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    #[must_use]
    pub fn all() -> Self {
        Self { start: Vec::new(), end: None }
    }

    /// The keys from `start` up to, not including, `end`; without an `end`, all from `start` on.
    #[must_use]
    pub fn new(start: impl Into<Vec<u8>>, end: Option<Vec<u8>>) -> Self {
        Self { start: start.into(), end }
    }

    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        // The end is the prefix with its last byte that is not 0xff incremented.
        let end = prefix.iter().rposition(|&byte| byte != 0xff).map(|last| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        });
        Self { start: prefix.to_vec(), end }
    }

    /// The keys within any standard range, such as `b"a".as_slice()..`.
    #[must_use]
    pub fn from_bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Self {
        let above = |key: &K| [key.as_ref(), &[0]].concat();
        let start = match range.start_bound() {
            Bound::Included(key) => key.as_ref().to_vec(),
            Bound::Excluded(key) => above(key),
            Bound::Unbounded => Vec::new(),
        };
        let end = match range.end_bound() {
            Bound::Included(key) => Some(above(key)),
            Bound::Excluded(key) => Some(key.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        Self { start, end }
    }

    /// The first key of the range.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// The first key behind the range, if it has an end.
    #[must_use]
    pub fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    /// Whether `key` is in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= &self.start[..] && self.end().is_none_or(|end| key < end)
    }

    /// Whether no key can be in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end().is_some_and(|end| end <= &self.start[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_exactly_what_begins_with_it() {
        for (prefix, inside, outside) in [
            (&b"ab"[..], &b"ab\xff\xff"[..], &b"ac"[..]),
            (b"a\xff", b"a\xff\xff", b"b"),
            (b"\xff\xff", b"\xff\xff\x00", b"\xff\xfe"),
            (b"", b"", b""),
        ] {
            let range = KeyRange::prefix(prefix);
            assert!(range.contains(prefix) && range.contains(inside));
            assert!(prefix.is_empty() || !range.contains(outside));
        }
    }

    #[test]
    fn bounds_become_half_open() {
        let range = KeyRange::from_bounds::<&str>(&(Bound::Excluded("a"), Bound::Included("c")));
        assert!(!range.contains(b"a") && range.contains(b"a\0") && range.contains(b"c"));
        assert!(!range.contains(b"c\0"));
        assert!(KeyRange::new(*b"b", Some(b"b".to_vec())).is_empty());
    }
}
