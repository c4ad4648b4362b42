//! Scans of a past state: the rows of a range in chunks, with the values that were replaced since.
//!
//! Each chunk is read while its partition is locked, so that a scan holds nothing between two of them; its reader keeps
//! what is replaced meanwhile ([`versions`](super::versions)). Chunks begin small and grow: a scan that ends soon reads
//! little more than it returns. The scans of several partitions are merged.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::{Bytes, Direction, KeyRange, Result, Scan};

use super::pairs::Pairs;
use super::space::Space;
use super::store::Store;
use super::versions::Reader;
use crate::index;

/// Bytes of the first chunk, and of the largest one; a chunk has one pair at least.
const CHUNK: usize = 4 << 10;
const CHUNK_MAX: usize = 256 << 10;

/// The pairs of a chunk, and the last key that it covers, unless it covers all that is left.
type Chunk = (BTreeMap<Vec<u8>, Bytes>, Option<Vec<u8>>);

/// The scan of one partition.
pub(super) struct PartScan {
    store: Arc<Store>,
    reader: Arc<Reader>,
    space: Arc<Space>,
    partition: usize,
    /// The part that is not read yet.
    range: KeyRange,
    direction: Direction,
    chunk: VecDeque<(Bytes, Bytes)>,
    chunk_bytes: usize,
}

impl PartScan {
    pub(super) fn new(
        store: &Arc<Store>,
        reader: &Arc<Reader>,
        space: &Arc<Space>,
        partition: usize,
        (range, direction): (KeyRange, Direction),
    ) -> Self {
        let (store, reader, space) = (store.clone(), reader.clone(), space.clone());
        let (chunk, chunk_bytes) = (VecDeque::new(), CHUNK);
        Self { store, reader, space, partition, range, direction, chunk, chunk_bytes }
    }

    /// Reads the next chunk.
    fn read(&mut self) -> Result<()> {
        let (pairs, limit) = self.store.read_partition(self.partition, |tx| {
            let pairs = Pairs::new(tx, self.partition, &self.space.tables[self.partition]);
            self.chunk_of(pairs)
        })?;
        let end = || self.range.end().map(<[u8]>::to_vec);
        self.range = match (limit, self.direction) {
            (None, _) => KeyRange::new("", Some(Vec::new())),
            (Some(limit), Direction::Forward) => KeyRange::new([&limit, &[0][..]].concat(), end()),
            (Some(limit), Direction::Reverse) => KeyRange::new(self.range.start(), Some(limit)),
        };
        self.chunk.extend(pairs.into_iter().map(|(key, value)| (key.into(), value)));
        if self.direction == Direction::Reverse {
            self.chunk.make_contiguous().reverse();
        }
        self.chunk_bytes = (4 * self.chunk_bytes).min(CHUNK_MAX);
        Ok(())
    }

    /// The next chunk.
    fn chunk_of(&self, mut pairs: Pairs<'_, '_>) -> Result<Chunk> {
        let (mut chunk, mut bytes, mut limit) = (BTreeMap::new(), 0, None);
        pairs.scan(&self.range, direction_of(self.direction), |(key, value)| {
            bytes += key.len() + value.len();
            let is_full = bytes >= self.chunk_bytes;
            limit = is_full.then(|| key.clone());
            chunk.insert(key, Bytes::from(value));
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let place = (self.space.id, self.partition);
        let (replaced, has_more) =
            self.reader.replaced_in(place, &self.range, self.direction, self.chunk_bytes);
        let last = replaced.last().filter(|_| has_more).map(|(key, _)| key.clone());
        let limit = match (limit, last) {
            (Some(one), Some(other)) if self.is_before(&other, &one) => Some(other),
            (one, other) => one.or(other),
        };
        for (key, before) in replaced {
            match before {
                Some(value) => chunk.insert(key, value),
                None => chunk.remove(&key),
            };
        }
        if let Some(limit) = &limit {
            chunk.retain(|key, _| !self.is_before(limit, key));
        }
        Ok((chunk, limit))
    }

    fn is_before(&self, a: &[u8], b: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => a < b,
            Direction::Reverse => a > b,
        }
    }
}

impl Iterator for PartScan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.chunk.is_empty() && !self.range.is_empty() {
            if let Err(error) = self.read() {
                self.range = KeyRange::new("", Some(Vec::new()));
                return Some(Err(error));
            }
        }
        self.chunk.pop_front().map(Ok)
    }
}

/// The scans of all partitions, as one.
struct Merged {
    parts: Vec<Peekable<PartScan>>,
    direction: Direction,
}

impl Iterator for Merged {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut first = None;
        for at in 0..self.parts.len() {
            let (before, part) = self.parts.split_at_mut(at);
            let Some(next) = part[0].peek() else { continue };
            let is_first = match first {
                None => true,
                Some(first) => {
                    let first: &mut Peekable<PartScan> = &mut before[first];
                    first.peek().is_none_or(|first| self.direction.is_before(next, first))
                }
            };
            if is_first {
                first = Some(at);
            }
        }
        self.parts[first?].next()
    }
}

/// The scan of a range in all partitions, as a reader sees it.
pub(super) fn scan(
    store: &Arc<Store>,
    reader: &Arc<Reader>,
    space: &Arc<Space>,
    range: &KeyRange,
    direction: Direction,
) -> Scan {
    let part = |number| PartScan::new(store, reader, space, number, (range.clone(), direction));
    match store.testbed.partitions() {
        1 => Box::new(part(0)),
        count => Box::new(Merged {
            parts: (0..count).map(|at| part(at).peekable()).collect(),
            direction,
        }),
    }
}

pub(super) fn direction_of(direction: Direction) -> index::Direction {
    match direction {
        Direction::Forward => index::Direction::Forward,
        Direction::Reverse => index::Direction::Reverse,
    }
}
