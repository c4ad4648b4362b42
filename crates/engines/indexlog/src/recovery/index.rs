//! Building the index, the tombstones and the accounts from the records.

use std::sync::atomic::{AtomicBool, Ordering};

use halite_contract::Result;
use halite_index::PartialKeyTree;

use crate::entry::Entry;
use crate::index::Index;
use crate::key_spaces::INTERNAL;
use crate::read::view::{KeySpace, View};
use crate::recovery::records::{AllRecords, Keys, RecordRef};
use crate::recovery::stop::go_on;
use crate::recovery::values::take_pieces;
use crate::space::blocks::{Use, spent_of};
use crate::storage::Storage;
use crate::tombstones::{PARTIAL_LEN, Tombstones};

/// Reads the records of all blocks, and builds everything from them. Returns how many there are, and their
/// bytes.
pub(super) fn read_all(
    storage: &mut Storage,
    view: &mut View,
    stop: &AtomicBool,
) -> Result<(u64, u64)> {
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

/// Builds index, tombstones and accounts from sorted records.
fn build(
    found: AllRecords,
    storage: &mut Storage,
    view: &mut View,
    stop: &AtomicBool,
) -> Result<()> {
    let mut tombstones = Tombstones::default();
    let mut ranges = found.ranges;
    // If there are a record and its copy, the copy is kept, as for other records.
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
