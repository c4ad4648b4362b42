//! The engine: the contract of `halite-engine`, kept by a view, a writer and the scans between them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use halite_alloc::Segments;
use halite_engine::{
    Bytes, Direction, Durability, Engine, EngineOptions, Error, KEY_LEN_MAX, KeyRange, KeySpaceId,
    Op, Progress, Recovery, Result, Scan, Stats, VerifyReport, check_key_space_name,
};
use halite_index::BPlusTree;
use halite_pmem::Pool;
use halite_pmem::locks::{Mutex, RwLock};

use crate::BLOCK;
use crate::block_map::BlockMap;
use crate::entry::Entry;
use crate::read::View;
use crate::recovery::{Recovered, recover};
use crate::scan::{RangeScan, Scans};
use crate::write::{CATALOGUE, Writer};

/// The root that says which engine a pool belongs to; its value is the version of the records' form.
const ROOT: &str = "engine:indexlog";

/// The version of the records' form. Version 1 was never released.
const VERSION: u64 = 3;

/// Bounds of a range that together are longer do not fit a record; see [`expand_long_ranges`].
const BOUNDS_LEN_MAX: usize = 96 << 10;

/// An index+log store.
pub struct IndexLog {
    shared: Arc<Shared>,
}

/// What the engine and its scans share; the store closes when the last of them is gone.
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) salt: u64,
    pub(crate) view: RwLock<View>,
    pub(crate) scans: Scans,
    /// Locked before the view.
    writer: Mutex<Writer>,
    recovery: Recovery,
}

impl IndexLog {
    /// The engine's name.
    pub const NAME: &str = "indexlog";

    /// Opens the store in the pool that `options` name, or creates it.
    ///
    /// # Errors
    /// What keeps the pool from being opened ([`Error::Pool`], [`Error::Alloc`]);
    /// [`Error::OtherEngine`]; [`Error::Damaged`] with the record that is.
    pub fn open(options: &EngineOptions) -> Result<Self> {
        let started = Instant::now();
        let exists = Pool::exists(&options.pool, &options.pool_options);
        let segments = if exists || !options.create {
            Segments::open(&options.pool, &options.pool_options)?
        } else {
            create(options)?
        };
        match segments.root(ROOT) {
            Some(VERSION) => {}
            Some(version) if version > VERSION => {
                return Err(halite_alloc::Error::FutureVersion {
                    path: options.pool.clone(),
                    found: version.try_into().unwrap_or(u32::MAX),
                    supported: VERSION as u32,
                }
                .into());
            }
            Some(version) => {
                return Err(Error::Damaged {
                    what: "root of the engine".into(),
                    why: format!("version {version} was never released; version {VERSION} is read"),
                });
            }
            None => {
                return Err(Error::OtherEngine {
                    wanted: Self::NAME.into(),
                    found: "another engine".into(),
                });
            }
        }
        let Recovered { writer, view, mut report } = recover(&segments)?;
        report.duration = started.elapsed();
        let shared = Shared {
            pool: segments.pool().clone(),
            salt: segments.salt(),
            view: RwLock::new(view),
            scans: Scans::default(),
            writer: Mutex::new(writer),
            recovery: report,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Writes operations on any key space, the catalogue included.
    fn write_all(&self, writer: &mut Writer, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let shared = &self.shared;
        {
            let view = shared.view.read();
            if ops.iter().any(|op| !view.spaces.contains_key(&op.space().0)) {
                return Err(Error::NoSuchKeySpace);
            }
        }
        let expanded = if ops.iter().any(is_long_range) {
            expand_long_ranges(&shared.view.read(), ops)
        } else {
            Expanded::default()
        };
        let ops = expanded.ops(ops);
        writer.write(&shared.view, &ops, durability, || shared.scans.oldest())
    }
}

/// Creates a store whose pool appears in its place when it is whole.
fn create(options: &EngineOptions) -> Result<Arc<Segments>> {
    let segments = Segments::create(&options.pool, &options.pool_options)?;
    // Every store has a map, even an empty one: its absence is damage.
    BlockMap::open(&segments)?.extend(1)?;
    segments.set_root(ROOT, VERSION)?;
    segments.install()?;
    Ok(segments)
}

/// Whether the bounds of a range are too long for one record.
fn is_long_range(op: &Op<'_>) -> bool {
    let Op::DeleteRange { start, end, .. } = *op else { return false };
    start.len() > KEY_LEN_MAX || start.len() + end.map_or(0, <[u8]>::len) > BOUNDS_LEN_MAX
}

/// Deletes of the keys in ranges whose bounds are too long for one record, by operation.
#[derive(Default)]
struct Expanded(Vec<(usize, Vec<Vec<u8>>)>);

/// Finds the keys of ranges whose bounds are too long: they are deleted one by one, in the same batch.
fn expand_long_ranges(view: &View, ops: &[Op<'_>]) -> Expanded {
    let mut expanded = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        let Op::DeleteRange { space, start, end } = *op else { continue };
        if !is_long_range(op) {
            continue;
        }
        let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
        let mut keys = Vec::new();
        if let Some(tree) = view.spaces.get(&space.0).map(|space| &space.tree)
            && !range.is_empty()
        {
            let mut cursor = tree.range(start, end);
            while cursor.next().is_some() {
                let mut key = Vec::new();
                cursor.copy_key(&mut key);
                keys.push(key);
            }
        }
        let earlier = ops[..at].iter().filter_map(|op| match *op {
            Op::Put { space: of, key, .. } if of == space && range.contains(key) => {
                Some(key.to_vec())
            }
            _ => None,
        });
        keys.extend(earlier);
        expanded.push((at, keys));
    }
    Expanded(expanded)
}

impl Expanded {
    fn ops<'a>(&'a self, ops: &'a [Op<'a>]) -> Cow<'a, [Op<'a>]> {
        if self.0.is_empty() {
            return Cow::Borrowed(ops);
        }
        let mut all = Vec::new();
        let mut expanded = self.0.iter().peekable();
        for (at, op) in ops.iter().enumerate() {
            match expanded.next_if(|(expanded_at, _)| *expanded_at == at) {
                Some((_, keys)) => {
                    all.extend(keys.iter().map(|key| Op::Delete { space: op.space(), key }));
                }
                None => all.push(*op),
            }
        }
        Cow::Owned(all)
    }
}

impl Shared {
    /// The pair of an entry, its value without a copy if it is in one piece.
    pub(crate) fn read_pair(&self, entry: Entry) -> Result<(Bytes, Bytes)> {
        let pinned = self.view.read().pin(entry)?;
        pinned.pair(self.salt)
    }
}

impl Engine for IndexLog {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        check_key_space_name(name)?;
        let find = || {
            let view = self.shared.view.read();
            view.spaces
                .iter()
                .find(|(id, space)| **id != CATALOGUE && &*space.name == name)
                .map(|(id, _)| KeySpaceId(*id))
        };
        if let Some(found) = find() {
            return Ok(found);
        }
        let mut writer = self.shared.writer.lock();
        if let Some(found) = find() {
            return Ok(found);
        }
        let id = writer.next_space;
        let value = id.to_le_bytes();
        let op = Op::Put { space: KeySpaceId(CATALOGUE), key: name.as_bytes(), value: &value };
        self.write_all(&mut writer, &[op], Durability::Immediate)?;
        writer.next_space += 1;
        let space = crate::read::Space { name: name.into(), tree: BPlusTree::new() };
        self.shared.view.write().spaces.insert(id, space);
        Ok(KeySpaceId(id))
    }

    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        let view = self.shared.view.read();
        let named = view.spaces.iter().filter(|(id, _)| **id != CATALOGUE);
        let mut all: Vec<_> =
            named.map(|(id, space)| (space.name.to_string(), KeySpaceId(*id))).collect();
        all.sort();
        all
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        let mut writer = self.shared.writer.lock();
        let name = {
            let view = self.shared.view.read();
            let found = view.spaces.get(&space.0).filter(|_| space.0 != CATALOGUE);
            Arc::clone(&found.ok_or(Error::NoSuchKeySpace)?.name)
        };
        let ops = [
            Op::DeleteRange { space, start: b"", end: None },
            Op::Delete { space: KeySpaceId(CATALOGUE), key: name.as_bytes() },
        ];
        // Under the writer's lock: nothing is written between the records and the name.
        self.write_all(&mut writer, &ops, Durability::Immediate)?;
        self.shared.view.write().spaces.remove(&space.0);
        Ok(())
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let pinned = {
            let view = self.shared.view.read();
            let Some(entry) = view.user_space(space)?.tree.get_candidate(key) else {
                return Ok(None);
            };
            view.pin(Entry::from_bits(entry))?
        };
        pinned.value_of(key, self.shared.salt)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        Ok(self.shared.view.read().user_space(space)?.tree.len())
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        let view = self.shared.view.read();
        let Some(entry) = view.user_space(space)?.tree.sample(random) else { return Ok(None) };
        Ok(Some(view.pin_record(Entry::from_bits(entry))?.key()?))
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        for op in ops {
            op.check()?;
            if op.space().0 == CATALOGUE {
                return Err(Error::NoSuchKeySpace);
            }
        }
        self.write_all(&mut self.shared.writer.lock(), ops, durability)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.shared.view.read().user_space(space)?;
        let scan = RangeScan::begin(&self.shared, space.0, &range, direction);
        Ok(Box::new(scan.ok_or(Error::NoSuchKeySpace)?))
    }

    fn sync(&self) -> Result<()> {
        self.shared.writer.lock().sync()
    }

    fn stats(&self) -> Stats {
        let shared = &self.shared;
        let writer = shared.writer.lock();
        let trees: Vec<_> =
            shared.view.read().spaces.iter().map(|(id, space)| (*id, space.tree.clone())).collect();
        let records = trees.iter().filter(|(id, _)| *id != CATALOGUE).map(|(_, tree)| tree.len());
        let index: usize = trees.iter().map(|(_, tree)| tree.heap_len()).sum();
        Stats {
            domain: shared.pool.domain(),
            records: records.sum(),
            pool_bytes: shared.pool.len(),
            pool_bytes_max: shared.pool.len_max(),
            live_bytes: writer.blocks.live(),
            dead_bytes: writer.blocks.reclaimable(),
            free_bytes: u64::from(writer.blocks.free_count()) * BLOCK,
            index_bytes: (index + writer.tombstones.heap_len()) as u64,
            user_bytes_written: writer.user_bytes,
            collected_bytes_moved: writer.moved_bytes,
            collected_blocks: writer.collected_blocks,
            unsynced_writes: writer.unsynced(),
            traffic: shared.pool.traffic(),
            recovery: shared.recovery.clone(),
        }
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        Ok(self.shared.verify(progress))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // If this fails, the next open finds the log's end by its records, as after a crash.
        let _ = self.writer.get_mut().close();
    }
}
