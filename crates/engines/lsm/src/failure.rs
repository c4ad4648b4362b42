//! Errors as the engine reports them, and what they say of a batch.

use std::sync::Arc;

use halite_contract::Error;
use halite_sst::ValueRef;

use crate::address::Address;
use crate::levels::{self, CURRENT, value_name};

/// The name of the pool, where an error of the levels names a file: their entries come from there.
pub(crate) const POOL: &str = "the pool";

/// An error of the levels, as the engine reports it.
pub(crate) fn from_levels(error: levels::Error) -> Error {
    use levels::Error as Levels;
    let error = match error {
        Levels::Damaged { file, what, why } if file == POOL => return Error::Damaged { what, why },
        error => error,
    };
    let why = match &error {
        Levels::Disk(error) => return Error::Disk(Arc::clone(error)),
        Levels::Stopped { why } => return Error::Poisoned { why: why.clone() },
        Levels::NotBuiltIn { file } => {
            let what = format!("{}, which is compressed with Zstandard,", in_folder(file));
            return Error::NotBuiltIn { what, feature: "zstd" };
        }
        Levels::Closing => return Error::Poisoned { why: error.to_string() },
        Levels::Damaged { what, why, .. } => format!("{what}: {why}"),
        Levels::Missing { .. } => "it is missing".into(),
        Levels::Foreign { found, wanted, .. } => {
            format!("it belongs to the store {found:032x}, not to {wanted:032x}; move it away")
        }
        Levels::Misnamed { found, .. } => format!("it says that its number is {found}"),
        Levels::NoManifest => "it is missing, though there are tables".into(),
        Levels::Nothing => {
            let why =
                "nothing in their folder is the store's: name the folder that has them".into();
            return Error::Damaged { what: "the levels".into(), why };
        }
        Levels::Format { found, known, .. } => {
            format!(
                "it has format {found}, and this version reads {known}: use the one that wrote it"
            )
        }
    };
    let file = match error {
        Levels::NoManifest => CURRENT,
        _ => error.file().unwrap_or_default(),
    };
    Error::DamagedFile { file: in_folder(file), why }
}

/// An error of making a cache, as the engine reports it.
pub(crate) fn from_cache(error: halite_cache::Error) -> Error {
    match error {
        halite_cache::Error::Alloc(error) => error.into(),
        // Without memory for its table, the pool is as good as full.
        halite_cache::Error::NoMemory { pool_bytes: limit } => {
            Error::Full { used: 0, limit, held: 0, holder: None }
        }
        other => Error::Damaged { what: "the cache".into(), why: other.to_string() },
    }
}

/// A file of the levels, as seen from the pool's folder.
pub(crate) fn in_folder(file: &str) -> String {
    format!("{}/{file}", crate::Lsm::LEVELS)
}

/// The error that a file is gone which a version needs.
pub(crate) fn gone(value: &ValueRef) -> Error {
    from_levels(levels::Error::Missing { file: value_name(value.number) })
}

/// The error of an address that points nowhere.
pub(crate) fn lost(address: Address) -> Error {
    Error::Damaged {
        what: format!("the record at {address:?}"),
        why: "an index leads to a memtable that there is not".into(),
    }
}

/// Whether an error is for lack of space on the disk.
pub(crate) fn lacks_space(error: &Error) -> bool {
    let is_no_space =
        |error: &halite_disk::Error| matches!(error, halite_disk::Error::NoSpace { .. });
    match error {
        Error::Disk(error) => is_no_space(error),
        Error::LogFull { reason } => is_no_space(reason),
        _ => false,
    }
}

/// Whether a pool has no room.
pub(crate) fn is_full(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::Alloc(halite_alloc::Error::Full { .. }))
}

/// Whether there is no room for a batch: it changed nothing, and there may be room for a smaller one.
pub(crate) fn lacks_room(error: &Error) -> bool {
    use Error::{BatchTooLarge, LogFull, NoRoomBelow};
    is_full(error) || matches!(error, NoRoomBelow { .. } | LogFull { .. } | BatchTooLarge { .. })
}
