//! Random numbers for choices that clients should not be able to steer; not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

use fastrand::Rng;

thread_local! {
    /// The seed of the next generator of a thread whose choices have to be the same in each run.
    static NEXT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A generator that is seeded by the operating system: `fastrand`'s own seed is the time, which clients know.
pub(crate) fn generator() -> Rng {
    let seed = NEXT.get();
    NEXT.set(seed.map(|seed| seed.wrapping_add(1)));
    Rng::with_seed(seed.unwrap_or_else(|| RandomState::new().build_hasher().finish()))
}

/// Seeds the generators that this thread makes from now on.
pub(crate) fn seed(seed: u64) {
    NEXT.set(Some(seed));
}
