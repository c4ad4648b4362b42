//! Finding the end of the log, and cutting off the remains of an interrupted write behind it.
//!
//! Records of the log are numbered without gaps. Sealed blocks are whole; open ones end where their records end, or
//! where the first number is missing. A record also says up to which number everything was durable when it was
//! written: a missing one below that is damage, not an interrupted write. The large values of records that are not
//! proved durable are read too: a torn value was written by an interrupted write.
//!
//! After a crash, one log may end with its part of a batch on several partitions while another lacks its part: then
//! [`cut_undecided`] cuts the batch off everywhere.

use halite_contract::{Error, Result};
use halite_sim::planted;

use crate::batch::commit_record::Batch;
use crate::change_log::found_log::FoundLog;
use crate::record;
use crate::recovery::open_block::OpenBlock;
use crate::recovery::sealed::{Sealed, follow};
use crate::space::Space;

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
    /// Decides how many records of the open blocks to keep. The numbers of their first records are not far from `near`.
    /// `reads_values` says whether to check their large values, as is needed where there is no change log.
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
                let is_gap = next != first || open.seqs.is_none();
                broken = planted!("indexlog.records-behind-gap", false, is_gap);
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
                && last.remaining > planted!("indexlog.batch-without-its-end", u32::MAX, 0)
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
    pub(super) fn last(&self) -> u64 {
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
        if planted!("indexlog.records-behind-changes", false, durable > log.last) {
            return Err(Error::Damaged {
                what: format!("change log of partition {partition}"),
                why: format!("it ends with number {}, though {durable} was durable", log.last),
            });
        }
        planted!("indexlog.records-behind-changes", (), self.cut_behind(log.last));
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
            self.log.as_ref().and_then(|log| log.newest_commit(self.last()))
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
        planted!("indexlog.batch-cut-in-one-partition", return Ok(()));
    }
}
