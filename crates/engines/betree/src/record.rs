//! Changes, as the log has them.
//!
//! A batch is its changes, one behind the other, each with a sequence of its own:
//!
//! ```text
//! kind     u8
//! key      varint length, bytes   the dataset, 4 bytes big-endian, before the key
//! payload  varint length, bytes   of a range delete, the key behind the range; of a message, its payload
//! ```
//!
//! A change of the catalogue is a change of a key of dataset 0 (`catalogue.rs`).

use halite_codec::{Reader, put_bytes};

use crate::message::Kind;

/// Bytes of the dataset before a key.
pub(crate) const DATASET: usize = 4;

/// The kind of a change that removes a range of keys. Other kinds are those of messages.
pub(crate) const RANGE_DELETE: u8 = 64;

/// A change of a key, or a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub(crate) kind: u8,
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// The changes of a commit, encoded.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    changes: u32,
    /// The key that is being put together.
    key: Vec<u8>,
}

/// A place between two changes of a batch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mark {
    len: usize,
    changes: u32,
}

impl Batch {
    /// Adds a message for a key.
    pub(crate) fn push(&mut self, dataset: u32, kind: Kind, key: &[u8], payload: &[u8]) {
        self.push_raw(dataset, kind as u8, key, payload);
    }

    /// Adds the removal of the keys from `start` on, below `end`.
    pub(crate) fn push_range(&mut self, dataset: u32, start: &[u8], end: Option<&[u8]>) {
        let mut behind = dataset.to_be_bytes().to_vec();
        match end {
            Some(end) => behind.extend_from_slice(end),
            None => behind = end_of(dataset).to_vec(),
        }
        self.push_raw(dataset, RANGE_DELETE, start, &behind);
    }

    fn push_raw(&mut self, dataset: u32, kind: u8, key: &[u8], payload: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(&dataset.to_be_bytes());
        self.key.extend_from_slice(key);
        self.bytes.push(kind);
        put_bytes(&mut self.bytes, &self.key);
        put_bytes(&mut self.bytes, payload);
        self.changes += 1;
    }

    /// The number of changes, which take a sequence each.
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    /// The encoded changes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The end of the changes so far.
    pub(crate) fn mark(&self) -> Mark {
        Mark { len: self.bytes.len(), changes: self.changes }
    }

    /// Forgets the changes behind a mark.
    pub(crate) fn rewind(&mut self, to: Mark) {
        self.bytes.truncate(to.len);
        self.changes = to.changes;
    }
}

/// The first key behind a dataset.
pub(crate) fn end_of(dataset: u32) -> [u8; DATASET] {
    (dataset + 1).to_be_bytes()
}

/// A key of a dataset.
pub(crate) fn full_key(dataset: u32, key: &[u8]) -> Vec<u8> {
    [&dataset.to_be_bytes(), key].concat()
}

/// The dataset of a key.
pub(crate) fn dataset_of(key: &[u8]) -> Option<(u32, &[u8])> {
    let (dataset, key) = key.split_first_chunk::<DATASET>()?;
    Some((u32::from_be_bytes(*dataset), key))
}

/// Reads the changes of an encoded batch. Each is an error if the bytes are none.
pub(crate) struct Changes<'a>(Reader<'a>);

impl<'a> Changes<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(Reader(bytes))
    }

    fn change(&mut self) -> halite_codec::Result<Change<'a>> {
        let kind = self.0.u8()?;
        Ok(Change { kind, key: self.0.bytes()?, payload: self.0.bytes()? })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = halite_codec::Result<Change<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let change = self.change();
        if change.is_err() {
            self.0 = Reader(&[]);
        }
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_were_pushed() {
        let mut batch = Batch::default();
        batch.push(7, Kind::Insert, b"key", b"value");
        batch.push_range(7, b"a", Some(b"b"));
        batch.push_range(7, b"a", None);
        assert_eq!(batch.changes(), 3);
        let changes: Vec<_> = Changes::of(batch.bytes()).map(Result::unwrap).collect();
        let key = |key: &[u8]| full_key(7, key);
        assert_eq!(changes[0].key, key(b"key"));
        assert_eq!((changes[0].kind, changes[0].payload), (Kind::Insert as u8, &b"value"[..]));
        assert_eq!((changes[1].key, changes[1].payload), (&key(b"a")[..], &key(b"b")[..]));
        assert_eq!(changes[2].payload, end_of(7));
        assert_eq!(dataset_of(changes[0].key), Some((7, &b"key"[..])));
        for len in 0..batch.bytes().len() {
            assert!(Changes::of(&batch.bytes()[..len]).count() <= 3);
        }
    }
}
