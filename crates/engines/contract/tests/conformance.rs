//! The conformance suite, tried on the model, and on models that are broken on purpose: each of them fails
//! the property that it breaks.

mod broken;
mod limited;

use std::path::Path;
use std::sync::Arc;

use broken::{Broken, Fault};
use halite_contract::conformance::{self, Check, Factory};
use halite_contract::{Engine, Model, Result};
use limited::Limited;

struct Models;

impl Factory for Models {
    fn open(&self, _: &Path, _: u64) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Model::new()))
    }
}

/// The model has no persistence, no limit to its size and no pool.
mod the_model {
    halite_contract::conformance!(super::Models; contract);
}

/// With a limit and a memory of its folders, the model stands for a whole engine.
mod a_limited_model {
    halite_contract::conformance!(super::Limited::default());
}

fn fails(fault: Fault, property: fn(&dyn Factory) -> Check) {
    // Histories are random: one in a hundred may miss a fault.
    let failure = (0..4).find_map(|_| property(&Broken::with(fault)).err());
    let failure = failure.expect("the suite did not see the fault");
    println!("{failure}");
}

macro_rules! faults {
    ($($name:ident: $fault:ident fails $module:ident::$property:ident,)+) => {
        $(
            #[test]
            fn $name() {
                fails(Fault::$fault, conformance::$module::$property);
            }
        )+
    };
}

faults! {
    a_lost_delete_in_a_history_is_seen:
        LosesDeletes fails histories::random_histories_agree_with_the_model,
    an_end_that_a_range_includes_is_seen:
        IncludesEnds fails histories::random_histories_agree_with_the_model,
    a_cut_long_value_in_a_history_is_seen:
        CutsLongValues fails histories::random_histories_agree_with_the_model,
    a_batch_in_another_order_is_seen:
        SortsBatches fails batches::operations_of_a_batch_apply_in_order,
    a_batch_taken_in_part_is_seen:
        AppliesUpToTheError fails batches::a_batch_with_one_bad_operation_changes_nothing,
    a_cut_key_is_seen: CutsLongKeys fails limits::what_is_within_the_limits_is_kept,
    a_cut_long_value_is_seen:
        CutsLongValues fails values::values_around_block_borders_come_back_whole,
    a_dropped_key_space_that_takes_writes_is_seen:
        KeepsDropped fails key_spaces::a_dropped_key_space_is_gone,
    a_range_that_includes_its_end_is_seen:
        ScansEnds fails scans::ranges_and_prefixes_hold_exactly_their_keys,
    a_scan_of_the_present_is_seen:
        ScansThePresent fails scans::a_scan_sees_one_state_while_everything_is_rewritten,
    a_snapshot_of_the_present_is_seen:
        SnapshotsThePresent fails snapshots::a_snapshot_stays_while_everything_is_overwritten,
    a_snapshot_without_what_was_dropped_is_seen:
        SnapshotsThePresent fails snapshots::a_snapshot_has_the_key_spaces_of_its_time,
    a_snapshot_that_goes_on_under_load_is_seen:
        SnapshotsThePresent fails snapshots::snapshots_under_load_are_one_state,
    a_change_that_does_not_matter_is_seen:
        IgnoresExpectations fails expectations::a_changed_key_is_a_conflict,
    a_change_of_a_range_that_does_not_matter_is_seen:
        IgnoresExpectedRanges fails expectations::a_changed_range_is_a_conflict,
    an_earlier_snapshot_that_does_not_matter_is_seen:
        IgnoresEarlierExpectations fails expectations::expectations_hold_since_their_own_snapshots,
    an_update_lost_between_look_and_write_is_seen:
        LooksBeforeWriting fails expectations::threads_that_expect_lose_no_update,
    a_key_that_came_and_went_is_seen:
        ForgetsWhatWent fails expectations::random_expectations_are_kept,
    a_snapshot_of_another_store_is_seen:
        TakesForeignSnapshots fails expectations::expectations_of_key_spaces_that_come_and_go,
    one_sample_for_all_is_seen:
        SamplesTheFirst fails samples::samples_reach_most_keys_about_equally,
    a_visible_half_of_a_batch_is_seen:
        WritesOneByOne fails threads::readers_see_whole_batches_only,
    a_write_lost_to_another_thread_is_seen:
        LosesDeletes fails threads::writers_in_parallel_lose_nothing,
    invented_damage_is_seen: InventsDamage fails verification::a_healthy_store_has_no_damage,
    a_lost_deferred_write_is_seen:
        ForgetsTheLastWrite fails histories::random_histories_survive_reopening,
    a_lost_key_space_is_seen:
        ForgetsTheLastWrite fails reopening::a_dropped_key_space_stays_dropped,
}
