//! The segments of the data device, each claimed from the pool once: its blocks of records and pieces of values are
//! parcels of it, which partitions take without meeting each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_alloc::Device;
use halite_contract::Result;
use halite_pmem::{Fresh, Parcel, Parcels};
use halite_sim::locks::RwLock;

use super::split::{UNIT, UNITS};
use crate::{BLOCK, BLOCKS_PER_SEGMENT};

/// Units of a segment.
const SEGMENT_UNITS: u64 = UNITS * BLOCKS_PER_SEGMENT as u64;

/// The segment of a piece's place, and where in it the piece begins, in bytes.
pub(crate) fn in_segment(place: u64) -> (u32, u64) {
    ((place / SEGMENT_UNITS) as u32, place % SEGMENT_UNITS * UNIT)
}

/// The data device of a partition, and those of its segments that were carved.
pub(crate) struct Carving {
    device: Device,
    /// A lock of the partition's own. A segment is claimed when its first parcel is taken.
    segments: RwLock<BTreeMap<u32, Arc<Parcels>>>,
}

impl Carving {
    pub(crate) fn new(device: Device) -> Self {
        Self { device, segments: RwLock::default() }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The parcels of a segment.
    pub(crate) fn segment(&self, segment: u32) -> Result<Arc<Parcels>> {
        if let Some(parcels) = self.segments.read().get(&segment) {
            return Ok(Arc::clone(parcels));
        }
        let mut segments = self.segments.write();
        if let Some(parcels) = segments.get(&segment) {
            return Ok(Arc::clone(parcels));
        }
        let parcels = self.device.claim_parcels(segment)?;
        segments.insert(segment, Arc::clone(&parcels));
        Ok(parcels)
    }

    /// Takes a block.
    pub(crate) fn block(&self, block: u32) -> Result<Fresh> {
        let parcels = self.segment(block / BLOCKS_PER_SEGMENT)?;
        let at = u64::from(block % BLOCKS_PER_SEGMENT) * BLOCK;
        Ok(parcels.take(at, BLOCK)?.into_fresh())
    }

    /// Takes the place of a piece of so many bytes.
    pub(crate) fn piece(&self, place: u64, len: u64) -> Result<Parcel> {
        let (segment, at) = in_segment(place);
        Ok(self.segment(segment)?.take(at, len)?)
    }

    /// Frees the piece at a place, if one is kept there and no reader pins it. Returns whether it did.
    pub(crate) fn reclaim(&self, place: u64) -> bool {
        let (segment, at) = in_segment(place);
        self.segments.read().get(&segment).is_some_and(|parcels| parcels.reclaim(at))
    }

    /// Lets go of a segment in which no parcel is taken, so that it can be given back to the pool. Returns whether
    /// there is none.
    pub(crate) fn end(&self, segment: u32) -> bool {
        let mut segments = self.segments.write();
        let ended = segments.get(&segment).is_none_or(|parcels| parcels.end());
        if ended {
            segments.remove(&segment);
        }
        ended
    }
}
