//! Stores that are not what they should be, and stores without room.

use std::fs;
use std::path::Path;

use super::*;

/// A store of two partitions in a folder, with a row in each.
fn store_in(folder: &Path, kind: Kind, id: i64) {
    let testbed = Testbed::open(Some(kind), &options_in(folder, Some(2))).unwrap();
    testbed.create_table(&accounts()).unwrap();
    testbed
        .transact(&[0, 1], Durability::Immediate, |tx| {
            add(tx, 0, id, 5)?;
            add(tx, 1, id, 6)
        })
        .unwrap();
}

fn reopened(folder: &Path) -> Result<i64> {
    let testbed = Testbed::open(None, &options_in(folder, None))?;
    testbed.verify()?;
    Ok(total(&testbed))
}

/// Exchanges two files or folders.
fn exchange(one: &Path, other: &Path) {
    let aside = one.with_extension("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(aside, other).unwrap();
}

#[test]
fn files_of_another_partition_or_store_are_refused_by_name_and_left_as_they_are() {
    for &kind in Kind::ALL.iter().filter(|kind| kind.has_files()) {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [here, there] = folders.each_ref().map(|folder| folder.path());
        store_in(here, kind, 1);
        store_in(there, kind, 2);
        let of = |folder: &Path, partition: &str| folder.join(FOLDER).join(partition);
        let pairs = [
            (of(here, "0"), of(here, "1")),
            (of(here, "0"), of(there, "0")),
            (of(here, "1"), of(there, "0")),
        ];
        for (one, other) in pairs {
            exchange(&one, &other);
            let refused = reopened(here).unwrap_err();
            assert!(refused.to_string().contains("of another store or partition"), "{refused}");
            exchange(&one, &other);
            assert_eq!(reopened(here).unwrap(), 11, "{kind}");
            assert_eq!(reopened(there).unwrap(), 11, "{kind}");
        }
    }
}

/// Adds rows to both partitions, each pair in a transaction, until one is refused.
fn fill(testbed: &Testbed, from: i64) -> (i64, Error) {
    let text = "t".repeat(100);
    let put = |tx: &mut Transaction<'_>, partition: usize, id: i64| {
        let table = tx.table(partition, "account")?;
        let row = Row::from_values(table.schema(), &values![id, 1, text.as_str()])?;
        tx.insert(partition, &table, &row)
    };
    let mut next = from;
    loop {
        let ids = next..next + 50;
        let done = testbed.transact(&[0, 1], Durability::Immediate, |tx| {
            ids.clone().try_for_each(|id| (0..2).try_for_each(|partition| put(tx, partition, id)))
        });
        match done {
            Ok(()) => next = ids.end,
            Err(error) => return (next, error),
        }
    }
}

#[test]
fn a_full_store_refuses_a_transaction_of_several_partitions_whole_and_reads_on() {
    for &kind in Kind::ALL {
        let mut options = options(2);
        options.pool_options.size_max = 16 << 20;
        let own: &mut TableOptions = options.own.get_mut();
        own.inp.log_file_bytes = 1 << 20;
        own.log.log.file_bytes = 1 << 20;
        own.nvm_log.memtable_bytes = 1 << 20;
        let testbed = Testbed::open(Some(kind), &options).unwrap();
        testbed.create_table(&accounts()).unwrap();
        let (next, refused) = fill(&testbed, 0);
        assert!(refused.is_refusal(), "{kind}: {refused}");
        assert!(next > 2_000, "{kind}: {next}");
        assert_eq!(total(&testbed), 2 * next, "{kind}");
        assert_eq!(testbed.verify().unwrap(), 2 * next as u64, "{kind}");
        let delete = |id| {
            testbed.transact(&[0, 1], Durability::Immediate, |tx| {
                (0..2).try_for_each(|partition| {
                    let table = tx.table(partition, "account")?;
                    tx.delete(partition, &table, &key(table.schema(), id)).map(drop)
                })
            })
        };
        let mut refused = None;
        let mut deleted = 0;
        while deleted < 2_000 && refused.is_none() {
            refused = delete(deleted).err();
            deleted += i64::from(refused.is_none());
        }
        assert_eq!(total(&testbed), 2 * (next - deleted), "{kind}");
        // A log that has no room has none for removals either.
        match kind {
            Kind::NvmInP | Kind::Cow | Kind::NvmCow | Kind::NvmWbl => {
                assert!(refused.is_none(), "{kind}: {refused:?}");
                while !testbed.reclaim().unwrap() {}
                let (again, refused) = fill(&testbed, next);
                assert!(refused.is_refusal(), "{kind}: {refused}");
                assert!(again >= next + 500, "{kind}: {again} rows, and {next} before");
                assert_eq!(total(&testbed), 2 * (again - deleted), "{kind}");
            }
            Kind::InP | Kind::Log | Kind::NvmLog => {
                assert!(refused.is_none_or(|refused| refused.is_refusal()), "{kind}");
            }
        }
        let rows = testbed.verify().unwrap();
        match testbed.drop_table("account") {
            Ok(()) => assert_eq!(testbed.verify().unwrap(), 0, "{kind}"),
            Err(refused) => {
                assert!(refused.is_refusal(), "{kind}: {refused}");
                assert_eq!(testbed.verify().unwrap(), rows, "{kind}");
                assert_eq!(total(&testbed), rows as i64, "{kind}");
            }
        }
    }
}
