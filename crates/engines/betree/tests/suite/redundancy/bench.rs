//! A pool whose devices can be taken away, damaged and brought back, beside a model of its contents.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use halite_betree::{Betree, BetreeOptions, LeafState, Position, ScrubReport};
use halite_contract::{
    Direction, Durability, Engine, EngineOptions, Error, KeyRange, KeySpaceId, Op, Result,
};
use halite_disk::{Access, Disk};
use tempfile::TempDir;

/// Bytes before the data of a device.
pub(super) const LABELS: u64 = 256 << 10;

pub(super) const BLOCK: usize = 4096;

/// A pool, closed or open.
pub(super) struct Bench {
    pub(super) folder: TempDir,
    pub(super) disk: Disk,
    pub(super) topology: String,
    pub(super) model: BTreeMap<Vec<u8>, Vec<u8>>,
    random: fastrand::Rng,
}

/// The state of a pool that is closed, or whose process is killed.
pub(super) struct Image {
    files: Vec<(Vec<u8>, String)>,
    pool: Vec<u8>,
}

/// The name of a device.
pub(super) fn name(leaf: usize) -> String {
    format!("leaf-{leaf}")
}

/// A vdev of so many files.
pub(super) fn vdev(arrangement: &str, leaves: usize) -> String {
    let leaves: Vec<_> = (0..leaves).map(|leaf| format!("file:{}@256M", name(leaf))).collect();
    format!("{arrangement} {}", leaves.join(" "))
}

pub(super) fn position(leaf: usize) -> Position {
    Position { class: 0, vdev: 0, leaf: leaf as u16 }
}

/// Goes on to the end.
pub(super) fn on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

impl Bench {
    pub(super) fn new(topology: &str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            disk: Disk::in_memory(),
            topology: topology.to_owned(),
            model: BTreeMap::new(),
            random: fastrand::Rng::with_seed(7),
        }
    }

    pub(super) fn options(&self) -> EngineOptions {
        let own = BetreeOptions {
            topology: Some(self.topology.parse().unwrap()),
            memtable_bytes: Some(32 << 10),
            buffer_bytes: Some(16 << 10),
            leaf_bytes: Some(16 << 10),
            part_bytes: Some(4 << 10),
            fanout: Some(4),
            runs_max: Some(3),
            large_value_bytes: Some(8 << 10),
            checkpoint_bytes: Some(128 << 10),
            cache_bytes: 1 << 20,
            ..BetreeOptions::default()
        };
        let mut options = EngineOptions::new(self.folder.path().join("pool"));
        (options.disk, options.own) = (Some(self.disk.clone()), own.into());
        options
    }

    pub(super) fn try_open(&self) -> Result<Betree> {
        Betree::open(&self.options())
    }

    pub(super) fn open(&self) -> Betree {
        self.try_open().unwrap()
    }

    /// Puts some keys, old and new ones, with values of any length, and removes some.
    pub(super) fn write(&mut self, engine: &Betree, count: usize) {
        let space = engine.key_space("data").unwrap();
        for _ in 0..count {
            let key = format!("key {:05}", self.random.usize(0..2000)).into_bytes();
            if self.random.u8(..) < 30 {
                engine.write(&[Op::Delete { space, key: &key }], Durability::Deferred).unwrap();
                self.model.remove(&key);
                continue;
            }
            let len = if self.random.u8(..) < 8 {
                self.random.usize(8 << 10..40_000)
            } else {
                self.random.usize(0..700)
            };
            let mut value = key.clone();
            value.extend(std::iter::repeat_with(|| self.random.u8(..)).take(len));
            let put = Op::Put { space, key: &key, value: &value };
            engine.write(&[put], Durability::Deferred).unwrap();
            self.model.insert(key, value);
        }
        engine.sync().unwrap();
    }

    /// All keys have the values of the model, by any way to read them.
    pub(super) fn check(&self, engine: &Betree) {
        let space = engine.key_space("data").unwrap();
        let scan = engine.scan(space, KeyRange::all(), Direction::Forward).unwrap();
        let found: BTreeMap<Vec<u8>, Vec<u8>> = scan
            .map(|pair| pair.unwrap())
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        assert!(found == self.model, "{} keys, not {}", found.len(), self.model.len());
        for (key, value) in self.model.iter().step_by(7) {
            assert_eq!(engine.get(space, key).unwrap().as_deref(), Some(&value[..]));
        }
        assert!(engine.get(space, b"no key").unwrap().is_none());
    }

    /// The keys that cannot be read; each of them with an error that names damage. All others are right.
    pub(super) fn unreadable(&self, engine: &Betree) -> Vec<Vec<u8>> {
        let space = engine.key_space("data").unwrap();
        let mut lost = Vec::new();
        for (key, value) in &self.model {
            match engine.get(space, key) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                Err(Error::Damaged { .. }) => lost.push(key.clone()),
                Err(error) => panic!("{error}"),
            }
        }
        lost
    }

    /// The bytes of a file.
    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        let file = self.disk.open(name).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    }

    /// Takes a file away.
    pub(super) fn take(&self, name: &str) -> Vec<u8> {
        let bytes = self.bytes(name);
        self.disk.remove(name).unwrap();
        bytes
    }

    /// Puts a file in its place, or in another's.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        if self.disk.list().unwrap().iter().any(|(other, _)| other == name) {
            self.disk.remove(name).unwrap();
        }
        let file = self.disk.create_positioned(name, Access::Direct).unwrap();
        file.preallocate(bytes.len() as u64).unwrap();
        file.write_at(0, bytes).unwrap();
        file.sync().unwrap();
        self.disk.sync().unwrap();
    }

    /// All files, and the pool.
    pub(super) fn image(&self) -> Image {
        let names = self.disk.list().unwrap().into_iter();
        let files = names.map(|(name, _)| (self.bytes(&name), name)).collect();
        Image { files, pool: std::fs::read(self.folder.path().join("pool")).unwrap() }
    }

    /// Puts everything back as it was.
    pub(super) fn restore(&self, image: &Image) {
        for (name, _) in self.disk.list().unwrap() {
            self.disk.remove(&name).unwrap();
        }
        image.files.iter().for_each(|(bytes, name)| self.put(name, bytes));
        std::fs::write(self.folder.path().join("pool"), &image.pool).unwrap();
    }

    /// Changes a block of data.
    pub(super) fn damage(&self, name: &str, block: u64) {
        let file = self.disk.open_positioned(name, Access::Direct).unwrap();
        let at = LABELS + block * BLOCK as u64;
        let mut bytes = vec![0; BLOCK];
        file.read_at(at, &mut bytes).unwrap();
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(71));
        file.write_at(at, &bytes).unwrap();
        file.sync().unwrap();
    }

    /// Blocks of data that a file has.
    pub(super) fn blocks(&self, name: &str) -> u64 {
        (self.disk.open(name).unwrap().len() - LABELS) / BLOCK as u64
    }
}

/// The states of the leaves of the first vdev, and which are stale.
pub(super) fn states(engine: &Betree) -> Vec<(LeafState, bool)> {
    let status = engine.pool_status();
    let leaves = &status.classes[0].vdevs[0].leaves;
    leaves.iter().map(|leaf| (leaf.status.state, leaf.status.is_stale)).collect()
}

pub(super) fn is_whole(engine: &Betree) -> bool {
    let status = engine.pool_status();
    status.classes.iter().flat_map(|class| &class.vdevs).all(|vdev| !vdev.is_degraded)
}

/// Resilvers, and expects success.
pub(super) fn resilver(engine: &Betree) -> ScrubReport {
    let report = engine.resilver(&mut on).unwrap();
    assert!(report.is_complete && report.lost == 0 && report.errors.is_empty(), "{report:?}");
    assert_eq!(report.damaged, report.repaired);
    report
}

/// All sets of leaves of at most so many.
pub(super) fn subsets(leaves: usize, at_most: usize) -> Vec<Vec<usize>> {
    let of = |bits: u32| (0..leaves).filter(|leaf| bits & 1 << leaf != 0).collect::<Vec<_>>();
    let all = (1..1_u32 << leaves).map(of);
    all.filter(|set| set.len() <= at_most).collect()
}

/// The arrangements, their leaves, and how many of them may be lost.
pub(super) const ARRANGEMENTS: [(&str, usize, usize); 5] =
    [("mirror", 2, 1), ("mirror", 3, 2), ("parity1", 3, 1), ("parity2", 4, 2), ("parity3", 5, 3)];

pub(super) fn space(engine: &Betree) -> KeySpaceId {
    engine.key_space("data").unwrap()
}
