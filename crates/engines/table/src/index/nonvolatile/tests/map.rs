//! A tree is an ordered map, whatever becomes of what was prepared.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use proptest::prelude::*;

use super::*;
use crate::index::KEY_LEN_MAX;

/// Keys that share prefixes, are prefixes of each other, or are long.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(255), Just(b'a'), any::<u8>()];
    let short = proptest::collection::vec(byte, 0..10);
    let stem = prop_oneof![
        8 => Just(0_usize),
        2 => Just(30),
        1 => Just(60),
        1 => Just(250),
        1 => Just(KEY_LEN_MAX - 10)
    ];
    (stem, short).prop_map(|(stem, end)| [&vec![b'k'; stem][..], &end].concat())
}

/// The end of changes that were prepared.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Shown,
    Tidied,
    TakenBack,
    GivenUp,
    /// The process is killed before they are shown.
    Killed,
    /// The tree is opened again after they were shown.
    Reopened,
}

#[derive(Debug, Clone)]
struct Round {
    changes: BTreeMap<Vec<u8>, Option<u64>>,
    /// So many entries from some key on are removed, too.
    removed: Option<(Vec<u8>, usize)>,
    fate: Fate,
    scanned: (Vec<u8>, Vec<u8>, bool, bool),
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let fate = prop_oneof![
        4 => Just(Fate::Shown),
        4 => Just(Fate::Tidied),
        2 => Just(Fate::TakenBack),
        1 => Just(Fate::GivenUp),
        1 => Just(Fate::Killed),
        1 => Just(Fate::Reopened),
    ];
    let value = prop_oneof![3 => (0..5_u64).prop_map(Some), 1 => Just(None)];
    let count = prop_oneof![4 => 0..12_usize, 1 => 60..200_usize];
    let changes = count.prop_flat_map(move |count| {
        proptest::collection::vec((keys(), value.clone()), count)
            .prop_map(|changes| changes.into_iter().collect::<BTreeMap<_, _>>())
    });
    let removed = proptest::option::of((keys(), 1..120_usize));
    let scanned = (keys(), keys(), any::<bool>(), any::<bool>());
    let round = (changes, removed, fate, scanned)
        .prop_map(|(changes, removed, fate, scanned)| Round { changes, removed, fate, scanned });
    proptest::collection::vec(round, 1..24)
}

fn bound(key: &[u8], is_open: bool) -> Bound<&[u8]> {
    if is_open { Bound::Excluded(key) } else { Bound::Included(key) }
}

type Model = BTreeMap<Vec<u8>, u64>;

fn compare(place: &Place, model: &Model, round: &Round) {
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), *value)).collect();
    assert_eq!(place.all(ALL, Direction::Forward), expected);
    let (from, to, from_open, to_open) = &round.scanned;
    let (from, to) = if from < to { (from, to) } else { (to, from) };
    let range = (bound(from, *from_open), bound(to, *to_open));
    let within = model.iter().filter(|(key, _)| RangeBounds::<[u8]>::contains(&range, &key[..]));
    let mut within: Vec<_> = within.map(|(key, value)| (key.clone(), *value)).collect();
    assert_eq!(place.all(range, Direction::Forward), within);
    within.reverse();
    assert_eq!(place.all(range, Direction::Reverse), within);
    for key in round.changes.keys() {
        assert_eq!(place.tree.get(&place.heap, key).unwrap(), model.get(key).copied());
    }
}

fn run(place: &mut Place, model: &mut Model, round: &Round) {
    let mut changes = round.changes.clone();
    if let Some((from, count)) = &round.removed {
        let near = model.range(from.clone()..).take(*count);
        changes.extend(near.map(|(key, _)| (key.clone(), None)));
    }
    let list: Vec<_> = changes
        .iter()
        .map(|(key, value)| value.map_or(Change::Remove(key), |value| Change::Put(key, value)))
        .collect();
    let prepared = place.prepare(&list);
    // Nothing is seen before it is shown.
    compare(place, model, round);
    match round.fate {
        Fate::GivenUp => prepared.give_up(&mut place.heap).unwrap(),
        Fate::Killed => place.kill(),
        Fate::TakenBack => {
            prepared.show(&mut place.heap).unwrap();
            prepared.take_back(&mut place.heap, place.tree.owner()).unwrap();
            place.heap.fence().unwrap();
            place.tree.tidy(&mut place.heap, &prepared.words).unwrap();
        }
        Fate::Shown | Fate::Tidied | Fate::Reopened => {
            prepared.show(&mut place.heap).unwrap();
            place.heap.fence().unwrap();
            for (key, value) in changes {
                match value {
                    Some(value) => drop(model.insert(key, value)),
                    None => drop(model.remove(&key)),
                }
            }
            match round.fate {
                Fate::Tidied => place.tree.tidy(&mut place.heap, &prepared.words).unwrap(),
                Fate::Reopened => place.kill(),
                _ => {}
            }
        }
    }
    compare(place, model, round);
    place.accounted();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_shows_what_is_shown_and_leaks_nothing(shift in 8_u32..15, rounds in rounds()) {
        let mut place = Place::new(1 << shift);
        let empty = place.accounted();
        let mut model = Model::new();
        for round in &rounds {
            run(&mut place, &mut model, round);
        }
        // An empty tree has a header and a leaf.
        let list: Vec<_> = model.keys().map(|key| Change::Remove(key)).collect();
        let prepared = place.prepare(&list);
        prepared.show(&mut place.heap).unwrap();
        place.tree.tidy(&mut place.heap, &prepared.words).unwrap();
        prop_assert!(place.all(ALL, Direction::Forward).is_empty());
        prop_assert!(place.accounted() >= empty);
    }
}

#[test]
fn many_changes_at_once_are_divided_among_publications() {
    let mut place = Place::new(256);
    let keys: Vec<_> = (0..6000).map(key_of).collect();
    let odd: Vec<_> = keys.iter().zip(0..).skip(1).step_by(2).collect();
    let odd: Vec<_> = odd.iter().map(|&(key, value)| Change::Put(key, value)).collect();
    // Around entries that are there.
    place.change(&[
        Change::Put(&keys[0], 0),
        Change::Put(&keys[3000], 3000),
        Change::Put(&keys[5998], 5998),
    ]);
    place.change(&odd);
    let all: Vec<_> = keys.iter().zip(0..).map(|(key, value)| Change::Put(key, value)).collect();
    place.change(&all);
    let found = place.all(ALL, Direction::Forward);
    assert!(found.iter().map(|(key, value)| (key, *value)).eq(keys.iter().zip(0..)));
    place.accounted();
    let none: Vec<_> = keys.iter().map(|key| Change::Remove(key)).collect();
    let prepared = place.prepare(&none);
    prepared.show(&mut place.heap).unwrap();
    place.heap.fence().unwrap();
    place.tree.tidy(&mut place.heap, &prepared.words).unwrap();
    assert!(place.all(ALL, Direction::Reverse).is_empty());
    // The header and a leaf are left, and the heap's root.
    assert!(place.accounted() < 400, "{}", place.accounted());
}

#[test]
fn keys_in_order_fill_the_leaves_and_others_most_of_them() {
    let mut leaves = Vec::new();
    for stride in [1, 7919] {
        let mut place = Place::new(512);
        for number in 0..10_000_u64 {
            place.change(&[Change::Put(&key_of(number * stride % 10_007), number)]);
        }
        // An entry takes 16 bytes and 17 of the key.
        leaves.push(place.accounted() * 100 / (10_000 * 33));
    }
    assert!(leaves[0] < 115 && leaves[1] < 175, "{leaves:?} % of the entries' bytes");
}
