//! The contents of a store, as names and digests, with a hash of all of it that each change updates.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The length and a hash of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    /// The length in bytes.
    pub len: u64,
    hash: u64,
}

impl Digest {
    /// The digest of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { len: bytes.len() as u64, hash: xxh3_64(bytes) }
    }
}

/// The contents of a store: names and the digests of their values.
///
/// Many worlds are compared with each other, and nearly all pairs differ: comparing the sums of the hashes of all pairs
/// shows that at once. Only where the sums are equal are the names compared.
#[derive(Debug, Clone, Default)]
pub struct World {
    pairs: BTreeMap<Vec<u8>, Digest>,
    sum: u64,
}

/// The addend of one pair to the sum.
fn sum_of(name: &[u8], digest: &Digest) -> u64 {
    xxh3_64_with_seed(name, digest.hash ^ digest.len.rotate_left(32))
}

impl World {
    /// A world without names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the digest of a name; returns its earlier digest.
    pub fn insert(&mut self, name: Vec<u8>, digest: Digest) -> Option<Digest> {
        let before = self.remove(&name);
        self.sum = self.sum.wrapping_add(sum_of(&name, &digest));
        self.pairs.insert(name, digest);
        before
    }

    /// Sets the digest of a name that has none yet.
    pub fn insert_new(&mut self, name: Vec<u8>, digest: Digest) {
        if !self.pairs.contains_key(&name) {
            self.insert(name, digest);
        }
    }

    /// Removes a name; returns its digest.
    pub fn remove(&mut self, name: &[u8]) -> Option<Digest> {
        let before = self.pairs.remove(name)?;
        self.sum = self.sum.wrapping_sub(sum_of(name, &before));
        Some(before)
    }

    /// Removes all names.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Removes all names but those that are kept.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&[u8], &Digest) -> bool) {
        let sum = &mut self.sum;
        self.pairs.retain(|name, digest| {
            let is_kept = is_kept(name, digest);
            if !is_kept {
                *sum = sum.wrapping_sub(sum_of(name, digest));
            }
            is_kept
        });
    }
}

/// Reading a world is reading its map.
impl Deref for World {
    type Target = BTreeMap<Vec<u8>, Digest>;

    fn deref(&self) -> &Self::Target {
        &self.pairs
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.sum == other.sum && self.pairs == other.pairs
    }
}

impl Eq for World {}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.sum);
    }
}

impl Extend<(Vec<u8>, Digest)> for World {
    fn extend<I: IntoIterator<Item = (Vec<u8>, Digest)>>(&mut self, pairs: I) {
        for (name, digest) in pairs {
            self.insert(name, digest);
        }
    }
}

impl FromIterator<(Vec<u8>, Digest)> for World {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, Digest)>>(pairs: I) -> Self {
        let mut world = Self::new();
        world.extend(pairs);
        world
    }
}

impl<const N: usize> From<[(Vec<u8>, Digest); N]> for World {
    fn from(pairs: [(Vec<u8>, Digest); N]) -> Self {
        pairs.into_iter().collect()
    }
}

/// The differences between two worlds, for people.
pub(crate) fn differences(expected: &World, found: &World) -> Vec<String> {
    let name = |name: &[u8]| format!("`{}`", name[..name.len().min(60)].escape_ascii());
    let lost = expected.iter().filter_map(|(key, digest)| match found.get(key) {
        None => Some(format!("{} is missing", name(key))),
        Some(other) if other != digest => Some(format!(
            "{} has another value ({} bytes, expected {})",
            name(key),
            other.len,
            digest.len
        )),
        Some(_) => None,
    });
    let gained = found.keys().filter(|key| !expected.contains_key(*key));
    lost.chain(gained.map(|key| format!("{} should not be there", name(key)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn the_hash_is_that_of_the_pairs_however_a_world_came_about() {
        let mut random = Random::new(1);
        let mut world = World::new();
        for _ in 0..2000 {
            let name = vec![random.below(8) as u8];
            match random.below(10) {
                0..6 => drop(world.insert(name, Digest::of(&[random.below(4) as u8]))),
                6..9 => drop(world.remove(&name)),
                _ => world.retain(|other, _| *other <= name[..]),
            }
            let again: World = world.iter().rev().map(|(name, at)| (name.clone(), *at)).collect();
            assert_eq!((again.sum, &again), (world.sum, &world));
        }
        world.retain(|_, _| false);
        assert_eq!((world.sum, world), (0, World::new()));
    }

    #[test]
    fn worlds_of_one_hash_are_told_apart_by_their_pairs() {
        let mut one = World::from([(b"a".to_vec(), Digest::of(b"1"))]);
        let other = World::from([(b"a".to_vec(), Digest::of(b"2"))]);
        assert_ne!(one.sum, other.sum);
        one.sum = other.sum;
        assert_ne!(one, other);
    }
}
