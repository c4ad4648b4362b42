//! The effects of each other that transactions of a database observe, checked by the crash lab's isolation checker.

mod broken;
mod killed;
mod lists;
mod meantime;
mod schedules;

use std::sync::Arc;
use std::time::Duration;

use halite::{Database, Durability, ENGINES, Isolation, Locking, Partitioning, TransactionOptions};
use halite_lab::Random;
use halite_lab::isolation::{Anomaly, Found, History, Level, Outcome, Recorder};

use broken::{Broken, Fault};
use lists::{Lists, Step};

/// The four kinds of transactions, with the guarantee of each.
const WAYS: [(Isolation, Locking, Level); 4] = [
    (Isolation::Snapshot, Locking::Optimistic, Level::StrictSnapshotIsolation),
    (Isolation::Snapshot, Locking::Pessimistic, Level::StrictSnapshotIsolation),
    (Isolation::Serializable, Locking::Optimistic, Level::StrictSerializable),
    (Isolation::Serializable, Locking::Pessimistic, Level::StrictSerializable),
];

fn options(isolation: Isolation, locking: Locking) -> TransactionOptions {
    // Longer than any wait that is not one in a circle.
    let patience = Duration::from_secs(600);
    let options = TransactionOptions::default().isolation(isolation).locking(locking);
    options.lock_timeout(patience).max_age(patience)
}

fn database(engine: &str, partitions: usize) -> Database {
    let builder = Database::builder().engine(engine).partitioning(Partitioning::Hash(partitions));
    builder.max_size(256 << 20).in_memory().expect("a database in memory")
}

fn names(found: &[Found]) -> Vec<Anomaly> {
    found.iter().map(|found| found.anomaly).collect()
}

fn is_clean(history: &History, level: Level) {
    let found = history.check(level);
    assert!(
        found.is_empty(),
        "{level:?}: {}",
        found.iter().map(|one| format!("\n{one}")).collect::<String>()
    );
}

fn committed(history: &History) -> usize {
    history.iter().filter(|transaction| transaction.outcome == Outcome::Committed).count()
}

/// Threads that run drawn transactions at once.
fn by_threads(lists: &Lists, options: &TransactionOptions, each: u64, seed: u64) -> History {
    const THREADS: u64 = 4;
    let recorder = Recorder::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let recorder = &recorder;
            scope.spawn(move || {
                let mut random = Random::of(&[seed, thread]);
                for number in 0..each {
                    let steps = lists.draw(&mut random);
                    let first = ((thread * each + number) << 8) + 1;
                    let durability =
                        if number % 2 == 0 { Durability::Immediate } else { Durability::Deferred };
                    let hooks = (std::thread::yield_now, |_: &_| ());
                    lists.run(options, durability, &steps, first.., recorder, hooks);
                }
            });
        }
    });
    lists.read_all(&recorder);
    recorder.history()
}

/// Transactions that are open at once, whose steps one thread takes in a random order.
fn interleaved(lists: &Lists, options: &TransactionOptions, rounds: u64, seed: u64) -> History {
    const AT_ONCE: usize = 5;
    let recorder = Recorder::default();
    let mut random = Random::of(&[seed]);
    let mut open = Vec::new();
    let mut elements = 1..;
    for _ in 0..rounds {
        if open.len() < AT_ONCE {
            let running = recorder.begin();
            let tx = lists.db.begin(options.clone()).expect("a transaction");
            let mut steps = lists.draw(&mut random);
            steps.reverse();
            open.push((tx, steps, running));
        }
        let nth = random.index(open.len());
        let (tx, steps, running) = &mut open[nth];
        let Some(step) = steps.pop() else {
            let (tx, _, running) = open.swap_remove(nth);
            recorder.end(running, lists::outcome(tx.commit(Durability::Deferred)));
            continue;
        };
        let element = elements.next().expect("numbers without end");
        lists.step(tx, step, element, running).expect("an optimistic transaction waits for nobody");
    }
    for (_, _, running) in open {
        recorder.end(running, Outcome::Aborted);
    }
    lists.read_all(&recorder);
    recorder.history()
}

#[test]
fn histories_of_threads_are_as_their_isolation_promises() {
    for engine in ENGINES {
        for (isolation, locking, level) in WAYS {
            for (partitions, keys) in [(1, 4), (3, 12)] {
                let lists = Lists::new(database(engine, partitions), keys);
                let history = by_threads(&lists, &options(isolation, locking), 250, keys);
                let committed = committed(&history);
                println!("{engine}, {isolation:?}, {locking:?}: {committed} of {}", history.len());
                assert!(committed > history.len() / 10);
                is_clean(&history, level);
            }
        }
    }
}

#[test]
fn interleaved_histories_are_as_their_isolation_promises() {
    for seed in 0..12 {
        let engine = ENGINES[seed as usize % ENGINES.len()];
        for (isolation, locking, level) in WAYS {
            if locking == Locking::Optimistic {
                let lists = Lists::new(database(engine, 1 + seed as usize % 3), 3 + seed);
                let history = interleaved(&lists, &options(isolation, locking), 1_000, seed);
                assert!(committed(&history) > 20 && committed(&history) < history.len());
                is_clean(&history, level);
            }
        }
    }
}

/// Transactions that read two lists and append to one.
fn skewing(lists: &Lists, isolation: Isolation) -> History {
    let recorder = Recorder::default();
    for round in 0..10 {
        let both = [0, 1].map(|nth| {
            let tx = lists.db.begin(options(isolation, Locking::Optimistic)).unwrap();
            (tx, recorder.begin(), nth)
        });
        for (mut tx, mut running, nth) in both {
            for step in [Step::Read(1 - nth), Step::ReadAndAppend(nth)] {
                lists.step(&mut tx, step, 10 * round + nth + 1, &mut running).unwrap();
            }
            recorder.end(running, lists::outcome(tx.commit(Durability::Deferred)));
        }
    }
    lists.read_all(&recorder);
    recorder.history()
}

#[test]
fn snapshot_isolation_shows_write_skew_and_serializable_transactions_do_not() {
    for engine in ENGINES {
        let history = skewing(&Lists::new(database(engine, 2), 2), Isolation::Snapshot);
        is_clean(&history, Level::SnapshotIsolation);
        assert_eq!(names(&history.check(Level::Serializable)), [Anomaly::WriteSkew]);
        let history = skewing(&Lists::new(database(engine, 2), 2), Isolation::Serializable);
        is_clean(&history, Level::Serializable);
    }
    // Chance shows it, too, where many lists are read and few are written.
    let found = (0..12).any(|seed| {
        let lists = Lists::new(database(ENGINES[0], 1), 6);
        let way = options(Isolation::Snapshot, Locking::Optimistic);
        let found = names(&interleaved(&lists, &way, 1_000, seed).check(Level::Serializable));
        found.contains(&Anomaly::WriteSkew) || found.contains(&Anomaly::G2Item)
    });
    assert!(found, "no seed shows that snapshot isolation is not serializable");
}

/// The anomalies of transactions on an engine with a fault.
fn found_with(fault: Fault, isolation: Isolation) -> Vec<Anomaly> {
    let (level, seeds) = match isolation {
        Isolation::Snapshot => (Level::StrictSnapshotIsolation, 0..8),
        Isolation::Serializable => (Level::StrictSerializable, 0..8),
    };
    let mut all = Vec::new();
    for seed in seeds {
        let engine = Broken::new(fault);
        let lists = Lists::new(Database::with_engine(Arc::new(engine), "broken"), 4);
        let way = options(isolation, Locking::Optimistic);
        let history = match fault {
            Fault::LooksBeforeWriting => by_threads(&lists, &way, 60, seed),
            _ => interleaved(&lists, &way, 1_000, seed),
        };
        all.extend(names(&history.check(level)));
    }
    all
}

#[test]
fn planted_faults_are_found() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let found = found_with(Fault::ExpectsNothing, isolation);
        // Two transactions appended, and one list is lost.
        assert!(
            found.contains(&Anomaly::IncompatibleOrder) || found.contains(&Anomaly::LostUpdate),
            "{found:?}"
        );
        let found = found_with(Fault::LooksBeforeWriting, isolation);
        assert!(!found.is_empty());
        let found = found_with(Fault::SnapshotsThePresent, isolation);
        assert!(!found.is_empty());
    }
    let found = found_with(Fault::ExpectsNoRanges, Isolation::Serializable);
    assert!(found.contains(&Anomaly::WriteSkew) || found.contains(&Anomaly::G2Item), "{found:?}");
    assert_eq!(found_with(Fault::ExpectsNoRanges, Isolation::Snapshot), []);
}
