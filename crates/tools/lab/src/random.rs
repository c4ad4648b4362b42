//! Random numbers that a seed reproduces.

use fastrand::Rng;

/// A generator with the draws that histories are made of.
#[derive(Debug, Clone)]
pub struct Random(Rng);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// The sequence that several numbers seed together.
    #[must_use]
    pub fn of(seeds: &[u64]) -> Self {
        Self::new(seeds.iter().fold(0, |mixed, seed| Self::new(mixed ^ seed).next()))
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }

    /// A place in a sequence of `len`, which is not zero.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Whether an event of `percent` chances in a hundred happens.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
