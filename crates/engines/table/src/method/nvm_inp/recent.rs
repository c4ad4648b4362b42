//! Where tuples were found lately, in memory: a transaction that reads a row, changes it and commits goes down its index once.
//!
//! Keys have the places of their hashes. A tuple is changed in place, so that its place stays right until its key is removed
//! or added anew: the commit that does this forgets the key.

use std::cell::RefCell;

use halite_alloc::heap::NvPtr;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::TableId;
use crate::tuple::Tuple;

const PLACES: usize = 256;

/// Longer keys are not remembered.
const KEY_LEN_MAX: usize = 48;

#[derive(Clone, Copy)]
struct Place {
    table: TableId,
    len: u8,
    key: [u8; KEY_LEN_MAX],
    tuple: NvPtr<Tuple>,
}

/// Tuples by table and primary key.
pub(super) struct Recent {
    places: RefCell<Box<[Option<Place>; PLACES]>>,
}

fn place_of(table: TableId, key: &[u8]) -> usize {
    xxh3_64_with_seed(key, table.0.into()) as usize % PLACES
}

impl Place {
    fn is(&self, table: TableId, key: &[u8]) -> bool {
        self.table == table && &self.key[..usize::from(self.len)] == key
    }
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { places: RefCell::new(Box::new([None; PLACES])) }
    }

    pub(super) fn get(&self, table: TableId, key: &[u8]) -> Option<NvPtr<Tuple>> {
        let place = self.places.borrow()[place_of(table, key)]?;
        place.is(table, key).then_some(place.tuple)
    }

    /// Remembers a tuple in place of another one.
    pub(super) fn put(&self, table: TableId, key: &[u8], tuple: NvPtr<Tuple>) {
        if key.len() > KEY_LEN_MAX {
            return;
        }
        let mut place = Place { table, len: key.len() as u8, key: [0; KEY_LEN_MAX], tuple };
        place.key[..key.len()].copy_from_slice(key);
        self.places.borrow_mut()[place_of(table, key)] = Some(place);
    }

    pub(super) fn forget(&self, table: TableId, key: &[u8]) {
        self.places.borrow_mut()[place_of(table, key)] = None;
    }

    pub(super) fn forget_all(&self) {
        self.places.borrow_mut().fill(None);
    }
}
