//! Large pages, for memory that is often written to or looked up in.

/// Bytes of a large page.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Asks for large pages where they fit in memory that was allocated. Where there are none, this does nothing.
pub(crate) fn advise(start: *mut u8, len: usize) {
    let skipped = start.align_offset(LARGE_PAGE);
    let len = len.saturating_sub(skipped) / LARGE_PAGE * LARGE_PAGE;
    if len > 0 {
        let start = start.wrapping_add(skipped).cast();
        // SAFETY: this advice changes no bytes, at any address.
        let _ = unsafe { rustix::mm::madvise(start, len, rustix::mm::Advice::LinuxHugepage) };
    }
}
