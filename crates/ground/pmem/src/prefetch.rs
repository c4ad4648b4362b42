//! Prefetching.

/// Has the processor fetch the line at `address`.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint: it reads nothing into the program and does not fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Elsewhere there is no hint.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn line(_: *const u8) {}
