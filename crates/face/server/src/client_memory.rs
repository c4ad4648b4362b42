//! The memory that all clients take together.
//!
//! A client that sends many requests before it reads may have as many replies waiting as its output limit allows, so
//! one client is bounded; this file bounds all of them together. Each thread counts the memory of its connections, by
//! the capacity of their buffers, and of the replies that travel between threads. Above the limit, the clients with
//! most memory are disconnected, as Redis does by `maxmemory-clients`: each thread publishes the size of its largest
//! client, and the thread with the largest of all disconnects that one.
//!
//! Clients that said `CLIENT NO-EVICT ON` are counted apart, since evicting others would not make room for them: while
//! they take more than the limit, the server reads from none of them. The memory that they keep between requests,
//! commands after MULTI and watched keys, may take half of the limit: otherwise no client could send the request that
//! ends it.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The part of the machine's memory that clients may take by default.
const DEFAULT_PART: usize = 4;
/// The default where the operating system does not tell how much memory there is, and its least, in bytes.
const DEFAULT_MIN: usize = 64 << 20;
/// Bytes of replies on their way between threads above which no more are made.
const TRAVELLING_MAX: usize = 64 << 20;

/// The memory of all clients, as all threads note it.
#[derive(Debug)]
pub(crate) struct ClientMemory {
    /// Bytes that connections take whose clients may be evicted.
    evictable: AtomicUsize,
    /// Bytes that the other connections take.
    kept: AtomicUsize,
    /// Bytes of replies that were made for clients of other threads and have not reached their connection.
    travelling: AtomicUsize,
    /// By thread: bytes of its largest client that may be evicted.
    largest: Vec<AtomicUsize>,
}

impl ClientMemory {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            evictable: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            travelling: AtomicUsize::new(0),
            largest: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Notes that a client of `thread`, which may be evicted or not, takes `after` bytes instead of `before`.
    #[inline]
    pub(crate) fn change(&self, thread: usize, is_kept: bool, before: usize, after: usize) {
        let bytes = if is_kept { &self.kept } else { &self.evictable };
        if after > before {
            bytes.fetch_add(after - before, Ordering::Relaxed);
            let largest = &self.largest[thread];
            if !is_kept && after > largest.load(Ordering::Relaxed) {
                // No other thread writes it.
                largest.store(after, Ordering::Relaxed);
            }
        } else if after < before {
            bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Notes that a reply was made for a client of another thread.
    pub(crate) fn send(&self, bytes: usize) {
        self.travelling.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that replies of another thread have come.
    pub(crate) fn receive(&self, bytes: usize) {
        self.travelling.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether a reply may be made for a client of another thread.
    #[inline]
    pub(crate) fn can_travel(&self, limit: Option<usize>) -> bool {
        let bytes_max = limit.map_or(TRAVELLING_MAX, |limit| TRAVELLING_MAX.min(limit / 4).max(1));
        self.travelling.load(Ordering::Relaxed) < bytes_max
    }

    /// Bytes that all clients take.
    pub(crate) fn total(&self) -> usize {
        self.evictable() + self.kept.load(Ordering::Relaxed)
    }

    fn evictable(&self) -> usize {
        self.evictable.load(Ordering::Relaxed) + self.travelling.load(Ordering::Relaxed)
    }

    /// Whether the clients that may be evicted take more than they may; or, if `is_kept`, the others.
    #[inline]
    pub(crate) fn is_over(&self, is_kept: bool, limit: Option<usize>) -> bool {
        // Replies on their way have a bound of their own, and no eviction takes them back.
        let of = if is_kept { &self.kept } else { &self.evictable };
        let bytes = || of.load(Ordering::Relaxed);
        limit.is_some_and(|limit| bytes() > limit)
    }

    /// Whether the clients that are not evicted may keep so many bytes more for their transactions.
    pub(crate) fn can_keep(&self, bytes: usize, limit: Option<usize>) -> bool {
        limit.is_none_or(|limit| self.kept.load(Ordering::Relaxed) + bytes <= limit / 2)
    }

    /// Notes how large the largest client of a thread is; returns the thread that has a larger one.
    pub(crate) fn larger_elsewhere(&self, thread: usize, bytes: usize) -> Option<usize> {
        self.largest[thread].store(bytes, Ordering::Relaxed);
        let all = self.largest.iter().enumerate();
        let all = all.map(|(number, bytes)| (bytes.load(Ordering::Relaxed), number));
        let largest = all.max().filter(|&(bytes, number)| bytes > 0 && number != thread);
        largest.map(|(_, number)| number)
    }
}

/// The memory that clients may take by default, in bytes: a quarter of the memory of the machine, or of the process's
/// control group. The rest is for indexes, for the page cache, and for a request and a reply of each thread beyond the
/// limit, which is checked after them.
pub(crate) fn default_limit() -> usize {
    let number = |path: &str| {
        fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<usize>().ok())
    };
    let groups =
        ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"].map(number);
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
    });
    let bytes = groups.into_iter().chain([machine]).flatten().min().unwrap_or(0);
    (bytes / DEFAULT_PART).max(DEFAULT_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_with_the_largest_client_is_told_of() {
        let memory = ClientMemory::new(3);
        let is_over = |limit| memory.is_over(false, limit);
        memory.change(0, false, 0, 100);
        memory.change(1, false, 0, 300);
        memory.change(1, false, 300, 200);
        memory.change(2, true, 0, 1000);
        memory.send(50);
        assert_eq!(memory.total(), 1350);
        assert!(is_over(Some(299)) && !is_over(Some(300)) && !is_over(None));
        assert!(memory.is_over(true, Some(999)) && !memory.is_over(true, Some(1000)));
        assert!(memory.can_keep(100, Some(2200)) && !memory.can_keep(101, Some(2200)));
        assert!(memory.can_keep(usize::MAX - 1000, None));
        assert_eq!(memory.larger_elsewhere(0, 100), Some(1));
        // Of two equally large ones, only one is disconnected.
        assert_eq!(memory.larger_elsewhere(1, 100), None);
        assert_eq!(memory.larger_elsewhere(0, 100), Some(1));
        assert!(!memory.can_travel(Some(200)) && memory.can_travel(Some(204)));
        assert!(memory.can_travel(None));
        memory.receive(50);
        assert!(memory.can_travel(Some(200)) && memory.can_travel(Some(0)));
        assert_eq!(memory.total(), 1300);
    }

    #[test]
    fn the_default_is_a_part_of_the_memory() {
        assert!((DEFAULT_MIN..=usize::MAX / DEFAULT_PART).contains(&default_limit()));
    }
}
