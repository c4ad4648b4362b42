//! The contract of every engine, kept by this one.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_betree::{Betree, BetreeOptions, Buffers};
use halite_contract::conformance::Factory;
use halite_contract::{Engine, EngineOptions, Result};
use halite_pmem::{Domain, PoolOptions};

/// Stores with options of their own, on a medium of a domain.
struct Betrees(fn() -> BetreeOptions, Option<Domain>);

thread_local! {
    /// The folder that was opened last.
    static FOLDER: RefCell<PathBuf> = RefCell::default();
}

impl Factory for Betrees {
    fn open(&self, folder: &Path, pool_bytes_max: u64) -> Result<Arc<dyn Engine>> {
        FOLDER.replace(folder.to_owned());
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = pool_bytes_max;
        pool_options.assume_domain = self.1;
        let own = (self.0)().into();
        let options =
            EngineOptions { pool_options, own, ..EngineOptions::new(folder.join("pool")) };
        Ok(Arc::new(Betree::open(&options)?))
    }

    /// Data that the pool has no room for goes to the folder.
    fn is_bounded(&self) -> bool {
        false
    }

    /// A writer of a key does not ask whether it was there.
    fn counts(&self) -> bool {
        false
    }

    /// Leaves the files as they are now, as a killed process does. They are copied again if there was a checkpoint
    /// meanwhile.
    fn crash(&self, engine: Arc<dyn Engine>) {
        FOLDER.with_borrow(|folder| {
            let generation = || engine.stats().figure("checkpoints");
            let image = folder.with_extension("image");
            loop {
                let before = generation();
                let _ = fs::remove_dir_all(&image);
                fs::create_dir_all(image.join("betree")).expect("room for an image");
                for file in fs::read_dir(folder.join("betree")).expect("a folder") {
                    let path = file.expect("a file").path();
                    let copy = image.join("betree").join(path.file_name().expect("a name"));
                    // A checkpoint may remove it meanwhile.
                    let _ = fs::copy(&path, copy);
                }
                fs::copy(folder.join("pool"), image.join("pool")).expect("room for an image");
                if generation() == before {
                    break;
                }
            }
            drop(engine);
            fs::remove_dir_all(folder).expect("a folder");
            fs::rename(&image, folder).expect("the image takes the folder's place");
        });
    }
}

/// Sizes at which short histories fill memtables, buffers and leaves. So few memtables are kept that transactions which
/// outlast much writing are refused: the properties about space need other sizes.
pub(crate) fn small() -> BetreeOptions {
    BetreeOptions {
        memtable_bytes: Some(32 << 10),
        buffer_bytes: Some(16 << 10),
        leaf_bytes: Some(8 << 10),
        part_bytes: Some(256),
        fanout: Some(3),
        runs_max: Some(3),
        large_value_bytes: Some(1 << 10),
        checkpoint_bytes: Some(256 << 10),
        cache_bytes: 1 << 20,
        ..BetreeOptions::default()
    }
}

mod in_memory_that_persists {
    halite_contract::conformance!(super::Betrees(super::BetreeOptions::default, None));
}

mod in_a_file {
    use super::Domain;
    halite_contract::conformance!(super::Betrees(
        super::BetreeOptions::default,
        Some(Domain::PageCache)
    ));
}

mod with_small_trees {
    halite_contract::conformance!(super::Betrees(super::small, None); contract, persistence);
}

mod with_small_trees_in_a_file {
    use super::Domain;
    halite_contract::conformance!(
        super::Betrees(super::small, Some(Domain::PageCache)); contract, persistence
    );
}

/// As [`small`], with buffers that are appended to in place, in a pool that may be an ordinary file, as long as it has
/// room.
fn small_in_place() -> BetreeOptions {
    let topology = "pmem: ; file:more".parse().expect("a topology");
    BetreeOptions { buffers: Buffers::InPlace, topology: Some(topology), ..small() }
}

mod with_small_trees_in_place {
    halite_contract::conformance!(
        super::Betrees(super::small_in_place, None); contract, persistence
    );
}

mod with_small_trees_in_place_in_a_file {
    use super::Domain;
    halite_contract::conformance!(
        super::Betrees(super::small_in_place, Some(Domain::PageCache)); persistence
    );
}
