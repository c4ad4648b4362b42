use proptest::prelude::*;

use super::deadline_records::Records;
use super::*;
use crate::collection::list::{End, List};
use crate::stored::{Type, collection_id};

/// A store on a database that only this test has.
fn store(partitions: usize, engine: &str) -> Store {
    let builder = halite::Database::builder().engine(engine).max_size(64 << 20);
    let builder = builder.partitioning(halite::Partitioning::Hash(partitions));
    Store::open(builder.in_memory().unwrap(), 3).unwrap()
}

/// A store on a database.
pub(crate) fn store_on(db: &halite::Database) -> Store {
    Store::open(db.clone(), 3).unwrap()
}

/// Checks that there are so many elements of collections in database 0, and no others.
pub(crate) fn check_elements(db: &halite::Database, count: usize) {
    let elements = db.find_key_space("db0:elements").unwrap().unwrap();
    let found: halite::Result<Vec<_>> = elements.iter().unwrap().collect();
    assert_eq!(found.unwrap().len(), count);
}

/// Any of the engines.
pub(crate) fn engine() -> impl Strategy<Value = &'static str> {
    prop::sample::select(halite::ENGINES)
}

/// An operation of a command.
#[derive(Debug, Clone)]
enum Action {
    Put { db: usize, key: u8, value: u8, deadline: NewDeadline },
    Remove { db: usize, key: u8 },
    SetDeadline { db: usize, key: u8, deadline: Option<u64> },
    Flush { db: usize },
    Swap { a: usize, b: usize },
    Later,
}

fn action() -> impl Strategy<Value = Action> {
    let (db, key) = (0..3usize, 0..6u8);
    let deadline = prop_oneof![
        2 => Just(NewDeadline::Keep),
        2 => Just(NewDeadline::Clear),
        3 => (0..30u64).prop_map(NewDeadline::At),
    ];
    prop_oneof![
        6 => (db.clone(), key.clone(), any::<u8>(), deadline)
            .prop_map(|(db, key, value, deadline)| Action::Put { db, key, value, deadline }),
        3 => (db.clone(), key.clone()).prop_map(|(db, key)| Action::Remove { db, key }),
        3 => (db.clone(), key, proptest::option::of(0..30u64))
            .prop_map(|(db, key, deadline)| Action::SetDeadline { db, key, deadline }),
        1 => db.clone().prop_map(|db| Action::Flush { db }),
        1 => (db.clone(), db).prop_map(|(a, b)| Action::Swap { a, b }),
        1 => Just(Action::Later),
    ]
}

fn apply(store: &mut Store, action: &Action) {
    match *action {
        Action::Put { db, key, value, deadline } => {
            // Looks at the value first, as commands do that keep a deadline.
            store.get(db, &[key]).unwrap();
            store.put(db, &[key], &[value], deadline).unwrap();
        }
        Action::Remove { db, key } => drop(store.remove(db, &[key]).unwrap()),
        Action::SetDeadline { db, key, deadline } => {
            if store.contains(db, &[key]).unwrap() {
                store.set_deadline(db, &[key], deadline).unwrap();
            }
        }
        Action::Flush { db } => store.flush(db..db + 1).unwrap(),
        Action::Swap { a, b } => store.swap(a, b).unwrap(),
        Action::Later => store.now_ms += 5,
    }
}

/// Everything that a client can see.
type Seen = Vec<(usize, Vec<u8>, Vec<u8>, Option<u64>)>;

fn seen(store: &mut Store) -> Seen {
    let mut all = Vec::new();
    for db in 0..3 {
        let mut keys = Vec::new();
        let visit = |key: &[u8]| {
            keys.push(key.to_vec());
            std::ops::ControlFlow::Continue(())
        };
        store.walk(db, None, b"", None, visit).unwrap();
        assert!(store.len(db).unwrap() >= keys.len() as u64);
        for key in 0..6u8 {
            assert_eq!(store.contains(db, &[key]).unwrap(), keys.contains(&vec![key]));
        }
        // Now that all expired keys have been looked at, they are gone.
        assert_eq!(store.len(db).unwrap(), keys.len() as u64);
        for key in keys {
            let value = store.get(db, &key).unwrap().unwrap().into_string().unwrap().to_vec();
            let deadline = store.deadline(db, &key).unwrap();
            all.push((db, key, value, deadline));
        }
    }
    all
}

/// The deadlines in the key spaces and those in memory.
fn check_deadlines(store: &Store) {
    for (place, database) in store.databases.iter().enumerate() {
        let mut stored = 0;
        for pair in database.expires.iter().unwrap() {
            let (key, record) = pair.unwrap();
            let at = u64::from_be_bytes(record[..].try_into().unwrap());
            assert_eq!(store.stored_deadline(store.spot_at(place, &key), &key).unwrap(), Some(at));
            assert!(database.values.contains_key(&key).unwrap());
            stored += 1;
        }
        for part in store.parts.iter().flatten() {
            part.deadlines[place].check(&Records::of_keys(database, part.number));
        }
        let parts = store.parts.iter().flatten();
        assert_eq!(parts.map(|part| part.deadlines[place].len()).sum::<usize>(), stored);
    }
}

proptest! {
    #[test]
    fn a_transaction_does_what_its_commands_do_one_by_one(
        before in prop::collection::vec(action(), 0..30),
        inside in prop::collection::vec(action(), 0..30), partitions in 1..4usize, engine in engine(),
    ) {
        let (mut one_by_one, mut together) = (store(partitions, engine), store(partitions, engine));
        for action in &before {
            apply(&mut one_by_one, action);
            apply(&mut together, action);
        }
        together.begin();
        for action in &inside {
            apply(&mut one_by_one, action);
            apply(&mut together, action);
            prop_assert_eq!(seen(&mut one_by_one), seen(&mut together));
        }
        together.commit().unwrap();
        prop_assert_eq!(seen(&mut one_by_one), seen(&mut together));
        check_deadlines(&one_by_one);
        check_deadlines(&together);
        // All of it is in the database.
        let mut reopened = Store::open(together.db.clone(), 3).unwrap();
        reopened.now_ms = together.now_ms;
        prop_assert_eq!(seen(&mut reopened), seen(&mut together));
    }

    #[test]
    fn a_transaction_that_is_rolled_back_leaves_nothing(
        before in prop::collection::vec(action(), 0..20),
        inside in prop::collection::vec(action(), 0..20), partitions in 1..4usize, engine in engine(),
    ) {
        let mut store = store(partitions, engine);
        before.iter().for_each(|action| apply(&mut store, action));
        let (then, now_ms) = (seen(&mut store), store.now_ms);
        store.begin();
        inside.iter().for_each(|action| apply(&mut store, action));
        store.rollback();
        store.now_ms = now_ms;
        prop_assert_eq!(seen(&mut store), then);
        check_deadlines(&store);
    }

    #[test]
    fn collected_keys_are_those_that_nobody_could_see(
        actions in prop::collection::vec(action(), 0..40), limit in 1..4usize,
        partitions in 1..4usize, engine in engine(),
    ) {
        let mut store = store(partitions, engine);
        actions.iter().for_each(|action| apply(&mut store, action));
        store.now_ms += 10;
        let mut copy = Store::open(store.db.clone(), 3).unwrap();
        copy.now_ms = store.now_ms;
        while store.expire_due(limit) == limit {}
        check_deadlines(&store);
        let lens: Vec<_> = (0..3).map(|db| store.len(db).unwrap()).collect();
        let seen = seen(&mut store);
        let visible: Vec<_> =
            (0..3).map(|db| seen.iter().filter(|(at, ..)| *at == db).count() as u64).collect();
        prop_assert_eq!(lens, visible);
    }

    #[test]
    fn a_walk_goes_on_behind_any_key(
        keys in prop::collection::btree_set(prop::collection::vec(0..3u8, 0..4), 0..20),
        changed in prop::collection::btree_set(prop::collection::vec(0..3u8, 0..4), 0..10),
        prefix in prop::collection::vec(0..3u8, 0..3),
        after in proptest::option::of(prop::collection::vec(0..3u8, 0..4)),
        partitions in 1..4usize, engine in engine(),
    ) {
        let mut store = store(partitions, engine);
        for key in &keys {
            store.put(0, key, b"v", NewDeadline::Clear).unwrap();
        }
        store.begin();
        let mut expected = keys.clone();
        for key in &changed {
            if !store.remove(0, key).unwrap() {
                store.put(0, key, b"v", NewDeadline::Clear).unwrap();
                expected.insert(key.clone());
            } else {
                expected.remove(key);
            }
        }
        let mut found = Vec::new();
        store.walk(0, None, &prefix, after.as_deref(), |key| {
            found.push(key.to_vec());
            std::ops::ControlFlow::Continue(())
        }).unwrap();
        expected.retain(|key| key.starts_with(&prefix));
        expected.retain(|key| after.as_ref().is_none_or(|after| key > after));
        prop_assert_eq!(&found, &expected.into_iter().collect::<Vec<_>>());
        let mut by_partition = Vec::new();
        for partition in 0..store.partitions() {
            store.walk(0, Some(partition), &prefix, after.as_deref(), |key| {
                assert_eq!(store.partition_of(key), partition);
                by_partition.push(key.to_vec());
                std::ops::ControlFlow::Continue(())
            }).unwrap();
        }
        by_partition.sort();
        prop_assert_eq!(found, by_partition);
    }

    #[test]
    fn a_visit_in_no_order_finds_what_a_walk_does(
        keys in prop::collection::btree_set(prop::collection::vec(0..3u8, 0..6), 0..60),
        changed in prop::collection::btree_set(prop::collection::vec(0..3u8, 0..6), 0..10),
        flushed in any::<bool>(), step in 1..20usize, partitions in 1..4usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let builder = halite::Database::builder().index(halite::IndexKind::Hash);
        let builder = builder.partitioning(halite::Partitioning::Hash(partitions));
        let db = builder.open(folder.path().join("data")).unwrap();
        let mut store = Store::open(db, 3).unwrap();
        store.now_ms = 10;
        for (number, key) in keys.iter().enumerate() {
            let deadline = if number % 5 == 0 { NewDeadline::At(5) } else { NewDeadline::Clear };
            store.put(0, key, b"v", deadline).unwrap();
        }
        for in_transaction in [false, true] {
            if in_transaction {
                store.begin();
                if flushed {
                    store.flush(0..1).unwrap();
                }
                for key in &changed {
                    if !store.remove(0, key).unwrap() {
                        store.put(0, key, b"v", NewDeadline::Clear).unwrap();
                    }
                }
            }
            let (mut expected, mut found) = (Vec::new(), std::collections::BTreeSet::new());
            store.walk(0, None, b"", None, |key| {
                expected.push(key.to_vec());
                std::ops::ControlFlow::Continue(())
            }).unwrap();
            for partition in 0..partitions {
                let mut position = 0;
                loop {
                    let visit = |key: &[u8]| found.extend([key.to_vec()]);
                    let next = store.visit(0, partition, position, step, visit).unwrap();
                    position = next.unwrap();
                    if position == 0 {
                        break;
                    }
                }
            }
            prop_assert_eq!(expected, found.into_iter().collect::<Vec<_>>());
        }
    }
}

/// A list of elements that have records of their own.
fn fill_list(store: &mut Store, key: &[u8], len: usize) {
    store.begin();
    let mut list = List::find_or_new(store, 0, key).unwrap();
    for number in 0..len {
        list.push(store, End::Right, format!("element {number:05}").as_bytes()).unwrap();
    }
    list.save(store, None).unwrap();
    store.commit().unwrap();
}

fn check_list(store: &mut Store, key: &[u8], len: usize) {
    let list = List::find(store, 0, key).unwrap().expect("it is there");
    assert!(!list.is_packed());
    assert_eq!(list.len(store).unwrap(), len);
    for number in [0, len / 2, len - 1] {
        let element = list.get(store, number).unwrap().unwrap();
        assert_eq!(&element[..], format!("element {number:05}").as_bytes());
    }
}

#[test]
fn elements_are_where_their_keys_are_whatever_the_number_of_partitions() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("data");
    let keys = ["a", "b", "c", "d", "e"].map(str::as_bytes);
    for (nth, partitions) in [1, 3, 2, 2, 1, 4].into_iter().enumerate() {
        let builder = halite::Database::builder().engine("indexlog");
        let db = builder.partitioning(halite::Partitioning::Hash(partitions)).open(&path).unwrap();
        let mut store = Store::open(db.clone(), 2).unwrap();
        for key in keys {
            if nth == 0 {
                fill_list(&mut store, key, 3_000);
            }
            check_list(&mut store, key, 3_000);
        }
        // Elements of collections that were dropped are gone behind the next opening, or the steps here.
        fill_list(&mut store, b"dropped", 3_000);
        store.remove(0, b"dropped").unwrap();
        if nth % 2 == 1 {
            while store.reclaim() {}
            let elements = db.find_key_space("db0:elements").unwrap().unwrap();
            assert_eq!(elements.len().unwrap(), 5 * 3_000, "{partitions}");
        }
        store.sync_all().unwrap();
    }
}

#[test]
fn collections_without_elements_are_at_home_whatever_the_number_of_partitions() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("data");
    let keys = ["a", "b", "c", "d", "e"].map(str::as_bytes);
    for (nth, partitions) in [1, 3, 2, 4].into_iter().enumerate() {
        let builder = halite::Database::builder().engine("indexlog");
        let db = builder.partitioning(halite::Partitioning::Hash(partitions)).open(&path).unwrap();
        let mut store = Store::open(db, 2).unwrap();
        for key in keys {
            if nth == 0 {
                let id = store.new_elements(0, key).unwrap().id;
                let record = crate::collection::map::record_of(Type::Stream, id);
                store.put_stored(0, key, &record, NewDeadline::Clear).unwrap();
            }
            let stored = store.get(0, key).unwrap().unwrap();
            assert!(store.are_home(0, key, collection_id(stored.bytes()).unwrap()), "{partitions}");
        }
        store.sync_all().unwrap();
    }
}
