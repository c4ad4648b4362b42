//! Snapshots that are sent to another store, or to a file.

use std::io::{Read, Write};

use crate::{Datasets, KeySpaceId, Progress, Result};

/// The beginning of a stream: the names that its snapshots have where it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// The key space.
    pub key_space: String,
    /// The snapshot.
    pub snapshot: String,
    /// The snapshot that it has the changes since; `None`: it has all of the key space.
    pub from: Option<String>,
}

/// The numbers of operations that a stream has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferReport {
    /// Keys that have another value.
    pub puts: u64,
    /// Keys that were deleted, each by itself.
    pub deletes: u64,
    /// Ranges of keys that were deleted.
    pub ranges: u64,
    /// Bytes of all that.
    pub bytes: u64,
}

/// An engine that writes kept snapshots to streams, and makes key spaces of these.
///
/// A *token* is a text in which a receiver says what it lacks of a stream that was interrupted.
pub trait Transfers: Datasets {
    /// Sends a snapshot, or the changes since an older one of the key space; with a token, the rest of a stream that was
    /// interrupted. `progress` gets the bytes of the stream and about how many there will be at the most, and may stop
    /// it.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`](crate::Error::NoSuchKeySpace); there is no such snapshot; `from` is not older; the token
    /// is of another transfer; the stream cannot be written; it was stopped; those of reads.
    fn send(
        &self,
        space: KeySpaceId,
        snapshot: &str,
        from: Option<&str>,
        token: Option<&str>,
        out: &mut dyn Write,
        progress: Progress<'_>,
    ) -> Result<TransferReport>;

    /// Reads how a stream begins, and no byte behind that.
    ///
    /// # Errors
    /// It cannot be read; it is none, or is damaged.
    fn stream_info(&self, input: &mut dyn Read) -> Result<StreamInfo>;

    /// Receives a stream as a new key space of the name, or as changes of that key space, in one commit, which is durable
    /// when this returns. After an error the key space is as it was. With `rollback`, a key space that has changed since
    /// the snapshot that the stream is based on goes back to that first. `progress` gets the bytes of the stream, twice,
    /// and may stop it.
    ///
    /// # Errors
    /// The stream cannot be read, is damaged, is cut off, or does not fit the key space; it was stopped; those of writes.
    fn receive(
        &self,
        input: &mut dyn Read,
        name: &str,
        rollback: bool,
        progress: Progress<'_>,
    ) -> Result<TransferReport>;

    /// The token of a stream whose receipt was interrupted, if one was.
    ///
    /// # Errors
    /// Those of reads.
    fn receive_token(&self, name: &str) -> Result<Option<String>>;

    /// Discards the received part of a stream that was interrupted. Returns whether there was one.
    ///
    /// # Errors
    /// It is being received; those of writes.
    fn discard_received(&self, name: &str) -> Result<bool>;
}
