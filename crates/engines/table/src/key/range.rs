//! Ranges of keys.

use std::ops::Bound;

/// The least byte string above all that begin with a prefix; `None` if there is none, as the prefix is 0xff throughout.
#[must_use]
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut above = prefix[..=last].to_vec();
    above[last] += 1;
    Some(above)
}

/// The keys from one byte string on, and before another: the form in which every index scans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The least key that may be in the range.
    pub from: Vec<u8>,
    /// The least key that is behind the range; `None` if the range goes on to the greatest key.
    pub to: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    #[must_use]
    pub const fn all() -> Self {
        Self { from: Vec::new(), to: None }
    }

    /// The keys that begin with a prefix.
    #[must_use]
    pub fn of_prefix(prefix: Vec<u8>) -> Self {
        Self { to: successor(&prefix), from: prefix }
    }

    /// The keys between two prefixes: an included bound takes in all keys that begin with it, an excluded one none.
    #[must_use]
    pub fn between(from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Self {
        let from = match from {
            Bound::Included(from) => from,
            Bound::Unbounded => Vec::new(),
            Bound::Excluded(from) => match successor(&from) {
                Some(from) => from,
                None => return Self { to: Some(from.clone()), from },
            },
        };
        let to = match to {
            Bound::Included(to) => successor(&to),
            Bound::Excluded(to) => Some(to),
            Bound::Unbounded => None,
        };
        Self { from, to }
    }

    /// Whether the range has a key.
    #[must_use]
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.from <= *key && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// Its bounds, for a scan of an index.
    #[must_use]
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&self.from), self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Whether the range can have no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
}
