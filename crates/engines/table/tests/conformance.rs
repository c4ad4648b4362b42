//! The contract of every engine, kept by a store of the testbed under each recovery method.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_contract::conformance::Factory;
use halite_contract::{Engine, EngineOptions, Partitioning, Result};
use halite_table::{Kind, TableEngine};

/// A method, and the number of partitions.
struct Stores(Kind, usize);

thread_local! {
    /// The folder that was opened last.
    static FOLDER: RefCell<PathBuf> = RefCell::default();
}

impl Factory for Stores {
    fn open(&self, folder: &Path, pool_bytes_max: u64) -> Result<Arc<dyn Engine>> {
        FOLDER.replace(folder.to_owned());
        let mut options = EngineOptions::new(folder.join("pool"));
        options.pool_options.size_max = pool_bytes_max;
        options.partitioning = Some(Partitioning::Hash(self.1));
        Ok(Arc::new(TableEngine::open(self.0, &options)?))
    }

    /// Files may be as long as their disk has room.
    fn is_bounded(&self) -> bool {
        !self.0.has_files()
    }

    /// A heap gives a chunk to other lengths when nothing is left in it.
    fn reuses_space(&self) -> bool {
        self.0.has_files()
    }

    /// Nothing is collected, and the space of a method is looked at now and then.
    fn counts(&self) -> bool {
        false
    }

    /// Leaves the files as they are now, as a killed process does.
    fn crash(&self, engine: Arc<dyn Engine>) {
        FOLDER.with_borrow(|folder| {
            let image = folder.with_extension("image");
            copy(folder, &image).expect("room for an image");
            drop(engine);
            fs::remove_dir_all(folder).expect("a folder");
            fs::rename(&image, folder).expect("the same folder");
        });
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => fs::copy(entry.path(), to).map(drop)?,
        }
    }
    Ok(())
}

/// The guarantees near the size limit that take seconds. The others overwrite small values for minutes, where each is a
/// transaction of its own: no method does anything else for them than for large ones.
macro_rules! space {
    ($stores:expr) => {
        halite_contract::conformance! { @tests $stores;
            overwriting::overwriting_large_values_forever_does_not_fill_the_pool,
            expectations::what_only_moves_has_not_changed,
            full::a_full_store_reads_and_deletes_and_then_writes_again,
            statistics::statistics_add_up,
            statistics::a_sync_leaves_no_write_behind,
        }
    };
}

mod cow {
    use super::*;
    halite_contract::conformance!(Stores(Kind::Cow, 1); contract, persistence);
    space!(Stores(Kind::Cow, 1));
}

mod nvm_inp {
    use super::*;
    halite_contract::conformance!(Stores(Kind::NvmInP, 1); contract, persistence);
    space!(Stores(Kind::NvmInP, 1));
}

/// Partitions are the testbed's, whatever the method.
mod nvm_inp_in_partitions {
    use super::*;
    halite_contract::conformance!(Stores(Kind::NvmInP, 3); contract, persistence);
}
