mod executor;
mod procedures;
mod traps;
mod views;
mod wrong;

use std::sync::atomic::AtomicUsize;
use std::thread;

use halite_contract::{EngineOptions, Partitioning};

use super::*;
use crate::{Change, KeyRange, Row, TableSchema, Type, values};

fn options(partitions: usize) -> EngineOptions {
    let mut options = EngineOptions::new("pool");
    options.pool_options.in_memory = true;
    options.pool_options.size_max = 256 << 20;
    options.partitioning = Some(Partitioning::Hash(partitions));
    options
}

fn options_in(folder: &std::path::Path, partitions: Option<usize>) -> EngineOptions {
    let mut options = EngineOptions::new(folder.join("pool"));
    options.pool_options.size_max = 256 << 20;
    options.partitioning = partitions.map(Partitioning::Hash);
    options
}

fn accounts() -> TableSchema {
    let builder = TableSchema::builder("account")
        .column("id", Type::Int64)
        .column("balance", Type::Int64)
        .nullable("note", Type::VarChar(100));
    builder.primary_key(["id"]).build().unwrap()
}

fn key(schema: &TableSchema, id: i64) -> Vec<u8> {
    schema.primary_key().encode(&values![id]).unwrap()
}

/// Adds to the balance of an account, and makes it where it is missing.
fn add(tx: &mut Transaction<'_>, partition: usize, id: i64, amount: i64) -> Result<()> {
    let table = tx.table(partition, "account")?;
    let schema = table.schema();
    let found = tx.get(partition, &table, &key(schema, id))?;
    let Some(row) = found else {
        let row = Row::from_values(schema, &values![id, amount, None::<&str>])?;
        return tx.insert(partition, &table, &row);
    };
    let balance = row.view(schema)?.int(1)? + amount;
    tx.update(partition, &table, &key(schema, id), &[Change::new(1, balance)]).map(drop)
}

fn sum(tx: &mut Transaction<'_>, partition: usize) -> Result<i64> {
    let table = tx.table(partition, "account")?;
    let mut sum = 0;
    let range = KeyRange::all();
    tx.scan(partition, (&table, None), &range, crate::index::Direction::Forward, |_, row| {
        sum += row.int(1)?;
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    Ok(sum)
}

fn total(testbed: &Testbed) -> i64 {
    let all: Vec<_> = (0..testbed.partitions()).collect();
    let total = testbed.transact(&all, Durability::Immediate, |tx| {
        all.iter().map(|&partition| sum(tx, partition)).sum::<Result<i64>>()
    });
    total.unwrap()
}

#[test]
fn threads_move_amounts_between_partitions_and_the_sum_stays() {
    for &kind in Kind::ALL {
        let testbed = Testbed::open(Some(kind), &options(3)).unwrap();
        testbed.create_table(&accounts()).unwrap();
        let refused = AtomicUsize::new(0);
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (testbed, refused) = (&testbed, &refused);
                scope.spawn(move || {
                    let mut random = thread + 1;
                    let mut below = |count: u64| {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (random >> 33) % count
                    };
                    for _ in 0..60 {
                        let (from, to) = (below(3) as usize, below(3) as usize);
                        let (a, b) = (below(5) as i64, below(5) as i64);
                        let gives_up = below(5) == 0;
                        let done = testbed.transact(&[from, to], Durability::Immediate, |tx| {
                            add(tx, from, a, -7)?;
                            add(tx, to, b, 7)?;
                            match gives_up {
                                true => Err(Error::NoMoreIds),
                                false => Ok(()),
                            }
                        });
                        assert_eq!(done.is_err(), gives_up, "{done:?}");
                        refused.fetch_add(usize::from(gives_up), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(total(&testbed), 0);
        assert!(refused.into_inner() > 0);
        testbed.verify().unwrap();
    }
}

#[test]
fn a_panic_and_a_foreign_partition_undo_the_transaction_and_nothing_else() {
    for &kind in Kind::ALL {
        let testbed = Testbed::open(Some(kind), &options(2)).unwrap();
        testbed.create_table(&accounts()).unwrap();
        let deferred = Durability::Deferred;
        testbed.transact(&[0], deferred, |tx| add(tx, 0, 1, 5)).unwrap();
        let panicked = testbed.transact(&[0, 1], deferred, |tx| {
            add(tx, 0, 1, 5)?;
            if tx.timestamp() > 0 {
                panic!("the body's");
            }
            Ok::<_, Error>(())
        });
        assert!(matches!(panicked, Err(Error::Panicked { message }) if &*message == "the body's"));
        let foreign = testbed.transact(&[0], deferred, |tx| {
            add(tx, 0, 1, 5)?;
            add(tx, 1, 1, 5)
        });
        assert!(matches!(foreign, Err(Error::NotParticipant { partition: 1 })));
        let unknown = testbed.transact(&[2], deferred, |_| Ok::<_, Error>(()));
        assert!(matches!(unknown, Err(Error::Partitions { .. })));
        assert_eq!(total(&testbed), 5);
        // Savepoints are of all partitions at once.
        testbed
            .transact(&[0, 1], deferred, |tx| {
                add(tx, 0, 1, 1)?;
                let here = tx.savepoint()?;
                add(tx, 0, 1, 1)?;
                add(tx, 1, 1, 1)?;
                tx.rollback_to(&here)
            })
            .unwrap();
        assert_eq!(total(&testbed), 6);
    }
}

#[test]
fn a_store_is_opened_again_as_it_was_and_not_as_another() {
    for &kind in Kind::ALL {
        let folder = tempfile::tempdir().unwrap();
        let missing = Testbed::open(None, &options_in(folder.path(), None));
        assert!(matches!(missing, Err(Error::NoStore { .. })));
        let testbed = Testbed::open(Some(kind), &options_in(folder.path(), Some(2))).unwrap();
        testbed.create_table(&accounts()).unwrap();
        let first = testbed
            .transact(&[0, 1], Durability::Immediate, |tx| {
                add(tx, 0, 1, 5)?;
                add(tx, 1, 2, 6)?;
                Ok::<_, Error>(tx.timestamp())
            })
            .unwrap();
        // One process at a time has the store.
        assert!(Testbed::open(None, &options_in(folder.path(), None)).is_err());
        drop(testbed);
        let other = Kind::ALL.iter().copied().find(|&other| other != kind);
        let refused = Testbed::open(other, &options_in(folder.path(), None));
        assert!(matches!(refused, Err(Error::OtherMethod { .. })));
        let refused = Testbed::open(Some(kind), &options_in(folder.path(), Some(8)));
        assert!(matches!(refused, Err(Error::OtherPartitions { found: 2, asked: 8 })));
        let testbed = Testbed::open(None, &options_in(folder.path(), None)).unwrap();
        assert_eq!((testbed.kind(), testbed.partitions(), total(&testbed)), (kind, 2, 11));
        let next =
            testbed.transact(&[1], Durability::Immediate, |tx| Ok::<_, Error>(tx.timestamp()));
        assert!(next.unwrap() > first);
        testbed.verify().unwrap();
        drop(testbed);
        // Files whose pool is lost are not taken for a place for a new store.
        std::fs::remove_file(folder.path().join("pool")).unwrap();
        let made = Testbed::open(Some(kind), &options_in(folder.path(), Some(2)));
        match kind.has_files() {
            true => assert!(matches!(made, Err(Error::Exists { .. }))),
            false => assert_eq!(made.unwrap().verify().unwrap(), 0),
        }
    }
}

#[test]
fn statements_happen_in_all_partitions_or_in_none() {
    for &kind in Kind::ALL {
        let testbed = Testbed::open(Some(kind), &options(2)).unwrap();
        testbed.create_table(&accounts()).unwrap();
        assert!(matches!(testbed.create_table(&accounts()), Err(Error::Exists { .. })));
        let now = Durability::Immediate;
        testbed
            .transact(&[0, 1], now, |tx| {
                add(tx, 0, 1, 5)?;
                add(tx, 1, 1, 7)?;
                add(tx, 1, 2, 7)
            })
            .unwrap();
        // The balances of the second partition are not unique, those of the first one are.
        let refused = testbed.create_index("account", "by_balance", &["balance"], true);
        assert!(matches!(refused, Err(Error::DuplicateKey { .. })));
        for partition in 0..2 {
            let table = testbed.transact(&[partition], now, |tx| tx.table(partition, "account"));
            assert!(table.unwrap().index("by_balance").is_err());
        }
        testbed.create_index("account", "by_balance", &["balance"], false).unwrap();
        testbed.rename_table("account", "ledger").unwrap();
        assert!(testbed.catalog().table("ledger").unwrap().index("by_balance").is_ok());
        testbed.rename_table("ledger", "account").unwrap();
        assert_eq!(total(&testbed), 19);
        testbed.truncate_table("account").unwrap();
        assert_eq!(total(&testbed), 0);
        testbed.drop_index("account", "by_balance").unwrap();
        testbed.drop_table("account").unwrap();
        while !testbed.reclaim().unwrap() {}
        assert_eq!(testbed.verify().unwrap(), 0);
        assert!(testbed.catalog().tables().is_empty());
    }
}
