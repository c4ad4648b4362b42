//! A dump is loaded as it was, whatever the types and the values.

use halite_contract::{EngineOptions, Partitioning};
use halite_table::{Decimal, Kind, Row, TableSchema, Testbed, Timestamp, Type, Value, ValueRef};
use proptest::prelude::*;

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::dump::write;
use super::load::Loader;
use super::store::{Selection, Store};
use crate::{Error, Result};

/// A store without a file.
fn store(kind: Kind, partitions: usize) -> Store {
    let mut options = EngineOptions::new("pool");
    options.pool_options.in_memory = true;
    options.pool_options.size_max = 256 << 20;
    options.partitioning = Some(Partitioning::Hash(partitions));
    let testbed = Testbed::open(Some(kind), &options).unwrap();
    Store { path: PathBuf::from("store"), testbed }
}

const TYPES: [Type; 18] = [
    Type::Int8,
    Type::Int16,
    Type::Int32,
    Type::Int64,
    Type::UInt8,
    Type::UInt16,
    Type::UInt32,
    Type::UInt64,
    Type::Float64,
    Type::Timestamp,
    Type::Decimal(9, 2),
    Type::Decimal(38, 38),
    Type::Char(4),
    Type::Char(40),
    Type::VarChar(5),
    Type::VarChar(50),
    Type::Bytes(6),
    Type::Bytes(60),
];

/// A table with two columns of each type, of which the second may be NULL, and a number as its key.
fn schema() -> TableSchema {
    let mut builder = TableSchema::builder("t").column("id", Type::Int32);
    for (at, ty) in TYPES.into_iter().enumerate() {
        builder = builder.column(&format!("must,{at}"), ty).nullable(&format!("may \"{at}\""), ty);
    }
    builder.primary_key(["id"]).build().unwrap()
}

fn text(len: usize) -> impl Strategy<Value = Value> {
    "[a ,\"\\r\\n\\t\u{0}\u{feff}é\\\\]{0,40}".prop_map(move |text| {
        let end = (0..=len.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
        Value::from(&text[..end.unwrap_or(0)])
    })
}

/// A value of the type.
fn value(ty: Type) -> BoxedStrategy<Value> {
    match ty {
        Type::Int8 => any::<i8>().prop_map(Value::from).boxed(),
        Type::Int16 => any::<i16>().prop_map(Value::from).boxed(),
        Type::Int32 => any::<i32>().prop_map(Value::from).boxed(),
        Type::Int64 => any::<i64>().prop_map(Value::from).boxed(),
        Type::UInt8 => any::<u8>().prop_map(Value::from).boxed(),
        Type::UInt16 => any::<u16>().prop_map(Value::from).boxed(),
        Type::UInt32 => any::<u32>().prop_map(Value::from).boxed(),
        Type::UInt64 => any::<u64>().prop_map(Value::from).boxed(),
        Type::Float64 => any::<u64>().prop_map(|bits| Value::from(f64::from_bits(bits))).boxed(),
        Type::Decimal(precision, scale) => {
            let limit = 10_i128.pow(precision.into());
            let decimal = any::<i128>().prop_map(move |bits| Decimal::new(bits % limit, scale));
            decimal.prop_map(|decimal| Value::from(decimal.unwrap())).boxed()
        }
        Type::Char(len) | Type::VarChar(len) => text(len as usize).boxed(),
        Type::Bytes(len) => {
            let bytes = prop::collection::vec(any::<u8>(), 0..=len as usize);
            bytes.prop_map(|bytes| Value::from(&bytes)).boxed()
        }
        _ => any::<i64>().prop_map(|moment| Value::from(Timestamp(moment))).boxed(),
    }
}

/// The values of a row but for its key.
fn values() -> impl Strategy<Value = Vec<Value>> {
    let pairs = TYPES.map(|ty| {
        let may = prop_oneof![1 => Just(Value::Null), 3 => value(ty)];
        (value(ty), may).prop_map(|(must, may)| [must, may])
    });
    pairs.to_vec().prop_map(|pairs| pairs.into_iter().flatten().collect())
}

fn rows_of(store: &Store) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    let kept = store.visit(&Selection::all("t"), |row| {
        rows.push(row.bytes().to_vec());
        Ok(ControlFlow::Continue(()))
    });
    kept.unwrap();
    rows
}

fn load(store: &Store, text: &[u8], batch: usize, replaces: bool) -> (u64, Result<()>) {
    let mut loader = Loader::new(store, "t", batch, replaces).unwrap();
    let done = loader.load("in.csv".to_owned(), text, || false);
    (loader.loaded, done)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_dump_is_loaded_as_it_was(
        rows in prop::collection::btree_map(any::<i32>(), values(), 0..20),
        kinds in prop::sample::select(vec![(Kind::Cow, Kind::NvmInP), (Kind::NvmInP, Kind::Cow)]),
        batch in 1..9_usize,
    ) {
        let schema = schema();
        let (from, to) = (store(kinds.0, 1), store(kinds.1, 3));
        for store in [&from, &to] {
            store.testbed.create_table(&schema).unwrap();
        }
        let (mut images, mut expected) = (Vec::new(), Vec::new());
        for (id, values) in &rows {
            let values: Vec<_> = [ValueRef::from(*id)].into_iter().chain(values.iter().map(Value::as_ref)).collect();
            let row = Row::from_values(&schema, &values).unwrap();
            expected.push(row.bytes().to_vec());
            images.push(row);
        }
        from.testbed.transact(&[0], halite::Durability::Deferred, |tx| {
            let table = tx.table(0, "t")?;
            images.iter().try_for_each(|row| tx.insert(0, &table, row))
        }).unwrap();
        let mut text = Vec::new();
        let failed = |error| Error::io("out", error);
        prop_assert_eq!(write(&from, "t", &mut text, |_| Ok(()), failed).unwrap(), rows.len() as u64);
        let (loaded, done) = load(&to, &text, batch, false);
        done.unwrap();
        prop_assert_eq!(loaded, rows.len() as u64);
        prop_assert_eq!(rows_of(&to), &expected[..]);
        to.testbed.verify().unwrap();
        // The same rows again are refused, or replace those that are there.
        prop_assert_eq!(load(&to, &text, batch, false).1.is_err(), !rows.is_empty());
        load(&to, &text, batch, true).1.unwrap();
        prop_assert_eq!(rows_of(&to), &expected[..]);
    }
}

#[test]
fn of_a_refused_batch_nothing_is_kept_and_all_before_it_is() {
    for partitions in [1, 3] {
        let store = store(Kind::NvmInP, partitions);
        let schema = TableSchema::builder("t").column("id", Type::Int32).nullable("n", Type::Int8);
        store.testbed.create_table(&schema.primary_key(["id"]).build().unwrap()).unwrap();
        let text = b"id\n1\n2\n3\n4\n5\n\n3\n7\n";
        let (loaded, done) = load(&store, text, 2, false);
        assert_eq!((loaded, rows_of(&store).len()), (4, 4));
        let error = done.unwrap_err().to_string();
        assert!(
            error.starts_with("in.csv:8: there is a row with the primary key of t (3) already"),
            "{error}"
        );
        let (loaded, done) = load(&store, b"n,id\n1,5\n300,6\n1,7\n", 2, false);
        assert_eq!((loaded, rows_of(&store).len()), (0, 4));
        let error = done.unwrap_err().to_string();
        assert!(error.starts_with("in.csv:3: column \"n\" is INT8 and cannot have 300"), "{error}");
        let (loaded, done) = load(&store, b"id,n\n4,9\n9,9\n4,8\n", 9, true);
        done.unwrap();
        assert_eq!((loaded, rows_of(&store).len()), (3, 5));
    }
}
