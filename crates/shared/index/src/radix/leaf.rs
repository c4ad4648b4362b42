//! One key's versions: how one is chosen, and how one is added.

use std::cmp::Ordering::{Equal, Greater, Less};

use super::reclaim::Pin;
use super::versions::{Versions, View};
use super::word::{self, Leaf};
use super::{RadixTree, Records};
use crate::sync::{AtomicU64, Ordering};

impl Leaf<'_> {
    /// The newest entry whose version is at most `at`.
    #[inline]
    pub(super) fn newest_up_to(self, at: u64, records: &impl Records) -> Option<u64> {
        match self {
            Self::One(entry) => (records.version(entry) <= at).then_some(entry),
            Self::Several(view) => {
                let count = view.count_up_to(at, |entry| records.version(entry));
                count.checked_sub(1).map(|newest| view.entry(newest))
            }
        }
    }
}

impl RadixTree {
    /// Adds a version to a key, and drops the versions that are not needed. The caller holds the lock of
    /// the node that the slot is in. Returns how many were dropped.
    pub(super) fn add_version(
        &self,
        pin: &Pin,
        records: &impl Records,
        slot: &AtomicU64,
        leaf: Leaf,
        entry: u64,
        needed: Option<&impl Fn(u64, u64) -> bool>,
    ) -> usize {
        match leaf {
            Leaf::One(old) => self.add_second(records, slot, old, entry, needed),
            Leaf::Several(view) => self.add_next(pin, records, slot, view, entry, needed),
        }
    }

    fn add_second(
        &self,
        records: &impl Records,
        slot: &AtomicU64,
        old: u64,
        entry: u64,
        needed: Option<&impl Fn(u64, u64) -> bool>,
    ) -> usize {
        let (old_version, version) = (records.version(old), records.version(entry));
        let pair = match old_version.cmp(&version) {
            Less => [old, entry],
            Equal => return 0,
            Greater => [entry, old],
        };
        let (older, newer) = (version.min(old_version), version.max(old_version));
        if needed.is_some_and(|needed| !needed(older, newer)) {
            slot.store(pair[1], Ordering::Release);
            return 1;
        }
        let versions = Versions::with(&self.arena, pair.into_iter());
        slot.store(word::of_versions(versions), Ordering::Release);
        0
    }

    fn add_next(
        &self,
        pin: &Pin,
        records: &impl Records,
        slot: &AtomicU64,
        old: View,
        entry: u64,
        needed: Option<&impl Fn(u64, u64) -> bool>,
    ) -> usize {
        let version_of = |entry| records.version(entry);
        let version = version_of(entry);
        let at = old.count_up_to(version, version_of);
        if at > 0 && version_of(old.entry(at - 1)) == version {
            return 0;
        }
        let mut view = old;
        if !old.has_room() {
            let longer = Versions::with(&self.arena, old.entries());
            // SAFETY: no thread gives it back while the node is locked.
            view = unsafe { View::new(longer) };
            slot.store(word::of_versions(longer), Ordering::Release);
            // SAFETY: it is the arena's, and no slot leads to it any more.
            unsafe { pin.retire(&self.arena, old.place(), old.slot_len()) };
        }
        view.insert(at, entry);
        let Some(needed) = needed else { return 0 };
        let dropped = view.retain_needed(version_of, needed);
        if view.len() == 1 {
            slot.store(view.newest(), Ordering::Release);
            // SAFETY: as above.
            unsafe { pin.retire(&self.arena, view.place(), view.slot_len()) };
        }
        dropped
    }
}
