//! The slot of a catalog in a heap, and the owners of slots that a catalog names.
//!
//! ```text
//!  length u64 | bytes of `catalog/encoding.rs`, which have a check
//! ```

use halite_alloc::heap::{Heap, NvPtr, Owner, Tag, Tagged};
use halite_codec::Seed;

use crate::{Catalog, Error, IndexId, Result, Table};

/// The ids that an owner may have are below this: the heap takes the last one for its roots.
pub(super) const OWNERS_END: u32 = (1 << 20) - 1;

/// The slot of the catalog.
#[derive(Debug)]
pub(super) enum CatalogSlot {}

impl Tagged for CatalogSlot {
    const TAG: Tag = Tag::new(3);
}

/// Writes a catalog to a slot that it reserves.
pub(super) fn write(
    heap: &mut Heap,
    owner: Owner,
    catalog: &Catalog,
) -> Result<NvPtr<CatalogSlot>> {
    let bytes = catalog.encode(Seed::new(heap.salt()));
    let slot = heap.reserve::<CatalogSlot>(owner, 8 + bytes.len() as u64)?;
    heap.write(slot, 0, &[&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat())?;
    Ok(slot)
}

/// Reads the catalog in a slot.
pub(super) fn read(heap: &Heap, slot: NvPtr<CatalogSlot>) -> Result<Catalog> {
    let bytes = heap.read(slot)?;
    let (len, bytes) = bytes.split_first_chunk::<8>().expect("a slot has 16 bytes or more");
    let bytes = usize::try_from(u64::from_le_bytes(*len)).ok().and_then(|len| bytes.get(..len));
    let too_long = || Error::damaged("the catalog", "it is longer than its slot");
    let catalog = Catalog::decode(bytes.ok_or_else(too_long)?, Seed::new(heap.salt()))?;
    check_ids(&catalog, OWNERS_END)?;
    Ok(catalog)
}

/// The owner of a table's tuples, or of an index's nodes.
///
/// # Panics
/// If the id is none of a catalog that [`check_ids`] has passed.
pub(super) fn owner(id: u32) -> Owner {
    Owner::new(id).expect("the ids of the catalog are checked")
}

/// Refuses a catalog with ids that are not below a number.
pub(super) fn check_ids(catalog: &Catalog, end: u32) -> Result<()> {
    let tables = catalog.tables().iter().map(|table| table.id().0);
    let indexes = indexes(catalog).into_iter().map(|(_, index)| index.0);
    let dropping = catalog.dropping().iter().map(|dropping| dropping.id());
    match tables.chain(indexes).chain(dropping).all(|id| id < end) {
        true => Ok(()),
        false => Err(Error::NoMoreIds),
    }
}

/// The ids of all indexes, primary and secondary, with the names of their tables.
pub(super) fn indexes(catalog: &Catalog) -> Vec<(String, IndexId)> {
    let tables = catalog.tables().iter();
    let of = |table: &std::sync::Arc<Table>| {
        let ids = std::iter::once(table.primary()).chain(table.indexes().map(|index| index.id));
        ids.map(|id| (table.schema().name().to_owned(), id)).collect::<Vec<_>>()
    };
    tables.flat_map(of).collect()
}
