//! Raw loops, which measure what the machine can do: the same instructions as behind the door, with
//! no check and no count inside the loop. Everything else is compared with them.

use std::time::{Duration, Instant};

use crate::{Fresh, stream, writeback};

/// Stores `bytes` past the cache at each of `offsets` in turn, each time with one fence, and returns
/// how long that took. It counts as nothing.
///
/// # Panics
/// If they do not fit at one of the offsets.
pub fn persist_stream(fresh: &mut Fresh, bytes: &[u8], offsets: &[u64]) -> Duration {
    let len = bytes.len() as u64;
    for &at in offsets {
        let _ = fresh.read(at, len);
    }
    let pool = fresh.pool().clone();
    let base = fresh.offset();
    let start = Instant::now();
    for &at in offsets {
        // SAFETY: the range is inside `fresh`, borrowed mutably, as was looked at above.
        unsafe { stream::copy(&pool, pool.address(base + at), bytes) };
        writeback::fence();
    }
    start.elapsed()
}
