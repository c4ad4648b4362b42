//! The rows and indexes of a partition in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_alloc::heap::{DEAD_OWNERS_MAX, Heap, NvPtr, Publication};
use halite_pmem::PoolOptions;

use super::Options;
use crate::catalog::Dropping;
use crate::index::Direction;
use crate::index::volatile::{VolatileScan, VolatileTree};
use crate::method::Rows;
use crate::method::catalog_slot::{OWNERS_END, check_ids, owner};
use crate::tuple::{Form, Tuples};
use crate::{Catalog, Error, IndexId, IndexState, KeyRange, Result, Row, Table};

/// Segments of the heap that one step of reclamation looks at.
const SEGMENTS: u32 = 64;

/// Tuples in a heap, trees that lead to them, and their catalog.
pub(super) struct Tables {
    pub(super) heap: Heap,
    node_len: usize,
    catalog: Catalog,
    trees: BTreeMap<IndexId, VolatileTree>,
}

impl Tables {
    /// The empty tables of a catalog.
    pub(super) fn new(options: Options, catalog: Catalog) -> Result<Self> {
        check_ids(&catalog, OWNERS_END)?;
        let mut pool = PoolOptions::default();
        (pool.in_memory, pool.size_max) = (true, options.memory_bytes);
        let segments = Segments::create(Path::new("memory"), &pool)?;
        let heap = Heap::open(&segments.device(1))?;
        let trees = BTreeMap::new();
        let node_len = options.node_len;
        let mut tables = Self { heap, node_len, catalog: Catalog::new(), trees };
        tables.alter(catalog)?;
        Ok(tables)
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn tree(&self, index: IndexId) -> Result<&VolatileTree> {
        self.trees.get(&index).ok_or_else(|| unknown(index))
    }

    pub(super) fn tree_mut(&mut self, index: IndexId) -> Result<&mut VolatileTree> {
        self.trees.get_mut(&index).ok_or_else(|| unknown(index))
    }

    /// Bytes of all trees, and those of the memory that they take.
    pub(super) fn tree_bytes(&self) -> (u64, u64) {
        let trees = self.trees.values();
        trees.fold((0, 0), |(used, taken), tree| {
            (used + tree.used_bytes() as u64, taken + tree.memory_bytes() as u64)
        })
    }

    pub(super) fn tuples<'a>(&self, table: &'a Table) -> Tuples<'a> {
        Tuples {
            schema: table.schema(),
            owner: owner(table.id().0),
            seed: self.heap.salt(),
            form: Form::Slots,
        }
    }

    pub(super) fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        let found = self.tree(table.primary())?.get(key);
        let row = |word| self.tuples(table).row(&self.heap, NvPtr::from_word(word));
        found.map(row).transpose()
    }

    pub(super) fn entry(
        &self,
        table: &Table,
        position: usize,
        entry: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let found = self.tree(id_of(table, Some(position)))?.get(entry);
        let row = found.map(|word| self.tuples(table).row(&self.heap, NvPtr::from_word(word)));
        row.map(|row| row?.view(table.schema())?.primary_key()).transpose()
    }

    pub(super) fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<TupleRows<'a>> {
        let scan = self.tree(id_of(table, position))?.scan(range.bounds(), direction);
        Ok(TupleRows { heap: &self.heap, tuples: self.tuples(table), scan })
    }

    /// Puts a catalog in place, with an empty tree for each index that it has and the other had not, and without what was
    /// dropped: the space of tuples is given back by [`Tables::reclaim`].
    pub(super) fn alter(&mut self, catalog: Catalog) -> Result<()> {
        let dropping = catalog.dropping().iter();
        let dropped = dropping.filter_map(|dropping| match *dropping {
            Dropping::Table(table) if self.catalog.table_by_id(table).is_ok() => Some(table),
            _ => None,
        });
        let dropped: Vec<_> = dropped.collect();
        if self.heap.dropped_owners().count() + dropped.len() > DEAD_OWNERS_MAX {
            while !self.heap.reclaim(SEGMENTS)? {}
        }
        let mut publication = Publication::new();
        dropped.iter().for_each(|table| publication.drop_owner(owner(table.0)));
        if !publication.is_empty() {
            self.heap.publish(&mut publication)?;
        }
        let indexes = catalog.tables().iter().flat_map(|table| {
            std::iter::once(table.primary()).chain(table.indexes().map(|index| index.id))
        });
        let trees = indexes.map(|index| {
            let tree = self.trees.remove(&index);
            (index, tree.unwrap_or_else(|| VolatileTree::new(self.node_len)))
        });
        self.trees = trees.collect();
        self.catalog = catalog;
        Ok(())
    }

    /// Gives back some space of the tuples of dropped tables. Returns whether none is left.
    pub(super) fn reclaim(&mut self) -> Result<bool> {
        Ok(self.heap.reclaim(SEGMENTS)?)
    }

    /// Makes the trees of all secondary indexes that are ready, of the rows that there are.
    pub(super) fn build_indexes(&mut self) -> Result<()> {
        for table in self.catalog.tables().to_vec() {
            let ready = table.indexes().filter(|index| index.state == IndexState::Ready);
            let mut entries: Vec<_> = ready.map(|index| (index, Vec::new())).collect();
            if entries.is_empty() {
                continue;
            }
            let mut scan =
                self.tree(table.primary())?.scan(KeyRange::all().bounds(), Direction::Forward);
            while let Some((_, word)) = scan.next() {
                let row = self.tuples(&table).row(&self.heap, NvPtr::from_word(word))?;
                let row = row.view(table.schema())?;
                for (index, entries) in &mut entries {
                    entries.push((row.index_entry(index.schema)?, word));
                }
            }
            for (index, mut entries) in entries {
                entries.sort_unstable();
                if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                    let duplicate = index.schema.key().duplicate(&pair[0].0);
                    return Err(Error::damaged("the rows", duplicate.to_string()));
                }
                let tree = VolatileTree::of_sorted(self.node_len, entries);
                self.trees.insert(index.id, tree);
            }
        }
        Ok(())
    }

    /// The table of an index.
    pub(super) fn table_of(&self, index: IndexId) -> Result<Arc<Table>> {
        let found = self.catalog.index_by_id(index);
        found.map(|(table, _)| Arc::clone(table)).ok_or_else(|| unknown(index))
    }
}

/// The index of a table at a position, or the primary one.
fn id_of(table: &Table, position: Option<usize>) -> IndexId {
    position.map_or(table.primary(), |position| {
        table.indexes().nth(position).expect("the caller has it from the table").id
    })
}

fn unknown(index: IndexId) -> Error {
    Error::UnknownIndex { table: "?".into(), index: format!("#{}", index.0).into() }
}

/// A scan of a tree, which leads to tuples.
pub(super) struct TupleRows<'a> {
    heap: &'a Heap,
    tuples: Tuples<'a>,
    scan: VolatileScan<'a>,
}

impl Rows for TupleRows<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        let Some((key, word)) = self.scan.next() else { return Ok(None) };
        let row = self.tuples.row(self.heap, NvPtr::from_word(word))?;
        Ok(Some((key.to_vec(), row)))
    }
}
