//! The conformance suite: the guarantees of every engine, as tests that it runs by one line.
//!
//! An engine's tests implement [`Factory`] and name it once:
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use halite_contract::{Engine, Model, Result, conformance::Factory};
//!
//! struct Models;
//!
//! impl Factory for Models {
//!     fn open(&self, folder: &Path, pool_bytes_max: u64) -> Result<Arc<dyn Engine>> {
//!         Ok(Arc::new(Model::new()))
//!     }
//! }
//!
//! halite_contract::conformance!(Models; contract);
//! # fn main() {}
//! ```
//!
//! [`conformance!`](crate::conformance!) turns each property into a `#[test]` of its own, in three groups:
//! `contract` (properties while a store is open), `persistence` (properties after it was opened again) and
//! `space` (properties near its size limit). An engine without persistence names only the groups that it
//! can pass: `conformance!(Models; contract)`.
//!
//! A property opens a [`Store`] in a folder of its own, drives it and a [`Model`](crate::Model)
//! alike, and [compares](compare) the two. It returns its failure instead of panicking, so that
//! random histories ([`histories`]) shrink quietly to the shortest one that fails, and so that the
//! suite itself can be tested with engines that are broken on purpose. `PROPTEST_CASES` sets the
//! number of histories, `PROPTEST_RNG_SEED` repeats a run.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use crate::{Engine, Result};

pub mod batches;
pub mod compare;
pub mod data;
pub mod expectations;
pub mod full;
pub mod histories;
pub mod key_spaces;
pub mod limits;
pub mod overwriting;
pub mod partitions;
pub mod reopening;
pub mod samples;
pub mod scans;
pub mod snapshots;
pub mod statistics;
mod step;
pub mod threads;
pub mod values;
pub mod verification;

/// The result of a property: `Ok`, or why the engine does not have it.
pub type Check<T = ()> = std::result::Result<T, Failure>;

/// Why an engine does not have a property.
pub struct Failure(String);

impl Failure {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// The failure within a larger thing: the place, then the reason.
    fn inside(self, place: impl fmt::Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(format!("unexpected error: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Opens the stores of the engine under test.
pub trait Factory {
    /// Opens the store in `folder`, and creates it if there is none. Its pool may grow to
    /// `pool_bytes_max` bytes.
    ///
    /// # Errors
    /// The engine's errors.
    fn open(&self, folder: &Path, pool_bytes_max: u64) -> Result<Arc<dyn Engine>>;

    /// Whether the pool bounds the store's contents: otherwise older records go elsewhere, and a full pool
    /// never refuses writes for good.
    fn is_bounded(&self) -> bool {
        true
    }

    /// Whether space that deletes free takes any other keys and values. Otherwise some of it takes only what is as long as
    /// that which was there, until more is deleted.
    fn reuses_space(&self) -> bool {
        true
    }

    /// Whether statistics have the exact number of keys, and of bytes that are alive.
    fn counts(&self) -> bool {
        true
    }

    /// Ends a store as a crash would, without closing it, so that it can be opened again. The default
    /// closes it; a factory that can simulate a crash should.
    fn crash(&self, engine: Arc<dyn Engine>) {
        drop(engine);
    }
}

/// [`crate::lab::is_deep`] of the crate whose tests run.
pub(crate) fn is_deep() -> bool {
    std::env::var("CARGO_PKG_NAME").is_ok_and(|package| {
        crate::lab::is_deep(package.strip_prefix("halite-").unwrap_or(&package))
    })
}

/// A size limit that only the properties about space come near.
pub const AMPLE: u64 = 1 << 30;

/// An open store in a folder that is removed with it.
pub struct Store<'a> {
    factory: &'a dyn Factory,
    pool_bytes_max: u64,
    engine: Arc<dyn Engine>,
    /// Dropped last: the engine's files are in it.
    folder: TempDir,
}

impl<'a> Store<'a> {
    /// A new store.
    ///
    /// # Errors
    /// The engine's errors.
    ///
    /// # Panics
    /// If there is no place for a temporary folder.
    pub fn new(factory: &'a dyn Factory, pool_bytes_max: u64) -> Result<Self> {
        let folder = temporary_folder();
        let engine = factory.open(folder.path(), pool_bytes_max)?;
        Ok(Self { factory, pool_bytes_max, engine, folder })
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Closes the store and opens it again.
    ///
    /// # Errors
    /// The engine's errors.
    pub fn reopen(self) -> Result<Self> {
        let Self { factory, pool_bytes_max, engine, folder } = self;
        drop(engine);
        let engine = factory.open(folder.path(), pool_bytes_max)?;
        Ok(Self { factory, pool_bytes_max, engine, folder })
    }

    /// Ends the store as [`Factory::crash`] does and opens it again.
    ///
    /// # Errors
    /// The engine's errors.
    pub fn crash(self) -> Result<Self> {
        let Self { factory, pool_bytes_max, engine, folder } = self;
        factory.crash(engine);
        let engine = factory.open(folder.path(), pool_bytes_max)?;
        Ok(Self { factory, pool_bytes_max, engine, folder })
    }
}

/// A temporary folder in memory where there is some: on a disk, each of many small writes would wait for it.
///
/// # Panics
/// If there is no place for one.
#[must_use]
pub fn temporary_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let scratch = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("halite-").tempdir_in(scratch);
    folder.expect("a temporary folder")
}

/// Fails the property unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Failure(format!($($why)+)));
        }
    };
}
use ensure;

/// Fails the property unless the result is an error that matches the pattern.
macro_rules! ensure_err {
    ($result:expr, $error:pat, $what:expr) => {
        match $result {
            Err($error) => {}
            other => {
                return Err($crate::conformance::Failure(format!(
                    "{}: expected {}, got {:?}",
                    $what,
                    stringify!($error),
                    other.map(|_| "success"),
                )));
            }
        }
    };
}
use ensure_err;

/// Generates the tests of the conformance suite for a [`Factory`](crate::conformance::Factory).
///
/// `conformance!(factory)` generates all of them, `conformance!(factory; contract, space)` those of
/// the groups named. See the [module](mod@crate::conformance).
#[macro_export]
macro_rules! conformance {
    (@tests $factory:expr; $($module:ident::$property:ident,)+) => {
        $(
            #[test]
            fn $property() {
                if let Err(failure) = $crate::conformance::$module::$property(&$factory) {
                    panic!("{failure}");
                }
            }
        )+
    };
    (@contract $factory:expr) => {
        $crate::conformance! { @tests $factory;
            histories::random_histories_agree_with_the_model,
            batches::operations_of_a_batch_apply_in_order,
            batches::a_batch_with_one_bad_operation_changes_nothing,
            batches::a_large_batch_happens_whole_or_not_at_all,
            limits::what_is_within_the_limits_is_kept,
            limits::what_is_over_a_limit_is_refused_and_changes_nothing,
            values::values_around_block_borders_come_back_whole,
            values::a_value_of_40_mib_comes_back_whole,
            values::bytes_that_are_held_do_not_change,
            key_spaces::key_spaces_do_not_touch_each_other,
            key_spaces::a_dropped_key_space_is_gone,
            scans::ranges_and_prefixes_hold_exactly_their_keys,
            scans::a_scan_sees_one_state_while_everything_is_rewritten,
            partitions::scans_of_partitions_make_up_that_of_the_store,
            partitions::counts_of_partitions_make_up_that_of_the_store,
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
            verification::a_healthy_store_has_no_damage,
        }
    };
    (@persistence $factory:expr) => {
        $crate::conformance! { @tests $factory;
            histories::random_histories_survive_reopening,
            reopening::large_values_survive_reopening,
            reopening::a_dropped_key_space_stays_dropped,
            reopening::parallel_writes_survive_reopening,
            reopening::a_clean_close_is_seen_as_one,
            partitions::a_sync_of_a_partition_makes_its_writes_durable,
            full::a_full_store_keeps_everything_when_it_is_opened_again,
        }
    };
    (@space $factory:expr) => {
        $crate::conformance! { @tests $factory;
            overwriting::overwriting_small_values_forever_does_not_fill_the_pool,
            overwriting::overwriting_large_values_forever_does_not_fill_the_pool,
            overwriting::writing_and_deleting_forever_does_not_fill_the_pool,
            snapshots::a_store_full_by_a_snapshot_says_so,
            expectations::what_only_moves_has_not_changed,
            full::a_full_store_reads_and_deletes_and_then_writes_again,
            statistics::statistics_add_up,
            statistics::a_sync_leaves_no_write_behind,
        }
    };
    ($factory:expr) => {
        $crate::conformance!($factory; contract, persistence, space);
    };
    ($factory:expr; $($group:ident),+) => {
        $($crate::conformance!(@$group $factory);)+
    };
}
