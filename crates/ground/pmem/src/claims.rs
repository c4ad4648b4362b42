//! Which ranges of a pool have an owner.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The owned ranges, by start. This check at run time, once in the life of a range, makes the safe
/// interface of the pool sound for every caller.
#[derive(Default)]
pub(crate) struct Claims {
    ends: Mutex<BTreeMap<u64, u64>>,
}

impl Claims {
    /// Takes `start..end` if no part of it has an owner.
    pub(crate) fn take(&self, start: u64, end: u64) -> bool {
        let mut ends = self.ends.lock();
        let before = ends.range(..end).next_back();
        if before.is_some_and(|(_, &before_end)| before_end > start) {
            return false;
        }
        ends.insert(start, end);
        true
    }

    /// Gives back the range that starts at `start`.
    pub(crate) fn give_back(&self, start: u64) {
        let owned = self.ends.lock().remove(&start);
        debug_assert!(owned.is_some(), "a range is given back once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_one_owner() {
        let claims = Claims::default();
        assert!(claims.take(64, 128) && claims.take(0, 64) && claims.take(128, 129));
        for (start, end) in [(0, 1), (63, 65), (100, 101), (0, 200), (128, 256)] {
            assert!(!claims.take(start, end), "{start}..{end}");
        }
        claims.give_back(64);
        assert!(!claims.take(64, 129));
        assert!(claims.take(65, 128));
    }
}
