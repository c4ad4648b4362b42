use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A step of a command, or of time.
#[derive(Debug, Clone)]
enum Step {
    Put { field: u8, value: u8, deadline: Option<u64> },
    Get { field: u8 },
    Remove { field: u8 },
    Later,
    Due,
    Rollback { field: u8, deadline: Option<u64> },
    Copy,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (field, deadline) = (0..12_u8, prop::option::of(1..60_u64));
    prop_oneof![
        8 => (field.clone(), any::<u8>(), deadline.clone())
            .prop_map(|(field, value, deadline)| Step::Put { field, value, deadline }),
        3 => field.clone().prop_map(|field| Step::Get { field }),
        3 => field.clone().prop_map(|field| Step::Remove { field }),
        2 => Just(Step::Later),
        2 => Just(Step::Due),
        1 => (field, deadline).prop_map(|(field, deadline)| Step::Rollback { field, deadline }),
        1 => Just(Step::Copy),
        1 => Just(Step::Restart),
    ]
}

fn builder() -> halite::Builder {
    halite::Database::builder().max_size(64 << 20).partitioning(halite::Partitioning::Hash(3))
}

fn change(store: &mut Store, change: impl FnOnce(&mut Store, &mut Hash) -> Outcome) {
    store.begin();
    let mut hash = Hash::find_or_new(store, 0, b"h").unwrap();
    change(store, &mut hash).unwrap();
    hash.save(store, None).unwrap();
    store.commit().unwrap();
}

/// The fields that clients see.
fn seen(store: &mut Store, key: &[u8]) -> BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)> {
    let mut seen = BTreeMap::new();
    if let Some(hash) = Hash::find(store, 0, key).unwrap() {
        hash.visit(store, |field, value, deadline| {
            seen.insert(field.to_vec(), (value.to_vec(), deadline));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    }
    seen
}

proptest! {
    #[test]
    fn a_hash_is_a_map_whose_fields_expire(
        steps in prop::collection::vec(step(), 0..60), entries in prop::sample::select(vec![0, 3, 100]),
    ) {
        let db = builder().in_memory().unwrap();
        let open = || {
            let mut store = Store::open(db.clone(), 1).unwrap();
            store.inline_limits.hash_entries = entries;
            store
        };
        let mut store = open();
        let mut model: BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)> = BTreeMap::new();
        for step in steps {
            let now = store.now_ms;
            let at = |deadline: Option<u64>| deadline.map(|after| now + after);
            model.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline > now));
            match step {
                Step::Put { field, value, deadline } => {
                    let is_new = model.insert(vec![field], (vec![value], at(deadline))).is_none();
                    change(&mut store, |store, hash| {
                        assert_eq!(hash.put(store, &[field], &[value], at(deadline))?, is_new);
                        Ok(())
                    });
                }
                Step::Get { field } => {
                    if let Some(mut hash) = Hash::find(&mut store, 0, b"h").unwrap() {
                        let found = hash.get(&store, &[field]).unwrap();
                        let found = found.map(|field| (field.value().to_vec(), field.deadline));
                        prop_assert_eq!(found.as_ref(), model.get(&vec![field]));
                        hash.close(&mut store).unwrap();
                    }
                }
                Step::Remove { field } => {
                    model.remove(&vec![field]);
                    change(&mut store, |store, hash| hash.remove(store, &[field]).map(drop));
                }
                Step::Later => store.now_ms += 17,
                Step::Due => {
                    while remove_due(&mut store, 16) {}
                    prop_assert!(store.hashes_due(1).is_empty());
                    let len = Hash::find(&mut store, 0, b"h").unwrap()
                        .map_or(0, |hash| hash.len(&mut store).unwrap());
                    prop_assert_eq!(len, model.len() as u64);
                }
                Step::Rollback { field, deadline } => {
                    store.begin();
                    let mut hash = Hash::find_or_new(&mut store, 0, b"h").unwrap();
                    hash.put(&mut store, &[field], b"lost", at(deadline)).unwrap();
                    hash.remove_expired(&mut store, 2).unwrap();
                    hash.save(&mut store, None).unwrap();
                    store.rollback();
                }
                Step::Copy => {
                    store.begin();
                    store.copy((0, b"h"), (0, b"copy")).unwrap();
                    store.rename((0, b"copy"), (0, b"h")).unwrap();
                    store.commit().unwrap();
                }
                Step::Restart => {
                    drop(store);
                    store = open();
                    store.now_ms = now;
                }
            }
            let now = store.now_ms;
            model.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline > now));
            prop_assert_eq!(&seen(&mut store, b"h"), &model);
            let first = model.values().filter_map(|(_, deadline)| *deadline).min();
            let known = store.field_deadline(0, b"h").unwrap();
            prop_assert!(first.is_none_or(|first| known.is_some_and(|known| known <= first)));
            prop_assert_eq!(store.field_deadline(0, b"copy").unwrap(), None);
        }
        // Without fields, nothing is left.
        for field in 0..12 {
            change(&mut store, |store, hash| hash.remove(store, &[field]).map(drop));
        }
        prop_assert!(!store.contains(0, b"h").unwrap());
        prop_assert_eq!(store.field_deadline(0, b"h").unwrap(), None);
        while store.reclaim() {}
        prop_assert!(db.find_key_space("db0:elements").unwrap().unwrap().is_empty().unwrap());
    }
}

proptest! {
    #[test]
    fn a_value_comes_back_with_its_deadline(value: Vec<u8>, deadline: Option<u64>) {
        let stored = encode(&value, deadline);
        prop_assert_eq!(decode(&stored), Some((deadline, &value[..])));
    }

    #[test]
    fn any_bytes_are_a_value_or_none(bytes: Vec<u8>) {
        if let Some((deadline, value)) = decode(&bytes) {
            prop_assert_eq!(encode(value, deadline), bytes);
        }
    }
}
