//! A scan: the keys of a range in one state, merged from memory and the levels.

use std::ops::Bound;
use std::sync::Arc;

use halite_contract::{Bytes, Direction, KeyRange, KeySpaceId, Result};
use halite_index::{Direction as Way, RadixCursor};
use halite_sst::{PUT, PUT_FILE, ValueRef};
use smallvec::SmallVec;

use crate::address::Address;
use crate::cost;
use crate::failure::{from_levels, gone, lost};
use crate::global_index::GlobalIndex;
use crate::layer::Layer;
use crate::levels::{self, LevelsIter};
use crate::memtable::Memtable;
use crate::record::{Kind, Record};
use crate::store::Store;
use crate::version::{Stored, file_of_entry, stored};
use crate::zones::Zones;
use halite_index::Coverage;

/// A state that is read, and kept readable.
pub(crate) struct ReadAt {
    pub(crate) store: Arc<Store>,
    pub(crate) sequence: u64,
    /// The sequence that is registered for this reader: its own, or an earlier one, whose versions are kept too.
    registered: u64,
}

impl ReadAt {
    /// The state that is visible now.
    pub(crate) fn now(store: &Arc<Store>) -> Arc<Self> {
        let sequence = store.snapshots.register(store.commits.visible_word());
        Arc::new(Self { store: Arc::clone(store), sequence, registered: sequence })
    }

    /// The state that a batch changes, in its turn, with all earlier ones committed: it may not be visible yet, and has
    /// the newest versions of all keys, which are always kept.
    pub(crate) fn in_turn(store: &Arc<Store>) -> Arc<Self> {
        let registered = store.snapshots.register(store.commits.visible_word());
        let sequence = store.commits.granted();
        Arc::new(Self { store: Arc::clone(store), sequence, registered })
    }
}

impl Drop for ReadAt {
    fn drop(&mut self) {
        self.store.snapshots.unregister(self.registered);
        self.store.let_values_go();
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

/// The bound behind all keys of a key space.
pub(crate) fn end_of_space(space: KeySpaceId) -> [u8; 4] {
    (space.0 + 1).to_be_bytes()
}

/// A scan of one tree's keys in a state.
///
/// Its sources are the layers, the newest first, and behind them the levels. A key's newest version is that of
/// the first source that has one.
pub(crate) struct TreeScan {
    /// Keeps the state readable.
    at: Arc<ReadAt>,
    layers: Vec<LayerScan>,
    levels: LevelsScan,
    /// The sources that are at a key, in the order of their keys; where they are equal, the first source first.
    order: SmallVec<[usize; 8]>,
    /// The ranges that range removals in memory cover, of each layer that has any.
    coverages: SmallVec<[Coverage; 2]>,
    direction: Direction,
    /// Whether the first key was returned, and is to be passed: only a request for another pair pays for the way to
    /// it.
    is_told: bool,
    failed: bool,
}

/// A walk over a layer: at most one version a key.
struct LayerScan {
    of: Of,
    cursor: RadixCursor,
    current: Option<Address>,
    /// The key that was noted last, of a record that is not checked yet.
    key: Vec<u8>,
}

enum Of {
    Memtable(Arc<Memtable>),
    Global(Arc<GlobalIndex>),
}

impl Of {
    fn zones(&self, address: Address) -> Option<&Zones> {
        match self {
            Self::Memtable(memtable) => memtable.zones_of(address),
            Self::Global(global) => global.zones_of(address),
        }
    }
}

impl LayerScan {
    /// Begins at the first key.
    fn new(of: Of, cursor: RadixCursor) -> Self {
        let mut scan = Self { of, cursor, current: None, key: Vec::new() };
        scan.advance();
        scan
    }

    fn advance(&mut self) {
        let entry = match &self.of {
            Of::Memtable(memtable) => self.cursor.next(&memtable.index, &**memtable),
            Of::Global(global) => self.cursor.next(&global.index, &**global),
        };
        self.current = entry.map(Address::from_bits);
    }

    /// Notes the key that it is at, to be compared with others.
    fn note_key(&mut self) {
        self.key.clear();
        if let Some(address) = self.current {
            let zones = self.of.zones(address);
            self.key.extend_from_slice(zones.map_or(&[], |zones| zones.key(address)));
        }
    }

    /// The key that it is at, if that was noted.
    fn key(&self) -> Option<&[u8]> {
        self.current.map(|_| &self.key[..])
    }

    fn record(&self, address: Address) -> Result<(&Zones, Record<'_>)> {
        let zones = self.of.zones(address).ok_or_else(|| lost(address))?;
        Ok((zones, zones.checked(address)?))
    }
}

/// A walk over the levels: at most one version a key, the newest.
struct LevelsScan {
    iter: LevelsIter,
    direction: Direction,
    is_at_key: bool,
    /// The version that it is at, if it is. Forward, its value is left where the walk has it.
    current: Copied,
    /// In reverse, the version that was read ahead, of the key before.
    ahead: Option<Copied>,
}

/// A version in the levels.
#[derive(Default)]
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
        let (is_at_key, current, ahead) = (false, Copied::default(), None);
        let mut scan = Self { iter, direction, is_at_key, current, ahead };
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
                let Some(next) = self.iter.next_entry().map_err(from_levels)? else {
                    self.is_at_key = false;
                    return Ok(());
                };
                if self.is_at_key && self.current.key == next.key {
                    continue;
                }
                self.current.key.clear();
                self.current.key.extend_from_slice(next.key);
                (self.current.sequence, self.current.kind) = (next.sequence, next.kind);
                self.is_at_key = true;
                return Ok(());
            },
            // The newest of a key comes last.
            Direction::Reverse => {
                let Some(mut newest) = self.ahead.take() else {
                    self.is_at_key = false;
                    return Ok(());
                };
                while let Some(next) = self.next()? {
                    if next.key != newest.key {
                        self.ahead = Some(next);
                        break;
                    }
                    newest = next;
                }
                (self.current, self.is_at_key) = (newest, true);
                Ok(())
            }
        }
    }

    /// The version that it is at.
    fn current(&self) -> Option<&Copied> {
        self.is_at_key.then_some(&self.current)
    }

    /// The value of the version that it is at.
    fn value(&self) -> Bytes {
        match self.direction {
            Direction::Forward => {
                Bytes::from(self.iter.entry().map_or(&[][..], |entry| entry.value))
            }
            Direction::Reverse => Bytes::from(&self.current.value[..]),
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
        let mut coverages = SmallVec::new();
        let mut layers = Vec::new();
        for memtable in view.memtables() {
            coverages.extend(memtable.deletes.at(at.sequence));
            let cursor = memtable.index.cursor(low, high, way, at.sequence);
            layers.push(LayerScan::new(Of::Memtable(Arc::clone(memtable)), cursor));
        }
        for global in view.global_indexes() {
            coverages.extend(global.deletes.at(at.sequence));
            let cursor = global.index.cursor(low, high, way, at.sequence);
            layers.push(LayerScan::new(Of::Global(Arc::clone(global)), cursor));
        }
        layers.retain(|layer| layer.current.is_some());
        // The view first: memtables that left it since are in the levels.
        let levels = LevelsScan::new(&at.store, tree, start, end, direction, at.sequence)?;
        let (at, order) = (Arc::clone(at), SmallVec::new());
        let mut scan =
            Self { at, layers, levels, order, coverages, direction, is_told: false, failed: false };
        (0..=scan.layers.len()).for_each(|source| scan.arrange(source));
        Ok(scan)
    }

    /// The key that it returned last, or passed because it was removed, with its key space; `None` behind the last.
    ///
    /// # Errors [`halite_contract::Error::Damaged`] of a record that it is to come to: its key may differ from the
    /// one that the index has, and a scan that begins anew would not come to it.
    pub(crate) fn told(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(&first) = self.order.first() else { return Ok(None) };
        for layer in &mut self.layers {
            if let Some(address) = layer.current {
                layer.record(address)?;
                // A source that is alone does not note its keys.
                layer.note_key();
            }
        }
        Ok(self.key_of(first).map(<[u8]>::to_vec))
    }

    /// The key that a source is at.
    fn key_of(&self, source: usize) -> Option<&[u8]> {
        match self.layers.get(source) {
            Some(layer) => layer.key(),
            None => self.levels.current().map(|version| &version.key[..]),
        }
    }

    /// Takes a source up in the order, if it is at a key.
    fn arrange(&mut self, source: usize) {
        if let Some(layer) = self.layers.get_mut(source) {
            layer.note_key();
        }
        let Some(key) = self.key_of(source) else { return };
        let is_behind = |&other: &usize| {
            let side = key.cmp(self.key_of(other).unwrap_or_default());
            let side = if self.direction == Direction::Forward { side } else { side.reverse() };
            side.then(source.cmp(&other)).is_lt()
        };
        let place = self.order.iter().position(is_behind).unwrap_or(self.order.len());
        self.order.insert(place, source);
    }

    /// Goes on behind the first key.
    fn pass(&mut self) -> Result<()> {
        let Some((&first, behind)) = self.order.split_first() else { return Ok(()) };
        if behind.is_empty() {
            // No key is compared any more.
            self.advance(first)?;
            if self.key_of(first).is_none() {
                self.order.clear();
            }
            return Ok(());
        }
        let key = self.key_of(first);
        let others = behind.iter().take_while(|&&other| self.key_of(other) == key).count();
        // Taken out first: a record that is damaged has no key, and its source comes before all others.
        let equal: SmallVec<[usize; 4]> = self.order.drain(..=others).collect();
        for source in equal {
            self.advance(source)?;
            self.arrange(source);
        }
        Ok(())
    }

    fn advance(&mut self, source: usize) -> Result<()> {
        match self.layers.get_mut(source) {
            Some(layer) => layer.advance(),
            None => self.levels.advance()?,
        }
        Ok(())
    }

    /// The next pair; where no value is asked for, it is empty.
    pub(crate) fn next_pair(&mut self, with_value: bool) -> Option<Result<(Bytes, Bytes)>> {
        if self.failed {
            return None;
        }
        let pair = self.next(with_value).transpose();
        self.failed = matches!(pair, Some(Err(_)));
        pair
    }

    fn next(&mut self, with_value: bool) -> Result<Option<(Bytes, Bytes)>> {
        while let Some(source) = self.go_on()? {
            if let Some(pair) = self.read(source, with_value)? {
                return Ok(Some(pair));
            }
        }
        Ok(None)
    }

    /// Goes to the next key: its pair, or none, as it was removed. `None` behind the last.
    pub(crate) fn step(&mut self, with_value: bool) -> Result<Option<Option<(Bytes, Bytes)>>> {
        let Some(source) = self.go_on()? else { return Ok(None) };
        self.read(source, with_value).map(Some)
    }

    /// Goes to the next key, removed or not: the source that has its newest version.
    #[inline]
    fn go_on(&mut self) -> Result<Option<usize>> {
        cost::step();
        if std::mem::replace(&mut self.is_told, true) {
            self.pass()?;
        }
        Ok(self.order.first().copied())
    }

    /// The newest range removal in memory of a key; 0 if there is none.
    fn covering(&self, key: &[u8]) -> u64 {
        self.coverages.iter().map(|coverage| coverage.of(key)).max().unwrap_or(0)
    }

    /// The pair that a source is at, if it is not removed; its value if that is asked for.
    fn read(&self, source: usize, with_value: bool) -> Result<Option<(Bytes, Bytes)>> {
        let Some(layer) = self.layers.get(source) else {
            let levels = &self.levels;
            let Some(version) = levels.current() else { return Ok(None) };
            let below = levels.iter.covering(&version.key).map_err(from_levels)?;
            let removed = self.covering(&version.key).max(below.unwrap_or(0));
            if version.sequence <= removed || !matches!(version.kind, PUT | PUT_FILE) {
                return Ok(None);
            }
            let value = match (with_value, version.kind) {
                (false, _) => Bytes::default(),
                (true, PUT_FILE) => {
                    self.read_file(&file_of_entry(&version.key, &levels.value())?)?
                }
                (true, _) => levels.value(),
            };
            return Ok(Some((without_space(&version.key), value)));
        };
        let Some(address) = layer.current else { return Ok(None) };
        let (zones, record) = layer.record(address)?;
        let removed = self.covering(record.key());
        if removed > record.sequence() || record.kind() == Some(Kind::Delete) {
            return Ok(None);
        }
        let key = without_space(record.key());
        if !with_value {
            return Ok(Some((key, Bytes::default())));
        }
        Ok(match stored(zones, address, &record)? {
            Stored::Nothing => None,
            Stored::Bytes(value) => Some((key, value)),
            Stored::File(value) => Some((key, self.read_file(&value)?)),
        })
    }

    /// Reads a large value, which stays as long as the state that is read.
    fn read_file(&self, value: &ValueRef) -> Result<Bytes> {
        let read = self.at.store.levels.values().get(value).map_err(from_levels)?;
        read.ok_or_else(|| gone(value))
    }
}

/// A key without the key space before it.
fn without_space(key: &[u8]) -> Bytes {
    Bytes::from(key.get(4..).unwrap_or_default())
}

impl Store {
    /// Whether anything changed in a range of a tree since a sequence. In a turn, with everything committed.
    pub(crate) fn changed_since(
        self: &Arc<Self>,
        tree: usize,
        start: &[u8],
        end: &[u8],
        then: u64,
    ) -> Result<bool> {
        let at = ReadAt::in_turn(self);
        let mut scan = TreeScan::new(&at, tree, start, end, Direction::Forward)?;
        let in_memory = scan.coverages.iter().any(|coverage| coverage.has_since(start, end, then));
        if in_memory || scan.levels.iter.has_deletes_since(then).map_err(from_levels)? {
            return Ok(true);
        }
        // Removals count: they are versions, too.
        while let Some(&source) = scan.order.first() {
            let sequence = match scan.layers.get(source) {
                Some(layer) => {
                    let Some(address) = layer.current else { break };
                    layer.record(address)?.1.sequence()
                }
                None => scan.levels.current().map_or(0, |version| version.sequence),
            };
            if sequence > then {
                return Ok(true);
            }
            scan.pass()?;
        }
        Ok(false)
    }
}
