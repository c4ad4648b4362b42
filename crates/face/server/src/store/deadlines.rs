//! When keys expire: the copy in DRAM.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The deadlines of a database's keys, by key and in order. Times are milliseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_key: HashMap<Arc<[u8]>, u64>,
    by_time: BTreeSet<(u64, Arc<[u8]>)>,
    /// The sum of all deadlines.
    sum: u128,
}

impl Deadlines {
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<u64> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(key).copied()
    }

    pub(super) fn set(&mut self, key: &[u8], deadline: Option<u64>) {
        if let Some((key, old)) = self.by_key.remove_entry(key) {
            self.sum -= u128::from(old);
            self.by_time.remove(&(old, key));
        }
        if let Some(deadline) = deadline {
            let key: Arc<[u8]> = key.into();
            self.sum += u128::from(deadline);
            self.by_key.insert(Arc::clone(&key), deadline);
            self.by_time.insert((deadline, key));
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The sum of all deadlines.
    pub(super) fn sum(&self) -> u128 {
        self.sum
    }

    /// Returns at most `count_max` keys whose deadline is not after `now_ms`, the earliest first.
    pub(super) fn due(&self, now_ms: u64, count_max: usize) -> Vec<Arc<[u8]>> {
        let due = self.by_time.iter().take_while(|(deadline, _)| *deadline <= now_ms);
        due.take(count_max).map(|(_, key)| Arc::clone(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order_and_once() {
        let mut deadlines = Deadlines::default();
        for (key, at) in [("c", 30), ("a", 10), ("b", 20), ("a", 25)] {
            deadlines.set(key.as_bytes(), Some(at));
        }
        let due = |deadlines: &Deadlines, now, max| {
            deadlines.due(now, max).iter().map(|key| key[0] as char).collect::<String>()
        };
        assert_eq!(due(&deadlines, 25, 9), "ba");
        assert_eq!(due(&deadlines, 25, 1), "b");
        assert_eq!((deadlines.len(), deadlines.sum()), (3, 75));
        deadlines.set(b"b", None);
        assert_eq!(due(&deadlines, 99, 9), "ac");
        deadlines.clear();
        assert_eq!((deadlines.len(), deadlines.sum(), deadlines.get(b"a")), (0, 0, None));
    }
}
