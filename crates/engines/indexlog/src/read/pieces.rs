//! The segments that have pieces of large values, for readers. Which piece a reader wants is said by a record; nothing
//! is kept here of any piece.

use std::sync::Arc;

use halite_pmem::{Parcels, Pinned};

use crate::record::Piece;
use crate::space::carving::in_segment;

/// Pieces of at least this many bytes are read ahead: the request takes as long as copying a page or two.
const READ_AHEAD_FROM: u64 = 16 << 10;

/// The segments that have, or had, pieces of large values.
#[derive(Default)]
pub(crate) struct Pieces(Vec<Option<Arc<Parcels>>>);

impl Pieces {
    /// Whether readers can see the pieces in a segment.
    pub(crate) fn shows(&self, segment: u32, parcels: &Arc<Parcels>) -> bool {
        let shown = self.0.get(segment as usize).and_then(Option::as_ref);
        shown.is_some_and(|shown| Arc::ptr_eq(shown, parcels))
    }

    /// Shows the pieces in a segment to readers.
    pub(crate) fn show(&mut self, segment: u32, parcels: Arc<Parcels>) {
        let at = segment as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at] = Some(parcels);
    }

    /// Pins a piece, if there is one of its length at its place: whether it is the piece that was written there, its
    /// checksum tells.
    pub(crate) fn pin(&self, piece: &Piece) -> Option<Pinned> {
        let (segment, at) = in_segment(piece.place());
        let (parcels, len) = (self.0.get(segment as usize)?.as_ref()?, piece.len());
        if len >= READ_AHEAD_FROM {
            parcels.read_ahead(at, len);
        }
        parcels.pin(at, len)
    }
}
