//! The contract of every engine, kept by this one.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_contract::conformance::Factory;
use halite_contract::{
    Durability, Engine, EngineOptions, Error, Op, Partitioned, Partitioning, Result,
};
use halite_lsm::{Durable, Lsm, LsmOptions};
use halite_pmem::PoolOptions;

/// The number of trees, and the place that makes new commits durable.
struct Lsms(usize, Durable);

thread_local! {
    /// The folder that was opened last.
    static FOLDER: RefCell<PathBuf> = RefCell::default();
}

impl Factory for Lsms {
    fn open(&self, folder: &Path, pool_bytes_max: u64) -> Result<Arc<dyn Engine>> {
        FOLDER.replace(folder.to_owned());
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = pool_bytes_max;
        let partitioning = Some(Partitioning::Hash(self.0));
        let lsm = LsmOptions { durable: self.1, ..LsmOptions::default() };
        let pool = folder.join("pool");
        let options = EngineOptions {
            pool_options,
            partitioning,
            own: lsm.into(),
            ..EngineOptions::new(pool)
        };
        Ok(Arc::new(Lsm::open(&options)?))
    }

    /// Data that the pool has no room for goes to the levels.
    fn is_bounded(&self) -> bool {
        false
    }

    /// A writer of a key does not ask whether it was there.
    fn counts(&self) -> bool {
        false
    }

    /// Leaves the files as they are now, as a killed process does. The levels are copied after the pool: they have all
    /// records before the pool gives their zones back.
    fn crash(&self, engine: Arc<dyn Engine>) {
        FOLDER.with_borrow(|folder| {
            let image = folder.with_extension("image");
            let levels = image.join("levels");
            fs::create_dir_all(&levels).expect("room for an image");
            fs::copy(folder.join("pool"), image.join("pool")).expect("room for an image");
            for file in fs::read_dir(folder.join("levels")).expect("a folder") {
                let path = file.expect("a file").path();
                // A compaction may remove it meanwhile.
                let _ = fs::copy(&path, levels.join(path.file_name().expect("a name")));
            }
            drop(engine);
            fs::remove_dir_all(folder).expect("a folder");
            fs::rename(&image, folder).expect("the image takes the folder's place");
        });
    }
}

mod one_tree {
    halite_contract::conformance!(super::Lsms(1, super::Durable::Pool));
}

mod three_trees {
    halite_contract::conformance!(super::Lsms(3, super::Durable::Pool));
}

mod with_a_log {
    halite_contract::conformance!(super::Lsms(1, super::Durable::Log));
}

mod three_trees_with_a_log {
    halite_contract::conformance!(super::Lsms(3, super::Durable::Log));
}

#[test]
fn partitions_are_those_that_a_store_was_made_with() {
    let folder = tempfile::tempdir().unwrap();
    let open = |partitioning: Option<Partitioning>| {
        let pool = folder.path().join("pool");
        Lsm::open(&EngineOptions { partitioning, ..EngineOptions::new(pool) })
    };
    let ranges = Partitioning::Ranges(vec![b"m".to_vec()]);
    let refused = |partitioning| matches!(open(partitioning), Err(Error::FixedPartitions { .. }));
    assert!(refused(Some(ranges.clone())));
    assert_eq!(open(Some(Partitioning::Hash(2))).unwrap().partitions(), 2);
    assert!(refused(Some(ranges)) && refused(Some(Partitioning::Hash(3))));
    assert_eq!(open(None).unwrap().partitions(), 2);
}

#[test]
fn levels_are_found_where_they_were_made_and_missed_where_they_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("ssd");
    let open = |levels: Option<PathBuf>| {
        let pool = folder.path().join("pool");
        let lsm = LsmOptions { levels, ..LsmOptions::default() };
        Lsm::open(&EngineOptions { own: lsm.into(), ..EngineOptions::new(pool) })
    };
    let space = {
        let engine = open(Some(elsewhere.clone())).unwrap();
        let space = engine.key_space("space").unwrap();
        engine
            .write(&[Op::Put { space, key: b"key", value: b"value" }], Durability::Immediate)
            .unwrap();
        space
    };
    assert!(elsewhere.join("CURRENT").exists());
    assert_eq!(open(None).unwrap().get(space, b"key").unwrap().unwrap(), b"value");
    let other = folder.path().join("other");
    assert!(matches!(open(Some(other)), Err(Error::Damaged { .. })));
    fs::remove_file(elsewhere.join("CURRENT")).unwrap();
    assert!(matches!(open(None), Err(Error::DamagedFile { .. })));
}
