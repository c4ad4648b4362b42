//! Keys and values of the soak: a reader of a value can tell its key, its version, and whether it is whole.

use std::sync::Arc;

use fastrand::Rng;

use crate::mix::mix;

/// A version of a key; zero stands for no value.
pub(super) type Version = u32;

/// Keys of a group, which always have one version.
pub(super) const TWINS: u64 = 4;

/// Bytes of a record on average, with its key and the store's overhead.
pub(super) const RECORD_BYTES: u64 = 700;

/// Bytes of noise that values are windows of.
const NOISE: usize = 1 << 20;

/// The kind of a key: one by itself, or one of a group's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) client: u64,
    pub(super) number: u64,
    /// The place in a group of that number.
    pub(super) twin: Option<u64>,
}

impl Key {
    pub(super) fn bytes(self) -> Vec<u8> {
        let Self { client, number, .. } = self;
        match self.twin {
            None => format!("{client}:{number}"),
            Some(twin) => format!("{client}:group{number}:{twin}"),
        }
        .into_bytes()
    }
}

/// Makes values, and recognises them.
#[derive(Clone)]
pub(super) struct Values {
    noise: Arc<[u8]>,
    seed: u64,
}

impl Values {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let noise = (0..NOISE / 8).flat_map(|_| random.u64(..).to_le_bytes()).collect();
        Self { noise, seed }
    }

    /// The value of a key in that version.
    pub(super) fn value(&self, key: Key, version: Version) -> Vec<u8> {
        let twin = key.twin.map_or(u64::MAX, |twin| twin);
        let place = mix(key.client ^ mix(key.number ^ mix(twin ^ self.seed)));
        let random = mix(place ^ mix(u64::from(version)));
        let len = len(random);
        let at = (random >> 32) as usize % (NOISE - len);
        let mut value = Vec::with_capacity(HEAD + len);
        value.extend_from_slice(&version.to_le_bytes());
        value.extend_from_slice(&random.to_le_bytes());
        value.extend_from_slice(&self.noise[at..at + len]);
        value
    }

    /// The version of a value of this key; `None` if it is of another key, or is not whole.
    pub(super) fn version(&self, key: Key, value: &[u8]) -> Option<Version> {
        let version = Version::from_le_bytes(*value.first_chunk()?);
        (version > 0 && value == self.value(key, version)).then_some(version)
    }
}

/// Bytes of a version and of a random number.
const HEAD: usize = 12;

/// Draws a length, mostly small; some in blocks of their own, a few in several of them.
fn len(random: u64) -> usize {
    let below = |end: u64| (mix(random) % end) as usize;
    match random % 2000 {
        0 => (100 << 10) + below(200 << 10),
        1..=20 => (4 << 10) + below(32 << 10),
        _ => below(600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_version_and_any_change() {
        let values = Values::new(7);
        let key = Key { client: 1, number: 2, twin: None };
        let others =
            [Key { number: 3, ..key }, Key { client: 2, ..key }, Key { twin: Some(2), ..key }];
        for version in [1, 2, 1000] {
            let mut value = values.value(key, version);
            assert_eq!(values.version(key, &value), Some(version));
            assert!(others.iter().all(|other| values.version(*other, &value).is_none()));
            assert_eq!(values.version(key, &value[..value.len() - 1]), None);
            *value.last_mut().unwrap() ^= 1;
            assert_eq!(values.version(key, &value), None);
        }
        assert_eq!(values.version(key, &[]), None);
    }

    #[test]
    fn records_have_the_bytes_that_fill_a_pool_by_plan() {
        let lens = (0..200_000).map(|number| len(mix(number)) as u64);
        let mean = lens.sum::<u64>() / 200_000;
        assert!((500..RECORD_BYTES).contains(&mean), "{mean}");
    }
}
