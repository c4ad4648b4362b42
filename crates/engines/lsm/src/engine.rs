//! The engine: the contract of `halite-contract`, implemented by trees that share a ring.

mod capabilities;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use halite_contract::{
    Bytes, Capabilities, Direction, Durability, Engine, EngineOptions, Expectation, Figure,
    KeyRange, KeySpaceId, Op, Partitioning, Progress, RepairReport, Result, Scan, Stats,
    VerifyReport, check_key_space_name,
};
use halite_index::KWayMerge;
use halite_sim::locks::RwLock;
use halite_sst::ValueRef;

use crate::discard;
use crate::encoded::Encoded;
use crate::error::Error as LsmError;
use crate::failure::{from_levels, from_log};
use crate::large_values::Large;
use crate::layout;
use crate::long_scan::LongScan;
use crate::maintenance::Maintenance;
use crate::open;
use crate::options::LsmOptions;
use crate::read::At;
use crate::record::{self, Kind};
use crate::refusals::Purpose;
use crate::repair;
use crate::rows::Rows;
use crate::sample::sample;
use crate::scan::{ReadAt, TreeScan, bounds, end_of_space};
use crate::spaces::{CATALOGUE, OpenSpaces, Spaces};
use crate::store::Store;
use crate::validation::validate;
use crate::verify::verify;

/// Descriptors of the pool.
const POOL_DESCRIPTORS: u64 = 1;

/// Bytes of a commit up to which its memory is kept for the next one.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// Keys of a range up to which each is removed by itself; more are removed by one record.
const REMOVED_SINGLY: usize = 256;

/// Keys of a range, removed before or not, that are looked at: no other batch has its turn meanwhile. Where there are
/// more, they are removed by one record, whether there is anything to remove or not.
const PASSED_MAX: usize = 4 * REMOVED_SINGLY;

thread_local! {
    /// Memory that one commit after the other uses.
    static ENCODED: Cell<Option<Box<Encoded>>> = const { Cell::new(None) };
}

/// An LSM store.
pub struct Lsm {
    /// Dropped first: its threads use the store.
    maintenance: Option<Maintenance>,
    pub(crate) store: Arc<Store>,
    partitioning: Partitioning,
    spaces: OpenSpaces,
    /// Held shared by writers, so that no batch is written to a key space that is dropped, and by snapshots, so that
    /// they have the key spaces of their time. Held exclusively to change the key spaces.
    writing: RwLock<()>,
}

impl Lsm {
    /// The engine's name.
    pub const NAME: &str = "lsm";

    /// The name of the folder of the levels, beside the pool; of a link to it, where another one was named.
    pub const LEVELS: &str = "levels";

    /// Opens the store in the pool that `options` name, or creates it.
    ///
    /// # Errors
    /// Those of the pool if it cannot be opened; [`halite_contract::Error::OtherEngine`];
    /// [`halite_contract::Error::Damaged`]; [`halite_contract::Error::Partitions`],
    /// [`halite_contract::Error::PartitionBounds`].
    pub fn open(options: &EngineOptions) -> Result<Self> {
        if !LsmOptions::of(options).compression.is_built_in() {
            let what = "compression with Zstandard".to_owned();
            return Err(LsmError::NotBuiltIn { what, feature: "zstd" }.into());
        }
        let store = open::open(options)?;
        let spaces = OpenSpaces::new(Spaces::read(&store)?);
        let partitioning = Partitioning::Hash(store.trees.len());
        let maintenance = Some(Maintenance::start(&store));
        store.signals.wake();
        Ok(Self { maintenance, store, partitioning, spaces, writing: RwLock::new(()) })
    }

    /// Lets the store open without the files of its levels that are missing or cannot be read, which are set aside.
    /// The store must not be open.
    ///
    /// # Errors
    /// An error that keeps the pool from being opened; [`halite_contract::Error::OtherEngine`]; an error of the disk.
    pub fn repair(options: &EngineOptions) -> Result<RepairReport> {
        repair::repair(options, true)
    }

    /// Reports the changes that [`Lsm::repair`] would make, and makes none.
    ///
    /// # Errors
    /// As [`Lsm::repair`].
    pub fn examine(options: &EngineOptions) -> Result<RepairReport> {
        repair::repair(options, false)
    }

    /// Removes the files of the levels of a store that is given up and not open. The pool stays, and so do files that
    /// are not known to be this store's.
    ///
    /// # Errors
    /// An error that keeps the pool from being opened; [`halite_contract::Error::OtherEngine`]; an error of the disk.
    pub fn discard_levels(options: &EngineOptions) -> Result<()> {
        discard::discard_levels(options)
    }

    /// How often a batch had room looked for in vain since the store was opened: a batch that is refused in between
    /// costs nothing.
    #[must_use]
    pub fn looks_for_room(&self) -> u64 {
        self.store.refusals.looks()
    }

    fn tree_of(&self, key: &[u8]) -> usize {
        self.partitioning.partition_of(key)
    }

    /// Commits operations on key spaces that are known to be there.
    fn commit(
        &self,
        ops: &[Op<'_>],
        purpose: Purpose,
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        // Taken, not borrowed: threads that a scheduler simulates share it.
        let mut large = self.write_large(ops)?;
        let mut encoded = ENCODED.take().unwrap_or_default();
        encoded.clear();
        encoded.purpose = purpose;
        let committed = self.commit_encoded(&mut encoded, (ops, &large), durability, expected);
        if encoded.padded() <= KEPT_BYTES_MAX {
            ENCODED.set(Some(encoded));
        }
        if committed.is_err() && self.store.check_healthy().is_err() {
            // The next opening decides whether the batch was committed.
            large.keep();
        }
        committed?;
        self.store.note_large(ops, large, |key| self.tree_of(key));
        self.store.let_values_go();
        Ok(())
    }

    /// Writes large values to files, unless others as large were refused for want of room.
    fn write_large<'o>(&'o self, ops: &[Op<'_>]) -> Result<Large<'o>> {
        let len = |op: &Op<'_>| match op {
            Op::Put { value, .. } => value.len() as u64,
            _ => 0,
        };
        let largest = ops.iter().map(len).max().unwrap_or(0);
        if largest < self.store.limits.large_value_bytes {
            return Ok(Large::default());
        }
        let refusals = &self.store.refusals;
        if let Some(error) = refusals.refusal_of_value(largest) {
            return Err(error);
        }
        let began = refusals.now();
        let written = self.store.write_large(ops);
        match &written {
            Ok(_) => refusals.open_to_value(largest),
            Err(error) => {
                refusals.note_value(largest, error, began);
                if refusals.are_removals_due() {
                    self.store.signals.wake();
                }
            }
        }
        written
    }

    /// Commits operations, with memory that earlier commits may have used.
    fn commit_encoded(
        &self,
        encoded: &mut Encoded,
        (ops, large): (&[Op<'_>], &Large<'_>),
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        let in_turn =
            !expected.is_empty() || ops.iter().any(|op| matches!(op, Op::DeleteRange { .. }));
        if !in_turn {
            self.encode(ops, large, encoded)?;
            let durability = self.durability(encoded.spans_trees(), durability);
            return match &self.store.batching {
                Some(batching) if durability == Durability::Immediate => {
                    batching.commit(&self.store, encoded).map(drop)
                }
                _ => self.store.commit(encoded, durability, None).map(drop),
            };
        }
        // The batch is encoded in its turn; whether it would be refused is known before.
        let bytes = ops.iter().enumerate();
        let bytes = bytes.map(|(number, op)| op_len(op, large.of(number).is_some()) as u64).sum();
        let prepare = |encoded: &mut Encoded| {
            expected
                .iter()
                .try_for_each(|expected| validate(&self.store, &self.partitioning, expected))?;
            self.encode(ops, large, encoded)
        };
        // The trees of the batch are not known yet.
        let may_span = !ops.is_empty() && self.store.trees.len() > 1;
        let durability = self.durability(may_span, durability);
        self.store.commit_prepared(encoded, bytes, durability, Some(&prepare)).map(drop)
    }

    /// Returns when a batch is durable. In a log it is one record, which is there whole or not, so that it waits for a
    /// sync if that was asked for. Without a log its fragments are in the zones of several memtables: then one on several
    /// trees is durable on return.
    fn durability(&self, spans_trees: bool, durability: Durability) -> Durability {
        let is_logged = self.store.wal.is_some();
        if spans_trees && !is_logged { Durability::Immediate } else { durability }
    }

    /// Encodes operations. Removals of ranges depend on the keys that are there and on earlier puts of the batch: they
    /// are encoded in a turn.
    fn encode(&self, ops: &[Op<'_>], large: &Large<'_>, encoded: &mut Encoded) -> Result<()> {
        for (number, op) in ops.iter().enumerate() {
            match *op {
                Op::Put { space, key, value } => {
                    let (tree, space) = (self.tree_of(key), space.0.to_be_bytes());
                    match large.of(number) {
                        Some(file) => encoded.push_file(tree, space, key, file),
                        None => encoded.push(tree, Kind::Put, space, key, value),
                    }
                }
                Op::Delete { space, key } => {
                    encoded.push(self.tree_of(key), Kind::Delete, space.0.to_be_bytes(), key, &[]);
                }
                Op::DeleteRange { space, start, end } => {
                    let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
                    self.encode_range(space, &range, &ops[..number], encoded)?;
                }
            }
        }
        Ok(())
    }

    fn encode_range(
        &self,
        space: KeySpaceId,
        range: &KeyRange,
        before: &[Op<'_>],
        encoded: &mut Encoded,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let (start, end) = bounds(space, range);
        let at = ReadAt::in_turn(&self.store);
        for tree in self.partitioning.partitions_of(range.start(), range.end()) {
            let mut keys = Vec::new();
            let mut scan = TreeScan::new(&at, tree, &start, &end, Direction::Forward)?;
            let mut passed = 0;
            while keys.len() <= REMOVED_SINGLY && passed < PASSED_MAX {
                let Some(pair) = scan.step(false)? else { break };
                keys.extend(pair.map(|(key, _)| key));
                passed += 1;
            }
            keys.extend(before.iter().filter_map(|op| match *op {
                Op::Put { space: of, key, .. }
                    if of == space && range.contains(key) && self.tree_of(key) == tree =>
                {
                    Some(Bytes::from(key))
                }
                _ => None,
            }));
            if keys.len() <= REMOVED_SINGLY && passed < PASSED_MAX {
                for key in &keys {
                    encoded.push(tree, Kind::Delete, space.0.to_be_bytes(), key, &[]);
                }
            } else {
                encoded.push_range(tree, [&start, &[]], [&end, &[]]);
            }
        }
        Ok(())
    }
}

/// The pairs of a range in a state, of all trees, in order.
pub(crate) fn scan_all(
    at: &Arc<ReadAt>,
    partitioning: &Partitioning,
    space: KeySpaceId,
    range: &KeyRange,
    direction: Direction,
) -> Scan {
    let of = |tree| LongScan::new(at, tree, bounds(space, range), direction);
    let mut trees: Vec<usize> = partitioning.partitions_of(range.start(), range.end()).collect();
    if direction == Direction::Reverse {
        trees.reverse();
    }
    match (partitioning, &trees[..]) {
        (_, &[tree]) => Box::new(of(tree)),
        (Partitioning::Ranges(_), _) => {
            let scans: Vec<_> = trees.into_iter().map(of).collect();
            Box::new(scans.into_iter().flatten())
        }
        (Partitioning::Hash(_), _) => {
            let scans: Vec<_> = trees.into_iter().map(of).collect();
            Box::new(KWayMerge::new(scans, move |a, b| direction.is_before(a, b)))
        }
    }
}

/// The number of a key space's keys in a state, and whether these are all: it passes one key after the other, and
/// asks before each as [`halite_contract::Partitioned::count_partition`] says.
pub(crate) fn count(
    at: &Arc<ReadAt>,
    trees: Range<usize>,
    space: KeySpaceId,
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(u64, bool)> {
    let (mut len, mut looked_at) = (0, 0);
    for tree in trees {
        let all = bounds(space, &KeyRange::all());
        let mut scan = LongScan::new(at, tree, all, Direction::Forward);
        while let Some(pair) = scan.step(false).transpose()? {
            if !go_on(len, looked_at) {
                return Ok((len, false));
            }
            len += u64::from(pair.is_some());
            looked_at += 1;
        }
    }
    Ok((len, true))
}

impl Drop for Lsm {
    /// Closes the store: everything is durable, and a root says so to the next opening.
    fn drop(&mut self) {
        drop(self.maintenance.take());
        self.store.spare(u64::MAX);
        let closed = self.store.sync().and_then(|()| self.store.persist_commit_points());
        if closed.is_ok() && self.store.check_healthy().is_ok() {
            let home = self.store.memory.home();
            let closed = self.store.levels.close().map_err(from_levels);
            let noted = closed.and_then(|()| match &self.store.wal {
                Some(wal) => layout::note_log_end(home, wal.close().map_err(from_log)?),
                None => Ok(()),
            });
            let synced = noted.and_then(|()| Ok(home.pool().sync_file()?));
            // A failure here is no failure of the store: it opens as after a crash.
            let in_pool = self.store.wal.is_none();
            let committed = in_pool.then(|| self.store.commits.commit_id());
            let _ = synced.and_then(|()| layout::set_closed(home, committed));
        }
    }
}

impl Engine for Lsm {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            partitioned: Some(self),
            snapshots: Some(self),
            transactional: Some(self),
            space_management: Some(self),
            ..Capabilities::default()
        }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        check_key_space_name(name)?;
        if let Some(found) = self.spaces.load().find(name) {
            return Ok(found);
        }
        let _alone = self.writing.write();
        let mut spaces = Spaces::clone(&self.spaces.load());
        if let Some(found) = spaces.find(name) {
            return Ok(found);
        }
        let id = spaces.next()?;
        let next = id + 1;
        let op = |key, value| Op::Put { space: CATALOGUE, key, value };
        let (id_bytes, next_bytes) = (id.to_le_bytes(), next.to_le_bytes());
        let mut encoded = Encoded::default();
        for op in [op(name.as_bytes(), &id_bytes), op(b"", &next_bytes)] {
            if let Op::Put { key, value, .. } = op {
                encoded.push(0, Kind::Put, CATALOGUE.0.to_be_bytes(), key, value);
            }
        }
        self.store.commit(&mut encoded, Durability::Immediate, None)?;
        spaces.add(id, name);
        self.spaces.store(spaces);
        Ok(KeySpaceId(id))
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        Ok(self.spaces.load().named())
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        let _alone = self.writing.write();
        let mut spaces = Spaces::clone(&self.spaces.load());
        let name = Arc::clone(spaces.name(space)?);
        let (start, end) = (space.0.to_be_bytes(), end_of_space(space));
        let mut encoded = Encoded::removal();
        for tree in 0..self.store.trees.len() {
            encoded.push_range(tree, [&start, &[]], [&end, &[]]);
        }
        encoded.push(0, Kind::Delete, CATALOGUE.0.to_be_bytes(), name.as_bytes(), &[]);
        self.store.commit(&mut encoded, Durability::Immediate, None)?;
        self.store.look_for_hidden_within(&start, &end);
        self.store.let_values_go();
        spaces.remove(space);
        self.spaces.store(spaces);
        Ok(())
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.spaces.check(space)?;
        with_space(space, key, |full| self.store.get(self.tree_of(key), full, At::Latest))
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.spaces.check(space)?;
        let (len, _) =
            count(&ReadAt::now(&self.store), 0..self.store.trees.len(), space, &mut |_, _| true)?;
        Ok(len)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        self.spaces.check(space)?;
        sample(&ReadAt::now(&self.store), self.store.trees.len(), space, random)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.write_for(ops, Purpose::of(ops, Purpose::Put), durability, &[])
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.spaces.check(space)?;
        let at = ReadAt::now(&self.store);
        Ok(scan_all(&at, &self.partitioning, space, &range, direction))
    }

    fn sync(&self) -> Result<()> {
        self.store.sync()?;
        self.store.let_values_go();
        Ok(())
    }

    fn hand_over(&self) -> Result<()> {
        self.store.hand_over()
    }

    fn stats(&self) -> Stats {
        let pool = self.store.memory.home().pool();
        let mut stats = Stats {
            domain: pool.domain(),
            pool_bytes: pool.len(),
            pool_bytes_max: pool.len_max(),
            traffic: pool.traffic(),
            user_bytes_written: self.store.commits.user_bytes(),
            unsynced_writes: self.store.commits.unsynced_batches(),
            recovery: self.store.recovery.clone(),
            free_bytes: self.store.free(),
            descriptors_max: self.store.levels.descriptors_max() + POOL_DESCRIPTORS,
            is_tiered: true,
            ..Stats::default()
        };
        let below = self.store.levels.stats();
        let rows = self.store.rows.as_ref().map_or(0, Rows::volatile_bytes);
        stats.cache_bytes = below.cache_bytes + rows;
        stats.volatile_bytes = below.memory_bytes + self.store.volatile_bytes();
        let levels = below.levels;
        let level_bytes = levels.iter().map(|level| level.bytes).sum();
        stats.own = vec![
            Figure::new("level_bytes", "Bytes of tables in the levels.", level_bytes),
            Figure::new("value_file_bytes", "Bytes of files of large values.", below.value_bytes),
            // A read may have to look into each.
            Figure::new("level_zero_runs", "Sorted runs of level zero.", levels[0].runs),
        ];
        if let Some(rows) = &self.store.rows {
            let help =
                "Bytes of rows, and of blocks in free zones, that were read from the levels.";
            stats.add(Figure::detail("cached_row_bytes", help, rows.cached_bytes()));
        }
        if let Some(wal) = &self.store.wal {
            stats.add(Figure::new("log_bytes", "Bytes of the write-ahead log.", wal.bytes()));
            let help =
                "Whether the log is written past the page cache: 1; 0: the file system cannot.";
            stats.add(Figure::new("log_direct", help, u64::from(wal.is_direct())));
        }
        let help = "Tables that have a descriptor: others are opened when they are read.";
        stats.add(Figure::detail("tables_open", help, below.tables_open));
        let help = "Files opened to be read, again or for the first time.";
        stats.add(Figure::detail("file_opens", help, below.opens));
        let help = "Syncs of the folder's files since the store was opened.";
        stats.add(Figure::detail("disk_syncs", help, below.syncs));
        for tree in 0..self.store.trees.len() {
            self.add_stats(tree, &mut stats);
        }
        stats
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        verify(&self.store, progress)
    }
}

impl Lsm {
    fn write_for(
        &self,
        ops: &[Op<'_>],
        purpose: Purpose,
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        let _writing = self.writing.read();
        for op in ops {
            op.check()?;
            self.spaces.check(op.space())?;
        }
        for expected in expected {
            let keys = expected.keys.iter().map(|(space, _)| *space);
            keys.chain(expected.ranges.iter().map(|(space, _)| *space))
                .try_for_each(|space| self.spaces.check(space))?;
        }
        if ops.is_empty() && expected.is_empty() {
            return if durability == Durability::Immediate { self.sync() } else { Ok(()) };
        }
        self.commit(ops, purpose, durability, expected)
    }

    fn add_stats(&self, tree: usize, stats: &mut Stats) {
        let view = self.store.trees[tree].view();
        for memtable in view.memtables() {
            stats.records += memtable.index.len();
            stats.index_bytes += memtable.index.memory_len();
            stats.live_bytes += memtable.zones.used_bytes();
        }
        for global in view.global_indexes() {
            stats.records += global.index.len();
            stats.index_bytes += global.index.memory_len();
            stats.live_bytes += global.pool_bytes();
        }
        if let Some(flushed) = &view.flushed {
            stats.index_bytes += flushed.index_bytes();
            stats.dead_bytes += flushed.pool_bytes();
        }
    }
}

/// About how many bytes of a zone an operation takes.
fn op_len(op: &Op<'_>, is_large: bool) -> usize {
    match *op {
        Op::Put { key, .. } if is_large => record::len(key.len() + 4, ValueRef::LEN),
        Op::Put { key, value, .. } => record::len(key.len() + 4, value.len()),
        Op::Delete { key, .. } => record::len(key.len() + 4, 0),
        Op::DeleteRange { start, end, .. } => {
            record::len(start.len() + 4, end.map_or(0, <[u8]>::len) + 4)
        }
    }
}

/// A key with its key space before it.
fn with_space<T>(space: KeySpaceId, key: &[u8], f: impl FnOnce(&[u8]) -> T) -> T {
    const SHORT: usize = 124;
    if key.len() <= SHORT {
        let mut full = [0; SHORT + 4];
        full[..4].copy_from_slice(&space.0.to_be_bytes());
        full[4..4 + key.len()].copy_from_slice(key);
        return f(&full[..4 + key.len()]);
    }
    f(&[&space.0.to_be_bytes(), key].concat())
}
