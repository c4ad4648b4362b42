//! Weakenings of the ring's memory orders, by which its models show that they need each of these orders.

use std::cell::Cell;

/// The weakening of one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weakness {
    /// A thread that commits a handle need not see the writes before it was finished.
    FinishedRelaxed,
    /// A thread that stops at a handle that is not finished leaves no trace for the thread that finishes it.
    StopsUnseen,
    /// A thread that ends committing need not see what another one left to it meanwhile.
    LeavesUnseen,
    /// A turn need not see the one before.
    GrantedRelaxed,
    /// A thread that finds a handle committed need not see the commit.
    CommittedRelaxed,
}

thread_local! {
    /// All threads of a model run on one thread.
    static CHOSEN: Cell<Option<Weakness>> = const { Cell::new(None) };
}

impl Weakness {
    /// Weakens the models of this thread from now on.
    pub(crate) fn choose(self) {
        CHOSEN.set(Some(self));
    }

    pub(crate) fn is_there(self) -> bool {
        CHOSEN.get() == Some(self)
    }
}
