//! The engine: the contract of `halite-contract`, kept by partitions that are independent of each other.
//!
//! A call goes to the partition that has its key. Calls that concern several partitions are put together here:
//! batches (`batch`), scans (`read/scan.rs`), statistics.

mod capabilities;

use std::sync::Arc;
use std::time::Instant;

use halite_alloc::Segments;
use halite_contract::{
    Bytes, Capabilities, Direction, Durability, Engine, EngineOptions, Error, Expectation,
    KeyRange, KeySpaceId, Op, Partitioning, Progress, Result, Scan, Stats, VerifyReport,
    check_key_space_name, other_engine,
};
use halite_pmem::Pool;

use crate::closing::Closing;
use crate::entry::Entry;
use crate::error::Error as IndexLogError;
use crate::index::Form;
use crate::index_snapshot::Snapshots;
use crate::key_spaces::{CATALOGUE, INTERNAL, is_internal};
use crate::layout::{BOUNDS_KEY, Layout, decode_bounds, encode_bounds};
use crate::on_demand::Partitions;
use crate::options::IndexLogOptions;
use crate::partition::{self, Partition, WRITER};
use crate::read::scan::{RangeScan, join};
use crate::read::verify::verify;
use crate::read::view::View;
use crate::recovery::find_ends;
use crate::recovery::map::open_map;
use crate::repartition::{release_other_generation, repartition};
use crate::validation::Validation;
use crate::{PARTITIONS_MAX, batch};

/// The root that says which engine a pool belongs to; its value is the version of the records' form.
const ROOT: &str = "engine:indexlog";

/// The version of the records' form. Earlier ones than [`VERSION_READ`] were never released.
const VERSION: u64 = 6;

/// An older version that is read, and written on as the current one: its pieces of values begin at multiples of 2 KiB.
const VERSION_READ: u64 = 5;

/// An index+log store.
pub struct IndexLog {
    pool: Pool,
    partitions: Partitions,
    partitioning: Partitioning,
    /// Bytes of the change log that are retained, if there is one.
    change_log: Option<u64>,
    /// The history in which positions of the change log are valid.
    history: Option<u128>,
    pub(crate) closing: Arc<Closing>,
}

impl IndexLog {
    /// The engine's name.
    pub const NAME: &str = "indexlog";

    /// Opens the store in the pool that `options` name, or creates it.
    ///
    /// # Errors [`Error::Pool`], [`Error::Alloc`] if the pool cannot be opened; [`Error::OtherEngine`];
    /// [`Error::Damaged`] with the damaged record; [`Error::Partitions`], [`Error::PartitionBounds`];
    /// [`IndexLogError::ChangeLogAtCreation`].
    pub fn open(options: &EngineOptions) -> Result<Self> {
        let started = Instant::now();
        if let Some(partitioning) = &options.partitioning {
            partitioning.check(PARTITIONS_MAX)?;
        }
        let own = IndexLogOptions::of(options);
        own.index.check()?;
        let exists = Pool::exists(&options.pool, &options.pool_options);
        let segments = if exists || !options.create {
            Segments::open(&options.pool, &options.pool_options)?
        } else {
            create(options)?
        };
        check_version(&segments, options)?;
        let mut layout = Layout::read(&segments)?;
        match (options.change_log, layout.changes) {
            (Some(_), None) => return Err(IndexLogError::ChangeLogAtCreation.into()),
            (Some(wanted), Some(retained)) if wanted != retained => {
                Layout::write_changes(&segments, wanted)?;
                layout.changes = Some(wanted);
            }
            _ => {}
        }
        // The crash lab's medium notes events in their order, so there may be only one thread.
        let on_threads = options.pool_options.medium.is_none();
        let abandoned = release_other_generation(&segments, layout)?;
        let form = Form::new(own.index, || Ok(segments.pool().random()?))?;
        // A pool in memory is gone when it closes, so a snapshot of its index would never be read.
        let interval = own.index_snapshot.filter(|_| !options.pool_options.in_memory);
        let mut store = Self::open_partitions(&segments, layout, form, interval, on_threads)?;
        store.partitions.change_report(|report| report.segments_reclaimed += abandoned);
        if let Some(wanted) = &options.partitioning
            && *wanted != store.partitioning
        {
            store.partitions.all()?;
            let mut recovery = store.partitions.report();
            store = repartition(&segments, store, layout, wanted, form, interval, on_threads)?;
            recovery.partitions_ready = wanted.count();
            recovery.duration = started.elapsed();
            store.partitions.change_report(|report| *report = recovery);
        }
        if !options.on_demand || !on_threads {
            store.partitions.all()?;
        }
        Ok(store)
    }

    /// Opens the partitions of a layout; `snapshots` is how many bytes are written between two snapshots of the
    /// index.
    pub(crate) fn open_partitions(
        segments: &Arc<Segments>,
        layout: Layout,
        form: Form,
        snapshots: Option<u64>,
        on_threads: bool,
    ) -> Result<Self> {
        let started = Instant::now();
        let ended = find_ends(segments, layout, form, on_threads)?;
        let closing = Closing::new(segments, layout.partitions);
        let snapshots = Snapshots::open(segments, layout, snapshots)?;
        let of_store = Arc::clone(&closing);
        let partitions = Partitions::begin(ended, layout, of_store, snapshots, started, on_threads);
        let partitioning = if layout.by_range {
            Partitioning::Ranges(read_bounds(partitions.get(0)?, layout.partitions)?)
        } else {
            Partitioning::Hash(layout.partitions)
        };
        Ok(Self {
            pool: segments.pool().clone(),
            partitions,
            partitioning,
            change_log: layout.changes,
            history: layout.history(segments),
            closing,
        })
    }

    /// Makes empty partitions, durably.
    pub(crate) fn make(
        segments: &Arc<Segments>,
        layout: Layout,
        partitioning: &Partitioning,
        on_threads: bool,
    ) -> Result<()> {
        for number in 0..layout.partitions {
            // Every partition has a map, even an empty one: its absence is damage.
            open_map(segments, layout.generation, number)?.extend(1)?;
        }
        if let Partitioning::Ranges(bounds) = partitioning {
            let started = Instant::now();
            let ended = find_ends(segments, layout, Form::default(), on_threads)?;
            let closing = Closing::new(segments, layout.partitions);
            closing.forget();
            let snapshots = Snapshots::open(segments, layout, None)?;
            let made = Partitions::begin(ended, layout, closing, snapshots, started, on_threads);
            let first = &made.all()?[0];
            let value = encode_bounds(bounds);
            let op = Op::Put { space: KeySpaceId(INTERNAL), key: BOUNDS_KEY, value: &value };
            first.write(&mut first.writer.lock(), &[op], Durability::Immediate)?;
        }
        Ok(())
    }

    /// Gives the space of all snapshots of the index back.
    pub(crate) fn release_index_snapshots(&self) -> Result<()> {
        for partition in self.partitions.all()? {
            partition.writer.lock().storage.space.release_snapshots()?;
        }
        Ok(())
    }

    pub(crate) fn partition(&self, key: &[u8]) -> Result<&Arc<Partition>> {
        self.partitions.get(self.partitioning.partition_of(key))
    }

    /// Writes operations, on any of the partitions, if the expected keys and ranges did not change.
    fn write_all(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
        is_bookkeeping: bool,
    ) -> Result<()> {
        let all = self.partitions.all()?;
        let expected = Validation::all(expected, all)?;
        let mut parts = batch::lock(all, &self.partitioning, ops, &expected)?;
        // Validated under the locks that are held until all is written: the space that the snapshots keep can be
        // released.
        expected.iter().for_each(Validation::end);
        all[0].health.watch(WRITER, || {
            parts.iter_mut().for_each(|part| part.writer.set_bookkeeping(is_bookkeeping));
            let written = batch::write(&mut parts, self.partitions.numbers(), durability);
            parts.iter_mut().for_each(|part| part.writer.set_bookkeeping(false));
            written?;
            parts.iter_mut().for_each(batch::part::Part::pace_snapshot);
            Ok(())
        })
    }

    /// Writes operations; bookkeeping has room where puts have none.
    fn write_for(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        is_bookkeeping: bool,
    ) -> Result<()> {
        check_ops(ops)?;
        let first = ops.first().and_then(|op| self.only_partition(op));
        match first {
            Some(at) if ops.iter().all(|op| self.only_partition(op) == Some(at)) => {
                self.partitions.get(at)?.commit(ops, durability, is_bookkeeping)
            }
            None if ops.is_empty() && durability == Durability::Immediate => self.sync(),
            _ => self.write_all(ops, durability, &[], is_bookkeeping),
        }
    }

    /// The partition that an operation concerns, if it is the only one.
    fn only_partition(&self, op: &Op<'_>) -> Option<usize> {
        match *op {
            Op::Put { key, .. } | Op::Delete { key, .. } => {
                Some(self.partitioning.partition_of(key))
            }
            Op::DeleteRange { start, end, .. } => {
                let concerned = self.partitioning.partitions_of(start, end);
                (concerned.len() == 1).then_some(concerned.start)
            }
        }
    }
}

/// Creates a store. Its pool appears under its name when it is complete.
fn create(options: &EngineOptions) -> Result<Arc<Segments>> {
    let partitioning = options.partitioning.clone().unwrap_or(Partitioning::Hash(1));
    let layout = Layout::new(0, &partitioning, options.change_log);
    let segments = Segments::create(&options.pool, &options.pool_options)?;
    if let Some(retain) = options.change_log {
        Layout::write_changes(&segments, retain)?;
    }
    let on_threads = options.pool_options.medium.is_none();
    IndexLog::make(&segments, layout, &partitioning, on_threads)?;
    layout.write(&segments)?;
    segments.set_root(ROOT, VERSION)?;
    segments.install()?;
    Ok(segments)
}

fn check_version(segments: &Segments, options: &EngineOptions) -> Result<()> {
    match segments.root(ROOT) {
        Some(VERSION) => Ok(()),
        // Before anything is written that the older version would take for damage.
        Some(VERSION_READ) => Ok(segments.set_root(ROOT, VERSION)?),
        Some(version) if version > VERSION => Err(halite_alloc::Error::FutureVersion {
            path: options.pool.clone(),
            found: version.try_into().unwrap_or(u32::MAX),
            supported: VERSION as u32,
        }
        .into()),
        Some(version) => Err(Error::Damaged {
            what: "root of the engine".into(),
            why: format!("version {version} was never released; version {VERSION} is read"),
        }),
        None => Err(other_engine(IndexLog::NAME, segments)),
    }
}

/// The bounds of the partitions' ranges.
fn read_bounds(first: &Partition, partitions: usize) -> Result<Vec<Vec<u8>>> {
    let found = first.view.read().live(INTERNAL, BOUNDS_KEY)?;
    let value = found.map(|entry| first.read_pair(entry)).transpose()?.map(|(_, value)| value);
    let bounds = value.and_then(|value| decode_bounds(&value)).filter(|bounds| {
        bounds.len() + 1 == partitions
            && Partitioning::Ranges(bounds.clone()).check(PARTITIONS_MAX).is_ok()
    });
    bounds.ok_or_else(|| Error::Damaged {
        what: "bounds of the partitions".into(),
        why: "they are missing, or not as many ascending keys as there are partitions".into(),
    })
}

impl Engine for IndexLog {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            partitioned: Some(self),
            snapshots: Some(self),
            transactional: Some(self),
            change_feed: Some(self),
            on_demand: Some(self),
            index_snapshots: Some(self),
            space_management: Some(self),
            ..Capabilities::default()
        }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        check_key_space_name(name)?;
        let first = self.partitions.get(0)?;
        let find = || {
            let view = first.view.read();
            let named = view.spaces.iter().filter(|(id, _)| !is_internal(**id));
            named.filter(|(_, space)| &*space.name == name).map(|(id, _)| KeySpaceId(*id)).next()
        };
        if let Some(found) = find() {
            return Ok(found);
        }
        let all = self.partitions.all()?;
        first.change(|writer| {
            if let Some(found) = find() {
                return Ok(found);
            }
            let id = writer.next_space();
            let value = id.to_le_bytes();
            let op = Op::Put { space: KeySpaceId(CATALOGUE), key: name.as_bytes(), value: &value };
            first.write(writer, &[op], Durability::Immediate)?;
            writer.note_space(id);
            // The first partition is last: a caller that finds the name there finds it in every partition.
            for partition in all.iter().rev() {
                partition.view.write().space_mut(id).name = name.into();
            }
            Ok(KeySpaceId(id))
        })
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        let first = self.partitions.get(0)?;
        let view = first.view.read();
        let named = view.spaces.iter().filter(|(id, _)| !is_internal(**id));
        let mut all: Vec<_> =
            named.map(|(id, space)| (space.name.to_string(), KeySpaceId(*id))).collect();
        all.sort();
        Ok(all)
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        let all = self.partitions.all()?;
        let name = Arc::clone(&all[0].view.read().user_space(space)?.name);
        let ops = [
            Op::DeleteRange { space, start: b"", end: None },
            Op::Delete { space: KeySpaceId(CATALOGUE), key: name.as_bytes() },
        ];
        // Under the writers' locks: nothing is written between the records and the name.
        let mut parts = batch::lock(all, &self.partitioning, &ops, &[])?;
        all[0].health.watch(WRITER, || {
            batch::write(&mut parts, self.partitions.numbers(), Durability::Immediate)?;
            for partition in all {
                partition.view.write().spaces.remove(&space.0);
            }
            Ok(())
        })
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.partition(key)?.get(space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        let len = |_: &Arc<Partition>, view: &View| Ok(view.user_space(space)?.index.len());
        partition::views(self.partitions.all()?, len).into_iter().sum()
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        let total = self.len(space)?;
        let mut place = random.checked_rem(total).unwrap_or_default();
        for partition in self.partitions.all()? {
            let view = partition.view.read();
            let index = &view.user_space(space)?.index;
            if place < index.len() {
                // Other bits than those that chose the partition.
                let random = random.rotate_left(32);
                let Some(entry) = index.sample(random) else { break };
                let record = view.pin_record(Entry::from_bits(entry));
                return partition.named(record.and_then(|record| record.key())).map(Some);
            }
            place -= index.len();
        }
        Ok(None)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.write_for(ops, durability, false)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        let begin = |partition: &Arc<Partition>, view: &View| {
            RangeScan::begin(partition, view, space, &range, direction)
        };
        let scans: Result<Vec<_>> =
            partition::views(self.partitions.all()?, begin).into_iter().collect();
        Ok(join(scans?, &self.partitioning, direction))
    }

    fn sync(&self) -> Result<()> {
        // Nothing was written to partitions that are not ready yet.
        self.partitions.ready().try_for_each(|partition| partition.change(|writer| writer.sync()))
    }

    fn stats(&self) -> Stats {
        let mut stats = Stats {
            domain: self.pool.domain(),
            pool_bytes: self.pool.len(),
            pool_bytes_max: self.pool.len_max(),
            traffic: self.pool.traffic(),
            recovery: self.partitions.report(),
            descriptors_max: 1,
            ..Stats::default()
        };
        self.partitions.ready().for_each(|partition| partition.add_stats(&mut stats));
        stats
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        Ok(verify(self.partitions.all()?, progress))
    }
}

/// Checks operations of callers against the limits.
fn check_ops(ops: &[Op<'_>]) -> Result<()> {
    ops.iter().try_for_each(|op| match is_internal(op.space().0) {
        true => Err(Error::NoSuchKeySpace),
        false => op.check(),
    })
}
