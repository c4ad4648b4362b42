//! What operations cost, counted in steps along lists and trees whose length grows with what a store has been through:
//! removals of ranges, snapshots, scans, key spaces. Tests compare the count after few of them with that after many.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// One more element was looked at. Nothing outside of tests.
#[inline(always)]
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// The steps that `run` takes on this thread.
#[cfg(test)]
pub(crate) fn of(run: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    run();
    STEPS.get() - before
}
