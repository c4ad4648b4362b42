//! Taking a snapshot of the index, in steps.
//!
//! Once everything is durable, the index is captured; then it is packed and written (`packer`). A write takes the steps
//! that its bytes pay for, so no write waits for a whole snapshot, and its additional cost is proportional to its
//! length.

use halite_contract::Result;
use halite_sim::locks::RwLock;
use halite_sim::planted;

use super::packer::{BLOCK_LEN, BLOCKS, Captured, Packer, encode_range};
use super::{Put, tree};
use crate::index::{Form, Index};
use crate::read::view::View;
use crate::space::blocks::Use;
use crate::storage::Storage;
use crate::write::Writer;

/// Bytes that a record is assumed to take in a snapshot.
const ENTRY_LEN: u64 = 18;

/// Bytes that are packed or written for each byte that is written to the log: a snapshot is packed and written once,
/// and is at most about a quarter of the bytes written between two, so it takes about a quarter of that time.
const PACE: u64 = 2;

/// Blocks ahead whose first line is prefetched.
const AHEAD: usize = 16;

impl Writer {
    /// Takes the steps of a snapshot of the index that the written bytes pay for; begins one that is due. An error of
    /// the pool is left to the next write to report.
    pub(crate) fn pace_snapshot(&mut self, view: &RwLock<View>) {
        let written = self.written();
        if self.packer.is_none() {
            let is_due = self.snapshots.is_due(written);
            // A collection that is under way is soon through its block.
            if is_due && !self.collector.is_under_way() {
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
                if self.packer.is_none() {
                    self.snapshots.postpone(written);
                }
                failed.map(|_| None)
            }
        }
    }

    /// Captures the index if there is room for a snapshot, in place of one that is being taken.
    fn capture_in_room(&mut self, view: &RwLock<View>) -> Result<Option<Packer>> {
        let entries: u64 = view.read().spaces.values().map(|space| space.index.len()).sum();
        let len = entries * ENTRY_LEN;
        if self.packer.is_none() && !self.snapshots.area().has_room(len) {
            return Ok(None);
        }
        let Some(captured) = self.capture_index(view)? else { return Ok(None) };
        self.packer = None;
        let number = self.snapshots.area().begin(len)?;
        Ok(number.map(|number| Packer::new(captured, number, self.written())))
    }

    /// Takes a step of the snapshot that is being taken, if one is.
    pub(crate) fn step_snapshot(&mut self) -> Result<()> {
        let now = self.written();
        let (own, Some(packer)) = (&mut self.snapshots, &mut self.packer) else { return Ok(()) };
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
        Ok(Some(self.snapshots.taken >= number))
    }

    /// Makes everything durable, and captures the index; `None` if that is not possible now.
    fn capture_index(&mut self, view: &RwLock<View>) -> Result<Option<Captured>> {
        let Form::Ordered(partial) = view.read().form else { return Ok(None) };
        self.check_health()?;
        planted!("indexlog.snapshot-before-sync", Ok(()), self.storage.sync_records())?;
        // While a block is being collected, it has dead records that are in no count.
        self.collector.finish_collection(&mut self.storage, view)?;
        self.storage.release_limbo(view, usize::MAX)?;
        let Storage { space, log, tombstones, .. } = &mut self.storage;
        if space.limbo().has_stored_block() {
            return Ok(None);
        }
        // The map covers the collector's copies: these were durable before the originals were freed.
        let view = view.read();
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        // Blocks that only scans hold are free in the map.
        let mut of_records = view.record_blocks();
        of_records.retain(|&block| space.blocks().used_as(block) != Use::Limbo);
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
            item.extend_from_slice(&space.blocks().incarnation(block).to_le_bytes());
            item.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            item.extend_from_slice(sum);
        }
        let mut trees = Vec::new();
        for (&space, found) in &view.spaces {
            if let Index::Ordered(index) = &found.index {
                trees.push((space, tree::INDEX, index.clone().into_images()));
            }
        }
        for (space, points) in tombstones.points() {
            trees.push((space, tree::TOMBSTONES, points.clone().into_images()));
        }
        let ranges = tombstones.ranges_by_space();
        let ranges = ranges.map(|(space, tombstone)| encode_range(space, tombstone)).collect();
        // A snapshot whose records are missing is passed over; so the map tells, from its next fence on, that they
        // were durable.
        space.map_mut().set_durable(log.durability.records());
        Ok(Some(Captured { partial, seq: log.durability.next() - 1, blocks, trees, ranges }))
    }
}

#[cfg(test)]
mod tests {
    use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, Op};

    use super::*;
    use crate::IndexLog;
    use crate::read::scan::RangeScan;

    /// A block that a collection frees which a snapshot ends may be read by a scan that began meanwhile.
    #[test]
    fn a_scan_that_begins_during_a_snapshot_reads_all_of_its_records() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.pool_options.size_max = 64 << 20;
        options.own.get_mut::<crate::IndexLogOptions>().index_snapshot = Some(u64::MAX);
        let store = IndexLog::open(&options).unwrap();
        let space = store.key_space("one").unwrap();
        let put = |number: u32, fill| {
            let op = Op::Put { space, key: &number.to_be_bytes(), value: &[fill; 1_000] };
            store.write(&[op], Durability::Deferred).unwrap();
        };
        (0..1_000).for_each(|number| put(number, 1));
        // Half of the records in the first blocks die.
        (0..500).step_by(2).for_each(|number| put(number, 2));
        store.sync().unwrap();

        let partition = store.partition(b"").unwrap();
        let mut writer = partition.writer.lock();
        let (victim, gain) = writer.storage.space.emptiest().unwrap();
        let Writer { storage, collector, .. } = &mut *writer;
        collector.begin_collection(storage, &partition.view, victim, gain).unwrap();
        let begin = || {
            let (view, all) = (partition.view.read(), KeyRange::all());
            RangeScan::begin(partition, &view, space, &all, Direction::Forward).unwrap()
        };
        let scan = begin();
        assert!(writer.capture_index(&partition.view).unwrap().is_some());
        assert_eq!(writer.collector.collected_blocks(), 1);
        assert!(writer.storage.space.limbo().pinned_bytes() > 0);
        drop(writer);
        let pairs = scan.map(|pair| pair.unwrap().1[0]);
        assert_eq!(pairs.map(u64::from).sum::<u64>(), 1_000 + 250);
    }
}
