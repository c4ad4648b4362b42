//! Shared nodes, in slabs of large pages.
//!
//! A [`NodeRef`] is what `Arc<Node>` would be, with two differences that lookups and inserts feel.
//! Nodes lie together in slabs of 2 MiB that ask for large pages, because a lookup that misses the
//! cache misses the translation too. And a node that is not shared is changed without an atomic
//! read-modify-write.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use crate::node::Node;
use crate::sync::{AtomicUsize, Guarded, Ordering, fence};

/// A counted reference to a node.
pub(crate) struct NodeRef(NonNull<Counted>);

/// A node behind its number of references, which shares the line that a search reads first.
#[repr(C, align(64))]
struct Counted {
    count: AtomicUsize,
    node: Guarded<Node>,
}

// SAFETY: as `Arc<Node>`: what is shared is only read, and `Node` is `Send` and `Sync` by its parts.
unsafe impl Send for NodeRef {}
// SAFETY: as above.
unsafe impl Sync for NodeRef {}

impl NodeRef {
    pub(crate) fn new(node: Node) -> Self {
        let slot = SLABS.lock().unwrap_or_else(PoisonError::into_inner).take();
        // SAFETY: the slot is large and aligned enough for a `Counted`, and nobody else has it.
        unsafe { slot.write(Counted { count: AtomicUsize::new(1), node: Guarded::new(node) }) };
        Self(slot)
    }

    /// The node, to be changed: itself if nobody shares it, else a copy that takes its place here.
    pub(crate) fn make_mut(&mut self) -> &mut Node {
        // Only a holder can make another reference, and the only holder is borrowed mutably. The
        // load acquires what the last other holder did before it let go.
        if self.counted().count.load(Ordering::Acquire) != 1 {
            *self = Self::new(Node::clone(self));
        }
        // SAFETY: this is the only reference to the node.
        unsafe { &mut *self.counted().node.get_mut() }
    }

    fn counted(&self) -> &Counted {
        // SAFETY: the count and the node live as long as a reference to them.
        unsafe { self.0.as_ref() }
    }
}

impl Deref for NodeRef {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: the node is changed by `make_mut` alone, through its only reference.
        unsafe { &*self.counted().node.get() }
    }
}

impl Clone for NodeRef {
    fn clone(&self) -> Self {
        let before = self.counted().count.fetch_add(1, Ordering::Relaxed);
        assert!(before < usize::MAX / 2, "too many references to a node");
        Self(self.0)
    }
}

impl Drop for NodeRef {
    fn drop(&mut self) {
        if self.counted().count.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // What other holders read happened before the node goes.
        fence(Ordering::Acquire);
        // SAFETY: that was the last reference; the slot goes back when the node in it is gone. The
        // slabs are not locked meanwhile: an inner node drops its children.
        unsafe {
            ptr::drop_in_place(self.0.as_ptr());
            SLABS.lock().unwrap_or_else(PoisonError::into_inner).give_back(self.0);
        }
    }
}

/// Bytes of a slab, and its alignment: a large page.
const SLAB_LEN: usize = 2 << 20;

/// Nodes in a slab.
const SLOTS: usize = (SLAB_LEN - size_of::<Header>()) / size_of::<Counted>();

/// The beginning of a slab.
#[repr(C, align(64))]
struct Header {
    /// The free slots.
    free: [u16; SLOTS_MAX],
    free_len: usize,
}

/// An upper bound of [`SLOTS`].
const SLOTS_MAX: usize = SLAB_LEN / size_of::<Counted>();

#[repr(C)]
struct Slab {
    header: Header,
    slots: [MaybeUninit<Counted>; SLOTS],
}

const LAYOUT: Layout = match Layout::from_size_align(SLAB_LEN, SLAB_LEN) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

const _: () = assert!(size_of::<Slab>() <= SLAB_LEN && SLOTS <= u16::MAX as usize);

/// The slabs that have free slots.
struct Slabs {
    partly_free: Vec<NonNull<Slab>>,
}

// SAFETY: slabs belong to nobody's thread.
unsafe impl Send for Slabs {}

static SLABS: Mutex<Slabs> = Mutex::new(Slabs { partly_free: Vec::new() });

impl Slabs {
    fn take(&mut self) -> NonNull<Counted> {
        let slab = match self.partly_free.last() {
            Some(slab) => *slab,
            None => {
                let slab = new_slab();
                self.partly_free.push(slab);
                slab
            }
        };
        // SAFETY: the slab is alive, its header is only reached under the lock of the slabs, and the
        // reference does not cover the slots.
        let header = unsafe { &mut (*slab.as_ptr()).header };
        header.free_len -= 1;
        let slot = header.free[header.free_len];
        if header.free_len == 0 {
            self.partly_free.pop();
        }
        // SAFETY: the slot is one of the slab's.
        unsafe { slots_of(slab).add(usize::from(slot)) }
    }

    /// # Safety
    /// The slot came from [`Slabs::take`], and nobody uses it any more.
    unsafe fn give_back(&mut self, slot: NonNull<Counted>) {
        let slab = slot.as_ptr().map_addr(|address| address & !(SLAB_LEN - 1)).cast::<Slab>();
        // SAFETY: slabs are aligned to their length, so this is the slot's.
        let slab = unsafe { NonNull::new_unchecked(slab) };
        // SAFETY: the slot is one of the slab's.
        let index = unsafe { slot.offset_from(slots_of(slab)) };
        // SAFETY: as in `take`.
        let header = unsafe { &mut (*slab.as_ptr()).header };
        header.free[header.free_len] = index as u16;
        header.free_len += 1;
        if header.free_len == 1 {
            self.partly_free.push(slab);
        } else if header.free_len == SLOTS && self.partly_free.len() > 1 {
            // One empty slab is kept for what comes next.
            self.partly_free.retain(|&other| other != slab);
            // SAFETY: it was allocated with this layout, and none of its slots is in use.
            unsafe { dealloc(slab.as_ptr().cast(), LAYOUT) };
        }
    }
}

fn slots_of(slab: NonNull<Slab>) -> NonNull<Counted> {
    // SAFETY: the field is inside the slab.
    unsafe { NonNull::new_unchecked(&raw mut (*slab.as_ptr()).slots).cast() }
}

fn new_slab() -> NonNull<Slab> {
    // SAFETY: the layout has a length.
    let start = unsafe { alloc(LAYOUT) };
    let Some(slab) = NonNull::new(start.cast::<Slab>()) else { handle_alloc_error(LAYOUT) };
    // SAFETY: the range was allocated just now. Where there are no large pages, this does nothing.
    unsafe {
        let _ = rustix::mm::madvise(start.cast(), SLAB_LEN, rustix::mm::Advice::LinuxHugepage);
    }
    let mut free = [0; SLOTS_MAX];
    for (slot, free) in (0..SLOTS as u16).rev().zip(&mut free) {
        *free = slot;
    }
    // SAFETY: the slab is ours, and its header is at its beginning.
    unsafe { (&raw mut (*slab.as_ptr()).header).write(Header { free, free_len: SLOTS }) };
    slab
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn leaf() -> NodeRef {
        NodeRef::new(Node::empty_leaf([].into(), None))
    }

    #[test]
    fn a_shared_node_is_copied_before_it_is_changed() {
        let mut first = leaf();
        let second = first.clone();
        first.make_mut().keys.insert(0, b"key");
        assert_eq!((first.keys.len(), second.keys.len()), (1, 0));
        let place = first.0;
        drop(second);
        first.make_mut().keys.insert(1, b"keys");
        assert_eq!(first.0, place, "what is not shared is changed in place");
    }

    #[test]
    fn slots_are_reused_in_any_order_of_return() {
        let mut nodes: Vec<_> = (0..3 * SLOTS).map(|_| leaf()).collect();
        for step in [2, 3, 5] {
            let mut at = 0;
            nodes.retain(|_| {
                at += 1;
                at % step != 0
            });
            let more = 3 * SLOTS - nodes.len();
            nodes.extend((0..more).map(|_| leaf()));
        }
        let mut places: Vec<_> = nodes.iter().map(|node| node.0).collect();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), 3 * SLOTS, "a slot holds one node");
    }

    #[test]
    fn threads_may_share_nodes_and_let_them_go() {
        let mut node = leaf();
        node.make_mut().keys.insert(0, b"key");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut mine = node.clone();
                scope.spawn(move || {
                    for _ in 0..500 {
                        let copy = mine.clone();
                        mine.make_mut().keys.insert(1, b"more");
                        assert_eq!((mine.keys.len(), copy.keys.len()), (2, 1));
                        mine = copy;
                    }
                });
            }
        });
        assert_eq!(node.keys.len(), 1);
    }
}
