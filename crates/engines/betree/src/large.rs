//! Values that lie in extents of their own.
//!
//! A commit writes them before its record goes to the log, and syncs the vdevs: the log never leads to extents that a
//! crash may take. They move through the tree as references, and are written once.

use crate::allocation::Purpose;
use crate::message::{LargeValue, Piece, byte_len};
use crate::storage::{Extent, Extents};
use crate::tree::Context;
use crate::tree::pointer::seed_of;

/// Writes a value to extents, preferably of a class, which are noted, also if that fails. A tree leads to it from an
/// epoch on.
pub(crate) fn write_large(
    context: &Context,
    class: u8,
    purpose: Purpose,
    entered: u64,
    value: &[u8],
    written: &mut Vec<Extent>,
) -> crate::Result<LargeValue> {
    let (birth, class) = (context.epoch(), context.spill(class));
    let limit = context.storage.extent_bytes_max();
    let mut pieces = Vec::with_capacity(value.len().div_ceil(limit));
    for bytes in value.chunks(limit) {
        let extent = context.storage.write_for(purpose, class, bytes)?;
        written.push(extent);
        let checksum = seed_of(context.seed, extent.address, birth).checksum(bytes);
        pieces.push(Piece { extent, checksum });
    }
    Ok(LargeValue { entered, len: value.len() as u64, birth, pieces })
}

/// The name of a value, which a move changes.
pub(crate) fn value_id(large: &LargeValue) -> u64 {
    large.pieces.first().map_or(0, |piece| piece.checksum)
}

/// Reads a value for a reader, and counts that.
pub(crate) fn use_large(context: &Context, large: &LargeValue) -> crate::Result<Vec<u8>> {
    if let Some(heat) = &context.runs.heat {
        heat.note(value_id(large));
    }
    read_large(context, large)
}

/// Reads a value.
pub(crate) fn read_large(context: &Context, large: &LargeValue) -> crate::Result<Vec<u8>> {
    let mut value = vec![0; large.len as usize];
    let mut rest = &mut value[..];
    for piece in &large.pieces {
        let (to, behind) = rest.split_at_mut(byte_len(piece.extent).min(rest.len()));
        rest = behind;
        let seed = seed_of(context.seed, piece.extent.address, large.birth);
        let check = |bytes: &[u8]| seed.checksum(bytes) == piece.checksum;
        context.storage.read("piece of a large value", piece.extent, 0, to, &check)?;
    }
    Ok(value)
}
