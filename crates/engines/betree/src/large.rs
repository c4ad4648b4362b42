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
        pieces.push(write_piece(context, class, (purpose, birth), bytes, written)?);
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

/// Copies a value to extents, preferably of a class, which are noted, also if that fails: a piece at a time.
pub(crate) fn copy_large(
    context: &Context,
    class: u8,
    purpose: Purpose,
    large: &LargeValue,
    written: &mut Vec<Extent>,
) -> crate::Result<LargeValue> {
    let (birth, class) = (context.epoch(), context.spill(class));
    let mut copy = LargeValue { entered: birth, len: large.len, birth, pieces: Vec::new() };
    let mut left = large.len;
    let mut bytes = Vec::new();
    for piece in &large.pieces {
        bytes.resize((byte_len(piece.extent) as u64).min(left) as usize, 0);
        left -= bytes.len() as u64;
        read_piece(context, large, piece, &mut bytes)?;
        copy.pieces.push(write_piece(context, class, (purpose, birth), &bytes, written)?);
    }
    Ok(copy)
}

/// Writes a piece of a value to an extent, preferably of a class, which is noted.
pub(crate) fn write_piece(
    context: &Context,
    class: u8,
    (purpose, birth): (Purpose, u64),
    bytes: &[u8],
    written: &mut Vec<Extent>,
) -> crate::Result<Piece> {
    let extent = context.storage.write_for(purpose, class, bytes)?;
    written.push(extent);
    let checksum = seed_of(context.seed, extent.address, birth).checksum(bytes);
    Ok(Piece { extent, checksum })
}

/// Reads a piece of a value.
pub(crate) fn read_piece(
    context: &Context,
    of: &LargeValue,
    piece: &Piece,
    to: &mut [u8],
) -> crate::Result<()> {
    let seed = seed_of(context.seed, piece.extent.address, of.birth);
    let check = |bytes: &[u8]| seed.checksum(bytes) == piece.checksum;
    context.storage.read("piece of a large value", piece.extent, 0, to, &check)
}

/// Reads a value.
pub(crate) fn read_large(context: &Context, large: &LargeValue) -> crate::Result<Vec<u8>> {
    let mut value = vec![0; large.len as usize];
    let mut rest = &mut value[..];
    for piece in &large.pieces {
        let (to, behind) = rest.split_at_mut(byte_len(piece.extent).min(rest.len()));
        rest = behind;
        read_piece(context, large, piece, to)?;
    }
    Ok(value)
}
