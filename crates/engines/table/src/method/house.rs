//! What a partition in a heap with an undo log has besides its tables: the catalog and the log, whose owner is the house.

use halite_alloc::heap::{Heap, NvPtr, Publication};

use super::catalog_slot::{self, CatalogSlot, owner};
use super::undo_log::UndoLog;
use crate::{Catalog, IndexId, Result};

/// The owner of the catalog and of the log: no table's or index's id.
pub(super) const HOUSE: u32 = 1;

/// The root that leads to the catalog.
const CATALOG: &str = "catalog";

/// Gives a new heap an empty catalog, and a log with room for so many bytes.
pub(super) fn furnish(heap: &mut Heap, log_len: u64) -> Result<()> {
    if heap.root(CATALOG).is_some() {
        return Ok(());
    }
    let mut publication = Publication::new();
    write_catalog(heap, &Catalog::new(), &mut publication)?;
    UndoLog::create(heap, log_len, &mut publication)?;
    Ok(heap.publish(&mut publication)?)
}

/// Writes a catalog to a slot, which the publication activates and leads to.
pub(super) fn write_catalog(
    heap: &mut Heap,
    catalog: &Catalog,
    publication: &mut Publication,
) -> Result<NvPtr<CatalogSlot>> {
    let slot = catalog_slot::write(heap, owner(HOUSE), catalog)?;
    publication.activate(slot);
    publication.set_root(CATALOG, slot.word());
    Ok(slot)
}

/// Reads the catalog.
pub(super) fn read_catalog(heap: &Heap) -> Result<(Catalog, NvPtr<CatalogSlot>)> {
    let slot = NvPtr::<CatalogSlot>::from_word(heap.root(CATALOG).unwrap_or(0));
    Ok((catalog_slot::read(heap, slot)?, slot))
}

/// The root that leads to an index.
pub(super) fn root_of(index: IndexId) -> String {
    format!("index {}", index.0)
}
