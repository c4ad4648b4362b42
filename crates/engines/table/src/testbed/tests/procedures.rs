//! Calls of stored procedures, and the wrong ones.

use std::sync::Weak;

use super::*;
use crate::{Column, Value, ValueRef};

/// Moves an amount between accounts of two partitions; returns what is left of the first.
pub(super) struct Transfer;

pub(super) fn int(value: &Value) -> i64 {
    value.as_ref().int().unwrap()
}

pub(super) fn partition_of(id: i64, count: usize) -> usize {
    id.unsigned_abs() as usize % count
}

impl Procedure for Transfer {
    fn signature(&self) -> (&str, Vec<Column>) {
        let column = |name: &str, ty| Column::new(name, ty, false);
        let parameters = vec![
            column("from", Type::Int64),
            column("to", Type::Int64),
            column("amount", Type::Int32),
            Column::new("note", Type::VarChar(5), true),
        ];
        ("transfer", parameters)
    }

    fn partitions(&self, arguments: &[Value], count: usize) -> Vec<usize> {
        assert!(int(&arguments[2]) != 13, "an unlucky amount");
        arguments[..2].iter().map(|id| partition_of(int(id), count)).collect()
    }

    fn run(&self, tx: &mut Transaction<'_>, arguments: &[Value]) -> Result<Records> {
        let [from, to, amount] = [0, 1, 2].map(|at| int(&arguments[at]));
        let count = 2;
        add(tx, partition_of(from, count), from, -amount)?;
        add(tx, partition_of(to, count), to, amount)?;
        assert!(amount != 7, "the amount is 7");
        if amount < 0 {
            return Err(Error::GivenUp { why: "an amount below zero".into() });
        }
        let table = tx.table(partition_of(from, count), "account")?;
        let row = tx.get(partition_of(from, count), &table, &key(table.schema(), from))?;
        let row = row.expect("it was added");
        Ok(vec![vec![row.view(table.schema())?.int(1)?.into(), arguments[3].clone()]])
    }
}

/// Does something of its store in its body, that cannot be there.
struct Inner(Weak<Testbed>);

impl Procedure for Inner {
    fn signature(&self) -> (&str, Vec<Column>) {
        ("inner", vec![Column::new("case", Type::UInt8, false)])
    }

    fn partitions(&self, _: &[Value], _: usize) -> Vec<usize> {
        vec![0]
    }

    fn run(&self, tx: &mut Transaction<'_>, arguments: &[Value]) -> Result<Records> {
        add(tx, 0, 99, 1)?;
        let testbed = self.0.upgrade().expect("the store is open");
        match int(&arguments[0]) {
            0 => testbed.call("transfer", &values![1, 2, 3, None::<&str>]),
            1 => testbed
                .transact(&[1], Durability::Immediate, |tx| add(tx, 1, 1, 1))
                .map(|()| vec![]),
            2 => testbed.sync().map(|()| vec![]),
            3 => testbed.create_table(&accounts()).map(|()| vec![]),
            _ => testbed.verify().map(|_| vec![]),
        }
    }
}

#[test]
fn a_call_returns_records_and_is_durable_and_a_wrong_one_says_its_reason() {
    for &kind in Kind::ALL {
        let testbed = Testbed::open(Some(kind), &options(2)).unwrap();
        testbed.create_table(&accounts()).unwrap();
        testbed.register(Transfer).unwrap();
        let again = testbed.register(Transfer).unwrap_err();
        assert!(matches!(again, Error::Exists { what: "procedure", .. }));
        let call = |arguments: &[ValueRef<'_>]| testbed.call("transfer", arguments);
        let records = call(&values![1, 2, 5_u8, "rent"]).unwrap();
        assert_eq!(records, [[Value::from(-5), Value::from("rent")]]);
        for Shared { partition, syncs } in &testbed.partitions {
            assert!(syncs.is_synced(partition.lock().last().0));
        }
        let deferred =
            testbed.call_with("transfer", &values![1, 2, 1, None::<&str>], Durability::Deferred);
        assert_eq!(deferred.unwrap(), [[Value::from(-6), Value::Null]]);
        let refused = |arguments: &[ValueRef<'_>], words: &str| {
            let error = call(arguments).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        };
        let unknown = testbed.call("transfers", &[]).unwrap_err();
        assert!(unknown.to_string().contains("\"transfers\""), "{unknown}");
        refused(&values![1, 2, 5], "4 parameters, and 3 arguments");
        refused(&values![1, 2, 5, None::<&str>, 6], "and 5 arguments");
        refused(&values![1, "2", 5, None::<&str>], "\"to\" is INT64");
        refused(&values![1, None::<i64>, 5, None::<&str>], "\"to\" must have a value");
        refused(&values![1, 2, 1_i64 << 31, None::<&str>], "\"amount\"");
        refused(&values![1, 2, 5, "longer"], "\"note\"");
        // The body gives up, and it panics, as the choice of partitions does.
        refused(&values![1, 2, -5, None::<&str>], "an amount below zero");
        refused(&values![1, 2, 7, None::<&str>], "the amount is 7");
        refused(&values![1, 2, 13, None::<&str>], "an unlucky amount");
        let left = call(&values![1, 2, 0, None::<&str>]).unwrap();
        assert_eq!(left[0][0], Value::from(-6));
        assert_eq!(total(&testbed), 0);
        testbed.verify().unwrap();
    }
}

#[test]
fn a_body_that_would_wait_for_itself_is_refused_by_name_and_undone() {
    let testbed = Arc::new(Testbed::open(Some(Kind::NvmInP), &options(2)).unwrap());
    testbed.create_table(&accounts()).unwrap();
    testbed.register(Transfer).unwrap();
    testbed.register(Inner(Arc::downgrade(&testbed))).unwrap();
    let inners = ["procedure \"transfer\"", "a transaction", "a sync", "a statement", "a check"];
    for (case, inner) in (0_u8..).zip(inners) {
        let error = testbed.call("inner", &values![case]).unwrap_err();
        assert!(
            matches!(&error, Error::Recursion { outer, .. } if &**outer == "procedure \"inner\"")
        );
        assert!(error.to_string().starts_with(inner), "{error}");
    }
    let within = testbed.transact(&[1], Durability::Deferred, |_| {
        testbed.transact(&[0], Durability::Deferred, |_| Ok::<_, Error>(()))
    });
    assert!(matches!(within, Err(Error::Recursion { outer, .. }) if &*outer == "a transaction"));
    // A body may use another store, and this thread this one again.
    let other = Testbed::open(Some(Kind::NvmInP), &options(1)).unwrap();
    let both = testbed.transact(&[0, 1], Durability::Immediate, |_| {
        other.transact(&[0], Durability::Immediate, |_| Ok::<_, Error>(()))
    });
    both.unwrap();
    assert_eq!((total(&testbed), testbed.verify().unwrap()), (0, 0));
}
