//! Transactions through the public face.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use halite::{
    Database, Durability, ENGINES, EngineError, Error, Isolation, KeyRange, KeySpace, Locking,
    Partitioning, Result, Transaction, TransactionOptions,
};

const IMMEDIATE: Durability = Durability::Immediate;

/// All four ways to run a transaction, on each engine.
fn ways() -> impl Iterator<Item = (TransactionOptions, Database)> {
    let engines = ENGINES.iter().map(|engine| move || database_of(engine));
    engines.flat_map(|database| options().map(move |way| (way, database())))
}

/// All four ways to run a transaction.
fn options() -> impl Iterator<Item = TransactionOptions> {
    [Isolation::Snapshot, Isolation::Serializable].into_iter().flat_map(|isolation| {
        [Locking::Optimistic, Locking::Pessimistic].map(|locking| {
            TransactionOptions::default()
                .isolation(isolation)
                .locking(locking)
                .lock_timeout(Duration::from_millis(50))
        })
    })
}

fn database() -> Database {
    database_of(ENGINES[0])
}

fn database_of(engine: &str) -> Database {
    Database::builder()
        .engine(engine)
        .partitioning(Partitioning::Hash(3))
        .max_size(256 << 20)
        .in_memory()
        .expect("a database in memory")
}

fn keys<'a>(pairs: impl Iterator<Item = Result<(halite::Bytes, halite::Bytes)>> + 'a) -> String {
    pairs
        .map(|pair| {
            let (key, value) = pair.unwrap();
            format!("{}={} ", key.escape_ascii(), value.escape_ascii())
        })
        .collect()
}

fn get(tx: &Transaction, space: &KeySpace, key: &str) -> Option<Vec<u8>> {
    tx.get(space, key).unwrap().map(|value| value.to_vec())
}

fn is_conflict(result: Result<()>) -> bool {
    matches!(&result, Err(error @ Error::Engine(EngineError::Conflict { .. })) if error.is_retryable())
}

#[test]
fn a_transaction_sees_its_own_writes_and_nobody_else_does() {
    for (way, db) in ways() {
        let space = db.key_space("letters").unwrap();
        for key in ["a", "c", "e", "g", "i"] {
            space.put(key, "0").unwrap();
        }
        let mut tx = db.begin(way).unwrap();
        tx.put(&space, "b", "1").unwrap();
        tx.put(&space, "c", "1").unwrap();
        tx.delete(&space, "e").unwrap();
        tx.delete_range(&space, &KeyRange::new(*b"g", Some(b"h".to_vec()))).unwrap();
        tx.put(&space, "gg", "1").unwrap();
        tx.delete(&space, "none").unwrap();
        assert_eq!(get(&tx, &space, "b"), Some(b"1".to_vec()));
        assert_eq!(get(&tx, &space, "e"), None);
        assert!(!tx.contains(&space, "g").unwrap() && tx.contains(&space, "i").unwrap());
        assert_eq!(keys(tx.iter(&space).unwrap()), "a=0 b=1 c=1 gg=1 i=0 ");
        assert_eq!(keys(tx.iter_rev(&space).unwrap()), "i=0 gg=1 c=1 b=1 a=0 ");
        assert_eq!(keys(tx.range(&space, "b".."gg").unwrap()), "b=1 c=1 ");
        assert_eq!(keys(tx.range_rev(&space, "c"..="gg").unwrap()), "gg=1 c=1 ");
        assert_eq!(keys(tx.range(&space, "x".."b").unwrap()), "");
        assert_eq!(keys(tx.prefix(&space, "g").unwrap()), "gg=1 ");
        assert_eq!(keys(tx.prefix_rev(&space, "").unwrap().take(1)), "i=0 ");
        assert_eq!(keys(space.iter().unwrap()), "a=0 c=0 e=0 g=0 i=0 ");
        tx.delete_prefix(&space, "").unwrap();
        assert_eq!(keys(tx.iter(&space).unwrap()), "");
        tx.put(&space, "i", "2").unwrap();
        tx.commit(IMMEDIATE).unwrap();
        assert_eq!(keys(space.iter().unwrap()), "i=2 ");
    }
}

#[test]
fn what_is_rolled_back_or_dropped_never_happened() {
    for (way, db) in ways() {
        let (space, other) = (db.key_space("a").unwrap(), db.key_space("b").unwrap());
        let mut tx = db.begin(way.clone()).unwrap();
        tx.put(&space, "k", "1").unwrap();
        tx.rollback();
        let mut tx = db.begin(way.clone()).unwrap();
        tx.put(&other, "k", "1").unwrap();
        drop(tx);
        assert!(space.is_empty().unwrap() && other.is_empty().unwrap());
        // Nor does it hold a lock any more.
        let mut tx = db.begin(way).unwrap();
        tx.put(&space, "k", "2").unwrap();
        tx.put(&other, "k", "2").unwrap();
        tx.commit(Durability::Deferred).unwrap();
        assert_eq!(keys(space.iter().unwrap()) + &keys(other.iter().unwrap()), "k=2 k=2 ");
    }
}

#[test]
fn savepoints_take_back_what_came_after_them() {
    let db = database();
    let space = db.key_space("letters").unwrap();
    space.put("a", "0").unwrap();
    space.put("b", "0").unwrap();
    let mut tx = db.begin(TransactionOptions::default()).unwrap();
    tx.put(&space, "c", "1").unwrap();
    let outer = tx.savepoint();
    tx.delete_prefix(&space, "").unwrap();
    tx.put(&space, "b", "1").unwrap();
    let inner = tx.savepoint();
    tx.put(&space, "b", "2").unwrap();
    tx.put(&space, "d", "2").unwrap();
    tx.rollback_to(inner).unwrap();
    assert_eq!(keys(tx.iter(&space).unwrap()), "b=1 ");
    tx.put(&space, "e", "3").unwrap();
    tx.rollback_to(inner).unwrap();
    assert_eq!(keys(tx.iter(&space).unwrap()), "b=1 ");
    tx.rollback_to(outer).unwrap();
    assert_eq!(keys(tx.iter(&space).unwrap()), "a=0 b=0 c=1 ");
    assert!(matches!(tx.rollback_to(inner), Err(Error::NoSuchSavepoint)));
    let another = db.begin(TransactionOptions::default()).unwrap().savepoint();
    assert!(matches!(tx.rollback_to(another), Err(Error::NoSuchSavepoint)));
    let elsewhere = database().begin(TransactionOptions::default()).unwrap().savepoint();
    assert!(matches!(tx.rollback_to(elsewhere), Err(Error::NoSuchSavepoint)));
    // The commit does not rely on writes that were taken back.
    space.put("d", "9").unwrap();
    tx.put(&space, "f", "4").unwrap();
    tx.rollback_to(outer).unwrap();
    drop(tx);

    let mut tx = db.begin(TransactionOptions::default().isolation(Isolation::Snapshot)).unwrap();
    let begun = tx.savepoint();
    tx.put(&space, "x", "1").unwrap();
    tx.rollback_to(begun).unwrap();
    tx.put(&space, "y", "1").unwrap();
    space.put("x", "9").unwrap();
    tx.commit(IMMEDIATE).unwrap();
}

#[test]
fn the_first_committer_of_a_key_wins() {
    for (way, db) in ways() {
        let space = db.key_space("letters").unwrap();
        let mut tx = db.begin(way.clone()).unwrap();
        tx.put(&space, "k", "late").unwrap();
        tx.put(&space, "l", "late").unwrap();
        // A write without a transaction waits for no lock.
        space.put("k", "early").unwrap();
        assert!(is_conflict(tx.commit(IMMEDIATE)));
        assert_eq!(keys(space.iter().unwrap()), "k=early ");

        let mut tx = db.begin(way.clone()).unwrap();
        tx.delete_prefix(&space, "r").unwrap();
        space.put("range", "1").unwrap();
        assert!(is_conflict(tx.commit(IMMEDIATE)), "it came into a range that was deleted");

        // A key that was written and removed again counts as a change, too.
        let mut tx = db.begin(way.clone()).unwrap();
        tx.put(&space, "m", "late").unwrap();
        space.put("m", "early").unwrap();
        space.delete("m").unwrap();
        assert!(is_conflict(tx.commit(IMMEDIATE)));
    }
}

#[test]
fn what_a_serializable_transaction_read_is_validated_and_no_more() {
    for (way, db) in ways() {
        let (space, own) = (db.key_space("letters").unwrap(), db.key_space("own").unwrap());
        for key in ["b", "d", "f", "h"] {
            space.put(key, "0").unwrap();
        }
        let is_serializable = format!("{way:?}").contains("Serializable");
        type Read = fn(&Transaction, &KeySpace);
        let read: [(Read, &str, &str); 6] = [
            (|tx, space| drop(tx.get(space, "b")), "b", "a"),
            (|tx, space| drop(tx.get(space, "absent")), "absent", "abs"),
            // Up to `d`, and not to the `f` that is behind it.
            (|tx, space| drop(tx.iter(space).unwrap().nth(1)), "c", "e"),
            (|tx, space| drop(tx.iter_rev(space).unwrap().nth(1)), "g", "e"),
            (|tx, space| assert_eq!(tx.range(space, "c".."g").unwrap().count(), 2), "fff", "g"),
            (|tx, space| drop(tx.prefix(space, "z").unwrap().next()), "zz", "y"),
        ];
        for (read, inside, outside) in read {
            let mut tx = db.begin(way.clone()).unwrap();
            read(&tx, &space);
            tx.put(&own, "k", "1").unwrap();
            space.put(outside, "1").unwrap();
            tx.commit(IMMEDIATE).unwrap_or_else(|error| panic!("{outside}: {error}"));
            space.delete(outside).unwrap();
            let mut tx = db.begin(way.clone()).unwrap();
            read(&tx, &space);
            tx.put(&own, "k", "1").unwrap();
            space.put(inside, "1").unwrap();
            assert_eq!(is_conflict(tx.commit(IMMEDIATE)), is_serializable, "{inside}");
            if inside != "b" {
                space.delete(inside).unwrap();
            }
        }
        // A read for update is validated under either isolation.
        let mut tx = db.begin(way.clone()).unwrap();
        tx.get_for_update(&space, "b").unwrap();
        tx.put(&own, "k", "1").unwrap();
        space.put("b", "2").unwrap();
        assert!(is_conflict(tx.commit(IMMEDIATE)));
        // A transaction without writes has read one state; no later change invalidates it.
        let tx = db.begin(way).unwrap();
        assert_eq!(tx.iter(&space).unwrap().count(), 4);
        space.put("b", "3").unwrap();
        assert_eq!(get(&tx, &space, "b"), Some(b"2".to_vec()));
        tx.commit(IMMEDIATE).unwrap();
    }
}

#[test]
fn a_pessimistic_transaction_reads_the_newest_behind_a_lock_and_still_one_state() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let db = database();
        let way = TransactionOptions::default().isolation(isolation).locking(Locking::Pessimistic);
        let space = db.key_space("letters").unwrap();
        space.put("a", "0").unwrap();
        let mut tx = db.begin(way.clone()).unwrap();
        space.put("k", "newest").unwrap();
        assert_eq!(tx.get_for_update(&space, "k").unwrap().as_deref(), Some(&b"newest"[..]));
        tx.put(&space, "k", "mine").unwrap();
        // Its snapshot has moved on, so a write since it began is no conflict.
        space.put("l", "newest").unwrap();
        tx.put(&space, "l", "mine").unwrap();
        tx.commit(IMMEDIATE).unwrap();
        assert_eq!(keys(space.iter().unwrap()), "a=0 k=mine l=mine ");

        // It cannot move on if an earlier read has changed.
        let mut tx = db.begin(way.clone()).unwrap();
        assert_eq!(tx.prefix(&space, "a").unwrap().count(), 1);
        space.put("b", "1").unwrap();
        space.put("k", "2").unwrap();
        assert_eq!(tx.get_for_update(&space, "k").unwrap().as_deref(), Some(&b"2"[..]));
        space.put("a", "1").unwrap();
        space.put("l", "2").unwrap();
        assert!(is_conflict(tx.put(&space, "l", "3")));
        drop(tx);

        // Nor while a scan is under way that would have seen another state.
        let tx = db.begin(way).unwrap();
        let mut scan = tx.iter(&space).unwrap();
        assert_eq!(&*scan.next().unwrap().unwrap().0, b"a");
        space.put("k", "3").unwrap();
        assert!(is_conflict(tx.get_for_update(&space, "k").map(drop)));
        assert_eq!(keys(scan), "b=1 k=2 l=2 ");
    }
}

#[test]
fn what_is_read_for_update_is_the_newest_or_a_conflict_each_time() {
    for (way, db) in ways() {
        if format!("{way:?}").contains("Optimistic") {
            continue;
        }
        let space = db.key_space("letters").unwrap();
        let tx = db.begin(way).unwrap();
        assert_eq!(get(&tx, &space, "a"), None);
        space.put("a", "1").unwrap();
        space.put("k", "2").unwrap();
        // This locks the key, if it is serializable, and reads the old state.
        assert_eq!(get(&tx, &space, "k"), None);
        for _ in 0..2 {
            assert!(is_conflict(tx.get_for_update(&space, "k").map(drop)));
        }
    }
}

#[test]
fn a_read_for_update_outlasts_the_own_write_that_it_found() {
    for (way, db) in ways() {
        let space = db.key_space("letters").unwrap();
        let mut tx = db.begin(way.clone()).unwrap();
        let begun = tx.savepoint();
        tx.put(&space, "k", "mine").unwrap();
        let found = tx.get_for_update(&space, "k").unwrap();
        assert_eq!(found.as_deref(), Some(&b"mine"[..]));
        tx.rollback_to(begun).unwrap();
        tx.put(&space, "j", "1").unwrap();
        space.put("k", "another's").unwrap();
        assert!(is_conflict(tx.commit(IMMEDIATE)), "{way:?}");

        let mut tx = db.begin(way.clone()).unwrap();
        tx.delete_prefix(&space, "k").unwrap();
        assert_eq!(tx.get_for_update(&space, "k").unwrap(), None);
        let mut other = db.begin(way.clone()).unwrap();
        let is_locked = matches!(other.put(&space, "k", "2"), Err(Error::LockTimeout { .. }));
        assert_eq!(is_locked, format!("{way:?}").contains("Pessimistic"));
    }
}

#[test]
fn who_is_too_old_holds_no_lock_and_waits_for_none() {
    let db = database();
    let space = db.key_space("letters").unwrap();
    let way = TransactionOptions::default().locking(Locking::Pessimistic);
    let patient = way.clone().lock_timeout(Duration::from_secs(5));
    let brief = patient.clone().max_age(Duration::from_millis(100));

    let mut holder = db.begin(way).unwrap();
    holder.put(&space, "k", "1").unwrap();
    let began = Instant::now();
    let mut waits = db.begin(brief.clone()).unwrap();
    let waited = waits.put(&space, "k", "2");
    assert!(matches!(waited, Err(Error::TransactionTooOld { .. })), "{waited:?}");
    assert!(began.elapsed() < Duration::from_secs(4), "it waited for longer than it may be open");
    holder.commit(IMMEDIATE).unwrap();

    let mut forgotten = db.begin(brief).unwrap();
    forgotten.put(&space, "k", "3").unwrap();
    let mut next = db.begin(patient).unwrap();
    next.put(&space, "k", "4").unwrap();
    assert!(matches!(forgotten.get(&space, "k"), Err(Error::TransactionTooOld { .. })));
    assert!(matches!(forgotten.commit(IMMEDIATE), Err(Error::TransactionTooOld { .. })));
    next.commit(IMMEDIATE).unwrap();
    assert_eq!(keys(space.iter().unwrap()), "k=4 ");
}

#[test]
fn pessimistic_transactions_wait_for_each_other_and_not_in_a_circle() {
    let db = database();
    let space = db.key_space("letters").unwrap();
    let way = TransactionOptions::default().locking(Locking::Pessimistic);
    let patient = way.clone().lock_timeout(Duration::from_secs(600));
    let both = Barrier::new(2);
    let ends: Vec<_> = std::thread::scope(|scope| {
        let run = |first: &'static str, second: &'static str| {
            let (db, space, both) = (&db, &space, &both);
            let mut tx = db.begin(patient.clone()).unwrap();
            move || {
                tx.put(space, first, "1")?;
                both.wait();
                tx.put(space, second, "1")?;
                tx.commit(IMMEDIATE)
            }
        };
        let threads =
            [("a", "b"), ("b", "a")].map(|(first, second)| scope.spawn(run(first, second)));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let refused: Vec<_> = ends.iter().filter_map(|end| end.as_ref().err()).collect();
    assert!(matches!(refused[..], [error @ Error::Deadlock { .. }] if error.is_retryable()));
    assert_eq!(keys(space.iter().unwrap()), "a=1 b=1 ");

    let mut holder = db.begin(way.clone()).unwrap();
    holder.put(&space, "a", "2").unwrap();
    let mut waits = db.begin(way.lock_timeout(Duration::from_millis(10))).unwrap();
    let error = waits.put(&space, "a", "3").unwrap_err();
    assert!(matches!(error, Error::LockTimeout { .. }) && error.is_retryable());
    // Clones of a database have their locks in common.
    let clone = db.clone();
    let mut waits = clone.begin(waits_briefly()).unwrap();
    assert!(waits.put(&space, "a", "3").is_err());
    holder.commit(IMMEDIATE).unwrap();
    waits.put(&space, "a", "3").unwrap();
    waits.commit(IMMEDIATE).unwrap();
    assert_eq!(keys(space.iter().unwrap()), "a=3 b=1 ");
}

fn waits_briefly() -> TransactionOptions {
    TransactionOptions::default()
        .locking(Locking::Pessimistic)
        .lock_timeout(Duration::from_millis(10))
}

#[test]
fn transactions_that_meet_run_again_until_all_have_happened() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 100;
    for (way, db) in ways() {
        let way = way.lock_timeout(Duration::from_secs(60)).retries(100_000);
        let space = db.key_space("counters").unwrap();
        let number = |value: Option<halite::Bytes>| {
            value.map_or(0, |value| u64::from_be_bytes((&*value).try_into().unwrap()))
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, space, way) = (&db, &space, &way);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let keys = ["all", if thread % 2 == round % 2 { "even" } else { "odd" }];
                        let order = if round % 3 == 0 { [0, 1] } else { [1, 0] };
                        db.transaction_with(way, |tx| {
                            for at in order {
                                let count = number(tx.get_for_update(space, keys[at])?) + 1;
                                tx.put(space, keys[at], count.to_be_bytes())?;
                            }
                            Ok(())
                        })
                        .unwrap();
                    }
                });
            }
        });
        let count = |key| number(space.get(key).unwrap());
        assert_eq!(count("all"), THREADS * ROUNDS, "{way:?}");
        assert_eq!(count("odd") + count("even"), THREADS * ROUNDS);
    }
}

#[test]
fn errors_that_no_retry_helps_are_returned_at_once() {
    let db = database();
    let space = db.key_space("letters").unwrap();
    let mut runs = 0;
    let ended = db.transaction(|tx| {
        runs += 1;
        tx.put(&space, "k", "1")?;
        tx.put(&space, vec![0; halite::KEY_LEN_MAX + 1], "")
    });
    assert!(matches!(ended, Err(Error::Engine(EngineError::KeyTooLong { .. }))) && runs == 1);
    assert!(space.is_empty().unwrap());
    let options = TransactionOptions::default().retries(3);
    let ended = db.transaction_with(&options, |tx| {
        runs += 1;
        space.put("k", runs.to_string())?;
        tx.put(&space, "k", "never")
    });
    assert!(is_conflict(ended) && runs == 5, "once, and three times again, not {runs} times");
}

#[test]
fn limits_are_errors_that_leave_the_transaction_as_it_was() {
    let db = database();
    let space = db.key_space("letters").unwrap();
    space.put("there", "0").unwrap();
    let mut tx = db.begin(TransactionOptions::default().max_bytes(1_000)).unwrap();
    tx.put(&space, "a", "1").unwrap();
    let error = tx.put(&space, "b", [0; 1_000]).unwrap_err();
    assert!(matches!(error, Error::TransactionTooLarge { limit: 1_000, .. }), "{error}");
    assert!(!error.is_retryable());
    let mut reads = 0;
    while tx.get(&space, format!("read {reads}")).is_ok() {
        reads += 1;
        assert!(reads < 1_000, "what was read takes memory");
    }
    assert!(matches!(tx.iter(&space), Err(Error::TransactionTooLarge { .. })));
    let long = KeyRange::new(vec![b'x'; 900], None);
    assert!(matches!(tx.delete_range(&space, &long), Err(Error::TransactionTooLarge { .. })));
    assert_eq!(get(&tx, &space, "a"), Some(b"1".to_vec()));
    tx.commit(IMMEDIATE).unwrap();
    assert_eq!(keys(space.iter().unwrap()), "a=1 there=0 ");

    // A lock stays held when the write is taken back, and takes memory.
    let mut tx = db.begin(waits_briefly().max_bytes(10_000)).unwrap();
    let refused = (0..1_000).find_map(|number| {
        let before = tx.savepoint();
        let put = tx.put(&space, format!("locked {number}"), "1");
        tx.rollback_to(before).unwrap();
        put.err()
    });
    assert!(matches!(refused, Some(Error::TransactionTooLarge { .. })), "{refused:?}");

    let mut tx = db.begin(TransactionOptions::default().max_age(Duration::ZERO)).unwrap();
    std::thread::sleep(Duration::from_millis(1));
    assert!(matches!(tx.get(&space, "a"), Err(Error::TransactionTooOld { .. })));
    assert!(matches!(tx.put(&space, "a", "2"), Err(Error::TransactionTooOld { .. })));
    assert!(matches!(tx.commit(IMMEDIATE), Err(Error::TransactionTooOld { .. })));
}

#[test]
fn key_spaces_that_come_and_go_or_are_another_databases() {
    for (way, db) in ways() {
        let dropped = db.key_space("dropped").unwrap();
        dropped.put("k", "1").unwrap();
        let mut tx = db.begin(way.clone()).unwrap();
        let made = db.key_space("made").unwrap();
        assert_eq!(get(&tx, &made, "k"), None);
        assert_eq!(tx.iter(&made).unwrap().count(), 0);
        tx.put(&made, "k", "1").unwrap();
        tx.commit(IMMEDIATE).unwrap();
        assert_eq!(keys(made.iter().unwrap()), "k=1 ");

        let mut tx = db.begin(way.clone()).unwrap();
        tx.put(&dropped, "k", "2").unwrap();
        tx.put(&made, "k", "2").unwrap();
        db.drop_key_space(&dropped).unwrap();
        assert!(matches!(tx.commit(IMMEDIATE), Err(Error::Engine(EngineError::NoSuchKeySpace))));
        let tx = db.begin(way.clone()).unwrap();
        assert!(matches!(tx.get(&dropped, "k"), Err(Error::Engine(EngineError::NoSuchKeySpace))));
        let elsewhere = database();
        let tx = elsewhere.begin(way).unwrap();
        assert!(matches!(tx.get(&made, "k"), Err(Error::Engine(EngineError::NoSuchKeySpace))));
        assert_eq!(keys(made.iter().unwrap()), "k=1 ");
    }
}

#[test]
fn long_readers_block_nobody() {
    for (way, db) in ways() {
        let space = db.key_space("letters").unwrap();
        (0..500).for_each(|key| space.put(format!("{key:04}"), "0").unwrap());
        let reader = db.begin(way.clone()).unwrap();
        let mut scan = reader.iter(&space).unwrap();
        assert!(scan.next().is_some());
        for key in 0..500 {
            let mut writer = db.begin(way.clone()).unwrap();
            writer.put(&space, format!("{key:04}"), "1").unwrap();
            writer.commit(Durability::Deferred).unwrap();
        }
        assert!(scan.all(|pair| &*pair.unwrap().1 == b"0"));
        drop(scan);
        reader.commit(IMMEDIATE).unwrap();
    }
}
