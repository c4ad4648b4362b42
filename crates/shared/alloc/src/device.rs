//! Logical devices.

use std::sync::Arc;

use halite_pmem::{Fresh, Parcels};

use crate::table::Owner;
use crate::{Error, Result, SEGMENT, Segments};

/// A logical device: an array of segments with holes. Physical places stay hidden behind it.
#[derive(Clone)]
pub struct Device {
    segments: Arc<Segments>,
    id: u16,
}

impl Device {
    pub(crate) fn new(segments: Arc<Segments>, id: u16) -> Self {
        Self { segments, id }
    }

    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// Whether there may be a segment for it: one is free, or the pool may still grow (the device may have less room).
    #[must_use]
    pub fn may_get(&self) -> bool {
        self.segments.available() > 0
    }

    /// The logical segments that exist, ascending.
    #[must_use]
    pub fn logical_segments(&self) -> Vec<u32> {
        self.segments.logical(self.id)
    }

    /// Gets a segment for the place `logical`, which has none. A crash forgets it until it is committed.
    /// Its contents are undefined.
    ///
    /// # Errors
    /// [`Error::Full`]; the pool's errors.
    ///
    /// # Panics
    /// If there is a segment at `logical`.
    pub fn get(&self, logical: u32) -> Result<Grant> {
        let owner = self.owner(logical);
        let segment = self.segments.take(owner)?;
        Ok(Grant { device: self.clone(), owner, segment, committed: false })
    }

    /// [`Device::get`] of a segment that is free already, if so many others stay free: the pool grows
    /// neither for it nor for the next request.
    ///
    /// # Panics
    /// If there is a segment at `logical`.
    #[must_use]
    pub fn get_spare(&self, logical: u32, others: u64) -> Option<Grant> {
        let owner = self.owner(logical);
        let segment = self.segments.take_spare(owner, others)?;
        Some(Grant { device: self.clone(), owner, segment, committed: false })
    }

    /// Releases the segment at `logical`, durably; there need not be one. One fence.
    ///
    /// # Errors
    /// The pool's errors.
    pub fn release(&self, logical: u32) -> Result<()> {
        self.segments.give_back(self.owner(logical), true)
    }

    /// Moves the segment at `from` to the place `to`, which has none, durably and failure-atomically. Its
    /// contents stay. One fence.
    ///
    /// # Errors
    /// The pool's errors; the next open then tells at which of the two places the segment is.
    ///
    /// # Panics
    /// If there is no segment at `from`, or one at `to`.
    pub fn renumber(&self, from: u32, to: u32) -> Result<()> {
        self.segments.change_owner(self.owner(from), self.owner(to))
    }

    /// Releases every segment that `keep` does not claim: one that was committed before a crash and never
    /// reached its owner. Returns how many there were.
    ///
    /// # Errors
    /// The pool's errors.
    pub fn retain(&self, mut keep: impl FnMut(u32) -> bool) -> Result<u64> {
        let mut released = 0;
        for logical in self.logical_segments() {
            if !keep(logical) {
                self.release(logical)?;
                released += 1;
            }
        }
        Ok(released)
    }

    /// Claims `at..at + len` of the segment at `logical`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if there is no such segment, or the range leaves it; [`Error::Pool`] if
    /// the range has an owner.
    pub fn claim(&self, logical: u32, at: u64, len: u64) -> Result<Fresh> {
        let pool = self.segments.pool();
        let segment = self.segments.physical(self.owner(logical));
        let inside = at.checked_add(len).is_some_and(|end| end <= SEGMENT);
        let Some(segment) = segment.filter(|_| inside) else {
            return Err(self.not_allocated(logical, at, len));
        };
        Ok(pool.claim(segment * SEGMENT + at, len)?)
    }

    /// Claims the segment at `logical` as a whole, to be carved into parcels.
    ///
    /// # Errors
    /// As [`Device::claim`].
    pub fn claim_parcels(&self, logical: u32) -> Result<Arc<Parcels>> {
        let pool = self.segments.pool();
        let Some(segment) = self.segments.physical(self.owner(logical)) else {
            return Err(self.not_allocated(logical, 0, SEGMENT));
        };
        Ok(pool.claim_parcels(segment * SEGMENT, SEGMENT)?)
    }

    fn not_allocated(&self, logical: u32, at: u64, len: u64) -> Error {
        Error::Damaged {
            path: self.segments.pool().path().to_owned(),
            what: format!("device {}, segment {logical}, bytes {at}..+{len}", self.id),
            why: "something refers to it, but it is not allocated".into(),
        }
    }

    fn owner(&self, logical: u32) -> Owner {
        Owner { device: self.id, logical }
    }
}

/// A segment that is not committed yet. If it is dropped, it was never allocated.
#[must_use = "a segment that is not committed is free again"]
pub struct Grant {
    device: Device,
    owner: Owner,
    segment: u64,
    committed: bool,
}

impl Grant {
    /// Claims `at..at + len` of the segment, to prepare it.
    ///
    /// # Errors
    /// [`Error::Pool`] if the range has an owner, or leaves the pool.
    pub fn claim(&self, at: u64, len: u64) -> Result<Fresh> {
        self.device.claim(self.owner.logical, at, len)
    }

    /// Makes the allocation durable. One flush, one fence.
    ///
    /// # Errors
    /// The pool's errors; the next open then tells whether the segment is allocated.
    pub fn commit(mut self) -> Result<()> {
        self.device.segments.commit(self.owner, self.segment)?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if !self.committed {
            // No durable word is changed here, so this cannot fail.
            let _ = self.device.segments.give_back(self.owner, false);
        }
    }
}
