//! Finding the end of the log, and cutting off the remains of an interrupted write behind it.
//!
//! Records of the log are numbered without gaps. Sealed blocks are whole; open ones end where their records end, or
//! where the first number is missing. A record also says up to which number everything was durable when it was
//! written: a missing one below that is damage, not an interrupted write. The large values of records that are not
//! proved durable are read too: a torn value was written by an interrupted write.
//!
//! After a crash, one log may end with its part of a batch on several partitions while another lacks its part: then
//! [`cut_undecided`] cuts the batch off everywhere.

use std::sync::Arc;

use halite_blocks::log::frame;
use halite_contract::{Error, Result};
use halite_pmem::{Fenced, Fresh};
use halite_sim::planted;

use crate::BLOCK;
use crate::batch::commit_record::Batch;
use crate::change_log::replay::FoundLog;
use crate::log::overflow::read_whole;
use crate::log::tail::claim;
use crate::read::readable::Readable;
use crate::read::view::View;
use crate::record::walk::each_record;
use crate::record::{self, BATCH_ALIGN, Record};
use crate::space::Space;
use crate::space::block_map::{FIRSTS, Life, State};

/// A block whose end is known only from its records.
pub(crate) struct OpenBlock {
    block: u32,
    /// The number of its first record, as far as the map knows it.
    number: u32,
    fresh: Fresh,
    seed: u64,
    /// The first and the last number of the records that follow each other from the start.
    seqs: Option<(u64, u64)>,
    /// Each of them.
    records: Vec<Followed>,
    /// The highest number that any record in the block, beyond those too, proves durable.
    durable: u64,
}

/// A record of an open block.
struct Followed {
    /// Where it ends, in bytes.
    end: u64,
    /// How many records of its batch are to follow.
    remaining: u32,
    /// The batch on several partitions whose part it ends.
    batch: Option<Batch>,
    /// Whether it has a large value.
    has_overflow: bool,
    /// The pieces of the large value, if they were read.
    value: Vec<Fresh>,
}

impl OpenBlock {
    fn read(block: u32, number: u32, fresh: Fresh, seed: u64) -> Self {
        fresh.read_ahead();
        let bytes = fresh.bytes();
        let (mut seqs, mut records, mut durable) = (None, Vec::new(), 0);
        let mut at = 0;
        while at < BLOCK
            && let Ok(record) = Record::read(&bytes[at as usize..], frame::place(seed, at))
        {
            let (first, expected) = match seqs {
                Some((first, last)) => (first, last + 1),
                None => (record.seq(), record.seq()),
            };
            let begins = (first % u64::from(FIRSTS)) as u32 == number;
            if record.is_relocated() || record.seq() != expected || !begins {
                break;
            }
            seqs = Some((first, record.seq()));
            durable = durable.max(record.durable_before());
            at = record.next_at(at);
            records.push(Followed {
                end: at,
                remaining: record.header.remaining.get(),
                batch: Batch::of(&record),
                has_overflow: record.has_overflow(),
                value: Vec::new(),
            });
        }
        // A later batch that survived may prove that the missing records before it were durable.
        for at in (at.next_multiple_of(BATCH_ALIGN)..BLOCK).step_by(BATCH_ALIGN as usize) {
            if let Ok(record) = Record::read(&bytes[at as usize..], frame::place(seed, at)) {
                durable = durable.max(record.durable_before());
            }
        }
        Self { block, number, fresh, seed, seqs, records, durable }
    }

    /// The number of its first record, which is there or is missing. `near` is a number not far from
    /// it.
    fn first(&self, near: u64) -> u64 {
        self.seqs.map_or_else(|| first_near(self.number, near), |(first, _)| first)
    }

    /// Reads the large values of the records behind number `durable`. Returns how many records there are
    /// before the first whose value is torn.
    fn read_values(&mut self, space: &Space, durable: u64) -> usize {
        let first = self.seqs.map_or(0, |(first, _)| first);
        let proved = (durable + 1).saturating_sub(first) as usize;
        for at in proved..self.records.len() {
            if !self.records[at].has_overflow || planted!(TornValueTaken) {
                continue;
            }
            let begin = at.checked_sub(1).map_or(0, |before| self.records[before].end);
            let bytes = &self.fresh.bytes()[begin as usize..];
            let record = Record::read(bytes, frame::place(self.seed, begin)).ok();
            match record.and_then(|record| read_whole(space.device(), &record, space.salt())) {
                Some(value) => self.records[at].value = value,
                None => return at,
            }
        }
        self.records.len()
    }

    /// Where the records end.
    fn end(&self) -> u64 {
        self.records.last().map_or(0, |last| last.end)
    }
}

/// The number nearest to `near` that the map would keep as `number`.
fn first_near(number: u32, near: u64) -> u64 {
    let firsts = u64::from(FIRSTS);
    let behind = near.wrapping_sub(number.into()) % firsts;
    let is_behind = behind <= firsts / 2 && behind <= near;
    if is_behind { near - behind } else { near.saturating_add(firsts - behind) }
}

/// Takes the sealed blocks into use, unread, and returns the open ones, read, in the order in which they were opened.
pub(crate) fn take_sealed_blocks(
    space: &mut Space,
    view: &mut View,
    lives: &[(u32, Life)],
) -> Result<Vec<OpenBlock>> {
    let mut open = Vec::new();
    for &(block, life) in lives {
        space.blocks_mut().take_found(block);
        let fresh = claim(space.device(), block, BLOCK)?;
        let seed = record::seed(space.salt(), block, life.incarnation);
        match life.state {
            State::Sealed(used) if used <= BLOCK => take(view, block, fresh, used, seed),
            State::Sealed(used) => {
                return Err(Error::Damaged {
                    what: format!("block map, block {block}"),
                    why: format!("{used} bytes are said to be used"),
                });
            }
            State::Open(number) => open.push(OpenBlock::read(block, number, fresh, seed)),
            State::Free => {}
        }
    }
    // The numbers wrap; few records are in open blocks, so the widest gap is where the order begins.
    open.sort_unstable_by_key(|open| open.number);
    let gap = |at: usize| {
        let before = open[(at + open.len() - 1) % open.len()].number;
        open[at].number.wrapping_sub(before).wrapping_sub(1) % FIRSTS
    };
    if let Some(first) = (0..open.len()).max_by_key(|&at| gap(at)) {
        open.rotate_left(first);
    }
    Ok(open)
}

fn take(view: &mut View, block: u32, fresh: Fresh, used: u64, seed: u64) {
    let published = Arc::clone(fresh.into_appender(used).published());
    view.set_block(block, Readable { published, seed: Some(seed) });
}

/// The evidence in the sealed blocks of a log of where it ends.
#[derive(Default)]
pub(crate) struct Sealed {
    /// The runs of numbers in blocks of the log: first and last, ascending.
    runs: Vec<(u64, u64)>,
    /// The highest number that they prove durable.
    durable: u64,
    /// The newest batch on several partitions, with its record's number.
    batch: Option<(u64, Batch)>,
}

impl Sealed {
    /// Reads, of `blocks` blocks, the records that tell where the log ends: the first record of each sealed block,
    /// and all records of those that were opened after the oldest of the open ones, and of the last one before.
    pub(crate) fn read_end(
        view: &View,
        blocks: u32,
        open: &[OpenBlock],
        near: u64,
    ) -> Result<Self> {
        let mut firsts = Vec::new();
        for block in 0..blocks {
            let Some(Readable { published, seed: Some(seed) }) = view.block(block) else {
                continue;
            };
            let bytes = published.bytes();
            if bytes.is_empty() {
                continue;
            }
            let first = Record::read(bytes, frame::place(*seed, 0))
                .map_err(|why| record::damage(bytes, block, 0, why))?;
            // A block of the log has only records of the log, and any other block has none.
            if !first.is_relocated() {
                firsts.push((first.seq(), block));
            }
        }
        firsts.sort_unstable();
        let mut sealed = Self::default();
        while let Some((first, block)) = firsts.pop() {
            sealed.read_block(view, block)?;
            let near = sealed.near(open, near);
            if open.iter().all(|open| first < open.first(near)) {
                break;
            }
        }
        sealed.runs.sort_unstable();
        Ok(sealed)
    }

    fn read_block(&mut self, view: &View, block: u32) -> Result<()> {
        let Some(Readable { published, seed: Some(seed) }) = view.block(block) else {
            return Ok(());
        };
        let mut run: Option<(u64, u64)> = None;
        published.read_ahead(0);
        each_record(published.bytes(), *seed, block, 0, |_, record, _| {
            let newest = self.batch.map_or(0, |(seq, _)| seq);
            let batch = Batch::of(&record).filter(|_| record.seq() > newest);
            self.batch = batch.map(|batch| (record.seq(), batch)).or(self.batch);
            if !record.is_relocated() {
                run = Some((run.map_or(record.seq(), |(first, _)| first), record.seq()));
                // The fence before the sealing of a block has made all of its batches durable.
                let last = record.seq() + u64::from(record.header.remaining.get());
                self.durable = self.durable.max(last);
            }
        })?;
        self.runs.extend(run);
        Ok(())
    }

    /// The highest number that sealed and open blocks prove durable.
    fn durable(&self, open: &[OpenBlock]) -> u64 {
        open.iter().map(|open| open.durable).fold(self.durable, u64::max)
    }

    /// The highest known number, which is not far from that of any open block's first record.
    fn near(&self, open: &[OpenBlock], near: u64) -> u64 {
        let last = self.runs.iter().map(|(_, last)| *last);
        let last = last.chain(open.iter().filter_map(|open| Some(open.seqs?.1)));
        last.fold(near.max(self.durable(open)), u64::max)
    }
}

/// The newest batch on several partitions of which sealed blocks have a part, with its record's number.
pub(crate) fn sealed_batch(view: &View, blocks: u32) -> Result<Option<(u64, Batch)>> {
    let mut sealed = Sealed::default();
    (0..blocks).try_for_each(|block| sealed.read_block(view, block))?;
    Ok(sealed.batch)
}

/// The end of the log, and the records behind it.
pub(crate) struct Cut {
    /// Open blocks, as they were opened. Of those behind the cut no record is kept.
    pub(crate) blocks: Vec<OpenBlock>,
    pub(crate) records_cut: u64,
    /// The highest number that is proved durable.
    durable: u64,
    /// The newest batch on several partitions in the sealed blocks that were read. Another sealed block may have a
    /// newer one, if collection has moved its record.
    sealed_batch: Option<(u64, Batch)>,
    /// Whether all sealed blocks were read for it: a newer one may have been moved by the collector.
    knows_batch: bool,
    /// The number of the last sealed record.
    sealed_last: u64,
    /// The change log, if there is one.
    pub(crate) log: Option<FoundLog>,
}

impl Cut {
    /// Decides how many records of the open blocks to keep. The numbers of their first records are not far from `near`. `reads_values` says whether to check their large values,
    /// as is needed where there is no change log.
    pub(crate) fn find(
        space: &Space,
        near: u64,
        sealed: Sealed,
        mut open: Vec<OpenBlock>,
        reads_values: bool,
    ) -> Result<Self> {
        let near = sealed.near(&open, near);
        let durable = sealed.durable(&open).max(space.map().durable()?);
        let Sealed { runs: sealed, batch: sealed_batch, .. } = sealed;
        let mut records_cut = 0;
        // The number that must come next, if it is known; and whether a record is missing.
        let (mut expected, mut broken) = (None, false);
        let mut missing_at = None;
        for open in &mut open {
            if !broken {
                let first = open.first(near);
                let next = expected.map_or(first, |seq| follow(&sealed, seq, first));
                expected = Some(next);
                broken = (next != first || open.seqs.is_none()) && !planted!(RecordsBehindGap);
            }
            if broken {
                missing_at = missing_at.or(Some((open.block, 0)));
                records_cut += open.records.len() as u64;
                open.records.clear();
                continue;
            }
            if reads_values {
                let whole = open.read_values(space, durable);
                broken = whole < open.records.len();
                records_cut += (open.records.len() - whole) as u64;
                open.records.truncate(whole);
            }
            expected = open.seqs.map(|(first, _)| first + open.records.len() as u64);
            if broken {
                missing_at = missing_at.or(Some((open.block, open.end())));
            }
        }
        // A batch must be whole; the rest of it may be in a block that was sealed already.
        let is_sealed = |seq| sealed.binary_search_by_key(&seq, |(first, _)| *first).is_ok();
        for open in open.iter_mut().rev() {
            let first = open.seqs.map_or(0, |(first, _)| first);
            while let Some(last) = open.records.last()
                && last.remaining > u32::from(planted!(BatchWithoutItsEnd)) * u32::MAX
                && !is_sealed(first + open.records.len() as u64)
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
        // If no record is left, the missing ones begin with the first open block.
        let missing_at = missing_at.or(open.first().map(|open| (open.block, 0)));
        let expected = expected.map(|seq| follow(&sealed, seq, u64::MAX));
        if let (Some(missing), Some((block, at))) = (expected, missing_at)
            && durable >= missing
        {
            let (open, why) = (open.iter().find(|open| open.block == block), "it is not whole");
            let bytes = open.and_then(|open| open.fresh.bytes().get(at as usize..));
            let mut damage = record::damage(bytes.unwrap_or_default(), block, at, why);
            damage.why = format!("{why}, though number {missing} of the log was durable");
            return Err(damage.into());
        }
        let sealed_last = sealed.iter().map(|(_, last)| *last).max().unwrap_or_default();
        Ok(Self {
            blocks: open,
            records_cut,
            durable,
            sealed_batch,
            knows_batch: false,
            sealed_last,
            log: None,
        })
    }

    /// The number of the last record that is kept.
    fn last(&self) -> u64 {
        let of_block = |open: &OpenBlock| Some(open.seqs?.0 + open.records.len() as u64 - 1);
        let kept = self.blocks.iter().filter(|open| !open.records.is_empty());
        kept.filter_map(of_block).fold(self.sealed_last, u64::max)
    }

    /// The number of the first record of the last batch that is kept.
    pub(crate) fn last_batch(&self) -> u64 {
        let records = self.blocks.iter().flat_map(|open| &open.records).rev();
        let before = records.skip(1).take_while(|record| record.remaining > 0).count() as u64;
        self.last() - before.min(self.last())
    }

    /// Takes the change log, and cuts off the records that it does not have: they were never
    /// acknowledged.
    ///
    /// # Errors
    /// [`Error::Damaged`] if one of them was durable.
    pub(crate) fn compare(&mut self, log: FoundLog, partition: usize) -> Result<()> {
        let durable = self.durable.max(self.sealed_last);
        if durable > log.last && !planted!(RecordsBehindChanges) {
            return Err(Error::Damaged {
                what: format!("change log of partition {partition}"),
                why: format!("it ends with number {}, though {durable} was durable", log.last),
            });
        }
        if !planted!(RecordsBehindChanges) {
            self.cut_behind(log.last);
        }
        self.log = Some(log);
        Ok(())
    }

    /// Cuts off the records behind a number.
    fn cut_behind(&mut self, last: u64) {
        for open in &mut self.blocks {
            let Some((first, _)) = open.seqs else { continue };
            let kept = (last + 1).saturating_sub(first) as usize;
            self.records_cut += open.records.len().saturating_sub(kept) as u64;
            open.records.truncate(kept);
        }
    }

    /// The newest batch on several partitions among the kept records, and whether it is the last of the log's open
    /// blocks.
    fn batch(&self) -> Option<(Batch, bool)> {
        if let Some((newest, is_last)) =
            self.log.as_ref().and_then(|log| log.newest_note(self.last()))
        {
            return match newest {
                Some(batch) => Some((batch, is_last)),
                None => self.batch_of_records().map(|(batch, _)| (batch, false)),
            };
        }
        self.batch_of_records()
    }

    fn batch_of_records(&self) -> Option<(Batch, bool)> {
        let kept = || self.blocks.iter().flat_map(|open| &open.records).rev();
        let last = kept().next().and_then(|last| last.batch);
        let in_open = kept().find_map(|record| record.batch);
        let in_sealed = self.sealed_batch.map(|(_, batch)| batch);
        // A crash in an earlier recovery may have left a block open before one that it had sealed.
        let newest = in_open.into_iter().chain(in_sealed).max_by_key(|batch| batch.number)?;
        Some((newest, last == Some(newest)))
    }

    /// Cuts off the last batch. Returns whether it is not proved durable.
    fn drop_last_batch(&mut self) -> bool {
        if let Some(log) = &mut self.log {
            let undecided = log.drop_last_batch();
            let last = log.last;
            self.cut_behind(last);
            return undecided && self.durable.max(self.sealed_last) <= last;
        }
        let last = self.blocks.iter().rev().find(|open| !open.records.is_empty());
        let last = last.and_then(|open| Some(open.seqs?.0 + open.records.len() as u64 - 1));
        let mut ends = true;
        for open in self.blocks.iter_mut().rev() {
            while let Some(record) = open.records.last()
                && (ends || record.remaining > 0)
            {
                ends = false;
                open.records.pop();
                self.records_cut += 1;
            }
            if !open.records.is_empty() {
                break;
            }
        }
        last.is_some_and(|last| self.durable < last)
    }

    /// Drops the blocks behind the cut durably, and then makes the kept records durable, so that a crash in between
    /// finds either the same gap again or none.
    pub(crate) fn drop_and_flush(mut self, space: &mut Space) -> Result<Kept> {
        if let Some(log) = &mut self.log {
            let erased = log.erase_behind_end();
            if !erased.is_empty() {
                space.pool().fence_all(&erased)?;
            }
        }
        let last = self.last();
        let unproved = self.log.as_ref().filter(|log| log.proved() < last).map(|_| last);
        let (kept, mut dropped): (Vec<_>, Vec<_>) =
            self.blocks.into_iter().partition(|open| !open.records.is_empty());
        // The newest first, so that the blocks that are left have no gap before them.
        dropped.reverse();
        if planted!(CutBlocksFreedOldestFirst) {
            dropped.reverse();
        }
        let late = planted!(CutKeptBeforeDropped).then(|| std::mem::take(&mut dropped));
        drop_blocks(dropped, space)?;
        // If the process died and the power did not fail, the records that were read may not be durable yet.
        let end = |open: &OpenBlock| planted!(KilledProcessTrusted, 0, open.end());
        let mut flushed: Vec<_> = kept.iter().map(|open| open.fresh.flush(0..end(open))).collect();
        let values = kept.iter().flat_map(|open| &open.records).flat_map(|record| &record.value);
        flushed.extend(values.map(|piece| piece.flush(0..piece.len())));
        if let Some(log) = &self.log {
            log.flush(&mut flushed);
        }
        let proofs = space.pool().fence_found(&flushed)?;
        if let Some(log) = &mut self.log {
            log.values.clear();
        }
        Ok(Kept {
            log: self.log,
            blocks: kept.into_iter().zip(proofs).collect(),
            late: late.unwrap_or_default(),
            unproved,
        })
    }
}

/// Cuts off batches that lack a part in one of their partitions: the power was cut within the fence that all parts
/// wait for. `sealed_batch` reads all sealed blocks of a partition for its newest batch. That is rarely needed: the
/// blocks that were read nearly always show that the partition lacks no part.
///
/// # Errors
/// [`Error::Damaged`] if such a batch was durable.
pub(crate) fn cut_undecided(
    cuts: &mut [Cut],
    sealed_batch: impl Fn(usize) -> Result<Option<(u64, Batch)>>,
) -> Result<()> {
    loop {
        let newest: Vec<_> = cuts.iter().map(Cut::batch).collect();
        let lacks = |batch: Batch| {
            batch.participants().find(|&at| {
                newest.get(at).is_none_or(|newest| {
                    newest.is_none_or(|(newest, _)| newest.number < batch.number)
                })
            })
        };
        let undecided = (0..).zip(&newest).find_map(|(at, newest)| {
            let (batch, is_last) = (*newest)?;
            Some((at, batch, is_last, lacks(batch)?))
        });
        let Some((at, batch, is_last, lacking)) = undecided else { return Ok(()) };
        let at: usize = at;
        if let Some(cut) = cuts.get_mut(lacking).filter(|cut| !cut.knows_batch) {
            cut.sealed_batch = sealed_batch(lacking)?;
            cut.knows_batch = true;
            continue;
        }
        if !is_last || !cuts[at].drop_last_batch() {
            return Err(Error::Damaged {
                what: format!("log of partition {lacking}"),
                why: format!(
                    "its part of batch {} is not there, though it was durable",
                    batch.number
                ),
            });
        }
        if planted!(BatchCutInOnePartition) {
            return Ok(());
        }
    }
}

/// The open blocks up to the cut, durable.
pub(crate) struct Kept {
    blocks: Vec<(OpenBlock, Fenced)>,
    /// Blocks behind the cut that a planted defect frees too late.
    late: Vec<OpenBlock>,
    /// The change log, durable.
    pub(crate) log: Option<FoundLog>,
    /// The number of the last record, if there is a change log and that record is not proved durable.
    unproved: Option<u64>,
}

impl Kept {
    /// Seals the blocks, when those of all partitions are durable. Returns them.
    pub(crate) fn seal(self, space: &mut Space, view: &mut View) -> Result<Vec<u32>> {
        if self.blocks.is_empty() && self.unproved.is_none() {
            return Ok(Vec::new());
        }
        let mut sealed = Vec::new();
        if let Some(last) = self.unproved {
            // Large values that no live record refers to may be overwritten from now on.
            space.map_mut().set_durable(last);
        }
        for (mut open, proof) in self.blocks {
            open.records.iter_mut().for_each(|record| record.value.clear());
            let incarnation = space.blocks().incarnation(open.block);
            let life = Life { state: State::Sealed(open.end()), incarnation };
            space.map_mut().set(open.block, life, Some(&proof));
            let (end, seed) = (open.end(), open.seed);
            sealed.push(open.block);
            take(view, open.block, open.fresh, end, seed);
        }
        space.fence_with_map(Vec::new())?;
        drop_blocks(self.late, space)?;
        Ok(sealed)
    }
}

/// Frees blocks behind the cut, one after the other.
fn drop_blocks(dropped: Vec<OpenBlock>, space: &mut Space) -> Result<()> {
    for open in dropped {
        let incarnation = space.blocks().incarnation(open.block);
        space.map_mut().set(open.block, Life { state: State::Free, incarnation }, None);
        space.blocks_mut().free(open.block);
        space.fence_with_map(Vec::new())?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_known_by_its_last_bits_and_by_one_not_far_from_it() {
        let firsts = u64::from(FIRSTS);
        for seq in [1, 2, 1000, firsts - 1, firsts, firsts + 1, 5 * firsts + 7] {
            for far in [0, 1, 100, firsts / 2 - 1] {
                let number = (seq % firsts) as u32;
                assert_eq!(first_near(number, seq + far), seq, "{far} behind");
                assert_eq!(first_near(number, seq - far.min(seq)), seq, "{far} ahead");
            }
        }
    }
}
