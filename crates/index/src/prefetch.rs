//! Bringing a node into the cache before it is searched.

use crate::node::Node;

/// Asks for the lines of a node that a search reads, all at once, where a search by itself would
/// wait for one after the other.
#[inline]
pub(crate) fn node(node: &Node) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(node).cast::<i8>();
        let searched = (0..Node::SEARCHED_LEN).step_by(64);
        for at in searched.chain([std::mem::offset_of!(Node, body)]) {
            // SAFETY: a prefetch changes nothing, whatever the address; these are in the node.
            unsafe { _mm_prefetch(start.wrapping_add(at), _MM_HINT_T0) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = node;
}
