//! Repairs and removals of the files beside the pool of a store that is not open.
//!
//! What the trees have is protected by the checksums that lead to it: a damaged part is an error of the reads that need it,
//! and of no others. So there is nothing to set aside but a log that cannot be replayed to its end.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::{EngineOptions, RepairReport, Result};
use halite_wal::{Found, Known};

use crate::failure::{from_log, from_replay};
use crate::{Betree, devices};

/// Sets aside the part of the log that cannot be replayed, or, unless `for_good`, only reports it.
pub(crate) fn repair(options: &EngineOptions, for_good: bool) -> Result<RepairReport> {
    let options = &EngineOptions { create: false, ..options.clone() };
    // A process that has the store open holds the pool's lock.
    let home = Segments::open(&options.pool, &options.pool_options)?;
    crate::home::check(&home, options)?;
    if devices::has_pool_class(&home) {
        // The log is in the pool.
        return Ok(RepairReport::default());
    }
    let disk = devices::disk(options)?;
    let log = Found::read(&disk, crate::home::identity_of_log(&home), Known::default(), |_| Ok(()));
    let list = disk.list().map_err(Arc::new)?;
    let aside = |name: &str| {
        let is_taken = |aside: &String| list.iter().any(|(other, _)| other == aside);
        let numbered = (2..).map(|number| format!("{name}.{number}.damaged"));
        let mut names = std::iter::once(format!("{name}.damaged")).chain(numbered);
        names.find(|aside| !is_taken(aside)).expect("there are more names than files")
    };
    let log = log.map_err(from_replay)?;
    let (lost, set_aside) = log.repair(&disk, aside, for_good).map_err(from_log)?;
    let lost = lost.and_then(|error| from_log(error).damage()).into_iter().collect();
    let in_folder = |name: &String| format!("{}/{name}", Betree::FOLDER);
    Ok(RepairReport {
        lost,
        set_aside: set_aside.iter().map(in_folder).collect(),
        ..RepairReport::default()
    })
}

/// Removes the files of a store that is given up and not open.
pub(crate) fn discard(options: &EngineOptions) -> Result<()> {
    let options = &EngineOptions { create: false, ..options.clone() };
    let home = Segments::open(&options.pool, &options.pool_options)?;
    crate::home::check(&home, options)?;
    devices::remove(&home, &devices::disk(options)?, options)
}
