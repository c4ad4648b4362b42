//! Taking a snapshot of the index, in steps.
//!
//! The captured index is packed into a frame, item by item, until the frame is as long as a segment; then the frame
//! is written, a chunk at a time, and so on. A write takes the steps that its bytes pay for, so no write waits for a
//! whole snapshot, and its additional cost is proportional to its length.

use std::collections::VecDeque;

use halite_alloc::SEGMENT;
use halite_blocks::log::frame;
use halite_contract::Result;
use halite_index::{LeafImages, PartialLen};
use halite_sim::locks::RwLock;
use halite_sim::planted;

use super::{ITEM_HEAD, Own, Put, VERSION, item, tree};
use crate::index::{Form, Index};
use crate::read::view::View;
use crate::record;
use crate::space::blocks::Use;
use crate::tombstones::RangeTombstone;
use crate::write::Writer;

/// Bytes that a record is assumed to take in a snapshot.
const ENTRY_LEN: u64 = 18;

/// Blocks in an item, and the bytes of each.
const BLOCKS: usize = 4096;
const BLOCK_LEN: usize = 24;

/// Bytes that a step packs, at least.
const STEP: usize = 4 << 10;

/// Bytes that are packed or written for each byte that is written to the log: a snapshot is packed and written once,
/// and is at most about a quarter of the bytes written between two, so it takes about a quarter of that time.
const PACE: u64 = 2;

/// Blocks ahead whose first line is prefetched.
const AHEAD: usize = 16;

/// The index of a partition at a moment, and the blocks that it pointed into.
struct Captured {
    partial: PartialLen,
    /// The number of the last record.
    seq: u64,
    /// By item.
    blocks: Vec<Vec<u8>>,
    /// Key space, kind, and the tree's leaves.
    trees: Vec<(u32, u8, LeafImages)>,
    ranges: Vec<Vec<u8>>,
}

/// A snapshot that is being taken.
pub(crate) struct Packer {
    number: u64,
    /// Bytes that had been written when it was captured.
    written: u64,
    /// Bytes that were packed, and written.
    worked: u64,
    parts: VecDeque<Part>,
    frame: Vec<u8>,
    /// The item that the frame has no room for.
    carried: Vec<u8>,
    /// Whether the frame is being written.
    putting: bool,
    segments: u32,
    len: u64,
}

/// A part that is still to be packed.
enum Part {
    Item(u8, Vec<u8>),
    Leaves(LeafImages),
}

impl Writer {
    /// Bytes of log and copies that this opening has written, more or less.
    pub(crate) fn written(&self) -> u64 {
        self.user_bytes + self.moved_bytes + self.next_seq.wrapping_mul(record::LEN_MIN)
    }

    /// Takes the steps of a snapshot of the index that the written bytes pay for; begins one that is due. An error of
    /// the pool is left to the next write to report.
    pub(crate) fn pace_snapshot(&mut self, view: &RwLock<View>) {
        let written = self.written();
        if self.packer.is_none() {
            let is_due = self.index_snapshots.as_ref().is_some_and(|own| own.is_due(written));
            // A collection that is under way is soon through its block.
            if is_due && self.collection.is_none() {
                drop(self.begin_snapshot(view));
            }
            return;
        }
        let is_paid =
            |packer: &Packer| packer.worked < PACE * written.saturating_sub(packer.written);
        while self.packer.as_ref().is_some_and(is_paid) {
            drop(self.step_snapshot());
        }
    }

    /// Begins a snapshot, in place of one that is being taken. Returns its number; `None` if that is not
    /// possible now.
    pub(crate) fn begin_snapshot(&mut self, view: &RwLock<View>) -> Result<Option<u64>> {
        let begun = self.capture_in_room(view);
        let written = self.written();
        match begun {
            Ok(Some(packer)) => {
                let number = packer.number;
                self.packer = Some(packer);
                Ok(Some(number))
            }
            failed => {
                if let Some(own) = self.index_snapshots.as_mut().filter(|_| self.packer.is_none()) {
                    own.postpone(written);
                }
                failed.map(|_| None)
            }
        }
    }

    /// Captures the index if there is room for a snapshot, in place of one that is being taken.
    fn capture_in_room(&mut self, view: &RwLock<View>) -> Result<Option<Packer>> {
        let Some(own) = &self.index_snapshots else { return Ok(None) };
        let entries: u64 = view.read().spaces.values().map(|space| space.index.len()).sum();
        let len = entries * ENTRY_LEN;
        if self.packer.is_none() && !own.area().has_room(len) {
            return Ok(None);
        }
        let Some(captured) = self.capture_index(view)? else { return Ok(None) };
        let Some(own) = &self.index_snapshots else { return Ok(None) };
        self.packer = None;
        let number = own.area().begin(len)?;
        Ok(number.map(|number| Packer::new(captured, number, self.written())))
    }

    /// Takes a step of the snapshot that is being taken, if one is.
    pub(crate) fn step_snapshot(&mut self) -> Result<()> {
        let now = self.written();
        let (Some(packer), Some(own)) = (&mut self.packer, &mut self.index_snapshots) else {
            return Ok(());
        };
        let stepped = packer.step(own);
        let is_whole = match stepped {
            Ok(Put::More) => return Ok(()),
            Ok(Put::Whole) => true,
            Ok(Put::GivenUp) | Err(_) => false,
        };
        let ended = own.area().end(packer.number, is_whole);
        match is_whole && matches!(ended, Ok(true)) {
            true => {
                own.taken = packer.number;
                own.begin(now, now - packer.written.min(now), packer.len);
            }
            false => own.postpone(now),
        }
        self.packer = None;
        ended.and(stepped).map(drop)
    }

    /// Takes a step of snapshot `number`, and returns `None`; once it has ended, returns whether it is there.
    pub(crate) fn step_of_snapshot(&mut self, number: u64) -> Result<Option<bool>> {
        if self.packer.as_ref().is_some_and(|packer| packer.number == number) {
            self.step_snapshot()?;
            return Ok(None);
        }
        let own = self.index_snapshots.as_ref();
        Ok(Some(own.is_some_and(|own| own.taken >= number)))
    }

    /// Makes everything durable, and captures the index; `None` if that is not possible now.
    fn capture_index(&mut self, view: &RwLock<View>) -> Result<Option<Captured>> {
        if self.index_snapshots.is_none() {
            return Ok(None);
        }
        let Form::Ordered(partial) = view.read().form else { return Ok(None) };
        self.check_health()?;
        if !planted!(SnapshotBeforeSync) {
            self.sync_records()?;
        }
        // While a block is being collected, it has dead records that are in no count.
        self.finish_collection(view)?;
        self.release_limbo(view, usize::MAX)?;
        if self.limbo.has_stored_block() {
            return Ok(None);
        }
        // The map covers the collector's copies: these were durable before the originals were freed.
        let view = view.read();
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        // Blocks that only scans hold are free in the map.
        let mut of_records = view.record_blocks();
        of_records.retain(|&block| self.blocks.used_as(block) != Use::Limbo);
        for (at, &block) in of_records.iter().enumerate() {
            if let Some(later) = of_records.get(at + AHEAD).and_then(|later| view.block(*later)) {
                later.published.prefetch(0);
            }
            let Some(readable) = view.block(block) else { continue };
            let bytes = readable.published.bytes();
            let Some(sum) = bytes.first_chunk::<8>() else { continue };
            if blocks.last().is_none_or(|item| item.len() == BLOCKS * BLOCK_LEN) {
                blocks.push(Vec::with_capacity(BLOCKS * BLOCK_LEN));
            }
            let Some(item) = blocks.last_mut() else { continue };
            item.extend_from_slice(&block.to_le_bytes());
            item.extend_from_slice(&self.blocks.incarnation(block).to_le_bytes());
            item.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            item.extend_from_slice(sum);
        }
        let mut trees = Vec::new();
        for (&space, found) in &view.spaces {
            if let Index::Ordered(index) = &found.index {
                trees.push((space, tree::INDEX, index.clone().into_images()));
            }
        }
        for (space, points) in self.tombstones.points() {
            trees.push((space, tree::TOMBSTONES, points.clone().into_images()));
        }
        let ranges = self.tombstones.ranges_by_space();
        let ranges = ranges.map(|(space, tombstone)| encode_range(space, tombstone)).collect();
        // A snapshot whose records are missing is passed over; so the map tells, from its next fence on, that they
        // were durable.
        self.map.set_durable(self.durable_seq);
        Ok(Some(Captured { partial, seq: self.next_seq - 1, blocks, trees, ranges }))
    }
}

impl Captured {
    fn into_parts(self) -> VecDeque<Part> {
        let mut head = VERSION.to_le_bytes().to_vec();
        head.extend_from_slice(&(self.partial.bytes() as u32).to_le_bytes());
        head.extend_from_slice(&self.seq.to_le_bytes());
        let mut parts = VecDeque::from([Part::Item(item::HEAD, head)]);
        parts.extend(self.blocks.into_iter().map(|some| Part::Item(item::BLOCKS, some)));
        for (space, what, leaves) in self.trees {
            let mut of = space.to_le_bytes().to_vec();
            of.push(what);
            parts.extend([Part::Item(item::TREE, of), Part::Leaves(leaves)]);
        }
        parts.extend(self.ranges.into_iter().map(|range| Part::Item(item::RANGE, range)));
        parts.push_back(Part::Item(item::END, Vec::new()));
        parts
    }
}

/// Space, number, place, stale count and bounds of a range's tombstone.
fn encode_range(space: u32, tombstone: &RangeTombstone) -> Vec<u8> {
    let mut range = space.to_le_bytes().to_vec();
    for number in [tombstone.seq, tombstone.entry.bits(), tombstone.stale.bits()] {
        range.extend_from_slice(&number.to_le_bytes());
    }
    range.extend_from_slice(&(tombstone.start.len() as u32).to_le_bytes());
    range.push(u8::from(tombstone.end.is_some()));
    range.extend_from_slice(&tombstone.start);
    range.extend_from_slice(tombstone.end.as_deref().unwrap_or_default());
    range
}

impl Packer {
    fn new(captured: Captured, number: u64, written: u64) -> Self {
        Self {
            number,
            written,
            worked: 0,
            parts: captured.into_parts(),
            // With room for the item that does not fit.
            frame: Vec::with_capacity(SEGMENT as usize + 2 * BLOCKS * BLOCK_LEN),
            carried: Vec::new(),
            putting: false,
            segments: 0,
            len: 0,
        }
    }

    /// Packs some items, or writes a chunk of a frame.
    fn step(&mut self, own: &Own) -> Result<Put> {
        if !self.putting {
            self.pack();
            return Ok(Put::More);
        }
        let put = own.area().put(self.number, self.segments, &mut self.frame, &mut self.worked)?;
        if put != Put::Whole {
            return Ok(put);
        }
        self.putting = false;
        self.segments += 1;
        self.len += self.frame.len() as u64;
        self.frame.clear();
        let is_last = self.parts.is_empty() && self.carried.is_empty();
        Ok(if is_last { Put::Whole } else { Put::More })
    }

    /// Packs items until they make a step, the frame is full, or there are none.
    fn pack(&mut self) {
        if self.frame.is_empty() {
            self.frame.resize(frame::HEADER_LEN, 0);
            self.frame.extend_from_slice(&self.number.to_le_bytes());
            self.frame.append(&mut self.carried);
        }
        let begin = self.frame.len();
        while !self.putting && self.frame.len() < begin + STEP {
            self.pack_item();
        }
        self.worked += (self.frame.len() - begin.min(self.frame.len())) as u64;
    }

    fn pack_item(&mut self) {
        let begin = self.frame.len();
        self.frame.extend_from_slice(&[0; ITEM_HEAD]);
        let kind = match self.parts.front_mut() {
            Some(Part::Leaves(leaves)) => leaves.next(&mut self.frame).then_some(item::LEAF),
            Some(Part::Item(kind, bytes)) => {
                self.frame.append(bytes);
                Some(*kind)
            }
            None => {
                self.putting = true;
                None
            }
        };
        if kind != Some(item::LEAF) {
            self.parts.pop_front();
        }
        let Some(kind) = kind else { return self.frame.truncate(begin) };
        let len = (self.frame.len() - begin - ITEM_HEAD) as u32;
        self.frame[begin] = kind;
        self.frame[begin + 1..begin + ITEM_HEAD].copy_from_slice(&len.to_le_bytes());
        if self.frame.len() > SEGMENT as usize {
            self.carried = self.frame.split_off(begin);
            self.putting = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, Op};

    use crate::IndexLog;
    use crate::read::scan::RangeScan;

    /// A block that a collection frees which a snapshot ends may be read by a scan that began meanwhile.
    #[test]
    fn a_scan_that_begins_during_a_snapshot_reads_all_of_its_records() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.pool_options.size_max = 64 << 20;
        options.index_snapshot = Some(u64::MAX);
        let store = IndexLog::open(&options).unwrap();
        let space = store.key_space("one").unwrap();
        let put = |number: u32, fill| {
            let op = Op::Put { space, key: &number.to_be_bytes(), value: &[fill; 1_000] };
            store.write(&[op], Durability::Deferred).unwrap();
        };
        (0..1_000).for_each(|number| put(number, 1));
        // Of the first blocks half of the records die.
        (0..500).step_by(2).for_each(|number| put(number, 2));
        store.sync().unwrap();

        let partition = store.partition(b"").unwrap();
        let mut writer = partition.writer.lock();
        let (victim, gain) = writer.blocks.emptiest(None).unwrap();
        writer.begin_collection(&partition.view, victim, gain).unwrap();
        let begin = || {
            let (view, all) = (partition.view.read(), KeyRange::all());
            RangeScan::begin(partition, &view, space, &all, Direction::Forward).unwrap()
        };
        let scan = begin();
        assert!(writer.capture_index(&partition.view).unwrap().is_some());
        assert_eq!(writer.collected_blocks, 1);
        assert!(writer.limbo.pinned_bytes() > 0);
        drop(writer);
        let pairs = scan.map(|pair| pair.unwrap().1[0]);
        assert_eq!(pairs.map(u64::from).sum::<u64>(), 1_000 + 250);
    }
}
