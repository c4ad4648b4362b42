//! What a scrub or a resilver found.

use halite_contract::KeyRange;

use crate::storage::Address;

/// Something that no device has any more, and no parity gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The kind of the thing.
    pub what: &'static str,
    /// The place of its extent.
    pub address: Address,
    /// The dataset that it is of, or the snapshot, by its number; none, if it belongs to the store as a whole.
    pub dataset: Option<String>,
    /// Keys of which some are lost: all that are, are among them.
    pub keys: Option<KeyRange>,
    /// What each device has.
    pub why: String,
}

/// A scrub or a resilver, from its begin on, also if it was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubReport {
    /// Whether it is through. If not, the next one goes on where it was stopped.
    pub is_complete: bool,
    /// Bytes of space in use that were read, with those of parity.
    pub bytes: u64,
    /// Extents of it.
    pub extents: u64,
    /// Replicas and columns of extents that were wrong, or not there. A resilver counts an extent once.
    pub damaged: u64,
    /// Those of them that are right again.
    pub repaired: u64,
    /// Extents that are lost.
    pub lost: u64,
    /// What is lost, the first [`LOST_MAX`], as far as it was found since the store was opened.
    pub errors: Vec<Lost>,
    /// Seconds since 1970 at its end, or where it was stopped.
    pub second: u64,
}

/// How many errors are kept.
pub const LOST_MAX: usize = 1000;
