//! Values that lie in extents of their own.
//!
//! A commit writes them before its record goes to the log, and syncs the vdevs: the log never leads to extents that a
//! crash may take. They move through the tree as references, and are written once.
//!
//! The pieces of a value, and those of the values of a batch or of a range of an object, are written and read side by
//! side, by the queues of their vdevs. In persistent memory a piece is read to where it is wanted, without a queue.

use std::collections::VecDeque;

use halite_codec::Seed;
use halite_vdev::BLOCK;

use crate::allocation::Purpose;
use crate::message::{LargeValue, Piece, byte_len};
use crate::storage::{AHEAD, Extent, Extents, PendingRead, Writes};
use crate::tree::Context;
use crate::tree::pointer::seed_of;

/// The most pieces of a value that is not longer than so many whole extents: a reference is a message of a run.
const PIECES_MAX: u64 = 4096;

/// The name of a piece in errors.
const PIECE: &str = "piece of a large value";

/// Writes a value to extents, preferably of a class, which are noted, also if that fails. A tree leads to it from an
/// epoch on. It is written when `writes` are finished.
pub(crate) fn write_large(
    context: &Context,
    class: u8,
    purpose: Purpose,
    entered: u64,
    value: &[u8],
    (writes, written): (&mut Writes<'_>, &mut Vec<Extent>),
) -> crate::Result<LargeValue> {
    let (birth, class, len) = (context.epoch(), context.spill(class), value.len() as u64);
    let mut pieces = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let extent = allocate_piece(context, class, purpose, (len, rest.len()))?;
        let (bytes, behind) = rest.split_at(rest.len().min(byte_len(extent)));
        rest = behind;
        written.push(extent);
        writes.write(extent, bytes)?;
        let checksum = seed_of(context.seed, extent.address, birth).checksum(bytes);
        pieces.push(Piece { extent, checksum });
    }
    Ok(LargeValue { entered, len, birth, pieces })
}

/// Bytes of the pieces of a value of a length, preferably in a class: as many as an extent may have now, but so many at
/// least that the value has no more than [`PIECES_MAX`] of them, if an extent may ever have so many.
pub(crate) fn piece_bytes(context: &Context, class: u8, purpose: Purpose, len: u64) -> usize {
    let least = len.div_ceil(PIECES_MAX).next_multiple_of(BLOCK as u64);
    let most = context.storage.extent_bytes_max();
    let least = usize::try_from(least).unwrap_or(most);
    context.storage.extent_bytes(class, purpose).max(least).min(most)
}

/// Allocates an extent for the next piece of a value of a length, of which so many bytes are left.
fn allocate_piece(
    context: &Context,
    class: u8,
    purpose: Purpose,
    (len, left): (u64, usize),
) -> crate::Result<Extent> {
    let mut bytes = piece_bytes(context, class, purpose, len);
    loop {
        let blocks = left.min(bytes).div_ceil(BLOCK) as u32;
        match context.storage.allocate(class, blocks, purpose) {
            Err(error @ crate::Error::NoSpace { .. }) => {
                // It turned out that no device can grow: then the free runs that are there say how long a piece may be.
                let shorter = piece_bytes(context, class, purpose, len);
                if shorter >= left.min(bytes) {
                    return Err(error);
                }
                bytes = shorter;
            }
            allocated => return allocated,
        }
    }
}

/// The name of a value, which a move changes.
pub(crate) fn value_id(large: &LargeValue) -> u64 {
    large.pieces.first().map_or(0, |piece| piece.checksum)
}

/// Reads a value for a reader, and counts that.
pub(crate) fn use_large(context: &Context, large: &LargeValue) -> crate::Result<Vec<u8>> {
    note_use(context, large);
    read_large(context, large)
}

/// Counts that a reader reads a value.
pub(crate) fn note_use(context: &Context, large: &LargeValue) {
    if let Some(heat) = &context.runs.heat {
        heat.note(value_id(large));
    }
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
    read_parts(context, [Wanted { large, from: 0, to: &mut value }])?;
    Ok(value)
}

/// Bytes of a value that are to be read: from byte `from` on, as many as `to` has.
pub(crate) struct Wanted<'a> {
    pub(crate) large: &'a LargeValue,
    pub(crate) from: usize,
    pub(crate) to: &'a mut [u8],
}

/// A piece of which bytes are to be read.
struct WantedPiece<'a> {
    extent: Extent,
    seed: Seed,
    checksum: u64,
    /// Bytes of the piece.
    len: usize,
    from: usize,
    to: &'a mut [u8],
}

impl WantedPiece<'_> {
    fn submit(&self, context: &Context) -> crate::Result<PendingRead> {
        let &Self { extent, seed, checksum, len, .. } = self;
        let check = move |bytes: &[u8]| seed.checksum(&bytes[..len]) == checksum;
        context.storage.submit_read(PIECE, extent, Box::new(check))
    }

    /// Reads it in this thread.
    fn read(self, context: &Context) -> crate::Result<()> {
        let Self { extent, seed, checksum, len, from, to } = self;
        let check = |bytes: &[u8]| seed.checksum(bytes) == checksum;
        if to.len() == len {
            return context.storage.read(PIECE, extent, 0, to, &check);
        }
        let mut whole = vec![0; len];
        context.storage.read(PIECE, extent, 0, &mut whole, &check)?;
        to.copy_from_slice(&whole[from..from + to.len()]);
        Ok(())
    }
}

/// The pieces of which bytes are wanted.
fn pieces_of<'a>(context: &Context, wanted: Wanted<'a>) -> Vec<WantedPiece<'a>> {
    let Wanted { large, from, to } = wanted;
    let end = from + to.len();
    let (mut start, mut rest, mut pieces) = (0, to, Vec::new());
    for piece in &large.pieces {
        let len = byte_len(piece.extent).min(large.len as usize - start);
        let (first, last) = (from.max(start), end.min(start + len));
        if first < last {
            let (to, behind) = std::mem::take(&mut rest).split_at_mut(last - first);
            rest = behind;
            let seed = seed_of(context.seed, piece.extent.address, large.birth);
            let (extent, checksum, from) = (piece.extent, piece.checksum, first - start);
            pieces.push(WantedPiece { extent, seed, checksum, len, from, to });
        }
        start += len;
    }
    pieces
}

/// Reads parts of values side by side. Their bytes that are read ahead take at most [`AHEAD`].
pub(crate) fn read_parts<'a>(
    context: &Context,
    wanted: impl IntoIterator<Item = Wanted<'a>>,
) -> crate::Result<()> {
    let wanted = wanted.into_iter().flat_map(|wanted| pieces_of(context, wanted));
    let mut wanted = wanted.collect::<VecDeque<_>>().into_iter().peekable();
    let mut ahead: VecDeque<(PendingRead, WantedPiece<'_>)> = VecDeque::new();
    let mut bytes = 0;
    loop {
        while let Some(piece) = wanted.next_if(|next| bytes + byte_len(next.extent) <= AHEAD) {
            let is_alone = ahead.is_empty() && wanted.peek().is_none();
            if is_alone || context.storage.is_direct(piece.extent.address) {
                piece.read(context)?;
                continue;
            }
            bytes += byte_len(piece.extent);
            ahead.push_back((piece.submit(context)?, piece));
        }
        let Some((pending, piece)) = ahead.pop_front() else { return Ok(()) };
        let read = pending.wait()?;
        bytes -= read.len();
        piece.to.copy_from_slice(&read[piece.from..piece.from + piece.to.len()]);
    }
}
