//! Commands on collections of all types, drawn at random; a model of them; and what a client sees of them. Tests that end
//! servers compare the two.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod commands;
pub(crate) mod model;
pub(crate) mod seen;

/// The source of random choices.
pub(crate) trait Chance {
    /// A number below a bound.
    fn below(&mut self, bound: u64) -> u64;

    /// True in so many of a hundred cases.
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// The index of one of so many.
    fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }
}
