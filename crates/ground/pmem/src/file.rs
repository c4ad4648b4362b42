//! The file of a pool: made, opened, grown and synced.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::fence::Range;
use crate::map::{Base, Mapping, page_size};
use crate::syncs::Syncs;
use crate::{Domain, Error, PoolOptions, Result, UNIT};
use halite_sim::planted;
use halite_sim::{Call, Kernel};

/// A locked, mapped file.
pub(crate) struct PoolFile {
    path: PathBuf,
    /// The name of a new file that cannot be without one, until it is installed.
    passing: Option<Passing>,
    file: File,
    mapping: Mapping,
    kernel: Kernel,
}

impl PoolFile {
    /// Makes a file of `len` bytes that has no name yet.
    pub(crate) fn create(path: &Path, len: u64, options: &PoolOptions) -> Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(Error::Exists { path: path.to_owned() });
        }
        let kernel = Kernel::new(options.failures.clone());
        let (file, passing) = create_nameless(&kernel, path)?;
        lock(&kernel, &file, path)?;
        let mapping = reserve(&kernel, path, len, options)?;
        if Domain::detect(&file, false) == Domain::Process {
            place_large_pages(&file, &mapping, 0, len);
        }
        allocate(&kernel, &file, path, 0, len)?;
        let file = Self { passing, ..Self::map(kernel, file, path, len, mapping, false)? };
        if file.domain() == Domain::PageCache {
            file.write_blocks(0, len)?;
        }
        Ok(file)
    }

    /// Names the file, durably.
    pub(crate) fn install(&self) -> Result<()> {
        let path = &self.path;
        let synced = self.kernel.ask_std(Call::Sync, || self.file.sync_all());
        synced.map_err(io_error_of(path, "sync the new pool"))?;
        let cwd = rustix::fs::CWD;
        let name = || match &self.passing {
            None => {
                let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                rustix::fs::linkat(cwd, &unnamed, cwd, path, AtFlags::SYMLINK_FOLLOW)
            }
            Some(passing) => passing.rename(path),
        };
        match self.kernel.ask(Call::Name, name) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(Error::Exists { path: path.clone() }),
            Err(errno) => return Err(io_error(path, "name the new pool", errno.into())),
        }
        self.kernel
            .ask_std(Call::Open, || File::open(folder_of(path)))
            .and_then(|folder| self.kernel.ask_std(Call::Sync, || folder.sync_all()))
            .map_err(io_error_of(path, "sync the folder of the new pool"))
    }

    /// Opens a file; returns its length in whole units too.
    pub(crate) fn open(path: &Path, options: &PoolOptions) -> Result<(Self, u64)> {
        let kernel = Kernel::new(options.failures.clone());
        let look = || fs::metadata(path);
        let metadata = kernel.ask_std(Call::Look, look).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
            _ => io_error(path, "open the pool", source),
        })?;
        if !metadata.is_file() {
            return Err(Error::NotAFile { path: path.to_owned() });
        }
        // The mode counts for a privileged user too: a user who removes the write permission means it.
        if metadata.permissions().readonly() {
            return Err(Error::ReadOnly { path: path.to_owned() });
        }
        let open = || OpenOptions::new().read(true).write(true).open(path);
        let file = kernel.ask_std(Call::Open, open).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::ReadOnly { path: path.to_owned() }
            }
            _ => io_error(path, "open the pool", source),
        })?;
        lock(&kernel, &file, path)?;
        let metadata = kernel.ask_std(Call::Look, || file.metadata());
        let metadata = metadata.map_err(io_error_of(path, "look at the pool"))?;
        let named = match kernel.ask_std(Call::Look, || fs::metadata(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            named => Some(named.map_err(io_error_of(path, "look at the pool"))?),
        };
        if named.map(|named| (named.dev(), named.ino())) != Some((metadata.dev(), metadata.ino())) {
            // Another file replaced this one while it was being opened, so another process is at work.
            return Err(Error::Locked { path: path.to_owned() });
        }
        let len = metadata.len() / UNIT * UNIT;
        if len == 0 {
            return Err(Error::TooShort { path: path.to_owned(), len: metadata.len() });
        }
        // A store to a hole on a full device would end the process by a signal.
        if metadata.blocks() * 512 < len {
            allocate(&kernel, &file, path, 0, len)?;
        }
        let mapping = reserve(&kernel, path, len, options)?;
        Ok((Self::map(kernel, file, path, len, mapping, true)?, len))
    }

    /// Maps a file, which another process may have written and read before (`was_used`).
    fn map(
        kernel: Kernel,
        file: File,
        path: &Path,
        len: u64,
        mut mapping: Mapping,
        was_used: bool,
    ) -> Result<Self> {
        mapping.try_sync(&kernel, &file).map_err(io_error_of(path, "map the pool"))?;
        if Domain::detect(&file, mapping.maps_sync()) == Domain::PageCache {
            mapping.keep_pages_small(&file);
            if was_used {
                let synced = kernel.ask_std(Call::Sync, || file.sync_data());
                synced.map_err(io_error_of(path, "sync the pool"))?;
                Mapping::forget_pages(&file);
            }
        }
        mapping.map(&kernel, &file, 0, len).map_err(io_error_of(path, "map the pool"))?;
        Ok(Self { path: path.to_owned(), passing: None, file, mapping, kernel })
    }

    pub(crate) fn domain(&self) -> Domain {
        Domain::detect(&self.file, self.mapping.maps_sync())
    }

    pub(crate) fn unsafe_shutdowns(&self) -> Option<u64> {
        crate::domain::unsafe_shutdowns(&self.file)
    }

    pub(crate) fn base(&self) -> Base {
        self.mapping.base()
    }

    /// Makes the file longer, with zeros for which the device has room.
    pub(crate) fn grow(&self, old: u64, new: u64, domain: Domain, syncs: &Syncs) -> Result<()> {
        let (path, kernel) = (&self.path, &self.kernel);
        // Bytes behind the end are from a growth that a crash interrupted.
        let metadata = kernel.ask_std(Call::Look, || self.file.metadata());
        let file_len = metadata.map_err(io_error_of(path, "look at the pool"))?.len();
        if file_len > old {
            let cut = kernel.ask_std(Call::Resize, || self.file.set_len(old));
            cut.map_err(io_error_of(path, "cut the pool"))?;
        }
        if domain == Domain::Process {
            place_large_pages(&self.file, &self.mapping, old, new);
        }
        allocate(kernel, &self.file, path, old, new)
            .and_then(|()| {
                if domain == Domain::PageCache { self.write_blocks(old, new) } else { Ok(()) }
            })
            .inspect_err(|_| drop(self.file.set_len(old)))?;
        let synced = match domain {
            Domain::Process => Ok(()),
            _ => syncs.sync(path, || {
                let synced = kernel.ask_std(Call::Sync, || self.file.sync_all());
                synced.map_err(io_error_of(path, "sync the pool's new length"))
            }),
        };
        synced
            .and_then(|()| {
                let mapped = self.mapping.map(kernel, &self.file, old, new);
                mapped.map_err(io_error_of(path, "map the pool"))
            })
            // No byte was stored there; if this fails too, the next growth cuts the file.
            .inspect_err(|_| drop(self.file.set_len(old)))?;
        if domain != Domain::PageCache {
            self.mapping.populate(old, new);
        }
        Ok(())
    }

    /// Writes zeros over new space, the first 64 MiB of it: a sync after a store to a block that was never written waits
    /// for a commit of the file system's journal. The rest of a larger growth is left unwritten, so that a growth takes a
    /// fraction of a second.
    fn write_blocks(&self, start: u64, end: u64) -> Result<()> {
        const WRITTEN_MAX: u64 = 64 << 20;
        write_zeros(&self.kernel, &self.file, start, end.min(start + WRITTEN_MAX))
            .map_err(no_space_or_io(&self.path, end - start))
    }

    /// Has the kernel read a range, and does not wait for it.
    pub(crate) fn read_ahead(&self, start: u64, end: u64) {
        self.mapping.read_ahead(start, end);
    }

    pub(crate) fn sync_all(&self) -> Result<()> {
        let synced = self.kernel.ask_std(Call::Sync, || self.file.sync_all());
        synced.map_err(io_error_of(&self.path, "sync the pool"))
    }

    /// Makes the pages of ranges durable.
    pub(crate) fn sync_pages(&self, ranges: impl Iterator<Item = Range> + Clone) -> Result<()> {
        let Some(span) = Span::of(ranges) else { return Ok(()) };
        let synced = self.kernel.ask_std(Call::Sync, || {
            if span.is_near() {
                self.mapping.sync_range(span.start, span.end)
            } else {
                self.file.sync_data()
            }
        });
        synced.map_err(io_error_of(&self.path, "sync the pool"))
    }

    /// Writes bytes of the file again unchanged, so that the kernel marks their pages dirty.
    pub(crate) fn rewrite(&self, range: Range) -> Result<()> {
        const PART: u64 = 1 << 20;
        let mut part = vec![0; range.len.min(PART) as usize];
        let end = range.offset + range.len;
        (range.offset..end)
            .step_by(PART as usize)
            .try_for_each(|at| {
                let part = &mut part[..(end - at).min(PART) as usize];
                self.kernel.ask_std(Call::Read, || self.file.read_exact_at(part, at))?;
                self.kernel.ask_std(Call::Write, || self.file.write_all_at(part, at))
            })
            .map_err(io_error_of(&self.path, "write again what is in the pool"))
    }
}

/// The span of some ranges. Neighbouring pages are synced by themselves; ranges far apart are synced with
/// the whole file in one go.
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    const NEAR: u64 = 1 << 20;

    pub(crate) fn of(ranges: impl Iterator<Item = Range> + Clone) -> Option<Self> {
        let start = ranges.clone().map(|range| range.offset).min()?;
        let end_of = |range: Range| {
            planted!("pmem.sync-misses-last-range", range.offset, range.offset + range.len)
        };
        let end = ranges.map(end_of).max()?;
        Some(Self { start, end })
    }

    pub(crate) fn is_near(&self) -> bool {
        self.end - self.start <= Self::NEAR
    }
}

/// Reads bytes of the file at `path` without changing it.
pub(crate) fn peek(kernel: &Kernel, path: &Path, at: u64, to: &mut [u8]) -> io::Result<()> {
    let file = kernel.ask_std(Call::Open, || File::open(path))?;
    kernel.ask_std(Call::Read, || file.read_exact_at(to, at))
}

pub(crate) fn io_error(path: &Path, action: &'static str, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), action, source }
}

fn io_error_of(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| io_error(path, action, source)
}

/// The name that a new file has until it is installed, on a file system where no file is without one. It is removed
/// when the file is not installed; one that a crash leaves is taken over by the next creation.
struct Passing {
    name: PathBuf,
    is_installed: AtomicBool,
}

impl Passing {
    /// Gives the file its own name, unless there is such a file.
    fn rename(&self, path: &Path) -> rustix::io::Result<()> {
        let cwd = rustix::fs::CWD;
        let renamed =
            match rustix::fs::renameat_with(cwd, &self.name, cwd, path, RenameFlags::NOREPLACE) {
                // The lock of the passing name keeps other creations out.
                Err(Errno::INVAL | Errno::NOSYS) => match fs::symlink_metadata(path) {
                    Ok(_) => Err(Errno::EXIST),
                    Err(_) => rustix::fs::rename(&self.name, path),
                },
                renamed => renamed,
            };
        self.is_installed.store(renamed.is_ok(), Ordering::Relaxed);
        renamed
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if !self.is_installed.load(Ordering::Relaxed) {
            let _ = fs::remove_file(&self.name);
        }
    }
}

/// Makes a file without a name, or with one that passes, where the file system has no files without.
fn create_nameless(kernel: &Kernel, path: &Path) -> Result<(File, Option<Passing>)> {
    let failed = |errno: Errno| io_error(path, "create the pool", errno.into());
    let mode = Mode::from_raw_mode(0o644);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let open = || rustix::fs::open(folder_of(path), flags | OFlags::TMPFILE, mode);
    match kernel.ask(Call::Open, open) {
        Ok(file) => return Ok((File::from(file), None)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let name = PathBuf::from(name);
    let open = || rustix::fs::open(&name, flags | OFlags::CREATE | OFlags::NOFOLLOW, mode);
    let file = File::from(kernel.ask(Call::Open, open).map_err(failed)?);
    lock(kernel, &file, path)?;
    let is_named = fs::metadata(&name).is_ok_and(|named| {
        file.metadata().is_ok_and(|of| (of.dev(), of.ino()) == (named.dev(), named.ino()))
    });
    if !is_named {
        // Another process has installed it meanwhile.
        return Err(Error::Locked { path: path.to_owned() });
    }
    let passing = Passing { name, is_installed: AtomicBool::new(false) };
    kernel
        .ask_std(Call::Resize, || file.set_len(0))
        .map_err(io_error_of(path, "create the pool"))?;
    Ok((file, Some(passing)))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn lock(kernel: &Kernel, file: &File, path: &Path) -> Result<()> {
    let locked = kernel.ask_std(Call::Look, || match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => Err(source),
    });
    match locked.map_err(io_error_of(path, "lock the pool"))? {
        true => Ok(()),
        false => Err(Error::Locked { path: path.to_owned() }),
    }
}

fn reserve(kernel: &Kernel, path: &Path, len: u64, options: &PoolOptions) -> Result<Mapping> {
    let capacity = options.len_max().max(len);
    let reserved = kernel.ask_std(Call::Map, || Mapping::reserve(capacity));
    reserved.map_err(io_error_of(path, "reserve addresses for the pool"))
}

/// Lengthens a file that ends at `start`, on a file system in memory, with as many large pages as there
/// are; [`allocate`] gives it the rest. By default most such file systems use small pages, which the kernel
/// takes longer to allocate, and which cost a reader a fault for every few of them.
fn place_large_pages(file: &File, mapping: &Mapping, start: u64, end: u64) {
    let place = || -> io::Result<()> {
        let room = rustix::fs::fstatvfs(file)?;
        if room.f_bavail.saturating_mul(room.f_frsize) < end - start {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.set_len(end)?;
        // Large pages only replace small ones, so each unit needs a small one first.
        for unit in (start..end).step_by(UNIT as usize) {
            rustix::fs::fallocate(file, FallocateFlags::empty(), unit, 1)?;
        }
        mapping.map(&Kernel::default(), file, start, end)?;
        mapping.collapse(start, end);
        Ok(())
    };
    if place().is_err() {
        let _ = file.set_len(start);
    }
}

/// Writes zeros page by page: for a longer write the kernel would make a large folio.
fn write_zeros(kernel: &Kernel, file: &File, start: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; page_size() as usize];
    (start..end).step_by(zeros.len()).try_for_each(|at| {
        let page = &zeros[..(end - at).min(page_size()) as usize];
        kernel.ask_std(Call::Write, || file.write_all_at(page, at))
    })
}

fn no_space_or_io(path: &Path, bytes: u64) -> impl FnOnce(io::Error) -> Error {
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::NoSpace { path: path.to_owned(), bytes }
        }
        _ => io_error(path, "allocate space for the pool", source),
    }
}

/// Gives `file` the bytes `start..end` on the device; if it cannot, the file is as long as before.
fn allocate(kernel: &Kernel, file: &File, path: &Path, start: u64, end: u64) -> Result<()> {
    let bytes = end - start;
    let metadata = kernel.ask_std(Call::Look, || file.metadata());
    let old_len = metadata.map_err(io_error_of(path, "look at the pool"))?.len();
    let allocate = || rustix::fs::fallocate(file, FallocateFlags::empty(), start, bytes);
    match kernel.ask(Call::Resize, allocate) {
        Ok(()) => Ok(()),
        // Such a file system may report holes in an existing file that has none; the file has to do as it
        // is.
        Err(Errno::OPNOTSUPP) if old_len >= end => Ok(()),
        // A file system that cannot reserve space: writing zeros allocates it.
        Err(Errno::OPNOTSUPP) if old_len <= start => write_zeros(kernel, file, start, end)
            .inspect_err(|_| drop(file.set_len(old_len)))
            .map_err(no_space_or_io(path, bytes)),
        Err(errno) => {
            // Part of the range may have been allocated. An error of this cut would say less than the error
            // at hand.
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
