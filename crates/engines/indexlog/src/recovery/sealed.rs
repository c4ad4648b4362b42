//! The evidence in the sealed blocks of a log of where it ends.

use halite_blocks::log::frame;
use halite_contract::Result;

use crate::batch::commit_record::Batch;
use crate::read::readable::Readable;
use crate::read::view::View;
use crate::record::walk::each_record;
use crate::record::{self, Record};
use crate::recovery::open_block::OpenBlock;

/// The evidence in the sealed blocks of a log of where it ends.
#[derive(Default)]
pub(crate) struct Sealed {
    /// The runs of numbers in blocks of the log: first and last, ascending.
    pub(super) runs: Vec<(u64, u64)>,
    /// The highest number that they prove durable.
    pub(super) durable: u64,
    /// The newest batch on several partitions, with its record's number.
    pub(super) batch: Option<(u64, Batch)>,
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
    pub(super) fn durable(&self, open: &[OpenBlock]) -> u64 {
        open.iter().map(|open| open.durable).fold(self.durable, u64::max)
    }

    /// The highest known number, which is not far from that of any open block's first record.
    pub(super) fn near(&self, open: &[OpenBlock], near: u64) -> u64 {
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

/// Follows sealed blocks from number `seq` on, up to `until`.
pub(super) fn follow(sealed: &[(u64, u64)], mut seq: u64, until: u64) -> u64 {
    while seq < until
        && let Ok(at) = sealed.binary_search_by_key(&seq, |(first, _)| *first)
    {
        seq = sealed[at].1 + 1;
    }
    seq
}
