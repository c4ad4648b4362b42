//! Opening a partition from a snapshot of its index, into which later records are merged.
//!
//! Later records are put in the order of keys, as in an opening that reads all of them, and each key's newest takes
//! the place of the entry that the snapshot has of it. The record of that entry counts as one stale version more, if
//! it is on the medium, and so do the records that it counted. A later range tombstone first takes the entries that
//! it covers out of the snapshot's trees.
//!
//! A record with a number of the snapshot's time that lies where the snapshot does not reach is a copy of the record
//! that the snapshot has of its key.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use halite_contract::Result;
use halite_index::{Ghosts, PartialKeyTree, PartialLen};

use super::read::Loaded;
use super::{Fit, Own, Unfit};
use crate::entry::Entry;
use crate::index::{Form, Index};
use crate::read::readable::ReadableBlocks;
use crate::read::view::View;
use crate::recovery::index::{finish, go_on_behind, newest};
use crate::recovery::records::{AllRecords, Keys, RecordRef, SpaceRecords};
use crate::recovery::stop::go_on;
use crate::storage::Storage;
use crate::tombstones::{RangeTombstone, Tombstones};

/// Opens a partition from its snapshot, if there is one that can be used. Returns how many records were read. A
/// snapshot that cannot be used is released.
pub(crate) fn recover(
    own: &mut Own,
    storage: &mut Storage,
    view: &mut View,
    stop: &AtomicBool,
) -> Result<Option<u64>> {
    let merged = match view.form {
        Form::Ordered(partial) => {
            // The lock is given back before the merge: a partition that is full takes the snapshot's space.
            let loaded = Loaded::read(&mut own.area(), partial, storage, view, stop);
            loaded.and_then(|loaded| merge(partial, loaded, storage, view, stop))
        }
        Form::Hash(_) => Err(Unfit),
    };
    let Ok(merged) = merged else {
        go_on(stop)?;
        // The reading of all records reports any damage.
        own.area().release()?;
        return Ok(None);
    };
    own.area().keep_newest()?;
    let Merged { indexes, tombstones, live, seq, records, bytes, len, has_overflow } = merged;
    go_on_behind(storage, seq)?;
    (0..).zip(live).filter(|(_, live)| *live > 0).for_each(|(block, live)| {
        storage.space.blocks_mut().born(block, live);
    });
    let indexes = indexes.into_iter().map(|(space, tree)| (space, Index::Ordered(tree))).collect();
    if let Err(error) = finish(indexes, tombstones, has_overflow, storage, view, stop) {
        go_on(stop)?;
        // Either the snapshot points to wrong values or the store is damaged; the next opening, without it, finds
        // out.
        own.area().release()?;
        return Err(error);
    }
    own.begin(storage.written(), bytes, len);
    Ok(Some(records))
}

/// A partition's index, up to date.
struct Merged {
    indexes: BTreeMap<u32, PartialKeyTree>,
    tombstones: Tombstones,
    live: Vec<u64>,
    /// The number of the last record.
    seq: u64,
    /// Records that were read, and their bytes.
    records: u64,
    bytes: u64,
    /// Bytes of the snapshot.
    len: u64,
    has_overflow: bool,
}

fn merge(
    partial: PartialLen,
    loaded: Loaded,
    storage: &Storage,
    view: &View,
    stop: &AtomicBool,
) -> Fit<Merged> {
    let mut found = AllRecords { seq_max: loaded.seq, ..AllRecords::default() };
    let mut bytes = 0;
    for block in 0..storage.space.blocks().len() {
        go_on(stop)?;
        let covered = loaded.covered(block);
        bytes += found.read_block(view, block, covered)?;
    }
    let (records, len) = (found.len(), loaded.len);
    let AllRecords { spaces, ranges, seq_max } = found;
    let is_later = |found: &RecordRef| found.seq > loaded.seq || found.is_copy();
    if !spaces.values().flat_map(|space| &space.records).all(is_later) {
        return Err(Unfit);
    }
    let mut merging = Merging {
        partial,
        indexes: loaded.indexes,
        tombstones: Tombstones::default(),
        ghosts: loaded.ghosts,
        live: loaded.live,
        has_overflow: loaded.has_overflow,
        blocks: &view.blocks,
    };
    for (space, points) in loaded.points {
        merging.tombstones.set_points(space, points);
    }
    merging.add_ranges(loaded.ranges, ranges, loaded.seq)?;
    let keys = Keys::new(view, storage.space.blocks().len());
    for (number, mut space) in spaces {
        space.sort(&keys, stop)?;
        merging.add_records(number, &space, &keys, stop)?;
    }
    let Merging { indexes, tombstones, mut live, has_overflow, .. } = merging;
    // The counts of these are known by now.
    for tombstone in tombstones.ranges().filter(|tombstone| !tombstone.stale.is_zero()) {
        born(&mut live, tombstone.entry)?;
    }
    let used = |block| view.block(block).map_or(0, |readable| readable.published.len());
    if (0..).zip(&live).any(|(block, live)| *live > used(block)) {
        return Err(Unfit);
    }
    Ok(Merged { indexes, tombstones, live, seq: seq_max, records, bytes, len, has_overflow })
}

struct Merging<'a> {
    partial: PartialLen,
    indexes: BTreeMap<u32, PartialKeyTree>,
    tombstones: Tombstones,
    ghosts: BTreeMap<u32, Vec<Ghosts>>,
    live: Vec<u64>,
    has_overflow: bool,
    blocks: &'a ReadableBlocks,
}

impl Merging<'_> {
    /// Adds the tombstones of ranges: those of the snapshot that are still there, as `known`, and `later` ones.
    fn add_ranges(
        &mut self,
        known: BTreeMap<(u32, u64), (RangeTombstone, bool)>,
        mut later: Vec<(u32, bool, RangeTombstone)>,
        seq: u64,
    ) -> Fit<()> {
        let mut all = known;
        if later.iter().any(|(_, is_copy, tombstone)| tombstone.seq <= seq && !is_copy) {
            return Err(Unfit);
        }
        // If there are a tombstone and its copy, the copy is kept.
        later.sort_unstable_by_key(|(space, is_copy, tombstone)| (*space, tombstone.seq, !is_copy));
        later.dedup_by_key(|(space, _, tombstone)| (*space, tombstone.seq));
        for (space, _, tombstone) in later {
            match all.get_mut(&(space, tombstone.seq)) {
                Some((known, _))
                    if known.start != tombstone.start || known.end != tombstone.end =>
                {
                    return Err(Unfit);
                }
                Some((known, is_there)) => {
                    known.entry = tombstone.entry;
                    *is_there = true;
                }
                None if tombstone.seq <= seq => return Err(Unfit),
                None => {
                    all.insert((space, tombstone.seq), (tombstone, true));
                }
            }
        }
        for ((space, number), (mut tombstone, is_there)) in all {
            if !is_there {
                continue;
            }
            if number > seq {
                self.delete_range(space, &mut tombstone)?;
            }
            self.tombstones.insert_range(space, tombstone);
        }
        Ok(())
    }

    /// Takes the entries that a range tombstone covers out of the trees.
    fn delete_range(&mut self, space: u32, range: &mut RangeTombstone) -> Fit<()> {
        let (start, end) = (&range.start, range.end.as_deref());
        if let Some(index) = self.indexes.get_mut(&space) {
            for old in index.remove_range(start, end, self.blocks)? {
                let old = Entry::from_bits(old);
                range.stale.take_over(old);
                died(&mut self.live, old)?;
            }
        }
        for old in self.tombstones.remove_range(space, start, end, self.blocks)? {
            range.stale.take_over(old);
            if old.stale() > 0 {
                died(&mut self.live, old)?;
            }
        }
        for ghosts in self.ghosts.get(&space).into_iter().flatten() {
            for ghost in ghosts.range(start, end) {
                // This counts one record more than the ghost did: the ghost's own, which is not there.
                range.stale.take_over(Entry::from_bits(ghost));
            }
        }
        Ok(())
    }

    /// Adds the sorted records of a key space.
    fn add_records(
        &mut self,
        number: u32,
        space: &SpaceRecords,
        keys: &Keys<'_>,
        stop: &AtomicBool,
    ) -> Fit<()> {
        let partial = self.partial;
        self.indexes.entry(number).or_insert_with(|| PartialKeyTree::new(partial));
        for versions in space.versions(keys, true) {
            go_on(stop)?;
            let key = keys.of(&versions[0]);
            if let Some((newest, stale)) = newest(versions, number, key, &mut self.tombstones) {
                self.add(number, key, newest, stale)?;
            }
        }
        Ok(())
    }

    /// Adds the newest record of a key, behind which `stale` older ones were found.
    fn add(&mut self, number: u32, key: &[u8], newest: RecordRef, stale: u32) -> Fit<()> {
        let Some(index) = self.indexes.get_mut(&number) else { return Err(Unfit) };
        let ghosts = self.ghosts.get(&number).into_iter().flatten();
        let ghosts = ghosts.flat_map(|ghosts| ghosts.candidates(key));
        let stale =
            ghosts.fold(stale, |sum, ghost| sum.saturating_add(Entry::from_bits(ghost).stale()));
        let entry = newest.entry();
        let counting = |old: Option<Entry>| {
            entry.with_stale(old.map_or(stale, |old| stale.saturating_add(old.stale() + 1)))
        };
        self.has_overflow |= entry.has_overflow();
        if !newest.is_put() {
            let old = index.remove(key, self.blocks)?.map(Entry::from_bits);
            let dead = self.tombstones.get(number, key, self.blocks)?;
            if let Some(old) = old.or(dead.filter(|dead| dead.stale() > 0)) {
                died(&mut self.live, old)?;
            }
            let tombstone = counting(old.or(dead));
            self.tombstones.insert(number, key, tombstone, self.blocks)?;
            if tombstone.stale() > 0 {
                born(&mut self.live, tombstone)?;
            }
            return Ok(());
        }
        let with_old = |old: Option<u64>| counting(old.map(Entry::from_bits)).bits();
        if let Some(old) = index.insert_with(key, with_old, self.blocks)? {
            died(&mut self.live, Entry::from_bits(old))?;
        } else if let Some(dead) = self.tombstones.remove(number, key, self.blocks)? {
            if dead.stale() > 0 {
                died(&mut self.live, dead)?;
            }
            index.insert(key, counting(Some(dead)).bits(), self.blocks)?;
        }
        born(&mut self.live, entry)
    }
}

fn born(live: &mut [u64], entry: Entry) -> Fit<()> {
    *live.get_mut(entry.block() as usize).ok_or(Unfit)? += entry.footprint();
    Ok(())
}

fn died(live: &mut [u64], entry: Entry) -> Fit<()> {
    let live = live.get_mut(entry.block() as usize).ok_or(Unfit)?;
    *live = live.checked_sub(entry.footprint()).ok_or(Unfit)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ALIGN;
    use crate::tombstones::Stale;

    fn range(seq: u64, start: &[u8], end: Option<&[u8]>, offset: u64) -> RangeTombstone {
        let entry = Entry::new(0, offset, ALIGN, false);
        let end = end.map(Into::into);
        RangeTombstone { seq, start: start.into(), end, entry, stale: Stale::default() }
    }

    #[test]
    fn what_is_found_again_of_a_range_is_a_copy_of_it() {
        let (blocks, partial) = (ReadableBlocks::default(), PartialLen::Eight);
        let merged = |is_copy: bool, found: RangeTombstone| {
            let mut merging = Merging {
                partial,
                indexes: BTreeMap::new(),
                tombstones: Tombstones::default(),
                ghosts: BTreeMap::new(),
                live: Vec::new(),
                has_overflow: false,
                blocks: &blocks,
            };
            let known = BTreeMap::from([((7, 5), (range(5, b"a", Some(b"c"), 0), false))]);
            let added = merging.add_ranges(known, vec![(7, is_copy, found)], 10);
            added.ok().map(|()| merging.tombstones.range(7, 5).map(|range| range.entry.offset()))
        };
        let copy = || range(5, b"a", Some(b"c"), 64);
        assert_eq!(merged(true, copy()), Some(Some(64)));
        assert_eq!(merged(false, copy()), None, "the snapshot does not reach where it was written");
        for other in [range(5, b"b", Some(b"c"), 64), range(5, b"a", None, 64)] {
            assert_eq!(merged(true, other), None, "it has other bounds");
        }
        assert_eq!(
            merged(true, range(6, b"a", Some(b"c"), 64)),
            None,
            "the snapshot has none such"
        );
        assert_eq!(merged(false, range(11, b"a", Some(b"c"), 64)), Some(None));
    }
}
