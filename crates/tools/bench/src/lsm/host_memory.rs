//! Memory that a virtual machine's host has given it.
//!
//! Free memory of a virtual machine may be its host's (free page reporting): the first access waits until the host
//! gives the page back, a hundred times as long as the kernel takes to clear a page. That would distort the measurement
//! of a store that is being opened, and mostly fills memory.

use std::path::Path;

use halite_pmem::{Pool, PoolOptions};

/// Touches this many bytes of free memory, in small pages and in large ones, so that later allocations mostly get
/// these. The large ones are those of a pool that is made in a folder and removed at once: a pool in memory has large
/// pages, which are cleared as it is made. A folder elsewhere, or without room, has no large pages to touch.
pub(super) fn touch(folder: &Path, bytes: u64) {
    const BLOCK: usize = 64 << 20;
    let blocks: Vec<Vec<u8>> = (0..bytes.div_ceil(BLOCK as u64)).map(|_| vec![1; BLOCK]).collect();
    std::hint::black_box(blocks);
    let mut options = PoolOptions::default();
    (options.size_initial, options.size_max) = (bytes, bytes);
    let _ = Pool::create(&folder.join("touched"), &options);
}
