//! Tuples in a heap: the fixed part of a row in one slot, each long column in a slot of its own (Arulraj, "InP –
//! Storage": fixed-size and variable-length slots).
//!
//! ```text
//! tuple:       check u32 | zero u32 | fixed part of the row (`schema/layout.rs`); a long column's cell is a pointer
//! long value:  len u32 | check u32 | bytes
//! ```
//!
//! The checks are seeded with the seed of the store and the column, so that a reader notices bytes that were damaged, or
//! are of another column. A change of a tuple is a set of words of its slot, with the slots of long columns that it
//! activates and frees ([`TupleChange`]): a method stores them by a publication, or under a log of its own.
//!
//! Costs: reading a tuple is a load, and one for each long column that is not NULL; a change of a column of up to 8 bytes
//! stores two words, its own and the check.

use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Owner, Tag, Tagged};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Change, Error, Field, FixedMut, FixedRef, Result, Row, RowRef, TableSchema, ValueRef};

/// The slot of a tuple.
#[derive(Debug)]
pub(crate) enum Tuple {}

/// The slot of a long value.
#[derive(Debug)]
enum LongValue {}

impl Tagged for Tuple {
    const TAG: Tag = Tag::new(1);
}

impl Tagged for LongValue {
    const TAG: Tag = Tag::new(2);
}

/// Bytes before the fixed part, or before those of a long value.
const HEAD: usize = 8;

/// The tuples of one table.
#[derive(Clone, Copy)]
pub(crate) struct Tuples<'a> {
    pub(crate) schema: &'a TableSchema,
    /// The owner of the slots.
    pub(crate) owner: Owner,
    /// The seed of the checks.
    pub(crate) seed: u64,
}

/// A tuple that was written to slots that are reserved.
#[derive(Debug)]
pub(crate) struct Inserted {
    pub(crate) tuple: NvPtr<Tuple>,
    /// All its slots, to be activated.
    pub(crate) slots: Vec<AnyPtr>,
}

/// A word of a slot that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordChange {
    pub(crate) at: u64,
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// A tuple that was written in place of another one.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) tuple: NvPtr<Tuple>,
    /// Its slots that are new, to be activated: the others it has from the former tuple.
    pub(crate) activated: Vec<AnyPtr>,
    /// Slots of the former tuple that it has not.
    pub(crate) freed: Vec<AnyPtr>,
}

/// What a change of columns does to a tuple.
#[derive(Debug, Default)]
pub(crate) struct TupleChange {
    /// Words of the tuple's slot.
    pub(crate) words: Vec<WordChange>,
    /// New slots of long columns, which are written.
    pub(crate) activated: Vec<AnyPtr>,
    /// Slots that the tuple has no more.
    pub(crate) freed: Vec<AnyPtr>,
}

impl Tuples<'_> {
    fn check(self, place: u64, bytes: &[u8]) -> u32 {
        xxh3_64_with_seed(bytes, self.seed ^ place) as u32
    }

    fn damaged(self, what: &str, why: &str) -> Error {
        Error::damaged(format!("{what} of table {:?}", self.schema.name()), why)
    }

    /// Writes a row to slots that it reserves. Nothing is durable, and a crash forgets it.
    pub(crate) fn insert(self, heap: &mut Heap, row: RowRef<'_>) -> Result<Inserted> {
        let mut slots = Vec::new();
        let written = self.write(heap, row, &mut slots);
        if written.is_err() {
            cancel(heap, &slots)?;
        }
        Ok(Inserted { tuple: written?, slots })
    }

    fn write(
        self,
        heap: &mut Heap,
        row: RowRef<'_>,
        slots: &mut Vec<AnyPtr>,
    ) -> Result<NvPtr<Tuple>> {
        let mut bytes = vec![0; HEAD];
        bytes.extend_from_slice(row.fixed().bytes());
        for &column in self.schema.layout().long() {
            if let Some(long) = row.long_bytes(column)? {
                let word = self.write_long(heap, column, long, slots)?;
                FixedMut::new(self.schema, &mut bytes[HEAD..]).set_cell(column, word);
            }
        }
        self.seal(&mut bytes);
        let tuple = self.write_fixed(heap, &bytes)?;
        slots.push(tuple.any());
        Ok(tuple)
    }

    /// Writes the bytes of a tuple to a slot that it reserves.
    fn write_fixed(self, heap: &mut Heap, bytes: &[u8]) -> Result<NvPtr<Tuple>> {
        let tuple = heap.reserve::<Tuple>(self.owner, bytes.len() as u64)?;
        heap.write(tuple, 0, bytes)?;
        Ok(tuple)
    }

    fn write_long(
        self,
        heap: &mut Heap,
        column: usize,
        bytes: &[u8],
        slots: &mut Vec<AnyPtr>,
    ) -> Result<u64> {
        let slot = heap.reserve::<LongValue>(self.owner, (HEAD + bytes.len()) as u64)?;
        slots.push(slot.any());
        let mut stored = Vec::with_capacity(HEAD + bytes.len());
        stored.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        stored.extend_from_slice(&self.check(column as u64, bytes).to_le_bytes());
        stored.extend_from_slice(bytes);
        heap.write(slot, 0, &stored)?;
        Ok(slot.word())
    }

    /// Writes the check of a tuple before it.
    fn seal(self, bytes: &mut [u8]) {
        let check = self.check(u64::MAX, &bytes[HEAD..]);
        bytes[..4].copy_from_slice(&check.to_le_bytes());
    }

    /// The head and the fixed part of a tuple, checked.
    fn slot(self, heap: &Heap, tuple: NvPtr<Tuple>) -> Result<&[u8]> {
        let len = HEAD + self.schema.layout().fixed_len();
        let bytes = heap.read_at(tuple, 0, len as u64)?;
        let stored = u32::from_le_bytes(*bytes.first_chunk().expect("there is a head"));
        if stored != self.check(u64::MAX, &bytes[HEAD..]) {
            return Err(self.damaged("a tuple", "it does not have its check"));
        }
        Ok(bytes)
    }

    fn long(self, heap: &Heap, column: usize, word: u64) -> Result<&[u8]> {
        let slot = NvPtr::<LongValue>::from_word(word);
        let bytes = heap.read(slot)?;
        let (len, rest) = bytes.split_first_chunk::<4>().expect("a slot has 16 bytes or more");
        let (check, rest) = rest.split_first_chunk::<4>().expect("a slot has 16 bytes or more");
        let long = rest.get(..u32::from_le_bytes(*len) as usize);
        long.filter(|long| self.check(column as u64, long) == u32::from_le_bytes(*check))
            .ok_or_else(|| self.damaged("a long value", "it does not have its check"))
    }

    /// The row of a tuple.
    pub(crate) fn row(self, heap: &Heap, tuple: NvPtr<Tuple>) -> Result<Row> {
        let fixed = &self.slot(heap, tuple)?[HEAD..];
        Row::assemble(self.schema, fixed, |column, word| self.long(heap, column, word))
    }

    /// All slots of a tuple, its own last.
    pub(crate) fn slots(self, heap: &Heap, tuple: NvPtr<Tuple>) -> Result<Vec<AnyPtr>> {
        let fixed = FixedRef::new(self.schema, &self.slot(heap, tuple)?[HEAD..])?;
        let mut slots = Vec::new();
        for &column in self.schema.layout().long() {
            if let Field::Cell(word) = fixed.field(column)? {
                slots.push(AnyPtr::from_word(word));
            }
        }
        slots.push(tuple.any());
        Ok(slots)
    }

    /// Writes the new long values of a change, in slots that it reserves, and returns what is to be stored. The tuple is
    /// as before.
    pub(crate) fn change(
        self,
        heap: &mut Heap,
        tuple: NvPtr<Tuple>,
        changes: &[Change<'_>],
    ) -> Result<TupleChange> {
        let mut result = TupleChange::default();
        let planned = self.plan(heap, tuple, changes, &mut result);
        if planned.is_err() {
            cancel(heap, &result.activated)?;
        }
        let (before, after) = planned?;
        let words = before.as_chunks().0.iter().zip(after.as_chunks().0);
        for (at, (before, after)) in (0..).step_by(8).zip(words) {
            if before != after {
                let (before, after) = (u64::from_le_bytes(*before), u64::from_le_bytes(*after));
                result.words.push(WordChange { at, before, after });
            }
        }
        Ok(result)
    }

    /// Writes what a change makes of a tuple as another one, to slots that it reserves. The slots of long columns that do
    /// not change belong to the new tuple then; the former one is as before, and leads to them, too.
    pub(crate) fn replace(
        self,
        heap: &mut Heap,
        tuple: NvPtr<Tuple>,
        changes: &[Change<'_>],
    ) -> Result<Replaced> {
        let mut long = TupleChange::default();
        let written = self
            .plan(heap, tuple, changes, &mut long)
            .and_then(|(_, after)| self.write_fixed(heap, &after));
        if written.is_err() {
            cancel(heap, &long.activated)?;
        }
        let TupleChange { mut activated, mut freed, .. } = long;
        let written = written?;
        activated.push(written.any());
        freed.push(tuple.any());
        Ok(Replaced { tuple: written, activated, freed })
    }

    /// Writes the long values of a change, and returns the tuple's bytes before and after it.
    fn plan(
        self,
        heap: &mut Heap,
        tuple: NvPtr<Tuple>,
        changes: &[Change<'_>],
        result: &mut TupleChange,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let before = self.slot(heap, tuple)?.to_vec();
        let mut after = before.clone();
        for (number, &Change { column, value }) in changes.iter().enumerate() {
            // The last change of a column counts.
            if changes[number + 1..].iter().any(|later| later.column == column) {
                continue;
            }
            let Some(declared) = self.schema.columns().get(column) else {
                return Err(self.schema.no_column(column));
            };
            let value = declared.conform(value)?;
            if !self.schema.layout().places()[column].is_long {
                FixedMut::new(self.schema, &mut after[HEAD..]).set(column, value)?;
                continue;
            }
            if let Field::Cell(word) = FixedRef::new(self.schema, &before[HEAD..])?.field(column)? {
                result.freed.push(AnyPtr::from_word(word));
            }
            let long = match value {
                ValueRef::Text(text) => text.as_bytes(),
                ValueRef::Bytes(bytes) => bytes,
                _ => {
                    FixedMut::new(self.schema, &mut after[HEAD..]).set(column, ValueRef::Null)?;
                    continue;
                }
            };
            let word = self.write_long(heap, column, long, &mut result.activated)?;
            FixedMut::new(self.schema, &mut after[HEAD..]).set_cell(column, word);
        }
        self.seal(&mut after);
        Ok((before, after))
    }
}

/// Gives up slots that are reserved.
pub(crate) fn cancel(heap: &mut Heap, slots: &[AnyPtr]) -> Result<()> {
    for &slot in slots {
        heap.cancel(slot)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use halite_alloc::Segments;
    use halite_alloc::heap::Publication;
    use halite_pmem::PoolOptions;
    use proptest::prelude::*;

    use super::*;
    use crate::{Type, Value};

    fn schema() -> TableSchema {
        let builder = TableSchema::builder("t")
            .column("id", Type::Int64)
            .nullable("name", Type::VarChar(40))
            .column("note", Type::Bytes(3000))
            .nullable("count", Type::Int16);
        builder.primary_key(["id"]).build().unwrap()
    }

    fn heap() -> Heap {
        let mut options = PoolOptions::default();
        (options.in_memory, options.size_max) = (true, 16 << 20);
        let segments = Segments::create(Path::new("pool"), &options).unwrap();
        Heap::open(&segments.device(1)).unwrap()
    }

    fn value(column: usize) -> impl Strategy<Value = Value> {
        match column {
            0 => any::<i64>().prop_map(Value::from).boxed(),
            1 => proptest::option::of("[a-z]{0,40}")
                .prop_map(|text| Value::from(text.as_deref()))
                .boxed(),
            2 => proptest::collection::vec(any::<u8>(), 0..3000)
                .prop_map(|bytes| Value::from(&bytes[..]))
                .boxed(),
            _ => proptest::option::of(any::<i16>()).prop_map(Value::from).boxed(),
        }
    }

    fn values() -> impl Strategy<Value = Vec<Value>> {
        (0..4).map(value).collect::<Vec<_>>()
    }

    proptest! {
        #[test]
        fn a_tuple_is_the_row_with_its_changes_and_leaves_no_slot_behind(
            first in values(),
            changes in proptest::collection::vec((0..4_usize).prop_flat_map(|column| (Just(column), value(column))), 0..12),
        ) {
            let (schema, mut heap) = (schema(), heap());
            let owner = Owner::new(16).unwrap();
            let tuples = Tuples { schema: &schema, owner, seed: 5 };
            let refs: Vec<_> = first.iter().map(Value::as_ref).collect();
            let mut row = Row::from_values(&schema, &refs).unwrap();
            let inserted = tuples.insert(&mut heap, row.view(&schema).unwrap()).unwrap();
            let mut publication = Publication::new();
            inserted.slots.iter().for_each(|&slot| publication.activate(slot));
            publication.set_root("tuple", inserted.tuple.word());
            heap.publish(&mut publication).unwrap();
            for changes in changes.chunks(3) {
                let changes: Vec<_> =
                    changes.iter().map(|(column, value)| Change::new(*column, value.as_ref())).collect();
                row = row.view(&schema).unwrap().with(&changes).unwrap();
                let change = tuples.change(&mut heap, inserted.tuple, &changes).unwrap();
                change.activated.iter().for_each(|&slot| publication.activate(slot));
                change.freed.iter().for_each(|&slot| publication.free(slot));
                for word in &change.words {
                    prop_assert_eq!(heap.word(inserted.tuple, word.at).unwrap(), word.before);
                    publication.store(inserted.tuple, word.at, word.after);
                }
                heap.publish(&mut publication).unwrap();
                prop_assert_eq!(&tuples.row(&heap, inserted.tuple).unwrap(), &row);
            }
            heap.check(tuples.slots(&heap, inserted.tuple).unwrap()).unwrap();
        }
    }

    #[test]
    fn a_damaged_tuple_is_named() {
        let (schema, mut heap) = (schema(), heap());
        let tuples = Tuples { schema: &schema, owner: Owner::new(16).unwrap(), seed: 5 };
        let row = Row::from_values(&schema, &crate::values![7, "salt", &b"rock"[..], None::<i64>]);
        let inserted = tuples.insert(&mut heap, row.unwrap().view(&schema).unwrap()).unwrap();
        assert!(tuples.row(&heap, inserted.tuple).is_ok());
        for at in 0..HEAD + schema.layout().fixed_len() {
            let before = heap.read_at(inserted.tuple, at as u64, 1).unwrap()[0];
            heap.write(inserted.tuple, at as u64, &[before ^ 1]).unwrap();
            // The four bytes behind the check are padding.
            assert_eq!(tuples.row(&heap, inserted.tuple).is_ok(), (4..8).contains(&at), "{at}");
            heap.write(inserted.tuple, at as u64, &[before]).unwrap();
        }
        let other = Tuples { seed: 6, ..tuples };
        assert!(matches!(other.row(&heap, inserted.tuple), Err(Error::Damaged { .. })));
    }
}
