//! Reading several blocks of a file at once, for those who go from one to the next.
//!
//! The kernel is told to read no more of a table than it is asked for (`Table::open`): what it would read ahead on its
//! own is a guess about all readers of a file at once, and was several times what scans of some dozen pairs want.

use super::Result;
use super::table::BlockReader;

/// Where a block lies that is to be read: where it was sought, or next to the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Sought,
    Forward,
    Backward,
}

/// What a walk reads at once at its second block, in bytes. Then that doubles, up to a limit.
const LEAST: usize = 16 << 10;
const MOST: usize = 256 << 10;

/// Bytes that were read ahead.
pub(crate) struct ReadAhead {
    bytes: Vec<u8>,
    /// Where they are from.
    at: u64,
    /// How many are read at once at a place that was sought, and now.
    first: usize,
    len: usize,
}

impl ReadAhead {
    /// The more, the further a walk goes on: at first one block alone.
    pub(crate) fn growing() -> Self {
        Self { bytes: Vec::new(), at: 0, first: 0, len: 0 }
    }

    /// Always as much as makes sense.
    pub(crate) fn full() -> Self {
        Self { bytes: Vec::new(), at: 0, first: MOST, len: MOST }
    }

    /// Fills `to` with the block at `at`; blocks that may be read ahead end at `end`.
    pub(crate) fn fill(
        &mut self,
        reader: BlockReader<'_>,
        (at, to): (u64, &mut [u8]),
        step: Step,
        end: u64,
    ) -> Result<()> {
        if let Some(there) = self.there(at, to.len()) {
            to.copy_from_slice(there);
            return Ok(());
        }
        let was_full = self.len == MOST;
        self.len = match step {
            Step::Sought => self.first,
            _ => (self.len * 2).clamp(LEAST, MOST),
        };
        let block_end = at + to.len() as u64;
        let (from, until) = match step {
            Step::Backward => (block_end.saturating_sub(self.len as u64).min(at), block_end),
            _ => (at, (at + self.len as u64).min(end).max(block_end)),
        };
        if until - from == to.len() as u64 {
            return reader.fill(at, to);
        }
        self.bytes.resize((until - from) as usize, 0);
        self.at = from;
        if reader.fill(from, &mut self.bytes).is_err() {
            // What is wrong may be behind what was asked for.
            self.bytes.clear();
            return reader.fill(at, to);
        }
        to.copy_from_slice(&self.bytes[(at - from) as usize..][..to.len()]);
        if was_full && step == Step::Forward && until < end {
            reader.will_need(until, (end - until).min(MOST as u64));
        }
        Ok(())
    }

    fn there(&self, at: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}
