//! The engine's own errors.

use std::sync::Arc;

use halite_contract::{ErrorClass, OwnError};

use crate::catalogue::OWN;
use crate::object::limits::{NAME_LEN_MAX, OBJECT_LEN_MAX, STORE_NAME_LEN_MAX};
use crate::storage::Address;
use crate::transfer::StreamError;

/// A result of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the Bε-tree engine.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An extent does not have the bytes that its parent's checksum asks for, on any replica.
    #[error("the {what} at {address} is damaged: {why}")]
    Damaged {
        /// The kind of the damaged thing.
        what: &'static str,
        /// The place of its extent.
        address: Address,
        /// The defect.
        why: String,
    },

    /// A message cannot be merged or stored.
    #[error("a message of the store has a defect: {why}")]
    Message {
        /// The defect.
        why: String,
    },

    /// No class that may take an extent has room for it.
    #[error(
        "the storage pool has no room for {blocks} more blocks of 4 KiB; delete data or snapshots, or add a device"
    )]
    NoSpace {
        /// Blocks of the extent.
        blocks: u32,
    },

    /// A storage class that the pool does not have.
    #[error(
        "the {what} are to lie in storage class {class}, and the pool has {classes}, from 0 on; choose one of these"
    )]
    NoSuchClass {
        /// The data that is to lie there.
        what: &'static str,
        /// The class.
        class: u8,
        /// The number of classes.
        classes: usize,
    },

    /// A storage class has no room for data that is to move there.
    #[error(
        "storage class {class} has no room for what is to move there; what was moved stays; add a device, or move other data away"
    )]
    ClassFull {
        /// The class.
        class: u8,
    },

    /// Migration is off.
    #[error("automatic migration is off; open the store with the option `migration`")]
    MigrationOff,

    /// An option of migration has a value that it cannot have.
    #[error("the option {option} of migration is {value}, and may be {range}")]
    MigrationOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// The values that it may have.
        range: &'static str,
    },

    /// A dataset that is to be dropped has snapshots.
    #[error(
        "the dataset has the snapshot `{snapshot}`; delete its snapshots, or destroy it with them"
    )]
    HasSnapshots {
        /// One of them.
        snapshot: String,
    },

    /// There is a dataset of the name.
    #[error("there is a dataset `{name}` already; choose another name, or drop or rename that")]
    KeySpaceExists {
        /// The name.
        name: String,
    },

    /// A dataset has no such snapshot.
    #[error("the dataset has no snapshot `{name}`; list its snapshots for those that it has")]
    NoSuchSnapshot {
        /// The name that was asked for.
        name: String,
    },

    /// A dataset has a snapshot of the name.
    #[error("the dataset has a snapshot `{name}` already; choose another name, or delete that")]
    SnapshotExists {
        /// The name.
        name: String,
    },

    /// A clone needs a snapshot that is to be deleted.
    #[error("the dataset `{clone}` is a clone of the snapshot `{name}`; drop it first")]
    SnapshotInUse {
        /// The snapshot.
        name: String,
        /// One of its clones.
        clone: String,
    },

    /// A rollback would delete snapshots.
    #[error(
        "the snapshot `{newer}` is newer than `{name}`; delete the newer ones, or force the rollback"
    )]
    SnapshotNotNewest {
        /// The snapshot to roll back to.
        name: String,
        /// One of the newer ones.
        newer: String,
    },

    /// A copy would make keys too long.
    #[error(
        "copies may have made the keys {growth} bytes longer then, and {max} bytes is the most; choose a shorter prefix, or \
         write the keys anew"
    )]
    CopyGrowsKeys {
        /// Bytes by which copies may have made keys longer then.
        growth: usize,
        /// The most bytes.
        max: usize,
    },

    /// The build lacks what the options ask for.
    #[error("{why}")]
    NotBuiltIn {
        /// The missing part, and the way out.
        why: String,
    },

    /// No superblock of the pool can be read.
    #[error("no superblock of the storage pool can be read ({}); restore a copy", found.join("; "))]
    NoSuperblock {
        /// The finding on each device.
        found: Vec<String>,
    },

    /// The newest superblock that the devices have is older than one that was durable.
    #[error(
        "the devices have the store as of generation {found}, and it was at {newest}; bring the others back ({})",
        lacks.join("; ")
    )]
    RolledBack {
        /// The generation that they have.
        found: u64,
        /// The generation that was durable.
        newest: u64,
        /// The devices that were not found; if there is none, the newest superblock is damaged.
        lacks: Vec<String>,
    },

    /// A vdev lacks too many of its devices.
    #[error("{reason} ({})", found.join("; "))]
    Assembly {
        /// The vdev's error.
        reason: Arc<halite_vdev::Error>,
        /// The findings on the devices.
        found: Vec<String>,
    },

    /// A device cannot be used.
    #[error("the device {device} cannot be used: {why}")]
    Device {
        /// The device, as in a topology.
        device: String,
        /// The reason, and the way out.
        why: String,
    },

    /// A topology has more devices than a superblock has room for.
    #[error(
        "the topology takes {len} bytes of the superblock, which has room for {max}; shorten the paths"
    )]
    TopologyTooLong {
        /// The bytes.
        len: usize,
        /// The room.
        max: usize,
    },

    /// There is no leaf at a position.
    #[error("the store has no device at class {}, vdev {}, leaf {}", position.class, position.vdev, position.leaf)]
    NoSuchLeaf {
        /// The position.
        position: halite_vdev::Position,
    },

    /// A scrub or a resilver is under way already.
    #[error("a scrub or a resilver is under way; wait for its end, or stop it")]
    PassUnderWay,

    /// The log cannot grow, as its disk is full.
    #[error("the log has no room on its disk: {reason}; free space there, or delete data")]
    LogFull {
        /// The error of the disk.
        reason: Arc<halite_disk::Error>,
    },

    /// The log cannot go on in a new file.
    #[error("the log cannot go on in a new file: {reason}; remove the reason and write again")]
    LogFile {
        /// The error of the disk.
        reason: Arc<halite_disk::Error>,
    },

    /// The log has no room in the pool.
    #[error("the log has no room in the pool: {reason}; let the pool be larger, or delete data")]
    LogSegment {
        /// The error of the pool.
        reason: Arc<halite_alloc::Error>,
    },

    /// The log in the pool cannot be written.
    #[error("the log in the pool cannot be written: {reason}")]
    LogPool {
        /// The error of the pool.
        reason: Arc<halite_alloc::Error>,
    },

    /// The log takes no more batches.
    #[error(transparent)]
    Log(halite_wal::Error),

    /// A key space cannot have a name of the engine's own.
    #[error(
        "names of key spaces that begin with {OWN:?} are kept for object stores; choose another one"
    )]
    OwnName,

    /// The name of an object store is empty or too long.
    #[error("the name of an object store has 1 to {STORE_NAME_LEN_MAX} bytes, this one has {len}")]
    ObjectStoreName {
        /// The name's length in bytes.
        len: usize,
    },

    /// There is no object store of that name, or it was dropped.
    #[error("there is no object store {name:?}")]
    NoSuchObjectStore {
        /// The name.
        name: String,
    },

    /// The name of an object is empty or too long.
    #[error("the name of an object has 1 to {NAME_LEN_MAX} bytes, this one has {len}")]
    ObjectName {
        /// The name's length in bytes.
        len: usize,
    },

    /// There is no such object, or it was deleted.
    #[error("there is no object {object}")]
    NoSuchObject {
        /// The name, or `#` and the id of an object that was open.
        object: String,
    },

    /// There is an object of that name.
    #[error("there is an object {object} already; delete it, or choose another name")]
    ObjectExists {
        /// The name.
        object: String,
    },

    /// An object would be longer than any.
    #[error("an object has at most {OBJECT_LEN_MAX} bytes")]
    ObjectTooLong,

    /// A key of custom metadata is too long.
    #[error("a key of custom metadata has at most {NAME_LEN_MAX} bytes, this one has {len}")]
    ObjectMetadataKey {
        /// The key's length in bytes.
        len: usize,
    },

    /// The store of an object was closed.
    #[error("the store was closed; open it, its object stores and objects again")]
    Closed,

    /// A dataset has no action for messages.
    #[error("the dataset has no action for messages; set one before the first message")]
    NoAction,

    /// An action is not registered.
    #[error(
        "the action `{action}` of the dataset's messages is not registered; open the store with it in its options"
    )]
    ActionMissing {
        /// Its name.
        action: String,
    },

    /// An action panicked, or broke its law.
    #[error(
        "the action `{action}` of the dataset's messages panicked, or broke its law; mend it, and open the store again"
    )]
    ActionFailed {
        /// Its name.
        action: String,
    },

    /// A dataset has another action.
    #[error("the dataset has the action `{action}` for its messages, and keeps it")]
    OtherAction {
        /// Its name.
        action: String,
    },

    /// A message is too long.
    #[error("an upsert, or a message, has at most {max} bytes, this one has {len}; send several")]
    MessageTooLong {
        /// Its bytes.
        len: usize,
        /// The most bytes.
        max: usize,
    },

    /// An upsert would make a value too long.
    #[error("a value has at most {max} bytes, and the upsert makes one of {len}")]
    UpsertTooLong {
        /// The value's bytes.
        len: usize,
        /// The most bytes.
        max: usize,
    },

    /// A snapshot cannot be sent, or received.
    #[error(transparent)]
    Stream(#[from] StreamError),

    /// An error of a device of the storage pool.
    #[error(transparent)]
    Vdev(#[from] Arc<halite_vdev::Error>),
}

impl From<halite_vdev::Error> for Error {
    fn from(error: halite_vdev::Error) -> Self {
        Self::Vdev(Arc::new(error))
    }
}

impl From<Error> for halite_contract::Error {
    fn from(error: Error) -> Self {
        let class = match &error {
            Error::Damaged { what, address, why } => {
                return Self::Damaged {
                    what: format!("the {what} at {address}"),
                    why: why.clone(),
                };
            }
            Error::NoSpace { .. }
            | Error::ClassFull { .. }
            | Error::LogFull { .. }
            | Error::LogSegment { .. } => ErrorClass::NoSpace,
            Error::LogFile { .. } => ErrorClass::NoDescriptors,
            Error::Stream(stream) if stream.is_damage() => ErrorClass::DamagedInput,
            Error::Vdev(vdev) if matches!(**vdev, halite_vdev::Error::NoSpace { .. }) => {
                ErrorClass::NoSpace
            }
            _ => ErrorClass::Other,
        };
        Self::Own(OwnError::new(class, error))
    }
}
