//! Where an index that keeps no full keys gets them.

/// The full keys of an index's entries, which lie elsewhere: in records in persistent memory.
///
/// The index asks when a part of the key does not decide. Every entry in the index must lead to its key,
/// always the same. Only the order of the index relies on the keys: wrong keys cannot make it panic.
pub trait FullKeys {
    /// Why a key could not be read, such as a damaged record.
    type Error;

    /// Calls `read` with the key of `entry`.
    ///
    /// # Errors
    /// The key cannot be read. The index's operation ends with this error and has changed nothing.
    fn with_key<R>(&self, entry: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Self::Error>;

    /// Asks for the key of `entry` to be brought into the cache, if that costs no wait: it will be read
    /// soon.
    fn prefetch(&self, entry: u64) {
        let _ = entry;
    }
}

impl<F: FullKeys> FullKeys for &F {
    type Error = F::Error;

    fn with_key<R>(&self, entry: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, F::Error> {
        F::with_key(self, entry, read)
    }

    fn prefetch(&self, entry: u64) {
        F::prefetch(self, entry);
    }
}
