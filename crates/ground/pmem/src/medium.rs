//! A modelled medium: memory that remembers how it was written.
//!
//! A pool whose options name a [`Medium`] has no file. Its bytes lie in ordinary memory, and
//! everything that goes through the pool's door is executed there and recorded in a [`Trace`], with
//! the place in the code that asked for it. From a trace follows what a power cut may leave
//! (`halite-lab` works that out); such an image is put back with [`Medium::restore`], and a pool
//! opens on it as on a file.
//!
//! Whoever drives the medium can also cut its power ([`Medium::cut_power`]: nothing is stored any more),
//! let a sync fail ([`Medium::fail_sync_after`]), or disregard what one place in the code asks for
//! ([`Medium::disregard`]).
//!
//! Other modelled devices may lie beside the pool ([`Medium::beside`]). They share its power and its trace:
//! what happens to them happens by [`Medium::happen_beside`], in one order with what happens to the pool.

use std::any::Any;
use std::panic::Location;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::{io, ptr};

use parking_lot::{Mutex, MutexGuard};

use crate::fence::Range;
use crate::kernel::Kernel;
use crate::map::{Base, Mapping};
use crate::trace::{How, Request, Site, Trace, What};
use crate::{Domain, Error, LINE, Result, UNIT};

/// Modelled memory for one pool. Cloning makes another handle.
#[derive(Clone)]
pub struct Medium(Arc<Inner>);

struct Inner {
    memory: Mapping,
    capacity: u64,
    domain: Domain,
    state: Mutex<State>,
    beside: OnceLock<Arc<dyn Any + Send + Sync>>,
}

struct State {
    /// Whether a pool has it, so that its bytes belong to the owners of the pool's regions.
    in_use: bool,
    file: ModelFile,
    trace: Trace,
    disregarded: Option<(Site, Request)>,
    powered: bool,
    /// Events until the power is cut by itself.
    events_left: Option<u32>,
    failing: Failing,
    random: u64,
}

/// Whether a sync of pages or of the file fails.
enum Failing {
    /// None does.
    Never,
    /// The one after so many others.
    After(u32),
    /// One did.
    Failed,
}

/// What becomes of something that is to happen beside a modelled pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// It happens, and the trace has it.
    Happened,
    /// It seems to: [`Medium::disregard`].
    Disregarded,
    /// The sync fails, and the trace has that: [`Medium::fail_sync_after`].
    Failed,
    /// There is no power.
    PowerCut,
}

/// What a file system knows of a modelled pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelFile {
    /// Whether the file has its name: without it there is no pool.
    pub named: bool,
    /// The length in bytes.
    pub len: u64,
    /// How often the device lost what it had promised to save, if it counts that.
    pub unsafe_shutdowns: Option<u64>,
}

/// What a modelled zeroing compares with.
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
        let state = State {
            in_use: false,
            file: ModelFile::default(),
            trace: Trace::default(),
            disregarded: None,
            powered: true,
            events_left: None,
            failing: Failing::Never,
            random: 0,
        };
        let (state, beside) = (Mutex::new(state), OnceLock::new());
        Ok(Self(Arc::new(Inner { memory, capacity, domain, state, beside })))
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

    /// What the file system knows now.
    #[must_use]
    pub fn file(&self) -> ModelFile {
        self.0.state.lock().file
    }

    /// Swaps what was recorded since the last call against `trace`, which is emptied.
    pub fn take_trace(&self, trace: &mut Trace) {
        trace.clear();
        std::mem::swap(&mut self.0.state.lock().trace, trace);
    }

    /// Notes something in the trace.
    #[track_caller]
    pub fn mark(&self, note: u64) {
        self.0.state.lock().trace.push(What::Mark(note), Location::caller());
    }

    /// Sets where the random numbers of pools on it begin.
    pub fn seed(&self, seed: u64) {
        self.0.state.lock().random = seed;
    }

    /// From now on what one place in the code requests is not done.
    pub fn disregard(&self, request: Option<(Site, Request)>) {
        self.0.state.lock().disregarded = request;
    }

    /// Nothing is stored from now on, and every fence fails.
    pub fn cut_power(&self) {
        self.0.state.lock().powered = false;
    }

    /// Lets so many more events happen before [`Medium::cut_power`] takes effect by itself.
    pub fn cut_power_after(&self, events: u32) {
        self.0.state.lock().events_left = Some(events);
    }

    /// Lets one sync of pages or of the file fail, after so many others; without a number, none from now
    /// on. What was to be synced is then partly durable, and the kernel takes all of it for clean.
    pub fn fail_sync_after(&self, syncs: Option<u32>) {
        self.0.state.lock().failing = syncs.map_or(Failing::Never, Failing::After);
    }

    /// Whether a sync failed since [`Medium::fail_sync_after`].
    #[must_use]
    pub fn has_failed_to_sync(&self) -> bool {
        matches!(self.0.state.lock().failing, Failing::Failed)
    }

    /// Whether stores arrive.
    #[must_use]
    pub fn has_power(&self) -> bool {
        self.0.state.lock().powered
    }

    /// What lies beside the pool: always the same, as `T` begins.
    ///
    /// # Panics
    /// If it is of another type.
    #[must_use]
    pub fn beside<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let beside = Arc::clone(self.0.beside.get_or_init(|| Arc::<T>::default()));
        beside.downcast().expect("one kind of thing lies beside a pool")
    }

    /// Lets something happen beside the pool, if there is power: an event like those of the pool. Who
    /// calls knows by the number what it is, and `bytes` are what it writes.
    pub fn happen_beside(&self, number: u32, bytes: &[u8], is_sync: bool, site: Site) -> Beside {
        let mut state = self.0.state.lock();
        if !state.has_power() {
            return Beside::PowerCut;
        }
        let request = is_sync.then_some((site, Request::Sync));
        if request.is_some() && request == state.disregarded {
            return Beside::Disregarded;
        }
        let fails = is_sync && state.fails_to_sync(Request::Sync, site);
        state.trace.push_disk(number, bytes, is_sync && !fails, site);
        if fails { Beside::Failed } else { Beside::Happened }
    }

    /// Ends the outage: stores arrive again.
    ///
    /// # Panics
    /// If a pool is open.
    #[track_caller]
    pub fn restore_power(&self) {
        let mut state = self.unused();
        state.powered = true;
        state.events_left = None;
        state.trace.push(What::Kill, Location::caller());
    }

    /// Changes bytes and the file's state, past any record.
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

    /// Stores bytes; whoever calls owns them, or has made sure that nobody does.
    fn put(&self, at: u64, bytes: &[u8]) {
        self.assert_inside(at, bytes.len() as u64);
        // SAFETY: the range is inside the mapping. It belongs to the caller.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(at), bytes.len()) };
    }
}

/// What the pool asks for.
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

    /// Takes the file that is there, and returns its length.
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

    /// The pool that had it is gone, with all of its regions.
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
            && self.0.state.lock().fails_to_sync(request, site)
        {
            self.change(path, What::SyncFailed { at, len }, site, |_| ())?;
            let source = io::Error::other("the modelled kernel fails");
            return Err(Error::Io { path: path.to_owned(), action: "sync the pool", source });
        }
        self.change(path, what, site, |_| ())
    }

    /// Bytes are written again as they are.
    pub(crate) fn rewrite(&self, range: &Range, site: Site) {
        let mut state = self.0.state.lock();
        if state.has_power() {
            state.trace.push(What::Rewrite { at: range.offset, len: range.len }, site);
        }
    }

    fn change(
        &self,
        path: &Path,
        what: What,
        site: Site,
        change: impl FnOnce(&mut ModelFile),
    ) -> Result<()> {
        let mut state = self.0.state.lock();
        if !state.has_power() {
            return Err(Error::PowerCut { path: path.to_owned() });
        }
        change(&mut state.file);
        state.wait(what, site);
        Ok(())
    }

    /// Stores bytes of a region; its owner calls.
    pub(crate) fn store(&self, at: u64, bytes: &[u8], how: How, site: Site) {
        let mut state = self.0.state.lock();
        if state.has_power() {
            self.put(at, bytes);
            state.trace.push_store(at, bytes, how, site);
        }
    }

    /// Stores zeros; what is zero already is not recorded.
    pub(crate) fn zero(&self, at: u64, len: u64, site: Site) {
        if self.0.domain == Domain::PageCache {
            // What is zero already may be so in the page cache only.
            let mut state = self.0.state.lock();
            if state.powered {
                state.trace.push(What::Rewrite { at, len }, site);
            }
        }
        let (mut from, end) = (at, at + len);
        while from < end {
            // Mostly there is nothing but zeros, so pages are looked at before lines.
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
        let mut state = self.0.state.lock();
        if !state.has_power() {
            return None;
        }
        Some(change().map(|(changed, stored)| {
            state.trace.push_store(at, &stored.to_le_bytes(), How::InOrder, site);
            changed
        }))
    }

    pub(crate) fn flush(&self, at: u64, len: u64, site: Site) {
        let mut state = self.0.state.lock();
        if len > 0 && state.has_power() {
            state.wait(What::Flush { at, len }, site);
        }
    }

    pub(crate) fn fence(
        &self,
        path: &Path,
        ranges: impl Iterator<Item = Range>,
        site: Site,
    ) -> Result<()> {
        let mut state = self.0.state.lock();
        if !state.has_power() {
            return Err(Error::PowerCut { path: path.to_owned() });
        }
        if state.disregarded != Some((site, Request::Fence)) {
            state.trace.push_fence(ranges.map(|range| (range.offset, range.len)), site);
        }
        Ok(())
    }

    pub(crate) fn publish(&self, proof: &Range, site: Site) {
        let what = What::Publish { at: proof.offset, len: proof.len };
        self.0.state.lock().trace.push(what, site);
    }
}

impl State {
    /// Whether one more event happens.
    fn has_power(&mut self) -> bool {
        match &mut self.events_left {
            Some(0) => self.powered = false,
            Some(left) => *left -= 1,
            None => {}
        }
        self.powered
    }

    /// Whether one more sync, which is not disregarded, fails.
    fn fails_to_sync(&mut self, request: Request, site: Site) -> bool {
        let is_disregarded = self.disregarded == Some((site, request));
        match self.failing {
            Failing::After(_) if !self.powered || is_disregarded => false,
            Failing::After(0) => {
                self.failing = Failing::Failed;
                true
            }
            Failing::After(left) => {
                self.failing = Failing::After(left - 1);
                false
            }
            Failing::Never | Failing::Failed => false,
        }
    }

    /// Records what makes bytes durable, or helps to, unless it is disregarded.
    fn wait(&mut self, what: What, site: Site) {
        let request = what.request().map(|request| (site, request));
        if request.is_none() || request != self.disregarded {
            self.trace.push(what, site);
        }
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
