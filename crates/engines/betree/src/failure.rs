//! The errors of the log, as errors of the contract.

use halite_contract::Error;
use halite_wal::Stopped;

use crate::error::Error as BetreeError;

/// An error of the log.
pub(crate) fn from_log(error: halite_wal::Error) -> Error {
    use halite_disk::Error::{Failed, NoSpace, PowerCut};
    match error {
        halite_wal::Error::NoFile(reason) => match &*reason {
            NoSpace { .. } => BetreeError::LogFull { reason }.into(),
            Failed { .. } | PowerCut { .. } => Error::Disk(reason),
            // A file that could not be made is not there.
            _ => BetreeError::LogFile { reason }.into(),
        },
        halite_wal::Error::Disk(reason) => Error::Disk(reason),
        halite_wal::Error::NoSegment(reason) => BetreeError::LogSegment { reason }.into(),
        halite_wal::Error::Pool(reason) => match &*reason {
            halite_alloc::Error::Pool(halite_pmem::Error::PowerCut { path }) => {
                Error::Pool(halite_pmem::Error::PowerCut { path: path.clone() })
            }
            _ => BetreeError::LogPool { reason }.into(),
        },
        halite_wal::Error::Damaged { file, what, why } => {
            Error::DamagedFile { file, why: format!("{what}: {why}") }
        }
        halite_wal::Error::Missing { file } => {
            Error::DamagedFile { file, why: "it is missing".into() }
        }
        error => BetreeError::Log(error).into(),
    }
}

/// Why the log was not replayed to its end.
pub(crate) fn from_replay(stopped: Stopped<Error>) -> Error {
    match stopped {
        Stopped::Log(error) => from_log(error),
        Stopped::Replay(error) => error,
    }
}
