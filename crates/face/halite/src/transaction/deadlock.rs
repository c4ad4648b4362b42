//! Who waits for whom, to find circles before anybody waits in one.
//!
//! A transaction waits for one lock at a time: for those that hold it in its way, and for those before it in the
//! queue that want it in its way. Whoever of them is granted the lock, it goes on waiting for. Nobody comes
//! before it later but one that holds the lock shared and wants it exclusive, for whom it waits already, be it
//! through another. So that set changes only when somebody before it gives up. Who lost a lock because it is too
//! old stays in it, and waits for nobody any more.
//!
//! **The victim** of a circle is the transaction that would close it. It is found by its own thread, before it
//! waits, so nobody has to be woken to be told; and the others have waited for longer. If it runs again, it
//! comes behind them.

use std::collections::{HashMap, HashSet};

use halite_sim::locks::Mutex;

use super::locks::TransactionId;

/// A transaction, and those that it waits for.
pub(super) type Waits = (TransactionId, Vec<TransactionId>);

/// The waits-for graph of a database.
#[derive(Default)]
pub(super) struct WaitsFor(Mutex<HashMap<TransactionId, Vec<TransactionId>>>);

impl WaitsFor {
    /// Notes that a transaction waits for others. Returns false, and notes nothing, if one of them waits for it,
    /// be it through others.
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

    /// Notes that a transaction gave up, and whom those behind it wait for now.
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
