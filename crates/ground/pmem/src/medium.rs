//! A modelled medium: memory that records how it was written.
//!
//! A pool whose options name a [`Medium`] has no file. Its bytes lie in ordinary memory. Every operation of
//! the pool is executed there and reported to a [`Machine`], which records it in its
//! [`Trace`](halite_sim::Trace), with the place in the code that asked for it. From a trace `halite-lab`
//! derives the images that a power cut may leave. Such an image is put back with [`Medium::restore`], and a
//! pool opens on it as on a file.
//!
//! [`Medium::machine`] controls the machine's power and its failing syncs. Files beside the pool
//! (`halite-disk`) belong to the same machine.

use std::panic::Location;
use std::path::Path;
use std::sync::Arc;
use std::{io, ptr};

use halite_sim::{How, Kernel, Machine, Site, What};
use parking_lot::{Mutex, MutexGuard};

use crate::fence::Range;
use crate::map::{Base, Mapping};
use crate::{Domain, Error, LINE, Result, UNIT};

/// Modelled memory for one pool. Cloning makes another handle.
#[derive(Clone)]
pub struct Medium(Arc<Inner>);

struct Inner {
    machine: Machine,
    memory: Mapping,
    capacity: u64,
    domain: Domain,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether a pool is open on it, so that its bytes belong to the owners of the pool's regions.
    in_use: bool,
    file: ModelFile,
    random: u64,
}

/// The file system's metadata of a modelled pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelFile {
    /// Whether the file has its name: without it there is no pool.
    pub named: bool,
    /// The length in bytes.
    pub len: u64,
    /// How often the device lost bytes that it should have saved, if it counts that.
    pub unsafe_shutdowns: Option<u64>,
}

/// The page that a modelled zeroing compares with.
const ZEROS: [u8; 4096] = [0; 4096];

impl Medium {
    /// A medium of so many bytes, all zero, on which a pool has the given domain.
    ///
    /// # Errors
    /// If there are no addresses for it.
    pub fn new(domain: Domain, capacity: u64) -> io::Result<Self> {
        let capacity = capacity.next_multiple_of(UNIT);
        let memory = Mapping::reserve(capacity)?;
        memory.map_memory(&Kernel::default(), 0, capacity)?;
        let (machine, state) = (Machine::default(), Mutex::default());
        Ok(Self(Arc::new(Inner { machine, memory, capacity, domain, state })))
    }

    /// The machine that it belongs to.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.0.machine
    }

    /// The domain of pools on it.
    #[must_use]
    pub fn domain(&self) -> Domain {
        self.0.domain
    }

    /// The length in bytes to which a pool may grow.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.0.capacity
    }

    /// The file system's metadata as it is now.
    #[must_use]
    pub fn file(&self) -> ModelFile {
        self.0.state.lock().file
    }

    /// Sets where the random numbers of pools on it begin.
    pub fn seed(&self, seed: u64) {
        self.0.state.lock().random = seed;
    }

    /// Ends the outage: stores arrive again.
    ///
    /// # Panics
    /// If a pool is open.
    #[track_caller]
    pub fn restore_power(&self) {
        drop(self.unused());
        self.0.machine.restore_power();
    }

    /// Changes bytes and the file's state without a record in the trace.
    ///
    /// # Panics
    /// If a pool is open, or a part or the file's length is outside the capacity.
    pub fn restore<'a>(&self, file: ModelFile, parts: impl IntoIterator<Item = (u64, &'a [u8])>) {
        let mut state = self.unused();
        self.assert_inside(0, file.len);
        state.file = file;
        for (at, bytes) in parts {
            self.put(at, bytes);
        }
    }

    /// The state, with no pool open as long as it is locked.
    fn unused(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        assert!(!state.in_use, "a pool is open on the medium");
        state
    }

    fn assert_inside(&self, at: u64, len: u64) {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.0.capacity);
        assert!(inside, "{at}..+{len} is outside a medium of {} bytes", self.0.capacity);
    }

    fn address(&self, at: u64) -> *mut u8 {
        self.base().address(at)
    }

    /// Stores bytes. The caller owns them, or has made sure that they have no owner.
    fn put(&self, at: u64, bytes: &[u8]) {
        self.assert_inside(at, bytes.len() as u64);
        // SAFETY: the range is inside the mapping. It belongs to the caller.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(at), bytes.len()) };
    }
}

/// The pool's operations.
impl Medium {
    pub(crate) fn base(&self) -> Base {
        self.0.memory.base()
    }

    /// Makes the file of a new pool, still without a name.
    pub(crate) fn create(&self, path: &Path, len: u64) -> Result<()> {
        if self.file().named {
            return Err(Error::Exists { path: path.to_owned() });
        }
        self.set_used(path)?;
        let created = self.set_len(path, len);
        created.inspect_err(|_| self.set_unused())
    }

    /// Opens the existing file, and returns its length.
    pub(crate) fn open(&self, path: &Path) -> Result<u64> {
        let file = self.file();
        if !file.named {
            return Err(Error::Missing { path: path.to_owned() });
        }
        if file.len < UNIT {
            return Err(Error::TooShort { path: path.to_owned(), len: file.len });
        }
        self.set_used(path)?;
        Ok(file.len / UNIT * UNIT)
    }

    fn set_used(&self, path: &Path) -> Result<()> {
        if std::mem::replace(&mut self.0.state.lock().in_use, true) {
            return Err(Error::Locked { path: path.to_owned() });
        }
        Ok(())
    }

    /// Records that the pool that was open is dropped, with all of its regions.
    pub(crate) fn set_unused(&self) {
        self.0.state.lock().in_use = false;
    }

    pub(crate) fn random(&self) -> u64 {
        let mut state = self.0.state.lock();
        state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state.random ^ (state.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn set_len(&self, path: &Path, len: u64) -> Result<()> {
        if len > self.0.capacity {
            return Err(Error::NoSpace { path: path.to_owned(), bytes: len });
        }
        self.change(path, What::Length { to: len }, Location::caller(), |file| file.len = len)
    }

    pub(crate) fn link(&self, path: &Path) -> Result<()> {
        self.change(path, What::Link, Location::caller(), |file| file.named = true)
    }

    /// One of the kernel's syncs.
    pub(crate) fn sync(&self, path: &Path, what: What, site: Site) -> Result<()> {
        let range = match what {
            What::Sync { at, len } => Some((at, len)),
            What::SyncFile => Some((0, self.0.capacity)),
            _ => None,
        };
        if let Some((at, len)) = range
            && let Some(request) = what.request()
            && self.0.machine.fails_to_sync(request, site)
        {
            self.change(path, What::SyncFailed { at, len }, site, |_| ())?;
            let source = io::Error::other("the modelled kernel fails");
            return Err(Error::Io { path: path.to_owned(), action: "sync the pool", source });
        }
        self.change(path, what, site, |_| ())
    }

    /// Writes bytes again unchanged.
    pub(crate) fn rewrite(&self, range: &Range, site: Site) {
        let what = What::Rewrite { at: range.offset, len: range.len };
        self.0.machine.store(|trace| trace.push(what, site));
    }

    fn change(
        &self,
        path: &Path,
        what: What,
        site: Site,
        change: impl FnOnce(&mut ModelFile),
    ) -> Result<()> {
        let changed = self.0.machine.wait(what, site, || change(&mut self.0.state.lock().file));
        self.powered(changed, path)
    }

    fn powered(&self, has_power: bool, path: &Path) -> Result<()> {
        if has_power { Ok(()) } else { Err(Error::PowerCut { path: path.to_owned() }) }
    }

    /// Stores bytes of a region; its owner calls.
    pub(crate) fn store(&self, at: u64, bytes: &[u8], how: How, site: Site) {
        self.0.machine.store(|trace| {
            self.put(at, bytes);
            trace.push_store(at, bytes, how, site);
        });
    }

    /// As [`Medium::store`], by `store`, for bytes that other threads may be reading.
    pub(crate) fn store_by(
        &self,
        at: u64,
        bytes: &[u8],
        how: How,
        site: Site,
        store: impl FnOnce(),
    ) {
        self.0.machine.store(|trace| {
            store();
            trace.push_store(at, bytes, how, site);
        });
    }

    /// Stores zeros; lines that are zero already are not recorded.
    pub(crate) fn zero(&self, at: u64, len: u64, site: Site) {
        if self.0.domain == Domain::PageCache {
            // Zeros may be in the page cache only, so they are written again.
            self.0.machine.rewrite(at, len, site);
        }
        let (mut from, end) = (at, at + len);
        while from < end {
            // Most pages are zero already, so whole pages are compared before lines.
            let page = (end - from).min(ZEROS.len() as u64);
            if self.are_zeros(from, page) {
                from += page;
                continue;
            }
            let line = page.min(LINE);
            if !self.are_zeros(from, line) {
                self.store(from, &ZEROS[..line as usize], How::Streamed, site);
            }
            from += line;
        }
    }

    /// Whether `len` bytes, at most a page, are zero, in a region whose owner calls.
    fn are_zeros(&self, at: u64, len: u64) -> bool {
        let mut now = [0; ZEROS.len()];
        let now = &mut now[..len as usize];
        // SAFETY: the range is inside the region.
        unsafe { ptr::copy_nonoverlapping(self.address(at), now.as_mut_ptr(), now.len()) };
        *now == ZEROS[..now.len()]
    }

    /// Runs a change of the word at `at`, and records it if it happened.
    pub(crate) fn change_word<T, E>(
        &self,
        at: u64,
        site: Site,
        change: impl FnOnce() -> std::result::Result<(T, u64), E>,
    ) -> Option<std::result::Result<T, E>> {
        self.0.machine.store(|trace| {
            change().map(|(changed, stored)| {
                trace.push_store(at, &stored.to_le_bytes(), How::InOrder, site);
                changed
            })
        })
    }

    pub(crate) fn flush(&self, at: u64, len: u64, site: Site) {
        if len > 0 {
            self.0.machine.wait(What::Flush { at, len }, site, || ());
        }
    }

    pub(crate) fn fence(
        &self,
        path: &Path,
        ranges: impl Iterator<Item = Range>,
        site: Site,
    ) -> Result<()> {
        let ranges = ranges.map(|range| (range.offset, range.len));
        self.powered(self.0.machine.fence(ranges, site), path)
    }

    pub(crate) fn publish(&self, proof: &Range, site: Site) {
        let what = What::Publish { at: proof.offset, len: proof.len };
        self.0.machine.note(what, site);
    }
}

impl std::fmt::Debug for Medium {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Medium")
            .field("domain", &self.0.domain)
            .field("capacity", &self.0.capacity)
            .finish_non_exhaustive()
    }
}
