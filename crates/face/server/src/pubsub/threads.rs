//! Sets of threads.

/// A set of numbers of threads. There are at most as many threads as partitions: 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Threads(u64);

impl Threads {
    /// The set that has these bits.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn insert(&mut self, thread: usize) {
        self.0 |= 1 << thread;
    }

    pub(crate) fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set of one thread.
    pub(crate) fn only(thread: usize) -> Self {
        Self(1 << thread)
    }

    pub(crate) fn contains(self, thread: usize) -> bool {
        self.0 >> thread & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let mut set = Threads::default();
        set.insert(0);
        assert!(set == Threads::from_bits(1) && set == Threads::only(0) && !set.is_empty());
        set.insert(63);
        assert!(!Threads::default().contains(0) && Threads::default().or(set) == set);
        assert!(set.contains(0) && set.contains(63) && !set.contains(1));
    }
}
