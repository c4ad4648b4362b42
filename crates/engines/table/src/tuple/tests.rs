//! Tuples against the rows that they are.

use std::path::Path;

use halite_alloc::Segments;
use halite_alloc::heap::Publication;
use halite_pmem::PoolOptions;
use proptest::prelude::*;

use super::*;
use crate::{Change, Type, Value};

fn schema() -> TableSchema {
    let builder = TableSchema::builder("t")
        .column("id", Type::Int64)
        .nullable("name", Type::VarChar(400))
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
        1 => proptest::option::of("[a-z]{0,400}")
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
        let tuples = Tuples { schema: &schema, owner, seed: 5, form: Form::Slots };
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

proptest! {
    #[test]
    fn a_tuple_that_replaces_another_is_its_row_in_either_form(
        notes in proptest::collection::vec((0..4_usize, 0..3000_usize), 1..12),
    ) {
        let builder = TableSchema::builder("t").column("id", Type::Int64).nullable("note", Type::Bytes(60_000));
        let (schema, mut heap) = (builder.nullable("more", Type::Bytes(60_000)).primary_key(["id"]).build().unwrap(), heap());
        let owner = Owner::new(16).unwrap();
        let tuples = Tuples { schema: &schema, owner, seed: 5, form: Form::Image };
        let mut publication = Publication::new();
        let mut last: Option<(NvPtr<Tuple>, Row)> = None;
        for (id, (kind, len)) in (0_i64..).zip(notes) {
            // Images, rows around the longest one, longer ones, and a row whose one long value stays.
            let note = vec![7; [len / 2, len, 31_000 + len, 40_000][kind]];
            let more = (kind == 3).then(|| vec![id as u8; len]);
            let row = Row::from_values(&schema, &crate::values![id, &note[..], more.as_deref()]).unwrap();
            let after = row.view(&schema).unwrap();
            let tuple = match &last {
                None => {
                    let inserted = tuples.insert(&mut heap, after).unwrap();
                    inserted.slots.iter().for_each(|&slot| publication.activate(slot));
                    inserted.tuple
                }
                Some((tuple, before)) => {
                    let before = before.view(&schema).unwrap();
                    let replaced = tuples.replace(&mut heap, *tuple, (before, after)).unwrap();
                    replaced.activated.iter().for_each(|&slot| publication.activate(slot));
                    replaced.freed.iter().for_each(|&slot| publication.free(slot));
                    replaced.tuple
                }
            };
            publication.set_root("tuple", tuple.word());
            heap.publish(&mut publication).unwrap();
            prop_assert_eq!(&tuples.row(&heap, tuple).unwrap(), &row);
            heap.check(tuples.slots(&heap, tuple).unwrap()).unwrap();
            last = Some((tuple, row));
        }
    }
}

#[test]
fn a_damaged_tuple_is_named() {
    let (schema, mut heap) = (schema(), heap());
    let tuples =
        Tuples { schema: &schema, owner: Owner::new(16).unwrap(), seed: 5, form: Form::Slots };
    let row = Row::from_values(&schema, &crate::values![7, "salt", &b"rock"[..], None::<i64>]);
    let inserted = tuples.insert(&mut heap, row.unwrap().view(&schema).unwrap()).unwrap();
    assert!(tuples.row(&heap, inserted.tuple).is_ok());
    for at in 0..tuples.fixed_at() + schema.layout().fixed_len() {
        let before = heap.read_at(inserted.tuple, at as u64, 1).unwrap()[0];
        heap.write(inserted.tuple, at as u64, &[before ^ 1]).unwrap();
        assert!(tuples.row(&heap, inserted.tuple).is_err(), "{at}");
        heap.write(inserted.tuple, at as u64, &[before]).unwrap();
    }
    let other = Tuples { seed: 6, ..tuples };
    assert!(matches!(other.row(&heap, inserted.tuple), Err(Error::Damaged { .. })));
}
