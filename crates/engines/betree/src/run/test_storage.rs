//! Extents in memory, whose bytes a test damages.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_pmem::{Parcels, Pinned, Pool, PoolOptions};
use halite_sim::locks::Mutex;
use halite_vdev::BLOCK;

use crate::storage::{Address, EXTENT_BYTES_MAX, Extent, Extents};
use crate::{Error, Result};

/// Bytes of the pool of a storage that is persistent memory.
const POOL: u64 = 64 << 20;

#[derive(Default)]
pub(super) struct MemoryExtents {
    extents: Mutex<BTreeMap<Address, Vec<u8>>>,
    /// The ends of extents that are written in steps, where they are in a pool.
    tails: Mutex<BTreeMap<Address, usize>>,
    /// The same bytes in a pool, one extent a MiB.
    parcels: Option<Arc<Parcels>>,
    /// Calls of `read` that succeeded, and their bytes.
    pub(super) reads: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    /// Calls of `write` that succeed from now on.
    pub(super) room: Option<AtomicU64>,
    /// Bytes that an extent may have now, if these are not all that it may ever have.
    pub(super) extent_bytes: Option<usize>,
}

impl MemoryExtents {
    /// Extents that can be pinned.
    pub(super) fn in_place() -> Self {
        let mut options = PoolOptions::default();
        (options.in_memory, options.size_initial) = (true, POOL);
        let pool = Pool::create(Path::new("extents"), &options).unwrap();
        Self { parcels: Some(pool.claim_parcels(0, POOL).unwrap()), ..Self::default() }
    }

    /// An extent with room for so many writes only.
    pub(super) fn with_room(writes: u64) -> Self {
        Self { room: Some(AtomicU64::new(writes)), ..Self::default() }
    }

    /// Changes a byte of an extent: of all replicas.
    pub(super) fn flip(&self, extent: Extent, at: usize, mask: u8) {
        let mut extents = self.extents.lock();
        let bytes = extents.get_mut(&extent.address).unwrap();
        bytes[at] ^= mask;
        self.put_in_place(extent.address, bytes);
    }

    /// Changes a byte of an extent where it is pinned, and of no other replica.
    pub(super) fn flip_in_place(&self, extent: Extent, at: usize) {
        let mut bytes = self.extents.lock()[&extent.address].clone();
        bytes[at] ^= 1;
        self.put_in_place(extent.address, &bytes);
    }

    fn put_in_place(&self, address: Address, bytes: &[u8]) {
        if let Some(parcels) = &self.parcels {
            let at = address.block() * EXTENT_BYTES_MAX as u64;
            parcels.reclaim(at);
            parcels.take(at, bytes.len() as u64).unwrap().write(bytes);
        }
    }

    pub(super) fn bytes(&self, extent: Extent) -> Vec<u8> {
        self.extents.lock()[&extent.address].clone()
    }

    pub(super) fn stored(&self) -> Vec<Extent> {
        let blocks = |bytes: &Vec<u8>| (bytes.len() / BLOCK) as u32;
        let extent =
            |(&address, bytes): (&Address, &Vec<u8>)| Extent { address, blocks: blocks(bytes) };
        self.extents.lock().iter().map(extent).collect()
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

impl Extents for MemoryExtents {
    fn write(&self, class: u8, bytes: &[u8]) -> Result<Extent> {
        let blocks = bytes.len().div_ceil(BLOCK) as u32;
        if let Some(room) = &self.room {
            let took =
                room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            took.map_err(|_| Error::NoSpace { blocks })?;
        }
        let mut extents = self.extents.lock();
        let address = Address::new(class, 3, extents.len() as u64);
        let mut padded = bytes.to_vec();
        padded.resize(blocks as usize * BLOCK, 0);
        self.put_in_place(address, &padded);
        extents.insert(address, padded);
        Ok(Extent { address, blocks })
    }

    fn begin(&self, class: u8, blocks: u32, bytes: &[u8]) -> Result<Option<Extent>> {
        if self.parcels.is_none() {
            return Ok(None);
        }
        let mut padded = bytes.to_vec();
        padded.resize(blocks as usize * BLOCK, 0x5a);
        let extent = self.write(class, &padded)?;
        self.tails.lock().insert(extent.address, bytes.len());
        Ok(Some(extent))
    }

    fn tail(&self, extent: Extent) -> Option<usize> {
        self.tails.lock().get(&extent.address).copied()
    }

    fn append(&self, extent: Extent, at: usize, bytes: &[u8]) -> Result<()> {
        let mut extents = self.extents.lock();
        let whole = extents.get_mut(&extent.address).unwrap();
        assert_eq!(self.tails.lock().insert(extent.address, at + bytes.len()), Some(at));
        whole[at..at + bytes.len()].copy_from_slice(bytes);
        self.put_in_place(extent.address, whole);
        Ok(())
    }

    fn read(
        &self,
        what: &'static str,
        extent: Extent,
        at: usize,
        to: &mut [u8],
        check: &dyn Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let damaged =
            |why: &str| Error::Damaged { what, address: extent.address, why: why.to_owned() };
        let extents = self.extents.lock();
        let bytes =
            extents.get(&extent.address).ok_or_else(|| damaged("there is no such extent"))?;
        let bytes = at.checked_add(to.len()).and_then(|end| bytes.get(at..end));
        to.copy_from_slice(bytes.ok_or_else(|| damaged("it is shorter"))?);
        if !check(to) {
            return Err(damaged("its checksum is wrong"));
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(to.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn extent_bytes(&self, _: u8) -> usize {
        self.extent_bytes.unwrap_or(EXTENT_BYTES_MAX)
    }

    fn pin(&self, extent: Extent, at: usize, len: usize) -> Option<Pinned> {
        let pinned = self
            .parcels
            .as_ref()?
            .pin(extent.address.block() * EXTENT_BYTES_MAX as u64, (at + len) as u64)?;
        Some(pinned.slice(at..at + len))
    }
}
