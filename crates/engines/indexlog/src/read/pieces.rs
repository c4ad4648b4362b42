//! The pieces of large values that can be read, by place.

use std::sync::Arc;

use halite_pmem::Published;

use crate::space::split::UNITS;

/// The pieces of large values that can be read. A block has few, so those of one are in a row.
#[derive(Default)]
pub(crate) struct Pieces(Vec<Vec<Piece>>);

/// A piece that can be read.
struct Piece {
    place: u32,
    /// The epoch in which it was made (`scans`).
    born: u64,
    published: Arc<Published>,
}

impl Pieces {
    fn find(&self, place: u32) -> Option<&Piece> {
        let of_block = self.0.get((place / UNITS) as usize)?;
        let at = of_block.binary_search_by_key(&place, |piece| piece.place).ok()?;
        Some(&of_block[at])
    }

    /// The piece at a place.
    pub(crate) fn get(&self, place: u32) -> Option<&Arc<Published>> {
        Some(&self.find(place)?.published)
    }

    /// The epoch in which the piece at a place was made; the first, if there is none.
    pub(crate) fn born(&self, place: u32) -> u64 {
        self.find(place).map_or(0, |piece| piece.born)
    }

    /// Whether all pieces of a block were made in an epoch or since.
    pub(crate) fn are_all_born_since(&self, block: u32, epoch: u64) -> bool {
        let of_block = self.0.get(block as usize);
        of_block.is_none_or(|of_block| of_block.iter().all(|piece| piece.born >= epoch))
    }

    /// Adds the piece at a place that has none.
    pub(crate) fn insert(&mut self, place: u32, born: u64, published: Arc<Published>) {
        let block = (place / UNITS) as usize;
        if self.0.len() <= block {
            self.0.resize_with(block + 1, Vec::new);
        }
        let at = self.0[block].partition_point(|piece| piece.place < place);
        self.0[block].insert(at, Piece { place, born, published });
    }

    /// Takes the piece at a place out, with the epoch in which it was made.
    pub(crate) fn remove(&mut self, place: u32) -> Option<(u64, Arc<Published>)> {
        let of_block = self.0.get_mut((place / UNITS) as usize)?;
        let at = of_block.binary_search_by_key(&place, |piece| piece.place).ok()?;
        let Piece { born, published, .. } = of_block.remove(at);
        Some((born, published))
    }
}
