//! Taking a snapshot of the index.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_alloc::SEGMENT;
use halite_blocks::log::frame;
use halite_engine::Result;
use halite_index::{PartialKeyTree, PartialLen};
use halite_pmem::locks::RwLock;
use halite_pmem::planted;

use super::{ITEM_HEAD, Own, VERSION, item, tree};
use crate::index::{Form, Index};
use crate::read::View;
use crate::record;
use crate::tombstones::RangeTombstone;
use crate::write::Writer;

/// A record is taken to have so many bytes in a snapshot.
const ENTRY_LEN: u64 = 18;

/// Blocks in an item.
const BLOCKS: usize = 4096;

/// The index of a partition at a moment, and what it led to.
pub(crate) struct Captured {
    own: Own,
    partial: PartialLen,
    /// The number of the last record.
    seq: u64,
    /// Bytes that had been written then.
    written: u64,
    blocks: Vec<u8>,
    /// Key space, of what, and the tree.
    trees: Vec<(u32, u8, PartialKeyTree)>,
    ranges: Vec<Vec<u8>>,
}

impl Writer {
    /// Bytes of log and copies that this opening has written, more or less.
    pub(crate) fn written(&self) -> u64 {
        self.user_bytes + self.moved_bytes + self.next_seq.wrapping_mul(record::LEN_MIN)
    }

    /// Whether a snapshot of the index is due; then, it is not any more.
    pub(crate) fn is_snapshot_due(&mut self) -> bool {
        let written = self.written();
        self.index_snapshots.as_mut().is_some_and(|own| own.is_due(written))
    }

    /// Makes everything durable, and captures the index; `None` if that is not possible now: scans hold blocks
    /// that were collected, whose records would be counted or not.
    pub(crate) fn capture_index(
        &mut self,
        view: &RwLock<View>,
        oldest_scan: impl Fn() -> Option<u64>,
    ) -> Result<Option<Captured>> {
        let Some(own) = self.index_snapshots.clone() else { return Ok(None) };
        let Form::Ordered(partial) = view.read().form else { return Ok(None) };
        self.check_health()?;
        if !planted!(SnapshotBeforeSync) {
            self.sync_records()?;
        }
        // Between the looking through of a block and its end, dead records are in it that nothing counts.
        self.finish_collection(view)?;
        // Scans may have begun meanwhile.
        self.release_limbo(view, oldest_scan(), usize::MAX)?;
        if self.has_block_in_limbo() {
            return Ok(None);
        }
        // The map covers what the collector has copied: that was durable before the originals were freed.
        let view = view.read();
        let mut blocks = Vec::new();
        for block in view.record_blocks() {
            let Some(readable) = view.block(block) else { continue };
            let bytes = readable.published.bytes();
            let Some(sum) = bytes.first_chunk::<8>() else { continue };
            blocks.extend_from_slice(&block.to_le_bytes());
            blocks.extend_from_slice(&self.blocks.incarnation(block).to_le_bytes());
            blocks.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            blocks.extend_from_slice(sum);
        }
        let mut trees = Vec::new();
        for (&space, found) in &view.spaces {
            if let Index::Ordered(index) = &found.index {
                trees.push((space, tree::INDEX, index.clone()));
            }
        }
        for (space, points) in self.tombstones.points() {
            trees.push((space, tree::TOMBSTONES, points.clone()));
        }
        let ranges = self.tombstones.ranges_by_space();
        let ranges = ranges.map(|(space, tombstone)| encode_range(space, tombstone)).collect();
        let (seq, written) = (self.next_seq - 1, self.written());
        Ok(Some(Captured { own, partial, seq, written, blocks, trees, ranges }))
    }

    /// Notes how the snapshot of what was captured ended: how long it is, if it is one.
    pub(crate) fn end_snapshot(&mut self, written: u64, len: Option<u64>) {
        let now = self.written();
        let Some(own) = &mut self.index_snapshots else { return };
        match len {
            Some(len) => own.begin(now, now - written.min(now), len),
            None => own.postpone(now),
        }
    }
}

/// Writes a snapshot of what was captured, until it is to `stop`. Returns whether there is one. `end` is
/// told how many bytes had been written when it was captured, and how long it is, if it is whole.
pub(crate) fn take(
    captured: Option<Captured>,
    stop: &AtomicBool,
    end: impl FnOnce(u64, Option<u64>),
) -> Result<bool> {
    let Some(captured) = captured else {
        end(0, None);
        return Ok(false);
    };
    let written = captured.written;
    let len = captured.write(stop);
    end(written, len.as_ref().ok().copied().flatten());
    Ok(len?.is_some())
}

impl Captured {
    /// Writes the snapshot. Returns how long it is, in bytes; `None` if it could not be written.
    fn write(self, stop: &AtomicBool) -> Result<Option<u64>> {
        let entries: u64 = self.trees.iter().map(|(_, _, tree)| tree.len()).sum();
        let begun = self.own.area().begin(entries * ENTRY_LEN + self.blocks.len() as u64);
        let Some(number) = begun? else { return Ok(None) };
        let mut packer = Packer {
            own: &self.own,
            number,
            frame: Vec::with_capacity(SEGMENT as usize),
            segments: 0,
            len: 0,
            stop,
            failed: None,
        };
        let packed = self.pack(&mut packer).is_continue();
        let (len, failed) = (packer.len, packer.failed.take());
        self.own.area().end(number, packed && failed.is_none())?;
        match failed {
            Some(error) => Err(error),
            None => Ok(packed.then_some(len)),
        }
    }

    fn pack(&self, packer: &mut Packer<'_>) -> ControlFlow<()> {
        let mut head = VERSION.to_le_bytes().to_vec();
        head.extend_from_slice(&(self.partial.bytes() as u32).to_le_bytes());
        head.extend_from_slice(&self.seq.to_le_bytes());
        packer.push(item::HEAD, &head)?;
        self.blocks.chunks(BLOCKS * 24).try_for_each(|some| packer.push(item::BLOCKS, some))?;
        for (space, what, tree) in &self.trees {
            let mut of = space.to_le_bytes().to_vec();
            of.push(*what);
            packer.push(item::TREE, &of)?;
            tree.write_leaves(|leaf| packer.push(item::LEAF, leaf))?;
        }
        self.ranges.iter().try_for_each(|range| packer.push(item::RANGE, range))?;
        packer.push(item::END, &[])?;
        packer.put()
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

/// Puts items into frames, and these into segments.
struct Packer<'a> {
    own: &'a Own,
    number: u64,
    frame: Vec<u8>,
    segments: u32,
    len: u64,
    stop: &'a AtomicBool,
    failed: Option<halite_engine::Error>,
}

impl Packer<'_> {
    fn push(&mut self, kind: u8, bytes: &[u8]) -> ControlFlow<()> {
        if self.frame.len() + ITEM_HEAD + bytes.len() > SEGMENT as usize {
            self.put()?;
        }
        if self.frame.is_empty() {
            self.frame.resize(frame::HEADER_LEN, 0);
            self.frame.extend_from_slice(&self.number.to_le_bytes());
        }
        self.frame.push(kind);
        self.frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.frame.extend_from_slice(bytes);
        ControlFlow::Continue(())
    }

    /// Writes the frame. Breaks if the snapshot is given up.
    fn put(&mut self) -> ControlFlow<()> {
        if self.stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let put = self.own.area().put(self.number, self.segments, &mut self.frame);
        self.segments += 1;
        self.len += self.frame.len() as u64;
        self.frame.clear();
        match put {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use halite_engine::{Direction, Durability, Engine, EngineOptions, KeyRange, Op};

    use crate::IndexLog;
    use crate::scan::RangeScan;

    /// What a collection frees that a snapshot ends, a scan may read that began while it was under way.
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
        let (victim, gain) = writer.blocks.emptiest().unwrap();
        writer.begin_collection(&partition.view, victim, gain).unwrap();
        let scan = RefCell::new(None);
        let oldest_scan = || {
            let oldest = partition.scans.oldest();
            let (view, all) = (partition.view.read(), KeyRange::all());
            let begun = RangeScan::begin(partition, &view, space, &all, Direction::Forward);
            scan.borrow_mut().get_or_insert(begun.unwrap());
            oldest
        };
        assert!(writer.capture_index(&partition.view, oldest_scan).unwrap().is_some());
        assert_eq!(writer.collected_blocks, 1);
        drop(writer);
        let pairs = scan.take().unwrap().map(|pair| pair.unwrap().1[0]);
        assert_eq!(pairs.map(u64::from).sum::<u64>(), 1_000 + 250);
    }
}
