//! Files in memory, as a process finds them in the page cache. With a modelled machine, every event of a
//! file is recorded there, and takes effect only while there is power.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
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
    /// Ranges that no write has reached, though one behind them has: they take no room.
    holes: Mutex<Vec<Range<u64>>>,
    room: Arc<Room>,
}

impl Inode {
    fn new(number: u32, bytes: Vec<u8>, room: &Arc<Room>) -> Arc<Self> {
        let (bytes, reserved) = (RwLock::new(bytes), AtomicU64::new(0));
        let holes = Mutex::default();
        Arc::new(Self { number, bytes, reserved, holes, room: Arc::clone(room) })
    }

    /// Whether there is room to grow by so many bytes.
    fn has_room(&self, bytes: u64) -> bool {
        self.room.has(bytes.saturating_sub(self.reserved.load(Ordering::Relaxed)))
    }

    /// Takes room to grow by so many bytes, from the reserved room first.
    fn take(&self, bytes: u64) {
        let reserved = self.reserved.load(Ordering::Relaxed);
        let of_reserved = bytes.min(reserved);
        self.room.used.fetch_add(bytes - of_reserved, Ordering::Relaxed);
        self.reserved.store(reserved - of_reserved, Ordering::Relaxed);
    }

    /// The room that a write to `range` of a file of `len` bytes takes: of its holes, and behind its end.
    fn needed(&self, range: &Range<u64>, len: u64) -> u64 {
        let holes = self.holes.lock();
        let filled = holes
            .iter()
            .map(|hole| hole.end.min(range.end).saturating_sub(hole.start.max(range.start)));
        filled.sum::<u64>() + range.end.saturating_sub(range.start.max(len))
    }

    /// Takes that room. Bytes between the end and the range become a hole.
    fn take_for(&self, range: &Range<u64>, len: u64) {
        self.take(self.needed(range, len));
        let mut holes = self.holes.lock();
        let rests = |hole: Range<u64>| {
            let before = hole.start..hole.end.min(range.start);
            let behind = hole.start.max(range.end)..hole.end;
            [before, behind].into_iter().filter(|rest| rest.start < rest.end)
        };
        *holes = std::mem::take(&mut *holes).into_iter().flat_map(rests).collect();
        if range.start > len {
            holes.push(len..range.start);
        }
    }

    /// Bytes of room that the file takes behind its first `from` bytes, the reserved ones left out.
    fn used_behind(&self, from: u64) -> u64 {
        let len = self.bytes.read().len() as u64;
        let holes = self.holes.lock();
        let holed = holes.iter().map(|hole| hole.end.saturating_sub(hole.start.max(from)));
        len.saturating_sub(from) - holed.sum::<u64>()
    }

    /// Cuts the file to `len` bytes.
    fn cut(&self, len: u64) {
        self.room.give_back(self.used_behind(len));
        self.holes.lock().retain_mut(|hole| {
            hole.end = hole.end.min(len);
            hole.start < hole.end
        });
        self.bytes.write().truncate(len as usize);
    }

    pub(crate) fn give_back(&self) {
        self.room.give_back(self.reserved.swap(0, Ordering::Relaxed));
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        self.room.give_back(self.used_behind(0));
        self.give_back();
    }
}

/// The room for the bytes of all files.
struct Room {
    limit: AtomicU64,
    used: AtomicU64,
}

impl Default for Room {
    fn default() -> Self {
        Self { limit: AtomicU64::new(u64::MAX), used: AtomicU64::new(0) }
    }
}

impl Room {
    /// Whether there are so many bytes. They stay until they are taken: room is taken under the lock of the files'
    /// state only.
    fn has(&self, bytes: u64) -> bool {
        let used = self.used.load(Ordering::Relaxed).checked_add(bytes);
        bytes == 0 || used.is_some_and(|used| used <= self.limit.load(Ordering::Relaxed))
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
                    FileEvent::SyncFolder { .. } => "sync the folder",
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
        let files = Self::default();
        files.set_limit(limit);
        files
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.room.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes that all files have, those without a name too while they are open.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.room.used.load(Ordering::Relaxed)
    }

    /// The limit on the bytes of all files, if there is one.
    pub(crate) fn limit(&self) -> Option<u64> {
        Some(self.room.limit.load(Ordering::Relaxed)).filter(|limit| *limit < u64::MAX)
    }

    fn state(&self) -> locks::MutexGuard<'_, State> {
        locks::point();
        self.state.lock()
    }

    /// The names in a folder, without its prefix, and the lengths.
    pub(crate) fn list(&self, prefix: &str) -> Vec<(String, u64)> {
        let len = |inode: &Inode| inode.bytes.read().len() as u64;
        let state = self.state();
        let names = state.names.iter().filter_map(|(name, inode)| {
            let name = name.strip_prefix(prefix).filter(|name| !name.contains('/'))?;
            Some((name.to_owned(), len(inode)))
        });
        names.collect()
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
        let file_len = inode.bytes.read().len() as u64;
        if file_len < len {
            return Err(Error::Short { path: asker.path.to_owned(), at: 0, len, file_len });
        }
        let file = inode.number;
        if file_len > len {
            // The bytes behind the cut read as zeros if the file grows again.
            let zeros = vec![0; (file_len - len) as usize];
            state.happen(asker, FileEvent::Cut { file, len }, &zeros)?;
            inode.cut(len);
        }
        if planted!("disk.found-file-taken-for-dirty", false, len > 0) {
            state.happen(asker, FileEvent::Write { file, at: 0 }, &inode.bytes.read())?;
        }
        Ok(inode)
    }

    /// Sets room aside, so that a file can grow up to `len` bytes.
    pub(crate) fn reserve(&self, inode: &Inode, len: u64, path: &Path) -> Result<()> {
        let _state = self.state();
        let there = inode.bytes.read().len() as u64 + inode.reserved.load(Ordering::Relaxed);
        let missing = len.saturating_sub(there);
        if !self.room.has(missing) {
            return Err(Error::NoSpace { path: path.to_owned() });
        }
        self.room.used.fetch_add(missing, Ordering::Relaxed);
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
        let (len, end) = (inode.bytes.read().len() as u64, at + bytes.len() as u64);
        if !inode.has_room(inode.needed(&(at..end), len)) {
            return Err(Error::NoSpace { path: asker.path.to_owned() });
        }
        state.happen(asker, FileEvent::Write { file: inode.number, at }, bytes)?;
        inode.take_for(&(at..end), len);
        let mut all = inode.bytes.write();
        if len < end {
            all.resize(end as usize, 0);
        }
        all[at as usize..end as usize].copy_from_slice(bytes);
        Ok(())
    }

    /// Makes a file longer, `len` bytes, with room for the new ones.
    pub(crate) fn preallocate(&self, inode: &Inode, len: u64, asker: Asker<'_>) -> Result<()> {
        let mut state = self.state();
        let missing = len.saturating_sub(inode.bytes.read().len() as u64);
        if !inode.has_room(missing) {
            return Err(Error::NoSpace { path: asker.path.to_owned() });
        }
        state.happen(asker, FileEvent::Preallocate { file: inode.number, len }, &[])?;
        inode.take(missing);
        inode.bytes.write().resize(len as usize, 0);
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

    /// Syncs the names of a folder, which begin with its prefix.
    pub(crate) fn sync_names(&self, prefix: &str, asker: Asker<'_>) -> Result<()> {
        self.state().happen(asker, FileEvent::SyncFolder { folder: prefix.into() }, &[])
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
