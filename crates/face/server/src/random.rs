//! Random numbers for choices that clients should not be able to steer; not for secrets.

use std::hash::{BuildHasher, Hasher, RandomState};

use fastrand::Rng;

/// A generator that is seeded by the operating system: `fastrand`'s own seed is the time, which clients know.
pub(crate) fn generator() -> Rng {
    Rng::with_seed(RandomState::new().build_hasher().finish())
}
