//! Leaves: the devices of a vdev.
//!
//! ```text
//! ┌────────────────────┬──────────────────────────────── ─ ─ ┐
//! │ label area, 256 KiB│ data: blocks 0, 1, 2, ...           │ grows up to its capacity
//! └────────────────────┴──────────────────────────────── ─ ─ ┘
//! ```
//!
//! | leaf | write | sync | read |
//! |---|---|---|---|
//! | [`FileLeaf`] | 1 direct `pwrite` | 1 `fdatasync` | 1 direct `pread` |
//! | [`MemoryLeaf`] | 1 copy | nothing | 1 copy |
//! | [`PmemLeaf`] | 1 streaming copy, 1 fence | nothing; in an ordinary file, 1 sync | 1 copy, or none if pinned |
//!
//! A [`PmemLeaf`] also writes a run in steps ([`Leaf::append`]), each as a write of its bytes alone.
//!
//! On a leaf, an extent is a *run*: as many blocks as the leaf holds of the vdev's extent. A mirror's leaf holds all of
//! them, a leaf of a vdev with parity one column.

mod appended;
mod file;
mod memory;
mod pmem;

use halite_pmem::Pinned;
use halite_sim::Site;

pub use file::FileLeaf;
pub use memory::MemoryLeaf;
pub use pmem::PmemLeaf;

use crate::{BLOCK, Error, Extent, Result};

/// Bytes of a leaf's label area.
pub const LABEL_AREA: usize = 64 * BLOCK;

/// A device. All calls may come from any thread. An extent is not freed, and not written again, while a read of it goes
/// on: the layer above sees to that.
pub trait Leaf: Send + Sync {
    /// The kind and the place, as in a topology.
    fn name(&self) -> &str;

    /// Whether it is as fast as memory: a mirror reads such leaves before others.
    fn is_memory(&self) -> bool;

    /// Blocks of data that it has.
    fn blocks(&self) -> u64;

    /// Blocks of data that it may have.
    fn blocks_max(&self) -> u64;

    /// Grows to so many blocks at least. The new ones have undefined contents.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; those of the device.
    fn grow_to(&self, blocks: u64) -> Result<()>;

    /// Writes a run. It is durable after the next [`Leaf::sync`].
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Busy`]; those of the device.
    fn write(&self, run: Extent, bytes: &[u8]) -> Result<()>;

    /// Whether runs can be written in steps.
    fn appends(&self) -> bool {
        false
    }

    /// Appends bytes to a run that is written in steps, behind its byte `at`, where the last step ended; 0 begins such a
    /// run. They are durable after the next [`Leaf::sync`], and can be read and pinned at once; what is behind them
    /// reads as zeros. Returns whether it was done: not by a leaf that only writes whole runs, and not where the run was
    /// not begun since the leaf was opened, or ends elsewhere.
    ///
    /// # Errors
    /// As [`Leaf::write`].
    fn append(&self, run: Extent, at: usize, bytes: &[u8]) -> Result<bool> {
        let _ = (run, at, bytes);
        Ok(false)
    }

    /// Where the next step of a run begins that is written in steps; `None` of another one.
    fn tail(&self, run: Extent) -> Option<usize> {
        let _ = run;
        None
    }

    /// Reads bytes of a run from its byte `at` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Busy`]; those of the device.
    fn read(&self, run: Extent, at: usize, to: &mut [u8]) -> Result<()>;

    /// Replaces bytes of a run in place, to repair them. Bytes beside them stay as they are on this leaf. Returns
    /// whether all of them were replaced: bytes of a block of which the rest cannot be read are left alone, and none is
    /// replaced while a reader pins the run.
    ///
    /// # Errors
    /// As [`Leaf::write`].
    fn patch(&self, run: Extent, at: usize, bytes: &[u8]) -> Result<bool>;

    /// Takes note that a run that was found after opening holds an extent: its bytes passed their check.
    ///
    /// # Errors
    /// As [`Leaf::read`].
    fn adopt(&self, run: Extent) -> Result<()>;

    /// Gives up a run. Returns whether that is done: not while a reader pins it.
    fn free(&self, run: Extent) -> bool;

    /// Bytes of a run, readable in place, if the leaf has such.
    ///
    /// # Errors
    /// As [`Leaf::read`].
    fn pin(&self, run: Extent, at: usize, len: usize) -> Result<Option<Pinned>>;

    /// Makes all that was written before durable, labels as well, for a place in the code: `#[track_caller]` does not see
    /// through a `dyn Leaf`, and the lab leaves out the syncs of one place at a time.
    ///
    /// # Errors
    /// Those of the device: then the state of the bytes is unknown.
    fn sync(&self, site: Site) -> Result<()>;

    /// Reads bytes of the label area.
    ///
    /// # Errors
    /// Those of the device.
    fn read_label(&self, at: usize, to: &mut [u8]) -> Result<()>;

    /// Writes whole blocks of the label area. They are durable after the next [`Leaf::sync`].
    ///
    /// # Errors
    /// Those of the device.
    fn write_label(&self, at: usize, bytes: &[u8]) -> Result<()>;
}

/// Checks that bytes are of a run, and the run of the leaf.
fn check(leaf: &dyn Leaf, run: Extent, at: usize, len: usize) -> Result<()> {
    let defect = run.defect(run.blocks, leaf.blocks());
    match defect {
        Some(why) => Err(Error::OutOfBounds { vdev: leaf.name().to_owned(), extent: run, why }),
        None => {
            assert!(
                at.checked_add(len).is_some_and(|end| end <= run.byte_len()),
                "bytes are inside their run"
            );
            Ok(())
        }
    }
}

fn check_label(at: usize, len: usize) {
    assert!(at.checked_add(len).is_some_and(|end| end <= LABEL_AREA), "a label is in its area");
}

#[cfg(test)]
mod tests {
    use halite_alloc::Segments;
    use halite_disk::Disk;
    use halite_pmem::{Domain, PoolOptions};
    use proptest::prelude::*;
    use std::panic::Location;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;

    /// A leaf of each kind; persistent memory in two domains, as it has two ways to write.
    fn leaves() -> Vec<Arc<dyn Leaf>> {
        let pmem = |domain| {
            let mut options = PoolOptions::default();
            (options.assume_domain, options.in_memory) = (Some(domain), true);
            let segments = Segments::create(Path::new("pool"), &options).unwrap();
            PmemLeaf::create(Path::new("pool"), segments.device(7), 2048).unwrap()
        };
        vec![
            Arc::new(MemoryLeaf::new("64M", 2048)),
            Arc::new(FileLeaf::create(&Disk::in_memory(), "leaf", 2048, 16).unwrap()),
            Arc::new(pmem(Domain::Volatile)),
            Arc::new(pmem(Domain::PageCache)),
        ]
    }

    #[test]
    fn a_leaf_holds_runs_and_labels_apart() {
        for leaf in leaves() {
            assert!(matches!(
                leaf.write(Extent { block: 5000, blocks: 1 }, &[0; BLOCK]),
                Err(Error::OutOfBounds { .. })
            ));
            leaf.grow_to(700).unwrap();
            assert!(leaf.blocks() >= 700 && leaf.blocks_max() == 2048, "{}", leaf.name());
            assert!(matches!(leaf.grow_to(2049), Err(Error::NoSpace { .. })));
            let crossing = Extent { block: 511, blocks: 2 };
            let crossed = leaf.write(crossing, &[0; 2 * BLOCK]);
            assert!(matches!(crossed, Err(Error::OutOfBounds { .. })));
            leaf.write_label(LABEL_AREA - BLOCK, &[1; BLOCK]).unwrap();
            leaf.write(Extent { block: 0, blocks: 2 }, &[2; 2 * BLOCK]).unwrap();
            leaf.write(Extent { block: 2, blocks: 1 }, &[3; BLOCK]).unwrap();
            leaf.sync(Location::caller()).unwrap();
            let mut to = [0; 3];
            leaf.read(Extent { block: 0, blocks: 2 }, 2 * BLOCK - 3, &mut to).unwrap();
            assert_eq!(to, [2; 3]);
            leaf.read_label(LABEL_AREA - 3, &mut to).unwrap();
            assert_eq!(to, [1; 3]);
            assert!(leaf.free(Extent { block: 0, blocks: 2 }));
            leaf.write(Extent { block: 1, blocks: 1 }, &[4; BLOCK]).unwrap();
            leaf.sync(Location::caller()).unwrap();
            leaf.read(Extent { block: 1, blocks: 1 }, 0, &mut to).unwrap();
            assert_eq!(to, [4; 3]);
        }
    }

    #[test]
    fn a_run_that_is_written_in_steps_is_read_up_to_the_last_one_and_freed_when_no_reader_has_it() {
        for leaf in leaves() {
            leaf.grow_to(100).unwrap();
            let run = Extent { block: 8, blocks: 2 };
            assert_eq!(leaf.appends(), leaf.name().starts_with("pmem:"));
            if !leaf.appends() {
                assert!(!leaf.append(run, 0, &[1; 64]).unwrap() && leaf.tail(run).is_none());
                continue;
            }
            assert!(!leaf.append(run, 64, &[1; 64]).unwrap(), "it was not begun");
            assert!(leaf.append(run, 0, &[1; 64]).unwrap());
            assert!(matches!(leaf.append(run, 0, &[2; 64]), Err(Error::Busy { .. })));
            assert!(matches!(
                leaf.write(Extent { block: 9, blocks: 1 }, &[0; BLOCK]),
                Err(Error::Busy { .. })
            ));
            let pinned = leaf.pin(run, 0, 64).unwrap().unwrap();
            assert!(
                !leaf.append(run, 63, &[2; 64]).unwrap()
                    && !leaf.append(run, 65, &[2; 64]).unwrap()
            );
            assert_eq!(leaf.tail(run), Some(64));
            assert!(leaf.append(run, 64, &[2; 128]).unwrap());
            leaf.sync(Location::caller()).unwrap();
            assert!(leaf.pin(run, 128, 65).unwrap().is_none(), "it is not that long");
            let mut to = [9; 256];
            leaf.read(run, 0, &mut to).unwrap();
            assert_eq!(to[..], [&[1; 64][..], &[2; 128], &[0; 64]].concat());
            leaf.adopt(run).unwrap();
            assert!(!leaf.free(run), "it is pinned");
            drop(pinned);
            assert!(leaf.free(run) && leaf.tail(run).is_none());
            leaf.write(Extent { block: 9, blocks: 1 }, &[7; BLOCK]).unwrap();
            leaf.sync(Location::caller()).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_patch_changes_its_bytes_and_no_other(
            at in 0_usize..3 * BLOCK, len in 1_usize..3 * BLOCK, whole in any::<bool>(),
        ) {
            let len = len.min(3 * BLOCK - at);
            let (at, len) = if whole { (0, 3 * BLOCK) } else { (at, len) };
            let run = Extent { block: 8, blocks: 3 };
            for leaf in leaves() {
                leaf.grow_to(100).unwrap();
                let mut model: Vec<u8> = (0..run.byte_len()).map(|at| (at % 251) as u8).collect();
                leaf.write(run, &model).unwrap();
                leaf.sync(Location::caller()).unwrap();
                model[at..at + len].fill(255);
                prop_assert!(leaf.patch(run, at, &model[at..at + len]).unwrap());
                let mut now = vec![0; run.byte_len()];
                leaf.read(run, 0, &mut now).unwrap();
                prop_assert!(now == model);
            }
        }
    }
}
