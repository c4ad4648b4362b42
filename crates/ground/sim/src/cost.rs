//! The cost of operations, counted in steps along lists and trees whose length grows with a store's history: removals
//! of ranges, snapshots, scans, key spaces. Tests compare the count after few of them with that after many.
//!
//! Steps are counted on each thread, in builds with the feature `cost`; an engine's tests turn it on, and count their own
//! steps here, too. Other builds count nothing.

#[cfg(any(test, feature = "cost"))]
use std::cell::Cell;

#[cfg(any(test, feature = "cost"))]
thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts one more element that was looked at.
#[inline(always)]
pub fn step() {
    #[cfg(any(test, feature = "cost"))]
    STEPS.set(STEPS.get() + 1);
}

/// [`step`], returning `found`.
#[inline(always)]
pub fn counted<T>(found: T) -> T {
    step();
    found
}

/// The steps that `run` takes on this thread.
#[cfg(any(test, feature = "cost"))]
pub fn of(run: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    run();
    STEPS.get() - before
}
