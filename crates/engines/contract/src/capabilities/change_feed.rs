//! Changes that can be read in their order.

use std::ops::Range;

use crate::{Changes, Engine, Result};

/// An engine whose stores can have a change log.
///
/// The log of each partition has positions of its own. A method panics if there is no partition of its number.
pub trait ChangeFeed: Engine {
    /// Bytes of its change log that the store retains; `None` if it was made without one.
    fn change_log(&self) -> Option<u64>;

    /// The positions of a partition's change log that can be read from, up to the durable end.
    ///
    /// # Errors
    /// [`Error::NoChangeLog`](crate::Error::NoChangeLog) if the store was made without one.
    fn change_positions(&self, partition: usize) -> Result<Range<u64>>;

    /// The changes of a partition from a position on: 0, the position of a change that was read, or one
    /// of the bounds of [`ChangeFeed::change_positions`]. Positions mean the same after the store was opened
    /// again, but not after its partitions were changed.
    ///
    /// # Errors
    /// [`Error::NoChangeLog`](crate::Error::NoChangeLog);
    /// [`Error::ChangesReleased`](crate::Error::ChangesReleased), also while reading;
    /// [`Error::NoChangePosition`](crate::Error::NoChangePosition); [`Error::Damaged`](crate::Error::Damaged).
    fn changes(&self, partition: usize, from: u64) -> Result<Changes>;
}
