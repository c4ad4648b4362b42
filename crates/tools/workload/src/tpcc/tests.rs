//! Loads, runs and checks of the whole workload on the model.

use std::time::Duration;

use halite_table::{Change, Timestamp, ValueRef, values};

use super::inputs::{Customer, Delivery, Line, NewOrder, OrderStatus, Payment, StockLevel};
use super::mix::Kind;
use super::procedures::{count_low_stock, deliver, order, pay, status};
use super::rows::money;
use super::schema::{
    self, CUSTOMER, DISTRICT, HISTORY, NEW_ORDER, ORDER, ORDER_LINE, STOCK, WAREHOUSE, schemas,
};
use super::{End, Loaded, RunOptions, Scale, check, load, run};
use crate::store::{Homes, ModelStore, Outcome, Store, Transaction};
use crate::{Error, Result};

const NOW: Timestamp = Timestamp(1_000_000);

/// No condition.
const NONE: [u8; 0] = [];

fn loaded(scale: Scale) -> ModelStore {
    let store = ModelStore::new(schemas());
    assert!(load(&store, scale, 7, 2, &|_, _| true).unwrap());
    store
}

fn commit<T>(store: &dyn Store, mut body: impl FnMut(&mut dyn Transaction) -> Result<T> + Send) -> T
where
    T: Send,
{
    let mut result = None;
    store
        .run(Homes::Of(&[1]), &mut |tx| {
            result = Some(body(tx)?);
            Ok(Outcome::Commit)
        })
        .unwrap();
    result.unwrap()
}

fn run_some(store: &dyn Store, count: u64) -> super::Report {
    let options = RunOptions { threads: 2, end: End::Transactions(count), ..RunOptions::default() };
    run(store, &options, &|_| true).unwrap()
}

/// The conditions that are violated.
fn violated(store: &dyn Store) -> Vec<u8> {
    let report = check(store, &mut |_, _| true).unwrap().unwrap();
    let mut conditions: Vec<_> = report.violations.iter().map(|found| found.condition).collect();
    conditions.dedup();
    conditions.sort_unstable();
    conditions.dedup();
    conditions
}

#[test]
fn one_warehouse_has_the_rows_of_the_specification() {
    let store = loaded(Scale::full(1));
    let sizes = store.sizes();
    let rows = |table: &str| sizes.iter().find(|(name, ..)| name == table).unwrap();
    let counts = [
        ("WAREHOUSE", 1),
        ("DISTRICT", 10),
        ("CUSTOMER", 30_000),
        ("CUSTOMER.by_name", 30_000),
        ("HISTORY", 30_000),
        ("NEW_ORDER", 9_000),
        ("ORDERS", 30_000),
        ("ORDERS.by_customer", 30_000),
        ("ITEM", 100_000),
        ("STOCK", 100_000),
    ];
    for (table, count) in counts {
        assert_eq!(rows(table).1, count, "{table}");
    }
    let lines = rows("ORDER_LINE").1;
    assert!(lines.abs_diff(300_000) < 3000, "{lines} order lines");
    // §1.2.1 tells bytes of rows as they may be at most; a table's mean row is near them.
    for (table, bytes) in [("CUSTOMER", 655), ("STOCK", 306), ("ITEM", 82), ("ORDER_LINE", 54)] {
        let (_, count, found) = rows(table);
        let mean = found / count;
        assert!((bytes * 7 / 10..bytes * 2).contains(&mean), "{table}: {mean} B a row");
    }
    assert_eq!(violated(&store), NONE);
}

#[test]
fn all_conditions_hold_after_the_load_and_after_runs() {
    let store = loaded(Scale::tiny(3));
    assert_eq!(violated(&store), NONE);
    let report = run_some(&store, 3000);
    assert_eq!(report.transactions(), 3000);
    for (kind, share) in Kind::ALL.into_iter().zip([45.0, 43.0, 4.0, 4.0, 4.0]) {
        assert!((report.share_percent(kind) - share).abs() < 0.5, "{kind}");
    }
    let measured = &report.measured;
    assert!((2..40).contains(&measured.rolled_back), "{} rolled back", measured.rolled_back);
    let remote = measured.remote_payments as f64 / report.count(Kind::Payment) as f64;
    assert!((0.11..0.19).contains(&remote), "{remote} of the payments are remote");
    let remote = measured.remote_lines as f64 / measured.lines as f64;
    assert!((0.004..0.018).contains(&remote), "{remote} of the lines are remote");
    assert_eq!(measured.delivered + measured.skipped, report.count(Kind::Delivery) * 2);
    assert!(report.tpm() > 0.0 && !report.exceeds_terminals());
    let checked = check(&store, &mut |_, _| true).unwrap().unwrap();
    assert!(checked.is_consistent(), "{:?}", checked.violations);
    let orders = report.count(Kind::NewOrder) - measured.rolled_back;
    assert_eq!(checked.orders, 3 * 2 * 30 + orders);
}

#[test]
fn deliveries_of_districts_without_orders_are_skipped() {
    let store = loaded(Scale::tiny(1));
    let input = Delivery { warehouse: 1, carrier: 3 };
    let deliver_all = || commit(&store, |tx| deliver(tx, &input, 2, NOW));
    assert_eq!(deliver_all().orders, [(1, 22), (2, 22)]);
    (0..8).for_each(|_| assert!(deliver_all().skipped.is_empty()));
    assert_eq!(deliver_all().skipped, [1, 2]);
    assert_eq!(violated(&store), NONE);
}

#[test]
fn an_order_with_an_unused_item_has_no_effect() {
    let store = loaded(Scale::tiny(2));
    let before = store.content();
    let line = |item| Line { item, supplier: 2, quantity: 5 };
    let mut input =
        NewOrder { warehouse: 1, district: 1, customer: 3, lines: vec![line(5), line(6), line(0)] };
    let ended = store.run(Homes::Of(&input.warehouses()), &mut |tx| {
        assert_eq!(order(tx, &input, NOW)?, None);
        Ok(Outcome::Rollback)
    });
    assert_eq!(ended.unwrap().outcome, Outcome::Rollback);
    assert_eq!(store.content(), before);
    input.lines.pop();
    let ordered = commit(&store, |tx| order(tx, &input, NOW)).unwrap();
    assert_eq!((ordered.order, ordered.lines.len()), (31, 2));
    assert!(ordered.lines.iter().all(|line| line.cents == 5 * line.price_cents));
    let remote = commit(&store, |tx| {
        super::rows::read(tx, STOCK, &values![2, 5], |row| {
            Ok(row.uint(schema::stock::S_REMOTE_CNT)?)
        })
    });
    assert_eq!(remote, 1);
    assert_eq!(violated(&store), NONE);
}

#[test]
fn a_body_that_fails_has_no_effect() {
    let store = loaded(Scale::tiny(1));
    let before = store.content();
    let input = Payment {
        warehouse: 1,
        district: 1,
        customer_warehouse: 1,
        customer_district: 1,
        customer: Customer::Number(99),
        cents: 100,
    };
    let failed =
        store.run(Homes::Of(&[1]), &mut |tx| pay(tx, &input, NOW).map(|_| Outcome::Commit));
    assert!(matches!(failed, Err(Error::Missing { table, .. }) if table == "CUSTOMER"));
    assert_eq!(store.content(), before);
}

#[test]
fn the_middle_customer_of_a_name_pays_and_bad_credit_is_noted() {
    let store = loaded(Scale::tiny(1));
    let name = "EINGEINGEING";
    commit(&store, |tx| {
        for (customer, first) in [(3, "c"), (4, "a"), (5, "d"), (6, "b")] {
            let changes = [
                Change::new(schema::customer::C_LAST, name),
                Change::new(schema::customer::C_FIRST, first),
                Change::new(schema::customer::C_CREDIT, "BC"),
            ];
            assert!(tx.update(CUSTOMER, &values![1, 1, customer], &changes)?);
        }
        Ok(())
    });
    let input = Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse: 1,
        customer_district: 1,
        customer: Customer::Name(name.into()),
        cents: 12_345,
    };
    let paid = commit(&store, |tx| pay(tx, &input, NOW));
    assert_eq!((paid.customer, paid.name.first.as_str()), (6, "b"), "of a, b, c, d the second");
    assert_eq!(paid.balance_cents, -1000 - 12_345);
    let data = paid.data.unwrap();
    assert!(data.starts_with("6 1 1 2 1 123.45 ") && data.len() == 200, "{data}");
    let question = OrderStatus { warehouse: 1, district: 1, customer: input.customer.clone() };
    let status = commit(&store, |tx| status(tx, &question));
    assert_eq!((status.customer, status.balance_cents), (6, -13_345));
    assert_eq!(violated(&store), NONE);
}

#[test]
fn the_last_order_and_its_lines_are_told() {
    let store = loaded(Scale::tiny(1));
    let lines = [4, 9].map(|item| Line { item, supplier: 1, quantity: 2 }).to_vec();
    let input = NewOrder { warehouse: 1, district: 2, customer: 8, lines };
    let ordered = commit(&store, |tx| order(tx, &input, NOW)).unwrap();
    let question = OrderStatus { warehouse: 1, district: 2, customer: Customer::Number(8) };
    let last = commit(&store, |tx| status(tx, &question));
    assert_eq!((last.order, last.carrier, last.entered), (ordered.order, None, NOW));
    let items: Vec<_> = last.lines.iter().map(|line| (line.item, line.delivered)).collect();
    assert_eq!(items, [(4, None), (9, None)]);
}

#[test]
fn low_stock_counts_each_item_of_the_last_twenty_orders_once() {
    let store = loaded(Scale::tiny(1));
    commit(&store, |tx| {
        for item in 1..=100 {
            let quantity = if item <= 2 { 9 } else { 50 };
            let changes = [Change::new(schema::stock::S_QUANTITY, quantity)];
            tx.update(STOCK, &values![1, item], &changes)?;
        }
        Ok(())
    });
    let order_items = |items: [u32; 2]| {
        let lines = items.map(|item| Line { item, supplier: 1, quantity: 1 }).to_vec();
        let input = NewOrder { warehouse: 1, district: 1, customer: 1, lines };
        commit(&store, |tx| order(tx, &input, NOW)).unwrap();
    };
    let question = StockLevel { warehouse: 1, district: 1, threshold: 10 };
    order_items([1, 1]);
    commit(&store, |tx| {
        let changes = [Change::new(schema::stock::S_QUANTITY, 9)];
        tx.update(STOCK, &values![1, 1], &changes)
    });
    (0..19).for_each(|_| order_items([50, 51]));
    assert_eq!(commit(&store, |tx| count_low_stock(tx, &question)), 1, "item 1, once");
    order_items([50, 51]);
    assert_eq!(commit(&store, |tx| count_low_stock(tx, &question)), 0, "21 orders ago");
}

#[test]
fn a_load_that_was_broken_off_is_refused_until_it_is_whole() {
    let store = ModelStore::new(schemas());
    assert!(matches!(Loaded::open(&store), Err(Error::NotLoaded)));
    let scale = Scale::tiny(2);
    for stop in 1..4 {
        assert!(!load(&store, scale, 7, 1, &|done, _| done % 2 != 0 || done < stop).unwrap());
        let refused = check(&store, &mut |_, _| true);
        assert!(matches!(refused, Err(Error::HalfLoaded { .. })), "{refused:?}");
        let refused = run(&store, &RunOptions::default(), &|_| true);
        assert!(matches!(refused, Err(Error::HalfLoaded { .. })));
    }
    let other = load(&store, Scale::tiny(3), 7, 1, &|_, _| true);
    let said = other.unwrap_err().to_string();
    assert!(said.contains("warehouses 2, not 3"), "{said}");
    assert!(load(&store, scale, 8, 2, &|_, _| true).unwrap());
    let whole = Loaded::open(&store).unwrap();
    assert_eq!(whole.scale, scale);
    assert!(matches!(whole.expect_warehouses(5), Err(Error::OtherScale { .. })));
    assert_eq!(violated(&store), NONE);
    let sizes = |store: &ModelStore| store.sizes();
    assert_eq!(sizes(&store), sizes(&loaded(scale)), "as if the load had not been broken off");
}

#[test]
fn wrong_options_are_refused() {
    let store = ModelStore::new(schemas());
    let refused = load(&store, Scale::full(0), 1, 1, &|_, _| true);
    assert!(matches!(refused, Err(Error::Scale { what: "warehouses", .. })));
    let refused = load(&store, Scale::tiny(1), 1, 0, &|_, _| true);
    assert!(matches!(refused, Err(Error::Zero { .. })));
    for options in [
        RunOptions { threads: 0, ..RunOptions::default() },
        RunOptions { end: End::Transactions(0), ..RunOptions::default() },
        RunOptions { end: End::After(Duration::ZERO), ..RunOptions::default() },
    ] {
        assert!(matches!(run(&store, &options, &|_| true), Err(Error::Zero { .. })));
    }
}

/// Changes one row of a whole database, and tells the conditions that then do not hold, and the first violation.
fn broken_by(table: usize, key: &[ValueRef<'_>], change: Change<'_>) -> (Vec<u8>, String) {
    let store = loaded(Scale::tiny(1));
    let key = key.to_vec();
    assert!(commit(&store, |tx| tx.update(table, &key, &[change])));
    told(&store)
}

fn told(store: &ModelStore) -> (Vec<u8>, String) {
    let report = check(store, &mut |_, _| true).unwrap().unwrap();
    let text: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
    (violated(store), text.join("\n"))
}

fn removed(table: usize, key: &[ValueRef<'_>]) -> (Vec<u8>, String) {
    let store = loaded(Scale::tiny(1));
    assert!(commit(&store, |tx| tx.delete(table, key)));
    told(&store)
}

#[test]
fn conditions_1_8_and_9_are_of_money_received() {
    use schema::{district, warehouse};
    let ytd = Change::new(warehouse::W_YTD, money(1));
    let (conditions, text) = broken_by(WAREHOUSE, &values![1], ytd);
    assert_eq!(conditions, [1, 8]);
    assert!(text.contains("WAREHOUSE (1): W_YTD is 0.01"), "{text}");
    let ytd = Change::new(district::D_YTD, money(1));
    let (conditions, text) = broken_by(DISTRICT, &values![1, 2], ytd);
    assert_eq!(conditions, [1, 9]);
    assert!(text.contains("DISTRICT (1, 2)"), "{text}");
}

#[test]
fn conditions_2_3_5_and_11_are_of_orders_and_new_orders() {
    use schema::{district, order};
    let next = Change::new(district::D_NEXT_O_ID, 40);
    let (conditions, text) = broken_by(DISTRICT, &values![1, 1], next);
    assert_eq!(conditions, [2]);
    assert!(text.contains("D_NEXT_O_ID - 1 is 39, but the greatest O_ID is 30"), "{text}");
    let (conditions, text) = removed(NEW_ORDER, &values![1, 1, 25]);
    assert_eq!(conditions, [3, 5, 11]);
    assert!(text.contains("ORDER (1, 1, 25)"), "{text}");
    let (conditions, _) = removed(NEW_ORDER, &values![1, 1, 30]);
    assert_eq!(conditions, [2, 5, 11]);
    let carrier = Change::new(order::O_CARRIER_ID, 3);
    let (conditions, text) = broken_by(ORDER, &values![1, 2, 30], carrier);
    assert_eq!(conditions, [5, 7]);
    assert!(text.contains("ORDER-LINE (1, 2, 30, 1)"), "{text}");
    let (conditions, text) = removed(ORDER, &values![1, 2, 25]);
    assert_eq!(conditions, [4, 5, 6, 11]);
    assert!(text.contains("NEW-ORDER (1, 2, 25): there is no such order"), "{text}");
}

#[test]
fn conditions_4_6_and_7_are_of_order_lines() {
    use schema::{order, order_line};
    let count = Change::new(order::O_OL_CNT, 16);
    let (conditions, text) = broken_by(ORDER, &values![1, 1, 7], count);
    assert_eq!(conditions, [4, 6]);
    assert!(text.contains("ORDER (1, 1, 7): O_OL_CNT is 16"), "{text}");
    let (conditions, _) = removed(ORDER_LINE, &values![1, 1, 7, 2]);
    assert_eq!(conditions, [4, 6]);
    let delivery = Change::new(order_line::OL_DELIVERY_D, None::<Timestamp>);
    let (conditions, text) = broken_by(ORDER_LINE, &values![1, 1, 7, 2], delivery);
    assert_eq!(conditions, [7]);
    assert!(text.contains("ORDER-LINE (1, 1, 7, 2)"), "{text}");
}

#[test]
fn conditions_8_to_12_are_of_customers() {
    use schema::{customer, history, order_line};
    let balance = Change::new(customer::C_BALANCE, money(5));
    let (conditions, text) = broken_by(CUSTOMER, &values![1, 2, 3], balance);
    assert_eq!(conditions, [10, 12]);
    assert!(text.contains("CUSTOMER (1, 2, 3): C_BALANCE is 0.05"), "{text}");
    let paid = Change::new(customer::C_YTD_PAYMENT, money(5));
    let (conditions, _) = broken_by(CUSTOMER, &values![1, 2, 3], paid);
    assert_eq!(conditions, [12]);
    let count = Change::new(customer::C_DELIVERY_CNT, 1);
    let (conditions, _) = broken_by(CUSTOMER, &values![1, 2, 3], count);
    assert_eq!(conditions, [11]);
    let amount = Change::new(history::H_AMOUNT, money(5));
    let (conditions, _) = broken_by(HISTORY, &values![1, 2, 1, 2, 3, 1], amount);
    assert_eq!(conditions, [8, 9, 10]);
    let amount = Change::new(order_line::OL_AMOUNT, money(5));
    let (conditions, _) = broken_by(ORDER_LINE, &values![1, 1, 7, 2], amount);
    assert_eq!(conditions, [10, 12]);
}

#[test]
fn violations_beyond_a_hundred_are_counted() {
    let store = loaded(Scale { customers: 200, ..Scale::tiny(1) });
    commit(&store, |tx| {
        for customer in 1..=150 {
            let balance = Change::new(schema::customer::C_BALANCE, 0);
            tx.update(CUSTOMER, &values![1, 1, customer], &[balance])?;
        }
        Ok(())
    });
    let report = check(&store, &mut |_, _| true).unwrap().unwrap();
    assert!(report.violations.len() == 100 && report.violation_count() == 300);
}

#[test]
fn the_model_keeps_the_promises_of_a_transaction() {
    let store = loaded(Scale::tiny(1));
    let duplicate = store.run(Homes::Of(&[1]), &mut |tx| {
        tx.insert(NEW_ORDER, &values![1, 1, 30]).map(|()| Outcome::Commit)
    });
    assert!(matches!(duplicate, Err(Error::Rows(halite_table::Error::DuplicateKey { .. }))));
    commit(&store, |tx| {
        assert!(!tx.delete(NEW_ORDER, &values![1, 1, 31])?);
        assert!(!tx.update(ORDER, &values![1, 1, 31], &[])?);
        assert!(!tx.get(ORDER, &values![1, 1, 31], &mut |_| Ok(()))?);
        Ok(())
    });
}
