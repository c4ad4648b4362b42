//! The files of checkpoints: their names, and their headers.
//!
//! ```text
//!  0  magic    8 bytes
//!  8  version  u32
//! 12  zero     u32
//! 16  store    u128
//! 32  number   u64   the one in the name
//! 40  check    u64   of all before it
//! ```

use halite_codec::{Reader, Seed, check_behind, put_behind};
use halite_disk::Disk;

use crate::{Error, Result};

const PREFIX: &str = "CHECKPOINT-";

/// Behind the name of one that is not finished.
const UNFINISHED: &str = ".new";

const MAGIC: [u8; 8] = *b"HTBLCKP\x91";

/// The version that is written and read.
const VERSION: u32 = 1;

/// Bytes of a header.
pub(super) const HEADER: usize = 48;

pub(crate) fn name_of(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

pub(super) fn unfinished_name_of(number: u64) -> String {
    format!("{}{UNFINISHED}", name_of(number))
}

/// The numbers of the checkpoints that have their names, ascending.
pub(crate) fn named(disk: &Disk) -> Result<Vec<u64>> {
    let names = disk.list()?;
    let number =
        |name: &str| name.strip_prefix(PREFIX)?.parse().ok().filter(|&n| name_of(n) == *name);
    let mut numbers: Vec<u64> = names.iter().filter_map(|(name, _)| number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Bytes of all files of checkpoints, finished or not.
pub(crate) fn bytes(disk: &Disk) -> Result<u64> {
    let files = disk.list()?.into_iter().filter(|(name, _)| name.starts_with(PREFIX));
    Ok(files.map(|(_, len)| len).sum())
}

/// Removes all files of checkpoints but one. A cut of the power may bring some back, until this is repeated.
pub(crate) fn remove_others(disk: &Disk, number: u64) -> Result<()> {
    let name = name_of(number);
    for (other, _) in disk.list()? {
        if other.starts_with(PREFIX) && other != name {
            disk.remove(&other)?;
        }
    }
    Ok(())
}

pub(super) fn header(store_id: u128, number: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&store_id.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    put_behind(&mut bytes, Seed::NONE);
    bytes
}

/// Checks that a header is that of a store's checkpoint.
pub(super) fn check_header(bytes: &[u8], what: &str, store_id: u128, number: u64) -> Result<()> {
    let foreign = |why: &str| Err(Error::Foreign { what: what.into(), why: why.into() });
    let damaged = |why: String| Error::damaged(what, why);
    if !bytes.starts_with(&MAGIC) {
        return foreign("it is no checkpoint");
    }
    let checked = check_behind(bytes, Seed::NONE);
    let checked = checked.map_err(|error| damaged(format!("its header: {error}")))?;
    let mut reader = Reader(&checked[MAGIC.len()..]);
    let short = |_| damaged("its header is too short".into());
    let version = reader.u32().map_err(short)?;
    if version != VERSION {
        return Err(Error::Version { what: what.into(), version, known: VERSION });
    }
    reader.u32().map_err(short)?;
    if reader.u128().map_err(short)? != store_id {
        return foreign("it is of another store or partition");
    }
    match reader.u64().map_err(short)? {
        found if found == number => Ok(()),
        found => Err(damaged(format!("it is checkpoint {found} under another name"))),
    }
}
