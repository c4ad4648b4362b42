//! Where a table's blocks are, in two steps.
//!
//! A *partition* is a block (`block_builder`) with an entry for each of some hundred data blocks; the *root* is one
//! with an entry for each partition, and small enough to stay in memory. The key and sequence of an entry are a
//! separator: not before the last entry of its block or partition, and before the first of the next; where keys
//! differ, it is as short as can be. A small table has one partition.
//!
//! The value of a partition's entry is a handle: offset and length, varints. The value of a root's entry is
//! two of them: the partition, and the filter of its keys. Both without the 16 bytes that follow each
//! block. A filter of length 0 is none.

use halite_codec::{Reader, put_varint};

use crate::Parsed;
use crate::block_builder::{BlockBuilder, common_prefix};
use crate::entry::Entry;

/// Where a block is in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    /// Bytes that are stored, without the trailer.
    pub(crate) len: u32,
}

impl Handle {
    pub(crate) fn put(self, to: &mut Vec<u8>) {
        put_varint(to, self.offset);
        put_varint(to, u64::from(self.len));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Parsed<Self> {
        Ok(Self { offset: reader.varint()?, len: reader.varint_u32()? })
    }

    /// The handle that an entry of a partition has as its value.
    pub(crate) fn of_value(value: &[u8]) -> Parsed<Self> {
        let mut reader = Reader(value);
        let handle = Self::read(&mut reader)?;
        if reader.is_empty() { Ok(handle) } else { Err("an index entry has too many bytes") }
    }
}

/// The root's entry of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) index: Handle,
    pub(crate) filter: Handle,
}

impl Partition {
    pub(crate) fn of_value(value: &[u8]) -> Parsed<Self> {
        let mut reader = Reader(value);
        let partition =
            Self { index: Handle::read(&mut reader)?, filter: Handle::read(&mut reader)? };
        if reader.is_empty() { Ok(partition) } else { Err("a root entry has too many bytes") }
    }
}

/// The separator of the last entry of a block and the first of the next: key and sequence.
pub(crate) fn separator<'a>(last: (&'a [u8], u64), next: &'a [u8]) -> (&'a [u8], u64) {
    if last.0 == next {
        return last;
    }
    // The shortest beginning of the next key that is above the last one, if the next key goes on.
    let len = common_prefix(last.0, next) + 1;
    if len < next.len() && len < last.0.len() { (&next[..len], 0) } else { (last.0, 0) }
}

/// Builds partitions and root.
pub(crate) struct IndexBuilder {
    partition: BlockBuilder,
    root: BlockBuilder,
    value: Vec<u8>,
}

impl IndexBuilder {
    pub(crate) fn new() -> Self {
        // A search in an index is all restarts: no entry is read that it does not compare.
        Self { partition: BlockBuilder::new(1), root: BlockBuilder::new(1), value: Vec::new() }
    }

    /// Adds a data block to the partition.
    pub(crate) fn add(&mut self, (key, sequence): (&[u8], u64), block: Handle) {
        self.value.clear();
        block.put(&mut self.value);
        self.partition.add(Entry { key, sequence, kind: 0, value: &self.value });
    }

    /// Length of the partition in bytes.
    pub(crate) fn partition_len(&self) -> usize {
        self.partition.len()
    }

    /// The partition's bytes.
    pub(crate) fn finish_partition(&mut self) -> &[u8] {
        self.partition.finish()
    }

    /// Adds the partition, which was written, to the root, and begins the next one.
    pub(crate) fn add_partition(&mut self, (key, sequence): (&[u8], u64), partition: Partition) {
        self.partition.clear();
        self.value.clear();
        partition.index.put(&mut self.value);
        partition.filter.put(&mut self.value);
        self.root.add(Entry { key, sequence, kind: 0, value: &self.value });
    }

    /// The root's bytes.
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.root.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entry::order;

    proptest! {
        #[test]
        fn a_separator_is_between_the_entries_and_no_longer_than_the_last_key(
            mut a in (prop::collection::vec(0_u8..3, 0..6), 1_u64..9),
            mut b in (prop::collection::vec(0_u8..3, 0..6), 1_u64..9),
        ) {
            if order((&a.0, a.1), (&b.0, b.1)).is_gt() {
                (a, b) = (b, a);
            }
            prop_assume!(a != b);
            let (key, sequence) = separator((&a.0, a.1), &b.0);
            prop_assert!(order((&a.0, a.1), (key, sequence)).is_le());
            prop_assert!(order((key, sequence), (&b.0, b.1)).is_lt());
            prop_assert!(key.len() <= a.0.len());
        }
    }
}
