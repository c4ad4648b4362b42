//! Which files of large values there are, and when each is removed.
//!
//! A file is referred to by one version of one key. It is needed as long as the place of that version says:
//!
//! ```text
//! written    the batch that refers to it is on its way
//! in memory  a memtable, a global index or the log has the version
//! on its way a flush has taken the version up, and may have written it to a table
//! in levels  a table has it; the manifest has the list of each table's files
//! ```
//!
//! In memory, a version is *hidden* when a newer version of its key, or a removal of its range, is committed. Its
//! file is removed when that is durable and no snapshot sees the hidden version: it waits for no flush or compaction.
//! Records may still refer to it; no reader comes to them, and a flush leaves them out ([`Values::take_up`]). In the
//! levels, a file is removed when no table refers to it any more, and the edit that says so is durable. Readers pin
//! the file that they read.
//!
//! A crash forgets all this. An opening finds out which versions in memory and in the log are not hidden, and which
//! files tables refer to; other files of the store are removed.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use halite_contract::Bytes;
use halite_disk::Disk;
use halite_sim::locks::Mutex;
use halite_sst::ValueRef;
use xxhash_rust::xxh3::xxh3_64;

use crate::levels::value_name;
use crate::levels::{Error, Result};
use crate::snapshots::Kept;
use crate::value_file::{self, Reserve};

/// Counters by which a writer sees that its key has no large value.
const COUNTERS: usize = 4096;

/// The files of a store's large values.
pub(crate) struct Values {
    disk: Disk,
    store_id: u128,
    state: Mutex<State>,
    /// Versions in memory, by their keys' hashes.
    counters: Box<[AtomicU32]>,
    /// Versions in memory.
    in_memory: AtomicUsize,
    /// Hidden versions whose files are there.
    hidden: AtomicUsize,
    /// The sequence up to which everything is known to be durable.
    durable: AtomicU64,
    graveyard: Arc<Mutex<Vec<u64>>>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<u64, Known>,
    /// Of versions in memory, by tree and key.
    by_key: BTreeMap<Key, Vec<u64>>,
    hidden: Vec<Hidden>,
    /// By tree: the files that a flush has taken up.
    on_its_way: BTreeMap<u32, BTreeSet<u64>>,
    bytes: u64,
}

/// A tree, and a key with its key space before it.
type Key = (u32, Box<[u8]>);

/// A file that a version needs.
struct Known {
    file: Arc<ValueFile>,
    /// The key, as long as the version is in memory.
    key: Option<Key>,
    is_in_levels: bool,
    /// No larger than the version's sequence, and larger than the sequence that was visible before it.
    since: u64,
    is_hidden: bool,
}

/// A version that a newer one hides.
struct Hidden {
    number: u64,
    /// The sequence of the version or removal that hides it.
    by: u64,
}

/// A file, which stays as long as it is read.
pub(crate) struct ValueFile {
    value: ValueRef,
    is_removed: AtomicBool,
    graveyard: Arc<Mutex<Vec<u64>>>,
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        if *self.is_removed.get_mut() {
            // Removing a file takes longer than a reader wants to wait.
            self.graveyard.lock().push(self.value.number);
        }
    }
}

/// A value that was written, and that no version refers to yet: its file is removed with this, unless it is kept.
pub(crate) struct Written<'a> {
    values: &'a Values,
    pub(crate) value: ValueRef,
    is_kept: bool,
}

impl Written<'_> {
    /// Lets the file stay.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.values.release(&[self.value.number]);
            self.values.bury();
        }
    }
}

impl Values {
    /// The files of a store, none of which is known yet.
    pub(crate) fn new(disk: &Disk, store_id: u128) -> Self {
        Self {
            disk: disk.clone(),
            store_id,
            state: Mutex::default(),
            counters: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(),
            in_memory: AtomicUsize::new(0),
            hidden: AtomicUsize::new(0),
            durable: AtomicU64::new(0),
            graveyard: Arc::default(),
        }
    }

    /// Writes a value, durably. The sequence `visible` is below that of the version that will refer to it.
    pub(crate) fn write(
        &self,
        number: u64,
        value: &[u8],
        visible: u64,
        reserve: Reserve<'_>,
    ) -> Result<Written<'_>> {
        let value = value_file::write(&self.disk, self.store_id, number, value, reserve)?;
        self.add(&value, visible + 1, false);
        Ok(Written { values: self, value, is_kept: false })
    }

    /// Whether the names of the folder can be changed, and made durable. After a sync of them that failed they never
    /// can.
    pub(crate) fn is_disk_synced(&self) -> bool {
        self.disk.check_synced().is_ok()
    }

    /// Adds a file that a table refers to.
    pub(crate) fn add_of_levels(&self, value: &ValueRef) {
        self.add(value, 0, true);
    }

    /// Adds a file that a version in memory refers to, which is durable.
    pub(crate) fn add_of_memory(&self, value: &ValueRef, tree: usize, key: &[u8]) {
        self.add(value, 0, false);
        self.committed(value.number, tree, key);
    }

    fn add(&self, value: &ValueRef, since: u64, is_in_levels: bool) {
        let (is_removed, graveyard) = (AtomicBool::new(false), Arc::clone(&self.graveyard));
        let file = Arc::new(ValueFile { value: *value, is_removed, graveyard });
        let known = Known { file, key: None, is_in_levels, since, is_hidden: false };
        let mut state = self.state.lock();
        if let Entry::Vacant(place) = state.files.entry(value.number) {
            place.insert(known);
            state.bytes += value_file::file_len(value.len);
        }
    }

    /// Notes that a version in memory refers to a file, when it is committed.
    pub(crate) fn committed(&self, number: u64, tree: usize, key: &[u8]) {
        let key: Key = (tree as u32, key.into());
        let mut state = self.state.lock();
        // A flush may have been faster: then its version is no longer in memory.
        let taken_up = state.on_its_way.values().any(|numbers| numbers.contains(&number));
        let Some(known) = state.files.get_mut(&number) else { return };
        if taken_up || known.is_in_levels || known.key.is_some() {
            return;
        }
        known.key = Some(key.clone());
        self.counter(&key.1).fetch_add(1, Ordering::Relaxed);
        self.in_memory.fetch_add(1, Ordering::Release);
        state.by_key.entry(key).or_default().push(number);
    }

    fn counter(&self, key: &[u8]) -> &AtomicU32 {
        &self.counters[xxh3_64(key) as usize % COUNTERS]
    }

    /// Whether there may be a large value in memory.
    #[inline]
    pub(crate) fn is_any_in_memory(&self) -> bool {
        self.in_memory.load(Ordering::Acquire) > 0
    }

    /// Whether a key may have a large value in memory.
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        self.counter(key).load(Ordering::Relaxed) > 0
    }

    /// The files of a key's versions in memory that are not known to be hidden.
    pub(crate) fn of_key(&self, tree: usize, key: &[u8]) -> Vec<u64> {
        let state = self.state.lock();
        let numbers = state.by_key.get(&(tree as u32, key.into()));
        let is_shown = |number: &&u64| state.files.get(number).is_some_and(|file| !file.is_hidden);
        numbers.into_iter().flatten().filter(is_shown).copied().collect()
    }

    /// The keys of a tree from `start` up to `end` that have large values in memory.
    pub(crate) fn keys_within(&self, tree: usize, start: &[u8], end: &[u8]) -> Vec<Box<[u8]>> {
        let key = |key: &[u8]| -> Key { (tree as u32, key.into()) };
        if start >= end {
            return Vec::new();
        }
        let state = self.state.lock();
        state.by_key.range(key(start)..key(end)).map(|((_, key), _)| key.clone()).collect()
    }

    /// Notes that the version or removal with the sequence `by`, which is visible, hides versions in memory.
    pub(crate) fn hide(&self, numbers: &[u64], by: u64) {
        let mut state = self.state.lock();
        for &number in numbers {
            let Some(known) = state.files.get_mut(&number) else { continue };
            if known.key.is_some() && !std::mem::replace(&mut known.is_hidden, true) {
                state.hidden.push(Hidden { number, by });
            }
        }
        self.hidden.store(state.hidden.len(), Ordering::Release);
    }

    /// Notes up to which sequence everything is durable.
    pub(crate) fn note_durable(&self, sequence: u64) {
        self.durable.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Whether a file may be removed once a sequence is durable, or a snapshot ends.
    #[inline]
    pub(crate) fn has_hidden(&self) -> bool {
        self.hidden.load(Ordering::Acquire) > 0
    }

    /// Removes the files whose versions are hidden for good. Returns whether there were any.
    pub(crate) fn let_go(&self, kept: &Kept) -> bool {
        let durable = self.durable.load(Ordering::Acquire);
        let mut gone = Vec::new();
        let mut state = self.state.lock();
        let State { files, hidden, on_its_way, .. } = &mut *state;
        hidden.retain(|one| {
            let Some(known) = files.get(&one.number).filter(|known| known.key.is_some()) else {
                return false;
            };
            let is_on_its_way = on_its_way.values().any(|numbers| numbers.contains(&one.number));
            if is_on_its_way || one.by > durable || kept.is_needed(known.since, one.by) {
                return true;
            }
            gone.push(one.number);
            false
        });
        self.hidden.store(hidden.len(), Ordering::Release);
        let files: Vec<_> =
            gone.iter().filter_map(|number| self.take(&mut state, *number)).collect();
        drop(state);
        !files.is_empty()
    }

    /// Removes files that no version refers to any more.
    pub(crate) fn release(&self, numbers: &[u64]) {
        let mut state = self.state.lock();
        let files: Vec<_> =
            numbers.iter().filter_map(|number| self.take(&mut state, *number)).collect();
        drop(state);
        drop(files);
    }

    /// Forgets a file, which is removed with its last reader.
    fn take(&self, state: &mut State, number: u64) -> Option<Arc<ValueFile>> {
        self.leave_memory(state, number);
        let known = state.files.remove(&number)?;
        state.bytes -= value_file::file_len(known.file.value.len);
        known.file.is_removed.store(true, Ordering::Relaxed);
        Some(known.file)
    }

    /// Notes that a version is not in memory any more.
    fn leave_memory(&self, state: &mut State, number: u64) {
        let key = state.files.get_mut(&number).and_then(|known| known.key.take());
        let Some(key) = key else { return };
        self.counter(&key.1).fetch_sub(1, Ordering::Relaxed);
        self.in_memory.fetch_sub(1, Ordering::Release);
        if let Some(numbers) = state.by_key.get_mut(&key) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                state.by_key.remove(&key);
            }
        }
    }

    /// Whether a version that a flush has come to is to go to the levels: not if its file was removed, as it is
    /// hidden for good. From then on its file stays until the flush is [settled](Self::settle).
    pub(crate) fn take_up(&self, tree: u32, number: u64) -> bool {
        let mut state = self.state.lock();
        let is_there = state.files.contains_key(&number);
        if is_there {
            state.on_its_way.entry(tree).or_default().insert(number);
        }
        is_there
    }

    /// Notes that tables of a tree are durable that have these files: all that a flush brought to the levels, or a
    /// part.
    pub(crate) fn in_levels(&self, tree: u32, numbers: &[u64]) {
        let mut state = self.state.lock();
        for number in numbers {
            if let Some(taken_up) = state.on_its_way.get_mut(&tree) {
                taken_up.remove(number);
            }
            self.leave_memory(&mut state, *number);
            if let Some(known) = state.files.get_mut(number) {
                known.is_in_levels = true;
            }
        }
    }

    /// Notes that everything that a flush of a tree has come to is in the levels, durably. Files that it took up and
    /// no table refers to are removed: no reader sees them.
    pub(crate) fn settle(&self, tree: u32) {
        let mut state = self.state.lock();
        let mut gone = Vec::new();
        for number in state.on_its_way.remove(&tree).unwrap_or_default() {
            if state.files.get(&number).is_some_and(|known| !known.is_in_levels) {
                gone.extend(self.take(&mut state, number));
            }
        }
        drop(state);
        drop(gone);
    }

    /// Reads a value; `None` if its file was removed, as the version that referred to it is hidden for good.
    ///
    /// # Errors
    /// See [`value_file::read`].
    pub(crate) fn get(&self, wanted: &ValueRef) -> Result<Option<Bytes>> {
        let pinned =
            self.state.lock().files.get(&wanted.number).map(|known| Arc::clone(&known.file));
        let Some(_pinned) = pinned else { return Ok(None) };
        value_file::read(&self.disk, self.store_id, wanted).map(|value| Some(Bytes::from(value)))
    }

    /// Removes the files that no version needs and no reader uses.
    pub(crate) fn bury(&self) {
        let dead = std::mem::take(&mut *self.graveyard.lock());
        for number in dead {
            // If the file stays, the next opening removes it.
            let _ = self.disk.remove(&value_name(number));
        }
    }

    /// Whether a file is known.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.state.lock().files.contains_key(&number)
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Reads all values, and tells which files are damaged, or missing. `progress` is told bytes of each; if it
    /// breaks, the rest is not looked at.
    pub(crate) fn check(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Vec<Error> {
        let files: Vec<_> =
            self.state.lock().files.values().map(|known| Arc::clone(&known.file)).collect();
        let mut found = Vec::new();
        for file in files {
            found.extend(value_file::check(&self.disk, self.store_id, &file.value).err());
            if progress(value_file::file_len(file.value.len)).is_break() {
                break;
            }
        }
        found
    }
}
