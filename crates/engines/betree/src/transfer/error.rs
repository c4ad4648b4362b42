//! The defects of a stream, and the reasons to refuse one.

use std::io;
use std::sync::Arc;

/// Why a stream cannot be written, read or received. In no case is the dataset changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The stream cannot be written.
    #[error("the stream cannot be written: {0}")]
    Write(Arc<io::Error>),
    /// The stream cannot be read.
    #[error("the stream cannot be read: {0}; receive it again, from the token on")]
    Read(Arc<io::Error>),
    /// The stream is empty.
    #[error("the stream is empty; send the snapshot again")]
    Empty,
    /// The bytes are no stream of a snapshot.
    #[error("these bytes are no snapshot that Halite has sent; receive another file")]
    Foreign,
    /// A newer version wrote it.
    #[error(
        "the stream has format {found}, and this version reads {known}; receive it with a newer one"
    )]
    Version {
        /// The format's number.
        found: u32,
        /// The number that this version knows.
        known: u32,
    },
    /// The end is missing.
    #[error(
        "the stream ends within chunk {chunk}, before its end: sending or copying it was interrupted; send the rest with \
         the token of what was received"
    )]
    Truncated {
        /// The number of the chunk in which it ends; the first is 0.
        chunk: u64,
    },
    /// Its bytes are not those that were sent.
    #[error("the stream is damaged: {why} (chunk {chunk}); send it again")]
    Damaged {
        /// The number of the chunk; the first is 0.
        chunk: u64,
        /// The defect.
        why: &'static str,
    },
    /// The caller has stopped the transfer.
    #[error("the transfer was stopped; go on with the token of what was received")]
    Stopped,
    /// Another thread receives for the dataset.
    #[error("another stream is being received for the dataset `{dataset}`; wait for its end")]
    UnderWay {
        /// The dataset's name.
        dataset: String,
    },
    /// The snapshot to send from is not older than the one to send.
    #[error(
        "the snapshot `{from}` is not older than `{snapshot}`; send from an older one, or send all of it"
    )]
    NotOlder {
        /// The snapshot to send from.
        from: String,
        /// The snapshot to send.
        snapshot: String,
    },
    /// The dataset has the snapshot already.
    #[error(
        "the dataset has the snapshot of the stream already, as `{snapshot}`; receive the next stream"
    )]
    Repeated {
        /// The snapshot's name in the dataset.
        snapshot: String,
    },
    /// The newest snapshot of the dataset is not the one that the stream begins with.
    #[error(
        "the stream has the changes since the snapshot `{expected}`, which is not the newest one of the dataset{}; send from \
         that, or roll back",
        newest.as_ref().map_or_else(String::new, |newest| format!(" (`{newest}` is)"))
    )]
    OtherBase {
        /// The name of the snapshot that the stream begins with, where it was sent.
        expected: String,
        /// The newest snapshot of the dataset.
        newest: Option<String>,
    },
    /// The dataset has changed since its newest snapshot.
    #[error(
        "the dataset has changed since its snapshot `{snapshot}`; roll it back to that, or let the call do so"
    )]
    Changed {
        /// The newest snapshot.
        snapshot: String,
    },
    /// A token, or a stream that goes on, does not fit what was received.
    #[error("{why}; send the snapshot from its beginning")]
    NotResumable {
        /// The reason.
        why: &'static str,
    },
}

impl StreamError {
    /// Whether the bytes of the stream are not those that were sent, or not all of them.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Truncated { .. })
    }
}
