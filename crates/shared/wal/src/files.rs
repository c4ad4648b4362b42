//! The files of a log, and their names.

use halite_codec::Seed;
use halite_disk::Disk;

const PREFIX: &str = "LOG-";

/// Removes all files of a log.
///
/// # Errors
/// An error of the disk.
pub fn remove(disk: &Disk) -> halite_disk::Result<()> {
    numbers_of(disk)?.into_iter().try_for_each(|number| disk.remove(&name_of(number)))
}

/// The seed of the checksums of a file's batches: those that a file has from serving under another number fail theirs.
pub(crate) fn seed_of(store_id: u128, number: u64) -> Seed {
    Seed::of_store(store_id).numbered(number)
}

pub(crate) fn name_of(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// The numbers of the files that there are, ascending.
pub(crate) fn numbers_of(disk: &Disk) -> halite_disk::Result<Vec<u64>> {
    let names = disk.list()?;
    let number =
        |name: &str| name.strip_prefix(PREFIX)?.parse().ok().filter(|&n| name_of(n) == *name);
    let mut numbers: Vec<u64> = names.iter().filter_map(|(name, _)| number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
