//! Space: storage classes of vdevs, and the extents that runs, nodes and large values lie in.

mod address;
pub(crate) mod labels;
mod pool;
mod requests;
mod traffic;

pub use address::Address;
pub(crate) use address::{CLASSES_MAX, VDEVS_MAX};
pub(crate) use pool::{Storage, run_of};
pub(crate) use requests::{AHEAD, Check, PendingRead, Writes};

use std::ops::Range;

use halite_pmem::Pinned;
#[cfg(test)]
pub(crate) use requests::tests::Slow;

use crate::Result;

/// Storage classes.
const CLASSES: usize = CLASSES_MAX as usize;

/// The most bytes of an extent: 1 MiB.
pub(crate) const EXTENT_BYTES_MAX: usize =
    halite_vdev::EXTENT_BLOCKS_MAX as usize * halite_vdev::BLOCK;

/// An allocated extent: its place and its blocks of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Extent {
    pub(crate) address: Address,
    pub(crate) blocks: u32,
}

/// The storage that extents lie in, as those see it that write and read them.
pub(crate) trait Extents: Send + Sync {
    /// Allocates an extent for these bytes, preferably in a class, and writes them, with zeros behind up to its end. They
    /// are durable after the next sync of the vdevs, which is the checkpoint's.
    fn write(&self, class: u8, bytes: &[u8]) -> Result<Extent>;

    /// Allocates an extent of so many blocks, preferably in a class, and writes these bytes as the first ones of it:
    /// others can be appended. `None`, and nothing is allocated, where extents are only written whole, or that much
    /// space is not free in one place.
    fn begin(&self, class: u8, blocks: u32, bytes: &[u8]) -> Result<Option<Extent>>;

    /// Where bytes can be appended to an extent; `None` if none can.
    fn tail(&self, extent: Extent) -> Option<usize>;

    /// Appends bytes to an extent at its tail. They are durable after the next sync of the vdevs.
    fn append(&self, extent: Extent, at: usize, bytes: &[u8]) -> Result<()>;

    /// Reads bytes of an extent, from `at` on: the first replica whose bytes pass `check`. A replica whose bytes do not is
    /// repaired. An error names `what` was read.
    fn read(
        &self,
        what: &'static str,
        extent: Extent,
        at: usize,
        to: &mut [u8],
        check: &dyn Fn(&[u8]) -> bool,
    ) -> Result<()>;

    /// Begins to read bytes of an extent, as [`Self::read`] does. `None` where they had better be read when they are
    /// needed.
    fn begin_read(
        &self,
        _what: &'static str,
        _extent: Extent,
        _span: Range<usize>,
        _check: Check,
    ) -> Option<PendingRead> {
        None
    }

    /// The most bytes of an extent: of one with parity, those with which the parity is not too long.
    fn extent_bytes_max(&self) -> usize {
        EXTENT_BYTES_MAX
    }

    /// Bytes that an extent may have now, preferably of a class: fewer than the most where free space is in short runs.
    fn extent_bytes(&self, _: u8) -> usize {
        self.extent_bytes_max()
    }

    /// The bytes in place, where the extent lies in persistent memory; they are not checked.
    fn pin(&self, extent: Extent, at: usize, len: usize) -> Option<Pinned>;
}
