//! Bringing a node into the cache before it is searched.

/// Keys whose cache misses are waited for together: about as many as a core has misses under way.
pub(crate) const GROUP: usize = 16;

/// Asks for the lines of a range.
#[inline]
pub(crate) fn lines(start: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..len).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes no byte and does not fault, at any address.
        unsafe { _mm_prefetch(start.wrapping_add(at).cast(), _MM_HINT_T0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len);
}
