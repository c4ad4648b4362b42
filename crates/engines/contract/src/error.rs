//! The errors of an engine.

use std::sync::Arc;
use std::time::Duration;

use crate::{Damage, Holder, KEY_LEN_MAX, KEY_SPACE_NAME_LEN_MAX, KeySpaceId, VALUE_LEN_MAX};

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

    /// The pool is full, and the levels below it take no records.
    #[error("the pool is full, and its oldest records cannot go to the levels: {reason}")]
    NoRoomBelow {
        /// Why they take none.
        reason: Arc<Error>,
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
    /// An engine's own option has a value that the engine does not know.
    #[error("{why}")]
    InvalidOption {
        /// Which value it has, and which values there are.
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
        reason: Box<Error>,
    },
    /// The store has no change log.
    #[error(
        "the store was made without a change log; make one with it, and copy this one's data there"
    )]
    NoChangeLog,
    /// A store that exists cannot be given a change log.
    #[error(
        "the store was made without a change log, which only a new store can be given; \
         open it without the option, or copy its data to a new store"
    )]
    ChangeLogAtCreation,
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
        shown(at), space.0
    )]
    Conflict {
        /// The key space.
        space: KeySpaceId,
        /// The key, or the first key of the range.
        at: Vec<u8>,
    },
    /// Transactions wait for each other in a circle.
    #[error(
        "transactions wait for each other in a circle, and this one closed it at `{}` in key space {}; run it \
         again, or let all lock their keys in the same order",
        shown(at), space.0
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
        shown(at), space.0
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

    /// A store of the engine cannot be repaired where it lies.
    #[error(
        "the engine `{engine}` keeps everything in one pool, which cannot be repaired; restore a backup"
    )]
    NoRepair {
        /// The engine.
        engine: String,
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
fn shown(key: &[u8]) -> impl std::fmt::Display {
    const SHOWN: usize = 64;
    let rest = if key.len() > SHOWN { "..." } else { "" };
    format!("{}{rest}", key[..key.len().min(SHOWN)].escape_ascii())
}

impl Error {
    /// Whether the same transaction, run again from its beginning, may well succeed: it failed because of
    /// another transaction.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Deadlock { .. } | Self::LockTimeout { .. })
    }

    /// Whether a write was refused because the process or the system has no descriptor, or no memory, for a
    /// file at the moment. No operation of that write was applied.
    #[must_use]
    pub fn lacks_descriptors(&self) -> bool {
        use halite_disk::Error::TooManyFiles;
        match self {
            Self::NoRoomBelow { reason } => reason.lacks_descriptors(),
            Self::LogFile { .. } => true,
            Self::LogFull { reason } | Self::Disk(reason) => {
                matches!(**reason, TooManyFiles { .. })
            }
            _ => false,
        }
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
            Self::NoRoomBelow { reason } => reason.lacks_space(),
            Self::LogFull { reason } | Self::ValuesFull { reason } | Self::Disk(reason) => {
                matches!(**reason, DiskNoSpace { .. })
            }
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
    fn space_is_lacking_only_where_some_can_be_made() {
        let full = || Error::Full { used: 1, limit: 1, held: 0, holder: None };
        let disk = |error| Error::Disk(Arc::new(error));
        let path = || "000007.sst".into();
        let below = |reason| Error::NoRoomBelow { reason: Arc::new(reason) };
        let io = || std::io::Error::from_raw_os_error(5);
        for (reason, lacks) in [
            (full(), true),
            (disk(halite_disk::Error::NoSpace { path: path() }), true),
            (disk(halite_disk::Error::Failed { path: path() }), false),
            (disk(halite_disk::Error::TooManyFiles { path: path() }), false),
            (disk(halite_disk::Error::Io { path: path(), action: "write", source: io() }), false),
            (Error::Pool(halite_pmem::Error::NoSpace { path: path(), bytes: 1 }), true),
            (
                Error::Pool(halite_pmem::Error::Io { path: path(), action: "map", source: io() }),
                false,
            ),
            (Error::Poisoned { why: String::new() }, false),
        ] {
            assert_eq!(reason.lacks_space(), lacks, "{reason}");
            let below = below(reason);
            assert_eq!(below.lacks_space(), lacks, "{below}");
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
