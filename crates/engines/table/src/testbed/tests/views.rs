//! Views of past moments, while writers go on.

use super::*;
use crate::index::Direction;

fn balances(view: &dyn View) -> Vec<(i64, i64)> {
    let table = view.catalog().table("account").unwrap().clone();
    let mut rows = view.scan(&table, None, &KeyRange::all(), Direction::Forward).unwrap();
    let mut all = Vec::new();
    while let Some((key, row)) = rows.next().unwrap() {
        assert_eq!(view.get(&table, &key).unwrap().as_ref(), Some(&row));
        let row = row.view(table.schema()).unwrap();
        all.push((row.int(0).unwrap(), row.int(1).unwrap()));
    }
    all
}

#[test]
fn a_view_stays_as_it_was_while_rows_tables_and_the_store_itself_go() {
    for kind in [Kind::Cow, Kind::NvmCow, Kind::NvmWbl] {
        let folder = tempfile::tempdir().unwrap();
        let testbed = Testbed::open(Some(kind), &options_in(folder.path(), Some(2))).unwrap();
        testbed.create_table(&accounts()).unwrap();
        let put = |id, amount| {
            testbed.transact(&[1], Durability::Immediate, |tx| add(tx, 1, id, amount)).unwrap();
        };
        (0..50).for_each(|id| put(id, id + 1));
        let seen: Vec<_> = (0..50).map(|id| (id, id + 1)).collect();
        let view = testbed.view(1).unwrap();
        assert!(balances(&*testbed.view(0).unwrap()).is_empty());
        thread::scope(|scope| {
            let reader = scope.spawn(|| (0..20).for_each(|_| assert_eq!(balances(&*view), seen)));
            for round in 0..10 {
                (0..50).for_each(|id| put(id, round));
            }
            reader.join().unwrap();
        });
        assert_ne!(balances(&*testbed.view(1).unwrap()), seen);
        testbed.drop_table("account").unwrap();
        testbed.create_table(&accounts()).unwrap();
        // Space that the view reads is not given back, and nobody waits for that.
        (0..20).for_each(|_| _ = testbed.reclaim().unwrap());
        (0..50).for_each(|id| put(id, -id - 1));
        assert_eq!(balances(&*view), seen);
        drop(testbed);
        // The store is in use as long as somebody reads it.
        assert!(Testbed::open(None, &options_in(folder.path(), None)).is_err());
        assert_eq!(balances(&*view), seen);
        drop(view);
        let testbed = Testbed::open(None, &options_in(folder.path(), None)).unwrap();
        while !testbed.reclaim().unwrap() {}
        assert_eq!(testbed.verify().unwrap(), 50);
    }
}

#[test]
fn methods_that_change_rows_in_place_say_that_they_have_no_views() {
    for kind in [Kind::InP, Kind::NvmInP, Kind::Log, Kind::NvmLog] {
        let testbed = Testbed::open(Some(kind), &options(1)).unwrap();
        assert!(matches!(testbed.view(0), Err(Error::NoViews { .. })));
        assert!(matches!(testbed.view(1), Err(Error::Partitions { .. })));
    }
}
