//! Snapshots, clones and rollbacks whose memtables wait for their flush: random histories against maps in memory, with
//! a lock that keeps the flush back.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use halite_contract::{Direction, Durability, Engine, EngineOptions, KeyRange, KeySpaceId, Op};
use halite_contract::{RangeCopy, Snapshot, Snapshots};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{Betree, BetreeOptions};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Memtables that commands have ended, from which on the flush goes on: commits would wait for it soon.
const PENDING_MAX: usize = 12;

#[derive(Debug, Clone)]
enum Step {
    Put(Index, u8, u8, bool),
    DeleteRange(Index, u8, u8),
    Snapshot(Index),
    Clone(Index, Index),
    Rollback(Index, Index),
    Copy(Index, Index, u8),
    DeleteSnapshot(Index, Index),
    Drop(Index),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let two = any::<[Index; 2]>;
    prop_oneof![
        8 => (any::<Index>(), any::<u8>(), 1_u8..20, any::<bool>())
            .prop_map(|(of, first, count, is_large)| Step::Put(of, first, count, is_large)),
        2 => (any::<Index>(), any::<u8>(), any::<u8>())
            .prop_map(|(of, a, b)| Step::DeleteRange(of, a, b)),
        4 => any::<Index>().prop_map(Step::Snapshot),
        6 => two().prop_map(|[a, b]| Step::Clone(a, b)),
        2 => two().prop_map(|[a, b]| Step::Rollback(a, b)),
        1 => (two(), any::<u8>()).prop_map(|([a, b], c)| Step::Copy(a, b, c)),
        2 => two().prop_map(|[a, b]| Step::DeleteSnapshot(a, b)),
        1 => any::<Index>().prop_map(Step::Drop),
        1 => Just(Step::Flush),
    ]
}

/// The contents that a dataset is to have.
#[derive(Default, Clone)]
struct Model {
    live: Pairs,
    /// By name, the oldest first.
    snapshots: Vec<(String, Pairs)>,
    origin: Option<(KeySpaceId, String)>,
}

#[derive(Default)]
struct Models {
    all: BTreeMap<KeySpaceId, Model>,
    next: u32,
}

fn open(folder: &Path) -> Betree {
    let own = BetreeOptions {
        memtable_bytes: Some(1 << 20),
        buffer_bytes: Some(2 << 10),
        leaf_bytes: Some(2 << 10),
        part_bytes: Some(256),
        fanout: Some(3),
        large_value_bytes: Some(1 << 10),
        ..BetreeOptions::default()
    };
    let mut options = EngineOptions { own: own.into(), ..EngineOptions::new(folder.join("pool")) };
    options.pool_options.size_max = 32 << 20;
    Betree::open(&options).unwrap()
}

fn pairs(snapshot: &dyn Snapshot, space: KeySpaceId, direction: Direction) -> Pairs {
    let scan = snapshot.scan(space, KeyRange::all(), direction).unwrap();
    scan.map(|pair| pair.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

impl Models {
    fn name(&mut self) -> String {
        self.next += 1;
        format!("name {}", self.next)
    }

    fn pick(&self, index: &Index) -> KeySpaceId {
        *self.all.keys().nth(index.index(self.all.len())).unwrap()
    }

    fn pick_snapshot(&self, of: &Index, index: &Index) -> Option<(KeySpaceId, usize, String)> {
        let space = self.pick(of);
        let snapshots = &self.all[&space].snapshots;
        let number = (!snapshots.is_empty()).then(|| index.index(snapshots.len()))?;
        Some((space, number, snapshots[number].0.clone()))
    }

    fn is_in_use(&self, space: KeySpaceId, name: &str) -> bool {
        let is_origin = |model: &Model| {
            model.origin.as_ref().is_some_and(|(of, snapshot)| (*of, &**snapshot) == (space, name))
        };
        self.all.values().any(is_origin)
    }

    fn live(&mut self, space: KeySpaceId) -> &mut Pairs {
        &mut self.all.get_mut(&space).unwrap().live
    }

    fn run(&mut self, betree: &Betree, step: &Step) {
        match *step {
            Step::Put(ref of, first, count, is_large) => {
                let space = self.pick(of);
                for number in 0..count {
                    self.next += 1;
                    let (key, len) =
                        (vec![first.wrapping_add(number)], if is_large { 1500 } else { 40 });
                    let value: Vec<u8> =
                        self.next.to_le_bytes().iter().copied().cycle().take(len).collect();
                    let put = Op::Put { space, key: &key, value: &value };
                    betree.write(&[put], Durability::Deferred).unwrap();
                    self.live(space).insert(key, value);
                }
            }
            Step::DeleteRange(ref of, a, b) => {
                let (space, start, end) = (self.pick(of), [a.min(b)], [a.max(b)]);
                let delete = Op::DeleteRange { space, start: &start, end: Some(&end) };
                betree.write(&[delete], Durability::Deferred).unwrap();
                self.live(space).retain(|key, _| key[..] < start[..] || key[..] >= end[..]);
            }
            Step::Snapshot(ref of) => {
                let (space, name) = (self.pick(of), self.name());
                betree.create_snapshot(space, &name).unwrap();
                let model = self.all.get_mut(&space).unwrap();
                model.snapshots.push((name, model.live.clone()));
            }
            Step::Clone(ref of, ref index) => {
                let Some((space, number, name)) = self.pick_snapshot(of, index) else { return };
                let clone = betree.clone_snapshot(space, &name, &self.name()).unwrap();
                let live = self.all[&space].snapshots[number].1.clone();
                let origin = Some((space, name));
                self.all.insert(clone, Model { live, origin, ..Model::default() });
            }
            Step::Rollback(ref of, ref index) => {
                let Some((space, number, name)) = self.pick_snapshot(of, index) else { return };
                let newer = &self.all[&space].snapshots[number + 1..];
                if newer.iter().any(|(name, _)| self.is_in_use(space, name)) {
                    return;
                }
                betree.rollback(space, &name, true).unwrap();
                let model = self.all.get_mut(&space).unwrap();
                model.snapshots.truncate(number + 1);
                model.live = model.snapshots[number].1.clone();
            }
            Step::Copy(ref of, ref to, start) => {
                let (source, destination) = (self.pick(of), self.pick(to));
                let range = KeyRange::new([start], None);
                let prefix = &[][..];
                let copy = RangeCopy {
                    source,
                    range: &range,
                    old_prefix: prefix,
                    destination,
                    new_prefix: prefix,
                };
                betree.copy_range(&copy).unwrap();
                let copied = self.all[&source].live.clone().split_off(&vec![start]);
                let live = self.live(destination);
                live.retain(|key, _| key[..] < [start][..]);
                live.extend(copied);
            }
            Step::DeleteSnapshot(ref of, ref index) => {
                let Some((space, number, name)) = self.pick_snapshot(of, index) else { return };
                let deleted = betree.delete_snapshot(space, &name);
                assert_eq!(deleted.is_err(), self.is_in_use(space, &name));
                if deleted.is_ok() {
                    self.all.get_mut(&space).unwrap().snapshots.remove(number);
                }
            }
            Step::Drop(ref of) => {
                let space = self.pick(of);
                let in_use = |(name, _): &(String, _)| self.is_in_use(space, name);
                if self.all.len() > 1 && !self.all[&space].snapshots.iter().any(in_use) {
                    betree.destroy_key_space(space).unwrap();
                    self.all.remove(&space);
                }
            }
            Step::Flush => unreachable!("it needs the lock"),
        }
    }

    fn check(&self, betree: &Betree) {
        let now = betree.snapshot().unwrap();
        for (&space, model) in &self.all {
            let direction =
                if space.0.is_multiple_of(2) { Direction::Forward } else { Direction::Reverse };
            assert!(pairs(&*now, space, direction) == model.live, "live of {space:?}");
            for number in (0..=255).step_by(5) {
                let found = betree.get(space, &[number]).unwrap();
                assert_eq!(found.as_deref(), model.live.get(&[number][..]).map(Vec::as_slice));
            }
            for (name, expected) in &model.snapshots {
                let snapshot = betree.open_snapshot(space, name).unwrap();
                assert!(pairs(&*snapshot, space, direction) == *expected, "{name} of {space:?}");
                for number in (0..=255).step_by(17) {
                    let found = snapshot.get(space, &[number]).unwrap();
                    assert_eq!(found.as_deref(), expected.get(&[number][..]).map(Vec::as_slice));
                }
            }
        }
    }
}

fn verify(betree: &Betree) {
    let report = betree.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}

/// Copies the files below a folder.
fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&path, &to),
            false => drop(fs::copy(&path, &to).unwrap()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn what_waits_for_its_flush_reads_as_it_will_behind_it_and_behind_a_crash(
        steps in prop::collection::vec(step(), 1..50),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let betree = open(folder.path());
        let store = &*betree.store;
        let mut models = Models::default();
        models.all.insert(betree.key_space("first").unwrap(), Model::default());
        let mut held = Some(store.checkpoints.lock());
        let mut before = Vec::new();
        for step in &steps {
            if matches!(step, Step::Flush) || store.view().frozen.len() >= PENDING_MAX {
                held.take();
                store.freeze().unwrap();
                while store.flush_oldest().unwrap() {}
                models.check(&betree);
                held = Some(store.checkpoints.lock());
            }
            if !matches!(step, Step::Flush) {
                models.run(&betree, step);
            }
            if !matches!(step, Step::Put(..)) {
                models.check(&betree);
            }
            if before.len() < 3 && matches!(step, Step::Clone(..)) {
                before.push((betree.snapshot().unwrap(), models.all.clone()));
            }
        }
        models.check(&betree);
        // The files as they are now are what a crash leaves: every commit is in the log.
        betree.sync().unwrap();
        let crashed = tempfile::tempdir().unwrap();
        copy_all(folder.path(), crashed.path());
        drop(held);
        store.freeze().unwrap();
        while store.flush_oldest().unwrap() {}
        models.check(&betree);
        for (snapshot, models) in before {
            for (space, model) in models {
                assert!(pairs(&*snapshot, space, Direction::Forward) == model.live);
            }
        }
        verify(&betree);
        drop(betree);
        folder.close().unwrap();
        let again = open(crashed.path());
        models.check(&again);
        verify(&again);
    }
}
