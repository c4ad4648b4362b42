//! A leaf in a file, past the page cache where the file system allows that.
//!
//! The file grows in steps, by preallocation: a write inside it finds its room. After a crash the file may be as short
//! as at its last sync; no durable pointer leads behind that.

use halite_disk::{Access, Disk, PositionedFile};
use halite_pmem::Pinned;
use halite_sim::Site;
use halite_sim::locks::Mutex;

use super::{LABEL_AREA, Leaf, check, check_label};
use crate::{BLOCK, Error, Extent, LeafLabels, Result};

/// A file of a [`Disk`].
pub struct FileLeaf {
    name: String,
    file: PositionedFile,
    blocks_max: u64,
    /// Blocks by which the file grows.
    step: u64,
    growing: Mutex<()>,
}

impl FileLeaf {
    /// Makes the file, with an empty label area, durably. It has no blocks, may have `blocks_max`, and grows by `step`.
    ///
    /// # Errors
    /// [`halite_disk::Error::Exists`], [`Error::NoSpace`]; those of the disk.
    pub fn create(disk: &Disk, name: &str, blocks_max: u64, step: u64) -> Result<Self> {
        let file = disk.create_positioned(name, Access::Direct)?;
        let leaf = Self::new(file, blocks_max, step);
        leaf.lay_labels()?;
        disk.sync()?;
        Ok(leaf)
    }

    /// Opens the file. Its labels are made durable as they are found: a killed process may not have synced them, and a
    /// power cut after this opening could take them back. A file that is too short for labels, as a crash while it was
    /// made leaves it, gets empty ones.
    ///
    /// # Errors
    /// [`halite_disk::Error::Missing`], [`Error::NoSpace`]; those of the disk.
    pub fn open(disk: &Disk, name: &str, blocks_max: u64, step: u64) -> Result<Self> {
        let file = disk.open_positioned(name, Access::Direct)?;
        let leaf = Self::new(file, blocks_max, step);
        if leaf.file.len() < LABEL_AREA as u64 {
            leaf.lay_labels()?;
            disk.sync()?;
        } else {
            leaf.file.rewrite(0..LABEL_AREA as u64)?;
            leaf.file.sync()?;
        }
        Ok(leaf)
    }

    /// The labels of a file, of which nothing is changed: it may be no leaf, or one of another pool.
    ///
    /// # Errors
    /// [`halite_disk::Error::Missing`]; those of the disk.
    pub fn peek(disk: &Disk, name: &str) -> Result<LeafLabels> {
        let file = disk.open_positioned(name, Access::Direct)?;
        Ok(crate::label::read_labels(&Self::new(file, u64::MAX, 1)))
    }

    fn new(file: PositionedFile, blocks_max: u64, step: u64) -> Self {
        // Beyond this, a byte has no place in a file.
        const BLOCKS_MAX: u64 = (i64::MAX as u64 - LABEL_AREA as u64) / BLOCK as u64;
        assert!(step > 0, "a file grows by some blocks");
        Self {
            name: format!("file:{}", file.path().display()),
            file,
            blocks_max: blocks_max.min(BLOCKS_MAX),
            step,
            growing: Mutex::default(),
        }
    }

    /// Makes the label area empty.
    fn lay_labels(&self) -> Result<()> {
        let empty = self
            .file
            .preallocate(LABEL_AREA as u64)
            .and_then(|()| self.file.write_zeros(0..LABEL_AREA as u64))
            .and_then(|()| self.file.sync());
        empty.map_err(|error| self.no_space(0, error))
    }

    fn no_space(&self, blocks: u64, error: halite_disk::Error) -> Error {
        match error {
            halite_disk::Error::NoSpace { .. } => {
                Error::NoSpace { leaf: self.name.clone(), blocks, why: "its device is full".into() }
            }
            error => error.into(),
        }
    }

    /// Where a byte of a run is in the file.
    fn place(run: Extent, at: usize) -> u64 {
        LABEL_AREA as u64 + run.block * BLOCK as u64 + at as u64
    }

    /// The own bytes of the block in which byte `at` of a run is, if they can be read.
    fn own_block(&self, run: Extent, at: usize) -> Option<Vec<u8>> {
        let mut block = vec![0; BLOCK];
        self.file.read_at(Self::place(run, at / BLOCK * BLOCK), &mut block).ok()?;
        Some(block)
    }
}

impl Leaf for FileLeaf {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_memory(&self) -> bool {
        false
    }

    fn blocks(&self) -> u64 {
        let len = self.file.len().saturating_sub(LABEL_AREA as u64);
        (len / BLOCK as u64).min(self.blocks_max)
    }

    fn blocks_max(&self) -> u64 {
        self.blocks_max
    }

    fn grow_to(&self, blocks: u64) -> Result<()> {
        let _growing = self.growing.lock();
        if blocks <= self.blocks() {
            return Ok(());
        }
        if blocks > self.blocks_max {
            let why = format!("its capacity is {} blocks", self.blocks_max);
            return Err(Error::NoSpace { leaf: self.name.clone(), blocks, why });
        }
        let bytes = |blocks: u64| LABEL_AREA as u64 + blocks * BLOCK as u64;
        let whole_steps = blocks.div_ceil(self.step).saturating_mul(self.step).min(self.blocks_max);
        let grown = match self.file.preallocate(bytes(whole_steps)) {
            // There may be room for less than a step.
            Err(halite_disk::Error::NoSpace { .. }) if whole_steps > blocks => {
                self.file.preallocate(bytes(blocks))
            }
            grown => grown,
        };
        grown.map_err(|error| self.no_space(blocks, error))
    }

    fn write(&self, run: Extent, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len(), run.byte_len(), "a run is written whole");
        check(self, run, 0, bytes.len())?;
        Ok(self.file.write_at(Self::place(run, 0), bytes)?)
    }

    fn read(&self, run: Extent, at: usize, to: &mut [u8]) -> Result<()> {
        check(self, run, at, to.len())?;
        Ok(self.file.read_at(Self::place(run, at), to)?)
    }

    fn patch(&self, run: Extent, at: usize, bytes: &[u8]) -> Result<bool> {
        check(self, run, at, bytes.len())?;
        let end = at + bytes.len();
        // The first and the last block may be patched in part: their other bytes are this leaf's own, never another
        // replica's, which no read has checked.
        let (mut patched, mut from, mut is_whole) =
            (Vec::with_capacity(bytes.len() + 2 * BLOCK), at, true);
        if !at.is_multiple_of(BLOCK) {
            if let Some(block) = self.own_block(run, at) {
                patched.extend_from_slice(&block[..at % BLOCK]);
            } else {
                is_whole = false;
                from = at.next_multiple_of(BLOCK).min(end);
            }
        }
        let mut to = end;
        let mut behind = Vec::new();
        if from < end && !end.is_multiple_of(BLOCK) {
            if let Some(mut block) = self.own_block(run, end) {
                behind = block.split_off(end % BLOCK);
            } else {
                is_whole = false;
                to = end / BLOCK * BLOCK;
            }
        }
        if from < to {
            patched.extend_from_slice(&bytes[from - at..to - at]);
            patched.extend_from_slice(&behind);
            self.file.write_at(Self::place(run, from / BLOCK * BLOCK), &patched)?;
        }
        Ok(is_whole)
    }

    fn adopt(&self, _: Extent) -> Result<()> {
        Ok(())
    }

    fn free(&self, _: Extent) -> bool {
        true
    }

    fn pin(&self, _: Extent, _: usize, _: usize) -> Result<Option<Pinned>> {
        Ok(None)
    }

    fn sync(&self, site: Site) -> Result<()> {
        Ok(self.file.sync_for(site)?)
    }

    fn read_label(&self, at: usize, to: &mut [u8]) -> Result<()> {
        check_label(at, to.len());
        Ok(self.file.read_at(at as u64, to)?)
    }

    fn write_label(&self, at: usize, bytes: &[u8]) -> Result<()> {
        check_label(at, bytes.len());
        Ok(self.file.write_at(at as u64, bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;

    #[test]
    fn a_full_device_is_named_and_leaves_the_leaf_usable() {
        // Room for the labels and 20 blocks.
        let disk = Disk::in_memory_up_to((LABEL_AREA + 20 * BLOCK) as u64);
        let leaf = FileLeaf::create(&disk, "leaf", u64::MAX, 16).unwrap();
        leaf.grow_to(1).unwrap();
        assert_eq!(leaf.blocks(), 16, "a whole step");
        leaf.grow_to(18).unwrap();
        assert_eq!(leaf.blocks(), 18, "less than a step, as there is no more");
        assert!(matches!(leaf.grow_to(40), Err(Error::NoSpace { blocks: 40, .. })));
        leaf.write(Extent { block: 17, blocks: 1 }, &[7; BLOCK]).unwrap();
        leaf.sync(Location::caller()).unwrap();
        drop(leaf);
        let leaf = FileLeaf::open(&disk, "leaf", u64::MAX, 16).unwrap();
        assert_eq!(leaf.blocks(), 18);
        let mut to = [0; 8];
        leaf.read(Extent { block: 17, blocks: 1 }, 4000, &mut to).unwrap();
        assert_eq!(to, [7; 8]);
    }

    #[test]
    fn a_file_of_a_folder_is_written_directly_and_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::folder(folder.path(), false).unwrap();
        let run = Extent { block: 3, blocks: 2 };
        let leaf = FileLeaf::create(&disk, "leaf", 1 << 20, 16).unwrap();
        leaf.grow_to(5).unwrap();
        leaf.write(run, &[9; 2 * BLOCK]).unwrap();
        assert!(leaf.patch(run, 5, &[1; BLOCK]).unwrap());
        leaf.write_label(8192, &[8; 8192]).unwrap();
        leaf.sync(Location::caller()).unwrap();
        drop(leaf);
        let leaf = FileLeaf::open(&disk, "leaf", 1 << 20, 16).unwrap();
        assert_eq!(leaf.blocks(), 16);
        let mut to = vec![0; 2 * BLOCK];
        leaf.read(run, 0, &mut to).unwrap();
        let expected: Vec<u8> =
            (0..2 * BLOCK).map(|at| if (5..5 + BLOCK).contains(&at) { 1 } else { 9 }).collect();
        assert!(to == expected);
        leaf.read_label(8190, &mut to[..4]).unwrap();
        assert_eq!(to[..4], [0, 0, 8, 8]);
    }

    #[test]
    fn a_file_without_labels_gets_empty_ones_when_it_is_opened_and_not_when_it_is_looked_at() {
        let disk = Disk::in_memory();
        disk.create_positioned("leaf", Access::Direct).unwrap().preallocate(4096).unwrap();
        let found = FileLeaf::peek(&disk, "leaf").unwrap();
        assert!(found.labels.is_empty() && !found.invalid.is_empty());
        assert_eq!(disk.open("leaf").unwrap().len(), 4096);
        let leaf = FileLeaf::open(&disk, "leaf", 100, 16).unwrap();
        let mut label = vec![1; LABEL_AREA];
        leaf.read_label(0, &mut label).unwrap();
        assert!(label.iter().all(|&byte| byte == 0) && leaf.blocks() == 0);
    }
}
