//! The folder of the levels: beside the pool, or behind a link there.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::{EngineOptions, Error, Result};
use halite_disk::Disk;

use crate::Lsm;
use crate::failure::from_levels;
use crate::layout;
use crate::levels::{self, CURRENT, is_of_levels};
use crate::options::LsmOptions;

/// The disk of the levels: a folder beside the pool, or, by a link there, one that was named when the store was made.
pub(crate) fn disk(options: &EngineOptions) -> Result<Disk> {
    let own = LsmOptions::of(options);
    if let Some(disk) = &options.disk {
        return Ok(disk.clone());
    }
    if options.pool_options.in_memory || options.pool_options.medium.is_some() {
        return Ok(Disk::in_memory_up_to(options.pool_options.size_max));
    }
    let beside = beside(options);
    let folder = own.levels.as_ref().unwrap_or(&beside);
    let failures = options.pool_options.failures.clone();
    Ok(Disk::failing_folder(folder, options.create, failures).map_err(Arc::new)?)
}

/// The folder of the levels, or the link that points to it.
fn beside(options: &EngineOptions) -> PathBuf {
    options
        .pool
        .parent()
        .map_or_else(|| PathBuf::from(Lsm::LEVELS), |folder| folder.join(Lsm::LEVELS))
}

/// Points a link beside the pool to a folder that was named, from now on, if the store's levels are there.
pub(super) fn link(options: &EngineOptions) -> Result<()> {
    let own = LsmOptions::of(options);
    let is_folder = options.disk.is_none() && !options.pool_options.in_memory;
    let Some(named) = own.levels.as_ref().filter(|_| is_folder && options.create) else {
        return Ok(());
    };
    let beside = beside(options);
    let linked = (|| {
        let folder = std::path::absolute(named)?;
        if folder == std::path::absolute(&beside)? {
            return Ok(());
        }
        match std::fs::read_link(&beside) {
            Ok(there) if there == folder => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // An empty folder is replaced: an opening without the name has made it.
            Err(_) if std::fs::remove_dir(&beside).is_err() => return Ok(()),
            _ => {}
        }
        let made = beside.with_extension("link");
        match std::fs::remove_file(&made) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::os::unix::fs::symlink(folder, &made)?;
        std::fs::rename(&made, &beside)?;
        std::fs::File::open(beside.parent().unwrap_or(Path::new(".")))?.sync_all()
    })();
    let action = "link the folder of the levels";
    Ok(linked.map_err(|source| halite_pmem::Error::Io { path: beside, action, source })?)
}

/// Refuses a folder without levels, where a store has some: it is another folder, or has lost the file that names
/// them.
pub(super) fn check_levels(home: &Segments, disk: &Disk) -> Result<()> {
    let list = disk.list().map_err(Arc::new)?;
    if !layout::has_levels(home) || list.iter().any(|(name, _)| name == CURRENT) {
        return Ok(());
    }
    if list.iter().any(|(name, _)| is_of_levels(name)) {
        return Err(from_levels(levels::Error::NoManifest));
    }
    Err(Error::Damaged {
        what: format!("the levels in {}", disk.path().display()),
        why: "there is nothing of them: name the folder that has them, or bring it back".into(),
    })
}
