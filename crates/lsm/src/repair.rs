//! Repairs what lies beside the pool of a store that nobody has open: its levels, of which `levels/repair.rs` says
//! what a repair can and cannot do, and its log. Of what the pool holds, only what it knows of these is changed.

use halite_alloc::Segments;
use halite_engine::{EngineOptions, RepairReport, Result};

use crate::layout::{self, Layout};
use crate::levels::{self, Repaired};
use crate::open::{disk, levels_options};
use crate::read::{from_levels, in_folder};
use crate::wal::Found;

/// Repairs, or, unless `for_good`, says what that would do.
pub(crate) fn repair(options: &EngineOptions, for_good: bool) -> Result<RepairReport> {
    let options = &EngineOptions { create: false, ..options.clone() };
    // Whoever has the store open has this locked.
    let home = Segments::open(&options.pool, &options.pool_options)?;
    layout::check(&home, options)?;
    if !layout::has_levels(&home) {
        return Ok(RepairReport::default());
    }
    let (disk, store_id) = (disk(options)?, u128::from_le_bytes(home.uuid()));
    let run = if for_good { levels::repair } else { levels::examine };
    let repaired = run(&disk, store_id, &levels_options(options)).map_err(from_levels)?;
    let mut log = None;
    if Layout::read(&home)?.logged {
        let found = Found::read(&disk, store_id, layout::known_of_log(&home), |_| Ok(()))?;
        log = Some(found.repair(&disk, for_good).map_err(from_levels)?);
    }
    let (lost_of_log, log_aside) = log.unwrap_or_default();
    if for_good {
        // Last: until then a repair that was interrupted finds the same.
        layout::forget(&home)?;
    }
    let Repaired { tables, entries, lost, set_aside, is_rebuilt } = repaired;
    let lost = lost.into_iter().chain(lost_of_log);
    let lost = lost.filter_map(|error| from_levels(error).damage()).collect();
    let set_aside = set_aside.iter().chain(&log_aside).map(|file| in_folder(file)).collect();
    Ok(RepairReport { lost, set_aside, tables, entries, is_rebuilt })
}
