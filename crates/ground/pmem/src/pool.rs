//! The pool: bytes that persist, and the interface to them.

use std::io;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use parking_lot::Mutex;

use crate::claims::Claims;
use crate::emulate::Emulation;
use crate::file::{self, PoolFile, Span};
use crate::map::Base;
use crate::medium::Medium;
use crate::memory::Memory;
use crate::parcels::Parcels;
use crate::region::{Region, new_life};
use crate::stream::Stream;
use crate::syncs::Syncs;
use crate::traffic::Counters;
use crate::writeback::{self, WriteBack};
use crate::{
    Domain, Error, Fenced, Flushed, Fresh, MediumTraffic, PoolOptions, Profile, Result, Traffic,
    UNIT, fence, prefetch,
};
use halite_sim::Kernel;
use halite_sim::locks;
use halite_sim::planted;
use halite_sim::{Site, What};

/// One mapped file, memory without one, or a modelled [`Medium`]. Cloning makes another handle; the pool closes with
/// the last one.
///
/// While a pool is open, its file is locked against other processes that ask for the lock. A
/// program that truncates the file all the same ends this process by a signal, as with any mapped
/// file; so does a sector that the device cannot read.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    id: u64,
    path: PathBuf,
    base: Base,
    backing: Backing,
    emulation: Option<Emulation>,
    len: AtomicU64,
    len_max: u64,
    growing: Mutex<()>,
    syncs: Syncs,
    domain: Domain,
    write_back: WriteBack,
    stream: Stream,
    claims: Claims,
    counters: Counters,
}

/// The backing of a pool's bytes.
enum Backing {
    File(PoolFile),
    Memory(Memory),
    Medium(Medium),
}

impl Pool {
    /// Creates a pool that [`Pool::install`] then puts in its place at `path`.
    ///
    /// Until then its file has no name, or the name `<path>.new` where the file system has no files without; so a crash
    /// never leaves half a pool.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is a file at `path`, [`Error::NoSpace`], [`Error::Profile`],
    /// [`Error::Io`].
    pub fn create(path: &Path, options: &PoolOptions) -> Result<Self> {
        options.check()?;
        let len = options.size_initial.clamp(UNIT, options.len_max()).next_multiple_of(UNIT);
        let backing = match &options.medium {
            None if options.in_memory => {
                let kernel = Kernel::new(options.failures.clone());
                Backing::Memory(Memory::create(path, len, options.len_max(), kernel)?)
            }
            None => Backing::File(PoolFile::create(path, len, options)?),
            Some(medium) => {
                medium.create(path, len)?;
                Backing::Medium(medium.clone())
            }
        };
        Ok(Self::with_backing(backing, path, len, options))
    }

    /// Puts a pool that [`Pool::create`] made in its place, durably.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is a file by now, [`Error::Io`].
    pub fn install(&self) -> Result<()> {
        match &self.0.backing {
            Backing::File(file) => file.install(),
            Backing::Memory(_) => Ok(()),
            Backing::Medium(medium) => {
                let path = self.path();
                // The place of each call is its own, so that the lab leaves out one at a time.
                let sync = |what, site| medium.sync(path, what, site);
                planted!(
                    "pmem.file-named-before-synced",
                    medium.link(path).and_then(|()| sync(What::SyncFile, Location::caller())),
                    sync(What::SyncFile, Location::caller()).and_then(|()| medium.link(path))
                )?;
                let site = Location::caller();
                planted!("pmem.folder-not-synced", Ok(()), sync(What::SyncFolder, site))
            }
        }
    }

    /// Opens the pool at `path`. Its contents are not checked; they may include stores of a killed process
    /// that a power cut still takes back, until [`Pool::fence_found`] makes them durable.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotAFile`], [`Error::ReadOnly`], [`Error::TooShort`],
    /// [`Error::Locked`], [`Error::NoSpace`] if the file has holes that the device cannot fill,
    /// [`Error::Profile`], [`Error::Io`].
    pub fn open(path: &Path, options: &PoolOptions) -> Result<Self> {
        options.check()?;
        let (backing, len) = match &options.medium {
            None if options.in_memory => return Err(Error::Missing { path: path.to_owned() }),
            None => {
                let (file, len) = PoolFile::open(path, options)?;
                (Backing::File(file), len)
            }
            Some(medium) => {
                let len = medium.open(path)?;
                (Backing::Medium(medium.clone()), len)
            }
        };
        Ok(Self::with_backing(backing, path, len, options))
    }

    /// Whether a file exists at `path`, or the modelled medium has a named one; never in memory.
    #[must_use]
    pub fn exists(path: &Path, options: &PoolOptions) -> bool {
        match &options.medium {
            None => !options.in_memory && std::fs::symlink_metadata(path).is_ok(),
            Some(medium) => medium.file().named,
        }
    }

    /// Reads bytes of a file before it is opened as a pool, to tell its format; nothing changes.
    ///
    /// # Errors
    /// The errors of reading the file; memory and a modelled medium are never read so.
    pub fn peek(path: &Path, options: &PoolOptions, at: u64, to: &mut [u8]) -> io::Result<()> {
        match &options.medium {
            None if !options.in_memory => {
                file::peek(&Kernel::new(options.failures.clone()), path, at, to)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn with_backing(backing: Backing, path: &Path, len: u64, options: &PoolOptions) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let (base, detected, len_max) = match &backing {
            Backing::File(file) => (file.base(), file.domain(), options.len_max()),
            Backing::Memory(memory) => (memory.base(), Domain::Volatile, options.len_max()),
            Backing::Medium(medium) => {
                let len_max = options.len_max().min(medium.capacity());
                (medium.base(), medium.domain(), len_max)
            }
        };
        let domain = options.assume_domain.unwrap_or(match detected {
            // Without instructions to write lines back, only the kernel can.
            Domain::Memory if !writeback::HAS_INSTRUCTIONS && options.medium.is_none() => {
                Domain::PageCache
            }
            detected => detected,
        });
        let is_file = matches!(backing, Backing::File(_));
        let profile = options.profile.as_ref().filter(|_| is_file);
        let (write_back, stream) = match domain {
            _ if options.medium.is_some() => (WriteBack::None, Stream::Cached),
            Domain::Platform => (WriteBack::None, Stream::detect()),
            Domain::PageCache | Domain::Volatile => (WriteBack::None, Stream::Cached),
            Domain::Process if profile.is_some() => (WriteBack::None, Stream::Cached),
            Domain::Memory | Domain::Process => (WriteBack::detect(), Stream::detect()),
        };
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Inner {
            id,
            path: path.to_owned(),
            base,
            backing,
            emulation: profile.map(|profile| Emulation::new(profile, id)),
            len: AtomicU64::new(len),
            len_max: len_max.max(len),
            growing: Mutex::new(()),
            syncs: Syncs::default(),
            domain,
            write_back,
            stream,
            claims: Claims::default(),
            counters: Counters::new(),
        }))
    }

    /// The file; in memory, the name that the pool was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// A number to seed identities and checksums with: random, from the kernel, or on a modelled medium the
    /// next one of its sequence.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn random(&self) -> Result<u64> {
        match &self.0.backing {
            Backing::File(_) | Backing::Memory(_) => random(&self.0.path),
            Backing::Medium(medium) => Ok(medium.random()),
        }
    }

    /// How often the device, at a power cut, failed to save bytes that it should have saved, if it counts
    /// that. A pool that was in use when the number rose may have lost durable bytes.
    #[must_use]
    pub fn unsafe_shutdowns(&self) -> Option<u64> {
        match &self.0.backing {
            Backing::File(file) => file.unsafe_shutdowns(),
            Backing::Memory(_) => None,
            Backing::Medium(medium) => medium.file().unsafe_shutdowns,
        }
    }

    /// Has the kernel write back all bytes stored so far, past every cache. A clean close needs this where
    /// fences rely on the platform.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::SyncFailed`] after an earlier one.
    #[track_caller]
    pub fn sync_file(&self) -> Result<()> {
        let site = Location::caller();
        self.0.syncs.sync(self.path(), || match &self.0.backing {
            Backing::File(file) => file.sync_all(),
            Backing::Memory(_) => Ok(()),
            Backing::Medium(medium) => medium.sync(self.path(), What::SyncFile, site),
        })
    }

    /// Refuses if the kernel failed to sync the pool since it was opened. A caller that relies on the
    /// pool's contents in memory asks before it changes state that another process, or recovery after a
    /// crash, would rely on.
    ///
    /// # Errors
    /// [`Error::SyncFailed`].
    pub fn check_synced(&self) -> Result<()> {
        self.0.syncs.check(self.path())
    }

    /// The persistence domain: the guarantee of a fence.
    #[must_use]
    pub fn domain(&self) -> Domain {
        self.0.domain
    }

    /// The medium whose speed the pool emulates, if any.
    #[must_use]
    pub fn profile(&self) -> Option<&Profile> {
        self.emulation().map(Emulation::profile)
    }

    /// The length in bytes, a multiple of [`UNIT`].
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len.load(Ordering::Acquire)
    }

    /// Whether there is no byte; a pool always has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length in bytes to which the pool may grow.
    #[must_use]
    pub fn len_max(&self) -> u64 {
        self.0.len_max
    }

    /// The traffic through the pool's interface since the pool was opened. In [`Domain::Volatile`] no line
    /// is written back and no fence waits, so none is counted.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let all = self.0.counters.total();
        match self.0.domain {
            Domain::Volatile => {
                Traffic { loads: all.loads, stores: all.stores, ..Traffic::default() }
            }
            _ => all,
        }
    }

    /// The traffic of the medium that the pool emulates; `None` without a [`Profile`], when nobody counts it.
    #[must_use]
    pub fn medium_traffic(&self) -> Option<MediumTraffic> {
        self.emulation().map(|_| self.counters().of_medium())
    }

    /// Grows the pool by `bytes`, rounded up to [`UNIT`]. The new bytes are zero, and the device has
    /// room for them.
    ///
    /// # Errors
    /// [`Error::SizeLimit`], [`Error::NoSpace`], [`Error::Io`], [`Error::SyncFailed`]; the pool is then as
    /// long as it was.
    pub fn grow(&self, bytes: u64) -> Result<()> {
        let _growing = self.0.growing.lock();
        let old = self.len();
        let path = self.path();
        if bytes == 0 {
            return Ok(());
        }
        let new = old
            .checked_add(bytes)
            .and_then(|new| new.checked_next_multiple_of(UNIT))
            .filter(|&new| new <= self.0.len_max)
            .ok_or_else(|| Error::SizeLimit { path: path.to_owned(), limit: self.0.len_max })?;
        match &self.0.backing {
            Backing::File(file) => file.grow(old, new, self.domain(), &self.0.syncs)?,
            Backing::Memory(memory) => memory.grow(path, old, new)?,
            Backing::Medium(medium) => {
                medium.set_len(path, new)?;
                let site = Location::caller();
                planted!(
                    "pmem.growth-not-synced",
                    Ok(()),
                    self.0.syncs.sync(path, || medium.sync(path, What::SyncFile, site))
                )?;
            }
        }
        self.0.len.store(new, Ordering::Release);
        Ok(())
    }

    /// Takes `offset..offset + len`, no byte of which has an owner, until the new owner is dropped.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Claimed`].
    pub fn claim(&self, offset: u64, len: u64) -> Result<Fresh> {
        self.take(offset, len)?;
        Ok(Fresh::new(Region::new(self.clone(), offset, len)))
    }

    /// Takes `offset..offset + len`, no byte of which has an owner, to be carved into [`Parcels`], until the last
    /// handle, parcel and pin of them is dropped, or [`Parcels::end`].
    ///
    /// # Errors
    /// As [`Pool::claim`].
    ///
    /// # Panics
    /// If the range does not begin with a line, or is not some whole windows ([`crate::WINDOW`]), fewer than 128 Ki.
    pub fn claim_parcels(&self, offset: u64, len: u64) -> Result<Arc<Parcels>> {
        self.take(offset, len)?;
        Ok(Parcels::new(self.clone(), offset, len, new_life()))
    }

    /// Takes a range from the claims.
    fn take(&self, offset: u64, len: u64) -> Result<()> {
        let pool_len = self.len();
        let end = offset.checked_add(len).filter(|&end| len > 0 && end <= pool_len);
        let Some(end) = end else {
            let path = self.path().to_owned();
            return Err(Error::OutOfBounds { path, offset, len, pool_len });
        };
        if !self.0.claims.take(offset, end) {
            return Err(Error::Claimed { path: self.path().to_owned(), offset, len });
        }
        Ok(())
    }

    /// Waits until all of `flushed`, write-backs of this thread, are durable. One fence; for
    /// [`Domain::PageCache`] one call of the kernel's sync.
    ///
    /// # Errors
    /// [`Error::Io`] if the kernel cannot write: then the state of the bytes is unknown, and every later
    /// fence that needs the kernel is [`Error::SyncFailed`].
    ///
    /// # Panics
    /// If one of them is of another pool.
    #[inline]
    #[track_caller]
    pub fn fence<const N: usize>(&self, flushed: [Flushed; N]) -> Result<[Fenced; N]> {
        self.wait(&flushed, Location::caller())?;
        Ok(flushed.map(|flushed| Fenced { proves: flushed.proves }))
    }

    /// Does as [`Pool::fence`], for any number of ranges.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    ///
    /// # Panics
    /// As [`Pool::fence`].
    #[track_caller]
    pub fn fence_all(&self, flushed: &[Flushed]) -> Result<Vec<Fenced>> {
        self.fence_all_for(flushed, Location::caller())
    }

    /// Does as [`Pool::fence_all`], for a caller in another place of the code: one that a trait object or a closure hides
    /// from `#[track_caller]`. The lab leaves out the fences of one place at a time.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    ///
    /// # Panics
    /// As [`Pool::fence`].
    pub fn fence_all_for(&self, flushed: &[Flushed], site: Site) -> Result<Vec<Fenced>> {
        self.wait(flushed, site)?;
        Ok(flushed.iter().map(|flushed| Fenced { proves: flushed.proves }).collect())
    }

    /// Does as [`Pool::fence_all`], in the caller's buffers: on success `flushed` is empty, and `fenced` holds
    /// exactly the proofs, in the same order.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    ///
    /// # Panics
    /// As [`Pool::fence`].
    #[track_caller]
    pub fn fence_into(&self, flushed: &mut Vec<Flushed>, fenced: &mut Vec<Fenced>) -> Result<()> {
        self.wait(flushed, Location::caller())?;
        fenced.clear();
        fenced.extend(flushed.drain(..).map(|flushed| Fenced { proves: flushed.proves }));
        Ok(())
    }

    /// Does as [`Pool::fence_all`], for bytes that were there when the pool was opened: a killed process may
    /// have stored them without waiting. Bytes of an ordinary file are written again: the kernel may have
    /// failed to write them, and have marked their pages clean since. No thread changes them meanwhile.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    ///
    /// # Panics
    /// As [`Pool::fence`].
    #[track_caller]
    pub fn fence_found(&self, flushed: &[Flushed]) -> Result<Vec<Fenced>> {
        let may_be_clean = self.0.domain == Domain::PageCache;
        if planted!("pmem.found-bytes-taken-for-dirty", false, may_be_clean) {
            for found in flushed.iter().map(|flushed| flushed.proves) {
                match &self.0.backing {
                    Backing::File(file) => file.rewrite(found)?,
                    Backing::Memory(_) => {}
                    Backing::Medium(medium) => medium.rewrite(&found, Location::caller()),
                }
            }
        }
        let site = Location::caller();
        planted!("pmem.found-bytes-not-synced", Ok(()), self.wait(flushed, site))?;
        Ok(flushed.iter().map(|flushed| Fenced { proves: flushed.proves }).collect())
    }

    #[inline]
    fn wait(&self, flushed: &[Flushed], site: Site) -> Result<()> {
        assert!(
            flushed.iter().all(|flushed| flushed.proves.pool == self.0.id),
            "a range of another pool"
        );
        self.0.counters.fence();
        self.wait_uncounted(flushed, site)
    }

    /// Waits for ranges of this pool.
    #[inline]
    pub(crate) fn wait_uncounted(&self, flushed: &[Flushed], site: Site) -> Result<()> {
        if planted!(
            "pmem.caches-make-fences-needless",
            self.0.domain != Domain::Platform,
            self.0.domain == Domain::PageCache || self.medium().is_some()
        ) {
            self.wait_outside(flushed, site)?;
        }
        self.drain();
        Ok(())
    }

    /// Waits for the write-backs and streaming stores of this processor.
    #[inline]
    pub(crate) fn drain(&self) {
        match self.emulation() {
            // Where the instructions are left out, the emulated fence is the only one. The compiler fence
            // keeps the stores before it in order, so that they outlive the process.
            Some(emulation) if self.0.domain == Domain::Process => {
                compiler_fence(Ordering::SeqCst);
                emulation.fence();
            }
            Some(emulation) => {
                writeback::fence();
                emulation.fence();
            }
            // No store is streamed, and no write-back has begun.
            None if self.0.domain == Domain::Volatile => {}
            None => writeback::fence(),
        }
    }

    /// Waits for the part that the processor does not do: the kernel's, or a model's.
    fn wait_outside(&self, flushed: &[Flushed], site: Site) -> Result<()> {
        locks::point();
        let ranges = flushed.iter().map(|flushed| flushed.proves);
        match &self.0.backing {
            Backing::File(file) => {
                let sync = |ranges: &[_]| file.sync_pages(ranges.iter().copied());
                self.0.syncs.sync_ranges(self.path(), ranges, sync)
            }
            Backing::Memory(_) => Ok(()),
            Backing::Medium(medium) if self.0.domain != Domain::PageCache => {
                medium.fence(self.path(), ranges, site)
            }
            Backing::Medium(medium) => {
                const PAGE: u64 = 4096;
                let Some(span) = Span::of(ranges) else { return Ok(()) };
                let at = span.start / PAGE * PAGE;
                let near = What::Sync { at, len: span.end.next_multiple_of(PAGE) - at };
                let all = What::Sync { at: 0, len: self.len() };
                let what = if span.is_near() { near } else { all };
                self.0.syncs.sync(self.path(), || medium.sync(self.path(), what, site))
            }
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    pub(crate) fn stream(&self) -> Stream {
        self.0.stream
    }

    #[cfg(all(target_arch = "x86_64", not(halite_portable)))]
    pub(crate) fn write_back_instruction(&self) -> WriteBack {
        self.0.write_back
    }

    #[inline]
    pub(crate) fn address(&self, offset: u64) -> *mut u8 {
        self.0.base.address(offset)
    }

    #[cfg(test)]
    pub(crate) fn claims(&self) -> &Claims {
        &self.0.claims
    }

    pub(crate) fn give_back(&self, offset: u64) {
        self.0.claims.give_back(offset);
    }

    /// The model of the pool's medium, if there is one.
    #[inline]
    pub(crate) fn medium(&self) -> Option<&Medium> {
        if cfg!(halite_unhooked) {
            return None;
        }
        match &self.0.backing {
            Backing::File(_) | Backing::Memory(_) => None,
            Backing::Medium(medium) => Some(medium),
        }
    }

    /// The emulation of another medium, if there is one.
    #[inline]
    pub(crate) fn emulation(&self) -> Option<&Emulation> {
        self.0.emulation.as_ref()
    }

    /// Tells the emulation, if there is one, that bytes are read where they lie.
    #[inline]
    pub(crate) fn note_read(&self, offset: u64, len: u64) {
        if self.emulation().is_some() {
            self.emulate_read(offset, len);
        }
    }

    // A function of its own, so that a pool without an emulation pays for one test only.
    #[cold]
    #[inline(never)]
    fn emulate_read(&self, offset: u64, len: u64) {
        if let Some(emulation) = self.emulation() {
            let lines = emulation.read(offset, len, self.address(offset));
            self.counters().read_lines(lines);
        }
    }

    #[cold]
    #[inline(never)]
    fn emulate_store(&self, offset: u64, len: u64) {
        if let Some(emulation) = self.emulation() {
            emulation.stored(offset, len);
            self.counters().stored_bytes(len);
        }
    }

    /// Has the kernel read bytes of an ordinary file, and does not wait for them; else, does nothing.
    pub(crate) fn read_ahead(&self, offset: u64, len: u64) {
        if let Backing::File(file) = &self.0.backing
            && self.0.domain == Domain::PageCache
        {
            file.read_ahead(offset, offset + len);
        }
    }

    /// Has the line of the byte at `offset` fetched.
    #[inline]
    pub(crate) fn prefetch(&self, offset: u64) {
        match self.emulation() {
            Some(emulation) => {
                self.counters().read_lines(emulation.prefetch(offset, self.address(offset)));
            }
            None => prefetch::line(self.address(offset)),
        }
    }

    /// Tells the emulation, if there is one, that bytes are stored through the cache.
    #[inline]
    pub(crate) fn note_stored(&self, offset: u64, len: u64) {
        if self.emulation().is_some() {
            self.emulate_store(offset, len);
        }
    }

    /// Tells the emulation, if there is one, that bytes are about to be stored past the cache.
    #[inline]
    pub(crate) fn note_streamed(&self, offset: u64, len: u64) {
        if let Some(emulation) = self.emulation() {
            emulation.streams(offset, len);
            self.counters().stored_bytes(len);
        }
    }

    /// Starts the write-back of a range inside a region, which begins at `address`.
    #[inline]
    #[track_caller]
    pub(crate) fn write_back(&self, address: *const u8, range: fence::Range) -> Flushed {
        // SAFETY: the range is inside a region, hence mapped, and the instruction was detected.
        unsafe { self.0.write_back.lines(address, range.len) };
        self.flushed(range)
    }

    /// Counts a range whose write-back has begun.
    #[inline]
    #[track_caller]
    pub(crate) fn flushed(&self, range: fence::Range) -> Flushed {
        self.0.counters.flush(range.offset, range.len);
        self.note_write_back(range.offset, range.len);
        Flushed::of(range)
    }

    /// Tells the model or the emulation, if there is one, that a write-back has begun.
    #[inline]
    #[track_caller]
    pub(crate) fn note_write_back(&self, offset: u64, len: u64) {
        if let Some(medium) = self.medium() {
            locks::point();
            let told = planted!("pmem.flush-rounded-down", len / crate::LINE * crate::LINE, len);
            medium.flush(offset, told, Location::caller());
        }
        if let Some(emulation) = self.emulation() {
            emulation.write_back(offset, len);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Backing::Medium(medium) = &self.backing {
            medium.set_unused();
        }
    }
}

fn random(path: &Path) -> Result<u64> {
    let (mut bytes, mut filled) = ([0; 8], 0);
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags).map_err(|errno| {
            file::io_error(path, "draw random bytes for the pool", errno.into())
        })?;
    }
    Ok(u64::from_le_bytes(bytes))
}
