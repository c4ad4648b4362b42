//! Copies of ranges: random histories against maps in memory.

use std::ops::Bound;

use halite_betree::{Betree, Error, RangeCopy};
use halite_contract::{
    Direction, Durability, Engine, Expectation, KeyRange, KeySpaceId, Op, Snapshots, Transactional,
};
use halite_pmem::Domain;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::home::{Home, Pairs, is, pairs, verify};

const DATASETS: usize = 3;

/// Beginnings of keys. One is the beginning of another one.
const PREFIXES: [&[u8]; 4] = [b"", b"a", b"ab", b"b"];

#[derive(Debug, Clone)]
enum Step {
    /// Puts so many keys from one on, with values of a length.
    Put(usize, Index, u8, u8, u16),
    DeleteRange(usize, Vec<u8>, Vec<u8>),
    Copy {
        from: usize,
        to: usize,
        range: KeyRange,
        prefixes: [Index; 2],
    },
    Snapshot(usize),
    Rollback(usize),
    /// Keeps the state for a while.
    Keep,
    Sync,
    /// Closes the store before that, or kills it.
    Reopen(bool),
}

fn key(prefix: &Index, number: u8) -> Vec<u8> {
    [prefix.get(&PREFIXES), &[b'a' + number % 3, number][..]].concat()
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![b'a'..b'd', any::<u8>()], 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![6 => 1_u16..90, 1 => 1000..3000_u16];
    let dataset = || 0..DATASETS;
    let range = prop_oneof![
        2 => Just(KeyRange::all()),
        3 => (keys(), prop::option::of(keys())).prop_map(|(start, end)| KeyRange::new(start, end)),
    ];
    prop_oneof![
        10 => (dataset(), any::<Index>(), any::<u8>(), 1_u8..40, len)
            .prop_map(|(a, b, c, d, e)| Step::Put(a, b, c, d, e)),
        2 => (dataset(), keys(), keys()).prop_map(|(a, b, c)| Step::DeleteRange(a, b, c)),
        6 => (dataset(), dataset(), range, any::<[Index; 2]>())
            .prop_map(|(from, to, range, prefixes)| Step::Copy { from, to, range, prefixes }),
        2 => dataset().prop_map(Step::Snapshot),
        1 => dataset().prop_map(Step::Rollback),
        1 => Just(Step::Keep),
        1 => Just(Step::Sync),
        3 => any::<bool>().prop_map(Step::Reopen),
    ]
}

#[derive(Default)]
struct Model {
    live: [Pairs; DATASETS],
    snapshots: [Vec<(String, Pairs)>; DATASETS],
    next: u32,
}

fn copy(model: &mut Model, from: usize, to: usize, range: &KeyRange, old: &[u8], new: &[u8]) {
    let within = model.live[from].iter().filter(|(key, _)| range.contains(key));
    let moved = within
        .filter_map(|(key, value)| Some(([new, key.strip_prefix(old)?].concat(), value.clone())));
    let moved: Pairs = moved.collect();
    // A key of the destination is replaced if the key that would become it is in the range.
    let is_replaced = |key: &[u8]| {
        key.strip_prefix(new).is_some_and(|rest| range.contains(&[old, rest].concat()))
    };
    model.live[to].retain(|key, _| !is_replaced(key));
    model.live[to].extend(moved);
}

fn run(betree: &Betree, spaces: &[KeySpaceId; DATASETS], model: &mut Model, step: &Step) {
    match step {
        Step::Put(of, prefix, first, count, len) => {
            for number in 0..*count {
                model.next += 1;
                let key = key(prefix, first.wrapping_add(number));
                let tag = model.next.to_le_bytes();
                let value: Vec<u8> = tag.iter().copied().cycle().take(usize::from(*len)).collect();
                let op = Op::Put { space: spaces[*of], key: &key, value: &value };
                betree.write(&[op], Durability::Deferred).unwrap();
                model.live[*of].insert(key, value);
            }
        }
        Step::DeleteRange(of, a, b) => {
            let (start, end) = (a.min(b), a.max(b));
            let op = Op::DeleteRange { space: spaces[*of], start, end: Some(end) };
            betree.write(&[op], Durability::Deferred).unwrap();
            model.live[*of].retain(|key, _| key < start || key >= end);
        }
        Step::Copy { from, to, range, prefixes: [old, new] } => {
            let (old_prefix, new_prefix) = (*old.get(&PREFIXES), *new.get(&PREFIXES));
            let (source, destination) = (spaces[*from], spaces[*to]);
            let asked = RangeCopy { source, range, old_prefix, destination, new_prefix };
            betree.copy_range(&asked).unwrap();
            copy(model, *from, *to, range, old_prefix, new_prefix);
        }
        Step::Snapshot(of) => {
            model.next += 1;
            let name = format!("snapshot {}", model.next);
            betree.create_snapshot(spaces[*of], &name).unwrap();
            let live = model.live[*of].clone();
            model.snapshots[*of].push((name, live));
        }
        Step::Rollback(of) => {
            if let Some((name, pairs)) = model.snapshots[*of].last() {
                betree.rollback(spaces[*of], name, false).unwrap();
                model.live[*of] = pairs.clone();
            }
        }
        Step::Sync => betree.sync().unwrap(),
        Step::Keep | Step::Reopen(_) => unreachable!("the history does that"),
    }
}

fn check(betree: &Betree, spaces: &[KeySpaceId; DATASETS], model: &Model) {
    for (space, live) in spaces.iter().zip(&model.live) {
        let snapshot = betree.snapshot().unwrap();
        for direction in [Direction::Forward, Direction::Reverse] {
            assert_eq!(&pairs(&*snapshot, *space, direction), live);
        }
        for number in (0..=255).step_by(3) {
            for prefix in PREFIXES {
                let key = [prefix, &[b'a' + number % 3, number][..]].concat();
                let found = betree.get(*space, &key).unwrap();
                assert_eq!(found.as_deref(), live.get(&key).map(Vec::as_slice));
                let range = KeyRange::new(key.clone(), None);
                let next = snapshot.scan(*space, range, Direction::Forward).unwrap().next();
                let bounds = (Bound::Included(key), Bound::Unbounded);
                let expected = live.range::<Vec<u8>, _>(bounds).next();
                assert_eq!(
                    next.map(|pair| pair.unwrap().0.to_vec()).as_ref(),
                    expected.map(|e| e.0)
                );
            }
        }
    }
    for (space, snapshots) in spaces.iter().zip(&model.snapshots) {
        for (name, expected) in snapshots {
            let snapshot = betree.open_snapshot(*space, name).unwrap();
            assert_eq!(&pairs(&*snapshot, *space, Direction::Forward), expected);
        }
    }
}

fn histories_agree_with_the_model(home: &Home, steps: &[Step]) {
    let mut betree = home.open();
    let spaces = [0, 1, 2].map(|number| betree.key_space(&format!("space {number}")).unwrap());
    let mut model = Model::default();
    let mut kept = None;
    for step in steps {
        match step {
            Step::Reopen(kills) => {
                kept = None;
                betree = home.reopen(betree, *kills);
            }
            Step::Keep => kept = Some((betree.snapshot().unwrap(), model.live.clone())),
            step => run(&betree, &spaces, &mut model, step),
        }
        if matches!(step, Step::Put(..)) {
            continue;
        }
        check(&betree, &spaces, &model);
        if let Some((snapshot, live)) = &kept {
            for (space, live) in spaces.iter().zip(live) {
                assert_eq!(&pairs(&**snapshot, *space, Direction::Forward), live);
            }
        }
        if matches!(step, Step::Reopen(_)) {
            verify(&betree);
        }
    }
    drop(kept);
    verify(&betree);
    check(&betree, &spaces, &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn copies_have_what_their_sources_had(
        steps in prop::collection::vec(step(), 1..50),
        in_file in any::<bool>(),
    ) {
        let domain = if in_file { Domain::PageCache } else { Domain::Memory };
        histories_agree_with_the_model(&Home::medium(domain), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 30, ..ProptestConfig::default() })]

    #[test]
    fn copies_have_what_their_sources_had_beside_a_thread(
        steps in prop::collection::vec(step(), 1..50),
    ) {
        histories_agree_with_the_model(&Home::Folder(tempfile::tempdir().unwrap()), &steps);
    }
}

#[test]
fn a_copy_is_one_short_record_conflicts_with_readers_of_its_range_and_grows_keys_within_bounds() {
    let home = Home::medium(Domain::Memory);
    let betree = home.open();
    let space = betree.key_space("space").unwrap();
    for number in 0..2000_u32 {
        let (key, value) = (number.to_be_bytes(), [7; 100]);
        betree.write(&[Op::Put { space, key: &key, value: &value }], Durability::Deferred).unwrap();
    }
    let range = KeyRange::all();
    let asked = |new_prefix| RangeCopy {
        source: space,
        range: &range,
        old_prefix: b"",
        destination: space,
        new_prefix,
    };
    let snapshot = betree.snapshot().unwrap();
    let log = |betree: &Betree| {
        betree.stats().own.iter().find(|of| of.name == "log_bytes").unwrap().value
    };
    let before = log(&betree);
    betree.copy_range(&asked(b"p")).unwrap();
    assert!(log(&betree).saturating_sub(before) < 1000, "the log does not have the keys");
    assert_eq!(betree.len(space).unwrap(), 4000);
    let read = |key: &'static [u8]| {
        let keys = [(space, key)];
        let expected = Expectation { snapshot: &*snapshot, keys: &keys, ranges: &[] };
        betree.write_if(&[], Durability::Deferred, &[expected])
    };
    assert!(read(b"p\0\0\0\x01").is_err() && read(b"x").is_ok());
    let long = [b'l'; 4096];
    let error = betree.copy_range(&asked(&long)).unwrap_err();
    assert!(is(&error, |error| matches!(error, Error::CopyGrowsKeys { growth: 4097, .. })));
    let nothing = KeyRange::new(*b"b", Some(b"a".to_vec()));
    betree.copy_range(&RangeCopy { range: &nothing, ..asked(b"q") }).unwrap();
    assert_eq!(betree.len(space).unwrap(), 4000);
    let other = RangeCopy { destination: KeySpaceId(77), ..asked(b"q") };
    assert!(matches!(betree.copy_range(&other), Err(halite_contract::Error::NoSuchKeySpace)));
    drop(snapshot);
    let betree = home.reopen(betree, true);
    assert_eq!(betree.len(space).unwrap(), 4000);
    verify(&betree);
}

/// The live pairs of a dataset.
fn live(betree: &Betree, space: KeySpaceId) -> Pairs {
    pairs(&*betree.snapshot().unwrap(), space, Direction::Forward)
}

#[test]
fn a_power_cut_leaves_a_copy_whole_or_not_at_all() {
    for (domain, step) in [(Domain::Memory, 1), (Domain::PageCache, 3)] {
        let mut cuts = 0;
        for events in (0..).step_by(step) {
            let home = Home::medium(domain);
            let betree = home.open();
            let space = betree.key_space("space").unwrap();
            for number in 0..60_u8 {
                let value = vec![number; if number % 20 == 7 { 1500 } else { 90 }];
                let op = Op::Put { space, key: &[b'a', number], value: &value };
                betree.write(&[op], Durability::Deferred).unwrap();
            }
            betree.sync().unwrap();
            let before = live(&betree, space);
            let range = KeyRange::new(*b"a\x05", None);
            let copy = |new_prefix| RangeCopy {
                source: space,
                range: &range,
                old_prefix: b"a",
                destination: space,
                new_prefix,
            };
            let moved = before.iter().filter(|(key, _)| range.contains(key));
            let moved = |new: u8| -> Pairs {
                moved.clone().map(|(key, value)| (vec![new, key[1]], value.clone())).collect()
            };
            let first: Pairs = before.clone().into_iter().chain(moved(b'b')).collect();
            let second: Pairs = first.clone().into_iter().chain(moved(b'c')).collect();
            let Home::Medium(medium) = &home else { unreachable!() };
            medium.machine().cut_power_after(events);
            let is_first = betree.copy_range(&copy(b"b")).is_ok();
            let is_second = is_first && betree.copy_range(&copy(b"c")).is_ok();
            // The flushes and checkpoints, too.
            drop(betree);
            let was_cut = !medium.machine().has_power();
            medium.machine().cut_power();
            medium.restore_power();
            let betree = home.open();
            let found = live(&betree, space);
            let allowed: &[&Pairs] = match (is_first, is_second) {
                (_, true) => &[&second],
                (true, false) => &[&first, &second],
                (false, false) => &[&before, &first],
            };
            assert!(allowed.contains(&&found), "{events} events: {is_first} {is_second}");
            verify(&betree);
            assert_eq!(live(&betree, space), found);
            if !was_cut {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 20, "{cuts} cuts");
    }
}
