//! A scan: the keys of a range in one state, merged from wherever they are.

use std::ops::Bound;
use std::sync::Arc;

use halite_engine::{Bytes, Direction, Error, KeyRange, KeySpaceId, Result};
use halite_index::{Direction as Way, RadixCursor};

use crate::address::Address;
use crate::global_index::GlobalIndex;
use crate::layer::Layer;
use crate::levels::{self, LevelsIter};
use crate::memtable::Memtable;
use crate::range_deletes::covering;
use crate::read::{from_levels, lost, value};
use crate::record::{Kind, Record};
use crate::sst::{PUT, RangeDelete, RangeDeletes};
use crate::store::Store;
use crate::zones::Zones;

/// A state that is read, and kept readable.
pub(crate) struct ReadAt {
    pub(crate) store: Arc<Store>,
    pub(crate) sequence: u64,
}

impl ReadAt {
    /// What is visible now.
    pub(crate) fn now(store: &Arc<Store>) -> Arc<Self> {
        let sequence = store.snapshots.register(&store.visible);
        Arc::new(Self { store: Arc::clone(store), sequence })
    }
}

impl Drop for ReadAt {
    fn drop(&mut self) {
        self.store.snapshots.unregister(self.sequence);
    }
}

/// The bounds of a key space's range in a tree: keys with their key space before them.
pub(crate) fn bounds(space: KeySpaceId, range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
    let prefix = space.0.to_be_bytes();
    let start = [&prefix, range.start()].concat();
    let end = match range.end() {
        Some(end) => [&prefix, end].concat(),
        None => end_of_space(space).to_vec(),
    };
    (start, end)
}

/// What is behind all keys of a key space.
pub(crate) fn end_of_space(space: KeySpaceId) -> [u8; 4] {
    (space.0 + 1).to_be_bytes()
}

/// A scan of one tree's keys in a state.
pub(crate) struct TreeScan {
    at: Arc<ReadAt>,
    layers: Vec<LayerScan>,
    levels: Option<LevelsScan>,
    /// Range removals in memory.
    deletes: Vec<RangeDelete>,
    direction: Direction,
    failed: bool,
}

/// Where the newest version of a key is.
#[derive(Clone, Copy)]
enum Place {
    Layer(usize),
    Levels,
}

/// A walk over a layer: at most one version a key.
struct LayerScan {
    of: Of,
    cursor: RadixCursor,
    current: Option<Address>,
}

enum Of {
    Memtable(Arc<Memtable>),
    Global(Arc<GlobalIndex>),
}

impl LayerScan {
    fn advance(&mut self) {
        let entry = match &self.of {
            Of::Memtable(memtable) => self.cursor.next(&memtable.index, &**memtable),
            Of::Global(global) => self.cursor.next(&global.index, &**global),
        };
        self.current = entry.map(Address::from_bits);
    }

    fn layer(&self) -> &dyn Layer {
        match &self.of {
            Of::Memtable(memtable) => &**memtable,
            Of::Global(global) => &**global,
        }
    }

    /// The key that comes next.
    fn key(&self) -> Option<&[u8]> {
        Some(self.layer().key(self.current?.to_bits()))
    }

    fn record(&self, address: Address) -> Result<(&Zones, Record<'_>)> {
        let zones = self.layer().zones_of(address).ok_or_else(|| lost(address))?;
        Ok((zones, zones.checked(address)?))
    }
}

/// A walk over the levels: at most one version a key, the newest.
struct LevelsScan {
    iter: LevelsIter,
    deletes: RangeDeletes,
    direction: Direction,
    current: Option<Copied>,
    /// In reverse, the version that was read ahead, of the key before.
    ahead: Option<Copied>,
}

/// A version in the levels.
struct Copied {
    key: Vec<u8>,
    sequence: u64,
    kind: u8,
    value: Vec<u8>,
}

impl LevelsScan {
    fn new(
        store: &Store,
        tree: usize,
        start: &[u8],
        end: &[u8],
        direction: Direction,
        at: u64,
    ) -> Result<Self> {
        let way = match direction {
            Direction::Forward => levels::Direction::Forward,
            Direction::Reverse => levels::Direction::Reverse,
        };
        let iter = store
            .levels
            .iter(tree as u32, (Some(start), Some(end)), way, at)
            .map_err(from_levels)?;
        let deletes = iter.range_deletes().clone();
        let mut scan = Self { iter, deletes, direction, current: None, ahead: None };
        if direction == Direction::Reverse {
            scan.ahead = scan.next()?;
        }
        scan.advance()?;
        Ok(scan)
    }

    fn next(&mut self) -> Result<Option<Copied>> {
        let entry = self.iter.next_entry().map_err(from_levels)?;
        Ok(entry.map(|entry| Copied {
            key: entry.key.to_vec(),
            sequence: entry.sequence,
            kind: entry.kind,
            value: entry.value.to_vec(),
        }))
    }

    fn advance(&mut self) -> Result<()> {
        match self.direction {
            // The newest of a key comes first.
            Direction::Forward => loop {
                let next = self.iter.next_entry().map_err(from_levels)?;
                let Some(next) = next else {
                    self.current = None;
                    return Ok(());
                };
                if self.current.as_ref().is_none_or(|current| current.key != next.key) {
                    let (key, value) = (next.key.to_vec(), next.value.to_vec());
                    let (sequence, kind) = (next.sequence, next.kind);
                    self.current = Some(Copied { key, sequence, kind, value });
                    return Ok(());
                }
            },
            // The newest of a key comes last.
            Direction::Reverse => {
                let Some(mut newest) = self.ahead.take() else {
                    self.current = None;
                    return Ok(());
                };
                while let Some(next) = self.next()? {
                    if next.key != newest.key {
                        self.ahead = Some(next);
                        break;
                    }
                    newest = next;
                }
                self.current = Some(newest);
                Ok(())
            }
        }
    }
}

impl TreeScan {
    /// A scan from `start` up to `end`, both with their key space.
    pub(crate) fn new(
        at: &Arc<ReadAt>,
        tree: usize,
        start: &[u8],
        end: &[u8],
        direction: Direction,
    ) -> Result<Self> {
        let view = at.store.trees[tree].view();
        let way = match direction {
            Direction::Forward => Way::Ascending,
            Direction::Reverse => Way::Descending,
        };
        let (low, high) = (Bound::Included(start), Bound::Excluded(end));
        let mut deletes = Vec::new();
        let mut layers = Vec::new();
        for memtable in view.memtables() {
            deletes.extend(memtable.deletes.all());
            let cursor = memtable.index.cursor(low, high, way, at.sequence);
            layers.push(LayerScan {
                of: Of::Memtable(Arc::clone(memtable)),
                cursor,
                current: None,
            });
        }
        for global in view.global_indexes() {
            deletes.extend(global.deletes.all());
            let cursor = global.index.cursor(low, high, way, at.sequence);
            layers.push(LayerScan { of: Of::Global(Arc::clone(global)), cursor, current: None });
        }
        layers.iter_mut().for_each(LayerScan::advance);
        // The view first: what left it since is in the levels.
        let levels = LevelsScan::new(&at.store, tree, start, end, direction, at.sequence)?;
        Ok(Self {
            at: Arc::clone(at),
            layers,
            levels: Some(levels),
            deletes,
            direction,
            failed: false,
        })
    }

    /// The next key, with its key space, and where its newest version is; the scan stays there.
    fn next_key(&self) -> Option<(Vec<u8>, Place)> {
        let mut first: Option<(Place, &[u8])> = None;
        let layers = self.layers.iter().enumerate();
        let layers = layers.map(|(number, layer)| (Place::Layer(number), layer.key()));
        let current = self.levels.as_ref().and_then(|levels| levels.current.as_ref());
        let below = current.map(|current| (Place::Levels, Some(&current.key[..])));
        for (place, key) in layers.chain(below) {
            let Some(key) = key else { continue };
            let is_first = first.is_none_or(|(_, known)| match self.direction {
                Direction::Forward => key < known,
                Direction::Reverse => key > known,
            });
            if is_first {
                first = Some((place, key));
            }
        }
        first.map(|(place, key)| (key.to_vec(), place))
    }

    /// Goes on behind a key.
    fn pass(&mut self, key: &[u8]) -> Result<()> {
        for layer in &mut self.layers {
            while layer.key().is_some_and(|other| other == key) {
                layer.advance();
            }
        }
        match &mut self.levels {
            Some(levels) if levels.current.as_ref().is_some_and(|current| current.key == key) => {
                levels.advance()
            }
            _ => Ok(()),
        }
    }

    /// The next pair, the key with its key space, or only the key.
    pub(crate) fn next_pair(
        &mut self,
        with_value: bool,
    ) -> Option<Result<(Vec<u8>, Option<Bytes>)>> {
        while !self.failed {
            let (key, place) = self.next_key()?;
            let pair = self.read(place, &key, with_value);
            match pair.and_then(|value| self.pass(&key).map(|()| value)) {
                Ok(Some(value)) => return Some(Ok((key, value))),
                Ok(None) => {}
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    /// The value of the current version there, if it is one; `Some(None)` if it was not asked for.
    fn read(&self, place: Place, key: &[u8], with_value: bool) -> Result<Option<Option<Bytes>>> {
        let removed = covering(&self.deletes, key, self.at.sequence);
        let layer = match place {
            Place::Layer(number) => &self.layers[number],
            Place::Levels => {
                let Some(levels) = &self.levels else { return Ok(None) };
                let removed =
                    removed.max(levels.deletes.covering(key, self.at.sequence).unwrap_or(0));
                let current = levels.current.as_ref();
                let current =
                    current.filter(|version| version.sequence > removed && version.kind == PUT);
                return Ok(
                    current.map(|version| with_value.then(|| Bytes::from(&version.value[..])))
                );
            }
        };
        let Some(address) = layer.current else { return Ok(None) };
        let (zones, record) = layer.record(address)?;
        if record.key() != key {
            return Err(zones.damaged(address, "the index leads to another key"));
        }
        if removed > record.sequence() || record.kind() == Some(Kind::Delete) {
            return Ok(None);
        }
        match with_value {
            true => Ok(value(zones, address, &record)?.map(Some)),
            false => Ok(Some(None)),
        }
    }
}

/// A scan of pairs without their key space.
pub(crate) struct Pairs(pub(crate) std::result::Result<TreeScan, Option<Error>>);

impl Iterator for Pairs {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let scan = match &mut self.0 {
            Ok(scan) => scan,
            Err(error) => return error.take().map(Err),
        };
        let pair = scan.next_pair(true)?;
        Some(pair.and_then(|(key, value)| {
            let value = value.ok_or_else(|| Error::Damaged {
                what: "a scan".into(),
                why: "a version without its value".into(),
            })?;
            Ok((Bytes::from(&key[4..]), value))
        }))
    }
}

impl Store {
    /// Whether anything changed in a range of a tree since a sequence. In a turn, with everything visible.
    pub(crate) fn changed_since(
        self: &Arc<Self>,
        tree: usize,
        start: &[u8],
        end: &[u8],
        then: u64,
    ) -> Result<bool> {
        let at = ReadAt::now(self);
        let mut scan = TreeScan::new(&at, tree, start, end, Direction::Forward)?;
        let overlaps = |delete: &RangeDelete| {
            delete.sequence > then && *delete.start < *end && *start < *delete.end
        };
        let below = scan.levels.iter().flat_map(|levels| levels.deletes.as_slice());
        if scan.deletes.iter().chain(below).any(overlaps) {
            return Ok(true);
        }
        // Removals count: they are versions, too.
        while let Some((key, place)) = scan.next_key() {
            let sequence = match place {
                Place::Layer(number) => {
                    let layer = &scan.layers[number];
                    let Some(address) = layer.current else { break };
                    layer.record(address)?.1.sequence()
                }
                Place::Levels => {
                    let current = scan.levels.as_ref().and_then(|levels| levels.current.as_ref());
                    current.map_or(0, |version| version.sequence)
                }
            };
            if sequence > then {
                return Ok(true);
            }
            scan.pass(&key)?;
        }
        Ok(false)
    }
}
