//! Opening a store: from what a crash left to a writer and a view.
//!
//! 1. Read the map. Take every block that holds records and check every record in it. In a sealed
//!    block each must be whole; in an open one the records end where they end.
//! 2. Cut the tail. Records of the log are numbered without gaps, so the first number that is missing
//!    behind the sealed blocks is where an interrupted write began; it and all behind it go. But a
//!    record also says up to which number everything was durable when it was written: a missing one
//!    below that is damage, not an interrupted write.
//! 3. Make the cut durable: dropped blocks are freed first, then what is left is flushed and sealed.
//!    A crash here is met again by the same rules.
//! 4. Sort what was found by key, and build the index, the tombstones and the accounts from it.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_engine::{Error, Recovery, Result};
use halite_index::BPlusTree;
use halite_pmem::Fresh;

use crate::block_map::{BlockMap, Life, ORDINALS, State};
use crate::blocks::{Blocks, Use};
use crate::collect::each_record;
use crate::entry::Entry;
use crate::log::claim;
use crate::read::{Readable, Space, View, piece_damage};
use crate::record::{self, BATCH_ALIGN, Kind, Record};
use crate::tombstones::{RangeTombstone, Tombstones};
use crate::write::{CATALOGUE, Writer};
use crate::{BLOCK, BLOCKS_PER_SEGMENT, DATA_DEVICE};

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
    let device = segments.device(DATA_DEVICE);
    let mut writer = Writer::new(segments, device, map);
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
    let segments_max = segments.pool().len() / halite_alloc::SEGMENT;
    for segment in 0..writer.map.len() / BLOCKS_PER_SEGMENT {
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
                    // The life that goes on here began when the block was taken.
                    incarnations.push(life.incarnation.wrapping_sub(1));
                }
                life => incarnations.push(life.unwrap_or(Life::NEVER_USED).incarnation),
            }
        }
        if exists {
            writer.blocks.add_segment(segment, incarnations.into_iter());
        }
    }
    let beyond = |segment: &u32| {
        *segment >= writer.map.len() / BLOCKS_PER_SEGMENT || u64::from(*segment) >= segments_max
    };
    match exists.into_iter().find(beyond) {
        Some(segment) => Err(Error::Damaged {
            what: format!("data segment {segment}"),
            why: "the block map does not reach to it".into(),
        }),
        None => Ok(in_use),
    }
}

/// A block whose end only its records tell.
struct OpenBlock {
    block: u32,
    ordinal: u16,
    fresh: Fresh,
    seed: u64,
    /// The first and the last number of the records that follow each other from the start.
    seqs: Option<(u64, u64)>,
    /// Where each of them ends, and how many of its batch are to follow.
    records: Vec<(u64, u32)>,
    /// The lowest number of a record beyond those.
    beyond: Option<u64>,
    /// The highest number that something in the block, beyond those records too, proves durable.
    durable: u64,
}

impl OpenBlock {
    fn read(block: u32, ordinal: u16, fresh: Fresh, seed: u64) -> Self {
        let bytes = fresh.bytes();
        let (mut seqs, mut records, mut beyond, mut durable) = (None, Vec::new(), None, 0);
        let mut at = 0;
        while at < BLOCK
            && let Ok(record) = Record::read(&bytes[at as usize..], seed)
        {
            let (first, expected) = match seqs {
                Some((first, last)) => (first, last + 1),
                None => (record.seq(), record.seq()),
            };
            if record.is_relocated() || record.seq() != expected {
                break;
            }
            seqs = Some((first, record.seq()));
            durable = durable.max(record.durable_before());
            at = record.next_at(at);
            records.push((at, record.header.remaining.get()));
        }
        // A later batch that survived may prove that what is missing before it was durable.
        for at in (at.next_multiple_of(BATCH_ALIGN)..BLOCK).step_by(BATCH_ALIGN as usize) {
            if let Ok(record) = Record::read(&bytes[at as usize..], seed) {
                durable = durable.max(record.durable_before());
                beyond = Some(beyond.map_or(record.seq(), |seq| record.seq().min(seq)));
            }
        }
        Self { block, ordinal, fresh, seed, seqs, records, beyond, durable }
    }

    /// Where the records end.
    fn end(&self) -> u64 {
        self.records.last().map_or(0, |(end, _)| *end)
    }
}

/// Takes the sealed blocks into use, unread, and returns the open ones, read, as they were opened.
fn take_sealed_blocks(
    writer: &mut Writer,
    view: &mut View,
    lives: &[(u32, Life)],
) -> Result<Vec<OpenBlock>> {
    let mut open = Vec::new();
    for &(block, life) in lives {
        writer.blocks.take_for_records(block);
        let fresh = claim(&writer.device, block, BLOCK)?;
        let seed = record::seed(writer.salt, block, life.incarnation);
        match life.state {
            State::Sealed(used) if used <= BLOCK => take(view, block, fresh, used, Some(seed)),
            State::Sealed(used) => {
                return Err(Error::Damaged {
                    what: format!("block map, block {block}"),
                    why: format!("{used} bytes are said to be used"),
                });
            }
            State::Open(ordinal) => open.push(OpenBlock::read(block, ordinal, fresh, seed)),
            State::Free => {}
        }
    }
    // Ordinals wrap; few blocks are open at a time, so the widest gap is where the order begins.
    open.sort_unstable_by_key(|open| open.ordinal);
    let gap = |at: usize| {
        let before = open[(at + open.len() - 1) % open.len()].ordinal;
        open[at].ordinal.wrapping_sub(before).wrapping_sub(1) % ORDINALS
    };
    if let Some(first) = (0..open.len()).max_by_key(|&at| gap(at)) {
        open.rotate_left(first);
    }
    Ok(open)
}

fn take(view: &mut View, block: u32, fresh: Fresh, used: u64, seed: Option<u64>) {
    let published = Arc::clone(fresh.into_appender(used).published());
    view.set_block(block, Readable { published, seed });
}

/// Where the log ends, and what lies behind.
struct Cut {
    /// Open blocks, as they were opened. Of those behind the cut no record is kept.
    blocks: Vec<OpenBlock>,
    records_cut: u64,
}

impl Cut {
    /// Decides how many records of the open blocks to keep.
    fn find(writer: &Writer, view: &View, mut open: Vec<OpenBlock>) -> Result<Self> {
        let (sealed, mut durable) = sealed_runs(writer, view)?;
        durable = open.iter().map(|open| open.durable).fold(durable, u64::max);
        let mut records_cut = 0;
        // The number that must come next, if it is known; and whether something is missing.
        let (mut expected, mut broken) = (None, false);
        let mut missing_at = None;
        for open in &mut open {
            let first = open.seqs.map(|(first, _)| first);
            if let (Some(seq), Some(first), false) = (expected, first, broken) {
                expected = Some(follow(&sealed, seq, first));
                broken = expected != Some(first);
            }
            broken |= first.is_none();
            if broken {
                missing_at = missing_at.or(Some((open.block, 0)));
                // What comes first behind a gap of unknown beginning bounds it from above.
                expected = expected.or(first.or(open.beyond).map(|first| first.saturating_sub(1)));
                records_cut += open.records.len() as u64;
                open.records.clear();
                continue;
            }
            expected = open.seqs.map(|(_, last)| last + 1);
        }
        // Of a batch all must be there.
        for open in open.iter_mut().rev() {
            while let Some(&(_, remaining)) = open.records.last()
                && remaining > 0
            {
                open.records.pop();
                records_cut += 1;
                expected = expected.map(|seq| seq - 1);
            }
            if !open.records.is_empty() {
                missing_at = missing_at.or(Some((open.block, open.end())));
                break;
            }
        }
        if let (Some(missing), Some((block, at))) = (expected, missing_at)
            && durable >= missing
        {
            let (bytes, why) = (open.iter().find(|open| open.block == block), "it is not whole");
            let bytes = bytes.map_or(&[][..], |open| open.fresh.bytes());
            let mut damage = record::damage(bytes, block, at, why);
            damage.why = format!("{why}, though number {missing} of the log was durable");
            return Err(damage.into());
        }
        Ok(Self { blocks: open, records_cut })
    }

    /// Makes the cut durable: first what goes, then what stays, so that a crash in between finds
    /// either the same gap again or none.
    fn apply(self, writer: &mut Writer, view: &mut View) -> Result<()> {
        let (kept, dropped): (Vec<_>, Vec<_>) =
            self.blocks.into_iter().partition(|open| !open.records.is_empty());
        let any = !kept.is_empty();
        for open in dropped {
            let incarnation = writer.blocks.incarnation(open.block);
            writer.map.set(open.block, Life { state: State::Free, incarnation }, None);
            writer.blocks.free(open.block);
        }
        writer.fence_with_map(Vec::new())?;
        if !any {
            return Ok(());
        }
        // The process may have died where the power did not: what was read may not be durable yet.
        let flushed = kept.iter().map(|open| open.fresh.flush(0..open.end())).collect();
        let proofs = writer.fence_with_map(flushed)?;
        for (open, proof) in kept.into_iter().zip(&proofs) {
            let incarnation = writer.blocks.incarnation(open.block);
            let life = Life { state: State::Sealed(open.end()), incarnation };
            writer.map.set(open.block, life, Some(proof));
            let (end, seed) = (open.end(), open.seed);
            take(view, open.block, open.fresh, end, Some(seed));
        }
        writer.fence_with_map(Vec::new())?;
        Ok(())
    }
}

/// The runs of numbers in sealed blocks of the log, (first, last) ascending; and the highest number
/// that they prove durable.
fn sealed_runs(writer: &Writer, view: &View) -> Result<(Vec<(u64, u64)>, u64)> {
    let (mut runs, mut durable) = (Vec::new(), 0);
    for block in 0..writer.blocks.len() {
        let Some(Readable { published, seed: Some(seed) }) = view.block(block) else { continue };
        let mut run: Option<(u64, u64)> = None;
        let bytes = published.bytes();
        if Record::read(bytes, *seed).is_ok_and(|record| record.is_relocated()) {
            continue;
        }
        each_record(bytes, *seed, block, |_, record, _| {
            run = Some((run.map_or(record.seq(), |(first, _)| first), record.seq()));
            // The fence that let the block be sealed was behind all of its batches.
            durable = durable.max(record.seq() + u64::from(record.header.remaining.get()));
        })?;
        runs.extend(run);
    }
    runs.sort_unstable();
    Ok((runs, durable))
}

/// Follows sealed blocks from number `seq` on, up to `until`.
fn follow(sealed: &[(u64, u64)], mut seq: u64, until: u64) -> u64 {
    while seq < until
        && let Ok(at) = sealed.binary_search_by_key(&seq, |(first, _)| *first)
    {
        seq = sealed[at].1 + 1;
    }
    seq
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
    ranges: Vec<(u32, RangeTombstone)>,
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
                    stale: 0,
                };
                found.ranges.push((record.header.space.get(), tombstone));
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
    ranges.sort_unstable_by_key(|(space, tombstone)| (*space, tombstone.seq));
    // A moved one may be there twice; either will do.
    ranges.dedup_by_key(|(space, tombstone)| (*space, tombstone.seq));
    ranges.into_iter().for_each(|(space, tombstone)| tombstones.insert_range(space, tombstone));

    for of_space in found.records.chunk_by(|a, b| a.space == b.space) {
        let space = of_space[0].space;
        let (mut live, mut dead) = (Vec::new(), Vec::new());
        for versions in of_space.chunk_by(|a, b| a.cmp_key(b, view).is_eq()) {
            let key = versions[0].key(view);
            let mut current: Option<(&Found, u32)> = None;
            for version in versions {
                if let Some(killer) = tombstones.killer(space, key, version.seq) {
                    killer.stale += 1;
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
    for tombstone in tombstones.ranges().filter(|tombstone| tombstone.stale > 0) {
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
            let (name, value) = pinned.pair(writer.salt, |_| None)?;
            let id = <[u8; 4]>::try_from(&value[..]).ok().map(u32::from_le_bytes);
            (String::from_utf8(name.to_vec()).ok(), id.filter(|&id| id != CATALOGUE))
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
        let pinned = view.pin(entry)?;
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
