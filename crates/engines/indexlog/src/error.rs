//! The errors that only this engine has.

use halite_contract::{ErrorClass, OwnError};

/// An error of this engine, which travels through the contract as
/// [`halite_contract::Error::Own`]: [`Error::of`] finds it there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such index.
    #[error("an index keeps 0, 2, 4 or 8 bytes of each key, not {key_bytes}")]
    KeyBytes {
        /// The bytes of each key that were asked for.
        key_bytes: usize,
    },

    /// A store that exists cannot be given a change log.
    #[error(
        "the store was made without a change log, which only a new store can be given; \
         open it without the option, or copy its data to a new store"
    )]
    ChangeLogAtCreation,

    /// There is no room to spread a store's keys over partitions anew.
    #[error(
        "the store cannot change from {from} to {to} partitions, which needs room for its live data \
         twice: {reason}; raise the size limit, or open it with {from}"
    )]
    RepartitionFull {
        /// The partitions that it has.
        from: usize,
        /// The partitions that were asked for.
        to: usize,
        /// Why there is no room.
        reason: Box<halite_contract::Error>,
    },
}

impl Error {
    /// The error of this engine in one of the contract, if it is one.
    #[must_use]
    pub fn of(error: &halite_contract::Error) -> Option<&Self> {
        error.own()
    }
}

impl From<Error> for halite_contract::Error {
    fn from(error: Error) -> Self {
        // None of them is of a write, for which room could be made.
        Self::Own(OwnError::new(ErrorClass::Other, error))
    }
}
