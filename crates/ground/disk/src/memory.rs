//! Files in memory, as a process finds them in the page cache. With a modelled machine, every event of a
//! file is recorded there, and takes effect only while there is power.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_sim::locks::{self, Mutex, RwLock};
use halite_sim::{Happened, Machine, Site, planted};

use crate::model::FileEvent;
use crate::{Error, Result};

/// The bytes of a file, which outlive its name as long as it is open.
pub(crate) struct Inode {
    pub(crate) number: u32,
    pub(crate) bytes: RwLock<Vec<u8>>,
    /// Bytes that are reserved for it, and not written yet.
    reserved: AtomicU64,
    room: Arc<Room>,
}

impl Inode {
    fn new(number: u32, bytes: Vec<u8>, room: &Arc<Room>) -> Arc<Self> {
        let (bytes, reserved) = (RwLock::new(bytes), AtomicU64::new(0));
        Arc::new(Self { number, bytes, reserved, room: Arc::clone(room) })
    }

    /// Takes room to grow by so many bytes, from the reserved room first.
    fn take(&self, bytes: u64) -> bool {
        let reserved = self.reserved.load(Ordering::Relaxed);
        let of_reserved = bytes.min(reserved);
        let taken = self.room.take(bytes - of_reserved);
        if taken {
            self.reserved.store(reserved - of_reserved, Ordering::Relaxed);
        }
        taken
    }

    pub(crate) fn give_back(&self) {
        self.room.give_back(self.reserved.swap(0, Ordering::Relaxed));
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        self.room.give_back(self.bytes.read().len() as u64);
        self.give_back();
    }
}

/// The room for the bytes of all files.
struct Room {
    limit: u64,
    used: AtomicU64,
}

impl Default for Room {
    fn default() -> Self {
        Self { limit: u64::MAX, used: AtomicU64::new(0) }
    }
}

impl Room {
    /// Takes so many bytes, if there are as many.
    fn take(&self, bytes: u64) -> bool {
        let grown = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A folder's files.
#[derive(Default)]
pub(crate) struct MemoryFiles {
    state: Mutex<State>,
    room: Arc<Room>,
}

#[derive(Default)]
struct State {
    names: BTreeMap<Arc<str>, Arc<Inode>>,
    /// The number of the next new file.
    next: u32,
    /// The recorded events, by their numbers.
    events: Vec<FileEvent>,
}

/// The origin of a request: the modelled machine, if any, the path, and the place in the code.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) clock: Option<&'a Machine>,
    pub(crate) path: &'a Path,
    pub(crate) site: Site,
}

impl State {
    /// Records an event, if the machine lets it happen.
    fn happen(&mut self, asker: Asker<'_>, event: FileEvent, bytes: &[u8]) -> Result<()> {
        let Some(clock) = asker.clock else { return Ok(()) };
        let path = || asker.path.to_owned();
        let number = self.events.len() as u32;
        match clock.happen_to_files(number, bytes, event.is_sync(), asker.site) {
            Happened::Yes => self.events.push(event),
            Happened::Disregarded => {}
            Happened::Failed => {
                let action = match event {
                    FileEvent::SyncFolder => "sync the folder",
                    _ => "sync the file",
                };
                self.events.push(event.failed());
                let source = io::Error::other("the modelled kernel fails");
                return Err(Error::Io { path: path(), action, source });
            }
            Happened::PowerCut => return Err(Error::PowerCut { path: path() }),
        }
        Ok(())
    }

    fn inode(&self, name: &str, path: &Path) -> Result<Arc<Inode>> {
        let inode = self.names.get(name).map(Arc::clone);
        inode.ok_or_else(|| Error::Missing { path: path.to_owned() })
    }
}

impl MemoryFiles {
    /// Files that may have so many bytes together.
    pub(crate) fn up_to(limit: u64) -> Self {
        Self { room: Arc::new(Room { limit, ..Room::default() }), ..Self::default() }
    }

    /// Bytes that all files have, those without a name too while they are open.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.room.used.load(Ordering::Relaxed)
    }

    /// The limit on the bytes of all files, if there is one.
    pub(crate) fn limit(&self) -> Option<u64> {
        Some(self.room.limit).filter(|limit| *limit < u64::MAX)
    }

    fn state(&self) -> locks::MutexGuard<'_, State> {
        locks::point();
        self.state.lock()
    }

    pub(crate) fn list(&self) -> Vec<(String, u64)> {
        let len = |inode: &Inode| inode.bytes.read().len() as u64;
        let state = self.state();
        state.names.iter().map(|(name, inode)| (name.to_string(), len(inode))).collect()
    }

    pub(crate) fn create(&self, name: &str, asker: Asker<'_>) -> Result<Arc<Inode>> {
        let mut state = self.state();
        if state.names.contains_key(name) {
            return Err(Error::Exists { path: asker.path.to_owned() });
        }
        let (name, number) = (Arc::<str>::from(name), state.next);
        state.happen(asker, FileEvent::Create { file: number, name: Arc::clone(&name) }, &[])?;
        let inode = Inode::new(number, Vec::new(), &self.room);
        state.names.insert(name, Arc::clone(&inode));
        state.next += 1;
        Ok(inode)
    }

    pub(crate) fn open(&self, name: &str, path: &Path) -> Result<Arc<Inode>> {
        self.state().inode(name, path)
    }

    /// Cuts a file to at most `len` bytes and writes the remaining bytes once more.
    pub(crate) fn append(&self, name: &str, len: u64, asker: Asker<'_>) -> Result<Arc<Inode>> {
        let mut state = self.state();
        let inode = state.inode(name, asker.path)?;
        let mut bytes = inode.bytes.write();
        let file_len = bytes.len() as u64;
        if file_len < len {
            return Err(Error::Short { path: asker.path.to_owned(), at: 0, len, file_len });
        }
        let file = inode.number;
        if file_len > len {
            // The bytes behind the cut read as zeros if the file grows again.
            let zeros = vec![0; (file_len - len) as usize];
            state.happen(asker, FileEvent::Cut { file, len }, &zeros)?;
            self.room.give_back(file_len - len);
            bytes.truncate(len as usize);
        }
        if planted!("disk.found-file-taken-for-dirty", false, len > 0) {
            state.happen(asker, FileEvent::Write { file, at: 0 }, &bytes)?;
        }
        drop(bytes);
        Ok(inode)
    }

    /// Sets room aside, so that a file can grow up to `len` bytes.
    pub(crate) fn reserve(&self, inode: &Inode, len: u64, path: &Path) -> Result<()> {
        let _state = self.state();
        let there = inode.bytes.read().len() as u64 + inode.reserved.load(Ordering::Relaxed);
        let missing = len.saturating_sub(there);
        if !self.room.take(missing) {
            return Err(Error::NoSpace { path: path.to_owned() });
        }
        inode.reserved.fetch_add(missing, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn write(
        &self,
        inode: &Inode,
        at: u64,
        bytes: &[u8],
        asker: Asker<'_>,
    ) -> Result<()> {
        let mut state = self.state();
        state.happen(asker, FileEvent::Write { file: inode.number, at }, bytes)?;
        let mut all = inode.bytes.write();
        let end = at as usize + bytes.len();
        if all.len() < end {
            if !inode.take((end - all.len()) as u64) {
                return Err(Error::NoSpace { path: asker.path.to_owned() });
            }
            all.resize(end, 0);
        }
        all[at as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn sync_file(&self, inode: &Inode, asker: Asker<'_>) -> Result<()> {
        self.state().happen(asker, FileEvent::Sync { file: inode.number }, &[])
    }

    pub(crate) fn rename(&self, from: &str, to: &str, asker: Asker<'_>) -> Result<()> {
        let mut state = self.state();
        let inode = state.inode(from, asker.path)?;
        let (from, to) = (Arc::<str>::from(from), Arc::<str>::from(to));
        let (file, names) = (inode.number, (Arc::clone(&from), Arc::clone(&to)));
        state.happen(asker, FileEvent::Rename { file, from: names.0, to: names.1 }, &[])?;
        state.names.remove(&from);
        state.names.insert(to, inode);
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str, asker: Asker<'_>) -> Result<()> {
        let mut state = self.state();
        state.inode(name, asker.path)?;
        state.happen(asker, FileEvent::Remove { name: name.into() }, &[])?;
        state.names.remove(name);
        Ok(())
    }

    pub(crate) fn sync_names(&self, asker: Asker<'_>) -> Result<()> {
        self.state().happen(asker, FileEvent::SyncFolder, &[])
    }

    pub(crate) fn event(&self, number: u32) -> Option<FileEvent> {
        self.state.lock().events.get(number as usize).cloned()
    }

    pub(crate) fn forget_events(&self) {
        self.state.lock().events.clear();
    }

    /// Replaces the files by other ones.
    pub(crate) fn restore(&self, files: impl Iterator<Item = (u32, Arc<str>, Vec<u8>)>) {
        let mut state = self.state.lock();
        state.names = files
            .map(|(number, name, bytes)| {
                self.room.used.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                (name, Inode::new(number, bytes, &self.room))
            })
            .collect();
        state.next = state.names.values().map(|inode| inode.number + 1).max().unwrap_or(0);
    }
}
