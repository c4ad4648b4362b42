//! The files beside the pool of a store that is not open: looked at, and removed.

use std::fs;
use std::io::ErrorKind;

use halite_alloc::Segments;
use halite_contract::{EngineOptions, RepairReport, Result, made_by, other_engine};

use crate::testbed::{PARTITIONS, PARTITIONS_MAX, folder};
use crate::{Kind, Testbed};

/// Reports that there is nothing to repair, or returns the damage: a method cannot do without any of its files.
pub(crate) fn repair(kind: Kind, options: &EngineOptions, _for_good: bool) -> Result<RepairReport> {
    let options = &EngineOptions { create: false, ..options.clone() };
    Testbed::open(Some(kind), options)?.verify()?;
    Ok(RepairReport::default())
}

/// Removes the folders of the partitions. The pool stays.
pub(crate) fn discard(kind: Kind, options: &EngineOptions) -> Result<()> {
    let name = kind.engine();
    // A process that has the store open holds the pool's lock.
    let segments = Segments::open(&options.pool, &options.pool_options)?;
    if made_by(&segments).as_deref() != Some(name) {
        return Err(other_engine(name, &segments));
    }
    let folder = folder(options);
    for partition in 0..segments.root(PARTITIONS).unwrap_or(0).min(PARTITIONS_MAX as u64) {
        let path = folder.join(partition.to_string());
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let action = "remove the files of a partition";
                return Err(halite_pmem::Error::Io { path, action, source: error }.into());
            }
            _ => {}
        }
    }
    Ok(())
}
