//! Opening a store: from what a crash left to a writer and a view.
//!
//! 1. Read the map. Take every block that holds records and check every record in it. In a sealed
//!    block each must be whole; in an open one the records end where they end.
//! 2. Find the log's end and cut what is behind it (`log_end`).
//! 3. Make the cut durable: dropped blocks are freed first, then what is left is flushed and sealed.
//!    A crash here is met again by the same rules.
//! 4. Sort what was found by key, and build the index, the tombstones and the accounts from it.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_engine::{Error, Recovery, Result};
use halite_index::BPlusTree;

use crate::block_map::{BlockMap, Life, State};
use crate::blocks::{Blocks, Use};
use crate::collect::each_record;
use crate::entry::Entry;
use crate::log::claim;
use crate::log_end::{Cut, take, take_sealed_blocks};
use crate::read::{Readable, Space, View, piece_damage};
use crate::record::{Kind, Record};
use crate::tombstones::{RangeTombstone, Stale, Tombstones};
use crate::write::{CATALOGUE, Writer};
use crate::{BLOCK, BLOCKS_PER_SEGMENT, DATA_DEVICE, MAP_DIGEST};

/// A store that was opened.
pub(crate) struct Recovered {
    pub(crate) writer: Writer,
    pub(crate) view: View,
    pub(crate) report: Recovery,
}

/// Opens the store in `segments`.
///
/// # Errors
/// [`Error::Damaged`]; what the pool reports.
pub(crate) fn recover(segments: &Arc<Segments>) -> Result<Recovered> {
    let map = BlockMap::open(segments)?;
    if map.len() == 0 {
        return Err(Error::Damaged {
            what: "block map".into(),
            why: "the allocation table does not have it".into(),
        });
    }
    // A store that was closed is as it was then.
    if let Some(digest) = segments.root(MAP_DIGEST).filter(|&digest| digest != 0) {
        if digest != map.digest() {
            return Err(Error::Damaged {
                what: "block map".into(),
                why: "it is not as it was when the store was closed".into(),
            });
        }
        segments.set_root(MAP_DIGEST, 0)?;
    }
    let device = segments.device(DATA_DEVICE);
    let mut writer = Writer::new(segments, device, map)?;
    let mut view = View::default();
    let mut report = Recovery::default();

    let lives = read_map(&mut writer, segments)?;
    let open = take_sealed_blocks(&mut writer, &mut view, &lives)?;
    let cut = Cut::find(&writer, &view, open)?;
    report.clean = cut.blocks.is_empty();
    report.records_cut = cut.records_cut;
    cut.apply(&mut writer, &mut view)?;

    let mut found = find_records(&view, &writer.blocks)?;
    report.records_read = found.records.len() as u64 + found.ranges.len() as u64;
    writer.next_seq = found.seq_max + 1;
    writer.durable_seq = found.seq_max;
    found.records.sort_unstable_by(|a, b| a.cmp(b, &view));
    build(found, &mut writer, &mut view)?;
    take_values(&mut writer, &mut view)?;
    report.segments_reclaimed = release_empty_segments(&mut writer)?;
    Ok(Recovered { writer, view, report })
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

/// A put or delete that was found.
struct Found {
    space: u32,
    /// The first 16 bytes of the key, padded with zeros: they decide most comparisons.
    head: u128,
    seq: u64,
    entry: Entry,
    /// In bytes, in the block.
    key_at: u32,
    key_len: u32,
    is_put: bool,
    is_copy: bool,
}

impl Found {
    fn new(at: u64, record: &Record<'_>, entry: Entry) -> Self {
        let mut head = [0; 16];
        let len = record.key.len().min(head.len());
        head[..len].copy_from_slice(&record.key[..len]);
        Self {
            space: record.header.space.get(),
            head: u128::from_be_bytes(head),
            seq: record.seq(),
            entry,
            key_at: at as u32 + (record.value_at() - record.key.len()) as u32,
            key_len: record.key.len() as u32,
            is_put: record.kind == Kind::Put,
            is_copy: record.is_relocated(),
        }
    }

    fn key<'a>(&self, view: &'a View) -> &'a [u8] {
        let bytes = view.block(self.entry.block()).map(|block| block.published.bytes());
        let range = self.key_at as usize..(self.key_at + self.key_len) as usize;
        bytes.and_then(|bytes| bytes.get(range)).unwrap_or_default()
    }

    fn cmp_key(&self, other: &Self, view: &View) -> std::cmp::Ordering {
        (self.space, self.head).cmp(&(other.space, other.head)).then_with(|| {
            let short = self.key_len <= 16 && other.key_len <= 16;
            if short {
                // Of two keys with one head, the shorter is a prefix of the longer, padded.
                self.key_len.cmp(&other.key_len)
            } else {
                self.key(view).cmp(other.key(view))
            }
        })
    }

    /// By key, then the newest first; of a record and its copy the copy first, so that a block whose
    /// collection was interrupted has nothing alive.
    fn cmp(&self, other: &Self, view: &View) -> std::cmp::Ordering {
        self.cmp_key(other, view)
            .then_with(|| other.seq.cmp(&self.seq))
            .then_with(|| other.is_copy.cmp(&self.is_copy))
    }
}

/// Everything that the blocks hold.
struct FoundAll {
    records: Vec<Found>,
    /// Key space, whether it is a copy, and the tombstone.
    ranges: Vec<(u32, bool, RangeTombstone)>,
    seq_max: u64,
}

fn find_records(view: &View, blocks: &Blocks) -> Result<FoundAll> {
    let mut found = FoundAll { records: Vec::new(), ranges: Vec::new(), seq_max: 0 };
    for block in 0..blocks.len() {
        let Some(Readable { published, seed: Some(seed) }) = view.block(block) else { continue };
        let bytes = published.bytes();
        each_record(bytes, *seed, block, |at, record, footprint| {
            found.seq_max = found.seq_max.max(record.seq());
            let entry = Entry::new(block, at, footprint, record.has_overflow());
            if record.kind == Kind::DeleteRange {
                let tombstone = RangeTombstone {
                    seq: record.seq(),
                    start: record.key.into(),
                    end: record.range_end().map(Into::into),
                    entry,
                    stale: Stale::default(),
                };
                found.ranges.push((record.header.space.get(), record.is_relocated(), tombstone));
            } else {
                found.records.push(Found::new(at, &record, entry));
            }
        })?;
    }
    Ok(found)
}

/// Builds index, tombstones and accounts from sorted records.
fn build(found: FoundAll, writer: &mut Writer, view: &mut View) -> Result<()> {
    let mut tombstones = Tombstones::default();
    let mut ranges = found.ranges;
    // Of one and its copy the copy, as for other records.
    ranges.sort_unstable_by_key(|(space, is_copy, tombstone)| (*space, tombstone.seq, !is_copy));
    ranges.dedup_by_key(|(space, _, tombstone)| (*space, tombstone.seq));
    ranges.into_iter().for_each(|(space, _, tombstone)| tombstones.insert_range(space, tombstone));

    for of_space in found.records.chunk_by(|a, b| a.space == b.space) {
        let space = of_space[0].space;
        let (mut live, mut dead) = (Vec::new(), Vec::new());
        for versions in of_space.chunk_by(|a, b| a.cmp_key(b, view).is_eq()) {
            let key = versions[0].key(view);
            let mut current: Option<(&Found, u32)> = None;
            for version in versions {
                if let Some(killer) = tombstones.killer(space, key, version.seq) {
                    killer.stale.add_one();
                } else if let Some((_, stale)) = &mut current {
                    *stale += 1;
                } else {
                    current = Some((version, 0));
                }
            }
            let Some((newest, stale)) = current else { continue };
            let entry = newest.entry.with_stale(stale);
            if newest.is_put || stale > 0 {
                writer.blocks.born(entry.block(), entry.footprint());
            }
            if newest.is_put { &mut live } else { &mut dead }.push((key, entry.bits()));
        }
        let tree = BPlusTree::from_sorted(live);
        tombstones.set_points(space, BPlusTree::from_sorted(dead));
        view.spaces.insert(space, Space { name: "".into(), tree });
    }
    for tombstone in tombstones.ranges().filter(|tombstone| !tombstone.stale.is_zero()) {
        writer.blocks.born(tombstone.entry.block(), tombstone.entry.footprint());
    }
    writer.tombstones = tombstones;
    name_spaces(writer, view)?;
    for block in 0..writer.blocks.len() {
        if writer.blocks.used_as(block) == Use::Appending {
            // What the block has behind its records can only be had by collecting it.
            writer.blocks.seal(block, BLOCK);
        }
    }
    Ok(())
}

/// Gives the key spaces the names that the catalogue has for them.
fn name_spaces(writer: &mut Writer, view: &mut View) -> Result<()> {
    let catalogue = view
        .spaces
        .entry(CATALOGUE)
        .or_insert_with(|| Space { name: "".into(), tree: BPlusTree::new() });
    let entries: Vec<_> = catalogue.tree.range(b"", None).map(Entry::from_bits).collect();
    for entry in entries {
        let (name, id) = {
            let pinned = view.pin(entry)?;
            let (name, value) = pinned.pair(writer.salt)?;
            let id = <[u8; 4]>::try_from(&value[..]).ok().map(u32::from_le_bytes);
            (
                String::from_utf8(name.to_vec()).ok(),
                id.filter(|&id| id != CATALOGUE && id != u32::MAX),
            )
        };
        let (Some(name), Some(id)) = (name, id) else {
            return Err(Error::Damaged {
                what: "the catalogue of key spaces".into(),
                why: "an entry is not a name and a number".into(),
            });
        };
        let space = view
            .spaces
            .entry(id)
            .or_insert_with(|| Space { name: "".into(), tree: BPlusTree::new() });
        space.name = name.into();
        writer.next_space = writer.next_space.max(id.saturating_add(1));
    }
    let unnamed = |(id, space): (&u32, &Space)| {
        (*id != CATALOGUE && space.name.is_empty() && !space.tree.is_empty()).then_some(*id)
    };
    if let Some(id) = view.spaces.iter().find_map(unnamed) {
        return Err(Error::Damaged {
            what: format!("key space {id}"),
            why: "it has records and no name".into(),
        });
    }
    view.spaces.retain(|id, space| *id == CATALOGUE || !space.name.is_empty());
    Ok(())
}

/// Takes the blocks of large values that live records refer to.
fn take_values(writer: &mut Writer, view: &mut View) -> Result<()> {
    let with_values = view.spaces.values().flat_map(|space| space.tree.range(b"", None));
    let entries: Vec<_> =
        with_values.map(Entry::from_bits).filter(|entry| entry.has_overflow()).collect();
    for entry in entries {
        let pinned = view.pin_record(entry)?;
        let record = pinned.read()?;
        for piece in record.pieces() {
            let (block, len) = (piece.block.get(), u64::from(piece.len.get()));
            let same_segment =
                u64::from(block % BLOCKS_PER_SEGMENT) * BLOCK + len <= halite_alloc::SEGMENT;
            if len == 0 || !same_segment {
                return Err(piece_damage(&record, piece));
            }
            writer.blocks.take_overflow(block, piece.block_count())?;
            writer.blocks.born(block, len);
            let fresh = claim(&writer.device, block, len)?;
            take(view, block, fresh, len, None);
        }
    }
    Ok(())
}

/// Gives segments back that nothing is in: allocated before a crash and never used, or emptied.
fn release_empty_segments(writer: &mut Writer) -> Result<u64> {
    let Writer { device, blocks, .. } = writer;
    let mut released = Vec::new();
    let count = device.retain(|segment| {
        let keep = !blocks.is_segment_free(segment);
        if !keep {
            released.push(segment);
        }
        keep
    })?;
    released.into_iter().for_each(|segment| blocks.remove_segment(segment));
    Ok(count)
}
