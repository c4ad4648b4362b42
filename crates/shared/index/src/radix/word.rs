//! The contents of a node's slot: one word, whose lowest bits tell its kind.
//!
//! | lowest 3 bits | the rest |
//! |---|---|
//! | 0 | an entry, which is a multiple of 8; or 0 for nothing |
//! | 1 | the address of an array of versions |
//! | 2 to 5 | the address of a node of 4, 16, 48 or 256 slots |

use std::ptr::NonNull;

use super::node::{FortyEight, Four, Full, Node, Sixteen};
use super::versions::{Versions, View};
use crate::prefetch;

const TAG: u64 = 7;
const VERSIONS: u64 = 1;
const FOUR: u64 = 2;
const SIXTEEN: u64 = 3;
const FORTY_EIGHT: u64 = 4;
const FULL: u64 = 5;

/// The target of a word.
pub(super) enum Child<'a> {
    Nothing,
    Leaf(Leaf<'a>),
    Node(Node<'a>),
}

/// The versions of one key.
#[derive(Clone, Copy)]
pub(super) enum Leaf<'a> {
    /// The only one, inline.
    One(u64),
    /// Several; or the remaining ones of them.
    Several(View<'a>),
}

impl<'a> Child<'a> {
    /// # Safety
    /// The word came from a slot of the tree by an acquiring load, and the epoch has been pinned since
    /// before that, as long as `'a`.
    #[inline]
    pub(super) unsafe fn of(word: u64) -> Self {
        let tag = word & TAG;
        if tag == 0 {
            return if word == 0 { Self::Nothing } else { Self::Leaf(Leaf::One(word)) };
        }
        let address = (word & !TAG) as usize;
        // SAFETY: such a word was made by the functions below, of a reference to the kind of memory that
        // its tag names. That memory is initialised before the word is stored, and given back only when no
        // pinned thread may have loaded the word.
        unsafe {
            match tag {
                VERSIONS => Self::Leaf(Leaf::Several(View::new(NonNull::new_unchecked(
                    std::ptr::with_exposed_provenance_mut(address),
                )))),
                FOUR => {
                    Self::Node(Node::Four(&*std::ptr::with_exposed_provenance::<Four>(address)))
                }
                SIXTEEN => Self::Node(Node::Sixteen(
                    &*std::ptr::with_exposed_provenance::<Sixteen>(address),
                )),
                FORTY_EIGHT => Self::Node(Node::FortyEight(&*std::ptr::with_exposed_provenance::<
                    FortyEight,
                >(address))),
                _ => Self::Node(Node::Full(&*std::ptr::with_exposed_provenance::<Full>(address))),
            }
        }
    }
}

impl Leaf<'_> {
    /// An entry of the key: the newest.
    #[inline]
    pub(super) fn newest(self) -> u64 {
        match self {
            Self::One(entry) => entry,
            Self::Several(view) => view.newest(),
        }
    }
}

/// Whether a word does not lead to a node.
#[inline]
pub(super) fn is_leaf(word: u64) -> bool {
    word & TAG <= VERSIONS
}

/// Prefetches the lines of the node that a word leads to. Returns whether it leads to one.
#[inline]
pub(super) fn prefetch(word: u64) -> bool {
    let len = match word & TAG {
        FOUR => size_of::<Four>(),
        SIXTEEN => size_of::<Sixteen>(),
        FORTY_EIGHT => size_of::<FortyEight>(),
        FULL => size_of::<Full>(),
        _ => return false,
    };
    prefetch::lines(std::ptr::without_provenance((word & !TAG) as usize), len);
    true
}

/// Prefetches the first line of a word's target, if that is a node or an array of versions.
#[inline]
pub(super) fn prefetch_line(word: u64) {
    if word & TAG != 0 {
        prefetch::lines(std::ptr::without_provenance((word & !TAG) as usize), 1);
    }
}

/// How many nodes of a word's size a walk prefetches before it comes to them: more of small ones.
#[inline]
pub(super) fn ahead(word: u64) -> usize {
    match word & TAG {
        FOUR => 8,
        SIXTEEN => 3,
        _ => 1,
    }
}

fn tagged<T>(place: NonNull<T>, tag: u64) -> u64 {
    place.expose_provenance().get() as u64 | tag
}

pub(super) fn of_versions(place: NonNull<Versions>) -> u64 {
    tagged(place, VERSIONS)
}

pub(super) fn of_four(place: NonNull<Four>) -> u64 {
    tagged(place, FOUR)
}

pub(super) fn of_sixteen(place: NonNull<Sixteen>) -> u64 {
    tagged(place, SIXTEEN)
}

pub(super) fn of_forty_eight(place: NonNull<FortyEight>) -> u64 {
    tagged(place, FORTY_EIGHT)
}

pub(super) fn of_full(place: NonNull<Full>) -> u64 {
    tagged(place, FULL)
}
