//! The extents of a run while it is written: each is filled in memory, and written once, whole.

use halite_codec::Seed;
use halite_vdev::BLOCK;
use smallvec::SmallVec;

use super::pointer::seed_at;
use super::writer_options::RunOptions;
use crate::Result;
use crate::storage::{Extent, Extents};

/// Fills extents.
pub(super) struct ExtentWriter<'a> {
    extents: &'a dyn Extents,
    /// All extents that were written, of this run from `first` on.
    written: &'a mut Vec<Extent>,
    first: usize,
    class: u8,
    small: (usize, u8),
    seed: Seed,
    birth: u64,
    /// Bytes that an extent has at most.
    limit: usize,
    /// The bytes of the extent that is not yet full.
    pending: Vec<u8>,
}

impl<'a> ExtentWriter<'a> {
    pub(super) fn new(
        extents: &'a dyn Extents,
        written: &'a mut Vec<Extent>,
        options: &RunOptions,
    ) -> Self {
        let &RunOptions { class, small, seed, birth, .. } = options;
        let (first, limit) = (written.len(), extents.extent_bytes_max());
        Self { extents, written, first, class, small, seed, birth, limit, pending: Vec::new() }
    }

    /// Lets extents that are not yet written go to a class, and the run to another one if it is small.
    pub(super) fn prefer(&mut self, class: u8, of_small: u8) {
        (self.class, self.small.1) = (class, of_small);
    }

    /// Lets extents be shorter.
    #[cfg(test)]
    pub(super) fn limit(&mut self, blocks: usize) {
        self.limit = blocks * BLOCK;
    }

    /// The run's extents so far.
    pub(super) fn written(&self) -> &[Extent] {
        &self.written[self.first..]
    }

    /// Appends a part to the extent, or to the next one. Returns the extent's number in the run, the part's offset, and
    /// its checksum.
    pub(super) fn append(&mut self, stored: &[u8]) -> Result<(u32, u32, u64)> {
        assert!(stored.len() <= self.limit, "a part fits into an extent");
        if stored.len() > self.limit - self.pending.len() {
            self.write_pending()?;
        }
        Ok(self.put(stored))
    }

    /// Appends the directory, to the extent if it fits there, or else to as many of its own as it needs, and writes
    /// what is left. Returns where it begins, and the checksum of its bytes in each extent.
    pub(super) fn end(&mut self, directory: &[u8]) -> Result<(u32, u32, SmallVec<[u64; 1]>)> {
        let fits = directory.len() <= self.limit - self.pending.len();
        if !fits && !self.pending.is_empty() {
            self.write_pending()?;
        }
        let (extent, at) = (self.written().len() as u32, self.pending.len() as u32);
        if extent == 0 && self.pending.len() + directory.len() < self.small.0 {
            self.class = self.small.1;
        }
        let mut checksums = SmallVec::new();
        for piece in directory.chunks(self.limit) {
            checksums.push(self.put(piece).2);
            self.write_pending()?;
        }
        Ok((extent, at, checksums))
    }

    fn put(&mut self, bytes: &[u8]) -> (u32, u32, u64) {
        let (extent, at) = (self.written().len(), self.pending.len());
        self.pending.extend_from_slice(bytes);
        let checksum = seed_at(self.seed, self.birth, extent, at).checksum(bytes);
        (extent as u32, at as u32, checksum)
    }

    fn write_pending(&mut self) -> Result<()> {
        let extent = self.extents.write(self.class, &self.pending)?;
        assert_eq!(extent.blocks as usize, self.pending.len().div_ceil(BLOCK), "the bytes' blocks");
        self.written.push(extent);
        self.pending.clear();
        Ok(())
    }
}
