//! Leaves of a mirror that a power cut has no part in: damaged ones, and two that were used without each other.

use std::collections::BTreeMap;
use std::path::PathBuf;

use halite_betree::{Betree, BetreeOptions};
use halite_contract::{Durability, Engine, EngineOptions, Op};
use halite_disk::{Access, Disk};
use tempfile::TempDir;

const LEAVES: [&str; 2] = ["leaf-0", "leaf-1"];

/// Bytes before the data of a leaf, and those of a block.
const LABELS: usize = 256 << 10;
const BLOCK: usize = 4096;

/// A value that lies in extents of its own.
const LARGE: usize = 20_000;

/// A mirror in files, and the pool that knows it.
struct Mirror {
    folder: TempDir,
    disk: Disk,
}

/// All files, and the pool.
type Image = (BTreeMap<String, Vec<u8>>, Vec<u8>);

impl Mirror {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, disk: Disk::in_memory() }
    }

    fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    fn open(&self) -> Result<Betree, String> {
        let topology = format!("mirror file:{} file:{}", LEAVES[0], LEAVES[1]);
        let own = BetreeOptions {
            topology: Some(topology.parse().expect("a topology")),
            large_value_bytes: Some(LARGE as u64 / 2),
            ..BetreeOptions::for_lab()
        };
        let mut options = EngineOptions { own: own.into(), ..EngineOptions::new(self.pool()) };
        options.disk = Some(self.disk.clone());
        Betree::open(&options).map_err(|error| error.to_string())
    }

    /// Opens it, sets the key, and closes it.
    fn put(&self, value: &[u8]) {
        let engine = self.open().expect("it opens");
        let space = engine.key_space("data").expect("a dataset");
        let put = Op::Put { space, key: b"key", value };
        engine.write(&[put], Durability::Immediate).expect("it is written");
    }

    /// Opens it, and looks the key up.
    fn get(&self) -> Result<Option<Vec<u8>>, String> {
        let engine = self.open()?;
        let space = engine.key_space("data").map_err(|error| error.to_string())?;
        let found = engine.get(space, b"key").map_err(|error| error.to_string())?;
        Ok(found.map(|value| value.to_vec()))
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let file = self.disk.open(name).expect("a file");
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes).expect("its bytes");
        bytes
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let file = self.disk.create_positioned(name, Access::Direct).expect("a new file");
        file.preallocate(bytes.len() as u64).expect("room");
        file.write_at(0, bytes).expect("it is written");
        file.sync().expect("it is synced");
    }

    fn image(&self) -> Image {
        let names = self.disk.list().expect("the files");
        let files = names.into_iter().map(|(name, _)| (name.clone(), self.bytes(&name))).collect();
        (files, std::fs::read(self.pool()).expect("the pool"))
    }

    fn restore(&self, (files, pool): &Image) {
        for (name, _) in self.disk.list().expect("the files") {
            self.disk.remove(&name).expect("it is removed");
        }
        files.iter().for_each(|(name, bytes)| self.write(name, bytes));
        std::fs::write(self.pool(), pool).expect("the pool");
    }
}

/// Two leaves are used without each other, the one with the store's pool, the other, more often, with a copy of that.
fn history_that_parted() -> Option<String> {
    let mirror = Mirror::new();
    mirror.put(b"both");
    let both = mirror.image();
    mirror.disk.remove(LEAVES[0]).expect("it is there");
    (0..3).for_each(|_| mirror.put(b"the other"));
    let other = mirror.bytes(LEAVES[1]);
    mirror.restore(&both);
    mirror.disk.remove(LEAVES[1]).expect("it is there");
    mirror.put(b"ours");
    mirror.write(LEAVES[1], &other);
    match mirror.get() {
        Ok(Some(found)) if found == b"ours" => None,
        found => Some(format!("of two leaves with histories that parted, it reads {found:?}")),
    }
}

/// Both copies of a value are damaged.
fn damage_of_all_copies() -> Option<String> {
    let mirror = Mirror::new();
    let value: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    mirror.put(&value);
    for leaf in LEAVES {
        let mut bytes = mirror.bytes(leaf);
        let starts = (LABELS..bytes.len() - 64).step_by(BLOCK);
        let starts: Vec<_> = starts.filter(|at| bytes[*at..at + 64] == value[..64]).collect();
        assert!(!starts.is_empty(), "the value lies on {leaf}");
        starts.iter().for_each(|at| bytes[at + 9] ^= 4);
        mirror.disk.remove(leaf).expect("it is there");
        mirror.write(leaf, &bytes);
    }
    match mirror.get() {
        Err(_) => None,
        Ok(_) => Some("it reads a value whose copies are all damaged".to_owned()),
    }
}

/// The first of the scenarios that goes wrong.
pub(crate) fn defect() -> Option<String> {
    history_that_parted().or_else(damage_of_all_copies)
}
