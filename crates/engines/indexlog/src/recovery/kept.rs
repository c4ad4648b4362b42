//! Making the end of a log durable: records behind it are dropped, then those that are kept are flushed, and
//! sealed when all partitions have flushed theirs. A crash in between finds either the same end again or nothing behind
//! it.

use halite_contract::Result;
use halite_pmem::Fenced;
use halite_sim::planted;

use crate::change_log::found_log::FoundLog;
use crate::read::view::View;
use crate::recovery::log_end::Cut;
use crate::recovery::open_block::{OpenBlock, take};
use crate::space::Space;
use crate::space::block_map::{Life, State};

impl Cut {
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
        planted!("indexlog.cut-blocks-freed-oldest-first", (), dropped.reverse());
        planted!("indexlog.cut-blocks-not-freed", Ok(()), drop_blocks(dropped, space))?;
        // If the process died and the power did not fail, the records that were read may not be durable yet.
        let end = |open: &OpenBlock| planted!("indexlog.killed-process-trusted", 0, open.end());
        let mut flushed: Vec<_> = kept.iter().map(|open| open.fresh.flush(0..end(open))).collect();
        let values = kept.iter().flat_map(|open| &open.records).flat_map(|record| &record.value);
        flushed.extend(values.map(|piece| piece.flush()));
        if let Some(log) = &self.log {
            log.flush(&mut flushed);
        }
        let proofs = space.pool().fence_found(&flushed)?;
        if let Some(log) = &mut self.log {
            log.values.clear();
        }
        Ok(Kept { log: self.log, blocks: kept.into_iter().zip(proofs).collect(), unproved })
    }
}

/// The open blocks up to the cut, durable.
pub(crate) struct Kept {
    blocks: Vec<(OpenBlock, Fenced)>,
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
