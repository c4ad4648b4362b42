//! Small updates in place, whole or not at all (van Renen §3.4).
//!
//! A cell has a value of 16 to 128 bytes. Only aligned words of 8 bytes persist at once, so each technique
//! pays a different price for a value that is never torn: [`Cow`] a second version, [`Logged`] a log entry,
//! [`Fam`] the old bits beside the new ones in each word.
//!
//! All of them are arrays of cells in one space: a header (`header.rs`), then the cells. A write walks
//! [`Cells::write`] → the technique (`cow.rs`, `logged.rs`, `fam/`) → `Fresh::write`, `flush` and
//! `Pool::fence`; it is durable when it returns. [`Cells::open`] checks the header, repairs a cell whose
//! write a crash interrupted, and makes the bytes durable for which a killed process had not waited.
//!
//! # Costs
//!
//! Of one write of n bytes; lines written and space are counted by the tests. The left part is van
//! Renen's table 3, where versions are packed without regard to lines.
//!
//! | | space (B) | lines 16/32/64 B | persists | space here (B) | lines here 16/32/48/64/96/128 B | flushes, fences |
//! |---|---|---|---|---|---|---|
//! | [`Cow`] | 2n + 1 | 2/2/3 | 2 | 2n + 8 | 2/2/2/2/3/3 | 2, 2 |
//! | [`Logged`] | n + c | 2/2/3 | 2 | n + the log | 2/2/2/3/4/5 | 2, 2 |
//! | [`Fam`] | ⌈8n/31⌉ · 8 | 1/2/3 | 1 | ⌈8n/31⌉ · 8 | 1/2/2/3/4/5 | 1, 1 |
//!
//! With [`Packing::Lines`], as in the paper's experiment, a cell's space is rounded up to lines of 64
//! bytes. A version of [`Cow`] that begins in a line of its own then needs one line less than in the
//! table. Opening reads and flushes every cell once; of [`Logged`] only the header, and the cell of the
//! last entry.
//!
//! # Results of the paper
//!
//! At 16 bytes [`Fam`] writes 2 times as fast as the others in sequence, and 1.6 times at random.
//! [`Logged`] reads fastest in sequence, because it stores values unencoded; at random the latency of the
//! medium hides most of that. Our measurements are in `docs/RESULTS.md`.

mod cow;
mod fam;
mod header;
mod logged;

use halite_pmem::{Fresh, LINE};

pub use cow::Cow;
pub use fam::{Fam, Form};
pub use logged::Logged;

use crate::{Error, Result};

/// The shortest value of a cell, and the unit of its length, in bytes.
pub const CELL_LEN_UNIT: u64 = 16;

/// The longest value of a cell, in bytes.
pub const CELL_LEN_MAX: u64 = 128;

/// How cells lie in their space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Each begins in a line of its own, so that a write persists as few lines as can be.
    Lines = 0,
    /// One behind the other, at multiples of 8 bytes.
    Dense = 1,
}

impl Packing {
    /// Returns the bytes from the beginning of a cell to that of the next.
    fn stride(self, len: u64) -> u64 {
        match self {
            Self::Lines => len.next_multiple_of(LINE),
            Self::Dense => len.next_multiple_of(8),
        }
    }
}

/// The layout of an array of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a value: 16 to 128, a multiple of 16.
    pub cell_len: u64,
    /// How many cells there are.
    pub count: u64,
    /// How they lie.
    pub packing: Packing,
}

impl Shape {
    /// Whether there are such cells, and `needed` bytes for them.
    fn check(self, space: &Fresh, needed: u64) -> Result<()> {
        assert!(space.offset().is_multiple_of(LINE), "cells begin at a line");
        let len = self.cell_len;
        if !len.is_multiple_of(CELL_LEN_UNIT) || !(CELL_LEN_UNIT..=CELL_LEN_MAX).contains(&len) {
            return Err(Error::CellLen { len });
        }
        if needed > space.len() {
            return Err(Error::DoesNotFit { what: "cells", needed, len: space.len() });
        }
        Ok(())
    }

    /// Bytes of a header and cells that are `stride` apart; too many to fit, if they overflow.
    fn array_len(self, stride: u64) -> u64 {
        self.count.saturating_mul(stride).saturating_add(header::HEADER_LEN)
    }

    #[inline]
    fn check_value(self, len: usize) {
        assert!(len as u64 == self.cell_len, "{len} bytes for a cell of {}", self.cell_len);
    }
}

/// An array of cells that are updated whole or not at all.
pub trait Cells: Sized {
    /// Bytes that cells of a shape need.
    fn space_len(shape: Shape) -> u64;

    /// Makes cells of value zero in a space. Its contents are lost; if it held cells, a crash leaves those,
    /// no cells, or the new ones.
    ///
    /// # Errors
    /// [`Error::CellLen`], [`Error::DoesNotFit`]; [`Error::Pool`] as [`halite_pmem::Pool::fence`].
    ///
    /// # Panics
    /// If the space does not begin at a line.
    fn format(space: Fresh, shape: Shape) -> Result<Self>;

    /// Opens the cells of a space. A cell whose write a crash interrupted has its value before or after
    /// that write; every value read from then on is durable.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Damaged`], [`Error::CellLen`], [`Error::DoesNotFit`];
    /// [`Error::Pool`] as [`halite_pmem::Pool::fence`].
    ///
    /// # Panics
    /// If the space does not begin at a line.
    fn open(space: Fresh) -> Result<Self>;

    /// The layout of the array.
    fn shape(&self) -> Shape;

    /// The space of the cells.
    fn space(&self) -> &Fresh;

    /// Gives a cell a value, durably.
    ///
    /// # Errors
    /// [`Error::Pool`] as [`halite_pmem::Pool::fence`]: whether the cell has the value shows when the
    /// cells are opened again, and until then each write is [`Error::CellsFailed`].
    ///
    /// # Panics
    /// If there is no such cell, or the value has not the cell's length.
    fn write(&mut self, index: u64, value: &[u8]) -> Result<()>;

    /// Reads the value of a cell.
    ///
    /// # Panics
    /// As [`Cells::write`].
    fn read(&self, index: u64, to: &mut [u8]);
}

/// Lines in which bytes lie that begin at `at`.
fn lines_of(at: u64, len: u64) -> u64 {
    (at + len).div_ceil(LINE) - at / LINE
}
