//! Changes of ranges of a value, without the value.
//!
//! ```text
//! operation, operation, ...   in the order in which they apply
//!   0  mode 2 bits (high) | offset 30 bits   u32
//!   4  len                                   varint    not for `Extend`
//!      bytes                                 len bytes
//! ```
//!
//! | mode | changes the bytes from `offset` on |
//! |---|---|
//! | `Overwrite` | to `bytes` |
//! | `ZeroBits` | to themselves AND NOT `bytes` |
//! | `OneBits` | to themselves OR `bytes` |
//! | `Extend` | not at all |
//!
//! Each first extends the value by zeros to where its bytes end: no operation shortens a value.
//!
//! **The normal form.** What all operations do to a byte is `byte AND keep OR set`, and such functions compose to such
//! functions. So any operations have the same effect as: overwrites of the bytes with `keep` = 0, bits of other bytes
//! that become 0, bits of other bytes that become 1, each in maximal ranges and in the order of their offsets, and at
//! the end one `Extend` if the value has to be longer. [`compose`] brings operations to that form, which depends on
//! their effect alone: composing is associative to the byte, an operation that later ones cover vanishes, and the
//! result's length is bounded by the bytes that the operations touch, however many of them touch the same ones.
//!
//! Composing takes time and memory in proportion to the bytes of the operations; applying, to those and the value's.

use halite_codec::{Reader, put_bytes};
use halite_sim::planted;

use super::Parsed;

const OFFSET_BITS: u32 = 30;

/// No value that is changed in parts gets longer, in bytes.
pub(crate) const VALUE_LEN_MAX: usize = 1 << OFFSET_BITS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Overwrite = 0,
    ZeroBits = 1,
    OneBits = 2,
    Extend = 3,
}

/// An operation, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operation<'a> {
    mode: Mode,
    offset: usize,
    bytes: &'a [u8],
}

impl<'a> Operation<'a> {
    fn read(reader: &mut Reader<'a>) -> Parsed<Self> {
        let word = reader.u32()?;
        let (mode, offset) = match word >> OFFSET_BITS {
            0 => (Mode::Overwrite, word),
            1 => (Mode::ZeroBits, word),
            2 => (Mode::OneBits, word),
            _ => (Mode::Extend, word),
        };
        let offset = (offset & ((1 << OFFSET_BITS) - 1)) as usize;
        let bytes = if mode == Mode::Extend { &[] } else { reader.bytes()? };
        match bytes.len() <= VALUE_LEN_MAX - offset {
            true => Ok(Self { mode, offset, bytes }),
            false => Err("an upsert makes a value longer than any"),
        }
    }

    fn end(self) -> usize {
        self.offset + self.bytes.len()
    }

    fn apply(self, value: &mut Vec<u8>) {
        if value.len() < self.end() {
            value.resize(self.end(), planted!("betree.gap-not-zeroed", 1, 0));
        }
        let to = &mut value[self.offset..self.end()];
        match self.mode {
            Mode::Overwrite => to.copy_from_slice(self.bytes),
            Mode::ZeroBits => to.iter_mut().zip(self.bytes).for_each(|(to, mask)| *to &= !mask),
            Mode::OneBits => to.iter_mut().zip(self.bytes).for_each(|(to, mask)| *to |= mask),
            Mode::Extend => {}
        }
    }
}

fn operations(payload: &[u8]) -> Parsed<Vec<Operation<'_>>> {
    let (mut reader, mut operations) = (Reader(payload), Vec::new());
    while !reader.is_empty() {
        operations.push(Operation::read(&mut reader)?);
    }
    Ok(operations)
}

/// Makes the payload of an upsert.
#[derive(Debug, Default)]
pub(crate) struct UpsertBuilder(Vec<u8>);

impl UpsertBuilder {
    /// Overwrites the bytes from `offset` on.
    pub(crate) fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        self.push(Operation { mode: Mode::Overwrite, offset, bytes });
    }

    /// Makes the bits zero that `mask` has, from `offset` on.
    pub(crate) fn zero_bits(&mut self, offset: usize, mask: &[u8]) {
        self.push(Operation { mode: Mode::ZeroBits, offset, bytes: mask });
    }

    /// Makes the bits one that `mask` has, from `offset` on.
    pub(crate) fn one_bits(&mut self, offset: usize, mask: &[u8]) {
        self.push(Operation { mode: Mode::OneBits, offset, bytes: mask });
    }

    /// Appends zeros up to a length.
    pub(crate) fn extend(&mut self, len: usize) {
        self.push(Operation { mode: Mode::Extend, offset: len, bytes: &[] });
    }

    /// Appends zeros up to a length. The longest does not fit into an offset: it is an operation on the last byte that
    /// keeps all bits.
    fn put_len(&mut self, len: usize) {
        match len < VALUE_LEN_MAX {
            true => self.extend(len),
            false => self.one_bits(len - 1, &[0]),
        }
    }

    /// The payload so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The payload.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn push(&mut self, operation: Operation<'_>) {
        assert!(operation.end() <= VALUE_LEN_MAX, "the engine refuses longer values");
        assert!(operation.offset < VALUE_LEN_MAX, "the offset has 30 bits");
        let word = (operation.mode as u32) << OFFSET_BITS | operation.offset as u32;
        self.0.extend_from_slice(&word.to_le_bytes());
        if operation.mode != Mode::Extend {
            put_bytes(&mut self.0, operation.bytes);
        }
    }
}

/// Applies an upsert to a value.
pub(crate) fn apply(payload: &[u8], value: &mut Vec<u8>) -> Parsed<()> {
    operations(payload)?.into_iter().for_each(|operation| operation.apply(value));
    Ok(())
}

/// The effect of operations on contiguous bytes.
struct Stretch {
    at: usize,
    keep: Vec<u8>,
    set: Vec<u8>,
}

impl Stretch {
    fn end(&self) -> usize {
        self.at + self.keep.len()
    }

    fn apply(&mut self, operation: Operation<'_>) {
        let from = operation.offset - self.at;
        let range = from..from + operation.bytes.len();
        let both = self.keep[range.clone()].iter_mut().zip(&mut self.set[range]);
        for ((keep, set), &byte) in both.zip(operation.bytes) {
            match operation.mode {
                Mode::Overwrite => (*keep, *set) = (0, byte),
                Mode::ZeroBits => (*keep, *set) = (*keep & !byte, *set & !byte),
                Mode::OneBits => (*keep, *set) = (*keep & !byte, *set | byte),
                Mode::Extend => {}
            }
        }
    }

    /// Adds operations for the maximal ranges of bytes of which `part` has some.
    fn put(&self, mode: Mode, to: &mut UpsertBuilder, part: impl Fn(u8, u8) -> Option<u8>) {
        let mut bytes = Vec::new();
        for at in 0..=self.keep.len() {
            match self.keep.get(at).and_then(|&keep| part(keep, self.set[at])) {
                Some(byte) => bytes.push(byte),
                None if !bytes.is_empty() => {
                    let offset = self.at + at - bytes.len();
                    to.push(Operation { mode, offset, bytes: &bytes });
                    bytes.clear();
                }
                None => {}
            }
        }
    }
}

/// One upsert, in the normal form, with the effect of `newer` after `older`.
pub(crate) fn compose(newer: &[u8], older: &[u8]) -> Parsed<Vec<u8>> {
    let mut all = operations(older)?;
    all.extend(operations(newer)?);
    let len = all.iter().map(|operation| operation.end()).max().unwrap_or(0);
    let mut ranges: Vec<(usize, usize)> = all
        .iter()
        .filter(|operation| !operation.bytes.is_empty())
        .map(|operation| (operation.offset, operation.end()))
        .collect();
    ranges.sort_unstable();
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    let stretch = |(start, end): (usize, usize)| {
        let len = end - start;
        Stretch { at: start, keep: vec![u8::MAX; len], set: vec![0; len] }
    };
    let mut stretches: Vec<Stretch> = joined.into_iter().map(stretch).collect();
    for operation in all.into_iter().filter(|operation| !operation.bytes.is_empty()) {
        let at = stretches.partition_point(|stretch| stretch.end() <= operation.offset);
        stretches[at].apply(operation);
    }
    let mut normal = UpsertBuilder::default();
    for stretch in &stretches {
        stretch.put(Mode::Overwrite, &mut normal, |keep, set| is_overwritten(keep).then_some(set));
    }
    for stretch in &stretches {
        stretch.put(Mode::ZeroBits, &mut normal, |keep, set| {
            Some(!keep & !set).filter(|&zeros| !is_overwritten(keep) && zeros != 0)
        });
    }
    for stretch in &stretches {
        stretch.put(Mode::OneBits, &mut normal, |keep, set| {
            Some(set).filter(|&ones| !is_overwritten(keep) && ones != 0)
        });
    }
    let reached = operations(&normal.0)?.iter().map(|operation| operation.end()).max();
    if reached.unwrap_or(0) < len {
        normal.put_len(len);
    }
    Ok(normal.finish())
}

/// Whether no bit of the older byte is left.
fn is_overwritten(keep: u8) -> bool {
    keep == 0
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Payloads of a few operations on the first bytes of a value.
    pub(in super::super) fn payloads() -> impl Strategy<Value = Vec<u8>> {
        let masks = prop_oneof![Just(0_u8), Just(0xff), any::<u8>()];
        let operation = (0_u8..4, 0_usize..24, prop::collection::vec(masks, 0..8));
        prop::collection::vec(operation, 0..5).prop_map(|operations| {
            let mut builder = UpsertBuilder::default();
            for (mode, offset, bytes) in operations {
                match mode {
                    0 => builder.overwrite(offset, &bytes),
                    1 => builder.zero_bits(offset, &bytes),
                    2 => builder.one_bits(offset, &bytes),
                    _ => builder.extend(offset),
                }
            }
            builder.finish()
        })
    }

    fn after(payload: &[u8], value: &[u8]) -> Vec<u8> {
        let mut value = value.to_vec();
        apply(payload, &mut value).unwrap();
        value
    }

    proptest! {
        #[test]
        fn composing_is_applying_one_after_the_other_and_associative_to_the_byte(
            (a, b, c) in (payloads(), payloads(), payloads()),
            value in prop::collection::vec(any::<u8>(), 0..30),
        ) {
            let composed = compose(&b, &a).unwrap();
            prop_assert_eq!(after(&composed, &value), after(&b, &after(&a, &value)));
            let (left, right) = (compose(&c, &composed).unwrap(), compose(&compose(&c, &b).unwrap(), &a).unwrap());
            prop_assert_eq!(&left, &right);
            prop_assert_eq!(compose(&left, &[]).unwrap(), left, "the normal form is its own");
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = operations(&bytes);
            if let Ok(composed) = compose(&bytes, &bytes) {
                prop_assert!(operations(&composed).is_ok());
            }
        }
    }

    #[test]
    fn an_upsert_does_not_grow_by_operations_on_the_same_bytes() {
        let mut all = Vec::new();
        for n in 0..1000_usize {
            let mut builder = UpsertBuilder::default();
            builder.one_bits(n % 16, &[1 << (n % 8)]);
            builder.overwrite(32 + n % 3, &[n as u8; 8]);
            builder.extend(n % 64);
            all = compose(&builder.finish(), &all).unwrap();
            assert!(all.len() < 64, "{} bytes after {n}", all.len());
        }
        let mut covering = UpsertBuilder::default();
        covering.overwrite(0, &[7; 64]);
        let covering = covering.finish();
        assert_eq!(compose(&covering, &all).unwrap(), covering);
    }

    #[test]
    fn a_write_behind_the_end_fills_the_gap_with_zeros_up_to_the_longest_value() {
        let mut builder = UpsertBuilder::default();
        builder.overwrite(4, &[9]);
        assert_eq!(after(&builder.finish(), &[1, 2]), [1, 2, 0, 0, 9]);
        let mut builder = UpsertBuilder::default();
        builder.one_bits(VALUE_LEN_MAX - 1, &[0]);
        let last = builder.finish();
        assert_eq!(compose(&last, &[]).unwrap(), last);
        let mut behind = last.clone();
        behind.truncate(4);
        behind.extend_from_slice(&[2, 0, 0]);
        assert!(operations(&behind).is_err());
    }
}
