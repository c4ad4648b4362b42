//! The guarantees of groups, leaves and their coroutines and state machines.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::task::{Context, Waker};

use halite_blocks::Error;
use halite_blocks::interleave::{
    Group, LEAF_LEN, Leaves, Overlap, SLOTS, insert_all, interleave, look_up_all, yield_now,
};
use halite_pmem::{Domain, Fresh, LINE, Medium, Pool, PoolOptions, UNIT};
use proptest::prelude::*;
use tempfile::TempDir;

const REGION: u64 = LINE + 8 * LEAF_LEN;

fn scratch() -> (TempDir, Pool) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = PoolOptions::default();
    // A fence on an ordinary file would sync it.
    options.assume_domain = Some(Domain::Process);
    let pool = Pool::create(&folder.path().join("pool"), &options).unwrap();
    (folder, pool)
}

/// A pool whose power can be cut.
fn modelled() -> (Medium, Pool) {
    let medium = Medium::new(Domain::Memory, UNIT).unwrap();
    let mut options = PoolOptions::default();
    options.medium = Some(medium.clone());
    let pool = Pool::create(Path::new("pool"), &options).unwrap();
    pool.install().unwrap();
    (medium, pool)
}

fn leaves(pool: &Pool) -> Leaves {
    Leaves::format(pool.claim(0, REGION).unwrap()).unwrap()
}

fn insert_group(leaves: &Leaves, group: &Group, pairs: &[(u64, u64, u64)]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    interleave(
        group,
        pairs.iter().copied(),
        |(leaf, key, value)| async move { (key, leaves.insert(group, leaf, key, value).await) },
        |(key, outcome)| outcomes.push((key, outcome)),
    );
    outcomes
}

type Outcome = (u64, halite_blocks::Result<()>);

/// Returns all values, by leaf and key.
fn contents(leaves: &Leaves) -> BTreeMap<(u64, u64), u64> {
    let all = (0..leaves.leaves()).flat_map(|leaf| {
        let pairs = leaves.pairs(leaf).unwrap().into_iter();
        pairs.map(move |(key, value)| ((leaf, key), value))
    });
    all.collect()
}

#[test]
fn a_group_pays_two_fences_for_its_inserts() {
    let (_folder, pool) = scratch();
    let pairs: Vec<_> = (0..64).map(|key| (key % 8, key, key + 1)).collect();
    for (size, overlap, fences) in [
        (1, Overlap::Both, 128),
        (16, Overlap::Both, 8),
        (16, Overlap::Writes, 8),
        (16, Overlap::Reads, 128),
    ] {
        let group = Group::overlapping(&pool, size, overlap);
        let leaves = leaves(&pool);
        let before = pool.traffic();
        let outcomes = insert_group(&leaves, &group, &pairs);
        let traffic = pool.traffic() - before;
        assert!(outcomes.len() == 64 && outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
        assert_eq!((traffic.fences, traffic.flushes, traffic.lines), (fences, 128, 128), "{size}");
        assert_eq!(contents(&leaves).len(), 64);
    }
}

#[test]
fn one_at_a_time_an_insert_has_two_fences_and_two_lines() {
    let (_folder, pool) = scratch();
    let mut leaves = leaves(&pool);
    let before = pool.traffic();
    leaves.insert_alone(3, 7, 70).unwrap();
    let traffic = pool.traffic() - before;
    assert_eq!((traffic.fences, traffic.flushes, traffic.lines), (2, 2, 2));
    assert_eq!(leaves.look_up_alone(3, 7).unwrap(), Some(70));
    let traffic = pool.traffic() - before;
    assert_eq!((traffic.fences, traffic.flushes), (2, 2));
    let before = pool.traffic().loads;
    leaves.look_up_alone(3, 7).unwrap();
    assert_eq!(pool.traffic().loads - before, 2, "one a line");
}

#[test]
fn a_state_machine_pays_the_same() {
    let (_folder, pool) = scratch();
    let mut leaves = leaves(&pool);
    let before = pool.traffic();
    let pairs = (0..64).map(|key| (key % 8, key, key + 1));
    let mut ended = 0;
    insert_all(&mut leaves, 16, pairs, |outcome| {
        outcome.unwrap();
        ended += 1;
    })
    .unwrap();
    let traffic = pool.traffic() - before;
    assert_eq!((ended, traffic.fences, traffic.flushes, traffic.lines), (64, 8, 128, 128));
}

#[test]
fn nobody_goes_on_before_the_fence_that_all_share() {
    let (_folder, pool) = scratch();
    let fresh = pool.claim(0, 4096).unwrap();
    let words = fresh.into_words();
    let group = Group::new(&pool, 4);
    let stored = Cell::new(0);
    let order = RefCell::new(Vec::new());
    interleave(
        &group,
        0..4_u64,
        |number| {
            let (group, words, pool, stored, order) = (&group, &words, &pool, &stored, &order);
            async move {
                for _ in 0..number {
                    yield_now().await;
                }
                words.store(64 * number, 1);
                stored.set(stored.get() + 1);
                let before = pool.traffic().fences;
                group.fence([words.flush(64 * number..64 * number + 8)]).await.unwrap();
                assert_eq!((stored.get(), pool.traffic().fences - before), (4, 1));
                order.borrow_mut().push(number);
            }
        },
        |()| (),
    );
    assert_eq!(*order.borrow(), [0, 1, 2, 3]);
}

#[test]
fn an_insert_among_endless_lookups_ends() {
    let (_folder, pool) = scratch();
    let leaves = leaves(&pool);
    let group = Group::new(&pool, 4);
    let ended = Cell::new(false);
    let mut lookups = 0_u32;
    let operations = std::iter::once(true).chain(std::iter::from_fn(|| {
        lookups += 1;
        assert!(lookups < 10_000, "the insert still waits");
        (!ended.get()).then_some(false)
    }));
    interleave(
        &group,
        operations,
        |is_insert| {
            let (leaves, group, ended) = (&leaves, &group, &ended);
            async move {
                if is_insert {
                    leaves.insert(group, 0, 1, 2).await.unwrap();
                    ended.set(true);
                } else {
                    leaves.look_up(group, 0, 1).await.unwrap();
                }
            }
        },
        |()| (),
    );
    assert!(ended.get());
}

#[test]
fn a_fence_that_fails_reaches_all_that_wait_and_ends_all_inserts() {
    let (medium, pool) = modelled();
    let mut leaves = leaves(&pool);
    let group = Group::new(&pool, 8);
    medium.machine().cut_power();
    // More inserts than a leaf has slots: the failed ones keep none.
    let pairs: Vec<_> = (0..100).map(|key| (2, key, key)).collect();
    let outcomes = insert_group(&leaves, &group, &pairs);
    assert_eq!(outcomes.len(), 100);
    for (number, (_, outcome)) in outcomes.iter().enumerate() {
        match outcome {
            Err(Error::SharedFence(_)) => assert!(number < 8, "{number}"),
            Err(Error::LeavesFailed { .. }) => assert!(number > 0, "{number}"),
            _ => panic!("{number}: {outcome:?}"),
        }
    }
    assert!(matches!(outcomes[0].1, Err(Error::SharedFence(_))));
    for (_, outcome) in insert_group(&leaves, &Group::new(&pool, 8), &pairs) {
        assert!(matches!(outcome, Err(Error::LeavesFailed { .. })), "{outcome:?}");
    }
    assert!(matches!(leaves.insert_alone(1, 7, 7), Err(Error::LeavesFailed { .. })));
    insert_all(&mut leaves, 4, pairs, |outcome| {
        assert!(matches!(outcome, Err(Error::LeavesFailed { .. })), "{outcome:?}");
    })
    .unwrap();
}

#[test]
fn a_group_can_be_dropped_midway() {
    let (_folder, pool) = scratch();
    let leaves = leaves(&pool);
    let group = Group::new(&pool, 8);
    let dropped = Cell::new(0);
    struct Counted<'a>(&'a Cell<u32>);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let panic = catch_unwind(AssertUnwindSafe(|| {
        interleave(
            &group,
            0..100_u64,
            |key| {
                let counted = Counted(&dropped);
                let (leaves, group) = (&leaves, &group);
                async move {
                    let _counted = counted;
                    leaves.insert(group, 0, key, key).await.unwrap();
                    assert!(key != 10, "the eleventh ends all");
                }
            },
            |()| (),
        );
    }));
    assert!(panic.is_err());
    assert_eq!(dropped.get(), 18, "ten that ended, the one that panicked, and seven under way");
    // The group and the leaves go on; each unfinished insert has happened once or not at all.
    let found = contents(&leaves);
    assert!((0..8).all(|key| found.get(&(0, key)) == Some(&key)));
    for (key, outcome) in insert_group(&leaves, &group, &[(0, 15, 15), (0, 3, 4)]) {
        match outcome {
            Err(Error::KeyExists { leaf: 0, key: exists }) => assert_eq!(exists, key),
            outcome => assert!(outcome.is_ok() && key == 15),
        }
    }
    assert_eq!(contents(&leaves)[&(0, 3)], 3);
}

#[test]
fn a_key_twice_in_a_group_is_there_once() {
    let (_folder, pool) = scratch();
    for overlap in [Overlap::Reads, Overlap::Writes, Overlap::Both] {
        let leaves = Leaves::format(pool.claim(0, REGION).unwrap()).unwrap();
        let group = Group::overlapping(&pool, 8, overlap);
        let outcomes = insert_group(&leaves, &group, &[(1, 5, 50), (1, 5, 51), (2, 5, 52)]);
        let refused = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
        assert_eq!(refused, 1);
        let found = contents(&leaves);
        assert_eq!((found.len(), found[&(1, 5)], found[&(2, 5)]), (2, 50, 52));
    }
}

#[test]
fn a_lookup_does_not_see_what_is_not_durable() {
    let (_folder, pool) = scratch();
    let leaves = leaves(&pool);
    let group = Group::new(&pool, 2);
    let acknowledged = Cell::new(false);
    interleave(
        &group,
        [true, false],
        |is_insert| {
            let (leaves, group, acknowledged) = (&leaves, &group, &acknowledged);
            async move {
                if is_insert {
                    leaves.insert(group, 0, 9, 90).await.unwrap();
                    acknowledged.set(true);
                } else {
                    while !acknowledged.get() {
                        assert_eq!(leaves.look_up(group, 0, 9).await.unwrap(), None);
                        group.fence([]).await.unwrap();
                    }
                    assert_eq!(leaves.look_up(group, 0, 9).await.unwrap(), Some(90));
                }
            }
        },
        |()| (),
    );
    assert!(acknowledged.get());
}

#[test]
fn a_full_leaf_and_a_leaf_that_is_not_there_are_named() {
    let (_folder, pool) = scratch();
    let mut leaves = leaves(&pool);
    let group = Group::new(&pool, 40);
    let pairs: Vec<_> = (0..40).map(|key| (2, key, key)).collect();
    let outcomes = insert_group(&leaves, &group, &pairs);
    let full = |outcome: &Outcome| matches!(outcome.1, Err(Error::LeafFull { leaf: 2 }));
    assert_eq!(outcomes.iter().filter(|outcome| full(outcome)).count(), 8);
    assert_eq!(leaves.pairs(2).unwrap().len(), SLOTS as usize);
    let missing = leaves.insert_alone(8, 1, 1).unwrap_err();
    assert_eq!(missing.to_string(), "there is no leaf 8: there are 8, counted from 0");
    let mut refused = 0;
    look_up_all(&leaves, 4, [(9, 1), (2, 1)], |found| match found {
        Err(Error::NoSuchLeaf { leaf: 9, leaves: 8 }) => refused += 1,
        found => assert_eq!(found.unwrap(), Some(1)),
    });
    assert_eq!(refused, 1);
}

fn changed(pool: &Pool, change: impl FnOnce(&mut Fresh)) -> Fresh {
    let mut fresh = pool.claim(0, REGION).unwrap();
    change(&mut fresh);
    fresh
}

#[test]
fn damage_is_named() {
    let (_folder, pool) = scratch();
    assert!(matches!(
        Leaves::open(pool.claim(0, REGION).unwrap()),
        Err(Error::Foreign { offset: 0, .. })
    ));
    let mut found = leaves(&pool);
    for key in 0..20 {
        found.insert_alone(4, key, 1).unwrap();
    }
    drop(found);
    let flip = |at: u64, bit: u8| {
        move |fresh: &mut Fresh| {
            let byte = fresh.read(at, 1)[0] ^ 1 << bit;
            fresh.write(at, &[byte]);
        }
    };
    let first = LINE + 4 * LEAF_LEN;
    // The header, the used slots and their check.
    for at in (8..24).chain(first..first + 8) {
        let damaged = Leaves::open(changed(&pool, flip(at, 3)));
        assert!(matches!(damaged, Err(Error::Damaged { .. })), "byte {at}");
        drop(changed(&pool, flip(at, 3)));
    }
    // A fingerprint, and a key.
    for at in [first + 8, first + 11, first + LINE + 16 * 3] {
        let damaged = Leaves::open(changed(&pool, flip(at, 6))).unwrap();
        assert!(matches!(damaged.verify(), Err(Error::Damaged { .. })), "byte {at}");
        for key in 0..20 {
            match damaged.look_up_alone(4, key) {
                Ok(value) => assert!(value.is_none_or(|value| value == 1)),
                Err(error) => assert!(matches!(error, Error::Damaged { .. })),
            }
        }
        drop(damaged);
        drop(changed(&pool, flip(at, 6)));
    }
    let whole = Leaves::open(pool.claim(0, REGION).unwrap()).unwrap();
    whole.verify().unwrap();
    assert_eq!(whole.pairs(4).unwrap().len(), 20);
    drop(whole);
    let short = Leaves::open(pool.claim(0, REGION - 1).unwrap());
    assert!(matches!(short, Err(Error::Damaged { .. })), "the last leaf is cut off");
}

/// How inserts and lookups are run.
#[derive(Debug, Clone, Copy)]
enum Way {
    Alone,
    Coroutines(usize, Overlap),
    Machine(usize),
}

fn insert_by(way: Way, leaves: &mut Leaves, pairs: &[(u64, u64, u64)]) -> usize {
    let mut refused = 0;
    let mut note = |outcome: halite_blocks::Result<()>| match outcome {
        Ok(()) => {}
        Err(Error::KeyExists { .. } | Error::LeafFull { .. }) => refused += 1,
        Err(error) => panic!("{error}"),
    };
    match way {
        Way::Alone => {
            for &(leaf, key, value) in pairs {
                note(leaves.insert_alone(leaf, key, value));
            }
        }
        Way::Coroutines(size, overlap) => {
            let group = Group::overlapping(leaves.pool(), size, overlap);
            let outcomes = insert_group(leaves, &group, pairs);
            outcomes.into_iter().for_each(|(_, outcome)| note(outcome));
        }
        Way::Machine(size) => insert_all(leaves, size, pairs.iter().copied(), note).unwrap(),
    }
    refused
}

fn look_up_by(way: Way, leaves: &Leaves, keys: &[(u64, u64)]) -> Vec<u64> {
    let mut found = Vec::new();
    match way {
        Way::Alone => found.extend(
            keys.iter().filter_map(|&(leaf, key)| leaves.look_up_alone(leaf, key).unwrap()),
        ),
        Way::Coroutines(size, overlap) => {
            let group = Group::overlapping(leaves.pool(), size, overlap);
            let run = |(leaf, key)| leaves.look_up(&group, leaf, key);
            interleave(&group, keys.iter().copied(), run, |value| found.extend(value.unwrap()));
        }
        Way::Machine(size) => {
            look_up_all(leaves, size, keys.iter().copied(), |value| found.extend(value.unwrap()));
        }
    }
    found.sort_unstable();
    found
}

fn way() -> impl Strategy<Value = Way> {
    let overlap = prop_oneof![Just(Overlap::Reads), Just(Overlap::Writes), Just(Overlap::Both)];
    prop_oneof![
        Just(Way::Alone),
        (1..40_usize, overlap).prop_map(|(size, overlap)| Way::Coroutines(size, overlap)),
        (1..40_usize).prop_map(Way::Machine),
    ]
}

proptest! {
    #[test]
    fn leaves_are_a_map(
        rounds in prop::collection::vec(
            (way(), prop::collection::vec((0..3_u64, 0..60_u64), 1..60)), 1..6
        ),
        look in way(),
    ) {
        let (_folder, pool) = scratch();
        let mut leaves = leaves(&pool);
        let mut model = BTreeMap::new();
        let mut value = 0;
        for (way, keys) in rounds {
            let pairs: Vec<_> = keys.iter().map(|&(leaf, key)| {
                value += 1;
                (leaf, key * 0x1234_5678_9abc, value)
            }).collect();
            // Within a group any of them may win; so the values of a key are the same there.
            let pairs: Vec<_> = pairs.iter().map(|&(leaf, key, _)| {
                (leaf, key, pairs.iter().find(|pair| (pair.0, pair.1) == (leaf, key)).unwrap().2)
            }).collect();
            let refused = insert_by(way, &mut leaves, &pairs);
            let found = contents(&leaves);
            // A leaf that is too small for a group may have any part of the group's pairs.
            let mut expected = pairs.len() - refused;
            for &(leaf, key, value) in &pairs {
                let is_new = !model.contains_key(&(leaf, key));
                if is_new && found.get(&(leaf, key)) == Some(&value) {
                    model.insert((leaf, key), value);
                    expected -= 1;
                } else if is_new {
                    prop_assert_eq!(leaves.pairs(leaf).unwrap().len(), SLOTS as usize);
                }
            }
            prop_assert_eq!(expected, 0);
            prop_assert_eq!(&found, &model);
        }
        let keys: Vec<_> = (0..3)
            .flat_map(|leaf| (0..60).map(move |key| (leaf, key * 0x1234_5678_9abc)))
            .collect();
        let mut values: Vec<_> = model.values().copied().collect();
        values.sort_unstable();
        prop_assert_eq!(look_up_by(look, &leaves, &keys), values);
        drop(leaves);
        let again = Leaves::open(pool.claim(0, REGION).unwrap()).unwrap();
        again.verify().unwrap();
        prop_assert_eq!(contents(&again), model);
    }
}

fn panic_of(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap()
}

/// Polls a future so many times, and leaks it in that state.
fn poll_and_leak<F: Future>(times: u32, future: F) {
    let mut future = Box::pin(future);
    for _ in 0..times {
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    std::mem::forget(future);
}

#[test]
fn what_would_never_end_panics() {
    let (_folder, pool) = scratch();
    let leaves = leaves(&pool);
    let (group, other) = (Group::new(&pool, 2), Group::new(&pool, 2));
    let outside = panic_of(|| poll_and_leak(1, group.fence([])));
    assert!(outside.contains("in its interleave"), "{outside}");
    let nested = panic_of(|| {
        interleave(
            &group,
            0..2,
            |_| async { interleave(&group, 0..2, |_| async {}, |()| ()) },
            |()| (),
        );
    });
    assert!(nested.contains("interleaves on the same group"), "{nested}");
    // The insert of the outer group gets no turn before the inner one has ended.
    let leaves = &leaves;
    let insert = |group| async move { leaves.insert(group, 0, 5, 50).await.unwrap() };
    let inner = panic_of(|| {
        let (group, other) = (&group, &other);
        let run = |number| async move {
            match number {
                0 => insert(group).await,
                _ => {
                    yield_now().await;
                    yield_now().await;
                    interleave(other, 0..1, |_| insert(other), |()| ());
                }
            }
        };
        interleave(group, 0..2, run, |()| ());
    });
    assert!(inner.contains("belong to one group"), "{inner}");
    // All of them go on.
    interleave(&group, 0..1, |_| insert(&group), |()| ());
    assert_eq!(leaves.look_up_alone(0, 5).unwrap(), Some(50));
}

#[test]
fn an_insert_that_was_leaked_stands_in_nobodys_way() {
    let (_folder, pool) = scratch();
    let mut leaves = leaves(&pool);
    let group = Group::overlapping(&pool, 1, Overlap::Writes);
    for key in [7, 8] {
        let run = |()| async {
            poll_and_leak(1, leaves.insert(&group, 0, key, 1));
        };
        interleave(&group, [()], run, |()| ());
        match key {
            7 => leaves.insert_alone(0, key, 2).unwrap(),
            _ => insert_all(&mut leaves, 2, [(0, key, 2)], |outcome| outcome.unwrap()).unwrap(),
        }
        assert_eq!(leaves.look_up_alone(0, key).unwrap(), Some(2));
    }
}
