//! Taking the places of the large values that records refer to.

use halite_alloc::SEGMENT;
use halite_contract::Result;

use crate::entry::Entry;
use crate::read::pinned::piece_damage;
use crate::read::view::View;
use crate::record::Record;
use crate::space::Space;
use crate::space::carving::in_segment;
use crate::space::split::{UNIT, units_of};

/// Takes the places of a large value. `owner` points to the record, if it is in the log by now.
pub(crate) fn take_pieces(
    space: &mut Space,
    view: &mut View,
    record: &Record<'_>,
    owner: Option<Entry>,
) -> Result<()> {
    for piece in record.pieces() {
        let (place, len) = (piece.place(), piece.len());
        let (segment, at) = in_segment(place);
        if len == 0 || at + units_of(len) * UNIT > SEGMENT {
            return Err(piece_damage(record, piece));
        }
        space.blocks_mut().take_found_piece(place, len)?;
        space.blocks_mut().born(piece.block(), len);
        if let Some(owner) = owner {
            space.blocks_mut().set_owner(place, owner);
        }
        let parcels = space.carving().segment(segment)?;
        parcels.take(at, len)?.keep_found();
        view.pieces.show(segment, parcels);
    }
    Ok(())
}
