//! A set of changes that happen together.

use std::collections::BTreeMap;
use std::ops::Range;

use super::owner::Owner;
use super::pointer::{AnyPtr, NvPtr};

/// The longest name of a root, in bytes.
pub const HEAP_ROOT_NAME_LEN_MAX: usize = 255;

/// A set of changes of a heap: [`super::Heap::publish`] makes all of them at once, also if the power is cut. A slot, a
/// word and a root are changed once in a publication.
#[derive(Debug, Default)]
pub struct Publication {
    pub(super) activated: Vec<AnyPtr>,
    pub(super) freed: Vec<AnyPtr>,
    pub(super) stored: Vec<Store>,
    pub(super) covered: Vec<(AnyPtr, Range<u64>)>,
    pub(super) roots: BTreeMap<String, Option<u64>>,
    pub(super) dropped: Vec<Owner>,
}

/// A word to be stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Store {
    pub(super) pointer: AnyPtr,
    pub(super) at: u64,
    pub(super) value: u64,
}

impl Publication {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is no change in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { activated, freed, stored, covered, roots, dropped } = self;
        [activated.is_empty(), freed.is_empty(), stored.is_empty(), covered.is_empty()]
            .iter()
            .all(|&is_empty| is_empty)
            && roots.is_empty()
            && dropped.is_empty()
    }

    /// Takes all changes out.
    pub fn clear(&mut self) {
        let Self { activated, freed, stored, covered, roots, dropped } = self;
        activated.clear();
        freed.clear();
        stored.clear();
        covered.clear();
        roots.clear();
        dropped.clear();
    }

    /// Persists a reserved slot and all bytes written to it.
    pub fn activate<T>(&mut self, pointer: NvPtr<T>) {
        self.activated.push(pointer.any());
    }

    /// The slots that it persists: to be cancelled if it does not happen.
    #[must_use]
    pub fn activated(&self) -> &[AnyPtr] {
        &self.activated
    }

    /// Frees a persisted slot.
    pub fn free<T>(&mut self, pointer: NvPtr<T>) {
        self.freed.push(pointer.any());
    }

    /// Stores a word, `at` bytes behind the start of a persisted slot: a multiple of 8.
    pub fn store<T>(&mut self, pointer: NvPtr<T>, at: u64, value: u64) {
        self.stored.push(Store { pointer: pointer.any(), at, value });
    }

    /// Persists bytes of a persisted slot that were written before, and that the publication leads to: without them it
    /// does not happen. No word that the publication stores is among them.
    pub fn cover<T>(&mut self, pointer: NvPtr<T>, range: Range<u64>) {
        self.covered.push((pointer.any(), range));
    }

    /// Sets a named root.
    pub fn set_root(&mut self, name: &str, value: u64) {
        self.roots.insert(name.to_owned(), Some(value));
    }

    /// Removes a named root, if it is there.
    pub fn remove_root(&mut self, name: &str) {
        self.roots.insert(name.to_owned(), None);
    }

    /// Drops an owner: all its slots are free once [`super::Heap::reclaim`] has come to them.
    pub fn drop_owner(&mut self, owner: Owner) {
        self.dropped.push(owner);
    }
}
