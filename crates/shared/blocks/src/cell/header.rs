//! The line in front of an array of cells, which describes them.
//!
//! ```text
//!   0  magic   8  version  12 technique  16 cell_len  20 packing   (4 bytes each)
//!   24 count   32 zeros    56 checksum: XXH3 of the bytes before   (8 bytes each)
//! ```

use halite_pmem::{Fresh, LINE};
use xxhash_rust::xxh3::xxh3_64;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::{Packing, Shape};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"HalCells";

/// The format that this program writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 1;

/// Bytes before the first cell.
pub(super) const HEADER_LEN: u64 = LINE;

/// The technique that the cells are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Technique {
    Cow = 1,
    Logged = 2,
    Fam = 3,
}

impl Technique {
    fn name(self) -> &'static str {
        match self {
            Self::Cow => "copy-on-write cells",
            Self::Logged => "log-based cells",
            Self::Fam => "cells in failure-atomic memory",
        }
    }

    fn numbered(number: u32) -> Option<Self> {
        [Self::Cow, Self::Logged, Self::Fam].into_iter().find(|known| *known as u32 == number)
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Stored {
    magic: [u8; 8],
    version: U32,
    technique: U32,
    cell_len: U32,
    packing: U32,
    count: U64,
    zeros: [u8; 24],
    checksum: U64,
}

impl Stored {
    fn sum(&self) -> u64 {
        let bytes = self.as_bytes();
        xxh3_64(&bytes[..bytes.len() - size_of::<U64>()])
    }
}

/// Invalidates the cells in a space, if any, so that it may be overwritten.
pub(super) fn forget(space: &mut Fresh) -> Result<()> {
    // After a failed sync, the old cells may reappear when the pool is opened again.
    space.pool().check_synced()?;
    // The magic number alone makes a header of the line, and a word does not tear.
    space.write_words(0, &[0]);
    space.pool().fence([space.flush(0..HEADER_LEN)])?;
    Ok(())
}

/// Makes an array of zeros in a space without a header. Zeros are a cell of value zero in all techniques.
/// If this is interrupted, there is no header.
pub(super) fn create(
    space: &mut Fresh,
    technique: Technique,
    shape: Shape,
    needed: u64,
) -> Result<()> {
    let zeroed = space.zero(HEADER_LEN..needed);
    space.pool().fence([zeroed])?;
    let mut stored = Stored::new_zeroed();
    stored.magic = MAGIC;
    stored.version = FORMAT_VERSION.into();
    stored.technique = (technique as u32).into();
    stored.cell_len = (shape.cell_len as u32).into();
    stored.packing = (shape.packing as u32).into();
    stored.count = shape.count.into();
    stored.checksum = stored.sum().into();
    let (words, _) = stored.as_bytes().as_chunks();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    // The magic number persists last.
    space.write_words(8, &words[1..]);
    space.order(8..HEADER_LEN)?;
    space.write_words(0, &words[..1]);
    space.pool().fence([space.flush(0..HEADER_LEN)])?;
    Ok(())
}

/// Reads the shape of the cells in a space from its header. `space_len` returns the length that cells of a
/// shape need.
pub(super) fn open(
    space: &Fresh,
    technique: Technique,
    space_len: impl FnOnce(Shape) -> u64,
) -> Result<Shape> {
    let foreign = |found: String| Error::foreign(space, technique.name(), found);
    let Ok((stored, _)) = Stored::read_from_prefix(space.bytes()) else {
        return Err(foreign("a space shorter than their header".into()));
    };
    if stored.magic != MAGIC {
        return Err(foreign("something else".into()));
    }
    if stored.version.get() > FORMAT_VERSION {
        return Err(foreign(format!(
            "cells of format {}; this program reads up to {FORMAT_VERSION}",
            stored.version
        )));
    }
    if stored.checksum.get() != stored.sum() {
        return Err(Error::damaged(space, "the header of the cells does not have its checksum"));
    }
    if stored.technique.get() != technique as u32 {
        let found = Technique::numbered(stored.technique.get()).map(Technique::name);
        return Err(foreign(found.unwrap_or("cells of an unknown technique").into()));
    }
    let packing = match stored.packing.get() {
        0 => Packing::Lines,
        1 => Packing::Dense,
        other => return Err(foreign(format!("cells with the unknown packing {other}"))),
    };
    let (cell_len, count) = (u64::from(stored.cell_len.get()), stored.count.get());
    let shape = Shape { cell_len, count, packing };
    shape.check(space, space_len(shape))?;
    Ok(shape)
}

/// Refuses a write after one that failed.
#[inline]
pub(super) fn check_known(space: &Fresh, failed: bool) -> Result<()> {
    if failed { Err(unknown(space)) } else { Ok(()) }
}

#[cold]
fn unknown(space: &Fresh) -> Error {
    Error::CellsFailed { path: space.pool().path().to_owned(), offset: space.offset() }
}
