//! Fences, a full pool, and a transaction that is too large.

use std::sync::Arc;

use halite_alloc::{Error as SpaceError, Segments};
use halite_pmem::PoolOptions;
use tempfile::TempDir;

use super::house::HOUSE;
use super::*;
use crate::{Change, Partition, TableSchema, Type, values};

fn partition(size_max: u64) -> ((Arc<Segments>, TempDir), Partition<NvmInP>, Table) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut options = PoolOptions::default();
    options.size_max = size_max;
    let segments = Segments::create(&folder.path().join("pool"), &options).unwrap();
    segments.install().unwrap();
    let method = NvmInP::open(&segments.device(1), Options::default()).unwrap();
    let mut partition = Partition::new(method).unwrap();
    let builder = TableSchema::builder("t")
        .column("id", Type::Int32)
        .column("number", Type::Int64)
        .column("text", Type::VarChar(2_000));
    let schema = builder.primary_key(["id"]).index("by_number", ["number"]).build().unwrap();
    partition.create_table(schema).unwrap();
    let table = Table::clone(partition.catalog().table("t").unwrap());
    ((segments, folder), partition, table)
}

fn row(table: &Table, id: i32, text: &str) -> Row {
    Row::from_values(table.schema(), &values![id, i64::from(id) * 7, text]).unwrap()
}

fn key(table: &Table, id: i32) -> Vec<u8> {
    table.schema().primary_key().encode(&values![id]).unwrap()
}

/// Runs transactions, and returns the fences of each, in order.
fn fences(
    segments: &Segments,
    partition: &mut Partition<NvmInP>,
    transactions: impl IntoIterator<Item = i32>,
    mut run: impl FnMut(&mut Partition<NvmInP>, i32) -> Result<()>,
) -> Vec<u64> {
    let mut fences = Vec::new();
    for id in transactions {
        let before = segments.pool().traffic();
        partition.begin().unwrap();
        run(partition, id).unwrap();
        partition.commit().unwrap();
        partition.sync().unwrap();
        fences.push((segments.pool().traffic() - before).fences);
    }
    fences.sort_unstable();
    fences
}

#[test]
fn a_transaction_costs_two_fences_whatever_it_changes() {
    let ((segments, _folder), mut partition, table) = partition(64 << 20);
    let median = |fences: &[u64]| fences[fences.len() / 2];
    let inserts = fences(&segments, &mut partition, 0..2_000, |partition, id| {
        partition.insert(&table, &row(&table, id * 3, "salt"))
    });
    assert_eq!(median(&inserts), 2);
    let mean = inserts.iter().sum::<u64>() as f64 / inserts.len() as f64;
    assert!(mean <= 2.5, "{mean} fences an insertion, those of splits included");
    let updates = fences(&segments, &mut partition, 0..500, |partition, id| {
        let changes = [Change::new(2, "rock")];
        partition.update(&table, &key(&table, id * 3), &changes).map(drop)
    });
    assert_eq!((updates[0], updates[updates.len() - 1]), (2, 2));
    let moved = fences(&segments, &mut partition, 500..600, |partition, id| {
        let changes = [Change::new(1, 5_i64)];
        partition.update(&table, &key(&table, id * 3), &changes).map(drop)
    });
    assert_eq!(median(&moved), 2);
    let deletes = fences(&segments, &mut partition, 600..700, |partition, id| {
        partition.delete(&table, &key(&table, id * 3)).map(drop)
    });
    assert_eq!(median(&deletes), 2);
    // As many rows as an order has lines, and as many that are changed.
    let orders = fences(&segments, &mut partition, 1_000..1_100, |partition, id| {
        for line in 0..10 {
            partition.insert(&table, &row(&table, 10_000 + id * 10 + line, "line"))?;
            partition.update(&table, &key(&table, line * 3), &[Change::new(2, "stock")])?;
        }
        Ok(())
    });
    let of_orders = orders.iter().sum::<u64>() as f64 / orders.len() as f64;
    println!("an insertion {mean}, an order {of_orders}: fences in the mean");
    assert!(of_orders <= 4.5, "{of_orders} fences an order, those of splits included");
    assert_eq!(orders[0], 2);
    // Reads, an empty transaction and an abort have nothing to make durable.
    let nothing = fences(&segments, &mut partition, [0], |partition, _| {
        partition.get(&table, &key(&table, 0)).map(drop)
    });
    assert_eq!(nothing, [0]);
    partition.verify().unwrap();
}

#[test]
fn a_full_pool_refuses_a_transaction_and_takes_removals() {
    let (_medium, mut partition, table) = partition(10 << 20);
    let text = "t".repeat(2_000);
    let mut count = 0;
    let error = loop {
        partition.begin().unwrap();
        let insert = |partition: &mut Partition<NvmInP>, id| {
            partition.insert(&table, &row(&table, id, &text))
        };
        (0..10)
            .try_for_each(|_| {
                count += 1;
                insert(&mut partition, count)
            })
            .unwrap();
        if let Err(error) = partition.commit() {
            break error;
        }
    };
    assert!(error.is_refusal(), "{error}");
    // A statement for which there is no room leaves the partition as it was.
    let create = |partition: &mut Partition<NvmInP>, number: u32| {
        let builder = TableSchema::builder(&format!("t{number}")).column("id", Type::Int32);
        partition.create_table(builder.primary_key(["id"]).build().unwrap())
    };
    let refused = (0..500).find_map(|number| create(&mut partition, number).err()).unwrap();
    assert!(matches!(refused, Error::Heap(_) | Error::Index(_)), "{refused}");
    let usage = partition.method().heap().usage().unwrap();
    // But for the space that is held back, nothing is reserved.
    let house = owner(HOUSE);
    let mut owners = usage.owners.iter();
    assert!(owners.all(|(&owner, usage)| usage.reserved == 0 || owner == house), "{usage:?}");
    assert!(refused.is_refusal(), "{refused}");
    let there = u64::try_from(count - 10).unwrap();
    assert_eq!(partition.verify().unwrap(), there);
    assert!(partition.get(&table, &key(&table, count)).unwrap().is_none());
    for id in 1..=count / 2 {
        partition.begin().unwrap();
        assert!(partition.delete(&table, &key(&table, id)).unwrap());
        partition.commit().unwrap();
    }
    for id in 1..=count / 3 {
        partition.begin().unwrap();
        partition.insert(&table, &row(&table, id, &text)).unwrap();
        partition.commit().unwrap();
    }
    partition.verify().unwrap();
}

/// A row has two slots, and an entry in two indexes.
#[test]
fn a_full_pool_takes_the_removal_of_all_rows_in_one_transaction() {
    let (_medium, mut partition, table) = partition(24 << 20);
    let text = "t".repeat(900);
    for round in 0..3 {
        let mut count = 0;
        let refused = loop {
            partition.begin().unwrap();
            (count..count + 10)
                .try_for_each(|id| partition.insert(&table, &row(&table, id, &text)))
                .unwrap();
            if let Err(error) = partition.commit() {
                break error;
            }
            count += 10;
        };
        assert!(refused.is_refusal() && count > 10_000, "{round}: {count}, {refused}");
        partition.begin().unwrap();
        for id in 0..count {
            assert!(partition.delete(&table, &key(&table, id)).unwrap());
        }
        partition.commit().unwrap();
        assert_eq!(partition.verify().unwrap(), 0);
    }
}

#[test]
fn one_index_too_many_is_refused_and_nothing_else() {
    let (_medium, mut partition, table) = partition(256 << 20);
    let create = |partition: &mut Partition<NvmInP>, number: u32| {
        let builder = TableSchema::builder(&format!("t{number}")).column("id", Type::Int32);
        partition.create_table(builder.primary_key(["id"]).build().unwrap())
    };
    // The heap has a root for each.
    let refused = (0..2_000).find_map(|number| create(&mut partition, number).err()).unwrap();
    let is_named =
        matches!(&refused, Error::Heap(error) if matches!(**error, SpaceError::Publication { .. }));
    assert!(is_named, "{refused}");
    partition.begin().unwrap();
    partition.insert(&table, &row(&table, 1, "salt")).unwrap();
    partition.commit().unwrap();
    partition.drop_table("t0").unwrap();
    create(&mut partition, 2_000).unwrap();
    assert_eq!(partition.verify().unwrap(), 1);
}

#[test]
fn a_transaction_beyond_the_longest_log_is_refused_whole() {
    let (_medium, mut partition, table) = partition(256 << 20);
    let insert_all = |partition: &mut Partition<NvmInP>, ids: std::ops::Range<i32>| {
        partition.begin().unwrap();
        for id in ids {
            partition.insert(&table, &row(&table, id, "text")).unwrap();
        }
        partition.commit()
    };
    // Longer than the log is at first.
    insert_all(&mut partition, 0..4_000).unwrap();
    let error = insert_all(&mut partition, 4_000..120_000).unwrap_err();
    assert!(matches!(error, Error::TransactionTooLarge { .. }), "{error}");
    assert_eq!(partition.verify().unwrap(), 4_000);
    insert_all(&mut partition, 4_000..4_100).unwrap();
    assert_eq!(partition.verify().unwrap(), 4_100);
}
