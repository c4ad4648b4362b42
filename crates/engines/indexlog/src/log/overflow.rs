//! Large values, in blocks of their own.
//!
//! A value that is not inline has one piece, or more where it is long or the space is scattered (`space/split.rs`), each
//! in a run of units of a block or in a run of blocks of one segment, written once; the record refers to them (Fig. 5.10),
//! and so does the entry of a change log.
//! The map does not know them: a place is part of a value if a live record says so.
//!
//! Values and records wait for the same fence. So, after a crash, a record may be whole and its value not: recovery
//! also reads the values of records that are not proved durable ([`read_whole`]). The content of a piece may
//! therefore change only when its record is proved durable (`space/release.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_contract::{Error, Op, Result};
use halite_pmem::{Flushed, InFlight, Parcel};
use halite_sim::locks::RwLock;

use crate::durability::pending::PendingPiece;
use crate::read::view::View;
use crate::record::{Draft, PIECES_MAX, Piece, Record};
use crate::space::Space;
use crate::space::carving::{Carving, in_segment};

/// Pieces that were streamed, each with the token that its fence takes.
pub(crate) type Streamed = Vec<(InFlight, Flushed)>;

/// The values of a write that are not inline: written, and not yet durable.
#[derive(Default)]
pub(crate) struct Values {
    /// By operation.
    pub(crate) pieces: BTreeMap<usize, Vec<Piece>>,
    pub(crate) streamed: Streamed,
    /// Pieces that were written through the cache.
    pub(crate) pending: Vec<PendingPiece>,
}

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Past the cache: the write waits for it.
    Streamed,
    /// Through the cache.
    Cached,
    /// Through the cache, into split blocks that are there: it is moved to make a block free.
    Moved,
}

/// The pieces of a record's value, if all of them have the checksums that it says.
pub(crate) fn read_whole(carving: &Carving, record: &Record<'_>, salt: u64) -> Option<Vec<Parcel>> {
    let read = |piece: &Piece| {
        let parcel = carving.piece(piece.place(), piece.len()).ok()?;
        parcel.read_ahead();
        piece.matches(parcel.bytes(), salt, record.seq()).then_some(parcel)
    };
    record.pieces().iter().map(read).collect()
}

impl Space {
    /// Writes the values of operations that do not fit a record into free blocks, of which there are enough: past the
    /// cache if the write `waits` for them, else through it. The record of the first operation will have number
    /// `first`.
    pub(crate) fn write_values(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        first: u64,
        waits: bool,
    ) -> Result<Values> {
        let mut values = Values::default();
        let how = if waits { How::Streamed } else { How::Cached };
        for (at, op) in ops.iter().enumerate() {
            let Op::Put { value, .. } = *op else { continue };
            if Draft::needs_overflow(value)
                && let Err(error) =
                    self.write_value(view, &mut values, (at, first + at as u64), value, how)
            {
                self.discard(values);
                return Err(error.unwrap_or_else(|| self.full()));
            }
        }
        Ok(values)
    }

    /// Writes the value of operation `at`, whose record will have number `seq`. An error of `None` means that there is
    /// no room.
    pub(crate) fn write_value(
        &mut self,
        view: &RwLock<View>,
        values: &mut Values,
        (at, seq): (usize, u64),
        value: &[u8],
        how: How,
    ) -> std::result::Result<(), Option<Error>> {
        let born = view.read().epoch;
        let mut rest = value;
        while !rest.is_empty() {
            let pieces = values.pieces.entry(at).or_default();
            let is_fine = pieces.len() < PIECES_MAX;
            // The free places may be too scattered.
            let splits = how != How::Moved;
            let found =
                is_fine.then(|| self.blocks_mut().take_piece(rest.len() as u64, born, splits));
            let Some((place, len)) = found.flatten() else { return Err(None) };
            let (bytes, behind) = rest.split_at(len as usize);
            let (segment, at) = in_segment(place);
            let parcels = self.carving().segment(segment).map_err(Some)?;
            if !view.read().pieces.shows(segment, &parcels) {
                view.write().pieces.show(segment, Arc::clone(&parcels));
            }
            // A run whose parcel is another's stays taken.
            let parcel = parcels.take(at, len).map_err(|error| Some(error.into()))?;
            let piece = Piece::new(place, bytes, self.salt(), seq);
            pieces.push(piece);
            self.blocks_mut().born(piece.block(), len);
            if how == How::Streamed {
                values.streamed.push(parcel.stream(bytes));
            } else {
                parcel.write(bytes);
                values.pending.push(PendingPiece::new(parcels, at, len));
            }
            rest = behind;
        }
        Ok(())
    }

    /// Gives back the blocks of values that no record refers to.
    pub(crate) fn discard(&mut self, values: Values) {
        let Values { pieces, streamed, .. } = values;
        // Streamed pieces are not kept yet: their parcels are free with these tokens.
        let are_kept = streamed.is_empty();
        drop(streamed);
        for piece in pieces.values().flatten() {
            let (place, len) = (piece.place(), piece.len());
            self.blocks_mut().died(piece.block(), len);
            if self.carving().reclaim(place) || !are_kept {
                self.blocks_mut().free_piece(place, len);
            } else {
                self.hold_piece(piece);
            }
        }
    }
}
