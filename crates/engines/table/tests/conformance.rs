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

    /// Files may be as long as their disk has room. A full heap of NVM-Log refuses removals, too: a tombstone needs room.
    fn is_bounded(&self) -> bool {
        !self.0.has_files() && self.0 != Kind::NvmLog
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

/// The suite for a method.
macro_rules! conforms {
    ($name:ident, $kind:ident) => {
        mod $name {
            use super::*;
            halite_contract::conformance!(Stores(Kind::$kind, 1); contract, persistence);
            space!(Stores(Kind::$kind, 1));
        }
    };
}

conforms!(inp, InP);
conforms!(nvm_inp, NvmInP);
conforms!(cow, Cow);
conforms!(nvm_cow, NvmCow);
conforms!(log, Log);
conforms!(nvm_log, NvmLog);
conforms!(nvm_wbl, NvmWbl);

/// Partitions are the testbed's, whatever the method. Left out are the tests of batches above 2 MB, which one of several
/// partitions refuses.
mod nvm_inp_in_partitions {
    use super::*;
    halite_contract::conformance! { @tests Stores(Kind::NvmInP, 3);
        batches::operations_of_a_batch_apply_in_order,
        batches::a_batch_with_one_bad_operation_changes_nothing,
        batches::a_large_batch_happens_whole_or_not_at_all,
        limits::what_is_within_the_limits_is_kept,
        limits::what_is_over_a_limit_is_refused_and_changes_nothing,
        key_spaces::key_spaces_do_not_touch_each_other,
        key_spaces::a_dropped_key_space_is_gone,
        scans::ranges_and_prefixes_hold_exactly_their_keys,
        scans::a_scan_sees_one_state_while_everything_is_rewritten,
        partitions::scans_of_partitions_make_up_that_of_the_store,
        partitions::counts_of_partitions_make_up_that_of_the_store,
        partitions::a_sync_of_a_partition_makes_its_writes_durable,
        snapshots::a_snapshot_stays_while_everything_is_overwritten,
        snapshots::a_snapshot_has_the_key_spaces_of_its_time,
        snapshots::snapshots_under_load_are_one_state,
        expectations::a_write_goes_ahead_if_nothing_expected_changed,
        expectations::a_changed_key_is_a_conflict,
        expectations::a_changed_range_is_a_conflict,
        expectations::expectations_hold_since_their_own_snapshots,
        expectations::expectations_of_key_spaces_that_come_and_go,
        expectations::random_expectations_are_kept,
        expectations::threads_that_expect_lose_no_update,
        samples::samples_reach_most_keys_about_equally,
        threads::readers_see_whole_batches_only,
        threads::writers_in_parallel_lose_nothing,
        reopening::a_dropped_key_space_stays_dropped,
        reopening::parallel_writes_survive_reopening,
        reopening::a_clean_close_is_seen_as_one,
    }
}
