//! Snapshots, clones and rollback: random histories against maps in memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use halite_betree::{Betree, BetreeOptions, Buffers, Error, Migration, Preference};
use halite_contract::{Direction, Durability, Engine, KeyRange, KeySpaceId, Op, Snapshots};
use halite_pmem::Domain;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::home::{Home, Pairs, is, pairs, small, verify};

/// The contents that a dataset is to have.
#[derive(Default, Clone)]
struct Model {
    name: String,
    live: Pairs,
    /// By name, the oldest first.
    snapshots: Vec<(String, Pairs)>,
    origin: Option<(KeySpaceId, String)>,
    preference: Preference,
}

#[derive(Debug, Clone)]
enum Step {
    /// Puts so many keys from one on, with values of a length.
    Put(Index, u8, u8, u16),
    Delete(Index, u8),
    DeleteRange(Index, u8, u8),
    Snapshot(Index),
    DeleteSnapshot(Index, Index),
    Rollback(Index, Index, bool),
    Clone(Index, Index),
    Rename(Index),
    Drop(Index, bool),
    Sync,
    /// Moves the keys from one on, below another, to a class.
    Migrate(Index, u8, u8, u8),
    /// A round of automatic migration.
    MigrateNow,
    Prefer(Index, u8),
    /// Closes the store before that, or kills it.
    Reopen(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![6 => 1_u16..90, 1 => 1000..3000_u16];
    prop_oneof![
        12 => (any::<Index>(), any::<u8>(), 1_u8..40, len).prop_map(|(a, b, c, d)| Step::Put(a, b, c, d)),
        2 => (any::<Index>(), any::<u8>()).prop_map(|(a, b)| Step::Delete(a, b)),
        2 => (any::<Index>(), any::<u8>(), any::<u8>()).prop_map(|(a, b, c)| Step::DeleteRange(a, b, c)),
        4 => any::<Index>().prop_map(Step::Snapshot),
        3 => any::<[Index; 2]>().prop_map(|[a, b]| Step::DeleteSnapshot(a, b)),
        2 => (any::<[Index; 2]>(), any::<bool>()).prop_map(|([a, b], c)| Step::Rollback(a, b, c)),
        2 => any::<[Index; 2]>().prop_map(|[a, b]| Step::Clone(a, b)),
        1 => any::<Index>().prop_map(Step::Rename),
        1 => (any::<Index>(), any::<bool>()).prop_map(|(a, b)| Step::Drop(a, b)),
        1 => Just(Step::Sync),
        4 => (any::<Index>(), any::<u8>(), any::<u8>(), 0_u8..2).prop_map(|(a, b, c, d)| Step::Migrate(a, b, c, d)),
        4 => Just(Step::MigrateNow),
        1 => (any::<Index>(), 0_u8..5).prop_map(|(a, b)| Step::Prefer(a, b)),
        4 => any::<bool>().prop_map(Step::Reopen),
    ]
}

/// Small sizes, and two classes, of which the fast one is not large. Nothing moves by itself.
fn own(home: &Home) -> BetreeOptions {
    let migration = Some(Migration {
        grace: Duration::from_secs(3600),
        // A class of 24 MiB is above its threshold soon.
        threshold_percent: 1,
        budget_bytes_per_round: 64 << 10,
        ..Migration::default()
    });
    // Persistent memory is class 0, and a file class 1.
    let is_in_pool = matches!(home, Home::Medium(medium) if medium.domain() == Domain::Memory);
    let files = || Some("file:fast@24M ; file:slow".parse().unwrap());
    let topology = if is_in_pool { None } else { files() };
    // Trees that share an extent of a buffer have one end of it.
    let buffers = Buffers::InPlace;
    BetreeOptions { migration, topology, buffers, ..small() }
}

fn key(number: u8) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

struct Run {
    models: BTreeMap<KeySpaceId, Model>,
    /// Numbers for names and values.
    next: u32,
}

impl Run {
    fn new(betree: &Betree) -> Self {
        let mut run = Self { models: BTreeMap::new(), next: 0 };
        run.make(betree);
        run
    }

    fn name(&mut self) -> String {
        self.next += 1;
        format!("name {}", self.next)
    }

    fn make(&mut self, betree: &Betree) {
        let name = self.name();
        let space = betree.key_space(&name).unwrap();
        self.models.insert(space, Model { name, ..Model::default() });
    }

    fn pick(&self, index: &Index) -> KeySpaceId {
        *self.models.keys().nth(index.index(self.models.len())).unwrap()
    }

    /// A dataset and the number of one of its snapshots.
    fn pick_snapshot(&self, of: &Index, index: &Index) -> Option<(KeySpaceId, usize, String)> {
        let all = self.models.iter().flat_map(|(space, model)| {
            model
                .snapshots
                .iter()
                .enumerate()
                .map(|(number, (name, _))| (*space, number, name.clone()))
        });
        let all: Vec<_> = all.collect();
        let at = of.index(1 << 20) + index.index(1 << 20);
        (!all.is_empty()).then(|| all[at % all.len()].clone())
    }

    fn is_in_use(&self, space: KeySpaceId, name: &str) -> bool {
        self.models
            .values()
            .any(|model| model.origin.as_ref().is_some_and(|o| (o.0, &*o.1) == (space, name)))
    }

    fn run(&mut self, betree: &Betree, step: &Step) {
        match step {
            Step::Put(of, first, count, len) => {
                let space = self.pick(of);
                for number in 0..*count {
                    self.next += 1;
                    let (key, tag) = (key(first.wrapping_add(number)), self.next.to_le_bytes());
                    let value: Vec<u8> =
                        tag.iter().copied().cycle().take(usize::from(*len)).collect();
                    betree
                        .write(&[Op::Put { space, key: &key, value: &value }], Durability::Deferred)
                        .unwrap();
                    self.models.get_mut(&space).unwrap().live.insert(key, value);
                }
            }
            Step::Delete(of, number) => {
                let (space, key) = (self.pick(of), key(*number));
                betree.write(&[Op::Delete { space, key: &key }], Durability::Deferred).unwrap();
                self.models.get_mut(&space).unwrap().live.remove(&key);
            }
            Step::DeleteRange(of, a, b) => {
                let (space, start, end) = (self.pick(of), key(*a.min(b)), key(*a.max(b)));
                let op = Op::DeleteRange { space, start: &start, end: Some(&end) };
                betree.write(&[op], Durability::Deferred).unwrap();
                self.models
                    .get_mut(&space)
                    .unwrap()
                    .live
                    .retain(|key, _| *key < start || *key >= end);
            }
            Step::Snapshot(of) => {
                let (space, name) = (self.pick(of), self.name());
                betree.create_snapshot(space, &name).unwrap();
                let error = betree.create_snapshot(space, &name).unwrap_err();
                assert!(is(&error, |error| matches!(error, Error::SnapshotExists { .. })));
                let model = self.models.get_mut(&space).unwrap();
                model.snapshots.push((name, model.live.clone()));
            }
            Step::DeleteSnapshot(of, index) => {
                let Some((space, number, name)) = self.pick_snapshot(of, index) else { return };
                let deleted = betree.delete_snapshot(space, &name);
                if self.is_in_use(space, &name) {
                    assert!(is(&deleted.unwrap_err(), |error| matches!(
                        error,
                        Error::SnapshotInUse { .. }
                    )));
                    return;
                }
                deleted.unwrap();
                self.models.get_mut(&space).unwrap().snapshots.remove(number);
                assert!(is(&betree.open_snapshot(space, &name).err().unwrap(), |error| {
                    matches!(error, Error::NoSuchSnapshot { .. })
                }));
            }
            Step::Rollback(of, index, force) => {
                let Some((space, number, name)) = self.pick_snapshot(of, index) else { return };
                let newer = &self.models[&space].snapshots[number + 1..];
                let has_newer = !newer.is_empty();
                let in_use = newer.iter().any(|(name, _)| self.is_in_use(space, name));
                let rolled = betree.rollback(space, &name, *force);
                if has_newer && (!force || in_use) {
                    assert!(is(&rolled.unwrap_err(), |error| match error {
                        Error::SnapshotNotNewest { .. } => !force,
                        Error::SnapshotInUse { .. } => *force,
                        _ => false,
                    }));
                    return;
                }
                rolled.unwrap();
                let model = self.models.get_mut(&space).unwrap();
                model.snapshots.truncate(number + 1);
                model.live = model.snapshots[number].1.clone();
            }
            Step::Clone(of, index) => {
                let Some((space, number, name)) = self.pick_snapshot(of, index) else { return };
                let new = self.name();
                let clone = betree.clone_snapshot(space, &name, &new).unwrap();
                let live = self.models[&space].snapshots[number].1.clone();
                let origin = Some((space, name));
                self.models.insert(clone, Model { name: new, live, origin, ..Model::default() });
            }
            Step::Rename(of) => {
                let (space, new) = (self.pick(of), self.name());
                let old =
                    std::mem::replace(&mut self.models.get_mut(&space).unwrap().name, new.clone());
                betree.rename_key_space(&old, &new).unwrap();
                assert!(matches!(
                    betree.rename_key_space(&old, &new),
                    Err(halite_contract::Error::NoSuchKeySpace)
                ));
            }
            Step::Drop(of, with_snapshots) => {
                let space = self.pick(of);
                let snapshots = &self.models[&space].snapshots;
                let in_use = snapshots.iter().any(|(name, _)| self.is_in_use(space, name));
                let (dropped, refused) = match with_snapshots {
                    true => (betree.destroy_key_space(space), in_use),
                    false => (betree.drop_key_space(space), !snapshots.is_empty()),
                };
                assert_eq!(dropped.is_err(), refused, "{dropped:?}");
                if !refused {
                    self.models.remove(&space);
                    if self.models.is_empty() {
                        self.make(betree);
                    }
                }
            }
            Step::Sync => betree.sync().unwrap(),
            Step::Migrate(of, a, b, class) => {
                let (space, start, end) = (self.pick(of), key(*a.min(b)), key(*a.max(b)));
                let all = a == b;
                let range = if all { KeyRange::all() } else { KeyRange::new(start, Some(end)) };
                let report = betree.migrate(space, &range, *class, &mut on).unwrap();
                assert!(report.is_complete && report.skipped_bytes == 0, "{report:?}");
                let again = betree.migrate(space, &range, *class, &mut on).unwrap();
                // A run that is written anew for its values does not count, but goes to the class, too.
                assert_eq!(again.moved_bytes, 0);
            }
            Step::MigrateNow => drop(betree.migrate_now().unwrap()),
            Step::Prefer(of, number) => {
                let preferences = [
                    Preference::None,
                    Preference::Fastest,
                    Preference::Fast,
                    Preference::Slow,
                    Preference::Slowest,
                ];
                let (space, preference) = (self.pick(of), preferences[usize::from(*number)]);
                betree.set_preference(space, preference).unwrap();
                self.models.get_mut(&space).unwrap().preference = preference;
            }
            Step::Reopen(_) => unreachable!("it takes the store"),
        }
    }

    fn check(&self, betree: &Betree) {
        let names = betree.key_spaces().unwrap();
        assert_eq!(names.len(), self.models.len());
        for (&space, model) in &self.models {
            assert_eq!(betree.key_space(&model.name).unwrap(), space);
            assert_eq!(betree.preference(space).unwrap(), model.preference);
            assert!(
                pairs(&*betree.snapshot().unwrap(), space, Direction::Forward).eq(&model.live),
                "live"
            );
            for number in (0..=255).step_by(17) {
                let found = betree.get(space, &key(number)).unwrap();
                assert_eq!(found.as_deref(), model.live.get(&key(number)).map(Vec::as_slice));
            }
            let infos = betree.snapshots_of(space).unwrap();
            let expected: Vec<_> = model.snapshots.iter().map(|(name, _)| name).collect();
            assert_eq!(infos.iter().map(|info| &info.name).collect::<Vec<_>>(), expected);
            for (info, (name, expected)) in infos.iter().zip(&model.snapshots) {
                assert_eq!(!info.clones.is_empty(), self.is_in_use(space, name));
                let snapshot = betree.open_snapshot(space, name).unwrap();
                let direction =
                    if info.number % 2 == 0 { Direction::Forward } else { Direction::Reverse };
                assert!(pairs(&*snapshot, space, direction).eq(expected), "{name}");
                assert_eq!(snapshot.len(space).unwrap(), expected.len() as u64);
                let number = info.number as u8;
                let found = snapshot.get(space, &key(number)).unwrap();
                assert_eq!(found.as_deref(), expected.get(&key(number)).map(Vec::as_slice));
                assert!(snapshot.get(KeySpaceId(u32::MAX), b"").is_err());
            }
        }
    }
}

/// Goes on to the end.
fn on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn histories_agree_with_the_model(home: &Home, steps: &[Step]) {
    let mut betree = home.open_with(own(home));
    let mut run = Run::new(&betree);
    for step in steps {
        if let Step::Reopen(kills) = step {
            betree = home.reopen_with(betree, *kills, own(home));
        } else {
            run.run(&betree, step);
            if matches!(step, Step::Put(..) | Step::Delete(..)) {
                continue;
            }
        }
        run.check(&betree);
        verify(&betree);
    }
    run.check(&betree);
    verify(&betree);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_and_clones_are_what_they_were_made_of(
        steps in prop::collection::vec(step(), 1..60),
        in_file in any::<bool>(),
    ) {
        let domain = if in_file { Domain::PageCache } else { Domain::Memory };
        histories_agree_with_the_model(&Home::medium(domain), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 30, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_and_clones_are_what_they_were_made_of_beside_a_thread(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        histories_agree_with_the_model(&Home::Folder(tempfile::tempdir().unwrap()), &steps);
    }
}

/// Writes pairs that fill some memtables, and leads to checkpoints.
fn churn(betree: &Betree, space: KeySpaceId, round: u8) {
    for number in 0..=255 {
        let value = vec![round; if number % 40 == 0 { 2000 } else { 100 }];
        betree
            .write(&[Op::Put { space, key: &key(number), value: &value }], Durability::Deferred)
            .unwrap();
    }
}

#[test]
fn a_handle_reads_on_when_its_snapshot_is_deleted() {
    for home in [Home::medium(Domain::Memory), Home::Folder(tempfile::tempdir().unwrap())] {
        let betree = home.open_with(own(&home));
        let space = betree.key_space("space").unwrap();
        churn(&betree, space, 1);
        betree.create_snapshot(space, "snapshot").unwrap();
        let snapshot = betree.open_snapshot(space, "snapshot").unwrap();
        let expected = pairs(&*snapshot, space, Direction::Forward);
        assert_eq!(expected.len(), 256);
        let mut scan = snapshot.scan(space, KeyRange::all(), Direction::Forward).unwrap();
        let first = scan.next().unwrap().unwrap();
        betree.delete_snapshot(space, "snapshot").unwrap();
        (2..12).for_each(|round| churn(&betree, space, round));
        let rest =
            scan.map(|pair| pair.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec()));
        let all: Pairs = rest.chain([(first.0.to_vec(), first.1.to_vec())]).collect();
        assert!(all == expected && pairs(&*snapshot, space, Direction::Reverse) == expected);
        drop(snapshot);
        verify(&betree);
    }
}

#[test]
fn a_rollback_and_a_clone_are_seen_by_readers_at_once() {
    let home = Home::Folder(tempfile::tempdir().unwrap());
    let betree = home.open_with(own(&home));
    let space = betree.key_space("space").unwrap();
    churn(&betree, space, 1);
    betree.create_snapshot(space, "snapshot").unwrap();
    let expected =
        pairs(&*betree.open_snapshot(space, "snapshot").unwrap(), space, Direction::Forward);
    for round in 2..40 {
        let before = betree.snapshot().unwrap();
        churn(&betree, space, round);
        betree.rollback(space, "snapshot", false).unwrap();
        assert_eq!(betree.get(space, &key(3)).unwrap().as_deref(), Some(&[1; 100][..]));
        let clone = betree.clone_snapshot(space, "snapshot", &format!("clone {round}")).unwrap();
        betree
            .write(&[Op::Put { space: clone, key: b"own", value: b"" }], Durability::Deferred)
            .unwrap();
        assert!(pairs(&*betree.snapshot().unwrap(), space, Direction::Reverse) == expected);
        assert_eq!(betree.len(clone).unwrap(), 257);
        assert!(pairs(&*before, space, Direction::Forward) == expected);
    }
    verify(&betree);
}
