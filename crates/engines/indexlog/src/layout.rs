//! The devices of a store's partitions, and how keys are spread over them.
//!
//! A root of the pool says how many partitions there are, whether keys are spread by hash or by range,
//! and the generation, which says on which devices the partitions are:
//!
//! ```text
//! bits 63..32       16            15..0
//!      generation   by range(1)   partitions
//! ```
//!
//! Another root says how many bytes of a change log are retained, plus one; none if there is no such log.
//!
//! Bounds of ranges are a value in the first partition.

use halite_alloc::Segments;
use halite_contract::{Error, Partitioning, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::PARTITIONS_MAX;

/// The root of the layout.
const ROOT: &str = "indexlog:partitions";

/// The root of the change log.
const CHANGES_ROOT: &str = "indexlog:changes";

const BY_RANGE: u64 = 1 << 16;

/// The layout that the root describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) generation: u32,
    pub(crate) partitions: usize,
    pub(crate) by_range: bool,
    /// Bytes of the change log to retain, if there is one.
    pub(crate) changes: Option<u64>,
}

impl Layout {
    pub(crate) fn new(generation: u32, partitioning: &Partitioning, changes: Option<u64>) -> Self {
        let by_range = matches!(partitioning, Partitioning::Ranges(_));
        Self { generation, partitions: partitioning.count(), by_range, changes }
    }

    /// A partition's number where messages name it: if there are several.
    pub(crate) fn is_named(self, number: usize) -> Option<usize> {
        (self.partitions > 1).then_some(number)
    }

    /// Reads the layout of a store.
    pub(crate) fn read(segments: &Segments) -> Result<Self> {
        let word = segments.root(ROOT).unwrap_or_default();
        let layout = Self {
            generation: (word >> 32) as u32,
            partitions: usize::from(word as u16),
            by_range: word & BY_RANGE != 0,
            changes: segments.root(CHANGES_ROOT).and_then(|word| word.checked_sub(1)),
        };
        let known = 1..=PARTITIONS_MAX;
        if !known.contains(&layout.partitions) || layout.encode() != word {
            return Err(Error::Damaged {
                what: "root of the partitions".into(),
                why: format!("{word:#018x} says nothing that this version writes"),
            });
        }
        Ok(layout)
    }

    /// Makes this the layout of the store, durably and failure-atomically.
    pub(crate) fn write(self, segments: &Segments) -> Result<()> {
        Ok(segments.set_root(ROOT, self.encode())?)
    }

    /// Notes, durably, how many bytes of a change log are retained.
    pub(crate) fn write_changes(segments: &Segments, retain: u64) -> Result<()> {
        Ok(segments.set_root(CHANGES_ROOT, retain.saturating_add(1))?)
    }

    /// The history in which positions of the change log are valid: they begin anew where partitions change.
    pub(crate) fn history(self, segments: &Segments) -> Option<u128> {
        self.changes?;
        Some(u128::from_le_bytes(segments.uuid()) ^ u128::from(self.generation))
    }

    fn encode(self) -> u64 {
        let by_range = if self.by_range { BY_RANGE } else { 0 };
        u64::from(self.generation) << 32 | by_range | self.partitions as u64
    }
}

/// The seed of a partition's checksums. Each partition has its own, so that it takes no records of another partition
/// for its own in a segment that was the other's before.
pub(crate) fn salt_of(segments: &Segments, device: u16) -> u64 {
    match device {
        0 => segments.salt(),
        _ => xxh3_64_with_seed(&device.to_le_bytes(), segments.salt()),
    }
}

/// Adds to an error that tells of damage in which partition it is, if there are several.
pub(crate) fn in_partition(number: Option<usize>, error: Error) -> Error {
    match (number, error) {
        (Some(number), Error::Damaged { what, why }) => {
            Error::Damaged { what: format!("{what}, partition {number}"), why }
        }
        (_, error) => error,
    }
}

/// The key, in the internal key space of the first partition, of the bounds of ranges.
pub(crate) const BOUNDS_KEY: &[u8] = b"bounds";

/// Bounds as one value: the length of each, in 4 bytes, before it.
pub(crate) fn encode_bounds(bounds: &[Vec<u8>]) -> Vec<u8> {
    bounds
        .iter()
        .flat_map(|bound| [&(bound.len() as u32).to_le_bytes()[..], &bound[..]].concat())
        .collect()
}

/// The bounds in a value; `None` if it is not one of bounds.
pub(crate) fn decode_bounds(mut value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut bounds = Vec::new();
    while let Some((len, rest)) = value.split_first_chunk() {
        let (bound, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        bounds.push(bound.to_vec());
        value = rest;
    }
    value.is_empty().then_some(bounds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bounds_read_back(bounds in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9)) {
            let value = encode_bounds(&bounds);
            prop_assert_eq!(decode_bounds(&value), Some(bounds));
        }

        #[test]
        fn any_value_is_read_without_panic(value in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(bounds) = decode_bounds(&value) {
                prop_assert_eq!(encode_bounds(&bounds), value);
            }
        }
    }
}
