//! The waits-for graph of transactions, which detects a cycle before a transaction waits in it.
//!
//! A transaction waits for one lock at a time: for its conflicting holders, and for conflicting requests ahead in the
//! queue. When one of those requests is granted, the transaction goes on waiting for its owner. The only request that
//! may later be placed ahead is an upgrade from shared to exclusive, and the transaction already waits for its owner,
//! directly or through another. So the set changes only when a request ahead is given up. A transaction that lost a
//! lock because it is too old stays in the set, but does not wait itself any more.
//!
//! **The victim** of a cycle is the transaction that would close it. Its own thread finds the cycle before it waits, so
//! no other thread has to be woken, and the other transactions have waited for longer. If the victim runs again, its
//! requests queue behind theirs.

use std::collections::{HashMap, HashSet};

use halite_sim::locks::Mutex;

use super::locks::TransactionId;

/// A transaction, and those that it waits for.
pub(super) type Waits = (TransactionId, Vec<TransactionId>);

/// The waits-for graph of a database.
#[derive(Default)]
pub(super) struct WaitsFor(Mutex<HashMap<TransactionId, Vec<TransactionId>>>);

impl WaitsFor {
    /// Adds the edges of a transaction that waits for others. Returns false, and adds none, if one of them waits for
    /// it, directly or through others.
    pub(super) fn begin(&self, waiter: TransactionId, holders: Vec<TransactionId>) -> bool {
        let mut graph = self.0.lock();
        let mut seen = HashSet::new();
        let mut ahead = holders.clone();
        while let Some(next) = ahead.pop() {
            if next == waiter {
                return false;
            }
            if seen.insert(next) {
                ahead.extend(graph.get(&next).into_iter().flatten());
            }
        }
        graph.insert(waiter, holders);
        true
    }

    /// Removes a transaction that gave up, and replaces the edges of the requests behind it.
    pub(super) fn give_up(&self, waiter: TransactionId, waits: Vec<Waits>) {
        let mut graph = self.0.lock();
        graph.remove(&waiter);
        graph.extend(waits);
    }

    /// Notes that a transaction does not wait any more.
    pub(super) fn end(&self, waiter: TransactionId) {
        self.0.lock().remove(&waiter);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_closes_a_circle_is_told() {
        let [a, b, c, d] = [1, 2, 3, 4].map(TransactionId);
        let graph = WaitsFor::default();
        assert!(graph.begin(a, vec![b, c]));
        assert!(graph.begin(b, vec![d]));
        assert!(!graph.begin(d, vec![a]));
        assert!(graph.begin(c, vec![d]), "two ways to one are no circle");
        graph.end(a);
        assert!(graph.begin(d, vec![a]), "nobody waits for it any more");
        assert!(!graph.begin(a, vec![c]));
        graph.give_up(d, vec![(c, vec![])]);
        assert!(graph.begin(a, vec![c]));
        [a, b, c, d].into_iter().for_each(|each| graph.end(each));
        assert!(graph.is_empty());
    }
}
