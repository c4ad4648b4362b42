//! Hash tables by collection. The number of a collection is drawn at random, so that it is its own hash.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::elements::Elements;

pub(super) type ByCollection<T> = HashMap<Elements, T, BuildHasherDefault<Numbers>>;

pub(super) type Collections = HashSet<Elements, BuildHasherDefault<Numbers>>;

/// Takes a number for a hash.
#[derive(Default)]
pub(super) struct Numbers(u64);

impl Hasher for Numbers {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a collection is hashed by its number");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Hash for Elements {
    /// The first byte is the same for all collections of a partition, and a table takes its tags from there.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.id.rotate_left(8));
    }
}
