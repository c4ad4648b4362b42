//! How a stream is received.

/// How a stream is received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Rolls the dataset back to the snapshot that the stream is based on, where it has changed since, or has newer
    /// snapshots, which go then. It is done when the end of the stream was verified.
    pub rollback: bool,
}
