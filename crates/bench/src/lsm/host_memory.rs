//! Memory that a virtual machine's host has given it.
//!
//! Free memory of a virtual machine may be its host's (free page reporting): whoever touches it first waits until
//! it is given back, for a hundred times as long as the kernel takes to clear a page. A store that is opened, and
//! mostly fills memory, would be measured by that.

/// Makes sure that so many bytes of free memory have just been touched, so that who is given memory next mostly gets
/// these.
pub(super) fn touch(bytes: u64) {
    const BLOCK: usize = 64 << 20;
    let blocks: Vec<Vec<u8>> = (0..bytes.div_ceil(BLOCK as u64)).map(|_| vec![1; BLOCK]).collect();
    std::hint::black_box(&blocks);
}
