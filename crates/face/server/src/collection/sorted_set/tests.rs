use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::store::census;
use crate::store::tests::{engine, store_on};

/// A change of a sorted set.
#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u8>, f64),
    Remove(Vec<u8>),
    /// A member that is there.
    RemoveOne(Index),
    RemoveRanks(Index, Index),
    RemoveRange(Section),
    /// The first ones, or the last.
    Pop(usize, bool),
    Drop,
    /// Another one takes its place.
    Replace(Vec<(Vec<u8>, f64)>),
}

/// A range that a command names.
#[derive(Debug, Clone)]
enum Section {
    Ranks(i64, i64),
    Scores(Scores),
    Members(Edge, Edge),
}

/// An end of a range of members.
#[derive(Debug, Clone)]
enum Edge {
    Least,
    Most,
    Included(Vec<u8>),
    Excluded(Vec<u8>),
}

/// A request for members.
#[derive(Debug, Clone)]
struct Look {
    section: Section,
    is_reverse: bool,
    offset: usize,
    limit: usize,
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
        // As long as these keys, and longer ones that begin so.
        1 => "[a-d]{0,2}".prop_map(|end| ("a".repeat(1024) + &end).into_bytes()),
    ]
}

fn section() -> impl Strategy<Value = Section> {
    let scores = (score(), score(), any::<bool>(), any::<bool>());
    prop_oneof![
        2 => (-9..9_i64, -9..9_i64).prop_map(|(start, end)| Section::Ranks(start, end)),
        2 => scores.prop_map(|(min, max, without_min, without_max)| {
            Section::Scores(Scores { min, max, without_min, without_max })
        }),
        2 => (edge(), edge()).prop_map(|(min, max)| Section::Members(min, max)),
    ]
}

fn edge() -> impl Strategy<Value = Edge> {
    prop_oneof![
        1 => Just(Edge::Least),
        1 => Just(Edge::Most),
        3 => member().prop_map(Edge::Included),
        3 => member().prop_map(Edge::Excluded),
    ]
}

fn look() -> impl Strategy<Value = Look> {
    let limit = prop_oneof![0..9_usize, Just(usize::MAX)];
    (section(), any::<bool>(), 0..7_usize, limit).prop_map(
        |(section, is_reverse, offset, limit)| Look { section, is_reverse, offset, limit },
    )
}

impl Edge {
    fn as_end(&self) -> Member<'_> {
        match self {
            Self::Least => Member::Least,
            Self::Most => Member::Most,
            Self::Included(member) => Member::Included(member),
            Self::Excluded(member) => Member::Excluded(member),
        }
    }
}

impl Section {
    fn as_bounds(&self) -> Bounds<'_> {
        match self {
            Self::Ranks(start, end) => Bounds::Ranks(*start, *end),
            Self::Scores(scores) => Bounds::Scores(*scores),
            Self::Members(min, max) => Bounds::Members(min.as_end(), max.as_end()),
        }
    }
}

impl Look {
    fn as_wanted(&self) -> Wanted<'_> {
        let Self { section, is_reverse, offset, limit } = self;
        let bounds = section.as_bounds();
        Wanted { bounds, is_reverse: *is_reverse, offset: *offset, limit: *limit }
    }

    /// The members that it finds; `None`: a range of members says nothing of several scores.
    fn find(&self, model: &Model) -> Option<Vec<(f64, Vec<u8>)>> {
        let mut all = ordered(model);
        if self.is_reverse {
            all.reverse();
        }
        if let Section::Ranks(start, end) = self.section {
            return Some(all[crate::collection::span(start, end, all.len())].to_vec());
        }
        let are_equal = all.first().map(|first| first.0) == all.last().map(|last| last.0);
        if matches!(self.section, Section::Members(..)) && !are_equal {
            return None;
        }
        all.retain(|(score, member)| match &self.section {
            Section::Ranks(..) => false,
            Section::Scores(Scores { min, max, without_min, without_max }) => {
                (score > min || !without_min && score == min)
                    && (score < max || !without_max && score == max)
            }
            Section::Members(min, max) => {
                let is_behind = match min {
                    Edge::Least => true,
                    Edge::Most => false,
                    Edge::Included(min) => member >= min,
                    Edge::Excluded(min) => member > min,
                };
                is_behind
                    && match max {
                        Edge::Least => false,
                        Edge::Most => true,
                        Edge::Included(max) => member <= max,
                        Edge::Excluded(max) => member < max,
                    }
            }
        });
        Some(all.into_iter().skip(self.offset).take(self.limit).collect())
    }
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
        1 => section().prop_map(Step::RemoveRange),
        2 => (0..4_usize, any::<bool>()).prop_map(|(count, is_last)| Step::Pop(count, is_last)),
        1 => Just(Step::Drop),
        1 => vec((member(), score()), 0..12).prop_map(Step::Replace),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![4 => Just(Ending::Commit), 2 => Just(Ending::Rollback), 1 => Just(Ending::Reopen)]
}

const KEY: &[u8] = b"sorted set";

type Model = BTreeMap<Vec<u8>, f64>;

impl Step {
    /// Gives all members one score.
    fn even(&mut self) {
        match self {
            Self::Put(_, score) => *score = if score.is_sign_negative() { -0.0 } else { 0.0 },
            Self::Replace(members) => members.iter_mut().for_each(|(_, score)| *score = 0.0),
            _ => {}
        }
    }
}

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
            let last = i64::try_from(to).unwrap() - 1;
            let bounds = Bounds::Ranks(i64::try_from(from).unwrap(), last.max(0));
            let expected =
                if last < 0 { ordered.get(from..1).unwrap_or_default() } else { expected };
            let found = set.select(store, Wanted::all_of(bounds)).unwrap();
            assert_eq!(set.remove_selected(store, found).unwrap(), expected.len());
            for (_, member) in expected {
                model.remove(member);
            }
        }
        Step::RemoveRange(section) => {
            let look =
                Look { section: section.clone(), is_reverse: false, offset: 0, limit: usize::MAX };
            if let Some(expected) = look.find(model) {
                let found = set.select(store, Wanted::all_of(section.as_bounds())).unwrap();
                assert_eq!(set.remove_selected(store, found).unwrap(), expected.len());
                model.retain(|member, _| !expected.iter().any(|(_, gone)| gone == member));
            }
        }
        Step::Pop(count, is_last) => {
            let found = set.select_end(store, *count, *is_last).unwrap();
            let mut expected = ordered(model);
            if *is_last {
                expected.reverse();
            }
            expected.truncate(*count);
            assert_eq!(found.len(), expected.len());
            assert_eq!(set.remove_selected(store, found).unwrap(), expected.len());
            model.retain(|member, _| !expected.iter().any(|(_, gone)| gone == member));
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

/// Checks the members, what some requests find, and in the end, `deep`ly, the ranks.
fn check(store: &mut Store, model: &Model, looks: &[Look], deep: bool) {
    let Some(set) = SortedSet::find(store, 0, KEY).unwrap() else {
        assert!(model.is_empty());
        return;
    };
    for look in looks {
        let Some(expected) = look.find(model) else { continue };
        let found = set.select(store, look.as_wanted()).unwrap();
        assert_eq!(found.len(), expected.len(), "{look:?}");
        assert_eq!(set.members(store, found).unwrap(), expected, "{look:?}");
        if !matches!(look.section, Section::Ranks(..)) {
            let all = Look { offset: 0, limit: usize::MAX, ..look.clone() }.find(model).unwrap();
            assert_eq!(set.count(store, look.section.as_bounds()).unwrap(), all.len());
        }
    }
    assert!(!model.is_empty() && set.len(store).unwrap() == model.len());
    for (member, score) in model {
        // A small set has one zero only.
        assert_eq!(set.score(store, member).unwrap(), Some(*score));
    }
    assert_eq!(set.score(store, b"none").unwrap(), None);
    let expected = ordered(model);
    let mut seen = Vec::new();
    set.visit_in(store, &[Scores::ALL], |score, member| {
        seen.push((score, member.to_vec()));
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    assert_eq!(seen, expected);
    for (score, member) in &seen {
        let known = set.score(store, member).unwrap().unwrap();
        assert_eq!(known.to_bits(), score.to_bits(), "a zero has the sign of its member");
    }
    if !deep {
        return;
    }
    set.with_order(store, |order| {
        for (rank, (score, member)) in expected.iter().enumerate() {
            assert_eq!(order.rank((*score, member)), (rank, true));
            assert_eq!(order.get(rank), Some((*score, &member[..])));
        }
    })
    .unwrap();
}

/// A sorted set on a store whose engine keeps records below its pool, with a transaction for each step.
fn stored_set(steps: &[(&[u8], f64)]) -> (halite::Database, Store) {
    let db = halite::Database::builder().engine("lsm").max_size(64 << 20).in_memory().unwrap();
    let mut store = store_on(&db);
    store.inline_limits.sorted_set_entries = 1;
    let mut model = Model::new();
    for (member, score) in steps {
        store.begin();
        apply(&mut store, &mut model, &Step::Put(member.to_vec(), *score));
        store.commit().unwrap();
    }
    (db, store)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_sorted_set_is_a_map_with_an_order(
        transactions in vec((vec(step(), 1..12), ending(), vec(look(), 0..3)), 1..12),
        entries in 0..20_usize,
        engine in prop_oneof![2 => Just("lsm"), 1 => Just("indexlog"), 1 => engine()],
        looks: bool, deep in prop::bool::weighted(0.2), one_score: bool,
    ) {
        let db = halite::Database::builder().engine(engine).max_size(64 << 20);
        let db = db.partitioning(halite::Partitioning::Hash(2)).in_memory().unwrap();
        let mut store = store_on(&db);
        store.inline_limits.sorted_set_entries = entries;
        let mut model = Model::new();
        for (mut steps, ending, requests) in transactions {
            let before = model.clone();
            if one_score {
                steps.iter_mut().for_each(Step::even);
            }
            store.begin();
            steps.iter().for_each(|step| apply(&mut store, &mut model, step));
            // The order is read at the first look, before the transaction ends or behind it.
            if looks {
                check(&mut store, &model, &requests, deep);
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
            check(&mut store, &model, &requests, deep);
            let faults = census(&db).unwrap().faults;
            prop_assert!(faults.is_empty(), "{:?}", faults);
        }
        while store.reclaim() {}
        let set = SortedSet::find(&mut store, 0, KEY).unwrap();
        let has_elements = set.is_some_and(|set| !set.is_packed());
        let found = census(&db).unwrap();
        let elements = if has_elements { model.len() as u64 } else { 0 };
        let ordered = if store.stores_order() { elements } else { 0 };
        prop_assert_eq!((found.elements, found.ordered, found.leaving), (elements, ordered, 0));
    }
}

#[test]
fn a_count_that_is_known_does_not_hide_the_order() {
    for engine in ["indexlog", "lsm"] {
        let db = halite::Database::builder().engine(engine).max_size(64 << 20).in_memory().unwrap();
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
        check(&mut store, &model, &[], true);
    }
}

#[test]
fn a_stored_order_is_read_without_a_tree() {
    let members = [(&b"a"[..], 3.0), (b"b", 1.0), (b"c", 2.0)];
    let (db, _) = stored_set(&members);
    let mut store = store_on(&db);
    let set = SortedSet::find(&mut store, 0, KEY).unwrap().unwrap();
    let bounds = Bounds::Ranks(0, 1);
    let found = set.select(&mut store, Wanted::all_of(bounds)).unwrap();
    let expected = [(1.0, b"b".to_vec()), (2.0, b"c".to_vec())];
    assert_eq!(set.members(&mut store, found).unwrap(), expected);
    assert_eq!(set.len(&mut store).unwrap(), 3);
    assert!(!set.has_ranks(&mut store));
    set.with_order(&mut store, |order| assert_eq!(order.len(), 3)).unwrap();
    assert!(set.has_ranks(&mut store));
}

#[test]
fn an_order_goes_with_its_set() {
    let (db, mut store) = stored_set(&[(b"a", 3.0), (b"b", -0.0), (b"c", f64::INFINITY)]);
    let counts = |db: &halite::Database| {
        let found = census(db).unwrap();
        assert!(found.faults.is_empty(), "{:?}", found.faults);
        (found.elements, found.ordered)
    };
    for (other, is_copied) in [((0, &b"other"[..]), true), ((1, KEY), true), ((0, b"new"), false)] {
        store.begin();
        let moved = match is_copied {
            true => store.copy((0, KEY), other),
            false => store.rename((0, KEY), other),
        };
        assert!(moved.unwrap());
        store.commit().unwrap();
        let set = SortedSet::find(&mut store, other.0, other.1).unwrap().unwrap();
        let found = set.select_end(&mut store, 9, true).unwrap();
        let found = set.members(&mut store, found).unwrap();
        let expected = [(f64::INFINITY, b"c".to_vec()), (3.0, b"a".to_vec()), (0.0, b"b".to_vec())];
        assert_eq!(found, expected);
        assert!(found[2].0.is_sign_negative() && !set.has_ranks(&mut store));
    }
    assert_eq!(counts(&db), (9, 9));
    store.swap(0, 1).unwrap();
    assert_eq!(counts(&db), (9, 9));
    store.remove(0, KEY).unwrap();
    assert_eq!(counts(&db), (6, 6));
    while store.reclaim() {}
    assert_eq!(counts(&db), (6, 6));
    store.flush(0..3).unwrap();
    assert_eq!(counts(&db), (0, 0));
}

#[test]
fn a_set_whose_order_was_not_stored_keeps_working() {
    let (db, mut store) = stored_set(&[(b"a", 3.0), (b"b", 1.0), (b"c", 2.0)]);
    // A set of an older version: its record says nothing of an order, and there is none.
    let elements = db.find_key_space("db0:elements").unwrap().unwrap();
    for pair in elements.iter().unwrap() {
        let (key, _) = pair.unwrap();
        if crate::stored::is_of_order(&key[key.len() - 14..]) {
            elements.delete(&key).unwrap();
        }
    }
    let record = store.get(0, KEY).unwrap().unwrap().bytes()[..10].to_vec();
    db.find_key_space("db0").unwrap().unwrap().put(KEY, record).unwrap();
    let mut store = store_on(&db);
    let model: Model = [(b"a".to_vec(), 3.0), (b"b".to_vec(), 1.0), (b"c".to_vec(), 2.0)].into();
    check(&mut store, &model, &[], false);
    store.begin();
    let mut model = model;
    apply(&mut store, &mut model, &Step::Put(b"d".to_vec(), 0.5));
    apply(&mut store, &mut model, &Step::Pop(1, true));
    store.commit().unwrap();
    check(&mut store, &model, &[], true);
    let found = census(&db).unwrap();
    assert_eq!((found.faults.len(), found.elements, found.ordered), (0, 3, 0));
}

#[test]
fn an_order_that_is_damaged_is_told() {
    let members = [(&b"a"[..], 3.0), (b"b", 1.0), (b"c", 2.0)];
    let is_damaged = |outcome: Outcome<()>| match outcome {
        Err(Failure::Store(error)) => error.to_string().contains("sorted set"),
        _ => false,
    };
    for damage in ["missing", "foreign", "value"] {
        let (db, _) = stored_set(&members);
        let elements = db.find_key_space("db0:elements").unwrap().unwrap();
        let keys: Vec<_> = elements.iter().unwrap().map(|pair| pair.unwrap().0).collect();
        let first = keys.iter().find(|key| crate::stored::is_of_order(&key[key.len() - 14..]));
        let first = first.unwrap().to_vec();
        match damage {
            "missing" => elements.delete(&first).unwrap(),
            "foreign" => {
                elements.delete(&first).unwrap();
                let other = [&first[..first.len() - 1], b"x"].concat();
                elements.put(other, []).unwrap();
            }
            _ => elements.put(&first, b"??").unwrap(),
        }
        assert_eq!(census(&db).unwrap().faults.len(), 1, "{damage}");
        let mut store = store_on(&db);
        let mut set = SortedSet::find(&mut store, 0, KEY).unwrap().unwrap();
        assert!(is_damaged(set.with_order(&mut store, |_| ())), "{damage}");
        assert_eq!(is_damaged(set.len(&mut store).map(drop)), damage != "foreign", "{damage}");
        store.begin();
        let found = set.select_end(&mut store, 2, false);
        let popped = found.and_then(|found| set.remove_selected(&mut store, found));
        assert!(is_damaged(popped.map(drop)), "{damage}");
        store.rollback();
    }
}
