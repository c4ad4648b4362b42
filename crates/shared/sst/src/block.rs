//! Reads blocks: `block_builder` has their format.
//!
//! A block's checksum was right, and yet its lengths may be forged: all of them are checked, and an error is reported
//! by a reason, to which the reader of the table adds the place.

use std::cmp::Ordering;
use std::ops::Range;

use halite_codec::{Plain, Reader};

use crate::Parsed;
use crate::entry::{Entry, Value, order, unpack};

/// Bytes of a restart's offset, and of their count.
const RESTART: usize = 4;

/// Bytes of keys that a cursor remembers to go back to, and one key.
const BEFORE_MAX: usize = 256 << 10;

/// A block of entries.
#[derive(Clone)]
pub struct Block {
    bytes: Plain,
    /// Where the entries end and the restarts begin.
    end: usize,
    restarts: usize,
}

/// An entry as it stands in the bytes.
struct Raw {
    at: usize,
    shared: usize,
    key: Range<usize>,
    sequence: u64,
    kind: u8,
    value: Range<usize>,
}

impl Block {
    /// A block of these bytes.
    ///
    /// # Errors
    /// The reason why they are no block.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        Self::new(bytes.into())
    }

    pub(crate) fn new(bytes: Plain) -> Parsed<Self> {
        let restarts_end = bytes.len().checked_sub(RESTART).ok_or("the block is too short")?;
        let restarts = u32::from_le_bytes(bytes[restarts_end..].try_into().expect("4 bytes"));
        let end =
            (restarts as usize).checked_mul(RESTART).and_then(|len| restarts_end.checked_sub(len));
        let end = end.ok_or("the block has no room for its restarts")?;
        let block = Self { bytes, end, restarts: restarts as usize };
        let first = if block.restarts == 0 { block.end } else { block.restart(0) };
        if first != 0 {
            return Err("the block's first entry is no restart");
        }
        Ok(block)
    }

    /// Offset of a restart; at the end of the entries or beyond if it is damaged.
    #[inline]
    fn restart(&self, number: usize) -> usize {
        let at = self.end + RESTART * number;
        u32::from_le_bytes(self.bytes[at..at + RESTART].try_into().expect("4 bytes")) as usize
    }

    #[inline]
    fn raw(&self, at: usize) -> Parsed<Raw> {
        let entries = &self.bytes[..self.end];
        let mut reader = Reader(entries.get(at..).ok_or("an entry lies behind the block's end")?);
        // Three lengths below 128 are the rule.
        let (shared, rest, value) = match reader.0 {
            [shared @ ..0x80, rest @ ..0x80, value @ ..0x80, left @ ..] => {
                let lens = (usize::from(*shared), usize::from(*rest), usize::from(*value));
                reader.0 = left;
                lens
            }
            _ => {
                let mut len = || reader.varint_u32().map(|len| len as usize);
                (len()?, len()?, len()?)
            }
        };
        let start = self.end - reader.0.len();
        reader.take(rest)?;
        let (sequence, kind) = unpack(reader.u64()?);
        reader.take(value)?;
        let end = self.end - reader.0.len();
        Ok(Raw { at, shared, key: start..start + rest, sequence, kind, value: end - value..end })
    }

    /// The key, and the sequence number, of a restart.
    #[inline]
    fn restart_key(&self, number: usize) -> Parsed<(&[u8], u64)> {
        let raw = self.raw(self.restart(number))?;
        if raw.shared != 0 {
            return Err("a restart shares bytes of the key before it");
        }
        Ok((&self.bytes[raw.key], raw.sequence))
    }
}

/// A position in a block: at an entry, or at none.
///
/// A new one is at none, and so is one that was moved beyond either end. Moving one that is at none, but
/// by seeking, leaves it there.
pub struct BlockCursor {
    block: Block,
    /// Where the entry begins.
    at: usize,
    key: Vec<u8>,
    sequence: u64,
    kind: u8,
    value: Range<usize>,
    is_at_entry: bool,
    /// The entries before this one from its restart on, if they were read on the way to it: a cursor that went back
    /// mostly goes further back.
    before: Vec<Raw>,
    /// Their keys, one behind the other: that is where the `key` of each is.
    before_keys: Vec<u8>,
}

impl BlockCursor {
    /// A cursor at no entry of a block.
    #[must_use]
    pub fn new(block: Block) -> Self {
        Self {
            block,
            at: 0,
            key: Vec::with_capacity(64),
            sequence: 0,
            kind: 0,
            value: 0..0,
            is_at_entry: false,
            before: Vec::new(),
            before_keys: Vec::new(),
        }
    }

    /// At no entry of a block that has none.
    pub(crate) fn empty() -> Self {
        Self::new(Block::new(Plain::from(&[0; RESTART][..])).expect("a block without entries"))
    }

    /// Goes to another block, and to none of its entries.
    pub fn enter(&mut self, block: Block) {
        self.block = block;
        self.is_at_entry = false;
        self.before.clear();
    }

    /// Leaves the entry.
    pub(crate) fn leave(&mut self) {
        self.is_at_entry = false;
    }

    /// The entry that it is at.
    #[must_use]
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.is_at_entry.then(|| Entry {
            key: &self.key,
            sequence: self.sequence,
            kind: self.kind,
            value: &self.block.bytes[self.value.clone()],
        })
    }

    /// The value of the entry that it is at, shared with the block.
    pub(crate) fn value(&self) -> Value {
        assert!(self.is_at_entry, "at an entry");
        Value { block: self.block.bytes.clone(), range: self.value.clone() }
    }

    /// Reads the entry at `at`, the entry before it having been read, or `at` being a restart.
    #[inline]
    fn read(&mut self, at: usize) -> Parsed<()> {
        self.is_at_entry = false;
        if at == self.block.end {
            return Ok(());
        }
        let raw = self.block.raw(at)?;
        if raw.shared > self.key.len() {
            return Err("an entry shares more of a key than there is");
        }
        self.key.truncate(raw.shared);
        self.key.extend_from_slice(&self.block.bytes[raw.key]);
        (self.at, self.sequence, self.kind, self.value) = (at, raw.sequence, raw.kind, raw.value);
        self.is_at_entry = true;
        Ok(())
    }

    fn read_restart(&mut self, number: usize) -> Parsed<()> {
        self.key.clear();
        self.read(self.block.restart(number))
    }

    /// Goes to the first entry.
    ///
    /// # Errors
    /// The reason why the block is damaged; so for the other moves.
    pub fn first(&mut self) -> Result<(), &'static str> {
        self.is_at_entry = false;
        if self.block.restarts > 0 { self.read_restart(0) } else { Ok(()) }
    }

    /// Goes to the last entry.
    ///
    /// # Errors
    /// See [`BlockCursor::first`].
    pub fn last(&mut self) -> Result<(), &'static str> {
        self.is_at_entry = false;
        match self.block.restarts.checked_sub(1) {
            Some(number) => self.read_until(number, self.block.end),
            None => Ok(()),
        }
    }

    /// Reads from a restart on, up to the entry that ends at `end`.
    fn read_until(&mut self, restart: usize, end: usize) -> Parsed<()> {
        self.before.clear();
        self.before_keys.clear();
        self.read_restart(restart)?;
        while self.is_at_entry && self.value.end < end {
            self.remember();
            self.read(self.value.end)?;
        }
        if self.is_at_entry && self.value.end == end {
            return Ok(());
        }
        self.is_at_entry = false;
        Err("its restarts do not fit its entries")
    }

    /// Adds the entry that it is at to those before the one that it goes to.
    fn remember(&mut self) {
        // Only a forged block has so many between two restarts.
        if self.before_keys.len() > BEFORE_MAX {
            self.before.clear();
            self.before_keys.clear();
        }
        let start = self.before_keys.len();
        self.before_keys.extend_from_slice(&self.key);
        let key = start..self.before_keys.len();
        let &mut Self { at, sequence, kind, .. } = self;
        self.before.push(Raw { at, shared: 0, key, sequence, kind, value: self.value.clone() });
    }

    /// Goes to the next entry.
    ///
    /// # Errors
    /// See [`BlockCursor::first`].
    #[inline]
    pub fn forward(&mut self) -> Result<(), &'static str> {
        if self.is_at_entry { self.read(self.value.end) } else { Ok(()) }
    }

    /// Goes to the entry before.
    ///
    /// # Errors
    /// See [`BlockCursor::first`].
    pub fn backward(&mut self) -> Result<(), &'static str> {
        if !self.is_at_entry || self.at == 0 {
            self.is_at_entry = false;
            return Ok(());
        }
        let at = self.at;
        if let Some(raw) = self.before.pop_if(|raw| raw.value.end == at) {
            self.key.clear();
            self.key.extend_from_slice(&self.before_keys[raw.key.clone()]);
            self.before_keys.truncate(raw.key.start);
            (self.at, self.sequence, self.kind) = (raw.at, raw.sequence, raw.kind);
            self.value = raw.value;
            return Ok(());
        }
        // The last restart before it: the entry before it is between the two.
        let (mut below, mut above) = (0, self.block.restarts);
        while above - below > 1 {
            let middle = below.midpoint(above);
            if self.block.restart(middle) < at { below = middle } else { above = middle }
        }
        self.read_until(below, at)
    }

    /// Goes to the first entry that is not before a version.
    ///
    /// # Errors
    /// See [`BlockCursor::first`].
    pub fn seek(&mut self, key: &[u8], sequence: u64) -> Result<(), &'static str> {
        self.is_at_entry = false;
        if self.block.restarts == 0 {
            return Ok(());
        }
        let (mut below, mut above) = (0, self.block.restarts);
        while above - below > 1 {
            let middle = below.midpoint(above);
            match order(self.block.restart_key(middle)?, (key, sequence)) {
                Ordering::Less => below = middle,
                _ => above = middle,
            }
        }
        self.read_restart(below)?;
        while let Some(entry) = self.entry()
            && entry.order(key, sequence).is_lt()
        {
            self.read(self.value.end)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block_builder::BlockBuilder;
    use crate::entry::PUT;

    fn entries() -> impl Strategy<Value = Vec<(Vec<u8>, u64, Vec<u8>)>> {
        let key = prop::collection::vec(0_u8..4, 0..12);
        let value =
            prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..9), 1 => Just(vec![9; 300])];
        prop::collection::vec((key, 0_u64..9, value), 0..80).prop_map(|mut entries| {
            entries.sort_by(|a, b| order((&a.0, a.1), (&b.0, b.1)));
            entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
            entries
        })
    }

    fn built(entries: &[(Vec<u8>, u64, Vec<u8>)], interval: usize) -> Vec<u8> {
        let mut builder = BlockBuilder::new(interval);
        for (key, sequence, value) in entries {
            builder.add(Entry { key, sequence: *sequence, kind: PUT, value });
        }
        let len = builder.len();
        assert_eq!(builder.finish().len(), len);
        builder.finish()[..len].to_vec()
    }

    proptest! {
        /// Whatever way a cursor is moved, it is where a position in the list of entries would be.
        #[test]
        fn a_cursor_is_a_position_in_the_list_of_entries(
            entries in entries(),
            interval in 1_usize..20,
            moves in prop::collection::vec((0_u8..6, prop::collection::vec(0_u8..4, 0..12), 0_u64..9), 0..60),
        ) {
            let mut cursor = BlockCursor::new(Block::from_bytes(&built(&entries, interval)).unwrap());
            let mut at: Option<usize> = None;
            for (choice, key, sequence) in moves {
                match choice {
                    0 => {
                        cursor.first().unwrap();
                        at = Some(0);
                    }
                    1 => {
                        cursor.last().unwrap();
                        at = entries.len().checked_sub(1);
                    }
                    2 => {
                        cursor.seek(&key, sequence).unwrap();
                        let before = |e: &(Vec<u8>, u64, Vec<u8>)| order((&e.0, e.1), (&key, sequence)).is_lt();
                        at = Some(entries.partition_point(before));
                    }
                    3 | 4 => {
                        cursor.forward().unwrap();
                        at = at.map(|at| at + 1);
                    }
                    _ => {
                        cursor.backward().unwrap();
                        at = at.and_then(|at| at.checked_sub(1));
                    }
                }
                at = at.filter(|at| *at < entries.len());
                let is = cursor.entry().map(|e| (e.key.to_vec(), e.sequence, e.value.to_vec()));
                prop_assert_eq!(is, at.map(|at| entries[at].clone()));
            }
        }

        /// Bytes that nobody checked are walked through without a panic, and without end by none.
        #[test]
        fn damaged_blocks_are_walked_without_panic(
            entries in entries(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = built(&entries, 4);
            for (at, byte) in flips {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let Ok(block) = Block::from_bytes(&bytes) else { return Ok(()) };
            let mut cursor = BlockCursor::new(block);
            let mut left = bytes.len();
            if cursor.first().is_ok() {
                while cursor.entry().is_some() && cursor.forward().is_ok() {
                    left = left.checked_sub(1).expect("an end");
                }
            }
            let _ = cursor.seek(&[2, 2], 4);
            if cursor.last().is_ok() {
                while cursor.entry().is_some() && cursor.backward().is_ok() {
                    left = (left + bytes.len()).checked_sub(1).expect("an end");
                }
            }
        }
    }
}
