//! Failure-atomic memory: each word holds bits of the value before and after the last update
//! (§3.4.3, appendix A).
//!
//! A value is cut into units of 4 bytes. Each unit has a block (`block.rs`) with its lower 31 bits; one or
//! two blocks behind those have the highest bits of all units: ⌈8n/31⌉ blocks for n bytes. An update raises
//! the version of every block and keeps its old bits, with one flush and one fence. It is computed in one
//! of several [`Form`]s (`scalar.rs`, `avx2.rs`, `avx512.rs`), which yield the same.
//!
//! # State after a crash
//!
//! Words do not tear, so each block is in its state before or after the update, and versions tell which:
//! all are v, all v + 1, or some are one ahead of the others. Those are rolled back, and the cell is in its
//! state before the update. The rollback is idempotent, because a block that was rolled back is no longer
//! ahead; so it may be interrupted any number of times.
//!
//! Versions count modulo 4 and tell v from v + 1 only. So at most one update may be on its way to the
//! medium: a write waits for its fence, and opening makes both the blocks that it rolled back and those
//! that it only found durable, before the next write. Otherwise a block of the update that was rolled back,
//! its rollback not durable, would pass for one of the next update. Any other spread of versions is damage.

#[cfg(all(target_arch = "x86_64", not(halite_portable)))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(halite_portable)))]
mod avx512;
mod block;
mod scalar;

use halite_pmem::Fresh;

use self::block::{BITS, NEW, OLD};
use super::header::{self, HEADER_LEN, Technique};
use super::{CELL_LEN_MAX, Cells, Shape};
use crate::{Error, Result};

/// Bytes of a unit.
const UNIT_LEN: u64 = 4;

/// Blocks of a value of so many bytes.
const fn blocks_of(cell_len: u64) -> u64 {
    (8 * cell_len).div_ceil(BITS as u64)
}

/// Room for the blocks of any cell.
type Blocks = [u64; blocks_of(CELL_LEN_MAX) as usize];

/// The instructions that compute an update and a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A unit at a time.
    Scalar,
    /// Four units at a time.
    Avx2,
    /// Eight units at a time.
    Avx512,
}

impl Form {
    /// All of them, the best one last.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// The name: `scalar`, `avx2`, `avx512`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Whether this processor has the instructions.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(all(target_arch = "x86_64", not(halite_portable)))]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(all(target_arch = "x86_64", not(halite_portable)))]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(not(all(target_arch = "x86_64", not(halite_portable))))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// The best that this processor has.
    #[must_use]
    pub fn best() -> Self {
        let available = Self::ALL.into_iter().rev().find(|form| form.is_available());
        available.unwrap_or(Self::Scalar)
    }

    /// Fills `blocks` with the blocks of `stored` after an update to `value`.
    ///
    /// # Safety
    /// The form is available.
    #[inline]
    unsafe fn update(self, stored: &[u8], value: &[u8], blocks: &mut Blocks) {
        match self {
            Self::Scalar => scalar::update(stored, value, blocks),
            // SAFETY: the caller's promise.
            #[cfg(all(target_arch = "x86_64", not(halite_portable)))]
            Self::Avx2 => unsafe { avx2::update(stored, value, blocks) },
            // SAFETY: the caller's promise.
            #[cfg(all(target_arch = "x86_64", not(halite_portable)))]
            Self::Avx512 => unsafe { avx512::update(stored, value, blocks) },
            #[cfg(not(all(target_arch = "x86_64", not(halite_portable))))]
            Self::Avx2 | Self::Avx512 => unreachable!("this processor has no such form"),
        }
    }

    /// Takes the value out of `stored`.
    ///
    /// # Safety
    /// The form is available.
    #[inline]
    unsafe fn read(self, stored: &[u8], value: &mut [u8]) {
        match self {
            Self::Scalar => scalar::read(stored, value),
            // SAFETY: the caller's promise.
            #[cfg(all(target_arch = "x86_64", not(halite_portable)))]
            Self::Avx2 => unsafe { avx2::read(stored, value) },
            // SAFETY: the caller's promise.
            #[cfg(all(target_arch = "x86_64", not(halite_portable)))]
            Self::Avx512 => unsafe { avx512::read(stored, value) },
            #[cfg(not(all(target_arch = "x86_64", not(halite_portable))))]
            Self::Avx2 | Self::Avx512 => unreachable!("this processor has no such form"),
        }
    }
}

/// The highest bits of all units, the first one's lowest, as the blocks behind those of the units say.
#[inline(always)]
fn high(words: &[[u8; 8]], units: usize) -> u32 {
    let bits = |number: usize| (u64::from_le_bytes(words[number]) & NEW) as u32;
    let mut high = bits(units);
    if units > BITS as usize {
        high |= bits(units + 1) << BITS;
    }
    high
}

/// Updates the blocks behind those of the units to the highest bits of all units.
#[inline(always)]
fn store_high(words: &[[u8; 8]], units: usize, high: u32, blocks: &mut Blocks) {
    let block = |number: usize, bits| block::updated(u64::from_le_bytes(words[number]), bits);
    blocks[units] = block(units, u64::from(high) & NEW);
    if units > BITS as usize {
        blocks[units + 1] = block(units + 1, u64::from(high >> BITS));
    }
}

/// The state in which a crash left a cell.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Whole,
    /// The blocks of this version are ahead of the others.
    Torn(u64),
    Damaged(&'static str),
}

fn state(stored: &[u8], units: u64) -> State {
    let (words, _) = stored.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let versions = words.clone().fold(0, |seen: u8, word| seen | 1 << block::version(word));
    let last = words.next_back().unwrap_or_default();
    let used =
        (1 << (8 * UNIT_LEN * units - u64::from(BITS) * (blocks_of(UNIT_LEN * units) - 1))) - 1;
    if last & (NEW | OLD) & !(used | used << BITS) != 0 {
        return State::Damaged("its last block has bits that no value has");
    }
    match versions {
        0b0001 | 0b0010 | 0b0100 | 0b1000 => State::Whole,
        0b0011 => State::Torn(1),
        0b0110 => State::Torn(2),
        0b1100 => State::Torn(3),
        0b1001 => State::Torn(0),
        _ => State::Damaged("its blocks have versions that no interrupted update leaves"),
    }
}

/// An array of cells in failure-atomic memory.
pub struct Fam {
    space: Fresh,
    shape: Shape,
    /// Bytes of a cell's blocks.
    blocks_len: u64,
    stride: u64,
    /// Available on this processor.
    form: Form,
    /// The blocks of an update, before they are stored.
    updated: Blocks,
    /// Whether a write failed.
    failed: bool,
}

impl Fam {
    fn new(space: Fresh, shape: Shape) -> Self {
        let blocks_len = 8 * blocks_of(shape.cell_len);
        let stride = shape.packing.stride(blocks_len);
        let (form, updated) = (Form::best(), [0; blocks_of(CELL_LEN_MAX) as usize]);
        Self { space, shape, blocks_len, stride, form, updated, failed: false }
    }

    /// The instructions in use; the best ones, unless [`Fam::set_form`] chose others.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Chooses the instructions. All of them store the same bytes.
    ///
    /// # Panics
    /// If this processor does not have them.
    pub fn set_form(&mut self, form: Form) {
        assert!(form.is_available(), "this processor has no {}", form.name());
        self.form = form;
    }

    #[inline]
    fn at(&self, index: u64) -> u64 {
        assert!(index < self.shape.count, "cell {index} of {}", self.shape.count);
        HEADER_LEN + index * self.stride
    }

    /// Rolls back the update of one cell, if a crash interrupted it; returns whether it did.
    fn roll_back(&mut self, index: u64) -> Result<bool> {
        let at = self.at(index);
        let stored = self.space.read(at, self.blocks_len);
        let ahead = match state(stored, self.shape.cell_len / UNIT_LEN) {
            State::Whole => return Ok(false),
            State::Torn(ahead) => ahead,
            State::Damaged(why) => {
                return Err(Error::damaged(&self.space, format!("cell {index}: {why}")));
            }
        };
        let (words, _) = stored.as_chunks::<8>();
        let count = words.len();
        for (word, block) in words.iter().zip(&mut self.updated) {
            let word = u64::from_le_bytes(*word);
            let is_ahead = block::version(word) == ahead;
            *block = if is_ahead { block::rolled_back(word) } else { word };
        }
        self.space.write_words(at, &self.updated[..count]);
        Ok(true)
    }
}

impl Cells for Fam {
    fn space_len(shape: Shape) -> u64 {
        shape.array_len(shape.packing.stride(8 * blocks_of(shape.cell_len)))
    }

    fn format(mut space: Fresh, shape: Shape) -> Result<Self> {
        let needed = Self::space_len(shape);
        shape.check(&space, needed)?;
        header::forget(&mut space)?;
        header::create(&mut space, Technique::Fam, shape, needed)?;
        Ok(Self::new(space, shape))
    }

    fn open(space: Fresh) -> Result<Self> {
        let shape = header::open(&space, Technique::Fam, Self::space_len)?;
        let mut cells = Self::new(space, shape);
        let mut changed = false;
        for index in 0..shape.count {
            changed |= cells.roll_back(index)?;
        }
        // Found bytes may be those of an update whose process died before its fence.
        let all = cells.space.flush(0..Self::space_len(shape));
        if changed {
            cells.space.pool().fence([all])?;
        } else {
            cells.space.pool().fence_found(&[all])?;
        }
        Ok(cells)
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn space(&self) -> &Fresh {
        &self.space
    }

    #[inline]
    fn write(&mut self, index: u64, value: &[u8]) -> Result<()> {
        self.shape.check_value(value.len());
        let at = self.at(index);
        // Versions tell one update from the next only if it arrived.
        header::check_known(&self.space, self.failed)?;
        self.failed = true;
        let stored = self.space.read(at, self.blocks_len);
        // SAFETY: only an available form is chosen.
        unsafe { self.form.update(stored, value, &mut self.updated) };
        self.space.write_words(at, &self.updated[..(self.blocks_len / 8) as usize]);
        self.space.pool().fence([self.space.flush(at..at + self.blocks_len)])?;
        self.failed = false;
        Ok(())
    }

    #[inline]
    fn read(&self, index: u64, to: &mut [u8]) {
        self.shape.check_value(to.len());
        let stored = self.space.read(self.at(index), self.blocks_len);
        // SAFETY: only an available form is chosen.
        unsafe { self.form.read(stored, to) };
    }
}
