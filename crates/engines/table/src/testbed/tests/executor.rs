//! Pipelined calls: their order, their durability, and the ways in which they fail.

use std::collections::BTreeMap;
use std::panic::panic_any;
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use halite_sim::{Call, Failures};

use super::procedures::{Transfer, int, partition_of};
use super::*;
use crate::{Column, Value, ValueRef};

const KINDS: [Kind; 2] = [Kind::NvmInP, Kind::Cow];

/// Appends a letter to the note of an account; returns the note's length.
struct Append;

impl Procedure for Append {
    fn signature(&self) -> (&str, Vec<Column>) {
        let id = Column::new("id", Type::Int64, false);
        ("append", vec![id, Column::new("letter", Type::VarChar(1), false)])
    }

    fn partitions(&self, arguments: &[Value], count: usize) -> Vec<usize> {
        vec![partition_of(int(&arguments[0]), count)]
    }

    fn run(&self, tx: &mut Transaction<'_>, arguments: &[Value]) -> Result<Records> {
        let (id, partition) = (int(&arguments[0]), partition_of(int(&arguments[0]), 2));
        add(tx, partition, id, 0)?;
        let ValueRef::Text(letter) = arguments[1].as_ref() else { panic!("it is text") };
        let text = note(tx, id)? + letter;
        let table = tx.table(partition, "account")?;
        let key = key(table.schema(), id);
        tx.update(partition, &table, &key, &[Change::new(2, text.as_str())])?;
        Ok(vec![vec![(text.len() as i64).into()]])
    }
}

/// The note of an account, or none.
fn note(tx: &mut Transaction<'_>, id: i64) -> Result<String> {
    let partition = partition_of(id, 2);
    let table = tx.table(partition, "account")?;
    let row = tx.get(partition, &table, &key(table.schema(), id))?;
    let Some(row) = row else { return Ok(String::new()) };
    match row.view(table.schema())?.get(2)? {
        ValueRef::Text(text) => Ok(text.to_owned()),
        _ => Ok(String::new()),
    }
}

/// Says that it runs, and waits until it may end; both by a barrier.
struct Gate(Arc<Barrier>);

impl Procedure for Gate {
    fn signature(&self) -> (&str, Vec<Column>) {
        ("gate", vec![])
    }

    fn partitions(&self, _: &[Value], _: usize) -> Vec<usize> {
        vec![0]
    }

    fn run(&self, tx: &mut Transaction<'_>, _: &[Value]) -> Result<Records> {
        self.0.wait();
        self.0.wait();
        add(tx, 0, 0, 0).map(|()| vec![])
    }
}

/// Panics with a bomb, which no catch of that panic contains.
struct Thrower;

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the bomb's");
    }
}

impl Procedure for Thrower {
    fn signature(&self) -> (&str, Vec<Column>) {
        ("bomb", vec![])
    }

    fn partitions(&self, _: &[Value], _: usize) -> Vec<usize> {
        vec![0]
    }

    fn run(&self, tx: &mut Transaction<'_>, _: &[Value]) -> Result<Records> {
        add(tx, 0, 0, 1)?;
        panic_any(Bomb)
    }
}

/// A store of two partitions with the procedures, and an executor over it.
struct Fixture {
    executor: Executor,
    testbed: Arc<Testbed>,
    barrier: Arc<Barrier>,
}

impl Fixture {
    fn new(kind: Kind, options: &EngineOptions, depth: usize) -> Self {
        let testbed = Arc::new(Testbed::open(Some(kind), options).unwrap());
        testbed.create_table(&accounts()).unwrap();
        let barrier = Arc::new(Barrier::new(2));
        testbed.register(Transfer).unwrap();
        testbed.register(Append).unwrap();
        testbed.register(Gate(barrier.clone())).unwrap();
        let options = ExecutorOptions { depth, group: Duration::MAX };
        let executor = Executor::new(testbed.clone(), options).unwrap();
        Self { executor, testbed, barrier }
    }

    fn transfer(&self, from: i64, to: i64, amount: i64) -> Pending {
        self.executor.submit("transfer", &values![from, to, amount, None::<&str>]).unwrap()
    }

    /// A call that the first partition's worker is in, until the barrier is passed.
    fn close_gate(&self) -> Pending {
        let gate = self.executor.submit("gate", &[]).unwrap();
        self.barrier.wait();
        gate
    }
}

fn is_durable(testbed: &Testbed) -> bool {
    let mut parts = testbed.partitions.iter();
    parts.all(|Shared { partition, syncs }| syncs.is_synced(partition.lock().last().0))
}

/// Copies a folder, as it is for the next process when this one is killed.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.unwrap(), to.to_owned());
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn clients_move_amounts_and_the_sum_stays_and_failures_are_their_callers_own() {
    for kind in KINDS {
        for group in [Duration::ZERO, Duration::from_millis(5)] {
            let testbed = Fixture::new(kind, &options(2), 1).testbed;
            let options = ExecutorOptions { depth: 8, group };
            let executor = Executor::new(testbed.clone(), options).unwrap();
            let client = |client: u64| {
                let mut random = client + 1;
                let mut below = |count: u64| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((random >> 33) % count) as i64
                };
                let mut done = 0;
                for _ in 0..10 {
                    let calls = (0..12).map(|_| {
                        let (from, to, amount) = (below(6), below(6), below(12) - 2);
                        let values = values![from, to, amount, "n"];
                        (amount, executor.submit("transfer", &values).unwrap())
                    });
                    for (amount, call) in calls.collect::<Vec<_>>() {
                        match (amount, call.wait()) {
                            (7, Err(Error::Panicked { message })) => {
                                assert_eq!(&*message, "the amount is 7");
                            }
                            (..0, Err(Error::GivenUp { .. })) => {}
                            (_, Ok(records)) => {
                                assert_eq!(records[0][1], Value::from("n"));
                                done += 1;
                            }
                            (_, Err(error)) => panic!("{amount}: {error}"),
                        }
                    }
                }
                done
            };
            let done: u64 = thread::scope(|scope| {
                let clients: Vec<_> =
                    (0..4).map(|number| scope.spawn(move || client(number))).collect();
                clients.into_iter().map(|client| client.join().unwrap()).sum()
            });
            assert!(is_durable(&testbed));
            let Latencies { count, p50, p95, p99, p999 } = executor.latencies();
            assert_eq!(count, done);
            assert!(Duration::ZERO < p50 && p50 <= p95 && p95 <= p99 && p99 <= p999);
            assert_eq!(total(&testbed), 0);
            testbed.verify().unwrap();
        }
    }
}

#[test]
fn acknowledged_calls_are_there_after_a_kill_and_when_the_store_is_opened_again() {
    for kind in KINDS {
        let [folder, killed] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let fixture = Fixture::new(kind, &options_in(folder.path(), Some(2)), 16);
        let mut expected = BTreeMap::new();
        for round in 0..6_i64 {
            let calls: Vec<_> =
                (0..8).map(|at| fixture.transfer(at, at + round, round + 20)).collect();
            for (at, call) in (0..8).zip(calls) {
                call.wait().unwrap();
                *expected.entry(at).or_insert(0) -= round + 20;
                *expected.entry(at + round).or_insert(0) += round + 20;
            }
            assert!(is_durable(&fixture.testbed));
        }
        copy(folder.path(), killed.path());
        drop(fixture);
        for folder in [folder, killed] {
            let testbed = Testbed::open(None, &options_in(folder.path(), None)).unwrap();
            testbed.verify().unwrap();
            let mut found = BTreeMap::new();
            for partition in 0..2 {
                let rows = testbed.transact(&[partition], Durability::Immediate, |tx| {
                    let table = tx.table(partition, "account")?;
                    let (range, forward) = (KeyRange::all(), crate::index::Direction::Forward);
                    tx.scan(partition, (&table, None), &range, forward, |_, row| {
                        found.insert(row.int(0)?, row.int(1)?);
                        Ok(std::ops::ControlFlow::Continue(()))
                    })
                });
                rows.unwrap();
            }
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn calls_of_a_partition_run_in_the_order_of_their_submission() {
    for kind in KINDS {
        let fixture = Fixture::new(kind, &options(2), 4);
        let (mut texts, mut calls) = ([String::new(), String::new()], vec![]);
        for number in 0..120_u8 {
            let id = usize::from(number.wrapping_mul(37) % 8 > 2);
            let letter = char::from(b'a' + number.wrapping_mul(17) % 26).to_string();
            texts[id].push_str(&letter);
            let arguments = values![id as i64, letter.as_str()];
            calls.push((texts[id].len(), fixture.executor.submit("append", &arguments).unwrap()));
        }
        for (len, call) in calls {
            assert_eq!(call.wait().unwrap(), [[Value::from(len as i64)]]);
        }
        for (id, text) in (0..).zip(&texts) {
            let stored = fixture
                .testbed
                .transact(&[0, 1], Durability::Immediate, |tx| note(tx, id))
                .unwrap();
            assert_eq!(&stored, text);
        }
    }
}

#[test]
fn a_full_queue_is_busy_and_a_group_takes_one_sync() {
    for kind in KINDS {
        let fixture = Fixture::new(kind, &options(2), 3);
        let Fixture { executor, testbed, barrier } = &fixture;
        let syncs = || testbed.file_traffic().syncs;
        let before = syncs();
        fixture.transfer(2, 4, 1).wait().unwrap();
        let of_one = syncs() - before;
        assert_eq!(of_one > 0, kind.has_files());
        let gate = fixture.close_gate();
        let append = || executor.try_submit("append", &values![2, "x"]);
        let calls: Vec<_> = (0..3).map(|_| append().unwrap()).collect();
        for _ in 0..2 {
            assert!(matches!(append(), Err(Error::Busy { partition: 0 })));
        }
        // The other partition's queue is another one, and only a good call gets to one.
        executor.try_submit("append", &values![1, "y"]).unwrap().wait().unwrap();
        assert!(matches!(executor.try_submit("add", &[]), Err(Error::UnknownProcedure { .. })));
        let before = syncs();
        barrier.wait();
        assert_eq!(gate.wait().unwrap(), Records::new());
        for (len, call) in (1_i64..).zip(calls) {
            assert_eq!(call.wait().unwrap(), [[Value::from(len)]]);
        }
        assert_eq!(syncs() - before, of_one);
        append().unwrap().wait().unwrap();
        assert_eq!(executor.latencies().count, 7);
    }
}

#[test]
fn a_group_that_cannot_be_made_durable_is_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let failures = Failures::default();
    let mut options = options_in(folder.path(), Some(2));
    options.pool_options.failures = Some(failures.clone());
    let fixture = Fixture::new(Kind::Cow, &options, 8);
    fixture.transfer(2, 4, 5).wait().unwrap();
    let gate = fixture.close_gate();
    let calls = [fixture.transfer(2, 4, 1), fixture.transfer(4, 2, 1), fixture.transfer(2, 4, -1)];
    let [first, second, given_up] = calls;
    failures.fail_every(Call::Sync, 5);
    fixture.barrier.wait();
    let errors = [gate, first, second].map(|call| call.wait().unwrap_err());
    assert!(errors.iter().all(|error| error.to_string() == errors[0].to_string()), "{errors:?}");
    assert!(!failures.failed().is_empty());
    assert!(matches!(given_up.wait(), Err(Error::GivenUp { .. })));
    assert_eq!(fixture.executor.latencies().count, 1);
    drop(fixture);
    let testbed = Testbed::open(None, &options_in(folder.path(), None)).unwrap();
    assert_eq!(total(&testbed), 0);
    testbed.verify().unwrap();
}

#[test]
fn an_executor_that_is_dropped_acknowledges_the_calls_that_wait() {
    for kind in KINDS {
        let fixture = Fixture::new(kind, &options(2), 8);
        let gate = fixture.close_gate();
        let calls = [(); 8].map(|()| fixture.transfer(0, 2, 10));
        let Fixture { executor, testbed, barrier } = fixture;
        thread::scope(|scope| {
            scope.spawn(|| drop(executor));
            barrier.wait();
        });
        assert!(is_durable(&testbed));
        gate.wait().unwrap();
        for (call, left) in calls.into_iter().zip([-10_i64, -20, -30, -40, -50, -60, -70, -80]) {
            assert_eq!(call.wait().unwrap(), [[Value::from(left), Value::Null]]);
        }
        // Nobody else has the store any more.
        assert!(Arc::into_inner(testbed).is_some());
    }
}

#[test]
fn a_worker_that_ends_leaves_nobody_waiting_and_other_workers_go_on() {
    for kind in KINDS {
        let fixture = Fixture::new(kind, &options(2), 8);
        let Fixture { executor, testbed, barrier } = &fixture;
        testbed.register(Thrower).unwrap();
        let gate = fixture.close_gate();
        let bomb = executor.submit("bomb", &[]).unwrap();
        let behind = fixture.transfer(0, 2, 10);
        barrier.wait();
        for call in [gate, bomb, behind] {
            assert!(matches!(call.wait(), Err(Error::WorkerEnded { partition: 0 })));
        }
        let again = executor.submit("append", &values![0, "x"]);
        assert!(matches!(again, Err(Error::WorkerEnded { partition: 0 })));
        let again = executor.try_submit("append", &values![0, "x"]);
        assert!(matches!(again, Err(Error::WorkerEnded { partition: 0 })));
        executor.submit("append", &values![1, "x"]).unwrap().wait().unwrap();
        // What the bomb changed is undone, and the store goes on.
        testbed.call("transfer", &values![0, 1, 10, None::<&str>]).unwrap();
        assert_eq!(total(testbed), 0);
        testbed.verify().unwrap();
    }
}

#[test]
fn a_body_neither_submits_nor_waits_nor_joins() {
    let fixture = Fixture::new(Kind::NvmInP, &options(2), 8);
    let Fixture { executor, testbed, .. } = fixture;
    let waiting = executor.submit("append", &values![0, "x"]).unwrap();
    let inside = testbed.transact(&[0, 1], Durability::Immediate, |_| {
        let errors = [
            waiting.wait().unwrap_err(),
            executor.submit("append", &values![0, "y"]).err().unwrap(),
        ];
        drop(executor);
        Ok::<_, Error>(errors)
    });
    for error in inside.unwrap() {
        assert!(matches!(error, Error::Recursion { .. }), "{error}");
    }
}
