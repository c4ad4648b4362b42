//! Keys spread over partitions.

use crate::{Direction, Engine, KeyRange, KeySpaceId, Partitioning, Result, Scan, Stats};

/// An engine whose keys are spread over partitions, which do not wait for each other.
///
/// Partitions are named by their numbers, from zero. A method panics if there is no partition of its number, unless it
/// says otherwise.
pub trait Partitioned: Engine {
    /// How keys are spread over partitions. It stays so while the store is open.
    fn partitioning(&self) -> Partitioning;

    /// The number of partitions.
    fn partitions(&self) -> usize;

    /// The partition that has `key`.
    fn partition_of(&self, key: &[u8]) -> usize;

    /// Brings the records that operations on these keys, all of one partition, will read into the cache:
    /// for a caller that knows several keys ahead. Changes nothing, never waits for a partition, and does nothing if
    /// there is none of this number.
    fn prefetch(&self, _partition: usize, _space: KeySpaceId, _keys: &[&[u8]]) {}

    /// [`Engine::scan`] of one partition's keys.
    ///
    /// # Errors
    /// As [`Engine::scan`].
    fn scan_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Scan>;

    /// The number of keys of one partition.
    ///
    /// # Errors
    /// As [`Engine::len`].
    fn len_of_partition(&self, partition: usize, space: KeySpaceId) -> Result<u64>;

    /// Counts the keys of one partition as long as `go_on` returns true. Returns how many there are, and
    /// whether these are all. An engine that knows the number never calls `go_on`. Another one calls it
    /// before each key, including removed ones that are still stored, with the number of keys found so far
    /// and of keys looked at.
    ///
    /// # Errors
    /// As [`Engine::len`].
    fn count_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        _go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(u64, bool)> {
        Ok((self.len_of_partition(partition, space)?, true))
    }

    /// Visits at least `count` keys of a partition, if there are so many left, in no order, and returns
    /// where to go on, or 0 behind the last. A walk begins with 0. Even if the keys change between its
    /// steps, a key that is there during the whole walk is visited at least once. `None`: the keys have an
    /// order, by which [`Partitioned::scan_partition`] finds its way as cheaply.
    ///
    /// # Errors
    /// As [`Engine::scan`]; [`crate::Error::Damaged`].
    fn visit_partition(
        &self,
        _partition: usize,
        _space: KeySpaceId,
        _position: u64,
        _count: usize,
        _visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<u64>> {
        Ok(None)
    }

    /// [`Engine::sync`] of one partition's writes.
    ///
    /// # Errors
    /// As [`Engine::sync`].
    fn sync_partition(&self, _partition: usize) -> Result<()> {
        self.sync()
    }

    /// [`Engine::stats`] of one partition; figures of the whole pool are zero.
    fn partition_stats(&self, partition: usize) -> Stats;
}
