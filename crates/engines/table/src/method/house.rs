//! The slots that a partition in a heap has besides its tables: the catalog and the log, whose owner is the house. The owners
//! of tables and indexes have their ids.

use std::sync::Arc;

use halite_alloc::Error as SpaceError;
use halite_alloc::heap::{Heap, NvPtr, Owner, Publication, Tag, Tagged};
use halite_codec::Seed;

use super::undo_log::UndoLog;
use crate::index::Error as IndexError;
use crate::{Catalog, Error, IndexId, Result, Table};

/// The owner of the catalog and of the log: no table's or index's id.
pub(super) const HOUSE: u32 = 1;

/// The ids that an owner may have are below this: the heap takes the last one for its roots.
pub(super) const OWNERS_END: u32 = (1 << 20) - 1;

/// The root that leads to the catalog.
const CATALOG: &str = "catalog";

/// The slot of the catalog: its length, and its bytes.
#[derive(Debug)]
pub(super) enum CatalogSlot {}

impl Tagged for CatalogSlot {
    const TAG: Tag = Tag::new(3);
}

/// Gives a new heap an empty catalog and a log.
pub(super) fn furnish(heap: &mut Heap) -> Result<()> {
    if heap.root(CATALOG).is_some() {
        return Ok(());
    }
    let mut publication = Publication::new();
    write_catalog(heap, &Catalog::new(), &mut publication)?;
    UndoLog::create(heap, &mut publication)?;
    Ok(heap.publish(&mut publication)?)
}

/// Writes a catalog to a slot, which the publication activates and leads to.
pub(super) fn write_catalog(
    heap: &mut Heap,
    catalog: &Catalog,
    publication: &mut Publication,
) -> Result<NvPtr<CatalogSlot>> {
    let bytes = catalog.encode(seed(heap));
    let slot = heap.reserve::<CatalogSlot>(owner(HOUSE), 8 + bytes.len() as u64)?;
    heap.write(slot, 0, &[&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat())?;
    publication.activate(slot);
    publication.set_root(CATALOG, slot.word());
    Ok(slot)
}

/// Reads the catalog.
pub(super) fn read_catalog(heap: &Heap) -> Result<(Catalog, NvPtr<CatalogSlot>)> {
    let slot = NvPtr::<CatalogSlot>::from_word(heap.root(CATALOG).unwrap_or(0));
    let bytes = heap.read(slot)?;
    let (len, bytes) = bytes.split_first_chunk::<8>().expect("a slot has 16 bytes or more");
    let bytes = usize::try_from(u64::from_le_bytes(*len)).ok().and_then(|len| bytes.get(..len));
    let too_long = || Error::damaged("the catalog", "it is longer than its slot");
    Ok((Catalog::decode(bytes.ok_or_else(too_long)?, seed(heap))?, slot))
}

fn seed(heap: &Heap) -> Seed {
    Seed::new(heap.salt())
}

/// The owner with an id.
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

/// The root that leads to an index.
pub(super) fn root_of(index: IndexId) -> String {
    format!("index {}", index.0)
}

/// The ids of all indexes, primary and secondary, with the names of their tables.
pub(super) fn indexes(catalog: &Catalog) -> Vec<(String, IndexId)> {
    let tables = catalog.tables().iter();
    let of = |table: &Arc<Table>| {
        let ids = std::iter::once(table.primary()).chain(table.indexes().map(|index| index.id));
        ids.map(|id| (table.schema().name().to_owned(), id)).collect::<Vec<_>>()
    };
    tables.flat_map(of).collect()
}

/// Whether an error says that the heap has no room.
pub(super) fn is_full(error: &Error) -> bool {
    match error {
        Error::Heap(error) => matches!(**error, SpaceError::Full { .. }),
        Error::Index(error) => matches!(**error, IndexError::Heap(SpaceError::Full { .. })),
        _ => false,
    }
}
