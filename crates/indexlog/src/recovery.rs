//! Opening a store: from what a crash left to a writer and a view for each partition.
//!
//! 1. Read the map. Take every block that holds records and check every record in it. In a sealed
//!    block each must be whole; in an open one the records end where they end.
//! 2. Find the log's end (`log_end`), and decide which batches on several partitions are whole.
//! 3. Make the cut durable: dropped blocks are freed first, then what is left is flushed; when that is
//!    so in all partitions, it is sealed. A crash here is met again by the same rules.
//! 4. Sort what was found by key, and build the index, the tombstones and the accounts from it.
//! 5. Take the blocks of large values, and replay what a change log has beyond the last record
//!    (`change_replay`).
//!
//! All partitions take each step at the same time, on threads of their own.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_engine::{Error, Recovery, Result};
use halite_index::PartialKeyTree;
use halite_pmem::planted;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::batch::Batch;
use crate::block_map::{BlockMap, Life, State};
use crate::blocks::Use;
use crate::change_replay::FoundLog;
use crate::closing::{closed_digest, is_as_closed, reopened};
use crate::entry::Entry;
use crate::found::{Found, FoundAll, Keys};
use crate::index::Form;
use crate::layout::Layout;
use crate::log::claim;
use crate::log_end::{Cut, Kept, OpenBlock, cut_undecided, take, take_sealed_blocks};
use crate::parallel::each;
use crate::partition::in_partition;
use crate::read::{Space, View, piece_damage};
use crate::record::Record;
use crate::tombstones::{PARTIAL_LEN, Tombstones};
use crate::write::{CATALOGUE, INTERNAL, Writer};
use crate::{BLOCK, BLOCKS_PER_SEGMENT, change_device, data_device, map_device};

/// What seeds the sums of a partition: its own, so that a segment that was another's before has
/// nothing that it could take for its own.
pub(crate) fn salt_of(segments: &Segments, device: u16) -> u64 {
    match device {
        0 => segments.salt(),
        _ => xxh3_64_with_seed(&device.to_le_bytes(), segments.salt()),
    }
}

/// The map of a partition.
pub(crate) fn open_map(
    segments: &Arc<Segments>,
    generation: u32,
    number: usize,
) -> Result<BlockMap> {
    let device = map_device(generation, number);
    BlockMap::open(segments, segments.device(device), salt_of(segments, device))
}

/// All partitions of a store, opened.
pub(crate) struct Recovered {
    pub(crate) partitions: Vec<(Writer, View)>,
    pub(crate) report: Recovery,
    /// The highest number of a batch on several partitions.
    pub(crate) batch: u64,
}

/// Opens the partitions of the store in `segments`.
///
/// # Errors
/// [`Error::Damaged`]; what the pool reports.
pub(crate) fn recover(
    segments: &Arc<Segments>,
    layout: Layout,
    form: Form,
    on_threads: bool,
) -> Result<Recovered> {
    let numbers: Vec<_> = (0..layout.partitions).collect();
    let found = each(numbers, on_threads, |_, number| {
        let found = Recovering::find(segments, layout, number, form);
        found.map_err(|error| in_partition(layout.is_named(number), error))
    })?;
    let mut report = Recovery::default();
    let (mut recovering, mut cuts): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    // A store that was closed is as it was then.
    if let Some(digest) = closed_digest(segments) {
        if !is_as_closed(digest, recovering.iter().map(|partition| partition.digest)) {
            return Err(Error::Damaged {
                what: "block map".into(),
                why: "it is not as it was when the store was closed".into(),
            });
        }
        reopened(segments)?;
    }
    let batches = recovering.iter().filter_map(|partition| partition.batch);
    let batch = batches.map(|batch| batch.number).max().unwrap_or_default();
    if !planted!(BatchKeptInParts) {
        cut_undecided(&mut cuts)?;
    }
    report.clean = cuts.iter().all(|cut| cut.blocks.is_empty());
    report.records_cut = cuts.iter().map(|cut| cut.records_cut).sum();

    let cut: Vec<_> = recovering.iter_mut().zip(cuts).collect();
    let kept = each(cut, on_threads, |_, (partition, cut): (&mut Recovering, Cut)| {
        cut.drop_and_flush(&mut partition.writer)
    })?;
    let kept: Vec<_> = recovering.into_iter().zip(kept).collect();
    let built = each(kept, on_threads, |number, (partition, kept)| {
        let built = partition.build(kept);
        built.map_err(|error| in_partition(layout.is_named(number), error))
    })?;

    report.records_read = built.iter().map(|partition| partition.records_read).sum();
    let replayed = each(built, on_threads, |number, partition| {
        let replayed = partition.replay(layout.changes);
        replayed.map_err(|error| in_partition(layout.is_named(number), error))
    })?;
    let mut partitions = Vec::new();
    for (writer, view, replayed) in replayed {
        report.records_replayed += replayed;
        partitions.push((writer, view));
    }
    name_spaces(&mut partitions)?;
    let taken = each(partitions.iter_mut().collect(), on_threads, |_, (writer, _)| {
        if layout.partitions > 1 {
            writer.share_pool()?;
        }
        writer.release_empty_segments()
    })?;
    report.segments_reclaimed = taken.into_iter().sum();
    Ok(Recovered { partitions, report, batch })
}

/// A partition on its way.
struct Recovering {
    writer: Writer,
    view: View,
    found: FoundAll,
    /// The digest of the map as it was found.
    digest: u64,
    /// The newest batch on several partitions of which there is anything.
    batch: Option<Batch>,
}

impl Recovering {
    /// Reads everything, and finds the log's end.
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
        let mut writer = Writer::new(segments, device, map)?;
        let mut view = View::new(form);
        let lives = read_map(&mut writer, segments)?;
        let open = take_sealed_blocks(&mut writer, &mut view, &lives)?;
        let mut found = FoundAll::default();
        let sealed = found.read_sealed(&view, writer.blocks.len())?;
        let in_open = open.iter().filter_map(OpenBlock::newest_batch);
        let in_sealed = sealed.batch.map(|(_, batch)| batch);
        let batch = in_open.chain(in_sealed).max_by_key(|batch| batch.number);
        let mut cut = Cut::find(&writer, sealed, open)?;
        let mut in_log = None;
        if layout.changes.is_some() {
            let device = segments.device(change_device(generation, number));
            let log = FoundLog::read(device, writer.salt, writer.map.durable()?, cut.last_batch())?;
            in_log = log.newest_note(0).and_then(|(batch, _)| batch);
            cut.compare(log, number)?;
        }
        let batch = batch.into_iter().chain(in_log).max_by_key(|batch| batch.number);
        Ok((Self { writer, view, found, digest, batch }, cut))
    }

    /// Builds the index, the tombstones and the accounts.
    fn build(self, mut kept: Kept) -> Result<Built> {
        let Self { mut writer, mut view, mut found, .. } = self;
        let log = kept.log.take();
        for block in kept.seal(&mut writer, &mut view)? {
            found.read_block(&view, block, |_, _| {})?;
        }
        let records_read = found.len();
        writer.next_seq = found.seq_max + 1;
        writer.durable_seq = found.seq_max;
        build(found, &mut writer, &mut view)?;
        Ok(Built { writer, view, log, records_read })
    }
}

/// A partition whose index is built.
struct Built {
    writer: Writer,
    view: View,
    log: Option<FoundLog>,
    records_read: u64,
}

impl Built {
    /// Takes the values of the records, and replays what the change log has beyond these. Returns how
    /// many operations.
    fn replay(self, retain: Option<u64>) -> Result<(Writer, View, u64)> {
        let Self { mut writer, mut view, log, .. } = self;
        take_values(&mut writer, &mut view)?;
        let mut replayed = 0;
        if let (Some(log), Some(retain)) = (log, retain) {
            replayed = log.replay(&mut writer, &mut view)?;
            let opening = writer.pool.random()? as u32;
            writer.changes = Some(log.into_writer(writer.next_seq, retain, opening)?);
        }
        Ok((writer, view, replayed))
    }
}

/// Reads the lives of all blocks and adds the segments that exist.
fn read_map(writer: &mut Writer, segments: &Segments) -> Result<Vec<(u32, Life)>> {
    let mut in_use = Vec::new();
    let exists = writer.device.logical_segments();
    // A pool never had more data segments than it has segments, and the lowest numbers are used.
    let segments_max = segments.pool().len() / halite_alloc::SEGMENT;
    let map_end = u64::from(writer.map.len() / BLOCKS_PER_SEGMENT);
    for segment in 0..map_end.min(segments_max) as u32 {
        let blocks = segment * BLOCKS_PER_SEGMENT..(segment + 1) * BLOCKS_PER_SEGMENT;
        let exists = exists.binary_search(&segment).is_ok();
        let mut incarnations = Vec::new();
        for block in blocks {
            let life = writer.map.get(block)?;
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
            writer.blocks.add_segment(segment, incarnations.into_iter());
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
fn build(found: FoundAll, writer: &mut Writer, view: &mut View) -> Result<()> {
    let mut tombstones = Tombstones::default();
    let mut ranges = found.ranges;
    // Of one and its copy the copy, as for other records.
    ranges.sort_unstable_by_key(|(space, is_copy, tombstone)| (*space, tombstone.seq, !is_copy));
    ranges.dedup_by_key(|(space, _, tombstone)| (*space, tombstone.seq));
    ranges.into_iter().for_each(|(space, _, tombstone)| tombstones.insert_range(space, tombstone));

    let keys = Keys::new(view, writer.blocks.len());
    let mut indexes = Vec::new();
    for (number, mut space) in found.spaces {
        space.sort(&keys);
        let mut dead = Vec::new();
        let has_ranges = tombstones.has_ranges(number);
        let are_read = has_ranges || view.form.reads_keys();
        let live = space.versions(&keys, are_read).filter_map(|versions| {
            let key = if has_ranges { keys.of(&versions[0]) } else { &[] };
            let (newest, stale) = newest(versions, number, key, &mut tombstones)?;
            let entry = newest.entry().with_stale(stale);
            if newest.is_put() || stale > 0 {
                writer.blocks.born(entry.block(), entry.footprint());
            }
            if newest.is_put() {
                return Some((space.start_of(&newest, &keys), entry.bits()));
            }
            dead.push((keys.of(&newest), entry.bits()));
            None
        });
        indexes.push((number, view.form.build(live, &view.blocks)?));
        tombstones.set_points(number, PartialKeyTree::from_sorted(PARTIAL_LEN, dead));
    }
    drop(keys);
    for (number, index) in indexes {
        view.spaces.insert(number, Space { name: "".into(), index });
    }
    for tombstone in tombstones.ranges().filter(|tombstone| !tombstone.stale.is_zero()) {
        writer.blocks.born(tombstone.entry.block(), tombstone.entry.footprint());
    }
    writer.tombstones = tombstones;
    view.space_mut(INTERNAL);
    for block in 0..writer.blocks.len() {
        if writer.blocks.used_as(block) == Use::Appending {
            // What the block has behind its records can only be had by collecting it.
            writer.blocks.seal(block, BLOCK);
        }
    }
    Ok(())
}

/// The newest of a key's records that no range tombstone has deleted, and how many it counts as stale. Those
/// that one has deleted, it counts. The key is of no interest where there are no ranges.
fn newest(
    versions: &[Found],
    space: u32,
    key: &[u8],
    tombstones: &mut Tombstones,
) -> Option<(Found, u32)> {
    let mut current: Option<(Found, u32)> = None;
    for version in versions {
        if let Some(killer) = tombstones.killer(space, key, version.seq) {
            killer.stale.add_one();
        } else if let Some((_, stale)) = &mut current {
            *stale += 1;
        } else {
            current = Some((*version, 0));
        }
    }
    current
}

/// Gives the key spaces of all partitions the names that the first one's catalogue has for them.
fn name_spaces(partitions: &mut [(Writer, View)]) -> Result<()> {
    let mut named = Vec::new();
    for (number, (writer, view)) in partitions.iter_mut().enumerate() {
        if number == 0 {
            view.space_mut(CATALOGUE);
            named = read_catalogue(view, writer.salt)?;
        }
        for (id, name) in &named {
            view.space_mut(*id).name = Arc::clone(name);
            writer.next_space = writer.next_space.max(id.saturating_add(1));
        }
        let is_internal = |id: u32| id == CATALOGUE || id == INTERNAL;
        let unnamed = |(id, space): (&u32, &Space)| {
            (!is_internal(*id) && space.name.is_empty() && !space.index.is_empty()).then_some(*id)
        };
        if let Some(id) = view.spaces.iter().find_map(unnamed) {
            return Err(Error::Damaged {
                what: format!("key space {id}"),
                why: "it has records and no name".into(),
            });
        }
        view.spaces.retain(|id, space| is_internal(*id) || !space.name.is_empty());
    }
    Ok(())
}

/// The key spaces in the catalogue, with their names.
pub(crate) fn read_catalogue(view: &View, salt: u64) -> Result<Vec<(u32, Arc<str>)>> {
    let Some(catalogue) = view.spaces.get(&CATALOGUE) else { return Ok(Vec::new()) };
    let mut named = Vec::new();
    for entry in catalogue.index.iter().map(Entry::from_bits) {
        let (name, value) = view.pin(entry)?.pair(salt)?;
        let id = <[u8; 4]>::try_from(&value[..]).ok().map(u32::from_le_bytes);
        let id = id.filter(|&id| id != CATALOGUE && id != INTERNAL);
        let (Ok(name), Some(id)) = (std::str::from_utf8(&name), id) else {
            return Err(Error::Damaged {
                what: "the catalogue of key spaces".into(),
                why: "an entry is not a name and a number".into(),
            });
        };
        named.push((id, name.into()));
    }
    Ok(named)
}

/// Takes the blocks of large values that live records refer to.
fn take_values(writer: &mut Writer, view: &mut View) -> Result<()> {
    let with_values = view.spaces.values().flat_map(|space| space.index.iter());
    let entries: Vec<_> =
        with_values.map(Entry::from_bits).filter(|entry| entry.has_overflow()).collect();
    for entry in entries {
        let pinned = view.pin_record(entry)?;
        take_pieces(writer, view, &pinned.read()?)?;
    }
    Ok(())
}

/// Takes the blocks of a large value.
pub(crate) fn take_pieces(writer: &mut Writer, view: &mut View, record: &Record<'_>) -> Result<()> {
    for piece in record.pieces() {
        let (block, len) = (piece.block.get(), u64::from(piece.len.get()));
        let same_segment =
            u64::from(block % BLOCKS_PER_SEGMENT) * BLOCK + len <= halite_alloc::SEGMENT;
        if len == 0 || !same_segment {
            return Err(piece_damage(record, piece));
        }
        writer.blocks.take_overflow(block, piece.block_count())?;
        writer.blocks.born(block, len);
        let fresh = claim(&writer.device, block, len)?;
        take(view, block, fresh, len, None);
    }
    Ok(())
}
