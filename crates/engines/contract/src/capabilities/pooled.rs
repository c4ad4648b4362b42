//! Stores on a pool of devices, some of which may fail.

use halite_vdev::{LeafPlace, Position};

use crate::{Engine, PoolStatus, Progress, Result, ScrubReport};

/// An engine whose stores lie on a pool of devices, with redundancy where the pool's topology asks for it.
pub trait Pooled: Engine {
    /// The state of the devices.
    fn pool_status(&self) -> PoolStatus;

    /// Takes a device away for a while: it is neither read nor written, also when the store is opened again.
    ///
    /// # Errors
    /// There is no such device; the others do not have all data.
    fn set_offline(&self, at: Position) -> Result<()>;

    /// Lets a device take part again that was offline, failed, or was missing and is back. If it missed writes, it has to
    /// be resilvered.
    ///
    /// # Errors
    /// There is no such device, or another one is at its place.
    fn set_online(&self, at: Position) -> Result<()>;

    /// Puts a new device in the place of one; it has to be resilvered then.
    ///
    /// # Errors
    /// There is no such device; the new one is in use, too small, or cannot be made; the others do not have all data.
    fn replace(&self, at: Position, place: &LeafPlace) -> Result<()>;

    /// Reads all space in use with all its redundancy, beside reads and writes, and repairs what is wrong. When `progress`
    /// breaks, the next scrub goes on there, also after the store was closed and opened.
    ///
    /// # Errors
    /// A scrub or a resilver is under way. Lost data is no error, but in the report.
    fn scrub(&self, progress: Progress<'_>) -> Result<ScrubReport>;

    /// Brings what they lack to the devices that missed writes. Otherwise as [`Pooled::scrub`].
    ///
    /// # Errors
    /// As [`Pooled::scrub`].
    fn resilver(&self, progress: Progress<'_>) -> Result<ScrubReport>;
}
