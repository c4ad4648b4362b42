//! Batches of random changes, and a log that lost some.

use halite_codec::Seed;
use halite_disk::Disk;
use proptest::prelude::*;

use super::*;
use crate::write_set::WriteSet;
use crate::{Catalog, Row, Table, TableSchema, Type, Value, ValueRef};

const SEED: Seed = Seed::new(3);
const STORE: u128 = 7;
const SHAPE: Shape = Shape { file_bytes: 4096, kept_bytes: 4096 };

fn varied() -> (Catalog, Table) {
    let builder = TableSchema::builder("t")
        .column("id", Type::Int32)
        .nullable("flag", Type::UInt8)
        .nullable("text", Type::VarChar(40))
        .column("money", Type::Decimal(12, 2))
        .column("real", Type::Float64)
        .nullable("bytes", Type::Bytes(3_000))
        .column("short", Type::Char(5));
    let schema = builder.primary_key(["id"]).index("by_flag", ["flag"]).build().unwrap();
    let catalog = Catalog::new().create_table(schema).unwrap().0;
    let table = Table::clone(catalog.table("t").unwrap());
    (catalog, table)
}

type Content = (Option<u8>, Option<String>, i64, f64, Option<Vec<u8>>, String);

fn row(table: &Table, id: i32, (flag, text, cents, real, bytes, short): &Content) -> Row {
    let money = crate::Decimal::new(i128::from(*cents), 2).unwrap();
    let values: Vec<Value> = vec![
        id.into(),
        Value::from(flag.map(i64::from)),
        Value::from(text.as_deref()),
        Value::from(ValueRef::Decimal(money)),
        Value::from(ValueRef::Float(*real)),
        Value::from(bytes.as_deref()),
        Value::from(short.as_str()),
    ];
    let refs: Vec<_> = values.iter().map(Value::as_ref).collect();
    Row::from_values(table.schema(), &refs).unwrap()
}

fn content() -> impl Strategy<Value = Content> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..3_000);
    let real = prop_oneof![any::<f64>(), Just(f64::NAN), Just(-0.0)];
    (
        proptest::option::of(any::<u8>()),
        proptest::option::of("[a-z]{0,40}"),
        -1_000_000..1_000_000_i64,
        real,
        proptest::option::of(bytes),
        "[a-z]{0,5}",
    )
}

fn write(writes: &mut WriteSet, table: &Table, before: Option<&Row>, after: Option<&Row>) {
    let of = before.or(after).unwrap();
    let key = of.view(table.schema()).unwrap().primary_key().unwrap();
    writes.replace(table, &key, (before, after), || before.cloned()).unwrap();
}

/// The row that a logged change makes of another one.
fn redone(table: &Table, before: Option<&Row>, change: &LoggedChange<'_>) -> Option<Row> {
    match change {
        LoggedChange::Insertion(row) => {
            assert!(before.is_none());
            Some(row.clone())
        }
        LoggedChange::Deletion(row) => {
            assert_eq!(before, Some(row));
            None
        }
        LoggedChange::Update(columns) => {
            let before = before.unwrap().view(table.schema()).unwrap();
            for change in columns {
                assert_eq!(before.get(change.column).unwrap(), change.before);
            }
            let changes: Vec<_> =
                columns.iter().map(|it| crate::Change::new(it.column, it.after)).collect();
            Some(before.with(&changes).unwrap())
        }
    }
}

proptest! {
    #[test]
    fn a_batch_leads_from_the_rows_before_to_those_after(
        rows in proptest::collection::vec((proptest::option::of(content()), proptest::option::of(content())), 1..12),
        flip in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let (catalog, table) = varied();
        let mut writes = WriteSet::default();
        let mut changed = Vec::new();
        for (id, (before, after)) in (0..).zip(&rows) {
            let row = |content: &Option<Content>| content.as_ref().map(|it| row(&table, id, it));
            let (before, after) = (row(before), row(after));
            if before.is_some() || after.is_some() {
                write(&mut writes, &table, before.as_ref(), after.as_ref());
            }
            if before != after {
                changed.push((before, after));
            }
        }
        let batch = transaction(&catalog, &writes).unwrap();
        prop_assert_eq!(batch.is_empty(), changed.is_empty());
        if batch.is_empty() {
            return Ok(());
        }
        let Logged::Transaction(logged) = Logged::read(&batch, &catalog, SEED).unwrap() else {
            panic!("it is a transaction")
        };
        prop_assert_eq!(logged.len(), changed.len());
        for (logged, (before, after)) in logged.iter().zip(&changed) {
            let of = before.as_ref().or(after.as_ref()).unwrap();
            prop_assert_eq!(&logged.key, &of.view(table.schema()).unwrap().primary_key().unwrap());
            prop_assert_eq!(logged.table.id(), table.id());
            prop_assert_eq!(&redone(&table, before.as_ref(), &logged.change), after);
        }
        // The checks are the log's: a batch that is damaged all the same is refused, or another one.
        let mut flipped = batch.clone();
        flipped[flip.index(batch.len())] ^= 1 << bit;
        if let Err(error) = Logged::read(&flipped, &catalog, SEED) {
            prop_assert!(matches!(error, Error::Damaged { .. }), "{}", error);
        }
        for len in 0..batch.len().min(200) {
            if let Ok(Logged::Transaction(cut)) = Logged::read(&batch[..len], &catalog, SEED) {
                prop_assert!(cut.len() < logged.len());
            }
        }
    }
}

#[test]
fn an_update_costs_the_images_of_what_changes() {
    let (catalog, table) = varied();
    let content = (Some(1), Some("text".to_owned()), 5, 0.5, Some(vec![1; 3_000]), "s".to_owned());
    let before = row(&table, 1, &content);
    let after = row(&table, 1, &(Some(2), Some("test".to_owned()), 5, 0.5, content.4, content.5));
    let batch = |before: Option<&Row>, after: Option<&Row>| {
        let mut writes = WriteSet::default();
        write(&mut writes, &table, before, after);
        transaction(&catalog, &writes).unwrap().len()
    };
    // Kinds, table, key of 4 bytes with its length, count; a number of 1 byte and a text of 4.
    assert_eq!(batch(Some(&before), Some(&after)), 9 + (2 + 2) + (2 + 2 * 5));
    for [before, after] in [[None, Some(&after)], [Some(&after), None]] {
        assert_eq!(batch(before, after), 5 + after.or(before).unwrap().bytes().len());
    }
    assert_eq!(batch(Some(&before), Some(&before)), 0);
}

#[test]
fn a_catalog_is_read_as_it_was() {
    let (catalog, _) = varied();
    let batch = super::catalog(&catalog, SEED);
    let read = Logged::read(&batch, &Catalog::new(), SEED);
    assert!(matches!(read, Ok(Logged::Catalog(found)) if found == catalog));
    let other = Logged::read(&batch, &Catalog::new(), Seed::new(4));
    assert!(matches!(other, Err(Error::Damaged { .. })));
}

type Batches = Vec<(u64, Vec<u8>)>;

/// The batches of a log from a position on.
fn replayed(disk: &Disk, from: Position, to: Position) -> Result<(RedoLog, Batches)> {
    let mut batches = Vec::new();
    let log = RedoLog::open(disk, STORE, SHAPE, (from, to), |sequence, payload| {
        batches.push((sequence, payload.to_vec()));
        Ok(())
    })?;
    Ok((log, batches))
}

fn batch(number: u64) -> Vec<u8> {
    vec![number as u8; 700]
}

#[test]
fn a_log_goes_on_behind_what_it_has_and_gives_files_back() {
    let disk = Disk::in_memory();
    let mut log = RedoLog::create(&disk, STORE, SHAPE).unwrap();
    let start = log.position();
    (1..=50).for_each(|number| log.append(&batch(number)).unwrap());
    log.sync().unwrap();
    let end = log.position();
    log.check_files(&disk, STORE, start, |_, _| Ok(())).unwrap();
    let created = RedoLog::create(&disk, STORE, SHAPE);
    assert!(matches!(created, Err(Error::Exists { .. })));
    drop(log);
    let (mut log, batches) = replayed(&disk, start, end).unwrap();
    assert!(batches.into_iter().eq((1..=50).map(|number| (number, batch(number)))));
    assert_eq!((log.position(), log.passed()), (end, 50 * 724));
    let before = log.bytes();
    log.release(end).unwrap();
    assert!(log.bytes() < before / 2);
    log.append(&batch(51)).unwrap();
    log.sync().unwrap();
    drop(log);
    let (_, batches) = replayed(&disk, end, end).unwrap();
    assert_eq!(batches, [(51, batch(51))]);
    // The files of the first ones serve others.
    assert!(matches!(replayed(&disk, start, end), Err(Error::Damaged { .. } | Error::Log(_))));
}

#[test]
fn a_log_that_ends_too_early_or_is_another_stores_is_named_and_left_as_it_is() {
    let disk = Disk::in_memory();
    let mut log = RedoLog::create(&disk, STORE, SHAPE).unwrap();
    let start = log.position();
    (1..=3).for_each(|number| log.append(&batch(number)).unwrap());
    log.sync().unwrap();
    let end = log.position();
    drop(log);
    let later = Position { sequence: end.sequence + 1, ..end };
    let longer = Position { len: end.len + 1, ..end };
    for to in [later, longer] {
        let error = replayed(&disk, start, to).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    let mut none = 0;
    let foreign = RedoLog::open(&disk, STORE + 1, SHAPE, (start, end), |_, _| {
        none += 1;
        Ok(())
    });
    assert!(foreign.is_err() && none == 0);
    assert_eq!(replayed(&disk, start, end).unwrap().1.len(), 3);
}

#[test]
fn a_full_disk_refuses_a_batch_and_nothing_else() {
    let disk = Disk::in_memory_up_to(300 << 10);
    let mut log = RedoLog::create(&disk, STORE, SHAPE).unwrap();
    let start = log.position();
    let refused =
        (1..1_000).find_map(|number| log.append(&batch(number)).err().map(|it| (number, it)));
    let (number, error) = refused.unwrap();
    assert!(matches!(error, Error::Log(halite_wal::Error::NoFile(_))), "{error}");
    log.check().unwrap();
    assert_eq!(log.position().sequence, number);
    log.sync().unwrap();
    // What is released has room for more.
    log.release(log.position()).unwrap();
    let from = log.position();
    log.append(&batch(number)).unwrap();
    log.sync().unwrap();
    let end = log.position();
    drop(log);
    assert_eq!(replayed(&disk, from, end).unwrap().1.len(), 1);
    assert!(start.sequence < from.sequence);
}

#[test]
fn batches_that_no_sync_takes_do_not_stay_in_memory() {
    let disk = Disk::in_memory();
    let mut log = RedoLog::create(&disk, STORE, Shape { file_bytes: 64 << 20, ..SHAPE }).unwrap();
    (0..40).for_each(|_| log.append(&vec![1; 300 << 10]).unwrap());
    assert!(log.wal.buffer_bytes() < 4 << 20, "{}", log.wal.buffer_bytes());
}
