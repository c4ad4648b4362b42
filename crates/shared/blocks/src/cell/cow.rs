//! Copy-on-write: two versions of a value, and a word that says which of them is active (§3.4.1).
//!
//! A write goes to the version that is not active; once that is durable, the word is flipped. A crash
//! leaves the word unflipped or flipped, and the version that it names is whole.
//!
//! ```text
//!   0  active: 0 or 1 (8 bytes)    then version 0, version 1, each of the cell's length
//! ```
//!
//! Where cells have lines of their own, a version begins in a new line if it would lie in more lines
//! than it must.

use halite_pmem::{Fresh, LINE};

use super::header::{self, HEADER_LEN, Technique};
use super::{Cells, Packing, Shape, lines_of};
use crate::{Error, Result};

/// The word in front of the versions, in bytes.
const ACTIVE_LEN: u64 = 8;

/// An array of cells that are copied on write.
pub struct Cow {
    space: Fresh,
    shape: Shape,
    layout: Layout,
    /// Whether a write failed.
    failed: bool,
}

/// The places of the parts of a cell.
#[derive(Debug, Clone, Copy)]
struct Layout {
    versions: [u64; 2],
    stride: u64,
}

impl Layout {
    fn of(shape: Shape) -> Self {
        let place = |at: u64| {
            let is_good = lines_of(at, shape.cell_len) == lines_of(0, shape.cell_len);
            let stays = is_good || shape.packing == Packing::Dense;
            if stays { at } else { at.next_multiple_of(LINE) }
        };
        let first = place(ACTIVE_LEN);
        let second = place(first + shape.cell_len);
        let stride = shape.packing.stride(second + shape.cell_len);
        Self { versions: [first, second], stride }
    }
}

impl Cow {
    fn at(&self, index: u64) -> u64 {
        assert!(index < self.shape.count, "cell {index} of {}", self.shape.count);
        HEADER_LEN + index * self.layout.stride
    }

    /// Which version is active, of the cell at `at`.
    #[inline]
    fn active(&self, at: u64) -> u64 {
        u64::from_le_bytes(*self.space.read(at, ACTIVE_LEN).as_array().expect("a word"))
    }
}

impl Cells for Cow {
    fn space_len(shape: Shape) -> u64 {
        shape.array_len(Layout::of(shape).stride)
    }

    fn format(mut space: Fresh, shape: Shape) -> Result<Self> {
        let needed = Self::space_len(shape);
        shape.check(&space, needed)?;
        header::forget(&mut space)?;
        header::create(&mut space, Technique::Cow, shape, needed)?;
        Ok(Self { space, shape, layout: Layout::of(shape), failed: false })
    }

    fn open(space: Fresh) -> Result<Self> {
        let shape = header::open(&space, Technique::Cow, Self::space_len)?;
        let cells = Self { layout: Layout::of(shape), space, shape, failed: false };
        for index in 0..shape.count {
            let active = cells.active(cells.at(index));
            if active > 1 {
                let what = format!("cell {index} has version {active:#x} active, of two");
                return Err(Error::damaged(&cells.space, what));
            }
        }
        // A process may have died between flipping a word and its fence.
        let found = cells.space.flush(0..Self::space_len(shape));
        cells.space.pool().fence_found(&[found])?;
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
        let at = self.at(index);
        // If an earlier flip may not be durable, the active version is unknown, so writing is refused.
        header::check_known(&self.space, self.failed)?;
        self.failed = true;
        let other = 1 ^ (self.active(at) & 1);
        let version = at + self.layout.versions[other as usize];
        self.space.write(version, value);
        let copied = self.space.flush(version..version + self.shape.cell_len);
        self.space.pool().fence([copied])?;
        self.space.write_words(at, &[other]);
        self.space.pool().fence([self.space.flush(at..at + ACTIVE_LEN)])?;
        self.failed = false;
        Ok(())
    }

    #[inline]
    fn read(&self, index: u64, to: &mut [u8]) {
        self.shape.check_value(to.len());
        let at = self.at(index);
        let version = self.layout.versions[(self.active(at) & 1) as usize];
        to.copy_from_slice(self.space.read(at + version, self.shape.cell_len));
    }
}
