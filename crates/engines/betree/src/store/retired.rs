//! Extents that the current view does not use, and readers of earlier views may.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use halite_sim::locks::Mutex;

use crate::store::view::View;
use crate::tree::Dropped;

/// Extents that were dropped, the earliest first.
#[derive(Default)]
pub(crate) struct Retired(Mutex<VecDeque<(Weak<View>, Vec<Dropped>)>>);

impl Retired {
    /// Notes what the view behind `last` does not use any more, for each view that another one replaces, in their order.
    pub(crate) fn push(&self, last: &Arc<View>, dropped: Vec<Dropped>) {
        self.0.lock().push_back((Arc::downgrade(last), dropped));
    }

    /// Takes what no reader can reach any more: views end in any order, so that of a later one waits for the earlier.
    pub(crate) fn take(&self) -> Vec<Dropped> {
        let mut all = self.0.lock();
        let mut taken = Vec::new();
        while all.front().is_some_and(|(view, _)| view.strong_count() == 0) {
            let (_, dropped) = all.pop_front().expect("there is a front");
            taken.extend(dropped);
        }
        taken
    }

    /// Blocks that wait for readers.
    pub(crate) fn blocks(&self) -> u64 {
        let all = self.0.lock();
        all.iter()
            .flat_map(|(_, dropped)| dropped)
            .map(|dropped| u64::from(dropped.extent.blocks))
            .sum()
    }
}
