//! The engine's errors, and the state in which each leaves a batch.

use std::sync::Arc;

use halite_contract::Error;
use halite_sst::ValueRef;

use crate::address::Address;
use crate::error::Error as LsmError;
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
            return LsmError::NotBuiltIn { what, feature: "zstd" }.into();
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

/// An error of the log as one of the levels, in whose folder it lies.
pub(crate) fn of_log(error: halite_wal::Error) -> levels::Error {
    use halite_wal::Error as Log;
    match error {
        Log::Damaged { file, what, why } => levels::Error::Damaged { file, what, why },
        Log::Missing { file } => levels::Error::Missing { file },
        Log::NoFile(error) | Log::Disk(error) => levels::Error::Disk(error),
        other => levels::Error::Stopped { why: other.to_string() },
    }
}

/// An error of the log, as the engine reports it.
pub(crate) fn from_log(error: halite_wal::Error) -> Error {
    use halite_disk::Error::{Failed, NoSpace, PowerCut};
    match error {
        halite_wal::Error::NoFile(reason) => match &*reason {
            NoSpace { .. } => LsmError::LogFull { reason }.into(),
            Failed { .. } | PowerCut { .. } => Error::Disk(reason),
            // A file that could not be made is not there.
            _ => LsmError::LogFile { reason }.into(),
        },
        error => from_levels(of_log(error)),
    }
}

/// Why the log was not replayed to its end, as the engine reports it.
pub(crate) fn from_replay(stopped: halite_wal::Stopped<Error>) -> Error {
    match stopped {
        halite_wal::Stopped::Log(error) => from_log(error),
        halite_wal::Stopped::Replay(error) => error,
    }
}

/// The error of a log that cannot grow: also where only the ballast has room.
pub(crate) fn no_room(error: halite_wal::Error) -> Error {
    match error {
        halite_wal::Error::Disk(reason)
            if matches!(*reason, halite_disk::Error::NoSpace { .. }) =>
        {
            LsmError::LogFull { reason }.into()
        }
        error => from_log(error),
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
        error => match LsmError::of(error) {
            Some(LsmError::LogFull { reason }) => is_no_space(reason),
            _ => false,
        },
    }
}

/// Whether the log cannot grow.
pub(crate) fn is_log_full(error: &Error) -> bool {
    matches!(LsmError::of(error), Some(LsmError::LogFull { .. }))
}

/// Whether a pool has no room.
pub(crate) fn is_full(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::Alloc(halite_alloc::Error::Full { .. }))
}

/// Whether there is no room for a batch: it changed nothing, and there may be room for a smaller one.
pub(crate) fn lacks_room(error: &Error) -> bool {
    use LsmError::{LogFull, NoRoomBelow};
    let own = LsmError::of(error);
    is_full(error)
        || matches!(error, Error::BatchTooLarge { .. })
        || matches!(own, Some(NoRoomBelow { .. } | LogFull { .. }))
}
