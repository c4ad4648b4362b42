//! How a run is written.

use halite_codec::{Compression, Seed};

use crate::storage::Extent;

/// The options of a writer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunOptions {
    /// The storage class that is preferred.
    pub(crate) class: u8,
    /// Bytes below which a run in one extent goes to another class, and that class.
    pub(crate) small: (usize, u8),
    /// How long parts are before they are compressed, about: shorter if the next message does not fit, longer for a
    /// message that is.
    pub(crate) part_bytes: usize,
    pub(crate) compression: Compression,
    /// Whether lookups of other keys are answered by a filter, of 9 bits a key.
    pub(crate) has_filter: bool,
    /// The seed of the pool.
    pub(crate) seed: Seed,
    /// The generation that is being written.
    pub(crate) birth: u64,
}

/// Where a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunPlace {
    /// In extents of its own, each of which is written whole.
    Whole,
    /// In extents that are written in steps, where there are such.
    InSteps {
        /// The end of the run behind which it goes, if there is room: an extent, and an offset in it.
        behind: Option<(Extent, usize)>,
        /// Bytes that its last extent has at least, for runs behind it.
        spare: usize,
    },
}
