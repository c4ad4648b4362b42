use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::store::tests::{check_elements, engine, store_on};

/// A change of a sorted set.
#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u8>, f64),
    Remove(Vec<u8>),
    /// A member that is there.
    RemoveOne(Index),
    RemoveRanks(Index, Index),
    Drop,
    /// Another one takes its place.
    Replace(Vec<(Vec<u8>, f64)>),
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Commit,
    Rollback,
    Reopen,
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => "[a-d]{0,3}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 60..70),
        // Longer than the keys of elements.
        1 => "[ab]".prop_map(|letter| letter.repeat(2000).into_bytes()),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-3..3_i32).prop_map(f64::from),
        1 => Just(-0.0),
        1 => prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
        1 => any::<f64>().prop_filter("a score is a number", |score| !score.is_nan()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (member(), score()).prop_map(|(member, score)| Step::Put(member, score)),
        2 => member().prop_map(Step::Remove),
        2 => any::<Index>().prop_map(Step::RemoveOne),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Step::RemoveRanks(from, to)),
        1 => Just(Step::Drop),
        1 => vec((member(), score()), 0..12).prop_map(Step::Replace),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![4 => Just(Ending::Commit), 2 => Just(Ending::Rollback), 1 => Just(Ending::Reopen)]
}

const KEY: &[u8] = b"sorted set";

type Model = BTreeMap<Vec<u8>, f64>;

/// The members in the order of their scores.
fn ordered(model: &Model) -> Vec<(f64, Vec<u8>)> {
    let mut all: Vec<_> = model.iter().map(|(member, score)| (*score, member.clone())).collect();
    all.sort_by(|one, other| one.partial_cmp(other).unwrap());
    all
}

fn apply(store: &mut Store, model: &mut Model, step: &Step) {
    let found = SortedSet::find(store, 0, KEY).unwrap();
    let mut set = found.unwrap_or_else(|| SortedSet::new(0, KEY));
    match step {
        Step::Put(member, score) => {
            let before = set.put(store, member, *score).unwrap();
            assert_eq!(before, model.get(member).copied());
            if before != Some(*score) {
                model.insert(member.clone(), *score);
            }
        }
        Step::Remove(member) => {
            assert_eq!(set.remove(store, member).unwrap(), model.remove(member));
        }
        Step::RemoveOne(index) if !model.is_empty() => {
            let member = ordered(model)[index.index(model.len())].1.clone();
            assert_eq!(set.remove(store, &member).unwrap(), model.remove(&member));
        }
        Step::RemoveOne(_) => {}
        Step::RemoveRanks(from, to) => {
            let (from, to) = (from.index(model.len() + 1), to.index(model.len() + 2));
            let ordered = ordered(model);
            let expected = ordered.get(from..to.min(ordered.len())).unwrap_or_default();
            assert_eq!(set.remove_ranks(store, from..to).unwrap(), expected.len());
            for (_, member) in expected {
                model.remove(member);
            }
        }
        Step::Drop => {
            store.remove(0, KEY).unwrap();
            model.clear();
            return;
        }
        Step::Replace(members) => {
            let mut set = SortedSet::new(0, KEY);
            model.clear();
            for (member, score) in members {
                set.put(store, member, *score).unwrap();
                model
                    .entry(member.clone())
                    .and_modify(|known| {
                        if known != score {
                            *known = *score;
                        }
                    })
                    .or_insert(*score);
            }
            set.save_new(store, "stored").unwrap();
            return;
        }
    }
    set.save(store, None).unwrap();
}

fn check(store: &mut Store, model: &Model) {
    let Some(set) = SortedSet::find(store, 0, KEY).unwrap() else {
        assert!(model.is_empty());
        return;
    };
    assert!(!model.is_empty() && set.len(store).unwrap() == model.len());
    for (member, score) in model {
        // A small set has one zero only.
        assert_eq!(set.score(store, member).unwrap(), Some(*score));
    }
    assert_eq!(set.score(store, b"none").unwrap(), None);
    let expected = ordered(model);
    set.with_order(store, |order| {
        let mut seen = Vec::new();
        let _ = order.visit(0, |(score, member)| -> ControlFlow<()> {
            seen.push((score, member.to_vec()));
            ControlFlow::Continue(())
        });
        assert_eq!(seen, expected);
        for (rank, (score, member)) in expected.iter().enumerate() {
            assert_eq!(order.rank((*score, member)), (rank, true));
        }
    })
    .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_sorted_set_is_a_map_with_an_order(
        transactions in vec((vec(step(), 1..12), ending()), 1..12),
        entries in 0..20_usize, engine in engine(), looks: bool,
    ) {
        let db = halite::Database::builder().engine(engine).max_size(64 << 20);
        let db = db.partitioning(halite::Partitioning::Hash(2)).in_memory().unwrap();
        let mut store = store_on(&db);
        store.inline_limits.sorted_set_entries = entries;
        let mut model = Model::new();
        for (steps, ending) in transactions {
            let before = model.clone();
            store.begin();
            steps.iter().for_each(|step| apply(&mut store, &mut model, step));
            // The order is made at the first look, before the transaction ends or behind it.
            if looks {
                check(&mut store, &model);
            }
            match ending {
                Ending::Rollback => {
                    store.rollback();
                    model = before;
                }
                Ending::Commit => store.commit().unwrap(),
                Ending::Reopen => {
                    store.commit().unwrap();
                    store = store_on(&db);
                    store.inline_limits.sorted_set_entries = entries;
                }
            }
            check(&mut store, &model);
        }
        while store.reclaim() {}
        let set = SortedSet::find(&mut store, 0, KEY).unwrap();
        let has_elements = set.is_some_and(|set| !set.is_packed());
        check_elements(&db, if has_elements { model.len() } else { 0 });
    }
}

#[test]
fn a_count_that_is_known_does_not_hide_the_order() {
    let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
    let mut store = store_on(&db);
    store.inline_limits.sorted_set_entries = 1;
    let mut model = Model::new();
    store.begin();
    for (member, score) in [(&b"a"[..], 3.0), (b"b", 1.0), (b"c", 2.0)] {
        apply(&mut store, &mut model, &Step::Put(member.to_vec(), score));
    }
    store.commit().unwrap();
    let mut store = store_on(&db);
    let set = SortedSet::find(&mut store, 0, KEY).unwrap().unwrap();
    assert_eq!(set.map().len(&mut store).unwrap(), 3);
    check(&mut store, &model);
}
