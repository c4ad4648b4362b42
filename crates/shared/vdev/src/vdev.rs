//! A vdev: leaves that hold the same extents, with the redundancy that their arrangement gives.

use std::panic::Location;
use std::sync::Arc;

use halite_pmem::Pinned;

use crate::member::{Member, Standing};
use crate::members::Members;
use crate::parity::{self, Geometry};
use crate::{
    Arrangement, EXTENT_BLOCKS_MAX, Error, Extent, Leaf, Result, ScrubMemory, ScrubResult, mirror,
};

/// The part of an extent that a leaf holds, unchecked: for diagnosis.
#[derive(Debug)]
pub struct RawPart {
    /// The leaf.
    pub leaf: String,
    /// The whole extent, or a column of it; nothing if the extent has no block on this leaf.
    pub bytes: Option<Result<Vec<u8>>>,
}

/// Leaves that hold extents together. All calls may come from any thread.
///
/// The caller allocates: it does not write an extent over another one that is in use, and it frees or rewrites none
/// that a reader may still have. A read repairs what it finds damaged, so a read of an extent that was freed and
/// written anew meanwhile could put old bytes over new ones.
pub struct Vdev {
    arrangement: Arrangement,
    pub(crate) members: Members,
}

impl Vdev {
    /// Leaves in their order; `None` stands for one whose device is not there.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are too few or too many, [`Error::TooFewLeaves`] if too many are not there.
    pub fn new(arrangement: Arrangement, leaves: Vec<Option<Arc<dyn Leaf>>>) -> Result<Self> {
        if let Some(why) = arrangement.defect(leaves.len()) {
            return Err(Error::Shape { why });
        }
        let missing = leaves.iter().filter(|leaf| leaf.is_none()).count();
        let redundancy = match arrangement {
            Arrangement::Single | Arrangement::Mirror => leaves.len() - 1,
            Arrangement::Parity(parity) => usize::from(parity),
        };
        if missing > redundancy {
            let failed = vec![format!("{missing} of {} have no device", leaves.len())];
            return Err(Error::TooFewLeaves { action: "open a vdev", failed });
        }
        Ok(Self { arrangement, members: Members::new(leaves, redundancy) })
    }

    /// A leaf alone.
    #[must_use]
    pub fn single(leaf: Arc<dyn Leaf>) -> Self {
        let members = Members::new(vec![Some(leaf)], 0);
        Self { arrangement: Arrangement::Single, members }
    }

    /// How the leaves share the data.
    #[must_use]
    pub fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    fn geometry(&self) -> Option<Geometry> {
        match self.arrangement {
            Arrangement::Single | Arrangement::Mirror => None,
            Arrangement::Parity(parity) => {
                Some(Geometry { leaves: self.members.len() as u64, parity: parity.into() })
            }
        }
    }

    /// The blocks of the address space that an extent of so many data blocks takes, from its first one on.
    #[must_use]
    pub fn actual_blocks(&self, data_blocks: u32) -> u32 {
        self.geometry().map_or(data_blocks, |geometry| geometry.taken(data_blocks))
    }

    /// The most data blocks that an extent may have here: [`EXTENT_BLOCKS_MAX`], but less where the parity of so many
    /// would cross a segment.
    #[must_use]
    pub fn data_blocks_max(&self) -> u32 {
        self.geometry().map_or(EXTENT_BLOCKS_MAX, Geometry::data_blocks_max)
    }

    /// Whether all leaves that are there are as fast as memory.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        self.members.iter().filter_map(Member::device).all(|leaf| leaf.is_memory())
    }

    /// Blocks of the address space for each block of a leaf.
    fn width(&self) -> u64 {
        self.geometry().map_or(1, |geometry| geometry.leaves)
    }

    /// Blocks of the address space that there are now.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.members.least(|leaf| leaf.blocks()).saturating_mul(self.width())
    }

    /// Blocks of the address space that there may be.
    #[must_use]
    pub fn capacity_max(&self) -> u64 {
        self.members.least(|leaf| leaf.blocks_max()).saturating_mul(self.width())
    }

    /// Grows the address space to so many blocks at least. Leaves that fail for another reason than lack of space are
    /// faulted if the others have enough.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::TooFewLeaves`]; that of the only leaf. The vdev is then as long as its shortest leaf.
    pub fn grow_to(&self, blocks: u64) -> Result<()> {
        let rows = blocks.div_ceil(self.width());
        let mut full = None;
        self.members.each("grow", |_, _, leaf| match leaf.grow_to(rows) {
            Err(error @ Error::NoSpace { .. }) => {
                full = Some(error);
                Ok(())
            }
            grown => grown,
        })?;
        full.map_or(Ok(()), Err)
    }

    fn check(&self, extent: Extent) -> Result<()> {
        let taken = self.actual_blocks(extent.blocks);
        match extent.defect(taken, self.blocks()) {
            Some(why) => {
                let vdev = self.to_string();
                Err(Error::OutOfBounds { vdev, extent, why })
            }
            None => Ok(()),
        }
    }

    /// Writes a whole extent, which is not in use. It is durable after the next [`Vdev::sync`].
    ///
    /// Leaves that fail are faulted if the others have enough; then the write succeeds.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::TooFewLeaves`]; that of the only leaf.
    ///
    /// # Panics
    /// If the bytes are not as many as the extent's.
    pub fn write(&self, extent: Extent, bytes: &[u8]) -> Result<()> {
        self.check(extent)?;
        assert_eq!(bytes.len(), extent.byte_len(), "an extent is written whole");
        match self.geometry() {
            None => mirror::write(&self.members, extent, bytes),
            Some(geometry) => parity::write(&self.members, geometry, extent, bytes),
        }
    }

    /// Appends bytes to an extent that is written in steps, from its byte `at` on, where the last step ended; 0 begins
    /// such an extent, which is not in use. They are durable after the next [`Vdev::sync`]. Returns whether it was done:
    /// only by a leaf on persistent memory that is alone, as long as it is open, because leaves with redundancy hold the
    /// same bytes only where an extent is written whole.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; that of the leaf.
    ///
    /// # Panics
    /// If the range is not inside the extent.
    pub fn append(&self, extent: Extent, at: usize, bytes: &[u8]) -> Result<bool> {
        self.check(extent)?;
        assert_inside(extent, at, bytes.len());
        match (self.arrangement, self.members.get(0).writable()) {
            (Arrangement::Single, Some(leaf)) => {
                self.members.get(0).append(&*leaf, extent, at, bytes)
            }
            _ => Ok(false),
        }
    }

    /// Whether an extent can be written in steps.
    #[must_use]
    pub fn appends(&self) -> bool {
        let leaf = self.members.get(0).writable();
        self.arrangement == Arrangement::Single && leaf.is_some_and(|leaf| leaf.appends())
    }

    /// Where the next step of an extent begins that is written in steps; `None` of another one.
    #[must_use]
    pub fn tail(&self, extent: Extent) -> Option<usize> {
        if self.arrangement != Arrangement::Single || self.check(extent).is_err() {
            return None;
        }
        self.members.get(0).writable()?.tail(extent)
    }

    /// Reads bytes of an extent from its byte `at` on, and has `check` tell whether they are right. If they are not, or
    /// a leaf fails, every other way to get them is tried, and bytes that pass are written over those that did not:
    /// durably after the next sync.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; [`Error::Damaged`] if no bytes pass. Then the contents of `to` are unspecified.
    ///
    /// # Panics
    /// If the range is not inside the extent.
    pub fn read(
        &self,
        extent: Extent,
        at: usize,
        to: &mut [u8],
        check: &dyn Fn(&[u8]) -> bool,
    ) -> Result<()> {
        self.check(extent)?;
        assert_inside(extent, at, to.len());
        match self.geometry() {
            None => mirror::read(&self.members, extent, at, to, check),
            Some(geometry) => parity::read(&self.members, geometry, extent, at, to, check),
        }
    }

    /// Bytes of an extent, readable in place, where a leaf on persistent memory has them and they were read or written
    /// before. They are not checked: if they turn out wrong, the caller drops the pin and reads.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    ///
    /// # Panics
    /// If the range is not inside the extent.
    pub fn pin(&self, extent: Extent, at: usize, len: usize) -> Result<Option<Pinned>> {
        self.check(extent)?;
        assert_inside(extent, at, len);
        match self.geometry() {
            None => mirror::pin(&self.members, extent, at, len),
            Some(_) => Ok(None),
        }
    }

    /// Gives up an extent. Returns whether that is done; if not, a reader has it pinned, and the caller tries again.
    /// Until it is done, no extent is written there.
    #[must_use]
    pub fn free(&self, extent: Extent) -> bool {
        if self.check(extent).is_err() {
            return true;
        }
        match self.geometry() {
            None => mirror::free(&self.members, extent),
            Some(geometry) => parity::free(&self.members, geometry, extent),
        }
    }

    /// Makes all writes that have returned durable. Leaves that fail are faulted if the others have enough.
    ///
    /// # Errors
    /// [`Error::TooFewLeaves`]; that of the only leaf.
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        let site = Location::caller();
        self.members.each("sync", |_, member, leaf| member.sync(leaf, site))
    }

    /// Bytes of an extent as each leaf has them.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn read_raw_all(&self, extent: Extent) -> Result<Vec<RawPart>> {
        self.check(extent)?;
        let parts = match self.geometry() {
            Some(geometry) => parity::read_raw(&self.members, geometry, extent),
            None => {
                let read = |member: &Member| {
                    let mut bytes = vec![0; extent.byte_len()];
                    Some(member.read(extent, 0, &mut bytes).map(|()| bytes))
                };
                self.members.iter().map(read).collect()
            }
        };
        let names = self.members.iter().map(|member| member.name());
        Ok(names.zip(parts).map(|(leaf, bytes)| RawPart { leaf, bytes }).collect())
    }

    /// Reads an extent with all its redundancy, and repairs what is wrong; `verify` tells whether all bytes of the
    /// extent are right. Leaves that are away or faulted are left out.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; [`Error::Damaged`] if the extent is lost.
    pub fn scrub(
        &self,
        extent: Extent,
        verify: &dyn Fn(&[u8]) -> bool,
        memory: &mut ScrubMemory,
    ) -> Result<ScrubResult> {
        self.check(extent)?;
        match self.geometry() {
            None => mirror::scrub(&self.members, extent, verify, memory),
            Some(geometry) => {
                let wanted = |standing| standing <= Standing::Stale;
                parity::heal(&self.members, geometry, extent, verify, wanted, false)
            }
        }
    }

    /// Writes an extent to the leaves that missed writes, whether they seem to have it or not: a read does not tell
    /// whether bytes are durable that were written before a sync failed. Returns whether one of them has a part of it.
    /// Once all extents were resilvered, and the vdev synced, the caller declares the leaf current
    /// ([`Vdev::set_current`]).
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]; [`Error::Damaged`] if the extent is lost; [`Error::BadLeaf`] if a leaf does not take it.
    pub fn resilver(
        &self,
        extent: Extent,
        verify: &dyn Fn(&[u8]) -> bool,
        memory: &mut ScrubMemory,
    ) -> Result<bool> {
        self.check(extent)?;
        let result = match self.geometry() {
            None => mirror::resilver(&self.members, extent, verify, memory)?,
            Some(geometry) => {
                let wanted = |standing| standing == Standing::Stale;
                parity::heal(&self.members, geometry, extent, verify, wanted, true)?
            }
        };
        let unrepaired = result.damaged.iter().find(|leaf| !result.repaired.contains(leaf));
        match unrepaired {
            Some(&leaf) => {
                let leaf = self.members.get(leaf).name();
                Err(Error::BadLeaf {
                    leaf,
                    why: format!("block {} cannot be resilvered", extent.block),
                })
            }
            None => Ok(!result.damaged.is_empty()),
        }
    }
}

impl std::fmt::Display for Vdev {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.arrangement != Arrangement::Single {
            write!(f, "{} ", self.arrangement)?;
        }
        let names: Vec<_> = self.members.iter().map(|member| member.name()).collect();
        f.write_str(&names.join(" "))
    }
}

fn assert_inside(extent: Extent, at: usize, len: usize) {
    let end = at.checked_add(len);
    assert!(end.is_some_and(|end| end <= extent.byte_len()), "a range is inside its extent");
}
