//! Messages of users, and upserts: random histories against maps in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_betree::{Betree, BetreeOptions, Change, Error, MessageAction, MessageActions, Upsert};
use halite_contract::{Direction, Durability, Engine, KeyRange, KeySpaceId, Op, Snapshots};
use halite_pmem::Domain;
use proptest::prelude::*;

use crate::home::{Home, Pairs, is, pairs, small, verify};

/// Adds to a number of 8 bytes.
struct Counter;

impl MessageAction for Counter {
    fn apply(&self, _: &[u8], message: &[u8], value: &mut Option<Vec<u8>>) {
        let sum = number(value.as_deref().unwrap_or_default()).wrapping_add(number(message));
        *value = Some(sum.to_le_bytes().to_vec());
    }

    fn merge(&self, _: &[u8], newer: &[u8], older: &[u8]) -> Vec<u8> {
        number(newer).wrapping_add(number(older)).to_le_bytes().to_vec()
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Appends to a value. It panics, if it is told to.
#[derive(Default)]
struct Append(AtomicBool);

impl MessageAction for Append {
    fn apply(&self, _: &[u8], message: &[u8], value: &mut Option<Vec<u8>>) {
        assert!(!self.0.load(Ordering::Relaxed), "the action panics");
        value.get_or_insert_default().extend_from_slice(message);
    }

    fn merge(&self, _: &[u8], newer: &[u8], older: &[u8]) -> Vec<u8> {
        assert!(!self.0.load(Ordering::Relaxed), "the action panics");
        [older, newer].concat()
    }
}

fn options(actions: MessageActions) -> BetreeOptions {
    BetreeOptions { actions, ..small() }
}

fn both() -> MessageActions {
    MessageActions::default()
        .with("counter", Arc::new(Counter))
        .with("append", Arc::new(Append::default()))
}

const NAMES: [&str; 2] = ["counter", "append"];

#[derive(Debug, Clone)]
enum Edit {
    Put(u16),
    Delete,
    Message(Vec<u8>),
    Overwrite(u16, Vec<u8>),
    SetBits(u16, Vec<u8>),
    ClearBits(u16, Vec<u8>),
    Extend(u16),
}

#[derive(Debug, Clone)]
enum Step {
    /// Changes of keys of the two datasets, together.
    Write(Vec<(usize, u8, Edit)>),
    DeleteRange(usize, u8, u8),
    Snapshot(usize),
    Reopen(bool),
    /// Opens the store without the actions, writes so many values, and opens it with them again.
    Miss(u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    let bytes = || prop::collection::vec(prop_oneof![Just(0xff), any::<u8>()], 0..12);
    let at = || prop_oneof![8 => 0_u16..40, 1 => 0..4000_u16];
    prop_oneof![
        2 => prop_oneof![4 => 0_u16..60, 1 => 1000..3000_u16].prop_map(Edit::Put),
        1 => Just(Edit::Delete),
        8 => bytes().prop_map(Edit::Message),
        2 => (at(), bytes()).prop_map(|(a, b)| Edit::Overwrite(a, b)),
        1 => (at(), bytes()).prop_map(|(a, b)| Edit::SetBits(a, b)),
        1 => (at(), bytes()).prop_map(|(a, b)| Edit::ClearBits(a, b)),
        1 => at().prop_map(Edit::Extend),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let change = (0_usize..2, 0_u8..30, edit());
    prop_oneof![
        20 => prop::collection::vec(change, 1..25).prop_map(Step::Write),
        1 => (0_usize..2, 0_u8..30, 0_u8..30).prop_map(|(a, b, c)| Step::DeleteRange(a, b, c)),
        2 => (0_usize..2).prop_map(Step::Snapshot),
        2 => any::<bool>().prop_map(Step::Reopen),
        1 => (0_u8..30).prop_map(Step::Miss),
    ]
}

fn upsert(edit: &Edit) -> Upsert {
    let upsert = Upsert::new();
    let made = match edit {
        Edit::Overwrite(at, bytes) => upsert.overwrite((*at).into(), bytes),
        Edit::SetBits(at, bytes) => upsert.set_bits((*at).into(), bytes),
        Edit::ClearBits(at, bytes) => upsert.clear_bits((*at).into(), bytes),
        Edit::Extend(len) => upsert.extend((*len).into()),
        Edit::Put(_) | Edit::Delete | Edit::Message(_) => Ok(upsert),
    };
    made.unwrap()
}

/// Does to a value what an edit does.
fn change(of: usize, edit: &Edit, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut value = value;
    let mut range = |at: u16, bytes: &[u8], to: fn(u8, u8) -> u8| {
        let (at, value) = (usize::from(at), value.get_or_insert_default());
        value.resize(value.len().max(at + bytes.len()), 0);
        value[at..].iter_mut().zip(bytes).for_each(|(byte, mask)| *byte = to(*byte, *mask));
    };
    match edit {
        Edit::Put(len) => value = Some(vec![7; usize::from(*len)]),
        Edit::Delete => value = None,
        Edit::Message(message) if of == 0 => Counter.apply(b"", message, &mut value),
        Edit::Message(message) => Append::default().apply(b"", message, &mut value),
        Edit::Overwrite(at, bytes) => range(*at, bytes, |_, byte| byte),
        Edit::SetBits(at, bytes) => range(*at, bytes, |byte, mask| byte | mask),
        Edit::ClearBits(at, bytes) => range(*at, bytes, |byte, mask| byte & !mask),
        Edit::Extend(len) => range(*len, &[], |byte, _| byte),
    }
    value
}

#[derive(Default)]
struct Model {
    live: [Pairs; 2],
    snapshots: BTreeMap<String, (usize, Pairs)>,
}

fn check(betree: &Betree, spaces: &[KeySpaceId; 2], model: &Model) {
    let snapshot = betree.snapshot().unwrap();
    for (space, live) in spaces.iter().zip(&model.live) {
        assert_eq!(&pairs(&*snapshot, *space, Direction::Forward), live);
        assert_eq!(&pairs(&*snapshot, *space, Direction::Reverse), live);
        for number in 0..30 {
            let found = betree.get(*space, &[number]).unwrap();
            assert_eq!(found.as_deref(), live.get(&vec![number]).map(Vec::as_slice));
        }
    }
    for (name, (of, expected)) in &model.snapshots {
        let snapshot = betree.open_snapshot(spaces[*of], name).unwrap();
        assert_eq!(&pairs(&*snapshot, spaces[*of], Direction::Forward), expected);
        let found = snapshot.get(spaces[*of], &[3]).unwrap();
        assert_eq!(found.as_deref(), expected.get(&vec![3]).map(Vec::as_slice));
    }
}

fn write(betree: &Betree, spaces: &[KeySpaceId; 2], changes: &[(usize, u8, Edit)]) {
    let keys: Vec<[u8; 1]> = changes.iter().map(|(_, key, _)| [*key]).collect();
    let upserts: Vec<Upsert> = changes.iter().map(|(_, _, edit)| upsert(edit)).collect();
    let long = [7; 3000];
    let change = |number: usize| {
        let ((of, _, edit), key) = (&changes[number], &keys[number][..]);
        let space = spaces[*of];
        match edit {
            Edit::Put(len) => Change::Op(Op::Put { space, key, value: &long[..usize::from(*len)] }),
            Edit::Delete => Change::Op(Op::Delete { space, key }),
            Edit::Message(message) => Change::Message { space, key, message },
            _ => Change::Upsert { space, key, upsert: &upserts[number] },
        }
    };
    let all: Vec<Change<'_>> = (0..changes.len()).map(change).collect();
    betree.write_changes(&all, Durability::Deferred).unwrap();
}

fn histories_agree_with_the_model(home: &Home, steps: &[Step]) {
    let mut betree = home.open_with(options(both()));
    let spaces = NAMES.map(|name| betree.key_space(name).unwrap());
    for (space, name) in spaces.into_iter().zip(NAMES) {
        betree.set_message_action(space, name).unwrap();
    }
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Write(changes) => {
                write(&betree, &spaces, changes);
                for (of, key, edit) in changes {
                    let live = &mut model.live[*of];
                    let before = live.remove(&vec![*key]);
                    live.extend(change(*of, edit, before).map(|value| (vec![*key], value)));
                }
                continue;
            }
            Step::DeleteRange(of, a, b) => {
                let (start, end) = ([*a.min(b)], [*a.max(b)]);
                let op = Op::DeleteRange { space: spaces[*of], start: &start, end: Some(&end) };
                betree.write(&[op], Durability::Deferred).unwrap();
                model.live[*of].retain(|key, _| key[0] < start[0] || key[0] >= end[0]);
            }
            Step::Snapshot(of) => {
                let name = format!("snapshot {}", model.snapshots.len());
                betree.create_snapshot(spaces[*of], &name).unwrap();
                model.snapshots.insert(name, (*of, model.live[*of].clone()));
            }
            Step::Reopen(kills) => {
                betree = home.reopen_with(betree, *kills, options(both()));
            }
            Step::Miss(first) => {
                betree = home.reopen_with(betree, false, small());
                for round in 0..60 {
                    let (key, value) = ([(first + round) % 30], [round; 200]);
                    let space = spaces[usize::from(round % 2)];
                    betree
                        .write(&[Op::Put { space, key: &key, value: &value }], Durability::Deferred)
                        .unwrap();
                    model.live[usize::from(round % 2)].insert(key.to_vec(), value.to_vec());
                }
                let error = betree.message(spaces[0], b"k", b"", Durability::Deferred).unwrap_err();
                assert!(is(&error, |error| matches!(error, Error::ActionMissing { .. })));
                verify(&betree);
                betree = home.reopen_with(betree, false, options(both()));
            }
        }
        check(&betree, &spaces, &model);
        verify(&betree);
    }
    check(&betree, &spaces, &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn messages_and_upserts_change_values_as_if_each_were_applied_at_once(
        steps in prop::collection::vec(step(), 1..50),
        in_file in any::<bool>(),
    ) {
        let domain = if in_file { Domain::PageCache } else { Domain::Memory };
        histories_agree_with_the_model(&Home::medium(domain), &steps);
    }
}

#[test]
fn a_panic_of_an_action_is_the_datasets_and_no_message_is_lost() {
    for home in [Home::medium(Domain::Memory), Home::Folder(tempfile::tempdir().unwrap())] {
        let bad = Arc::new(Append::default());
        let actions = MessageActions::default().with("append", bad.clone());
        let betree = home.open_with(options(actions));
        let (space, other) = (betree.key_space("a").unwrap(), betree.key_space("b").unwrap());
        let error = betree.message(space, b"k", b"x", Durability::Deferred).unwrap_err();
        assert!(is(&error, |error| matches!(error, Error::NoAction)));
        assert!(is(&betree.set_message_action(space, "none").unwrap_err(), |error| {
            matches!(error, Error::ActionMissing { .. })
        }));
        betree.set_message_action(space, "append").unwrap();
        let send = |betree: &Betree, round: u8| {
            (0..20)
                .map(|key| betree.message(space, &[key], &[round; 30], Durability::Deferred))
                .find(Result::is_err)
        };
        (0..20).for_each(|round| assert!(send(&betree, round).is_none()));
        bad.0.store(true, Ordering::Relaxed);
        let error = betree.get(space, &[3]).unwrap_err();
        assert!(is(&error, |error| matches!(error, Error::ActionFailed { .. })), "{error}");
        let refused = send(&betree, 0).unwrap().unwrap_err();
        assert!(is(&refused, |error| matches!(error, Error::ActionFailed { .. })));
        let mut scan = betree.scan(space, KeyRange::all(), Direction::Forward).unwrap();
        assert!(scan.next().unwrap().is_err());
        drop(scan);
        // The other dataset, and puts, go on, and so do flushes.
        for round in 0..200 {
            let (key, value) = ([100, round], [round; 300]);
            let op = |space| Op::Put { space, key: &key, value: &value };
            betree.write(&[op(other), op(space)], Durability::Deferred).unwrap();
        }
        assert_eq!(betree.get(other, &[100, 3]).unwrap().as_deref(), Some(&[3; 300][..]));
        verify(&betree);
        let betree = home.reopen_with(betree, false, options(both()));
        let expected: Vec<u8> = (0..20).flat_map(|round| [round; 30]).collect();
        for key in 0..20 {
            assert_eq!(betree.get(space, &[key]).unwrap().as_deref(), Some(&expected[..]));
        }
        verify(&betree);
    }
}

#[test]
fn messages_that_merge_to_long_ones_become_values() {
    let home = Home::medium(Domain::Memory);
    let betree = home.open_with(options(both()));
    let space = betree.key_space("append").unwrap();
    betree.set_message_action(space, "append").unwrap();
    let mut expected = b"begin".to_vec();
    betree.write(&[Op::Put { space, key: b"k", value: b"begin" }], Durability::Deferred).unwrap();
    for round in 0..12 {
        let message = vec![round; 120 << 10];
        betree.message(space, b"k", &message, Durability::Deferred).unwrap();
        expected.extend_from_slice(&message);
    }
    let far = Upsert::new().overwrite(3 << 20, b"far").unwrap();
    betree.upsert(space, b"far", &far, Durability::Deferred).unwrap();
    betree.upsert(space, b"k", &far, Durability::Deferred).unwrap();
    expected.resize(3 << 20, 0);
    expected.extend_from_slice(b"far");
    let betree = home.reopen_with(betree, true, options(both()));
    for _ in 0..2 {
        assert!(betree.get(space, b"k").unwrap().unwrap() == expected[..]);
        assert_eq!(betree.get(space, b"far").unwrap().unwrap().len(), (3 << 20) + 3);
        verify(&betree);
    }
    let long = vec![0; (128 << 10) + 1];
    let refused = betree.message(space, b"k", &long, Durability::Deferred).unwrap_err();
    assert!(is(&refused, |error| matches!(error, Error::MessageTooLong { .. })));
    assert!(Upsert::new().extend(usize::MAX).is_err());
}
