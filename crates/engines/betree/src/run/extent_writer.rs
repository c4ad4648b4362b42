//! The extents of a run while it is written: each is filled in memory, and written once.
//!
//! An extent that is written whole has zeros behind the run's bytes, up to its last block's end. Where extents are
//! written in steps, the run goes behind the one before it, if there is room for a part, and its last extent gets spare
//! room: a step is a multiple of a line, so no line is written twice.

use halite_codec::Seed;
use halite_vdev::BLOCK;
use smallvec::SmallVec;

use super::pointer::{STEP, seed_at};
use super::writer_options::{RunOptions, RunPlace};
use crate::Result;
use crate::message::byte_len;
use crate::storage::{Extent, Extents};

/// Fills extents.
pub(super) struct ExtentWriter<'a> {
    extents: &'a dyn Extents,
    /// All extents that were written, the ones of other runs among them.
    written: &'a mut Vec<Extent>,
    of_run: SmallVec<[Extent; 2]>,
    class: u8,
    small: (usize, u8),
    seed: Seed,
    birth: u64,
    /// Bytes that an extent has at most, and that the one which is being filled has.
    limit_max: usize,
    limit: usize,
    placement: RunPlace,
    /// The bytes of the extent that is not yet full.
    pending: Vec<u8>,
    /// Where they begin in it: behind another run, or 0.
    base: usize,
    /// The extent, if it is another run's.
    shared: Option<Extent>,
    /// Whether an extent was written in steps, and where the run begins in its first one.
    is_in_steps: bool,
    first_base: u32,
}

/// The extents of a run that is written, and where it begins in the first one.
pub(super) struct Written {
    pub(super) extents: SmallVec<[Extent; 2]>,
    pub(super) base: Option<u32>,
    /// The buffer, for the next run.
    pub(super) pending: Vec<u8>,
}

impl<'a> ExtentWriter<'a> {
    pub(super) fn new(
        extents: &'a dyn Extents,
        written: &'a mut Vec<Extent>,
        options: &RunOptions,
        placement: RunPlace,
        pending: Vec<u8>,
    ) -> Self {
        let &RunOptions { class, small, seed, birth, part_bytes, .. } = options;
        let limit_max = extents.extent_bytes_max();
        let mut writer = Self {
            extents,
            written,
            of_run: SmallVec::new(),
            class,
            small,
            seed,
            birth,
            limit_max,
            limit: extents.extent_bytes(class).min(limit_max),
            placement,
            pending,
            base: 0,
            shared: None,
            is_in_steps: false,
            first_base: 0,
        };
        if let RunPlace::InSteps { behind: Some((extent, at)), .. } = placement
            && extents.tail(extent) == Some(at)
            && extent.address.class() == class
            && byte_len(extent) - at >= part_bytes
        {
            (writer.base, writer.shared) = (at, Some(extent));
        }
        writer
    }

    /// Lets extents that are not yet written go to a class, and the run to another one if it is small.
    pub(super) fn prefer(&mut self, class: u8, of_small: u8) {
        (self.class, self.small.1) = (class, of_small);
        let limit = self.extents.extent_bytes(class).min(self.limit_max);
        self.limit = limit.max(self.pending.len());
    }

    /// Lets extents be shorter.
    #[cfg(test)]
    pub(super) fn limit(&mut self, blocks: usize) {
        (self.limit_max, self.limit) = (blocks * BLOCK, blocks * BLOCK);
    }

    /// Bytes for which the extent that is being filled has room.
    fn room(&self) -> usize {
        self.shared.map_or(self.limit, byte_len) - self.base - self.pending.len()
    }

    /// Appends a part to the extent, or to the next one. Returns the extent's number in the run, the part's offset, and
    /// its checksum.
    pub(super) fn append(&mut self, stored: &[u8]) -> Result<(u32, u32, u64)> {
        assert!(stored.len() <= self.limit_max, "a part fits into an extent");
        if stored.len() > self.room() {
            self.end_extent(false)?;
            // A part lies in one piece, also where there is no room for that.
            self.limit = self.limit.max(stored.len());
        }
        Ok(self.put(stored))
    }

    /// Appends the directory, to the extent if it fits there, or else to as many of its own as it needs, and writes
    /// what is left. Returns where it begins, and the checksum of its bytes in each extent.
    pub(super) fn end(&mut self, directory: &[u8]) -> Result<(u32, u32, SmallVec<[u64; 1]>)> {
        if directory.len() > self.room() {
            self.end_extent(false)?;
        }
        let (extent, at) = (self.of_run.len() as u32, (self.base + self.pending.len()) as u32);
        if extent == 0 && self.pending.len() + directory.len() < self.small.0 {
            self.class = self.small.1;
        }
        let mut checksums = SmallVec::new();
        let mut rest = directory;
        while let Some((piece, behind)) =
            (!rest.is_empty()).then(|| rest.split_at(rest.len().min(self.room())))
        {
            rest = behind;
            checksums.push(self.put(piece).2);
            self.end_extent(rest.is_empty())?;
        }
        Ok((extent, at, checksums))
    }

    /// The extents of the run, when they are written.
    pub(super) fn finish(self) -> Written {
        let base = self.is_in_steps.then_some(self.first_base);
        Written { extents: self.of_run, base, pending: self.pending }
    }

    fn put(&mut self, bytes: &[u8]) -> (u32, u32, u64) {
        let (extent, at) = (self.of_run.len(), self.base + self.pending.len());
        self.pending.extend_from_slice(bytes);
        let checksum = seed_at(self.seed, self.birth, extent, at).checksum(bytes);
        (extent as u32, at as u32, checksum)
    }

    /// Writes the extent, or the run's part of it, and begins the next one.
    fn end_extent(&mut self, is_last: bool) -> Result<()> {
        let at = std::mem::take(&mut self.base);
        match self.shared.take() {
            // The run has no byte in it after all.
            Some(_) if self.pending.is_empty() => return Ok(()),
            Some(extent) => {
                self.pending.resize(self.pending.len().next_multiple_of(STEP), 0);
                self.extents.append(extent, at, &self.pending)?;
                (self.is_in_steps, self.first_base) = (true, at as u32);
                self.of_run.push(extent);
            }
            None if self.pending.is_empty() => return Ok(()),
            None => {
                let extent = self.write_new(is_last)?;
                self.written.push(extent);
                self.of_run.push(extent);
            }
        }
        self.pending.clear();
        self.limit = self.extents.extent_bytes(self.class).min(self.limit_max);
        Ok(())
    }

    /// Writes an extent of the run's own.
    fn write_new(&mut self, is_last: bool) -> Result<Extent> {
        let blocks = self.pending.len().div_ceil(BLOCK);
        if let RunPlace::InSteps { spare, .. } = self.placement {
            let spare = if is_last { spare } else { 0 };
            let blocks = blocks.max(spare.min(self.limit) / BLOCK) as u32;
            let len = self.pending.len();
            self.pending.resize(len.next_multiple_of(STEP), 0);
            if let Some(extent) = self.extents.begin(self.class, blocks, &self.pending)? {
                self.is_in_steps = true;
                return Ok(extent);
            }
        }
        self.pending.resize(blocks * BLOCK, 0);
        let extent = self.extents.write(self.class, &self.pending)?;
        assert_eq!(extent.blocks as usize, blocks, "the bytes' blocks");
        Ok(extent)
    }
}
