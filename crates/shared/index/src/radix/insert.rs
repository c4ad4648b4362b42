//! How a key, or a version of one, comes into a tree.

use std::ptr::NonNull;

use super::lock::{Restart, VersionLock};
use super::node::{Four, Node};
use super::path::parting;
use super::reclaim::Pin;
use super::sought::{Sought, common_len};
use super::word::{self, Child};
use super::{RadixTree, Records};
use crate::sync::{AtomicU64, Ordering};

impl RadixTree {
    /// Adds an entry. On an error, no node has changed.
    pub(super) fn try_insert(
        &self,
        pin: &Pin,
        records: &impl Records,
        sought: &Sought,
        entry: u64,
        needed: Option<&impl Fn(u64, u64) -> bool>,
    ) -> Result<usize, Restart> {
        let (mut parent, mut slot) = (&self.anchor, &self.root);
        let mut seen = parent.read()?;
        // The number of the key's bytes that are those of the path.
        let mut known = 0;
        loop {
            let word = slot.load(Ordering::Acquire);
            parent.validate(seen)?;
            // SAFETY: the word was loaded from a slot, after pinning.
            match unsafe { Child::of(word) } {
                Child::Nothing => {
                    let _locked = parent.lock(seen)?;
                    slot.store(entry, Ordering::Release);
                    self.arena.count_key();
                    return Ok(0);
                }
                Child::Leaf(leaf) => {
                    let path = records.key(leaf.newest());
                    if path == sought.key {
                        let _locked = parent.lock(seen)?;
                        return Ok(self.add_version(pin, records, slot, leaf, entry, needed));
                    }
                    let at = common_len(path, sought.key);
                    let fork = self.fork(sought, at, (path.get(at).copied(), word), entry);
                    return self.put_above(parent, seen, slot, fork).map(|()| 0);
                }
                Child::Node(node) => {
                    node.prefetch(sought.byte(known).unwrap_or_default());
                    let version = node.lock().read()?;
                    if let Some((at, byte)) = parting(node, sought, known, pin, records)? {
                        let fork = self.fork(sought, at, (Some(byte), word), entry);
                        return self.put_above(parent, seen, slot, fork).map(|()| 0);
                    }
                    let level = node.level();
                    let byte = sought.byte(level);
                    if let Some(next) = node.find(byte) {
                        (parent, slot, seen, known) = (node.lock(), next, version, level + 1);
                        continue;
                    }
                    self.add_key(pin, (parent, seen, slot), (node, version), byte, entry)?;
                    return Ok(0);
                }
            }
        }
    }

    /// A node with two children: the old word, and a new key.
    fn fork(
        &self,
        sought: &Sought,
        level: usize,
        old: (Option<u8>, u64),
        entry: u64,
    ) -> NonNull<Four> {
        let window = sought.window(level);
        Four::fork(&self.arena, level, window, old, (sought.byte(level), entry))
    }

    /// Puts a new node into a slot, above its old contents.
    fn put_above(
        &self,
        parent: &VersionLock,
        seen: u64,
        slot: &AtomicU64,
        fork: NonNull<Four>,
    ) -> Result<(), Restart> {
        let Ok(_locked) = parent.lock(seen) else {
            // SAFETY: no other thread has seen it.
            unsafe { self.arena.give_back(fork.cast(), size_of::<Four>()) };
            return Err(Restart);
        };
        slot.store(word::of_four(fork), Ordering::Release);
        self.arena.count_key();
        Ok(())
    }

    /// Adds a key to a node that has no slot for it, or to a larger one that takes its place.
    fn add_key(
        &self,
        pin: &Pin,
        (parent, seen, slot): (&VersionLock, u64, &AtomicU64),
        (node, version): (Node, u64),
        byte: Option<u8>,
        entry: u64,
    ) -> Result<(), Restart> {
        if node.has_room() {
            let _locked = node.lock().lock(version)?;
            node.add(byte, entry);
        } else {
            let _above = parent.lock(seen)?;
            let locked = node.lock().lock(version)?;
            let (word, grown) = node.grown(&self.arena);
            match grown.find(byte) {
                Some(free) => free.store(entry, Ordering::Relaxed),
                None => grown.add(byte, entry),
            }
            slot.store(word, Ordering::Release);
            locked.retire();
            let (place, len) = node.slot();
            // SAFETY: it is the arena's, and no slot leads to it any more.
            unsafe { pin.retire(&self.arena, place, len) };
        }
        self.arena.count_key();
        Ok(())
    }
}
