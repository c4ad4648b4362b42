//! Opening a store: from the state after a crash or a close to a storage and a view for each partition.
//!
//! 1. Read the map, and take every block that holds records. Check the records of the open blocks, which end where
//!    their records end, and of the sealed ones those that tell where the log ends.
//! 2. Find the log's end (`log_end`), and decide which batches on several partitions are whole.
//! 3. Make the cut durable: dropped blocks are freed first, then the kept ones are flushed; when all partitions have
//!    flushed theirs, they are sealed. The same rules handle a crash during this step.
//! 4. Read the index from a snapshot, and the records that were written after it (`index_snapshot`). If there is no
//!    snapshot, check every record of every block; sort the records by key (`records`), and build the index, the
//!    tombstones and the accounts from them.
//! 5. Take the blocks of large values, and replay the entries of a change log beyond the last record
//!    (`change_log/replay.rs`).
//!
//! All partitions take the first three steps at the same time, on threads of their own; then the store is open, and
//! each partition is ready when it has taken the other steps (`on_demand`).

pub(crate) mod log_end;
pub(crate) mod records;
pub(crate) mod stop;
pub(crate) mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_alloc::Segments;
use halite_contract::{Error, Recovery, Result};
use halite_index::PartialKeyTree;
use halite_sim::planted;

use crate::change_log::replay::FoundLog;
use crate::closing::{closed_digest, is_as_closed, reopened};
use crate::collection::collector::Collector;
use crate::entry::Entry;
use crate::index::{Form, Index};
use crate::index_snapshot::{self, Own, Snapshots};
use crate::key_spaces::INTERNAL;
use crate::layout::{Layout, in_partition, salt_of};
use crate::parallel::each;
use crate::read::view::{KeySpace, View};
use crate::recovery::log_end::{Cut, Sealed, cut_undecided, sealed_batch, take_sealed_blocks};
use crate::recovery::records::{AllRecords, Keys, RecordRef};
use crate::recovery::stop::go_on;
use crate::recovery::values::take_pieces;
use crate::space::Space;
use crate::space::block_map::{BlockMap, Life, State};
use crate::space::blocks::{Use, spent_of};
use crate::storage::Storage;
use crate::tombstones::{PARTIAL_LEN, Tombstones};
use crate::write::Writer;
use crate::{BLOCKS_PER_SEGMENT, change_device, data_device, map_device};

/// The map of a partition.
pub(crate) fn open_map(
    segments: &Arc<Segments>,
    generation: u32,
    number: usize,
) -> Result<BlockMap> {
    let device = map_device(generation, number);
    BlockMap::open(segments, segments.device(device), salt_of(segments, device))
}

/// The partitions of a store, whose logs' ends are found and durable.
pub(crate) struct Ended {
    pub(crate) unbuilt: Vec<Unbuilt>,
    /// The recovery report so far.
    pub(crate) report: Recovery,
}

/// Finds the ends of all logs of the store in `segments`, and makes them durable.
///
/// # Errors
/// [`Error::Damaged`]; an error of the pool.
pub(crate) fn find_ends(
    segments: &Arc<Segments>,
    layout: Layout,
    form: Form,
    on_threads: bool,
) -> Result<Ended> {
    let numbers: Vec<_> = (0..layout.partitions).collect();
    let found = each(numbers, on_threads, |_, number| {
        let found = Recovering::find(segments, layout, number, form);
        found.map_err(|error| in_partition(layout.is_named(number), error))
    })?;
    let mut report = Recovery::default();
    let (mut recovering, mut cuts): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    // The maps of a store that was closed are as they were then.
    if let Some(digest) = closed_digest(segments) {
        if !is_as_closed(digest, recovering.iter().map(|partition| partition.digest)) {
            return Err(Error::Damaged {
                what: "block map".into(),
                why: "it is not as it was when the store was closed".into(),
            });
        }
        reopened(segments)?;
    }
    if !planted!(BatchKeptInParts) {
        cut_undecided(&mut cuts, |number| {
            let Recovering { storage, view, .. } = &recovering[number];
            let batch = sealed_batch(view, storage.space.blocks().len());
            batch.map_err(|error| in_partition(layout.is_named(number), error))
        })?;
    }
    report.clean = cuts.iter().all(|cut| cut.blocks.is_empty());
    report.records_cut = cuts.iter().map(|cut| cut.records_cut).sum();

    let cut: Vec<_> = recovering.iter_mut().zip(cuts).collect();
    let kept = each(cut, on_threads, |_, (partition, cut): (&mut Recovering, Cut)| {
        cut.drop_and_flush(&mut partition.storage.space)
    })?;
    let kept: Vec<_> = recovering.into_iter().zip(kept).collect();
    let unbuilt = each(kept, on_threads, |number, (partition, mut kept)| {
        let Recovering { mut storage, mut view, .. } = partition;
        let log = kept.log.take();
        kept.seal(&mut storage.space, &mut view)?;
        Ok(Unbuilt { number, storage, view, log })
    })?;
    Ok(Ended { unbuilt, report })
}

/// A partition during the first three steps.
struct Recovering {
    storage: Storage,
    view: View,
    /// The digest of the map as it was found.
    digest: u64,
}

impl Recovering {
    /// Finds the log's end.
    fn find(
        segments: &Arc<Segments>,
        layout: Layout,
        number: usize,
        form: Form,
    ) -> Result<(Self, Cut)> {
        let generation = layout.generation;
        let map = open_map(segments, generation, number)?;
        if map.len() == 0 {
            return Err(Error::Damaged {
                what: "block map".into(),
                why: "the allocation table does not have it".into(),
            });
        }
        let device = segments.device(data_device(generation, number));
        let digest = map.digest();
        let mut storage = Storage::new(segments, device, map)?;
        let mut view = View::new(form);
        let lives = read_map(&mut storage.space, segments)?;
        let open = take_sealed_blocks(&mut storage.space, &mut view, &lives)?;
        let near = storage.log.near();
        let sealed = Sealed::read_end(&view, storage.space.blocks().len(), &open, near)?;
        let mut cut = Cut::find(&storage.space, near, sealed, open, layout.changes.is_none())?;
        if layout.changes.is_some() {
            let device = segments.device(change_device(generation, number));
            let durable = storage.space.map().durable()?;
            let log = FoundLog::read(
                device,
                storage.space.device(),
                storage.space.salt(),
                durable,
                cut.last_batch(),
            )?;
            cut.compare(log, number)?;
        }
        Ok((Self { storage, view, digest }, cut))
    }
}

/// A partition whose log's end is durable, and whose blocks are all sealed and unread.
pub(crate) struct Unbuilt {
    number: usize,
    storage: Storage,
    view: View,
    log: Option<FoundLog>,
}

/// A partition whose index is built.
pub(crate) struct Built {
    pub(crate) writer: Writer,
    pub(crate) view: View,
    pub(crate) records_read: u64,
    pub(crate) records_replayed: u64,
}

impl Unbuilt {
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Reads the blocks, builds the index, the tombstones and the accounts, takes the values of the records, and
    /// replays the entries of the change log beyond these; `retain` is how much of the change log to keep, in bytes.
    /// Gives up soon if `stop` is set.
    ///
    /// If one of the `snapshots` of the index is there and fits, it is read, and of the records only those that came
    /// later.
    pub(crate) fn build(
        self,
        retain: Option<u64>,
        snapshots: &Snapshots,
        stop: &AtomicBool,
    ) -> Result<Built> {
        let Self { number, mut storage, mut view, log } = self;
        let mut own = Own::new(snapshots, number);
        let recovered = index_snapshot::merge::recover(&mut own, &mut storage, &mut view, stop)?;
        let records_read = match recovered {
            Some(records) => records,
            None => {
                let (records, bytes) = read_all(&mut storage, &mut view, stop)?;
                own.begin(storage.written(), bytes, 0);
                records
            }
        };
        storage.space.set_snapshots(snapshots.clone());
        // Recovery looks at values of open blocks, of which there are none, or of the change log.
        let durable = storage.space.map().durable()?;
        let records = storage.log.durability.records();
        let stated = log.as_ref().map_or(records, |log| log.proved().max(durable));
        storage.log.durability.state(stated);
        storage.log.durability.prove_stated();
        let (mut collector, mut records_replayed) = (Collector::default(), 0);
        if let (Some(log), Some(retain)) = (log, retain) {
            records_replayed = log.replay(&mut storage, &mut collector, &mut view, stop)?;
            let opening = storage.space.pool().random()? as u32;
            let changes = log.into_writer(storage.next(), retain, opening)?;
            storage.log.set_changes(changes);
        }
        let writer = Writer::new(storage, collector, own);
        Ok(Built { writer, view, records_read, records_replayed })
    }
}

/// Reads the records of all blocks, and builds everything from them. Returns how many there are, and their
/// bytes.
fn read_all(storage: &mut Storage, view: &mut View, stop: &AtomicBool) -> Result<(u64, u64)> {
    let (mut found, mut bytes) = (AllRecords::default(), 0);
    for block in 0..storage.space.blocks().len() {
        go_on(stop)?;
        bytes += found.read_block(view, block, 0)?;
    }
    let records = found.len();
    go_on_behind(storage, found.seq_max)?;
    build(found, storage, view, stop)?;
    Ok((records, bytes))
}

/// Goes on numbering behind record `seq`, the last that was found. Collection may have dropped a newer record, whose
/// number must not come back.
pub(crate) fn go_on_behind(storage: &mut Storage, seq: u64) -> Result<()> {
    let durable = seq.max(storage.space.map().durable()?);
    storage.log.durability.go_on_behind(durable);
    Ok(())
}

/// Reads the lives of all blocks and adds the segments that exist.
fn read_map(space: &mut Space, segments: &Segments) -> Result<Vec<(u32, Life)>> {
    let mut in_use = Vec::new();
    let exists = space.device().logical_segments();
    // A pool never had more data segments than it has segments, and the lowest numbers are used.
    let segments_max = segments.pool().len() / halite_alloc::SEGMENT;
    let map_end = u64::from(space.map().len() / BLOCKS_PER_SEGMENT);
    for segment in 0..map_end.min(segments_max) as u32 {
        let blocks = segment * BLOCKS_PER_SEGMENT..(segment + 1) * BLOCKS_PER_SEGMENT;
        let exists = exists.binary_search(&segment).is_ok();
        let mut incarnations = Vec::new();
        for block in blocks {
            let life = space.map().get(block)?;
            let damaged = |why: &str| Error::Damaged {
                what: format!("block map, block {block}"),
                why: why.into(),
            };
            match life {
                None if exists => {
                    return Err(damaged("its segment is allocated, its word is lost"));
                }
                Some(Life { state: State::Open(_) | State::Sealed(_), .. }) if !exists => {
                    return Err(damaged("it has records, but its segment is not allocated"));
                }
                Some(life) if life.state != State::Free => {
                    in_use.push((block, life));
                    incarnations.push(life.incarnation);
                }
                life if exists => {
                    incarnations.push(life.unwrap_or(Life::NEVER_USED).incarnation);
                }
                _ => {}
            }
        }
        if exists {
            space.blocks_mut().add_segment(segment, incarnations.into_iter());
        }
    }
    let beyond = |segment: &u32| u64::from(*segment) >= map_end.min(segments_max);
    match exists.into_iter().find(beyond) {
        Some(segment) => Err(Error::Damaged {
            what: format!("data segment {segment}"),
            why: "the block map does not reach to it".into(),
        }),
        None => Ok(in_use),
    }
}

/// Builds index, tombstones and accounts from sorted records.
fn build(
    found: AllRecords,
    storage: &mut Storage,
    view: &mut View,
    stop: &AtomicBool,
) -> Result<()> {
    let mut tombstones = Tombstones::default();
    let mut ranges = found.ranges;
    // Of a record and its copy the copy is kept, as for other records.
    ranges.sort_unstable_by_key(|(space, is_copy, tombstone)| (*space, tombstone.seq, !is_copy));
    ranges.dedup_by_key(|(space, _, tombstone)| (*space, tombstone.seq));
    ranges.into_iter().for_each(|(space, _, tombstone)| tombstones.insert_range(space, tombstone));

    let keys = Keys::new(view, storage.space.blocks().len());
    let mut indexes = Vec::new();
    for (number, mut space) in found.spaces {
        space.sort(&keys, stop)?;
        let mut dead = Vec::new();
        let has_ranges = tombstones.has_ranges(number);
        let are_read = has_ranges || view.form.reads_keys();
        let versions = space.versions(&keys, are_read);
        let versions = versions.take_while(|_| !stop.load(Ordering::Relaxed));
        let live = versions.filter_map(|versions| {
            let key = if has_ranges { keys.of(&versions[0]) } else { &[] };
            let (newest, stale) = newest(versions, number, key, &mut tombstones)?;
            let entry = newest.entry().with_stale(stale);
            if newest.is_put() || stale > 0 {
                storage.space.blocks_mut().born(entry.block(), entry.footprint());
            }
            if newest.is_put() {
                return Some((space.start_of(&newest, &keys), entry.bits()));
            }
            dead.push((keys.of(&newest), entry.bits()));
            None
        });
        indexes.push((number, view.form.build(live, &view.blocks)?));
        go_on(stop)?;
        tombstones.set_points(number, PartialKeyTree::from_sorted(PARTIAL_LEN, dead));
    }
    drop(keys);
    for tombstone in tombstones.ranges().filter(|tombstone| !tombstone.stale.is_zero()) {
        storage.space.blocks_mut().born(tombstone.entry.block(), tombstone.entry.footprint());
    }
    finish(indexes, tombstones, true, storage, view, stop)
}

/// Takes the indexes and tombstones of all records, whose live bytes are counted, and, if `has_overflow`, the blocks
/// of large values.
pub(crate) fn finish(
    indexes: Vec<(u32, Index)>,
    tombstones: Tombstones,
    has_overflow: bool,
    storage: &mut Storage,
    view: &mut View,
    stop: &AtomicBool,
) -> Result<()> {
    for (number, index) in indexes {
        view.spaces.insert(number, KeySpace { name: "".into(), index });
    }
    let points = tombstones.points().flat_map(|(_, points)| points.iter().map(Entry::from_bits));
    for point in points.filter(|point| point.stale() > 0) {
        storage.space.blocks_mut().note_tombstone(point.block(), point.footprint());
    }
    for range in tombstones.ranges().filter(|range| !range.stale.is_zero()) {
        storage.space.blocks_mut().note_tombstone(range.entry.block(), range.entry.footprint());
    }
    storage.tombstones = tombstones;
    view.space_mut(INTERNAL);
    for block in 0..storage.space.blocks().len() {
        if storage.space.blocks().used_as(block) == Use::Appending {
            let used = view.block(block).map_or(0, |readable| readable.published.len());
            let next = storage.next();
            storage.space.blocks_mut().seal(block, spent_of(used), next);
        }
    }
    if has_overflow { take_values(storage, view, stop) } else { Ok(()) }
}

/// The newest of a key's records that no range tombstone has deleted, and how many records it counts as stale. A
/// range tombstone counts the records that it has deleted. The key is not used where there are no ranges.
pub(crate) fn newest(
    versions: &[RecordRef],
    space: u32,
    key: &[u8],
    tombstones: &mut Tombstones,
) -> Option<(RecordRef, u32)> {
    let mut current: Option<(RecordRef, u32)> = None;
    for version in versions {
        if let Some(covering) = tombstones.covering(space, key, version.seq) {
            covering.stale.add_one();
        } else if let Some((_, stale)) = &mut current {
            *stale += 1;
        } else {
            current = Some((*version, 0));
        }
    }
    current
}

/// Takes the blocks of large values that live records refer to.
fn take_values(storage: &mut Storage, view: &mut View, stop: &AtomicBool) -> Result<()> {
    let with_values = view.spaces.values().flat_map(|space| space.index.iter());
    let entries: Vec<_> =
        with_values.map(Entry::from_bits).filter(|entry| entry.has_overflow()).collect();
    for entry in entries {
        go_on(stop)?;
        let pinned = view.pin_record(entry)?;
        take_pieces(&mut storage.space, view, &pinned.read()?, Some(entry))?;
    }
    Ok(())
}
