//! A log entry first, then the value in place (§3.4.2).
//!
//! The entry is durable before the value in its place is touched, and that is durable before the next entry
//! is written. So only the last of all entries can belong to an interrupted write; opening repeats that
//! write. A full log is emptied: the reset is atomic, and no entry is needed any more. The log is
//! [`Salted`], with one barrier an entry and one when it is emptied.
//!
//! ```text
//!   the header, the cells (each only its value), the log: entries of cell number (8 bytes) and value
//! ```

use halite_pmem::{Flushed, Fresh, LINE};

use super::header::{self, HEADER_LEN, Technique};
use super::{CELL_LEN_MAX, Cells, Shape};
use crate::log::{Layout, Log, Salted};
use crate::{Error, Result};

/// Bytes of the smallest log: a few entries. A longer space has a longer one, which is emptied less
/// often.
const LOG_LEN_MIN: u64 = 8 * LINE;

/// The number of a cell in front of its value in an entry, in bytes.
const NUMBER_LEN: usize = 8;

/// An array of cells whose updates are logged.
pub struct Logged {
    space: Fresh,
    log: Log<Salted>,
    shape: Shape,
    stride: u64,
    /// Whether a write failed.
    failed: bool,
    /// The buffer in which an entry is composed.
    entry: [u8; NUMBER_LEN + CELL_LEN_MAX as usize],
}

/// Bytes of the header and the cells.
fn cells_len(shape: Shape) -> u64 {
    let len = shape.array_len(shape.packing.stride(shape.cell_len));
    len.checked_next_multiple_of(LINE).unwrap_or(u64::MAX)
}

/// Splits the space into the header with the cells, and the log behind them. No other thread may claim in
/// the pool's space meanwhile.
fn split(space: Fresh, shape: Shape) -> Result<(Fresh, Fresh)> {
    let (pool, offset, len) = (space.pool().clone(), space.offset(), space.len());
    drop(space);
    let cells_len = cells_len(shape);
    let log_len = (len - cells_len) / LINE * LINE;
    Ok((pool.claim(offset, cells_len)?, pool.claim(offset + cells_len, log_len)?))
}

impl Logged {
    fn new(space: Fresh, log: Log<Salted>, shape: Shape) -> Self {
        let stride = shape.packing.stride(shape.cell_len);
        let entry = [0; NUMBER_LEN + CELL_LEN_MAX as usize];
        Self { space, log, shape, stride, failed: false, entry }
    }

    #[inline]
    fn at(&self, index: u64) -> u64 {
        assert!(index < self.shape.count, "cell {index} of {}", self.shape.count);
        HEADER_LEN + index * self.stride
    }

    /// The last entry, whose value may not be in its place yet.
    fn last_entry(&self) -> Result<Option<(u64, Vec<u8>)>> {
        let Some(entry) = self.log.entries().last() else { return Ok(None) };
        let parts = entry.split_first_chunk::<NUMBER_LEN>();
        let index = parts.map(|(number, _)| u64::from_le_bytes(*number));
        match (index, parts) {
            (Some(index), Some((_, value)))
                if index < self.shape.count && value.len() as u64 == self.shape.cell_len =>
            {
                Ok(Some((index, value.to_vec())))
            }
            _ => Err(Error::damaged(&self.space, "the log of the cells has an entry of no cell")),
        }
    }

    #[inline]
    fn put_in_place(&mut self, index: u64, value: &[u8]) -> Flushed {
        let at = self.at(index);
        self.space.write(at, value);
        self.space.flush(at..at + self.shape.cell_len)
    }
}

impl Cells for Logged {
    fn space_len(shape: Shape) -> u64 {
        cells_len(shape).saturating_add(LOG_LEN_MIN)
    }

    fn format(space: Fresh, shape: Shape) -> Result<Self> {
        shape.check(&space, Self::space_len(shape))?;
        let (mut space, log) = split(space, shape)?;
        header::forget(&mut space)?;
        let log = Log::format(log, Layout::Lines)?;
        header::create(&mut space, Technique::Logged, shape, cells_len(shape))?;
        Ok(Self::new(space, log, shape))
    }

    fn open(space: Fresh) -> Result<Self> {
        let shape = header::open(&space, Technique::Logged, Self::space_len)?;
        let (space, log) = split(space, shape)?;
        let mut cells = Self::new(space, Log::open(log)?, shape);
        // A process may have died before it fenced the header of the cells.
        let mut found = vec![cells.space.flush(0..HEADER_LEN)];
        if let Some((index, value)) = cells.last_entry()? {
            found.push(cells.put_in_place(index, &value));
        }
        cells.space.pool().fence_found(&found)?;
        Ok(cells)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn space(&self) -> &Fresh {
        &self.space
    }

    fn write(&mut self, index: u64, value: &[u8]) -> Result<()> {
        self.shape.check_value(value.len());
        assert!(index < self.shape.count, "cell {index} of {}", self.shape.count);
        // Opening repeats the last entry only, so the values of all earlier ones have to be in place.
        header::check_known(&self.space, self.failed)?;
        self.failed = true;
        let entry = &mut self.entry[..NUMBER_LEN + value.len()];
        entry[..NUMBER_LEN].copy_from_slice(&index.to_le_bytes());
        entry[NUMBER_LEN..].copy_from_slice(value);
        if self.log.footprint(entry.len() as u64) > self.log.remaining() {
            self.log.reset()?;
        }
        self.log.append(entry)?;
        let put = self.put_in_place(index, value);
        self.space.pool().fence([put])?;
        self.failed = false;
        Ok(())
    }

    #[inline]
    fn read(&self, index: u64, to: &mut [u8]) {
        self.shape.check_value(to.len());
        to.copy_from_slice(self.space.read(self.at(index), self.shape.cell_len));
    }
}
