//! Reading what a checkpoint has stored, before the storage pool is open.

use std::sync::Arc;

use halite_codec::Seed;
use halite_contract::{Error, Result};
use halite_vdev::Vdev;

use crate::Error as BetreeError;
use crate::allocation::{Bits, decode};
use crate::storage::{EXTENT_BYTES_MAX, Extent};
use crate::store::checkpoint::BitmapPlace;
use crate::store::superblock::{BitmapPointer, RootPiece, RootRecord, Superblock};
use crate::tree::pointer::seed_of;

/// The superblock of a label.
pub(super) fn decode_superblock(payload: &[u8]) -> Result<Superblock> {
    Superblock::decode(payload).map_err(|why| Error::Damaged {
        what: "the superblock of the storage pool".into(),
        why: why.into(),
    })
}

/// Reads part of an extent of a pool that is not open yet.
fn read_extent(
    vdevs: &[Vec<Arc<Vdev>>],
    what: &'static str,
    extent: Extent,
    to: &mut [u8],
    check: &dyn Fn(&[u8]) -> bool,
) -> Result<()> {
    let address = extent.address;
    let vdev =
        vdevs.get(usize::from(address.class())).and_then(|c| c.get(usize::from(address.vdev())));
    let damaged = |why: String| BetreeError::Damaged { what, address, why };
    let vdev = vdev.ok_or_else(|| damaged("there is no such vdev".into()))?;
    let run = halite_vdev::Extent { block: address.block(), blocks: extent.blocks };
    Ok(vdev.read(run, 0, to, check).map_err(|error| match error {
        halite_vdev::Error::Damaged { .. } | halite_vdev::Error::OutOfBounds { .. } => {
            damaged(error.to_string())
        }
        error => error.into(),
    })?)
}

/// Reads the root record of a superblock.
pub(super) fn read_record(
    vdevs: &[Vec<Arc<Vdev>>],
    seed: Seed,
    of: &Superblock,
) -> Result<RootRecord> {
    let Some(first) = of.root.pieces.first() else { return Ok(RootRecord::default()) };
    let mut bytes = vec![0; of.root.len as usize];
    let mut rest = &mut bytes[..];
    for (RootPiece { extent, checksum }, len) in of.root.lens() {
        let (to, behind) = rest.split_at_mut(len);
        let expected = RootPiece::seed(seed, extent, of.epoch);
        let check = |bytes: &[u8]| expected.checksum(bytes) == checksum;
        read_extent(vdevs, "root record", extent, to, &check)?;
        rest = behind;
    }
    let damaged = |why: &str| BetreeError::Damaged {
        what: "root record",
        address: first.extent.address,
        why: why.into(),
    };
    Ok(RootRecord::decode(&bytes).map_err(damaged)?)
}

/// The bitmaps of the generation before, by its superblock, if they are whole.
pub(super) fn read_previous(
    vdevs: &[Vec<Arc<Vdev>>],
    seed: Seed,
    payload: &[u8],
) -> Option<Vec<(BitmapPlace, Bits)>> {
    let superblock = decode_superblock(payload).ok()?;
    let record = read_record(vdevs, seed, &superblock).ok();
    let bitmaps = record.as_ref().and_then(|record| read_bitmaps(vdevs, seed, record).ok());
    // Persistent memory keeps extents that were read until they are freed, and none is freed that is of an earlier
    // generation alone.
    let of_record = record.iter().flat_map(|record| &record.bitmaps).map(|bitmap| bitmap.extent);
    for extent in of_record.chain(superblock.root.extents()) {
        let Extent { address, blocks } = extent;
        let class = vdevs.get(usize::from(address.class()));
        let vdev = class.and_then(|class| class.get(usize::from(address.vdev())));
        vdev.map(|vdev| vdev.free(halite_vdev::Extent { block: address.block(), blocks }));
    }
    bitmaps
}

/// The bitmaps of a root record.
pub(super) fn read_bitmaps(
    vdevs: &[Vec<Arc<Vdev>>],
    seed: Seed,
    record: &RootRecord,
) -> Result<Vec<(BitmapPlace, Bits)>> {
    let read = |bitmap: &BitmapPointer| {
        let BitmapPointer { class, vdev, segment, extent, len, checksum, birth } = *bitmap;
        let mut bytes = vec![0; (len as usize).min(EXTENT_BYTES_MAX)];
        let expected = seed_of(seed, extent.address, birth);
        let check = |bytes: &[u8]| expected.checksum(bytes) == checksum;
        read_extent(vdevs, "bitmap", extent, &mut bytes, &check)?;
        let bits = decode(&bytes).map_err(|why| BetreeError::Damaged {
            what: "bitmap",
            address: extent.address,
            why: why.into(),
        })?;
        Ok(((class, vdev, segment), bits))
    };
    record.bitmaps.iter().map(read).collect()
}
