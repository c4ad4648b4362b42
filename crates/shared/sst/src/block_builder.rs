//! Builds blocks of entries, in which a key is stored as its difference from the one before.
//!
//! ```text
//! entry, for each:
//!   shared    varint   bytes that the key has in common with the key of the entry before
//!   rest      varint   bytes of the key behind those
//!   value     varint   bytes of the value
//!   key       rest bytes
//!   word      u64      sequence << 8 | kind
//!   value
//! restarts:
//!   offset    u32      for each: where an entry begins that shares nothing, so that a search can start there
//!   count     u32      of restarts
//! ```

use halite_codec::put_varint;

use crate::entry::{Entry, order, pack};

/// Collects entries in their order.
pub struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    interval: usize,
    since_restart: usize,
    last_key: Vec<u8>,
    last_sequence: u64,
    /// Whether the restarts are behind the entries.
    is_finished: bool,
}

impl BlockBuilder {
    /// A block in which every `interval`-th entry is a restart.
    ///
    /// # Panics
    /// If `interval` is 0.
    #[must_use]
    pub fn new(interval: usize) -> Self {
        assert!(interval > 0);
        Self {
            bytes: Vec::new(),
            restarts: Vec::new(),
            interval,
            since_restart: interval,
            last_key: Vec::new(),
            last_sequence: 0,
            is_finished: false,
        }
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If the entry does not come behind the one before, or the block is finished: searches would not find it.
    pub fn add(&mut self, entry: Entry<'_>) {
        assert!(!self.is_finished, "an entry is added to a block that is finished");
        let last = (&self.last_key[..], self.last_sequence);
        assert!(
            self.is_empty() || order(last, (entry.key, entry.sequence)).is_lt(),
            "entries are added in their order"
        );
        let mut shared = 0;
        if self.since_restart == self.interval {
            self.since_restart = 0;
            self.restarts.push(u32::try_from(self.bytes.len()).expect("a block is below 1 GiB"));
        } else {
            shared = common_prefix(&self.last_key, entry.key);
        }
        self.since_restart += 1;
        let rest = &entry.key[shared..];
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, rest.len() as u64);
        put_varint(&mut self.bytes, entry.value.len() as u64);
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(&pack(entry.sequence, entry.kind).to_le_bytes());
        self.bytes.extend_from_slice(entry.value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(rest);
        self.last_sequence = entry.sequence;
    }

    /// Whether it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// How long the block would be, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        let restarts = 4 * self.restarts.len() + 4;
        self.bytes.len() + if self.is_finished { 0 } else { restarts }
    }

    /// How long the block would be at most with another entry.
    #[must_use]
    pub fn len_with(&self, entry: Entry<'_>) -> usize {
        const VARINTS: usize = 15;
        let restart = 4;
        self.len() + VARINTS + entry.key.len() + size_of::<u64>() + entry.value.len() + restart
    }

    /// The block's bytes; [`BlockBuilder::clear`] begins the next one.
    pub fn finish(&mut self) -> &[u8] {
        if self.is_finished {
            return &self.bytes;
        }
        self.is_finished = true;
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.bytes.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.bytes
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        // A buffer that a value of hundreds of megabytes needed is not kept for blocks of 4 KiB.
        if self.bytes.len() > 1 << 20 {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.restarts.clear();
        self.last_key.clear();
        self.is_finished = false;
        self.since_restart = self.interval;
    }
}

/// How many bytes two keys begin with alike.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const WORD: usize = 8;
    let words = a.chunks_exact(WORD).zip(b.chunks_exact(WORD)).take_while(|(a, b)| a == b).count();
    let start = words * WORD;
    start + a[start..].iter().zip(&b[start..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::PUT;

    fn entry(key: &[u8], sequence: u64) -> Entry<'_> {
        Entry { key, sequence, kind: PUT, value: b"value" }
    }

    #[test]
    fn a_block_is_finished_once_and_begun_anew() {
        let mut builder = BlockBuilder::new(2);
        builder.add(entry(b"a", 2));
        builder.add(entry(b"a", 1));
        let len = builder.len();
        assert_eq!(builder.finish().len(), len);
        assert_eq!((builder.finish().len(), builder.len()), (len, len));
        builder.clear();
        builder.add(entry(b"a", 2));
    }

    #[test]
    #[should_panic(expected = "finished")]
    fn nothing_is_added_to_a_block_that_is_finished() {
        let mut builder = BlockBuilder::new(2);
        builder.add(entry(b"a", 2));
        builder.finish();
        builder.add(entry(b"b", 1));
    }

    #[test]
    #[should_panic(expected = "in their order")]
    fn an_older_version_is_not_added_before_a_newer_one() {
        let mut builder = BlockBuilder::new(2);
        builder.add(entry(b"a", 1));
        builder.add(entry(b"a", 2));
    }
}
