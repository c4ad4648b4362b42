//! The state that all handles of an object store share: its datasets, the names in use, and the objects that are open.
//!
//! **Turns.** The newest metadata of an open object, and whether it was deleted, lie in memory ([`State`]). A commit reads
//! and changes them in its turn only, so what it finds is what all commits before it have left, visible or not. State is
//! read from the store when an object is opened for the first time: then no handle of it has a commit on the way.
//!
//! **Names.** Operations that read or change the object of a name hold one of a fixed number of locks, which the name's hash
//! chooses, for as long as they take. So a name's object is opened before it is deleted or renamed, or not at all, and
//! each object is first opened by one thread: it has one name at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use halite_contract::{Bytes, Direction, KeyRange, Result};
use halite_sim::locks::{Mutex, MutexGuard};

use super::metadata::Metadata;
use crate::large::{Wanted, note_use, read_parts};
use crate::scan::StoreScan;
use crate::store::Store;
use crate::store::view::View;
use crate::tree::Context;
use crate::{Error, read};

/// Locks of names.
const STRIPES: usize = 64;

/// The state of an object store.
pub(crate) struct Shared {
    store: Weak<Store>,
    /// Set when the engine is closed, in a turn.
    is_closed: Arc<AtomicBool>,
    /// Set when the object store is dropped, in a turn.
    is_dropped: AtomicBool,
    name: Arc<str>,
    /// The dataset of the chunks.
    pub(super) chunks: u32,
    /// The dataset of the names and the metadata.
    pub(super) metadata: u32,
    names: [Mutex<()>; STRIPES],
    /// The id that the next object gets. It changes in turns.
    pub(super) next_id: Mutex<u64>,
    open: Mutex<HashMap<u64, Entry>>,
}

/// An open object.
struct Entry {
    state: Arc<State>,
    handles: usize,
}

/// The newest state of an open object. It changes in turns.
pub(super) struct State {
    pub(super) id: u64,
    /// `None` when the object was deleted.
    metadata: Mutex<Option<Metadata>>,
}

impl State {
    /// The newest metadata, which may not be visible yet.
    pub(super) fn metadata(&self) -> Result<Metadata> {
        (*self.metadata.lock()).ok_or_else(|| no_such_object(self.id))
    }

    /// Notes the metadata that a commit leaves, in its turn; none, if it deletes the object.
    pub(super) fn set(&self, metadata: Option<Metadata>) {
        *self.metadata.lock() = metadata;
    }
}

/// The error of an object that was deleted.
pub(super) fn no_such_object(id: u64) -> halite_contract::Error {
    Error::NoSuchObject { object: format!("#{id}") }.into()
}

/// A handle of an open object's state.
pub(super) struct Opened {
    pub(super) shared: Arc<Shared>,
    pub(super) state: Arc<State>,
}

impl Clone for Opened {
    fn clone(&self) -> Self {
        let opened = self.shared.opened(self.state.id);
        opened.expect("an object that has a handle is open")
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock();
        if let Some(entry) = open.get_mut(&self.state.id) {
            entry.handles -= 1;
            if entry.handles == 0 {
                open.remove(&self.state.id);
            }
        }
    }
}

impl Shared {
    pub(super) fn new(
        store: &Arc<Store>,
        is_closed: &Arc<AtomicBool>,
        name: &str,
        (chunks, metadata): (u32, u32),
        next_id: u64,
    ) -> Self {
        Self {
            store: Arc::downgrade(store),
            is_closed: Arc::clone(is_closed),
            is_dropped: AtomicBool::new(false),
            name: name.into(),
            chunks,
            metadata,
            names: [const { Mutex::new(()) }; STRIPES],
            next_id: Mutex::new(next_id),
            open: Mutex::default(),
        }
    }

    /// The store, if it is still open.
    pub(super) fn store(&self) -> Result<Arc<Store>> {
        self.check()?;
        self.store.upgrade().ok_or_else(|| Error::Closed.into())
    }

    /// Refuses an object store that was dropped, or whose store was closed. The answer that a commit gets in its turn stays
    /// right until its batch is in the log.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Closed.into());
        }
        match self.is_dropped.load(Ordering::Relaxed) {
            true => Err(Error::NoSuchObjectStore { name: self.name.to_string() }.into()),
            false => Ok(()),
        }
    }

    /// Notes that the object store was dropped, in a turn.
    pub(super) fn note_dropped(&self) {
        self.is_dropped.store(true, Ordering::Relaxed);
    }

    /// The state of the datasets at some moment of the call.
    pub(super) fn reader(&self) -> Result<Reader> {
        let store = self.store()?;
        let (view, at) = store.latest();
        Ok(Reader { context: Arc::clone(&store.trees), view, at })
    }

    /// Waits until no other operation of a name is under way.
    pub(super) fn hold(&self, name: &[u8]) -> MutexGuard<'_, ()> {
        self.names[stripe(name)].lock()
    }

    /// Waits until no other operation of two names is under way.
    pub(super) fn hold_both(
        &self,
        a: &[u8],
        b: &[u8],
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let (a, b) = (stripe(a), stripe(b));
        // All threads take two locks in one order.
        let first = self.names[a.min(b)].lock();
        (first, (a != b).then(|| self.names[a.max(b)].lock()))
    }

    /// Another handle of an object that is open.
    pub(super) fn opened(self: &Arc<Self>, id: u64) -> Option<Opened> {
        let mut open = self.open.lock();
        let entry = open.get_mut(&id)?;
        entry.handles += 1;
        Some(Opened { shared: Arc::clone(self), state: Arc::clone(&entry.state) })
    }

    /// A handle of an object, whose name is held; `metadata` is what the store has of it.
    pub(super) fn open(self: &Arc<Self>, id: u64, metadata: Metadata) -> Opened {
        let mut open = self.open.lock();
        let state = || Arc::new(State { id, metadata: Mutex::new(Some(metadata)) });
        let entry = open.entry(id).or_insert_with(|| Entry { state: state(), handles: 0 });
        entry.handles += 1;
        Opened { shared: Arc::clone(self), state: Arc::clone(&entry.state) }
    }
}

fn stripe(name: &[u8]) -> usize {
    (halite_sst::hash_key(name) % STRIPES as u64) as usize
}

/// One state of the datasets.
pub(super) struct Reader {
    context: Arc<Context>,
    view: Arc<View>,
    at: u64,
}

impl Reader {
    pub(super) fn get(&self, dataset: u32, key: &[u8]) -> Result<Option<Bytes>> {
        read::get(&self.context, &self.view, self.at, dataset, key)
    }

    pub(super) fn scan(&self, dataset: u32, range: &KeyRange) -> StoreScan {
        let view = Arc::clone(&self.view);
        StoreScan::new(&self.context, view, self.at, dataset, range, Direction::Forward)
    }

    /// Reads parts of values that a scan has found.
    pub(super) fn read_large<'a>(&self, wanted: impl Iterator<Item = Wanted<'a>>) -> Result<()> {
        let counted = wanted.inspect(|wanted| note_use(&self.context, wanted.large));
        Ok(read_parts(&self.context, counted)?)
    }
}
