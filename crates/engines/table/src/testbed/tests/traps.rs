//! What a testbed that only looks like one would do: docs/TABLE.md has the traps, and where each is looked for.

use super::*;

fn put(tx: &mut Transaction<'_>, partition: usize, id: i64) -> Result<()> {
    let table = tx.table(partition, "account")?;
    let row = Row::from_values(table.schema(), &values![id, 1, "a note of some length"])?;
    tx.insert(partition, &table, &row)
}

/// Adds rows to a partition.
fn fill(testbed: &Testbed, partition: usize, rows: i64) {
    for from in (0..rows).step_by(500) {
        testbed
            .transact(&[partition], Durability::Immediate, |tx| {
                (from..from + 500).try_for_each(|id| put(tx, partition, id))
            })
            .unwrap();
    }
}

fn of_pool() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| !kind.has_files())
}

#[test]
fn a_store_in_a_pool_is_opened_without_its_rows() {
    for kind in of_pool() {
        let cost = |rows: i64| {
            let folder = tempfile::tempdir().unwrap();
            let testbed = Testbed::open(Some(kind), &options_in(folder.path(), Some(1))).unwrap();
            testbed.create_table(&accounts()).unwrap();
            testbed.create_index("account", "by_note", &["note"], false).unwrap();
            fill(&testbed, 0, rows);
            drop(testbed);
            let testbed = Testbed::open(None, &options_in(folder.path(), None)).unwrap();
            let loads = testbed.pool().traffic().loads;
            assert_eq!(total(&testbed), rows);
            loads
        };
        let (few, many) = (cost(500), cost(20_000));
        // The heap has more segments.
        assert!(many < few + 500, "{kind}: {few} loads for 500 rows, {many} for 20,000");
    }
}

#[test]
fn an_index_is_read_through_the_pool_whose_latency_is_emulated() {
    for kind in of_pool() {
        let testbed = Testbed::open(Some(kind), &options(1)).unwrap();
        testbed.create_table(&accounts()).unwrap();
        fill(&testbed, 0, 5_000);
        let before = testbed.pool().traffic().loads;
        // There is no tuple to read.
        let found = testbed.transact(&[0], Durability::Deferred, |tx| {
            let table = tx.table(0, "account")?;
            tx.get(0, &table, &key(table.schema(), 1_000_000))
        });
        assert_eq!(found.unwrap(), None);
        assert!(testbed.pool().traffic().loads > before + 1, "{kind}");
    }
}

#[test]
fn a_partition_allocates_and_commits_while_another_has_not_finished_its_commit() {
    for &kind in Kind::ALL {
        let testbed = Testbed::open(Some(kind), &options(2)).unwrap();
        testbed.create_table(&accounts()).unwrap();
        let other =
            || thread::scope(|scope| scope.spawn(|| fill(&testbed, 1, 500)).join().unwrap());
        testbed
            .transact_and(
                &[0],
                Durability::Immediate,
                |tx| (0..500).try_for_each(|id| put(tx, 0, id)),
                |()| other(),
            )
            .unwrap();
        assert_eq!(total(&testbed), 1_000, "{kind}");
        testbed.verify().unwrap();
    }
}

#[test]
fn a_footprint_is_of_what_is_in_use_and_falls_when_a_table_goes() {
    for &kind in Kind::ALL {
        let mut options = options(1);
        let own: &mut TableOptions = options.own.get_mut();
        own.nvm_log.memtable_bytes = 64 << 10;
        let testbed = Testbed::open(Some(kind), &options).unwrap();
        testbed.create_table(&accounts()).unwrap();
        testbed.create_index("account", "by_note", &["note"], false).unwrap();
        fill(&testbed, 0, 5_000);
        testbed.checkpoint().unwrap();
        let full = testbed.footprint().unwrap();
        // A row has two numbers and a note.
        assert!(full.table >= 5_000 * 37 && full.index > 5_000 * 21, "{kind}: {full:?}");
        testbed.drop_table("account").unwrap();
        while !testbed.reclaim().unwrap() {}
        let empty = testbed.footprint().unwrap();
        assert!(empty.table < full.table / 10, "{kind}: {full:?}, then {empty:?}");
        assert!(empty.index < full.index / 10, "{kind}: {full:?}, then {empty:?}");
        assert_eq!(testbed.verify().unwrap(), 0);
    }
}
