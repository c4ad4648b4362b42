//! Repairs the files beside the pool of a store that is not open: its levels (`levels/repair.rs` has the limits of
//! such a repair) and its log. In the pool, only the knowledge of these files is changed: repaired levels
//! are newer than those that they may be a copy of, and of a log that was damaged the pool knows nothing.

use halite_alloc::Segments;
use halite_contract::{EngineOptions, RepairReport, Result};
use halite_wal::Found;

use crate::failure::{from_levels, from_log, from_replay, in_folder, of_log};
use crate::layout::{self, Layout};
use crate::levels::{Findings, LevelsOptions, Repaired, aside};
use crate::open::{disk, levels_options};
use crate::wal;

/// Repairs the files, or, unless `for_good`, only reports the changes that a repair would make.
pub(crate) fn repair(options: &EngineOptions, for_good: bool) -> Result<RepairReport> {
    let options = &EngineOptions { create: false, ..options.clone() };
    // A process that has the store open holds the pool's lock.
    let home = Segments::open(&options.pool, &options.pool_options)?;
    layout::check(&home, options)?;
    if !layout::has_levels(&home) {
        return Ok(RepairReport::default());
    }
    let (disk, store_id) = (disk(options)?, u128::from_le_bytes(home.uuid()));
    let flushes = layout::noted(&home, layout::FLUSHES);
    let levels_options = LevelsOptions { flushes, ..levels_options(options, disk.capacity()) };
    let mut log = None;
    if Layout::read(&home)?.logged {
        let (identity, known) = (wal::of_store(store_id), layout::known_of_log(&home));
        log = Some(Found::read(&disk, identity, known, |_| Ok(())).map_err(from_replay)?);
    }
    // No file is touched where the files are not the store's; a batch in its log says that they are.
    let is_ours = log.as_ref().is_some_and(|log| log.next() > 0);
    let levels = Findings::of(&disk, store_id, &levels_options, is_ours).map_err(from_levels)?;
    let is_lost = levels.is_damaged() || log.as_ref().is_some_and(Found::is_broken);
    if for_good && is_lost && layout::has_values(&home) {
        // This is noted before files that may refer to them get other names. Memory may refer to some: the next
        // opening knows which.
        layout::set_values_aside(&home, true)?;
    }
    // The log first: the levels count as whole as soon as they are repaired.
    let (mut lost_of_log, mut log_aside) = (None, Vec::new());
    if let Some(log) = log {
        let list = disk.list().map_err(|error| from_levels(error.into()))?;
        let list = list.into_iter().collect();
        let repaired = log.repair(&disk, |name| aside(&list, name), for_good);
        (lost_of_log, log_aside) = repaired.map_err(from_log)?;
    }
    if for_good && levels.is_damaged() {
        layout::forget_chains(&home)?;
    }
    let repaired = match for_good {
        true => levels.repair(&levels_options).map_err(from_levels)?,
        false => levels.into_repaired(),
    };
    // Last: until then a repair that was interrupted finds the same.
    if for_good && !repaired.lost.is_empty() {
        layout::raise(&home, layout::FLUSHES, flushes + 1)?;
    }
    if for_good && lost_of_log.is_some() {
        layout::forget_log(&home)?;
    }
    let Repaired { tables, entries, lost, set_aside, is_rebuilt } = repaired;
    let lost = lost.into_iter().chain(lost_of_log.map(of_log));
    let lost = lost.filter_map(|error| from_levels(error).damage()).collect();
    let set_aside = set_aside.iter().chain(&log_aside).map(|file| in_folder(file)).collect();
    Ok(RepairReport { lost, set_aside, tables, entries, is_rebuilt })
}
