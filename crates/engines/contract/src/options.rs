//! Options that every engine understands.

use std::path::PathBuf;

use halite_disk::Disk;
use halite_pmem::PoolOptions;
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, OwnOptions, Result, check_key};

/// The bytes with which a key begins that names its partition: its number is the byte behind them. So what a program
/// keeps for one key under several, such as the elements of a collection, can be where that key is.
pub const ROUTED: [u8; 4] = *b"\xff\xfehp";

/// How keys are spread over the partitions of a store.
///
/// A partition has an index, a log and a collector of its own (Lersch §5.3.1): work on one waits for
/// none of the others. Keys that begin with [`ROUTED`] are in the partition that they name, by the remainder if there are
/// fewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partitioning {
    /// By a hash of the key, over so many partitions.
    Hash(usize),
    /// By ranges of keys, one partition more than bounds: the keys below the first bound, from each
    /// bound up to the next, and from the last one on. The bounds ascend.
    Ranges(Vec<Vec<u8>>),
}

impl Partitioning {
    /// The number of partitions.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Hash(count) => *count,
            Self::Ranges(bounds) => bounds.len() + 1,
        }
    }

    /// The partition that has `key`, below [`Partitioning::count`].
    #[inline]
    #[must_use]
    pub fn partition_of(&self, key: &[u8]) -> usize {
        if let Some([number, ..]) = key.strip_prefix(&ROUTED) {
            return usize::from(*number) % self.count();
        }
        match self {
            Self::Hash(1) => 0,
            // The high half of a product: every partition has as many hashes as any other.
            Self::Hash(count) => ((u128::from(xxh3_64(key)) * *count as u128) >> 64) as usize,
            Self::Ranges(bounds) => bounds.partition_point(|bound| &bound[..] <= key),
        }
    }

    /// The partitions that may have keys of a range.
    #[must_use]
    pub fn partitions_of(&self, start: &[u8], end: Option<&[u8]>) -> std::ops::Range<usize> {
        match self {
            Self::Hash(count) => 0..*count,
            Self::Ranges(bounds) if may_have_routed(start, end) => 0..bounds.len() + 1,
            Self::Ranges(bounds) => {
                let last = end
                    .map_or(bounds.len(), |end| bounds.partition_point(|bound| &bound[..] < end));
                self.partition_of(start)..last + 1
            }
        }
    }

    /// Checks that there is a partition, and not more than `limit`, and that bounds ascend.
    ///
    /// # Errors
    /// [`Error::Partitions`], [`Error::PartitionBounds`].
    pub fn check(&self, limit: usize) -> Result<()> {
        let asked = self.count();
        if asked == 0 || asked > limit {
            return Err(Error::Partitions { asked, limit });
        }
        let Self::Ranges(bounds) = self else { return Ok(()) };
        for bound in bounds {
            check_key(bound)?;
        }
        if bounds.first().is_some_and(|first| first.is_empty())
            || !bounds.is_sorted_by(|a, b| a < b)
        {
            return Err(Error::PartitionBounds);
        }
        Ok(())
    }
}

/// Whether a range of keys may have some that name their partition.
fn may_have_routed(start: &[u8], end: Option<&[u8]>) -> bool {
    (start < &ROUTED[..] || start.starts_with(&ROUTED)) && end.is_none_or(|end| end > &ROUTED[..])
}

/// How an engine opens or creates its store.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The pool's file.
    pub pool: PathBuf,
    /// How the pool is created, opened and grown.
    pub pool_options: PoolOptions,
    /// Whether to create the store if it does not exist.
    pub create: bool,
    /// How keys are to be spread over partitions, where an engine has some. A store with another
    /// partitioning is changed when it opens. `None`: the store's own, or one partition.
    pub partitioning: Option<Partitioning>,
    /// Whether opening returns as soon as the store's contents are known, where an engine can: an access to
    /// a part that is not recovered then waits for it, and reports damage in it.
    pub on_demand: bool,
    /// Bytes of changes to retain for readers in a change log, where an engine has one. Only a store that
    /// is created gets such a log; the bytes of one that has it may change. `None`: the store's own number,
    /// or no change log.
    pub change_log: Option<u64>,
    /// The files beside the pool, where an engine has some, in place of a folder: the crash lab's model, for example.
    pub disk: Option<Disk>,
    /// Options that only one engine knows.
    pub own: OwnOptions,
}

impl EngineOptions {
    /// The store in the pool of this path, created if it does not exist, with defaults for the rest.
    #[must_use]
    pub fn new(pool: impl Into<PathBuf>) -> Self {
        let pool_options = PoolOptions::default();
        Self {
            pool: pool.into(),
            pool_options,
            create: true,
            partitioning: None,
            on_demand: false,
            change_log: None,
            disk: None,
            own: OwnOptions::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_one_of_the_partitions_of_its_range() {
        let bounds = [&b"b"[..], b"bb", b"d"].map(<[u8]>::to_vec).to_vec();
        let routed = [0, 1, 2, 200].map(|number| [&ROUTED[..], &[number], b"key"].concat());
        let mut keys = vec![&b""[..], b"a", b"b", b"b\0", b"bb", b"c", b"d", b"e"];
        keys.extend(routed.iter().map(Vec::as_slice));
        keys.extend([&ROUTED[..], &ROUTED[..3], b"\xff\xff"]);
        for partitioning in [Partitioning::Hash(3), Partitioning::Ranges(bounds)] {
            partitioning.check(4).unwrap();
            for start in keys.iter().copied() {
                for end in keys.iter().copied().map(Some).chain([None]) {
                    let partitions = partitioning.partitions_of(start, end);
                    for key in keys.iter().copied().filter(|key| *key >= start) {
                        let partition = partitioning.partition_of(key);
                        assert!(partition < partitioning.count());
                        assert!(
                            end.is_some_and(|end| key >= end) || partitions.contains(&partition)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_partitioning_is_refused() {
        let ranges = |bounds: &[&[u8]]| {
            Partitioning::Ranges(bounds.iter().map(|bound| bound.to_vec()).collect()).check(3)
        };
        assert!(matches!(Partitioning::Hash(0).check(3), Err(Error::Partitions { .. })));
        assert!(matches!(Partitioning::Hash(4).check(3), Err(Error::Partitions { .. })));
        assert!(matches!(ranges(&[b"b", b"a"]), Err(Error::PartitionBounds)));
        assert!(matches!(ranges(&[b"a", b"a"]), Err(Error::PartitionBounds)));
        assert!(matches!(ranges(&[b""]), Err(Error::PartitionBounds)));
        assert!(ranges(&[b"a", b"b"]).is_ok() && ranges(&[]).is_ok());
    }
}
