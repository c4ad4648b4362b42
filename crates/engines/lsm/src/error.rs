//! The errors that only this engine has.

use std::sync::Arc;

use halite_contract::{ErrorClass, OwnError};

/// An error of this engine, which travels through the contract as
/// [`halite_contract::Error::Own`]: [`Error::of`] finds it there.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool is full, and the levels below it take no records.
    #[error("the pool is full, and its oldest records cannot go to the levels: {reason}")]
    NoRoomBelow {
        /// Why they take none.
        reason: Arc<halite_contract::Error>,
    },

    /// The log cannot grow. No operation of the batch was written, and the store can be written to when
    /// there is room.
    #[error("the log cannot take the batch: {reason}")]
    LogFull {
        /// Why it cannot grow.
        reason: Arc<halite_disk::Error>,
    },

    /// The log cannot go on in a new file, for another reason than a lack of room. No operation of the
    /// batch was written, and the store can be written to as soon as there is a file.
    #[error("the log cannot begin a new file, and the batch was not written: {reason}")]
    LogFile {
        /// Why there is no file.
        reason: Arc<halite_disk::Error>,
    },

    /// The disk of the levels has no room for a large value. No operation of the batch was written, and the
    /// store can be written to when there is room.
    #[error("the levels' disk has no room for a large value: {reason}")]
    ValuesFull {
        /// Why it cannot be written.
        reason: Arc<halite_disk::Error>,
    },

    /// A batch that was committed together with those of other threads failed with them.
    #[error("a commit for several threads failed: {why}")]
    CommittedTogether {
        /// The failure.
        why: String,
    },

    /// An option or a stored file needs a feature that this build lacks.
    #[error("{what} needs the feature `{feature}`; build with `--features {feature}`")]
    NotBuiltIn {
        /// The option or file that needs it.
        what: String,
        /// The feature of the crate `halite`, and of the command.
        feature: &'static str,
    },
}

impl Error {
    /// The error of this engine in one of the contract, if it is one.
    #[must_use]
    pub fn of(error: &halite_contract::Error) -> Option<&Self> {
        error.own()
    }

    /// Whether it says that there is no room for a batch, or for a large value of it.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(self, Self::NoRoomBelow { .. } | Self::LogFull { .. } | Self::ValuesFull { .. })
    }

    fn class(&self) -> ErrorClass {
        use halite_disk::Error::{NoSpace, TooManyFiles};
        match self {
            Self::NoRoomBelow { reason } if reason.lacks_space() => ErrorClass::NoSpace,
            Self::NoRoomBelow { reason } if reason.lacks_descriptors() => ErrorClass::NoDescriptors,
            Self::LogFull { reason } | Self::ValuesFull { reason }
                if matches!(**reason, NoSpace { .. }) =>
            {
                ErrorClass::NoSpace
            }
            Self::LogFull { reason } if matches!(**reason, TooManyFiles { .. }) => {
                ErrorClass::NoDescriptors
            }
            Self::LogFile { .. } => ErrorClass::NoDescriptors,
            _ => ErrorClass::Other,
        }
    }
}

impl From<Error> for halite_contract::Error {
    fn from(error: Error) -> Self {
        Self::Own(OwnError::new(error.class(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_lacking_only_where_some_can_be_made() {
        use halite_contract::Error as Reason;
        let full = || Reason::Full { used: 1, limit: 1, held: 0, holder: None };
        let disk = |error| Reason::Disk(Arc::new(error));
        let path = || "000007.sst".into();
        let io = || std::io::Error::from_raw_os_error(5);
        for (reason, lacks) in [
            (full(), true),
            (disk(halite_disk::Error::NoSpace { path: path() }), true),
            (disk(halite_disk::Error::Failed { path: path() }), false),
            (disk(halite_disk::Error::TooManyFiles { path: path() }), false),
            (disk(halite_disk::Error::Io { path: path(), action: "write", source: io() }), false),
            (Reason::Pool(halite_pmem::Error::NoSpace { path: path(), bytes: 1 }), true),
            (
                Reason::Pool(halite_pmem::Error::Io { path: path(), action: "map", source: io() }),
                false,
            ),
            (Reason::Poisoned { why: String::new() }, false),
        ] {
            let descriptors = reason.lacks_descriptors();
            let below = Reason::from(Error::NoRoomBelow { reason: Arc::new(reason) });
            assert_eq!(below.lacks_space(), lacks, "{below}");
            assert_eq!(below.lacks_descriptors(), descriptors, "{below}");
        }
        let no_space = || Arc::new(halite_disk::Error::NoSpace { path: path() });
        assert!(Reason::from(Error::LogFull { reason: no_space() }).lacks_space());
        assert!(Reason::from(Error::ValuesFull { reason: no_space() }).lacks_space());
        let no_file = Reason::from(Error::LogFile { reason: no_space() });
        assert!(no_file.lacks_descriptors() && !no_file.lacks_space());
    }
}
