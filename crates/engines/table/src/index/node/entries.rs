//! The entries of one or two nodes, taken out to be packed anew: a split, a merge, another prefix, or removed records.

use std::ops::Range;

use super::{HEAD, IN_SLOT, Key, SLOT, Shape, clear, count, insert, key, value};

/// One entry, by the places of its parts among the bytes.
#[derive(Debug, Clone)]
struct Entry {
    key: Range<usize>,
    long: Option<u64>,
    value: Range<usize>,
}

/// Entries in the order of their keys. The memory serves again for the next node.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    bytes: Vec<u8>,
    all: Vec<Entry>,
}

impl Entries {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.all.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Puts all entries of a node behind those that are there. `long` appends a long key, by its reference and length.
    pub(crate) fn append<E>(
        &mut self,
        node: &[u8],
        shape: Shape,
        mut long: impl FnMut(u64, usize, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        for index in 0..count(node) {
            let start = self.bytes.len();
            let mut reference = None;
            if index >= shape.keyless {
                match key(node, shape, index) {
                    Key::Long(at, len) => {
                        reference = Some(at);
                        long(at, len, &mut self.bytes)?;
                    }
                    whole => whole.append_to(&mut self.bytes),
                }
            }
            let key = start..self.bytes.len();
            self.bytes.extend_from_slice(value(node, shape, index));
            let value = key.end..self.bytes.len();
            self.all.push(Entry { key, long: reference, value });
        }
        Ok(())
    }

    /// Inserts one.
    pub(crate) fn insert(&mut self, index: usize, key: &[u8], long: Option<u64>, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let key = start..start + key.len();
        let value = key.end..self.bytes.len();
        self.all.insert(index, Entry { key, long, value });
    }

    /// Gives an entry a key: the first of an inner node, when another node's come before it.
    pub(crate) fn set_key(&mut self, index: usize, key: &[u8], long: Option<u64>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let entry = &mut self.all[index];
        (entry.key, entry.long) = (start..self.bytes.len(), long);
    }

    /// The key of an entry, and its reference if it is long.
    pub(crate) fn key(&self, index: usize) -> (&[u8], Option<u64>) {
        let entry = &self.all[index];
        (&self.bytes[entry.key.clone()], entry.long)
    }

    /// Bytes that the keys of some entries have in common, all but the first of an inner node.
    pub(crate) fn common(&self, range: &Range<usize>, shape: Shape) -> usize {
        let keys = range.start + shape.keyless..range.end;
        if keys.len() < 2 {
            return 0;
        }
        let (first, last) = (self.key(keys.start).0, self.key(keys.end - 1).0);
        common_len(first, last)
    }

    /// Bytes of an entry in a node, with a prefix of so many bytes.
    pub(crate) fn entry_size(
        &self,
        index: usize,
        is_keyless: bool,
        prefix: usize,
        shape: Shape,
    ) -> usize {
        let entry = &self.all[index];
        let rest = match (is_keyless, entry.long) {
            (true, _) => 0,
            (false, Some(_)) => shape.reference,
            (false, None) => entry.key.len().saturating_sub(prefix + IN_SLOT),
        };
        SLOT + shape.value_len(entry.value.len()) + rest
    }

    /// Bytes of a node of some entries, with a prefix of so many bytes.
    pub(crate) fn size(&self, range: &Range<usize>, prefix: usize, shape: Shape) -> usize {
        let of = |index| self.entry_size(index, index < range.start + shape.keyless, prefix, shape);
        HEAD + prefix + range.clone().map(of).sum::<usize>()
    }

    /// The length of a prefix with which some entries fit into a node of `len` bytes: the longest common one, or else
    /// `former`, with which they did fit, or none.
    pub(crate) fn fitting_prefix(
        &self,
        range: &Range<usize>,
        former: usize,
        shape: Shape,
        len: usize,
    ) -> Option<usize> {
        let common = self.common(range, shape).min(Shape::prefix_max(len));
        let candidates = [common, former.min(common), 0];
        candidates.into_iter().find(|&prefix| self.size(range, prefix, shape) <= len)
    }

    /// Packs some entries into a node, with a prefix of so many bytes.
    pub(crate) fn pack(&self, range: Range<usize>, prefix: usize, shape: Shape, node: &mut [u8]) {
        let with_prefix = range.start + shape.keyless;
        let prefix_bytes = if prefix == 0 { &[] } else { &self.key(with_prefix).0[..prefix] };
        clear(node, prefix_bytes);
        for (at, index) in range.enumerate() {
            let key = if at < shape.keyless { (&[][..], None) } else { self.key(index) };
            let is_in = insert(node, shape, at, key, &self.bytes[self.all[index].value.clone()]);
            assert!(is_in, "entries are packed into nodes that have room for them");
        }
    }
}

/// Bytes that two keys have in common at the front.
pub(crate) fn common_len(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
