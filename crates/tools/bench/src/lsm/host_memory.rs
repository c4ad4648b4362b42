//! Memory that a virtual machine's host has given it.
//!
//! Free memory of a virtual machine may be its host's (free page reporting): whoever touches it first waits until
//! it is given back, for a hundred times as long as the kernel takes to clear a page. A store that is opened, and
//! mostly fills memory, would be measured by that.

use std::path::Path;

use halite_pmem::{Pool, PoolOptions};

/// Makes sure that so many bytes of free memory have just been touched, in small pages and in large ones, so that who
/// is given memory next mostly gets these. The large ones are those of a pool that is made in a folder, and goes again
/// at once: a pool in memory has large pages, which are cleared as it is made. A folder elsewhere, or without room, has
/// none to give.
pub(super) fn touch(folder: &Path, bytes: u64) {
    const BLOCK: usize = 64 << 20;
    let blocks: Vec<Vec<u8>> = (0..bytes.div_ceil(BLOCK as u64)).map(|_| vec![1; BLOCK]).collect();
    std::hint::black_box(blocks);
    let mut options = PoolOptions::default();
    (options.size_initial, options.size_max) = (bytes, bytes);
    let _ = Pool::create(&folder.join("touched"), &options);
}
