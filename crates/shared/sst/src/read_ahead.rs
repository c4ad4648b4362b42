//! Reading several blocks of a file at once, for readers that go from one to the next.
//!
//! The kernel is told to read no more of a table than it is asked for (`Table::open`): what it would read ahead is a guess
//! about all readers of a file at once, and was several times what scans of some dozen pairs want, up to megabytes. A long
//! walk has it begin to read what comes next, while it uses what is there.

use halite_codec::{Plain, TRAILER};

use crate::Result;
use crate::index::Handle;
use crate::table::Table;

/// The place of a block that is to be read: where it was sought, or next to the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Sought,
    Forward,
    Backward,
}

/// Bytes that a walk reads at once at its second block. Then that doubles, up to a limit.
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

    /// As much as makes sense from the beginning.
    pub(crate) fn full() -> Self {
        Self { first: MOST, ..Self::growing() }
    }

    /// The block of entries that a handle points to, checked; blocks that may be read ahead end at `end`.
    pub(crate) fn block(
        &mut self,
        table: &Table,
        handle: Handle,
        step: Step,
        end: u64,
    ) -> Result<Plain> {
        let reader = table.reader();
        let (at, len) = (handle.offset, handle.len as usize + TRAILER);
        if reader.fits(handle).is_ok()
            && (self.there(at, len).is_some() || self.read(table, at, len, step, end))
            && let Some(bytes) = self.there(at, len)
        {
            return reader.of_bytes(handle, bytes);
        }
        reader.read("block", handle)
    }

    /// Reads `len` bytes from `at` on, and bytes next to them; not, if there is a reason to read them alone.
    fn read(&mut self, table: &Table, at: u64, len: usize, step: Step, end: u64) -> bool {
        self.len = match step {
            Step::Sought => self.first,
            _ => (self.len * 2).clamp(LEAST.max(self.first), MOST),
        };
        let block_end = at + len as u64;
        let (from, until) = match step {
            Step::Backward => (block_end.saturating_sub(self.len as u64).min(at), block_end),
            _ => (at, (at + self.len as u64).min(end).max(block_end)),
        };
        if until - from == len as u64 {
            return false;
        }
        self.bytes.resize((until - from) as usize, 0);
        self.at = from;
        let read = table.file().read_at(from, &mut self.bytes);
        if self.len == MOST {
            let (from, until) = match step {
                Step::Backward => (from.saturating_sub(MOST as u64), from),
                _ => (until, (until + MOST as u64).min(end).max(until)),
            };
            table.file().expect_read(from, until - from);
        }
        if read.is_err() {
            // The damage may be behind the bytes that were asked for.
            self.bytes.clear();
        }
        read.is_ok()
    }

    fn there(&self, at: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}
