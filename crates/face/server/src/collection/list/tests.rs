use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::store::tests::{check_elements, engine, store_on};

/// A change of a list.
#[derive(Debug, Clone)]
enum Step {
    Push(bool, Vec<u8>),
    Pop(bool),
    Set(Index, Vec<u8>),
    /// So many elements at one place.
    Insert(Index, usize, Vec<u8>),
    Remove(Index),
    RemoveRange(Index, Index),
    RemoveAll(Vec<Index>),
    Drop,
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Commit,
    Rollback,
    Reopen,
}

fn element() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => "[a-c]{0,3}".prop_map(String::into_bytes),
        2 => (-300..300_i32).prop_map(|number| number.to_string().into_bytes()),
        1 => vec(any::<u8>(), 0..40),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<Index>;
    prop_oneof![
        4 => (any::<bool>(), element()).prop_map(|(left, element)| Step::Push(left, element)),
        2 => any::<bool>().prop_map(Step::Pop),
        2 => (at(), element()).prop_map(|(at, element)| Step::Set(at, element)),
        3 => (at(), 1..60_usize, element())
            .prop_map(|(at, count, element)| Step::Insert(at, count, element)),
        2 => at().prop_map(Step::Remove),
        1 => (at(), at()).prop_map(|(from, to)| Step::RemoveRange(from, to)),
        1 => vec(at(), 0..30).prop_map(Step::RemoveAll),
        1 => Just(Step::Drop),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![4 => Just(Ending::Commit), 2 => Just(Ending::Rollback), 1 => Just(Ending::Reopen)]
}

const KEY: &[u8] = b"list";

fn end(left: bool) -> End {
    if left { End::Left } else { End::Right }
}

fn apply(store: &mut Store, model: &mut Vec<Vec<u8>>, step: &Step) {
    let mut list = List::find_or_new(store, 0, KEY).unwrap();
    let len = model.len();
    match step {
        Step::Push(left, element) => {
            list.prepare(store, [&element[..]]).unwrap();
            list.push(store, end(*left), element).unwrap();
            model.insert(if *left { 0 } else { len }, element.clone());
        }
        Step::Pop(left) => {
            let popped = list.pop(store, end(*left)).unwrap();
            let expected = match len {
                0 => None,
                _ => Some(model.remove(if *left { 0 } else { len - 1 })),
            };
            assert_eq!(popped.as_deref(), expected.as_deref());
        }
        Step::Insert(at, count, element) => {
            let at = at.index(len + 1);
            for _ in 0..*count {
                list.prepare(store, [&element[..]]).unwrap();
                list.insert(store, at, element).unwrap();
                model.insert(at, element.clone());
            }
        }
        Step::Drop => {
            store.remove(0, KEY).unwrap();
            model.clear();
            return;
        }
        _ if len == 0 => {}
        Step::Set(at, element) => {
            list.prepare(store, [&element[..]]).unwrap();
            list.set(store, at.index(len), element).unwrap();
            model[at.index(len)] = element.clone();
        }
        Step::Remove(at) => {
            list.remove(store, at.index(len)).unwrap();
            model.remove(at.index(len));
        }
        Step::RemoveRange(from, to) => {
            let from = from.index(len);
            let count = to.index(len - from + 1);
            list.remove_range(store, from, count).unwrap();
            model.drain(from..from + count);
        }
        Step::RemoveAll(indexes) => {
            let mut indexes: Vec<usize> = indexes.iter().map(|at| at.index(len)).collect();
            indexes.sort_unstable();
            indexes.dedup();
            list.remove_all(store, &indexes).unwrap();
            indexes.iter().rev().for_each(|&index| drop(model.remove(index)));
        }
    }
    assert_eq!(list.len(store).unwrap(), model.len());
    list.save(store, None).unwrap();
}

fn check(store: &mut Store, model: &[Vec<u8>]) {
    let Some(list) = List::find(store, 0, KEY).unwrap() else {
        assert!(model.is_empty());
        return;
    };
    assert!(!model.is_empty() && list.len(store).unwrap() == model.len());
    if let State::Packed(inline) = &list.state {
        let expected: usize = model.iter().map(|element| listpack::entry_len(element)).sum();
        assert_eq!(inline.listpack_len, listpack::EMPTY + expected);
    }
    for from in [0, model.len() / 3, model.len() - 1, model.len()] {
        assert_eq!(
            list.get(store, from).unwrap().as_deref(),
            model.get(from).map(|element| &element[..])
        );
        let (mut ahead, mut back) = (Vec::new(), Vec::new());
        list.visit(store, from, |index, bytes| {
            ahead.push((index, bytes.to_vec()));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        let numbered = || model.iter().cloned().enumerate();
        assert_eq!(ahead, numbered().skip(from).collect::<Vec<_>>());
        if from < model.len() {
            list.visit_back(store, from, |index, bytes| {
                back.push((index, bytes.to_vec()));
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
            let mut expected: Vec<_> = numbered().take(from + 1).collect();
            expected.reverse();
            assert_eq!(back, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_list_is_a_sequence(
        transactions in vec((vec(step(), 1..8), ending()), 1..12),
        list_size in prop_oneof![Just(-2_i64), -1..12_i64], engine in engine(),
    ) {
        let db = halite::Database::builder().engine(engine).max_size(64 << 20);
        let db = db.partitioning(halite::Partitioning::Hash(2)).in_memory().unwrap();
        let mut store = store_on(&db);
        store.inline_limits.list_size = list_size;
        let mut model = Vec::new();
        for (steps, ending) in transactions {
            let before = model.clone();
            store.begin();
            steps.iter().for_each(|step| apply(&mut store, &mut model, step));
            check(&mut store, &model);
            match ending {
                Ending::Rollback => {
                    store.rollback();
                    model = before;
                }
                Ending::Commit => store.commit().unwrap(),
                Ending::Reopen => {
                    store.commit().unwrap();
                    store = store_on(&db);
                    store.inline_limits.list_size = list_size;
                }
            }
            check(&mut store, &model);
        }
        while store.reclaim() {}
        let list = List::find(&mut store, 0, KEY).unwrap();
        let elements = list.is_some_and(|list| !list.is_packed());
        check_elements(&db, if elements { model.len() } else { 0 });
    }

    #[test]
    fn positions_at_the_ends_of_their_range_are_left(
        ends in prop::sample::select(&[(0, 3), (u64::MAX - 5, u64::MAX), (0, u64::MAX)][..]),
        steps in vec(step(), 1..10),
    ) {
        let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
        let mut store = store_on(&db);
        store.inline_limits.list_size = 1;
        store.begin();
        let mut list = List::new(0, KEY);
        list.prepare(&mut store, [&b"x"[..], b"y"]).unwrap();
        let State::Elements(elements) = list.state else { panic!("it has elements") };
        list.put_new(&mut store, &elements, ends.0, b"first").unwrap();
        list.put_new(&mut store, &elements, ends.1, b"last").unwrap();
        list.save(&mut store, None).unwrap();
        let mut model = vec![b"first".to_vec(), b"last".to_vec()];
        let pushes = [Step::Push(true, b"l".to_vec()), Step::Push(false, b"r".to_vec())];
        for step in steps.iter().chain(&pushes) {
            apply(&mut store, &mut model, step);
            check(&mut store, &model);
        }
        store.commit().unwrap();
        check(&mut store, &model);
    }
}

#[test]
fn insertions_at_one_place_of_a_long_list_cost_a_few_writes_each() {
    let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
    let mut store = store_on(&db);
    store.begin();
    let mut list = List::new(0, KEY);
    let numbers: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    list.prepare(&mut store, numbers.iter().map(String::as_bytes)).unwrap();
    for number in &numbers {
        list.push(&mut store, End::Right, number.as_bytes()).unwrap();
    }
    list.save(&mut store, None).unwrap();
    store.commit().unwrap();
    // A transaction that changed all elements would be refused.
    store.transaction_len_max = 1 << 20;
    let mut model: Vec<Vec<u8>> =
        numbers.iter().map(|number| number.clone().into_bytes()).collect();
    for step in 0..300 {
        store.begin();
        let mut list = List::find(&mut store, 0, KEY).unwrap().unwrap();
        list.insert(&mut store, 10_000 + step % 2, b"new").unwrap();
        model.insert(10_000 + step % 2, b"new".to_vec());
        list.save(&mut store, None).unwrap();
        store.commit().unwrap();
    }
    check(&mut store, &model);
}

#[test]
fn a_list_that_was_not_prepared_is_divided_when_it_is_saved() {
    let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
    let mut store = store_on(&db);
    store.begin();
    store.put(0, KEY, b"a string", NewDeadline::Clear).unwrap();
    let mut list = List::new(0, KEY);
    for number in 0..2000 {
        list.push(&mut store, End::Right, format!("element:{number}").as_bytes()).unwrap();
    }
    list.save_new(&mut store, "stored").unwrap();
    store.commit().unwrap();
    let list = List::find(&mut store, 0, KEY).unwrap().unwrap();
    assert!(!list.is_packed() && list.len(&mut store).unwrap() == 2000);
    check_elements(&db, 2000);
}

#[test]
fn a_list_of_which_little_stays_is_written_anew() {
    let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
    let mut store = store_on(&db);
    store.inline_limits.list_size = 100;
    store.begin();
    let mut list = List::new(0, KEY);
    let numbers: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    list.prepare(&mut store, numbers.iter().map(String::as_bytes)).unwrap();
    for number in &numbers {
        list.push(&mut store, End::Right, number.as_bytes()).unwrap();
    }
    list.save(&mut store, None).unwrap();
    store.commit().unwrap();
    store.transaction_len_max = 1 << 20;
    for (from, left) in [(19_000, 1000), (500, 500), (250, 50)] {
        store.begin();
        let mut list = List::find(&mut store, 0, KEY).unwrap().unwrap();
        let len = list.len(&mut store).unwrap();
        list.remove_range(&mut store, 0, from).unwrap();
        list.remove_range(&mut store, left, len - from - left).unwrap();
        list.save(&mut store, None).unwrap();
        store.commit().unwrap();
        let list = List::find(&mut store, 0, KEY).unwrap().unwrap();
        assert_eq!((list.len(&mut store).unwrap(), list.is_packed()), (left, left == 50));
        while store.reclaim() {}
        check_elements(&db, if left == 50 { 0 } else { left });
    }
    let list = List::find(&mut store, 0, KEY).unwrap().unwrap();
    assert_eq!(&list.get(&mut store, 0).unwrap().unwrap()[..], b"19750");
}
