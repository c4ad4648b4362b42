//! Sending snapshots to another store, and receiving them there: chains of streams, streams that are cut off or damaged, and
//! power cuts.

use std::ops::ControlFlow;

use halite_betree::{
    Betree, Error, RangeCopy, ReceiveOptions, StreamError, TransferReport, Upsert,
};
use halite_contract::{Direction, Durability, Engine, KeyRange, KeySpaceId, Op, Snapshots};
use halite_pmem::Domain;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::home::{Home, Pairs, pairs, verify};

const STRICT: ReceiveOptions = ReceiveOptions { rollback: false };

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8, u16),
    Delete(u8),
    DeleteRange(u8, u8),
    /// Overwrites a byte of a value, behind its end, too.
    Upsert(u8, u16, u8),
    /// Copies the keys from one on, below another one, to others.
    Copy(u8, u8, u8),
    /// Rolls the sender back to the snapshot that was received last.
    Rollback,
    Rename,
    /// Makes a snapshot, and sends it, mostly as the changes since the last one. The stream is cut off before, now and then,
    /// and then goes on, or is sent anew.
    Send {
        incremental: bool,
        cuts: Vec<(Index, bool)>,
    },
    /// Changes the receiver's dataset. The next stream needs a rollback of that.
    Disturb(u8),
    /// Deletes the oldest snapshot of both but for the last.
    Forget,
    Reopen {
        sender: bool,
        kills: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![6 => 1_u16..90, 1 => 1000..3000_u16];
    let cut = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(any::<(Index, bool)>(), 1..4),
    ];
    prop_oneof![
        12 => (any::<u8>(), 1_u8..40, len).prop_map(|(a, b, c)| Step::Put(a, b, c)),
        3 => any::<u8>().prop_map(Step::Delete),
        2 => any::<(u8, u8)>().prop_map(|(a, b)| Step::DeleteRange(a, b)),
        4 => (any::<u8>(), 0..1500_u16, any::<u8>()).prop_map(|(a, b, c)| Step::Upsert(a, b, c)),
        1 => any::<(u8, u8, u8)>().prop_map(|(a, b, c)| Step::Copy(a, b, c)),
        1 => Just(Step::Rollback),
        1 => Just(Step::Rename),
        6 => (prop::bool::weighted(0.9), cut)
            .prop_map(|(incremental, cuts)| Step::Send { incremental, cuts }),
        1 => any::<u8>().prop_map(Step::Disturb),
        1 => Just(Step::Forget),
        2 => any::<(bool, bool)>().prop_map(|(sender, kills)| Step::Reopen { sender, kills }),
    ]
}

fn key(number: u8) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

fn on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn stream_error(error: &halite_contract::Error) -> Option<&StreamError> {
    match error {
        halite_contract::Error::Own(own) => match own.downcast_ref() {
            Some(Error::Stream(error)) => Some(error),
            _ => None,
        },
        _ => None,
    }
}

fn send(betree: &Betree, space: KeySpaceId, snapshot: &str, from: Option<&str>) -> Vec<u8> {
    let mut stream = Vec::new();
    betree.send(space, snapshot, from, None, &mut stream, &mut on).unwrap();
    stream
}

fn receive(
    betree: &Betree,
    mut stream: &[u8],
    name: &str,
    options: ReceiveOptions,
) -> halite_contract::Result<TransferReport> {
    betree.receive(&mut stream, name, options, &mut on)
}

fn live(betree: &Betree, space: KeySpaceId) -> Pairs {
    pairs(&*betree.snapshot().unwrap(), space, Direction::Forward)
}

/// A sender, a receiver, and what they have.
struct Pair {
    homes: [Home; 2],
    sender: Betree,
    receiver: Betree,
    name: String,
    live: Pairs,
    /// The streams that were sent, the oldest first.
    sent: Vec<(String, Pairs)>,
    is_disturbed: bool,
    next: u32,
}

impl Pair {
    fn new(homes: [Home; 2]) -> Self {
        let (sender, receiver) = (homes[0].open(), homes[1].open());
        sender.key_space("name 0").unwrap();
        let (live, sent) = (Pairs::new(), Vec::new());
        let name = "name 0".to_owned();
        Self { homes, sender, receiver, name, live, sent, is_disturbed: false, next: 0 }
    }

    fn space(&self) -> KeySpaceId {
        self.sender.key_space(&self.name).unwrap()
    }

    fn run(mut self, step: &Step) -> Self {
        let space = self.space();
        match step {
            Step::Put(first, count, len) => {
                for number in 0..*count {
                    self.next += 1;
                    let (key, tag) = (key(first.wrapping_add(number)), self.next.to_le_bytes());
                    let value: Vec<u8> =
                        tag.iter().copied().cycle().take(usize::from(*len)).collect();
                    let op = Op::Put { space, key: &key, value: &value };
                    self.sender.write(&[op], Durability::Deferred).unwrap();
                    self.live.insert(key, value);
                }
            }
            Step::Delete(number) => {
                let key = key(*number);
                self.sender
                    .write(&[Op::Delete { space, key: &key }], Durability::Deferred)
                    .unwrap();
                self.live.remove(&key);
            }
            Step::DeleteRange(a, b) => {
                let (start, end) = (key(*a.min(b)), key(*a.max(b)));
                let op = Op::DeleteRange { space, start: &start, end: Some(&end) };
                self.sender.write(&[op], Durability::Deferred).unwrap();
                self.live.retain(|key, _| *key < start || *key >= end);
            }
            Step::Upsert(number, at, byte) => {
                let (key, at) = (key(*number), usize::from(*at));
                let upsert = Upsert::new().overwrite(at, &[*byte]).unwrap();
                self.sender.upsert(space, &key, &upsert, Durability::Deferred).unwrap();
                let value = self.live.entry(key).or_default();
                value.resize(value.len().max(at + 1), 0);
                value[at] = *byte;
            }
            Step::Copy(a, b, digit) => {
                let range = KeyRange::new(key(*a.min(b)), Some(key(*a.max(b))));
                let (old_prefix, new) = (b"key ", format!("key {}", digit % 10));
                let new_prefix = new.as_bytes();
                let copy = RangeCopy {
                    source: space,
                    range: &range,
                    old_prefix,
                    destination: space,
                    new_prefix,
                };
                self.sender.copy_range(&copy).unwrap();
                let within = self.live.iter().filter(|(key, _)| range.contains(key));
                let moved: Pairs = within
                    .map(|(key, value)| {
                        ([new_prefix, &key[old_prefix.len()..]].concat(), value.clone())
                    })
                    .collect();
                self.live.retain(|key, _| {
                    let rest = key.strip_prefix(new_prefix);
                    rest.is_none_or(|rest| !range.contains(&[&old_prefix[..], rest].concat()))
                });
                self.live.extend(moved);
            }
            Step::Rollback => {
                if let Some((name, pairs)) = self.sent.last() {
                    self.sender.rollback(space, name, true).unwrap();
                    self.live = pairs.clone();
                }
            }
            Step::Rename => {
                self.next += 1;
                let new = format!("name {}", self.next);
                self.sender.rename_key_space(&self.name, &new).unwrap();
                self.name = new;
            }
            Step::Send { incremental, cuts } => self.send(*incremental, cuts),
            Step::Disturb(number) => {
                if let Some(space) = self.received() {
                    let op = Op::Put { space, key: &key(*number), value: b"other" };
                    self.receiver.write(&[op], Durability::Deferred).unwrap();
                    self.is_disturbed = true;
                }
            }
            Step::Forget => {
                if self.sent.len() > 1 {
                    let (name, _) = self.sent.remove(0);
                    self.sender.delete_snapshot(space, &name).unwrap();
                    self.receiver.delete_snapshot(self.received().unwrap(), &name).unwrap();
                }
            }
            Step::Reopen { sender: true, kills } => {
                self.sender = self.homes[0].reopen(self.sender, *kills);
            }
            Step::Reopen { sender: false, kills } => {
                self.receiver = self.homes[1].reopen(self.receiver, *kills);
            }
        }
        self
    }

    fn received(&self) -> Option<KeySpaceId> {
        let spaces = self.receiver.key_spaces().unwrap();
        spaces.into_iter().find(|(name, _)| name == "copy").map(|(_, space)| space)
    }

    fn send(&mut self, incremental: bool, cuts: &[(Index, bool)]) {
        let space = self.space();
        self.next += 1;
        let snapshot = format!("snapshot {}", self.next);
        self.sender.create_snapshot(space, &snapshot).unwrap();
        let from = self.sent.last().map(|(name, _)| name.clone()).filter(|_| incremental);
        if let Some(copy) = self.received()
            && from.is_none()
        {
            self.receiver.destroy_key_space(copy).unwrap();
            (self.sent, self.is_disturbed) = (Vec::new(), false);
        }
        let from = from.as_deref();
        let before = self.received().map(|copy| live(&self.receiver, copy));
        let mut stream = send(&self.sender, space, &snapshot, from);
        let options = ReceiveOptions { rollback: self.is_disturbed };
        if self.is_disturbed {
            let error = receive(&self.receiver, &stream, "copy", STRICT).unwrap_err();
            // The disturbing writer may have put the value that was there.
            assert!(matches!(stream_error(&error), Some(StreamError::Changed { .. })), "{error}");
        }
        for (at, goes_on) in cuts {
            let cut = &stream[..at.index(stream.len())];
            let error = receive(&self.receiver, cut, "copy", options).unwrap_err();
            let error = stream_error(&error);
            assert!(matches!(error, Some(StreamError::Truncated { .. } | StreamError::Empty)));
            assert_eq!(self.received().map(|copy| live(&self.receiver, copy)), before);
            let token = self.receiver.receive_token("copy").unwrap();
            if *goes_on && let Some(token) = token {
                let token = token.to_string().parse().unwrap();
                stream = Vec::new();
                let sender = &self.sender;
                sender.send(space, &snapshot, from, Some(&token), &mut stream, &mut on).unwrap();
            } else {
                stream = send(&self.sender, space, &snapshot, from);
            }
        }
        receive(&self.receiver, &stream, "copy", options).unwrap();
        self.is_disturbed = false;
        let again = receive(&self.receiver, &stream, "copy", STRICT).unwrap_err();
        assert!(matches!(stream_error(&again), Some(StreamError::Repeated { .. })), "{again}");
        assert!(self.receiver.receive_token("copy").unwrap().is_none());
        self.sent.push((snapshot, self.live.clone()));
        self.check();
    }

    fn check(&self) {
        let (space, copy) = (self.space(), self.received().unwrap());
        assert_eq!(live(&self.sender, space), self.live);
        assert_eq!(live(&self.receiver, copy), self.sent.last().unwrap().1);
        let infos =
            [self.sender.snapshots_of(space).unwrap(), self.receiver.snapshots_of(copy).unwrap()];
        assert_eq!(infos[1].len(), self.sent.len());
        for ((name, pairs_of), received) in self.sent.iter().zip(&infos[1]) {
            let sent = infos[0].iter().find(|info| info.name == *name).unwrap();
            assert_eq!((&sent.name, sent.identity), (&received.name, received.identity));
            let snapshot = self.receiver.open_snapshot(copy, name).unwrap();
            assert_eq!(&pairs(&*snapshot, copy, Direction::Forward), pairs_of);
        }
    }
}

fn transfers_agree_with_the_model(homes: [Home; 2], steps: &[Step]) {
    let mut pair = Pair::new(homes);
    for step in steps {
        pair = pair.run(step);
    }
    if !pair.sent.is_empty() && !pair.is_disturbed {
        pair.check();
    }
    verify(&pair.sender);
    verify(&pair.receiver);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_chain_of_streams_brings_each_snapshot_to_the_receiver(
        steps in prop::collection::vec(step(), 1..60),
        in_file in any::<bool>(),
    ) {
        let domain = if in_file { Domain::PageCache } else { Domain::Memory };
        transfers_agree_with_the_model([Home::medium(domain), Home::medium(domain)], &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 30, ..ProptestConfig::default() })]

    #[test]
    fn a_chain_of_streams_brings_each_snapshot_to_the_receiver_beside_threads(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let home = || Home::Folder(tempfile::tempdir().unwrap());
        transfers_agree_with_the_model([home(), home()], &steps);
    }
}

fn put(betree: &Betree, space: KeySpaceId, number: u8, value: &[u8]) {
    let op = Op::Put { space, key: &key(number), value };
    betree.write(&[op], Durability::Deferred).unwrap();
}

/// A store with a snapshot of a few keys, and one of changes; the streams of both.
fn sender() -> (Home, Betree, KeySpaceId, [Vec<u8>; 2]) {
    let home = Home::medium(Domain::Memory);
    let betree = home.open();
    let space = betree.key_space("space").unwrap();
    (0..9).for_each(|number| put(&betree, space, number, &[number; 9]));
    put(&betree, space, 20, &[3; 1200]);
    betree.create_snapshot(space, "one").unwrap();
    put(&betree, space, 3, b"other");
    put(&betree, space, 21, &[4; 1100]);
    betree
        .write(
            &[Op::DeleteRange { space, start: &key(5), end: Some(&key(9)) }],
            Durability::Deferred,
        )
        .unwrap();
    betree.create_snapshot(space, "two").unwrap();
    let streams = [send(&betree, space, "one", None), send(&betree, space, "two", Some("one"))];
    (home, betree, space, streams)
}

#[test]
fn a_stream_that_is_cut_off_or_has_a_flipped_bit_changes_nothing() {
    let (_home, sender, space, [full, changes]) = sender();
    let expected = pairs(&*sender.open_snapshot(space, "two").unwrap(), space, Direction::Forward);
    let home = Home::medium(Domain::PageCache);
    let receiver = home.open();
    let refused = |stream: &[u8]| {
        assert!(receive(&receiver, stream, "copy", STRICT).is_err());
        receiver.key_spaces().unwrap()
    };
    for at in 0..full.len() {
        assert!(refused(&full[..at]).is_empty(), "cut at {at}");
        let mut damaged = full.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(refused(&damaged).is_empty(), "bit of {at}");
    }
    receive(&receiver, &full, "copy", STRICT).unwrap();
    let copy = receiver.key_space("copy").unwrap();
    let before = live(&receiver, copy);
    for at in 0..changes.len() {
        refused(&changes[..at]);
        let mut damaged = changes.clone();
        damaged[at] ^= 1 << (at % 8);
        refused(&damaged);
        refused(&[&changes[..at], &full[at.min(full.len())..]].concat());
        if at % 100 == 0 {
            assert_eq!(live(&receiver, copy), before);
        }
    }
    assert_eq!((live(&receiver, copy), receiver.snapshots_of(copy).unwrap().len()), (before, 1));
    assert!(receiver.discard_received("copy").unwrap());
    assert!(!receiver.discard_received("copy").unwrap());
    receive(&receiver, &changes, "copy", STRICT).unwrap();
    assert_eq!(live(&receiver, copy), expected);
    verify(&receiver);
}

#[test]
fn a_stream_that_does_not_fit_is_refused_by_name() {
    let (_home, sender, space, [full, changes]) = sender();
    let home = Home::medium(Domain::PageCache);
    let receiver = home.open();
    let error = receive(&receiver, &changes, "copy", STRICT).unwrap_err();
    assert!(matches!(error, halite_contract::Error::NoSuchKeySpace));
    let other = receiver.key_space("other").unwrap();
    let error = receive(&receiver, &changes, "other", STRICT).unwrap_err();
    assert!(matches!(stream_error(&error), Some(StreamError::OtherBase { .. })));
    assert!(receive(&receiver, &full, "other", STRICT).is_err(), "there is a dataset of the name");
    receive(&receiver, &full, "copy", STRICT).unwrap();
    let copy = receiver.key_space("copy").unwrap();
    receiver.create_snapshot(copy, "newer").unwrap();
    let error = receive(&receiver, &changes, "copy", STRICT).unwrap_err();
    assert!(matches!(stream_error(&error), Some(StreamError::OtherBase { .. })), "{error}");
    receive(&receiver, &changes, "copy", ReceiveOptions { rollback: true }).unwrap();
    let names = receiver.snapshots_of(copy).unwrap().into_iter().map(|info| info.name);
    assert_eq!(names.collect::<Vec<_>>(), ["one", "two"]);
    // And back: the changes of the receiver to the sender.
    put(&receiver, copy, 100, b"back");
    receiver.create_snapshot(copy, "three").unwrap();
    let back = send(&receiver, copy, "three", Some("two"));
    receive(&sender, &back, "space", STRICT).unwrap();
    assert_eq!(live(&sender, space), live(&receiver, copy));
    assert!(sender.send(space, "one", Some("two"), None, &mut Vec::new(), &mut on).is_err());
    let stopped =
        sender.send(space, "one", None, None, &mut Vec::new(), &mut |_, _| ControlFlow::Break(()));
    assert!(matches!(stream_error(&stopped.unwrap_err()), Some(StreamError::Stopped)));
    let _ = other;
    verify(&receiver);
    verify(&sender);
}

#[test]
fn changes_cost_what_has_changed_and_long_values_come_in_pieces() {
    let homes = [Home::Folder(tempfile::tempdir().unwrap()), Home::medium(Domain::Memory)];
    let (sender, receiver) = (homes[0].open(), homes[1].open());
    let space = sender.key_space("space").unwrap();
    for number in 0..5000_u32 {
        let op = Op::Put { space, key: &number.to_be_bytes(), value: &[number as u8; 50] };
        sender.write(&[op], Durability::Deferred).unwrap();
    }
    sender.create_snapshot(space, "one").unwrap();
    let long: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    sender.write(&[Op::Put { space, key: b"long", value: &long }], Durability::Deferred).unwrap();
    let op = Op::Put { space, key: &7_u32.to_be_bytes(), value: b"new" };
    sender.write(&[op], Durability::Deferred).unwrap();
    let (start, end) = (1000_u32.to_be_bytes(), 3000_u32.to_be_bytes());
    sender
        .write(&[Op::DeleteRange { space, start: &start, end: Some(&end) }], Durability::Deferred)
        .unwrap();
    sender.create_snapshot(space, "two").unwrap();
    receive(&receiver, &send(&sender, space, "one", None), "copy", STRICT).unwrap();
    let mut stream = Vec::new();
    let report = sender.send(space, "two", Some("one"), None, &mut stream, &mut on).unwrap();
    assert_eq!((report.puts, report.deletes, report.ranges), (2, 0, 1));
    assert!(report.bytes < long.len() as u64 + 100, "{report:?}");
    assert_eq!(receive(&receiver, &stream, "copy", STRICT).unwrap(), report);
    let copy = receiver.key_space("copy").unwrap();
    assert!(live(&receiver, copy) == live(&sender, space));
    receiver.create_snapshot(copy, "three").unwrap();
    assert!(
        receiver.open_snapshot(copy, "two").unwrap().get(copy, b"long").unwrap().unwrap()
            == long[..]
    );
    verify(&receiver);
}

#[test]
fn a_power_cut_leaves_a_received_snapshot_whole_or_not_at_all() {
    let (_home, sender, space, [full, changes]) = sender();
    let expected = ["one", "two"]
        .map(|name| pairs(&*sender.open_snapshot(space, name).unwrap(), space, Direction::Forward));
    for (domain, step) in [(Domain::Memory, 1), (Domain::PageCache, 3)] {
        let mut cuts = 0;
        for events in (0..).step_by(step) {
            let home = Home::medium(domain);
            let receiver = home.open();
            let Home::Medium(medium) = &home else { unreachable!() };
            medium.machine().cut_power_after(events);
            let is_first = receive(&receiver, &full, "copy", STRICT).is_ok();
            let is_second = is_first && receive(&receiver, &changes, "copy", STRICT).is_ok();
            drop(receiver);
            let was_cut = !medium.machine().has_power();
            medium.machine().cut_power();
            medium.restore_power();
            let receiver = home.open();
            let has = |betree: &Betree| {
                let copy = betree.key_spaces().unwrap().into_iter().next()?.1;
                Some((live(betree, copy), betree.snapshots_of(copy).unwrap().len()))
            };
            let states = [None, Some((expected[0].clone(), 1)), Some((expected[1].clone(), 2))];
            let allowed = match (is_first, is_second) {
                (_, true) => &states[2..],
                (true, false) => &states[1..],
                (false, false) => &states[..2],
            };
            let found = has(&receiver);
            assert!(allowed.contains(&found), "{events} events: {is_first} {is_second}");
            verify(&receiver);
            // The missing stream is received in the end, also where a part is there.
            for stream in [&full, &changes] {
                match receive(&receiver, stream, "copy", STRICT) {
                    Ok(_) => {}
                    Err(error) => assert!(
                        matches!(stream_error(&error), Some(StreamError::Repeated { .. })),
                        "{events} events: {error}"
                    ),
                }
            }
            assert_eq!(has(&receiver), states[2]);
            verify(&receiver);
            if !was_cut {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 15, "{cuts} cuts");
    }
}
