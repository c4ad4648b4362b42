//! TPC-C on the engines of the house, through their face.

use std::time::Duration;

use halite::{Database, Isolation, Locking, TransactionOptions};
use halite_table::{Timestamp, values};
use halite_workload::store::{Homes, KvOptions, KvStore, Outcome, Store};
use halite_workload::tpcc::inputs::{Customer, Line, NewOrder, OrderStatus, Payment};
use halite_workload::tpcc::procedures::{order, pay, status};
use halite_workload::tpcc::{End, RunOptions, Scale, check, load, run, schema};
use halite_workload::{Error, ycsb003};

const ENGINES: [&str; 3] = ["indexlog", "lsm", "betree"];
const NOW: Timestamp = Timestamp(1_000_000);

struct Opened {
    db: Database,
    _folder: tempfile::TempDir,
}

fn open(engine: &str) -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::builder().engine(engine).open(folder.path().join("db")).unwrap();
    Opened { db, _folder: folder }
}

fn loaded(db: &Database, options: KvOptions) -> KvStore {
    let store = KvStore::create(db, schema::schemas(), options).unwrap();
    assert!(load(&store, Scale::tiny(2), 7, 2, &|_, _| true).unwrap());
    store
}

fn assert_consistent(store: &dyn Store) {
    let report = check(store, &mut |_, _| true).unwrap().unwrap();
    assert!(report.is_consistent(), "{:?}", report.violations);
}

#[test]
fn all_conditions_hold_on_each_engine_after_two_threads() {
    for engine in ENGINES {
        let opened = open(engine);
        let store = loaded(&opened.db, KvOptions::default());
        assert_consistent(&store);
        let options =
            RunOptions { threads: 2, end: End::Transactions(400), ..RunOptions::default() };
        let report = run(&store, &options, &|_| true).unwrap();
        assert_eq!(report.transactions(), 400, "{engine}");
        assert!(report.measured.remote_payments > 0 && report.measured.delivered > 0, "{engine}");
        assert_consistent(&store);
    }
}

#[test]
fn all_conditions_hold_under_every_isolation_and_locking() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        for locking in [Locking::Optimistic, Locking::Pessimistic] {
            let db = Database::in_memory().unwrap();
            let transaction = TransactionOptions::default().isolation(isolation).locking(locking);
            let store = loaded(&db, KvOptions { transaction, ..KvOptions::default() });
            let options =
                RunOptions { threads: 3, end: End::Transactions(900), ..RunOptions::default() };
            assert_eq!(run(&store, &options, &|_| true).unwrap().transactions(), 900);
            assert_consistent(&store);
        }
    }
}

#[test]
fn a_run_and_a_check_that_are_broken_off_end() {
    let db = Database::in_memory().unwrap();
    let store = loaded(&db, KvOptions::default());
    let far = End::After(Duration::from_secs(3600));
    for (waits, begun_max) in [(false, 40), (true, 2)] {
        let options = RunOptions { threads: 3, end: far, waits, ..RunOptions::default() };
        let report = run(&store, &options, &|begun| begun < begun_max).unwrap();
        assert!(report.is_broken_off);
        assert!(report.transactions() <= begun_max, "{}", report.transactions());
    }
    let whole = RunOptions { end: End::Transactions(10), ..RunOptions::default() };
    assert!(!run(&store, &whole, &|_| true).unwrap().is_broken_off);
    // Two warehouses with two districts each.
    for steps in 1..=8 {
        assert!(check(&store, &mut |done, _| done < steps).unwrap().is_none(), "{steps}");
    }
    assert!(check(&store, &mut |done, all| done < 9 && all == 8).unwrap().is_some());
}

#[test]
fn a_store_opened_again_goes_on() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let open = || Database::builder().engine(engine).open(&path).unwrap();
        let db = open();
        let refused = KvStore::open(&db, schema::schemas(), KvOptions::default());
        assert!(matches!(refused, Err(Error::NotLoaded)), "{engine}");
        let store = loaded(&db, KvOptions::default());
        let options = RunOptions { end: End::Transactions(50), ..RunOptions::default() };
        run(&store, &options, &|_| true).unwrap();
        drop((store, db));
        let db = open();
        let store = KvStore::open(&db, schema::schemas(), KvOptions::default()).unwrap();
        assert_consistent(&store);
        run(&store, &options, &|_| true).unwrap();
        assert_consistent(&store);
    }
}

fn order_of(customer: u32, items: &[u32]) -> NewOrder {
    let line = |item: &u32| Line { item: *item, supplier: 1, quantity: 1 };
    NewOrder { warehouse: 1, district: 1, customer, lines: items.iter().map(line).collect() }
}

fn last_order(store: &dyn Store, customer: u32) -> u32 {
    let question = OrderStatus { warehouse: 1, district: 1, customer: Customer::Number(customer) };
    let mut last = 0;
    store
        .run(Homes::Of(&[1]), &mut |tx| {
            last = status(tx, &question)?.order;
            Ok(Outcome::Commit)
        })
        .unwrap();
    last
}

fn balance(store: &dyn Store, customer: u32) -> i64 {
    let question = OrderStatus { warehouse: 1, district: 1, customer: Customer::Number(customer) };
    let mut cents = 0;
    store
        .run(Homes::Of(&[1]), &mut |tx| {
            cents = status(tx, &question)?.balance_cents;
            Ok(Outcome::Commit)
        })
        .unwrap();
    cents
}

/// Isolation tests 1 and 2 (§3.4.2.1, §3.4.2.2).
#[test]
fn an_order_is_seen_only_once_it_is_committed() {
    for engine in ENGINES {
        let opened = open(engine);
        let store = loaded(&opened.db, KvOptions::default());
        let before = last_order(&store, 3);
        for (items, outcome) in [(&[4, 0][..], Outcome::Rollback), (&[4, 5], Outcome::Commit)] {
            let ended = store.run(Homes::Of(&[1]), &mut |tx| {
                let ordered = order(tx, &order_of(3, items), NOW)?;
                assert_eq!(last_order(&store, 3), before, "{engine}: it is not committed yet");
                Ok(if ordered.is_some() { Outcome::Commit } else { Outcome::Rollback })
            });
            assert_eq!(ended.unwrap().outcome, outcome);
            let is_new = last_order(&store, 3) != before;
            assert_eq!(is_new, outcome == Outcome::Commit, "{engine}");
        }
        assert_consistent(&store);
    }
}

/// Isolation tests 3 and 4 (§3.4.2.3, §3.4.2.4): of two orders of a district the second gets the next number, or that
/// of the first, if the first is rolled back.
#[test]
fn two_orders_of_a_district_get_numbers_one_after_the_other() {
    for engine in ENGINES {
        let opened = open(engine);
        let store = loaded(&opened.db, KvOptions::default());
        for rolls_back in [true, false] {
            let (mut outer, mut inner) = (0, 0);
            store
                .run(Homes::Of(&[1]), &mut |tx| {
                    outer = order(tx, &order_of(3, &[4]), NOW)?.unwrap().order;
                    if inner == 0 {
                        store.run(Homes::Of(&[1]), &mut |tx| {
                            inner = order(tx, &order_of(5, &[6]), NOW)?.unwrap().order;
                            Ok(Outcome::Commit)
                        })?;
                    }
                    Ok(if rolls_back { Outcome::Rollback } else { Outcome::Commit })
                })
                .unwrap();
            let distance = if rolls_back { 0 } else { 1 };
            assert_eq!(outer - inner, distance, "{engine}: the inner order came first");
        }
        assert_consistent(&store);
    }
}

/// Isolation tests 5 and 6 (§3.4.2.5, §3.4.2.6), with two payments: neither is lost, and one that is rolled back has
/// no effect.
#[test]
fn two_payments_of_a_customer_both_count() {
    let payment = Payment {
        warehouse: 1,
        district: 1,
        customer_warehouse: 1,
        customer_district: 1,
        customer: Customer::Number(3),
        cents: 500,
    };
    for engine in ENGINES {
        let opened = open(engine);
        let store = loaded(&opened.db, KvOptions::default());
        let before = balance(&store, 3);
        for (outcome, paid) in [(Outcome::Rollback, 500), (Outcome::Commit, 1500)] {
            let mut has_paid = false;
            let ended = store.run(Homes::Of(&[1]), &mut |tx| {
                pay(tx, &payment, NOW)?;
                if !has_paid {
                    store.run(Homes::Of(&[1]), &mut |tx| {
                        pay(tx, &payment, NOW).map(|_| Outcome::Commit)
                    })?;
                    has_paid = true;
                }
                Ok(outcome)
            });
            assert_eq!(ended.unwrap().retries > 0, outcome == Outcome::Commit, "{engine}");
            assert_eq!(balance(&store, 3), before - paid, "{engine}");
        }
        assert_consistent(&store);
    }
}

/// Isolation test 7 (§3.4.2.7): a transaction that reads prices twice reads the same ones.
#[test]
fn prices_stay_as_they_are_within_a_transaction() {
    for engine in ENGINES {
        let opened = open(engine);
        let store = loaded(&opened.db, KvOptions::default());
        let mut prices = Vec::new();
        store
            .run(Homes::Of(&[1]), &mut |tx| {
                prices.clear();
                for _ in 0..2 {
                    tx.get(schema::ITEM, &values![9], &mut |row| {
                        prices.push(row.decimal(schema::item::I_PRICE)?);
                        Ok(())
                    })?;
                    store.run(Homes::Everywhere, &mut |tx| {
                        let dearer = halite_table::Change::new(schema::item::I_PRICE, 77);
                        tx.update(schema::ITEM, &values![9], &[dearer])?;
                        Ok(Outcome::Commit)
                    })?;
                }
                Ok(Outcome::Commit)
            })
            .unwrap();
        assert_eq!(prices[0], prices[1], "{engine}");
    }
}

#[test]
fn the_ycsb_of_the_source_runs_on_each_engine() {
    for engine in ENGINES {
        let opened = open(engine);
        let workload = ycsb003::Workload { tuples: 500, ..ycsb003::Workload::default() };
        let store = KvStore::create(&opened.db, ycsb003::schemas(), KvOptions::default()).unwrap();
        ycsb003::load(&store, &workload, |_| {}).unwrap();
        let mut client = ycsb003::Client::new(&workload, 5).unwrap();
        let writes: u32 = (0..200).map(|_| u32::from(client.run(&store).unwrap())).sum();
        assert!((60..140).contains(&writes), "{engine}: {writes} of 200");
    }
}
