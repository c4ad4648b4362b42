//! The pool: one mapped file, and the door to its bytes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::claims::Claims;
use crate::map::Mapping;
use crate::region::Region;
use crate::stream::Stream;
use crate::traffic::Counters;
use crate::writeback::{self, WriteBack};
use crate::{Domain, Error, Fenced, Flushed, Fresh, PoolOptions, Result, Traffic, UNIT, fence};

/// One mapped file. Cloning makes another handle; the file closes with the last one.
///
/// While a pool is open, its file is locked against other processes that ask for the lock. A
/// program that truncates the file all the same ends this process by a signal, as with any mapped
/// file; so does a sector that the device cannot read.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    id: u64,
    path: PathBuf,
    file: File,
    mapping: Mapping,
    len: AtomicU64,
    len_max: u64,
    growing: Mutex<()>,
    /// Whether the kernel ever failed to sync: it tells once, so nothing after it is certain.
    sync_failed: Mutex<bool>,
    domain: Domain,
    write_back: WriteBack,
    stream: Stream,
    claims: Claims,
    counters: Counters,
}

impl Pool {
    /// Creates a pool that [`Pool::install`] then puts in its place at `path`.
    ///
    /// Until then its file has no name; so a crash never leaves half a pool.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is a file at `path`, [`Error::NoSpace`], [`Error::Io`].
    pub fn create(path: &Path, options: &PoolOptions) -> Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(Error::Exists { path: path.to_owned() });
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder_of(path), flags, Mode::from_raw_mode(0o644))
            .map_err(|errno| io_error(path, "create the pool", errno.into()))?;
        let file = File::from(file);
        lock(&file, path)?;
        let len = options.size_initial.clamp(UNIT, size_max(options)).next_multiple_of(UNIT);
        allocate(&file, path, 0, len)?;
        Self::with_file(file, path.to_owned(), len, options)
    }

    /// Puts a pool that [`Pool::create`] made in its place, durably.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is a file by now, [`Error::Io`].
    pub fn install(&self) -> Result<()> {
        let path = &self.0.path;
        self.0.file.sync_all().map_err(io_error_of(path, "sync the new pool"))?;
        let unnamed = format!("/proc/self/fd/{}", self.0.file.as_raw_fd());
        let flags = AtFlags::SYMLINK_FOLLOW;
        match rustix::fs::linkat(rustix::fs::CWD, unnamed, rustix::fs::CWD, path, flags) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(Error::Exists { path: path.to_owned() }),
            Err(errno) => return Err(io_error(path, "name the new pool", errno.into())),
        }
        File::open(folder_of(path))
            .and_then(|folder| folder.sync_all())
            .map_err(io_error_of(path, "sync the folder of the new pool"))
    }

    /// Opens the pool at `path`. What is in it is not looked at.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotAFile`], [`Error::ReadOnly`], [`Error::TooShort`],
    /// [`Error::Locked`], [`Error::NoSpace`] if the file has holes that the device cannot fill,
    /// [`Error::Io`].
    pub fn open(path: &Path, options: &PoolOptions) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
            _ => io_error(path, "open the pool", source),
        })?;
        if !metadata.is_file() {
            return Err(Error::NotAFile { path: path.to_owned() });
        }
        // The mode counts for a privileged user too: who took the right to write meant it.
        if metadata.permissions().readonly() {
            return Err(Error::ReadOnly { path: path.to_owned() });
        }
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::ReadOnly { path: path.to_owned() }
            }
            _ => io_error(path, "open the pool", source),
        })?;
        lock(&file, path)?;
        let metadata = file.metadata().map_err(io_error_of(path, "look at the pool"))?;
        let named = fs::metadata(path).map(|named| (named.dev(), named.ino())).ok();
        if named != Some((metadata.dev(), metadata.ino())) {
            // Another file took the place of this one while it was opened: somebody is at work.
            return Err(Error::Locked { path: path.to_owned() });
        }
        let len = metadata.len() / UNIT * UNIT;
        if len == 0 {
            return Err(Error::TooShort { path: path.to_owned(), len: metadata.len() });
        }
        // A store to a hole on a full device would end the process by a signal.
        if metadata.blocks() * 512 < len {
            allocate(&file, path, 0, len)?;
        }
        let pool = Self::with_file(file, path.to_owned(), len, options)?;
        if pool.domain() == Domain::PageCache {
            // A process that was killed may have left what no power cut would.
            pool.0.file.sync_all().map_err(io_error_of(path, "sync the pool"))?;
        }
        Ok(pool)
    }

    fn with_file(file: File, path: PathBuf, len: u64, options: &PoolOptions) -> Result<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let len_max = size_max(options).max(len);
        let failed = |action| io_error_of(&path, action);
        let mut mapping =
            Mapping::reserve(len_max).map_err(failed("reserve addresses for the pool"))?;
        let maps_sync = mapping.try_sync(&file);
        mapping.map(&file, 0, len).map_err(failed("map the pool"))?;
        let domain = options.assume_domain.unwrap_or_else(|| {
            match Domain::detect(&file, maps_sync) {
                // Without instructions to write lines back, only the kernel can.
                Domain::Memory if !writeback::HAS_INSTRUCTIONS => Domain::PageCache,
                detected => detected,
            }
        });
        let (write_back, stream) = match domain {
            Domain::Platform => (WriteBack::None, Stream::detect()),
            Domain::PageCache => (WriteBack::None, Stream::Cached),
            Domain::Memory | Domain::Process => (WriteBack::detect(), Stream::detect()),
        };
        Ok(Self(Arc::new(Inner {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            path,
            file,
            mapping,
            len: AtomicU64::new(len),
            len_max,
            growing: Mutex::new(()),
            sync_failed: Mutex::new(false),
            domain,
            write_back,
            stream,
            claims: Claims::default(),
            counters: Counters::new(),
        })))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// What a fence guarantees.
    #[must_use]
    pub fn domain(&self) -> Domain {
        self.0.domain
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

    /// What went through the pool's door since it was opened.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.0.counters.total()
    }

    /// Grows the pool by `bytes`, rounded up to [`UNIT`]. The new bytes are zero, and the device has
    /// room for them.
    ///
    /// # Errors
    /// [`Error::SizeLimit`], [`Error::NoSpace`], [`Error::Io`]; the pool is then as it was.
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
        // Bytes behind the end are from a growth that a crash interrupted.
        let file_len = self.0.file.metadata().map_err(io_error_of(path, "look at the pool"))?.len();
        if file_len > old {
            self.0.file.set_len(old).map_err(io_error_of(path, "cut the pool"))?;
        }
        allocate(&self.0.file, path, old, new)?;
        if self.0.domain != Domain::Process {
            self.0.file.sync_all().map_err(io_error_of(path, "sync the pool's new length"))?;
        }
        self.0.mapping.map(&self.0.file, old, new).map_err(io_error_of(path, "map the pool"))?;
        if self.0.domain != Domain::PageCache {
            self.0.mapping.populate(old, new);
        }
        self.0.len.store(new, Ordering::Release);
        Ok(())
    }

    /// Takes `offset..offset + len`, which nobody else owns, until the owner is dropped.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Claimed`].
    pub fn claim(&self, offset: u64, len: u64) -> Result<Fresh> {
        let pool_len = self.len();
        let end = offset.checked_add(len).filter(|&end| len > 0 && end <= pool_len);
        let Some(end) = end else {
            let path = self.path().to_owned();
            return Err(Error::OutOfBounds { path, offset, len, pool_len });
        };
        if !self.0.claims.take(offset, end) {
            return Err(Error::Claimed { path: self.path().to_owned(), offset, len });
        }
        Ok(Fresh::new(Region::new(self.clone(), offset, len)))
    }

    /// Waits until all of `flushed`, write-backs of this thread, are durable. One fence; for
    /// [`Domain::PageCache`] one call of the kernel's sync.
    ///
    /// # Errors
    /// [`Error::Io`] if the kernel cannot write; then nothing is known about the bytes.
    ///
    /// # Panics
    /// If one of them is of another pool.
    #[inline]
    pub fn fence<const N: usize>(&self, flushed: [Flushed; N]) -> Result<[Fenced; N]> {
        self.wait(&flushed)?;
        Ok(flushed.map(|flushed| Fenced { proves: flushed.proves }))
    }

    /// As [`Pool::fence`], for any number of ranges.
    ///
    /// # Errors
    /// As [`Pool::fence`].
    ///
    /// # Panics
    /// As [`Pool::fence`].
    pub fn fence_all(&self, flushed: &[Flushed]) -> Result<Vec<Fenced>> {
        self.wait(flushed)?;
        Ok(flushed.iter().map(|flushed| Fenced { proves: flushed.proves }).collect())
    }

    fn wait(&self, flushed: &[Flushed]) -> Result<()> {
        assert!(
            flushed.iter().all(|flushed| flushed.proves.pool == self.0.id),
            "a range of another pool"
        );
        self.0.counters.fence();
        if self.0.domain == Domain::PageCache {
            self.sync_pages(flushed)
        } else {
            writeback::fence();
            Ok(())
        }
    }

    /// One range of neighbouring pages is synced by itself; ranges apart, with the file in one go.
    fn sync_pages(&self, flushed: &[Flushed]) -> Result<()> {
        const NEAR: u64 = 1 << 20;
        let ranges = || flushed.iter().map(|flushed| &flushed.proves);
        let start = ranges().map(|range| range.offset).min();
        let end = ranges().map(|range| range.offset + range.len).max();
        let (Some(start), Some(end)) = (start, end) else { return Ok(()) };
        // One at a time: the kernel reports a failure to whoever asks first, and to nobody else.
        let mut failed = self.0.sync_failed.lock();
        if *failed {
            return Err(Error::SyncFailed { path: self.path().to_owned() });
        }
        let synced = if end - start <= NEAR {
            self.0.mapping.sync_range(start, end)
        } else {
            self.0.file.sync_data()
        };
        *failed = synced.is_err();
        synced.map_err(io_error_of(self.path(), "sync the pool"))
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

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

    pub(crate) fn address(&self, offset: u64) -> *mut u8 {
        self.0.mapping.address(offset)
    }

    pub(crate) fn give_back(&self, offset: u64) {
        self.0.claims.give_back(offset);
    }

    /// Starts the write-back of a range inside a region, which begins at `address`.
    #[inline]
    pub(crate) fn write_back(&self, address: *const u8, range: fence::Range) -> Flushed {
        // SAFETY: the range is inside a region, hence mapped, and the instruction was detected.
        unsafe { self.0.write_back.lines(address, range.len) };
        self.flushed(range)
    }

    /// Counts a range whose write-back has begun.
    #[inline]
    pub(crate) fn flushed(&self, range: fence::Range) -> Flushed {
        self.0.counters.flush(range.offset, range.len);
        Flushed { proves: range, on_this_thread: PhantomData }
    }
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), action, source }
}

fn io_error_of(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| io_error(path, action, source)
}

/// The largest size that the options allow, in whole units.
fn size_max(options: &PoolOptions) -> u64 {
    (options.size_max / UNIT * UNIT).max(UNIT)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn lock(file: &File, path: &Path) -> Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Error::Locked { path: path.to_owned() },
        TryLockError::Error(source) => io_error(path, "lock the pool", source),
    })
}

fn write_zeros(file: &File, start: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; UNIT as usize];
    (start..end)
        .step_by(zeros.len())
        .try_for_each(|at| file.write_all_at(&zeros[..(end - at).min(UNIT) as usize], at))
}

/// Gives `file` the bytes `start..end` on the device; if it cannot, the file is as long as before.
fn allocate(file: &File, path: &Path, start: u64, end: u64) -> Result<()> {
    let bytes = end - start;
    let old_len = file.metadata().map_err(io_error_of(path, "look at the pool"))?.len();
    let allocated = loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), start, bytes) {
            Err(Errno::INTR) => {}
            allocated => break allocated,
        }
    };
    match allocated {
        Ok(()) => Ok(()),
        // There it may well look as if an existing file had holes; it has to do as it is.
        Err(Errno::OPNOTSUPP) if old_len >= end => Ok(()),
        // A file system that cannot promise space: writing takes it.
        Err(Errno::OPNOTSUPP) if old_len <= start => write_zeros(file, start, end)
            .inspect_err(|_| drop(file.set_len(old_len)))
            .map_err(|source| match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Error::NoSpace { path: path.to_owned(), bytes }
                }
                _ => io_error(path, "allocate space for the pool", source),
            }),
        Err(errno) => {
            // Part of the range may have been allocated; the error at hand says more than one here.
            let _ = file.set_len(old_len);
            match errno {
                Errno::NOSPC | Errno::DQUOT | Errno::FBIG => {
                    Err(Error::NoSpace { path: path.to_owned(), bytes })
                }
                _ => Err(io_error(path, "allocate space for the pool", errno.into())),
            }
        }
    }
}
