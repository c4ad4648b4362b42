//! The lock table on threads that a deterministic scheduler runs, and on real ones.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use halite_sim::locks::{point, scheduled};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner, thread};

use super::*;

const SPACE: KeySpaceId = KeySpaceId(1);
const LONG: Duration = Duration::from_secs(600);
const PATIENT: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(20);

fn is_empty(table: &LockTable) -> bool {
    table.waits.is_empty() && table.shards.iter().all(|shard| shard.lock().is_empty())
}

/// Runs `simulation` in many orders of its threads' steps: at random, and with few preemptions.
fn in_many_orders(simulation: fn()) {
    fn run(scheduler: impl Scheduler + 'static, simulation: fn()) {
        let mut config = Config::new();
        config.stack_size = 256 << 10;
        config.failure_persistence = shuttle::FailurePersistence::None;
        config.silence_warnings = true;
        scheduled(thread::yield_now, || Runner::new(scheduler, config).run(simulation));
    }
    run(RandomScheduler::new_from_seed(1, 1_500), simulation);
    run(PctScheduler::new_from_seed(2, 3, 1_500), simulation);
}

#[test]
fn shared_locks_are_shared_and_exclusive_ones_are_not() {
    let table = Arc::new(LockTable::default());
    let (mut a, mut b) = (table.begin(None), table.begin(None));
    a.acquire(SPACE, b"k", Mode::Shared, SHORT).unwrap();
    b.acquire(SPACE, b"k", Mode::Shared, SHORT).unwrap();
    b.acquire(KeySpaceId(2), b"k", Mode::Exclusive, SHORT).unwrap();
    let error = a.acquire(SPACE, b"k", Mode::Exclusive, SHORT).unwrap_err();
    assert!(error.to_string().contains("did not end within 20ms"), "{error}");
    assert!(error.is_retryable());
    drop(b);
    a.acquire(SPACE, b"k", Mode::Exclusive, SHORT).unwrap();
    a.acquire(SPACE, b"k", Mode::Shared, SHORT).unwrap();
    let mut c = table.begin(None);
    assert!(c.acquire(SPACE, b"k", Mode::Shared, SHORT).is_err());
    drop((a, c));
    assert!(is_empty(&table));
}

#[test]
fn who_waited_in_vain_is_not_waited_for() {
    let table = Arc::new(LockTable::default());
    let (mut reader, mut writer) = (table.begin(None), table.begin(None));
    reader.acquire(SPACE, b"k", Mode::Shared, SHORT).unwrap();
    writer.acquire(SPACE, b"other", Mode::Exclusive, SHORT).unwrap();
    std::thread::scope(|scope| {
        let mut second = table.begin(None);
        // The request queues behind the writer's, and is granted when the writer gives up.
        let waiting = scope.spawn(move || {
            while table_len(&second.table) < 1 {
                std::thread::yield_now();
            }
            second.acquire(SPACE, b"k", Mode::Shared, LONG).map(|_| second)
        });
        let given_up = writer.acquire(SPACE, b"k", Mode::Exclusive, Duration::from_secs(2));
        assert!(matches!(given_up, Err(Error::LockTimeout { .. })));
        let mut second = waiting.join().unwrap().unwrap();
        // That it once waited for the writer is no reason for it not to be waited for.
        second.acquire(SPACE, b"third", Mode::Exclusive, SHORT).unwrap();
        let waits = writer.acquire(SPACE, b"third", Mode::Exclusive, SHORT);
        assert!(matches!(waits, Err(Error::LockTimeout { .. })), "it is no circle");
    });
    drop((reader, writer));
    assert!(is_empty(&table));
}

/// A moment that is soon past.
fn soon() -> Option<Instant> {
    Instant::now().checked_add(SHORT)
}

#[test]
fn an_expired_transaction_loses_its_locks_to_those_that_wait() {
    let table = Arc::new(LockTable::default());
    let (mut forgotten, mut other) = (table.begin(soon()), table.begin(None));
    forgotten.acquire(SPACE, b"waited for", Mode::Exclusive, SHORT).unwrap();
    forgotten.acquire(SPACE, b"shared", Mode::Shared, SHORT).unwrap();
    forgotten.acquire(SPACE, b"left alone", Mode::Shared, SHORT).unwrap();
    other.acquire(SPACE, b"shared", Mode::Shared, SHORT).unwrap();
    // The transaction waits until then, and no longer.
    assert!(other.acquire(SPACE, b"waited for", Mode::Shared, PATIENT).unwrap());
    assert!(!other.acquire(SPACE, b"shared", Mode::Exclusive, Duration::ZERO).unwrap());
    let mut third = table.begin(None);
    assert!(third.acquire(SPACE, b"shared", Mode::Shared, SHORT).is_err());
    // Its release does not take the lock from another transaction.
    drop(forgotten);
    assert!(third.acquire(SPACE, b"waited for", Mode::Exclusive, SHORT).is_err());
    drop((other, third));
    assert!(is_empty(&table));
}

#[test]
fn whoever_comes_to_hold_a_lock_may_expire_as_well() {
    let table = Arc::new(LockTable::default());
    let mut holder = table.begin(None);
    holder.acquire(SPACE, b"k", Mode::Exclusive, SHORT).unwrap();
    std::thread::scope(|scope| {
        let waits = |mut locks: Locks, place: usize| {
            let waiting = scope.spawn(move || {
                locks.acquire(SPACE, b"k", Mode::Exclusive, PATIENT).unwrap();
                locks
            });
            while table_len(&table) <= place {
                std::thread::yield_now();
            }
            waiting
        };
        let moment = Instant::now().checked_add(Duration::from_millis(500));
        let (first, second) = (waits(table.begin(moment), 0), waits(table.begin(None), 1));
        drop(holder);
        let _forgotten = first.join().unwrap();
        second.join().unwrap();
    });
    assert!(is_empty(&table));
}

#[test]
fn a_commit_that_has_begun_keeps_its_locks() {
    let table = Arc::new(LockTable::default());
    let (mut commits, mut late) = (table.begin(soon()), table.begin(soon()));
    commits.acquire(SPACE, b"k", Mode::Exclusive, SHORT).unwrap();
    late.acquire(SPACE, b"l", Mode::Exclusive, SHORT).unwrap();
    commits.begin_commit();
    std::thread::sleep(2 * SHORT);
    let mut other = table.begin(None);
    let waits = other.acquire(SPACE, b"k", Mode::Exclusive, SHORT);
    assert!(matches!(waits, Err(Error::LockTimeout { .. })));
    other.acquire(SPACE, b"l", Mode::Exclusive, SHORT).unwrap();
    // To begin then is no use, which its age tells it.
    late.begin_commit();
    assert!(table.begin(None).acquire(SPACE, b"l", Mode::Shared, SHORT).is_err());
    drop((commits, late, other));
    assert!(is_empty(&table));
}

/// Requests that wait.
fn table_len(table: &LockTable) -> usize {
    let waiting = |shard: &super::Mutex<Shard>| -> usize {
        shard.lock().values().map(|lock| lock.queue.len()).sum()
    };
    table.shards.iter().map(waiting).sum()
}

#[test]
fn a_writer_does_not_starve_behind_readers() {
    let table = Arc::new(LockTable::default());
    let mut reader = table.begin(None);
    reader.acquire(SPACE, b"k", Mode::Shared, SHORT).unwrap();
    std::thread::scope(|scope| {
        let mut writer = table.begin(None);
        let table = &table;
        let written = scope.spawn(move || writer.acquire(SPACE, b"k", Mode::Exclusive, LONG));
        while table_len(table) == 0 {
            std::thread::yield_now();
        }
        // A reader that comes later waits behind it, though only readers hold the lock.
        let late = table.begin(None).acquire(SPACE, b"k", Mode::Shared, SHORT);
        assert!(matches!(late, Err(Error::LockTimeout { .. })));
        drop(reader);
        written.join().unwrap().unwrap();
    });
}

#[test]
fn two_that_go_up_to_exclusive_do_not_wait_for_each_other() {
    in_many_orders(|| {
        let table = Arc::new(LockTable::default());
        let refused = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (table, refused) = (Arc::clone(&table), Arc::clone(&refused));
                thread::spawn(move || {
                    let mut locks = table.begin(None);
                    locks.acquire(SPACE, b"k", Mode::Shared, LONG).unwrap();
                    match locks.acquire(SPACE, b"k", Mode::Exclusive, LONG) {
                        Ok(_) => {}
                        Err(Error::Deadlock { .. }) => {
                            let _ = refused.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(refused.load(Ordering::Relaxed) <= 1, "one of the two goes on");
        assert!(is_empty(&table));
    });
}

/// The holders of each key, and their modes.
type Held = BTreeMap<u8, Vec<(TransactionId, Mode)>>;

/// Transactions lock three keys in any order and mode. The guarantees of the locks hold at every moment, every cycle is
/// detected, and no lock is left.
#[test]
fn locks_keep_their_promise_in_every_order_and_nobody_waits_forever() {
    in_many_orders(|| {
        const PLANS: [&[(u8, Mode)]; 4] = [
            &[(0, Mode::Exclusive), (1, Mode::Exclusive), (2, Mode::Shared)],
            &[(1, Mode::Shared), (2, Mode::Exclusive), (1, Mode::Exclusive)],
            &[(2, Mode::Shared), (0, Mode::Shared), (2, Mode::Exclusive)],
            &[(1, Mode::Shared), (0, Mode::Exclusive)],
        ];
        let table = Arc::new(LockTable::default());
        let held: Arc<Mutex<Held>> = Arc::default();
        let threads = PLANS.map(|plan| {
            let (table, held) = (Arc::clone(&table), Arc::clone(&held));
            thread::spawn(move || {
                loop {
                    let mut locks = table.begin(None);
                    let of = locks.of();
                    let done = plan.iter().try_for_each(|&(key, mode)| {
                        locks.acquire(SPACE, &[key], mode, LONG)?;
                        let mut held = held.lock().unwrap();
                        let holders = held.entry(key).or_default();
                        let others = holders.iter().filter(|(other, _)| *other != of);
                        assert!(others.clone().all(|(_, other)| other.allows(mode)));
                        holders.push((of, mode));
                        drop(held);
                        point();
                        Ok(())
                    });
                    let mut held = held.lock().unwrap();
                    held.values_mut()
                        .for_each(|holders| holders.retain(|(holder, _)| *holder != of));
                    drop(held);
                    drop(locks);
                    match done {
                        Ok(()) => return,
                        Err(Error::Deadlock { .. }) => point(),
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(is_empty(&table));
    });
}
