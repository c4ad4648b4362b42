//! Bringing a node into the cache before it is searched.

use crate::keys::Keys;
use crate::node::Node;

/// Asks for the lines of a node that a search reads, all at once, where a search by itself would
/// wait for one after the other.
#[inline]
pub(crate) fn to_search(node: &Node) {
    let start = std::ptr::from_ref(node).cast();
    lines(start, Keys::SEARCHED_LEN);
    lines(std::ptr::from_ref(&node.body).cast(), size_of_val(&node.body));
}

/// Asks for all that an insert into a leaf moves.
#[inline]
pub(crate) fn to_insert(node: &Node) {
    lines(std::ptr::from_ref(node).cast(), size_of::<Node>());
    let tails = node.keys.tails();
    lines(tails.as_ptr(), tails.len().min(512));
}

/// Asks for the lines of a range.
#[inline]
pub(crate) fn lines(start: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..len).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing and does not fault, whatever the address.
        unsafe { _mm_prefetch(start.wrapping_add(at).cast(), _MM_HINT_T0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len);
}
