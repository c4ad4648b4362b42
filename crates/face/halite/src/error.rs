//! The errors of a database.

use std::time::Duration;

use halite_contract::{Error as EngineError, Feature, KeySpaceId, shown_key};

use crate::Damage;

/// A result of a database.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a database: the thing, the reason, the way out.
///
/// Errors of transactions, named snapshots and the choice of an engine are its own; the errors of the stored data are
/// those of the engine.
///
/// ```
/// use halite::{Database, EngineError, Error};
/// let db = Database::in_memory()?;
/// let dropped = db.key_space("fruit")?;
/// db.drop_key_space(&dropped)?;
/// let refused = dropped.put("apple", "green");
/// assert!(matches!(refused, Err(Error::Engine(EngineError::NoSuchKeySpace))));
/// assert!(matches!(db.snapshot("before"), Err(Error::NoSuchSnapshot { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the engine: of a write, a read, or the store itself.
    #[error(transparent)]
    Engine(#[from] EngineError),

    /// There is a snapshot of this name.
    #[error("there is a snapshot `{name}` already; drop it, or choose another name")]
    SnapshotExists {
        /// The name.
        name: String,
    },

    /// There is no snapshot of this name.
    #[error("there is no snapshot `{name}`: it was dropped, or the store was closed since")]
    NoSuchSnapshot {
        /// The name.
        name: String,
    },

    /// Transactions wait for each other in a circle.
    #[error(
        "transactions wait for each other in a circle, and this one closed it at `{}` in key space {}; run it \
         again, or let all lock their keys in the same order",
        shown_key(at), space.0
    )]
    Deadlock {
        /// The key space.
        space: KeySpaceId,
        /// The key that would have been waited for.
        at: Vec<u8>,
    },

    /// A transaction waited for a lock for longer than it may.
    #[error(
        "another transaction holds `{}` in key space {}, and did not end within {waited:?}; run this one again, \
         or let it wait longer",
        shown_key(at), space.0
    )]
    LockTimeout {
        /// The key space.
        space: KeySpaceId,
        /// The key.
        at: Vec<u8>,
        /// How long the transaction waited.
        waited: Duration,
    },

    /// A transaction holds more than it may.
    #[error(
        "the transaction takes {len} bytes of memory for what it wrote, read and locked; the limit is {limit}; \
         split it, or raise the limit"
    )]
    TransactionTooLarge {
        /// The memory that it would take, in bytes.
        len: u64,
        /// Its limit, in bytes.
        limit: u64,
    },

    /// A savepoint is not one of the transaction, or not any more.
    #[error(
        "there is no such savepoint: it is of another transaction, or this one was rolled back to an earlier one"
    )]
    NoSuchSavepoint,

    /// A transaction is open for longer than it may be, and space that it could read cannot be reused.
    #[error(
        "the transaction began {age:?} ago; the limit is {limit:?}; split it, or raise the limit"
    )]
    TransactionTooOld {
        /// The time since it began.
        age: Duration,
        /// Its limit.
        limit: Duration,
    },

    /// A store of the engine cannot be repaired where it lies.
    #[error(
        "the engine `{engine}` keeps everything in one pool, which cannot be repaired; restore a backup"
    )]
    NoRepair {
        /// The engine.
        engine: String,
    },

    /// The engine has no such feature.
    #[error("the engine `{engine}` has no {feature}; {}", way_to(having))]
    Lacks {
        /// The engine.
        engine: &'static str,
        /// The feature.
        feature: Feature,
        /// The engines that have it.
        having: Vec<&'static str>,
    },

    /// The database in the folder is one that was restored and has not all of its names yet.
    #[error("another process is putting a restored database in its place; wait for it")]
    Restoring,

    /// There is no engine of this name.
    #[error("there is no engine `{name}`; there is: {known}")]
    UnknownEngine {
        /// The name asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
}

/// The way out for a user of an engine that lacks what others have.
fn way_to(having: &[&str]) -> String {
    let names: Vec<_> = having.iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => "no engine has".to_owned(),
        false => format!(
            "{} has: `halite dump`, and `halite load --engine {}`, copy the data",
            names.join(", "),
            having[0]
        ),
    }
}

impl Error {
    /// The error of the engine, if it is one.
    #[must_use]
    pub fn engine(&self) -> Option<&EngineError> {
        match self {
            Self::Engine(error) => Some(error),
            _ => None,
        }
    }

    /// The error that only one engine has, if it is one of this type, such as [`LsmError`](crate::LsmError).
    #[must_use]
    pub fn own<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.engine()?.own()
    }

    /// Whether the same transaction, run again from its beginning, may well succeed: it failed because of
    /// another transaction.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_retryable(),
            _ => matches!(self, Self::Deadlock { .. } | Self::LockTimeout { .. }),
        }
    }

    /// Whether a write was refused because the process or the system has no descriptor, or no memory, for a
    /// file at the moment. No operation of that write was applied.
    #[must_use]
    pub fn lacks_descriptors(&self) -> bool {
        self.engine().is_some_and(EngineError::lacks_descriptors)
    }

    /// Whether there is no room for a write, and there may be some once keys are deleted, or space is freed
    /// on the device. It is false for a full store that only fails to hand its records on, such as to a
    /// disk that fails.
    #[must_use]
    pub fn lacks_space(&self) -> bool {
        self.engine().is_some_and(EngineError::lacks_space)
    }

    /// The damage, if the error reports some.
    #[must_use]
    pub fn damage(&self) -> Option<Damage> {
        self.engine()?.damage()
    }
}

impl From<halite_pmem::Error> for Error {
    fn from(error: halite_pmem::Error) -> Self {
        Self::Engine(error.into())
    }
}
