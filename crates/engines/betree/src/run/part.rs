//! The unit in which a run is read: messages in the order of their keys.
//!
//! ```text
//! ┌────────┬───────┬───────┬─── ─┬──────────────────────┬─────────┬────────────┐
//! │ prefix │ entry │ entry │ ... │ offset of each entry │ entries │ prefix len │
//! └────────┴───────┴───────┴─── ─┴──────────────────────┴─────────┴────────────┘
//!                                  u16, or u32 if bit 31   u32       u32
//!                                  of `prefix len` is set
//! entry:  suffix len << 3 | kind  varint | suffix | payload, up to the next entry
//! ```
//!
//! The prefix is common to all keys. An entry is found by a binary search of the offsets, which reads the keys that it
//! compares and decodes nothing else: about log2(entries) cache lines. The bytes have passed their checksum, and yet
//! each length is checked before it is followed.

use std::cmp::Ordering;
use std::ops::Range;

use halite_codec::{Reader, put_varint};

use crate::message::{Block, HeldMessage, Kind, Message, Parsed, Payload};

const FOOTER: usize = 8;
const WIDE: u32 = 1 << 31;

/// The part's messages in memory.
#[derive(Clone)]
pub(crate) struct Part {
    block: Block,
    prefix_len: usize,
    entries: usize,
    /// Where the offsets begin.
    table: usize,
    is_wide: bool,
}

/// An entry of a part, as ranges of its bytes.
#[derive(Debug, Clone)]
pub(crate) struct EntryRange {
    suffix: Range<usize>,
    kind: Kind,
    payload: Range<usize>,
}

impl Part {
    /// The part that all the bytes are.
    pub(crate) fn new(block: Block) -> Parsed<Self> {
        let footer = block.len().checked_sub(FOOTER).ok_or("it is too short")?;
        let mut reader = Reader(&block[footer..]);
        let (entries, word) = (reader.u32()? as usize, reader.u32()?);
        let (is_wide, prefix_len) = (word & WIDE != 0, (word & !WIDE) as usize);
        let width = if is_wide { 4 } else { 2 };
        let table = entries.checked_mul(width).and_then(|len| footer.checked_sub(len));
        match table {
            Some(table) if entries > 0 && prefix_len <= table => {
                Ok(Self { block, prefix_len, entries, table, is_wide })
            }
            _ => Err("its lengths are not those of a part"),
        }
    }

    /// How many messages it has, at least one.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// The offset of an entry, or of the end of the last one.
    #[inline]
    fn offset(&self, number: usize) -> usize {
        if number == self.entries {
            return self.table;
        }
        let bytes = &self.block[self.table..];
        if self.is_wide {
            let at = 4 * number;
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize
        } else {
            let at = 2 * number;
            usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes")))
        }
    }

    /// The entry of a number below [`Part::len`].
    #[inline]
    pub(crate) fn entry(&self, number: usize) -> Parsed<EntryRange> {
        let (start, end) = (self.offset(number), self.offset(number + 1));
        if start < self.prefix_len || start >= end || end > self.table {
            return Err("its offsets are not in order");
        }
        let mut reader = Reader(&self.block[start..end]);
        let word = reader.varint()?;
        let kind = Kind::of_code((word & 7) as u8)?;
        let len = usize::try_from(word >> 3).map_err(|_| "a key is too long")?;
        let suffix = end - reader.0.len();
        reader.take(len)?;
        Ok(EntryRange { suffix: suffix..suffix + len, kind, payload: suffix + len..end })
    }

    /// Makes `key` the key of an entry.
    #[inline]
    pub(crate) fn read_key(&self, entry: &EntryRange, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.block[..self.prefix_len]);
        key.extend_from_slice(&self.block[entry.suffix.clone()]);
    }

    /// How the key of an entry compares with a key.
    #[inline]
    pub(crate) fn compare(&self, entry: &EntryRange, key: &[u8]) -> Ordering {
        let (start, rest) = key.split_at(self.prefix_len.min(key.len()));
        let of_prefix = self.block[..self.prefix_len].cmp(start);
        of_prefix.then_with(|| self.block[entry.suffix.clone()].cmp(rest))
    }

    /// The message of an entry.
    #[inline]
    pub(crate) fn message(&self, entry: &EntryRange) -> Message<'_> {
        Message { kind: entry.kind, payload: &self.block[entry.payload.clone()] }
    }

    /// The message of an entry, which shares the part's bytes.
    #[inline]
    pub(crate) fn held(&self, entry: &EntryRange) -> HeldMessage {
        let payload = Payload::Shared(self.block.clone(), entry.payload.clone());
        HeldMessage { kind: entry.kind, payload }
    }

    /// How many entries have keys below `key`, and whether the next one has `key`.
    pub(crate) fn search(&self, key: &[u8]) -> Parsed<(usize, bool)> {
        let prefix = &self.block[..self.prefix_len];
        let Some(suffix) = key.strip_prefix(prefix) else {
            return Ok((if key < prefix { 0 } else { self.entries }, false));
        };
        let (mut below, mut above) = (0, self.entries);
        while below < above {
            let middle = below.midpoint(above);
            match self.block[self.entry(middle)?.suffix].cmp(suffix) {
                Ordering::Less => below = middle + 1,
                Ordering::Equal => return Ok((middle, true)),
                Ordering::Greater => above = middle,
            }
        }
        Ok((below, false))
    }
}

/// Builds parts, one after the other.
#[derive(Debug, Default)]
pub(crate) struct PartBuilder {
    /// The key and the payload of each entry, one behind the other.
    bytes: Vec<u8>,
    entries: Vec<(Kind, Range<usize>, Range<usize>)>,
    key_bytes: usize,
    longest_key: usize,
    prefix_len: usize,
}

impl PartBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How long the part would be with one more message, at most.
    pub(crate) fn len_with(&self, key: &[u8], message: Message<'_>) -> usize {
        let prefix_len = if self.is_empty() { key.len() } else { self.common_prefix(key) };
        let payloads = self.bytes.len() - self.key_bytes + message.payload.len();
        let entries = self.entries.len() + 1;
        let suffixes = self.key_bytes + key.len() - entries * prefix_len;
        let head = match self.longest_key.max(key.len()) - prefix_len {
            ..0x10 => 1,
            0x10..0x800 => 2,
            _ => 5,
        };
        let end = prefix_len + suffixes + payloads + entries * head;
        let width = if end > usize::from(u16::MAX) { 4 } else { 2 };
        end + entries * width + FOOTER
    }

    /// How many bytes `key` and all keys have in common.
    fn common_prefix(&self, key: &[u8]) -> usize {
        let Some((_, first, _)) = self.entries.first() else { return key.len() };
        common_prefix(&self.bytes[first.clone()][..self.prefix_len], key)
    }

    /// Appends a message, whose key is above all keys.
    pub(crate) fn add(&mut self, key: &[u8], message: Message<'_>) {
        self.prefix_len = self.common_prefix(key);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(message.payload);
        let suffix = start..start + key.len();
        self.entries.push((message.kind, suffix.clone(), suffix.end..self.bytes.len()));
        self.key_bytes += key.len();
        self.longest_key = self.longest_key.max(key.len());
    }

    /// Makes `to` the part of all messages, and begins the next one.
    pub(crate) fn finish(&mut self, to: &mut Vec<u8>) {
        let first = &self.entries.first().expect("a part has a message").1;
        to.clear();
        to.extend_from_slice(&self.bytes[first.clone()][..self.prefix_len]);
        let mut offsets = Vec::with_capacity(self.entries.len());
        for (kind, key, payload) in &self.entries {
            offsets.push(to.len() as u32);
            let suffix = &self.bytes[key.start + self.prefix_len..key.end];
            put_varint(to, (suffix.len() as u64) << 3 | *kind as u64);
            to.extend_from_slice(suffix);
            to.extend_from_slice(&self.bytes[payload.clone()]);
        }
        let is_wide = offsets.last().is_some_and(|&offset| offset > u32::from(u16::MAX));
        for offset in &offsets {
            match is_wide {
                true => to.extend_from_slice(&offset.to_le_bytes()),
                false => to.extend_from_slice(&(*offset as u16).to_le_bytes()),
            }
        }
        to.extend_from_slice(&(offsets.len() as u32).to_le_bytes());
        let word = self.prefix_len as u32 | if is_wide { WIDE } else { 0 };
        to.extend_from_slice(&word.to_le_bytes());
        self.clear();
    }

    /// Begins the next part without the messages so far.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        (self.key_bytes, self.longest_key) = (0, 0);
    }
}

/// How many bytes two keys have in common at their start.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use halite_codec::Plain;
    use proptest::prelude::*;

    use super::*;

    fn part(bytes: &[u8]) -> Parsed<Part> {
        Part::new(Block::Cached(Plain::from(bytes)))
    }

    proptest! {
        #[test]
        fn a_part_has_the_messages_that_it_was_built_of(
            messages in prop::collection::btree_map(
                prop::collection::vec(b'a'..b'd', 0..6),
                (0_u8..6, prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..9), 1 => Just(vec![7; 40_000])]),
                1..30,
            ),
            sought in prop::collection::vec(prop::collection::vec(b'a'..b'e', 0..6), 10),
            flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4),
        ) {
            let (mut builder, mut bytes, mut limit) = (PartBuilder::default(), Vec::new(), 0);
            for (key, (code, payload)) in &messages {
                let message = Message { kind: Kind::of_code(*code).unwrap(), payload };
                limit = builder.len_with(key, message);
                builder.add(key, message);
            }
            builder.finish(&mut bytes);
            prop_assert!(bytes.len() <= limit);
            let built = part(&bytes).unwrap();
            prop_assert_eq!(built.len(), messages.len());
            let mut key = Vec::new();
            for (number, (expected, (code, payload))) in messages.iter().enumerate() {
                let entry = built.entry(number).unwrap();
                built.read_key(&entry, &mut key);
                prop_assert_eq!(&key, expected);
                for other in &sought {
                    prop_assert_eq!(built.compare(&entry, other), key.cmp(other));
                }
                let message = built.message(&entry);
                prop_assert_eq!((message.kind as u8, message.payload), (*code, &payload[..]));
                let held = built.held(&entry);
                prop_assert_eq!(held.message(), built.message(&entry));
            }
            for key in sought.iter().chain(messages.keys()) {
                let below = messages.range(..key.clone()).count();
                prop_assert_eq!(built.search(key).unwrap(), (below, messages.contains_key(key)));
            }
            for (at, byte) in flips {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let Ok(damaged) = part(&bytes) else { return Ok(()) };
            for number in 0..damaged.len().min(100) {
                if let Ok(entry) = damaged.entry(number) {
                    damaged.read_key(&entry, &mut key);
                    let _ = damaged.message(&entry);
                }
            }
            let _ = damaged.search(b"abc");
        }
    }

    #[test]
    fn common_bytes_of_keys_are_stored_once() {
        let (mut builder, mut bytes) = (PartBuilder::default(), Vec::new());
        let keys: BTreeMap<Vec<u8>, ()> =
            (0..100_u8).map(|n| ([&[9; 50][..], &[n]].concat(), ())).collect();
        keys.keys().for_each(|key| builder.add(key, Message::DELETE));
        builder.finish(&mut bytes);
        assert_eq!(bytes.len(), 50 + 100 * (1 + 1 + 2) + FOOTER);
    }
}
