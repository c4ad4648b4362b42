//! Sets of partitions.

/// A set of numbers of partitions, of which a database has at most 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PartitionSet(u64);

impl PartitionSet {
    pub(crate) const EMPTY: Self = Self(0);

    /// The first `count` partitions.
    pub(crate) fn first(count: usize) -> Self {
        Self(u64::MAX.checked_shr(64 - count as u32).unwrap_or(0))
    }

    /// A bit for each.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn only(number: usize) -> Self {
        Self(1 << number)
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.0 |= 1 << number;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of these are in `others`.
    #[inline]
    pub(crate) fn is_within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    pub(crate) fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The numbers, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |number| self.0 >> number & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sets() {
        let mut set = PartitionSet::first(3);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2]);
        set.insert(63);
        assert_eq!(set.len(), 4);
        assert!(PartitionSet::only(63).is_within(set) && !PartitionSet::only(3).is_within(set));
        assert_eq!(set.without(PartitionSet::first(3)), PartitionSet::only(63));
        assert_eq!(PartitionSet::first(64).len(), 64);
        assert!(PartitionSet::first(0).is_empty());
    }
}
