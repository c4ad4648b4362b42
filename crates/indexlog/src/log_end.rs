//! Finding the end of the log, and cutting off what an interrupted write left behind it.
//!
//! Records of the log are numbered without gaps. Sealed blocks are whole; open ones end where their
//! records end, or where the first number is missing. A record also says up to which number
//! everything was durable when it was written: a missing one below that is damage, not an
//! interrupted write.

use std::sync::Arc;

use halite_blocks::log::frame;
use halite_engine::{Error, Result};
use halite_pmem::{Fresh, planted};

use crate::BLOCK;
use crate::block_map::{FIRSTS, Life, State};
use crate::collect::each_record;
use crate::log::claim;
use crate::read::{Readable, View};
use crate::record::{self, BATCH_ALIGN, Record};
use crate::write::Writer;

/// A block whose end only its records tell.
pub(crate) struct OpenBlock {
    block: u32,
    /// The number of its first record, as far as the map knows it.
    number: u32,
    fresh: Fresh,
    seed: u64,
    /// The first and the last number of the records that follow each other from the start.
    seqs: Option<(u64, u64)>,
    /// Where each of them ends, and how many of its batch are to follow.
    records: Vec<(u64, u32)>,
    /// The highest number that something in the block, beyond those records too, proves durable.
    durable: u64,
}

impl OpenBlock {
    fn read(block: u32, number: u32, fresh: Fresh, seed: u64) -> Self {
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
            records.push((at, record.header.remaining.get()));
        }
        // A later batch that survived may prove that what is missing before it was durable.
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

    /// Where the records end.
    fn end(&self) -> u64 {
        self.records.last().map_or(0, |(end, _)| *end)
    }
}

/// The number nearest to `near` of which the map would keep `number`.
fn first_near(number: u32, near: u64) -> u64 {
    let firsts = u64::from(FIRSTS);
    let behind = near.wrapping_sub(number.into()) % firsts;
    let is_behind = behind <= firsts / 2 && behind <= near;
    if is_behind { near - behind } else { near.saturating_add(firsts - behind) }
}

/// Takes the sealed blocks into use, unread, and returns the open ones, read, as they were opened.
pub(crate) fn take_sealed_blocks(
    writer: &mut Writer,
    view: &mut View,
    lives: &[(u32, Life)],
) -> Result<Vec<OpenBlock>> {
    let mut open = Vec::new();
    for &(block, life) in lives {
        writer.blocks.take_found(block);
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

pub(crate) fn take(view: &mut View, block: u32, fresh: Fresh, used: u64, seed: Option<u64>) {
    let published = Arc::clone(fresh.into_appender(used).published());
    view.set_block(block, Readable { published, seed });
}

/// Where the log ends, and what lies behind.
pub(crate) struct Cut {
    /// Open blocks, as they were opened. Of those behind the cut no record is kept.
    pub(crate) blocks: Vec<OpenBlock>,
    pub(crate) records_cut: u64,
}

impl Cut {
    /// Decides how many records of the open blocks to keep.
    pub(crate) fn find(writer: &Writer, view: &View, mut open: Vec<OpenBlock>) -> Result<Self> {
        let (sealed, mut durable) = sealed_runs(writer, view)?;
        durable = open.iter().map(|open| open.durable).fold(durable, u64::max);
        let last = |runs: &mut dyn Iterator<Item = (u64, u64)>| runs.map(|(_, last)| last).max();
        let near = durable
            .max(writer.near)
            .max(last(&mut sealed.iter().copied()).unwrap_or_default())
            .max(last(&mut open.iter().filter_map(|open| open.seqs)).unwrap_or_default());
        let mut records_cut = 0;
        // The number that must come next, if it is known; and whether something is missing.
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
            expected = open.seqs.map(|(_, last)| last + 1);
        }
        // Of a batch all must be there; the rest of one may be in a block that was sealed already.
        let is_sealed = |seq| sealed.binary_search_by_key(&seq, |(first, _)| *first).is_ok();
        for open in open.iter_mut().rev() {
            let first = open.seqs.map_or(0, |(first, _)| first);
            while let Some(&(_, remaining)) = open.records.last()
                && remaining > u32::from(planted!(BatchWithoutItsEnd)) * u32::MAX
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
        // Where nothing is left, what is missing begins with the first open block.
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
        Ok(Self { blocks: open, records_cut })
    }

    /// Makes the cut durable: first what goes, then what stays, so that a crash in between finds
    /// either the same gap again or none.
    pub(crate) fn apply(self, writer: &mut Writer, view: &mut View) -> Result<()> {
        let (kept, mut dropped): (Vec<_>, Vec<_>) =
            self.blocks.into_iter().partition(|open| !open.records.is_empty());
        // The newest first, so that what is left has no hole before it.
        dropped.reverse();
        if planted!(CutBlocksFreedOldestFirst) {
            dropped.reverse();
        }
        planted!(
            CutKeptBeforeDropped,
            keep(kept, writer, view).and_then(|()| drop_blocks(dropped, writer)),
            drop_blocks(dropped, writer).and_then(|()| keep(kept, writer, view))
        )
    }
}

/// Frees blocks behind the cut, one after the other.
fn drop_blocks(dropped: Vec<OpenBlock>, writer: &mut Writer) -> Result<()> {
    for open in dropped {
        let incarnation = writer.blocks.incarnation(open.block);
        writer.map.set(open.block, Life { state: State::Free, incarnation }, None);
        writer.blocks.free(open.block);
        writer.fence_with_map(Vec::new())?;
    }
    Ok(())
}

/// Makes the records before the cut durable and seals their blocks.
fn keep(kept: Vec<OpenBlock>, writer: &mut Writer, view: &mut View) -> Result<()> {
    if kept.is_empty() {
        return Ok(());
    }
    // The process may have died where the power did not: what was read may not be durable yet.
    let end = |open: &OpenBlock| planted!(KilledProcessTrusted, 0, open.end());
    let flushed: Vec<_> = kept.iter().map(|open| open.fresh.flush(0..end(open))).collect();
    let proofs = writer.pool.fence_found(&flushed)?;
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
