//! Weakenings of the ring's orders, by which its models show that they miss each.

use std::cell::Cell;

/// What a model shows that it misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weakness {
    /// Who commits a handle need not see what was written before it was finished.
    FinishedRelaxed,
    /// Who stops at a handle that is not finished leaves no trace for who finishes it.
    StopsUnseen,
    /// A turn need not see the one before.
    GrantedRelaxed,
    /// Who finds a handle committed need not see the commit.
    CommittedRelaxed,
}

thread_local! {
    /// Threads of a model are all on one.
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
