//! CLIENT PAUSE: the requests that wait, and until when.

use std::time::Instant;

/// A pause of clients (CLIENT PAUSE).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    pub(crate) until: Instant,
    /// Only those that want to write.
    pub(crate) writes_only: bool,
}
