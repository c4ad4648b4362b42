//! Repairs and removals of the files beside the pool of a store that is not open.
//!
//! The parts of trees are protected by the checksums that lead to them: a damaged one is an error of the reads that need
//! it, and of no others. So two things are left that can keep a store from opening, and a repair gives up what is lost with
//! them:
//!
//! - a log that cannot be replayed to its end: the store goes on with the batches before the damage. In files, the rest
//!   is set aside.
//! - superblocks that are older than the newest one that was durable: the store goes on as of the newest that is there.
//!   The log behind it is in use only if it begins where that superblock ends.
//!
//! The pool notes the generation that was repaired ([`REPAIRED`]). The next opening accepts its log as it is, and makes
//! a checkpoint before anything is written; so a repair, and the opening behind it, may be interrupted anywhere.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::{Damage, EngineOptions, RepairReport, Result};
use halite_disk::Disk;
use halite_wal::Found;
use halite_wal::pool_log::PoolShape;

use crate::devices::{self, Places};
use crate::failure::{from_log, from_replay};
use crate::home::{GENERATION, REPAIRED, identity_of_log};
use crate::log::{known_files, read_in_pool};
use crate::open::find_devices;
use crate::store::superblock::Superblock;
use crate::{Betree, Error};

/// Gives up what keeps the store from opening, or, unless `for_good`, only reports it.
pub(crate) fn repair(options: &EngineOptions, for_good: bool) -> Result<RepairReport> {
    let options = &EngineOptions { create: false, ..options.clone() };
    // A process that has the store open holds the pool's lock.
    let home = Segments::open(&options.pool, &options.pool_options)?;
    crate::home::check(&home, options)?;
    let disk = devices::disk(options)?;
    let (generation, superblock, older) = newest(options, &home, &disk)?;
    let mut report = RepairReport::default();
    match older {
        Some(lost) => report.lost.push(lost),
        None if home.root(REPAIRED) == Some(generation) => {}
        None => repair_log(&home, &disk, &superblock, for_good, &mut report)?,
    }
    if for_good && !report.is_whole() {
        home.set_root(REPAIRED, generation)?;
        home.set_root(GENERATION, generation)?;
    }
    Ok(report)
}

/// The newest superblock that the devices have, its generation, and, if a newer one was durable, what is lost with that.
fn newest(
    options: &EngineOptions,
    home: &Arc<Segments>,
    disk: &Disk,
) -> Result<(u64, Superblock, Option<Damage>)> {
    let places = Places::new(home, disk, options);
    let find = |at_least| find_devices(options, home, disk, &places, at_least);
    let durable = home.root(GENERATION).unwrap_or_default();
    let (assembled, lost) = match find(durable) {
        Ok(assembled) => (assembled, None),
        Err(error) => match error.own::<Error>() {
            Some(Error::RolledBack { .. }) => {
                let what = format!("the changes up to generation {durable}");
                (find(0)?, Some(Damage { what, why: error.to_string() }))
            }
            _ => return Err(error),
        },
    };
    Ok((assembled.current.generation, assembled.superblock, lost))
}

/// Sets aside the part of the log that cannot be replayed, unless it lies in the pool, where it is overwritten.
fn repair_log(
    home: &Arc<Segments>,
    disk: &Disk,
    superblock: &Superblock,
    for_good: bool,
    report: &mut RepairReport,
) -> Result<()> {
    let identity = identity_of_log(home);
    if devices::has_pool_class(home) {
        let (shape, replay) = (PoolShape::default(), &mut |_, _, _: &[u8]| Ok(()));
        let mut found = read_in_pool(home, identity, superblock, shape, replay)?;
        let lost = found.accept_end().and_then(|error| from_log(error).damage());
        report.lost.extend(lost);
        return Ok(());
    }
    let log = Found::read(disk, identity, known_files(superblock), |_| Ok(()));
    let list = disk.list().map_err(Arc::new)?;
    let aside = |name: &str| {
        let is_taken = |aside: &String| list.iter().any(|(other, _)| other == aside);
        let numbered = (2..).map(|number| format!("{name}.{number}.damaged"));
        let mut names = std::iter::once(format!("{name}.damaged")).chain(numbered);
        names.find(|aside| !is_taken(aside)).expect("there are more names than files")
    };
    let log = log.map_err(from_replay)?;
    let (lost, set_aside) = log.repair(disk, aside, for_good).map_err(from_log)?;
    report.lost.extend(lost.and_then(|error| from_log(error).damage()));
    report.set_aside = set_aside.iter().map(|name| format!("{}/{name}", Betree::FOLDER)).collect();
    Ok(())
}

/// Removes the files of a store that is given up and not open.
pub(crate) fn discard(options: &EngineOptions) -> Result<()> {
    let options = &EngineOptions { create: false, ..options.clone() };
    let home = Segments::open(&options.pool, &options.pool_options)?;
    crate::home::check(&home, options)?;
    devices::remove(&home, &devices::disk(options)?, options)
}
