//! How the lab names the errors of a partition.

use halite_alloc::Error as SpaceError;
use halite_lab::Refusal;
use halite_table::Error;
use halite_table::index::Error as IndexError;
use halite_wal::Error as LogError;

/// Whether a partition has no room for a change.
pub(crate) fn is_full(error: &Error) -> bool {
    match error {
        Error::Heap(error) => matches!(**error, SpaceError::Full { .. }),
        Error::Index(error) => matches!(**error, IndexError::Heap(SpaceError::Full { .. })),
        _ => false,
    }
}

/// The refusal that an error is.
pub(crate) fn refusal(error: &Error) -> Refusal {
    let is_named = match error {
        Error::Heap(error) => named(error),
        Error::Index(error) => match &**error {
            IndexError::Heap(error) => named(error),
            IndexError::Damaged { .. }
            | IndexError::DamagedNode { .. }
            | IndexError::Foreign { .. } => Some(true),
            _ => Some(false),
        },
        Error::Damaged { .. } | Error::Foreign { .. } | Error::Version { .. } => Some(true),
        Error::Run(error) => Some(error.file().is_some()),
        Error::Log(LogError::Damaged { .. } | LogError::Missing { .. }) => Some(true),
        _ => Some(false),
    };
    match is_named {
        None => Refusal::UnsafeShutdown,
        Some(true) => Refusal::Named(error.to_string()),
        Some(false) => Refusal::Failed(error.to_string()),
    }
}

/// Whether a heap's error names damage; `None` for an unsafe shutdown.
fn named(error: &SpaceError) -> Option<bool> {
    match error {
        SpaceError::UnsafeShutdown { .. } => None,
        SpaceError::Damaged { .. }
        | SpaceError::Foreign { .. }
        | SpaceError::NotObjects { .. }
        | SpaceError::FutureVersion { .. } => Some(true),
        _ => Some(false),
    }
}
