//! Unsafe shutdowns: detects that the platform, at a power cut, failed to save bytes that it should have
//! saved.
//!
//! Where caches persist, fenced bytes are safe only as long as the platform has the energy to write its
//! caches back. A device counts the times that this failed. While a pool is in use, a root holds the count
//! as it was when the pool was opened. If the count is another when the pool is opened again, and the root
//! says that it was in use, durable bytes may be missing: no byte of the pool can be trusted. A clean close
//! writes all bytes back first, and then records that the pool is not in use.

use halite_pmem::{Domain, Pool};

use crate::superblock::Superblock;
use crate::{Error, Result};

/// Zero for a pool that is not in use, else the count and one.
const ROOT: &str = "unsafe shutdowns";

fn count(pool: &Pool) -> Option<u64> {
    let matters = matches!(pool.domain(), Domain::Memory | Domain::Platform);
    pool.unsafe_shutdowns().filter(|_| matters)
}

/// Refuses a pool that was in use when the platform failed. Where the device does not count, or its count
/// cannot be read, a failure cannot be detected, and the pool is accepted.
pub(crate) fn check(pool: &Pool, superblock: &Superblock) -> Result<()> {
    let was_in_use = superblock.root(ROOT).filter(|&in_use| in_use != 0);
    match (count(pool), was_in_use) {
        (Some(now), Some(in_use)) if in_use != now.wrapping_add(1) => {
            Err(Error::UnsafeShutdown { path: pool.path().to_owned(), before: in_use - 1, now })
        }
        _ => Ok(()),
    }
}

/// Notes that the pool is in use, past every cache. Two fences and a sync where the device counts.
pub(crate) fn begin(pool: &Pool, superblock: &mut Superblock) -> Result<()> {
    note(pool, superblock, |count| count.wrapping_add(1))
}

/// Notes that the pool is not in use any more, when all that it holds is past every cache.
pub(crate) fn end(pool: &Pool, superblock: &mut Superblock) -> Result<()> {
    if count(pool).is_some() {
        pool.sync_file()?;
    }
    note(pool, superblock, |_| 0)
}

fn note(pool: &Pool, superblock: &mut Superblock, value: impl Fn(u64) -> u64) -> Result<()> {
    let Some(value) = count(pool).map(value) else { return Ok(()) };
    if superblock.root(ROOT) != Some(value) {
        superblock.set_root(ROOT, value)?;
    }
    // The bytes just read may be in a cache only: their process may have died before it reached this sync.
    pool.sync_file()?;
    Ok(())
}
