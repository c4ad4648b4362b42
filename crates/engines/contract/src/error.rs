//! The errors of an engine.

use std::sync::Arc;

use crate::{
    Damage, ErrorClass, Holder, KEY_LEN_MAX, KEY_SPACE_NAME_LEN_MAX, KeySpaceId, OwnError,
    VALUE_LEN_MAX,
};

/// A result of an engine.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of an engine: the thing, the reason, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no room for a write, and no garbage left to collect.
    #[error(
        "the store is full: {used} of at most {limit} bytes hold live data{}; \
         delete something, raise the size limit, or free space on the device", held_by_snapshots(*.held, *.holder)
    )]
    Full {
        /// Bytes that cannot be reclaimed.
        used: u64,
        /// Bytes that the store may take.
        limit: u64,
        /// Bytes that could be reclaimed if no snapshot or scan read them any more.
        held: u64,
        /// The oldest of those snapshots and scans, if the engine knows it.
        holder: Option<Holder>,
    },

    /// A key is longer than [`KEY_LEN_MAX`].
    #[error("the key is {len} bytes long; the limit is {KEY_LEN_MAX}")]
    KeyTooLong {
        /// The key's length in bytes.
        len: usize,
    },

    /// A value is longer than [`VALUE_LEN_MAX`].
    #[error("the value is {len} bytes long; the limit is {VALUE_LEN_MAX}")]
    ValueTooLong {
        /// The value's length in bytes.
        len: usize,
    },

    /// A batch is larger than the engine can make atomic.
    #[error("the batch takes {len} bytes; the limit is {limit}; split it")]
    BatchTooLarge {
        /// The size of the batch, in bytes.
        len: u64,
        /// The engine's limit, in bytes.
        limit: u64,
    },

    /// A key space's name is empty or longer than [`KEY_SPACE_NAME_LEN_MAX`].
    #[error("a key space's name has 1 to {KEY_SPACE_NAME_LEN_MAX} bytes, this one has {len}")]
    KeySpaceName {
        /// The name's length in bytes.
        len: usize,
    },

    /// A store cannot have so many partitions.
    #[error("a store has 1 to {limit} partitions, not {asked}")]
    Partitions {
        /// How many were asked for.
        asked: usize,
        /// The engine's limit.
        limit: usize,
    },
    /// The engine's stores keep the partitions that they were made with, which divide keys by hash.
    #[error(
        "a store of the engine `{engine}` keeps its {is} partitions, spread by hash; open it without the \
         option, or copy its data to a new store"
    )]
    FixedPartitions {
        /// The engine.
        engine: &'static str,
        /// The partitions that the store has, or would have.
        is: usize,
    },
    /// The bounds of partitions do not ascend from a key that is not empty.
    #[error("the bounds of partitions have to ascend, and to begin above the empty key")]
    PartitionBounds,
    /// The store has no change log.
    #[error(
        "the store was made without a change log; make one with it, and copy this one's data there"
    )]
    NoChangeLog,
    /// A position's changes are not kept any more.
    #[error(
        "position {position} of partition {partition} was released: the oldest that is kept is {oldest}; \
         begin with a snapshot or a full backup, or let the change log retain more"
    )]
    ChangesReleased {
        /// The partition.
        partition: usize,
        /// The position asked for.
        position: u64,
        /// The oldest position that can be read from.
        oldest: u64,
    },
    /// Reading cannot begin at a position: it lies behind the end, or within a batch.
    #[error(
        "position {position} is none of partition {partition}, whose changes end at {end}; \
         take one that reading returned"
    )]
    NoChangePosition {
        /// The partition.
        partition: usize,
        /// The position asked for.
        position: u64,
        /// The position behind the last durable change.
        end: u64,
    },
    /// The engine takes no snapshots.
    #[error(
        "this engine takes no snapshots; `halite dump` and `halite load` copy the data to one that does"
    )]
    NoSnapshots,
    /// A key space was dropped, or never existed.
    #[error("there is no such key space: it was dropped, or belongs to another store")]
    NoSuchKeySpace,

    /// The engine cannot make a write depend on earlier reads.
    #[error(
        "this engine offers no transactions; `halite dump` and `halite load` copy the data to one that does"
    )]
    NoTransactions,
    /// A snapshot is not of the store that it is used with.
    #[error("the snapshot is of another store, or of this one before it was opened again")]
    ForeignSnapshot,
    /// A key or range that a write relies on was changed by another write since.
    #[error(
        "`{}` in key space {}, or a key behind it in the range that was read, was changed since the \
         transaction began; run the transaction again",
        shown_key(at), space.0
    )]
    Conflict {
        /// The key space.
        space: KeySpaceId,
        /// The key, or the first key of the range.
        at: Vec<u8>,
    },

    /// Stored bytes do not have their checksum, or contradict each other.
    #[error("damaged: {what}: {why}; run `halite check` and restore from a copy")]
    Damaged {
        /// Which part of the store.
        what: String,
        /// A description of the damage.
        why: String,
    },

    /// A file beside the pool is missing, damaged, or not the store's. Data outside it can be read.
    #[error(
        "damaged: {file}: {why}; `halite check` tells all that is damaged; restore a copy, or go on without it \
         by `halite repair`"
    )]
    DamagedFile {
        /// The file, as seen from the pool's folder.
        file: String,
        /// A description of the damage.
        why: String,
    },

    /// The store holds the data of another engine.
    #[error(
        "the store was made by the engine `{found}`, not by `{wanted}`; open it with `{found}`"
    )]
    OtherEngine {
        /// The engine asked for.
        wanted: String,
        /// The engine that made the store.
        found: String,
    },

    /// A partition of a store that opened on demand could not be recovered.
    #[error("partition {partition} could not be recovered: {reason}")]
    NotRecovered {
        /// The partition.
        partition: usize,
        /// Why it could not be recovered.
        reason: Arc<Error>,
    },

    /// An earlier failure left the engine unable to write safely.
    #[error("the store no longer takes writes after an earlier failure ({why}); reopen it")]
    Poisoned {
        /// The earlier failure.
        why: String,
    },

    /// An error that only this engine has.
    #[error(transparent)]
    Own(#[from] OwnError),

    /// An error of space management.
    #[error(transparent)]
    Alloc(#[from] halite_alloc::Error),

    /// An error of the files beside the pool.
    #[error(transparent)]
    Disk(#[from] Arc<halite_disk::Error>),
    /// An error of the pool.
    #[error(transparent)]
    Pool(#[from] halite_pmem::Error),
}

/// The part of the message of a full store about the bytes that only snapshots and scans keep.
fn held_by_snapshots(bytes: u64, holder: Option<Holder>) -> String {
    let oldest = holder.map(|holder| format!(" (the oldest is {holder})")).unwrap_or_default();
    match bytes {
        0 => String::new(),
        _ => format!(
            ", and {bytes} only what open snapshots or scans may still read: drop those{oldest}"
        ),
    }
}

/// The beginning of a key, as a message shows it.
pub fn shown_key(key: &[u8]) -> impl std::fmt::Display {
    const SHOWN: usize = 64;
    let rest = if key.len() > SHOWN { "..." } else { "" };
    format!("{}{rest}", key[..key.len().min(SHOWN)].escape_ascii())
}

impl Error {
    /// The error of one engine's own, if it is one of this type.
    #[must_use]
    pub fn own<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Own(own) => own.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the same transaction, run again from its beginning, may well succeed: it failed because of
    /// another one.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Whether a write was refused because the process or the system has no descriptor, or no memory, for a
    /// file at the moment. No operation of that write was applied.
    #[must_use]
    pub fn lacks_descriptors(&self) -> bool {
        match self {
            Self::Own(own) => own.class() == ErrorClass::NoDescriptors,
            Self::Disk(reason) => matches!(**reason, halite_disk::Error::TooManyFiles { .. }),
            _ => false,
        }
    }

    /// Whether bytes from outside the store, such as a stream, are damaged or cut off. The store is as it was.
    #[must_use]
    pub fn is_damaged_input(&self) -> bool {
        matches!(self, Self::Own(own) if own.class() == ErrorClass::DamagedInput)
    }

    /// Whether there is no room for a write, and there may be some once keys are deleted, or space is freed
    /// on the device. It is false for a full store that only fails to hand its records on, such as to a
    /// disk that fails.
    #[must_use]
    pub fn lacks_space(&self) -> bool {
        use halite_disk::Error::NoSpace as DiskNoSpace;
        use halite_pmem::Error::{NoSpace, SizeLimit};
        match self {
            Self::Full { .. }
            | Self::Alloc(halite_alloc::Error::Full { .. })
            | Self::Pool(NoSpace { .. } | SizeLimit { .. })
            | Self::Alloc(halite_alloc::Error::Pool(NoSpace { .. } | SizeLimit { .. })) => true,
            Self::Own(own) => own.class() == ErrorClass::NoSpace,
            Self::Disk(reason) => matches!(**reason, DiskNoSpace { .. }),
            _ => false,
        }
    }

    /// Whether the kernel refused a request for the pool: memory, a descriptor, or a longer file. If no
    /// sync of the pool has failed, the pool has not changed.
    #[must_use]
    pub fn is_of_pool_kernel(&self) -> bool {
        use halite_pmem::Error::Io;
        matches!(self, Self::Pool(Io { .. }) | Self::Alloc(halite_alloc::Error::Pool(Io { .. })))
    }

    /// The damage, if the error reports some.
    #[must_use]
    pub fn damage(&self) -> Option<Damage> {
        let (what, why) = match self {
            Self::Damaged { what, why }
            | Self::Alloc(halite_alloc::Error::Damaged { what, why, .. }) => {
                (what.clone(), why.clone())
            }
            Self::DamagedFile { file, why } => (file.clone(), why.clone()),
            Self::Alloc(truncated @ halite_alloc::Error::Truncated { .. }) => {
                ("pool".to_owned(), truncated.to_string())
            }
            Self::Pool(out @ halite_pmem::Error::OutOfBounds { .. })
            | Self::Alloc(halite_alloc::Error::Pool(
                out @ halite_pmem::Error::OutOfBounds { .. },
            )) => ("pool".to_owned(), out.to_string()),
            Self::NotRecovered { reason, .. } => return reason.damage(),
            _ => return None,
        };
        Some(Damage { what, why })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Reader;

    #[test]
    fn a_full_store_says_what_holds_its_space_and_since_when() {
        let age = Duration::from_millis(12_340);
        let holder = Some(Holder { reader: Reader::Backup, age });
        let full = |held| Error::Full { used: 1, limit: 9, held, holder }.to_string();
        assert!(full(7).contains("and 7 only what"), "{}", full(7));
        assert!(full(7).contains("a backup that began 12.3 s ago"), "{}", full(7));
        assert!(!full(0).contains("backup"), "it holds nothing: {}", full(0));
    }

    #[test]
    fn an_error_of_an_engine_is_told_as_itself_and_decided_by_its_class() {
        let own =
            |class| Error::from(OwnError::new(class, std::io::Error::other("the log is full")));
        for (class, lacks) in [
            (ErrorClass::NoSpace, [true, false]),
            (ErrorClass::NoDescriptors, [false, true]),
            (ErrorClass::DamagedInput, [false, false]),
            (ErrorClass::Other, [false, false]),
        ] {
            let error = own(class);
            assert_eq!([error.lacks_space(), error.lacks_descriptors()], lacks, "{class:?}");
            assert_eq!(error.is_damaged_input(), class == ErrorClass::DamagedInput);
            assert_eq!(error.to_string(), "the log is full");
            assert!(error.own::<std::io::Error>().is_some() && error.own::<Error>().is_none());
        }
    }

    #[test]
    fn damage_is_told_wherever_it_was_met() {
        let truncated = halite_alloc::Error::Truncated { path: "data".into(), says: 2, is: 1 };
        let damage = Error::from(truncated).damage();
        assert!(damage.is_some_and(|damage| damage.why.contains("truncated")));
        assert_eq!(Error::NoSuchKeySpace.damage(), None);
    }
}
