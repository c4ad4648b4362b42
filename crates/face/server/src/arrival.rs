//! Connections that a thread has accepted, on their way to the one that serves them.

use crate::transport::Accepted;

/// A connection that was accepted.
pub(crate) struct Arrival {
    pub(crate) accepted: Accepted,
    pub(crate) client_id: u64,
    /// There was no password when it was accepted: it stays in if there is one by now.
    pub(crate) is_in: bool,
}
