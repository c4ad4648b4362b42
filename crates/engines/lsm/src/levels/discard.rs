//! Removes the levels of a store that is given up.

use halite_disk::Disk;

use super::ballast::BALLAST;
use super::error::Result;
use super::manifest;
use super::names::{CURRENT, Name, parse};
use super::open::is_ours;

/// Removes a store's files. Files of a log, which `remove_log` removes, and files that are not whole do not say which
/// store they are of: they are removed if `CURRENT` says that the folder is this store's.
///
/// # Errors
/// An error of the disk. The next call removes the files that are left then.
pub(crate) fn discard(
    disk: &Disk,
    store_id: u128,
    remove_log: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let is_its_folder = manifest::current(disk, store_id).is_ok();
    for (name, _) in disk.list()? {
        let is_to_go = match parse(&name) {
            Some(Name::Unfinished) => is_its_folder,
            None if name == BALLAST => is_its_folder,
            // Last: until then it says which store the other files are of.
            Some(Name::Current) | None => false,
            Some(_) => is_ours(disk, store_id, &name)?,
        };
        if is_to_go {
            disk.remove(&name)?;
        }
    }
    if is_its_folder {
        remove_log()?;
        disk.sync()?;
        disk.remove(CURRENT)?;
    }
    Ok(disk.sync()?)
}
