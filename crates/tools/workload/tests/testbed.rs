//! TPC-C and YCSB on the testbed's recovery methods: all conditions hold, over one partition and over two.

use std::sync::Arc;

use halite_contract::{Durability, EngineOptions, Partitioning};
use halite_table::{Kind, Testbed};
use halite_workload::store::TestbedStore;
use halite_workload::tpcc::{End, RunOptions, Scale, check, load, run, schema};
use halite_workload::{Error, ycsb003};

fn options(folder: &std::path::Path, partitions: usize) -> EngineOptions {
    let mut options = EngineOptions::new(folder.join("pool"));
    options.pool_options.size_max = 512 << 20;
    options.partitioning = Some(Partitioning::Hash(partitions));
    options
}

fn assert_consistent(store: &TestbedStore) {
    let report = check(store, &mut |_, _| true).unwrap().unwrap();
    assert!(report.is_consistent(), "{:?}", report.violations);
    store.testbed().verify().unwrap();
}

#[test]
fn all_conditions_hold_under_each_method() {
    for &kind in Kind::ALL {
        for partitions in [1, 2] {
            let folder = tempfile::tempdir().unwrap();
            let open = || {
                Arc::new(Testbed::open(Some(kind), &options(folder.path(), partitions)).unwrap())
            };
            let testbed = open();
            let durability = Durability::Deferred;
            let missing = TestbedStore::open(testbed.clone(), schema::schemas(), durability);
            assert!(matches!(missing, Err(Error::NotLoaded)));
            let store = TestbedStore::create(testbed, schema::schemas(), durability).unwrap();
            assert!(load(&store, Scale::tiny(2), 7, 2, &|_, _| true).unwrap());
            assert_consistent(&store);
            drop(store);
            let store =
                TestbedStore::open(open(), schema::schemas(), Durability::Immediate).unwrap();
            let options =
                RunOptions { threads: 2, end: End::Transactions(300), ..RunOptions::default() };
            let report = run(&store, &options, &|_| true).unwrap();
            assert_eq!(report.transactions(), 300, "{kind}");
            let measured = &report.measured;
            assert!(measured.remote_payments > 0 && measured.delivered > 0, "{kind}");
            assert_consistent(&store);
        }
    }
}

#[test]
fn ycsb_runs_under_each_method() {
    for &kind in Kind::ALL {
        let folder = tempfile::tempdir().unwrap();
        let testbed = Arc::new(Testbed::open(Some(kind), &options(folder.path(), 2)).unwrap());
        let store =
            TestbedStore::create(testbed, ycsb003::schemas(), Durability::Deferred).unwrap();
        for updates_one in [false, true] {
            let mix = ycsb003::Mix::WriteHeavy;
            let workload = ycsb003::Workload {
                tuples: 1_100,
                homes: 2,
                mix,
                updates_one,
                ..Default::default()
            };
            if !updates_one {
                ycsb003::load(&store, &workload, |_| {}).unwrap();
            }
            let mut client = ycsb003::Client::new(&workload, 5).unwrap();
            let writes = (0..200).filter(|_| client.run(&store).unwrap()).count();
            assert!(writes > 150, "{writes}");
        }
        assert_eq!(store.testbed().verify().unwrap(), 1_100);
    }
}
