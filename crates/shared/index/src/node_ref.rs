//! Shared nodes.
//!
//! A [`NodeRef`] is an `Arc` with two differences that speed up lookups and inserts. Nodes lie together in
//! [slabs](crate::slabs) of large pages. And a node that is not shared is changed without an atomic
//! read-modify-write.

use std::ops::Deref;
use std::ptr::{self, NonNull};

use crate::prefetch;
use crate::slabs::Slabs;
use crate::sync::{AtomicUsize, Guarded, Ordering, fence};

/// A kind of node.
pub(crate) trait Pooled: Clone + 'static {
    /// Returns the slabs in which nodes of this kind get slots of [`NodeRef::SLOT_LEN`] bytes.
    fn slabs() -> &'static Slabs;
}

/// A counted reference to a node.
pub(crate) struct NodeRef<T: Pooled>(NonNull<Counted<T>>);

/// A node behind its number of references, which shares the line that a search reads first.
#[repr(C, align(64))]
struct Counted<T> {
    count: AtomicUsize,
    node: Guarded<T>,
}

// SAFETY: as `Arc<T>`: shared nodes are only read.
unsafe impl<T: Pooled + Send + Sync> Send for NodeRef<T> {}
// SAFETY: as above.
unsafe impl<T: Pooled + Send + Sync> Sync for NodeRef<T> {}

impl<T: Pooled> NodeRef<T> {
    /// Bytes that a node takes, with its count.
    pub(crate) const SLOT_LEN: usize = size_of::<Counted<T>>();

    pub(crate) fn new(node: T) -> Self {
        let slot = T::slabs().take().cast::<Counted<T>>();
        // SAFETY: the slot is large and aligned enough for a `Counted`, and has no other user.
        unsafe { slot.write(Counted { count: AtomicUsize::new(1), node: Guarded::new(node) }) };
        Self(slot)
    }

    /// The node, to be changed: itself if it is not shared, else a copy that replaces it here.
    pub(crate) fn make_mut(&mut self) -> &mut T {
        // Only a holder can make another reference, and the only holder is borrowed mutably. The load
        // acquires all accesses that the last other holder made before it dropped its reference.
        if self.counted().count.load(Ordering::Acquire) != 1 {
            *self = Self::new(T::clone(self));
        }
        // SAFETY: this is the only reference to the node.
        unsafe { &mut *self.counted().node.get_mut() }
    }

    /// Whether both refer to one node.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// Asks for the whole node, all lines at once.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch::lines(self.0.as_ptr().cast(), Self::SLOT_LEN);
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: the count and the node live as long as a reference to them.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Pooled> Deref for NodeRef<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the node is changed by `make_mut` alone, through its only reference.
        unsafe { &*self.counted().node.get() }
    }
}

impl<T: Pooled> Clone for NodeRef<T> {
    fn clone(&self) -> Self {
        let before = self.counted().count.fetch_add(1, Ordering::Relaxed);
        assert!(before < usize::MAX / 2, "too many references to a node");
        Self(self.0)
    }
}

impl<T: Pooled> Drop for NodeRef<T> {
    fn drop(&mut self) {
        if self.counted().count.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // The reads of other holders happened before the node is freed.
        fence(Ordering::Acquire);
        // SAFETY: that was the last reference; the slot goes back when the node in it is gone. The
        // slabs are not locked meanwhile: an inner node drops its children.
        unsafe {
            ptr::drop_in_place(self.0.as_ptr());
            T::slabs().give_back(self.0.cast());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use crate::PartialLen;
    use crate::partial::Leaf;

    fn leaf() -> NodeRef<Leaf> {
        NodeRef::new(Leaf::new(PartialLen::Eight, &[], 0))
    }

    #[test]
    fn a_shared_node_is_copied_before_it_is_changed() {
        let mut first = leaf();
        let second = first.clone();
        first.make_mut().insert(0, b"key", 1);
        assert_eq!((first.len(), second.len()), (1, 0));
        let place = first.0;
        drop(second);
        first.make_mut().insert(1, b"keys", 2);
        assert_eq!(first.0, place, "what is not shared is changed in place");
    }

    #[test]
    fn threads_may_share_nodes_and_let_them_go() {
        let mut node = leaf();
        node.make_mut().insert(0, b"key", 1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut mine = node.clone();
                scope.spawn(move || {
                    for _ in 0..500 {
                        let copy = mine.clone();
                        mine.make_mut().insert(1, b"more", 2);
                        assert_eq!((mine.len(), copy.len()), (2, 1));
                        mine = copy;
                    }
                });
            }
        });
        assert_eq!(node.len(), 1);
    }
}
