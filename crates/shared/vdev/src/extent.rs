//! The unit in which space of a vdev is allocated, written and freed.

/// Bytes of a block, the unit of allocation.
pub const BLOCK: usize = 4096;

/// The most data blocks of an extent: 1 MiB.
pub const EXTENT_BLOCKS_MAX: u32 = 256;

/// No extent crosses a multiple of so many blocks of its vdev: 2 MiB, a segment of a pool.
pub const SEGMENT_BLOCKS: u64 = 512;

/// A contiguous range of a vdev's blocks that is written whole, once, read in parts, and freed whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Its first block, in the vdev's address space.
    pub block: u64,
    /// Its blocks of data, from 1 to [`EXTENT_BLOCKS_MAX`]. A vdev with parity takes more
    /// blocks of its address space for them.
    pub blocks: u32,
}

impl Extent {
    /// Bytes of data.
    #[must_use]
    pub fn byte_len(self) -> usize {
        self.blocks as usize * BLOCK
    }

    /// Why `taken` blocks from its first one on are no place of an address space of `blocks` blocks, if they are not.
    pub(crate) fn defect(self, taken: u32, blocks: u64) -> Option<String> {
        let Some(end) = self.block.checked_add(taken.into()) else {
            return Some("its end is beyond all numbers".into());
        };
        if self.blocks == 0 || self.blocks > EXTENT_BLOCKS_MAX {
            Some(format!("an extent has 1 to {EXTENT_BLOCKS_MAX} blocks"))
        } else if end > blocks {
            Some(format!("there are {blocks} blocks"))
        } else if self.block / SEGMENT_BLOCKS != (end - 1) / SEGMENT_BLOCKS {
            Some(format!("an extent does not cross a multiple of {SEGMENT_BLOCKS} blocks"))
        } else {
            None
        }
    }
}
