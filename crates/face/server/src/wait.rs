//! The wait of a client for keys, as [`crate::waiting`] describes it.

use std::time::Instant;

use crate::store::Key;
use crate::stream_id::StreamId;

/// A wait.
#[derive(Debug)]
pub(crate) struct Wait {
    /// The number by which those who wait for a key are in order.
    pub(crate) number: u64,
    /// The keys that it is for.
    pub(crate) keys: Vec<Key>,
    /// When it ends without anything; `None`: never.
    pub(crate) until: Option<Instant>,
    /// Why it ends without anything, if it does.
    pub(crate) ended: Option<Ended>,
    /// The ids behind which entries of its streams are awaited, of XREAD.
    pub(crate) behind: Vec<StreamId>,
    /// Whether the event loop knows when it ends.
    pub(crate) is_noted: bool,
}

/// Why a wait ends without anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its time is over, or a client has asked for that.
    Over,
    /// A client has asked for an error.
    Refused,
}
