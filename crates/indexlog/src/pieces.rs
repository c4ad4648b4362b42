//! The pieces of large values that can be read, by place.

use std::sync::Arc;

use halite_pmem::Published;

use crate::split::UNITS;

/// The pieces of large values that can be read. A block has few, so those of one are in a row.
#[derive(Default)]
pub(crate) struct Pieces(Vec<Vec<(u32, Arc<Published>)>>);

impl Pieces {
    /// The piece at a place.
    pub(crate) fn get(&self, place: u32) -> Option<&Arc<Published>> {
        let of_block = self.0.get((place / UNITS) as usize)?;
        let at = of_block.binary_search_by_key(&place, |piece| piece.0).ok()?;
        Some(&of_block[at].1)
    }

    /// Adds the piece at a place that has none.
    pub(crate) fn insert(&mut self, place: u32, published: Arc<Published>) {
        let block = (place / UNITS) as usize;
        if self.0.len() <= block {
            self.0.resize_with(block + 1, Vec::new);
        }
        let at = self.0[block].partition_point(|piece| piece.0 < place);
        self.0[block].insert(at, (place, published));
    }

    /// Takes the piece at a place out.
    pub(crate) fn remove(&mut self, place: u32) -> Option<Arc<Published>> {
        let of_block = self.0.get_mut((place / UNITS) as usize)?;
        let at = of_block.binary_search_by_key(&place, |piece| piece.0).ok()?;
        Some(of_block.remove(at).1)
    }
}
