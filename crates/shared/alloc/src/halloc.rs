//! Allocation of any size in a pool: Halloc (Yan §3.4).
//!
//! A request of up to [`LEN_MAX`] bytes walks to the [`ObjectPool`] of its size class. A larger one, or one
//! for data that is appended and released together, walks to the [`CommittedZonePool`]. Each class has a device of
//! its own, so that pools share no segment.
//!
//! There are four classes to a doubling. Powers of two alone would waste up to half of an object, a quarter
//! in the mean; here it is a fifth at most (of 256 bytes and up; below, the padding to whole lines). The
//! price is segments that are not full: one of 2 MiB for each class in use, of which there are [`CLASSES`],
//! so 54 MiB at most, and a pool of a gigabyte gains more than that by the tighter fit.

use std::sync::Arc;

use halite_pmem::Fresh;

use crate::{CommittedZonePool, Object, ObjectPool, Result, ScratchPool, Segments};

/// Bytes of the objects of each class.
const LENS: [u64; CLASSES] = [
    128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072,
    3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384,
];

/// How many size classes there are.
pub const CLASSES: usize = 27;

/// The longest allocation, in bytes; longer ones are for zones.
pub const LEN_MAX: u64 = LENS[CLASSES - 1];

/// How many devices an allocator has.
pub const HALLOC_DEVICES: u16 = CLASSES as u16 + 2;

/// Where an allocation is, as it is stored: the class in the upper 8 bits, the object's index in the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

/// Allocations of any size, to be shared by threads.
pub struct Halloc {
    pools: Vec<ObjectPool>,
    zones: CommittedZonePool,
    scratch: ScratchPool,
}

impl Halloc {
    /// Opens the allocator in the [`HALLOC_DEVICES`] devices from `first` on, which have no other user.
    /// Objects that were not committed are free.
    ///
    /// # Errors
    /// As [`ObjectPool::open`] and [`ScratchPool::new`].
    ///
    /// # Panics
    /// If there are not so many devices.
    pub fn open(segments: &Arc<Segments>, first: u16) -> Result<Self> {
        let pools =
            (first..).zip(LENS).map(|(id, len)| ObjectPool::open(&segments.device(id), len));
        let pools = pools.collect::<Result<_>>()?;
        let zones = CommittedZonePool::new(&segments.device(first + CLASSES as u16));
        let scratch = ScratchPool::new(&segments.device(first + CLASSES as u16 + 1))?;
        Ok(Self { pools, zones, scratch })
    }

    /// Gets an object of at least `len` bytes; `None` if that is more than [`LEN_MAX`].
    ///
    /// # Errors
    /// As [`ObjectPool::get`].
    pub fn get(&self, len: u64) -> Result<Option<Allocation<'_>>> {
        let class = LENS.partition_point(|&class_len| class_len < len);
        let Some(pool) = self.pools.get(class) else { return Ok(None) };
        let object = pool.get()?;
        Ok(Some(Allocation { address: Address((class as u64) << 56 | object.index()), object }))
    }

    /// Whether there is an allocation at `address`, which may be any number.
    ///
    /// # Errors
    /// As [`ObjectPool::check`].
    pub fn check(&self, address: Address) -> Result<bool> {
        let (class, index) = address.split();
        self.pools.get(class).map_or(Ok(false), |pool| pool.check(index))
    }

    /// Claims the bytes of an allocation.
    ///
    /// # Errors
    /// As [`ObjectPool::claim`].
    pub fn claim(&self, address: Address) -> Result<Fresh> {
        let (class, index) = address.split();
        self.pool(class).claim(index)
    }

    /// Releases an allocation, durably. One flush, one fence.
    ///
    /// # Errors
    /// As [`ObjectPool::release`].
    pub fn release(&self, address: Address) -> Result<()> {
        let (class, index) = address.split();
        self.pool(class).release(index)
    }

    /// All allocations, ascending.
    ///
    /// # Errors
    /// As [`ObjectPool::check`].
    pub fn committed(&self) -> Result<Vec<Address>> {
        let mut all = Vec::new();
        for (class, pool) in (0_u64..).zip(&self.pools) {
            let committed = pool.committed()?.into_iter();
            all.extend(committed.map(|index| Address(class << 56 | index)));
        }
        Ok(all)
    }

    /// The zones.
    #[must_use]
    pub fn zones(&self) -> &CommittedZonePool {
        &self.zones
    }

    /// Volatile memory.
    #[must_use]
    pub fn scratch(&self) -> &ScratchPool {
        &self.scratch
    }

    /// The pool of a class. An address with an unknown class is looked up in the last pool, which has no
    /// such object and returns the error.
    fn pool(&self, class: usize) -> &ObjectPool {
        &self.pools[class.min(CLASSES - 1)]
    }
}

impl Address {
    /// The class and the index. An unknown class gets an index that no object has.
    fn split(self) -> (usize, u64) {
        let class = (self.0 >> 56) as usize;
        let index = self.0 & u64::MAX >> 8;
        (class, if class < CLASSES { index } else { u64::MAX })
    }
}

/// An allocation that is not committed yet. If it is dropped, it never happened.
#[must_use = "an allocation that is not committed is free again"]
pub struct Allocation<'a> {
    address: Address,
    object: Object<'a>,
}

impl Allocation<'_> {
    /// Returns the object's address.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns the object's bytes.
    pub fn bytes(&mut self) -> &mut Fresh {
        &mut self.object
    }

    /// Commits as [`Object::commit`] does.
    ///
    /// # Errors
    /// As [`Object::commit`].
    pub fn commit(self) -> Result<Fresh> {
        self.object.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_class_wastes_more_than_a_fifth() {
        assert!(LENS.is_sorted() && LENS.iter().all(|len| len.is_multiple_of(64)));
        for pair in LENS.windows(2).filter(|pair| pair[0] >= 256) {
            let least = pair[0] + 1;
            assert!((pair[1] - least) as f64 / (pair[1] as f64) < 0.2 + 1e-9, "{pair:?}");
        }
    }

    #[test]
    fn an_address_of_no_class_is_of_no_object() {
        assert_eq!(Address(2 << 56 | 5).split(), (2, 5));
        assert_eq!(Address(u64::MAX).split(), (255, u64::MAX));
    }
}
