//! A folder of a file system, and the calls of its kernel. Names are looked up in the folder's descriptor,
//! so that it stays the same folder if its path changes.

use std::fs::{self, File};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use halite_sim::{Call, Failures, Kernel};
use rustix::fs::{
    Advice, AtFlags, Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, StatxFlags,
};
use rustix::io::Errno;

use crate::aligned::Alignment;
use crate::traffic::Counters;
use crate::{Error, Result};

/// An open folder, locked against other processes that ask for the lock.
pub(crate) struct Folder {
    path: PathBuf,
    folder: OwnedFd,
    kernel: Kernel,
}

/// The bytes written again at once when a file is opened to be appended to.
const PART: u64 = 1 << 20;

impl Folder {
    pub(crate) fn open(path: &Path, create: bool, failures: Option<Failures>) -> Result<Self> {
        let kernel = Kernel::new(failures);
        if create {
            make(&kernel, path)?;
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = kernel
            .ask(Call::Open, || rustix::fs::open(path, flags, Mode::empty()))
            .map_err(|errno| Error::of(errno, path, "open the folder"))?;
        let stat = kernel
            .ask(Call::Look, || rustix::fs::fstat(&folder))
            .map_err(|errno| Error::of(errno, path, "look at the folder"))?;
        // The mode counts for a privileged user too: a user who removes the write permission means it.
        if stat.st_mode & 0o222 == 0 {
            return Err(Error::ReadOnly { path: path.to_owned() });
        }
        let lock = || match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            locked => locked.map(|()| true),
        };
        match kernel.ask(Call::Look, lock) {
            Ok(true) => Ok(Self { path: path.to_owned(), folder, kernel }),
            Ok(false) => Err(Error::Locked { path: path.to_owned() }),
            Err(errno) => Err(Error::of(errno, path, "lock the folder")),
        }
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    fn error(&self, name: &str, action: &'static str) -> impl FnOnce(Errno) -> Error {
        let path = self.path.join(name);
        move |errno| Error::of(errno, &path, action)
    }

    /// Regular files with names in UTF-8: the disk makes no others.
    pub(crate) fn list(&self) -> Result<Vec<(String, u64)>> {
        let failed = |errno| Error::of(errno, &self.path, "list the folder");
        let mut files = Vec::new();
        let mut names =
            self.kernel.ask(Call::Open, || Dir::read_from(&self.folder)).map_err(failed)?;
        loop {
            let next = self.kernel.ask(Call::Look, || names.read().transpose());
            let Some(entry) = next.map_err(failed)? else { break };
            let (name, flags) = (entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let look = || rustix::fs::statat(&self.folder, name, flags);
            let stat = match self.kernel.ask(Call::Look, look) {
                // Another program's file, which that program has removed since.
                Err(Errno::NOENT) => continue,
                stat => stat.map_err(failed)?,
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && let Ok(name) = name.to_str()
            {
                files.push((name.to_owned(), stat.st_size as u64));
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    pub(crate) fn create(&self, name: &str) -> Result<File> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(0o644));
        self.kernel
            .ask(Call::Open, create)
            .map(File::from)
            .map_err(self.error(name, "create the file"))
    }

    /// Opens a file, and returns its identity and its length too.
    pub(crate) fn open_file(&self, name: &str, access: OFlags) -> Result<(File, (u64, u64), u64)> {
        // Opening does not wait for the other end if the file is a pipe.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.folder, name, flags, Mode::empty());
        let file = self.kernel.ask(Call::Open, open).map_err(self.error(name, "open the file"))?;
        let look = || rustix::fs::fstat(&file);
        let stat =
            self.kernel.ask(Call::Look, look).map_err(self.error(name, "look at the file"))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Error::NotAFile { path: self.path.join(name) });
        }
        if access == OFlags::RDWR && stat.st_mode & 0o222 == 0 {
            return Err(Error::ReadOnly { path: self.path.join(name) });
        }
        Ok((file.into(), (stat.st_dev, stat.st_ino), stat.st_size as u64))
    }

    /// Opens a file of at least `len` bytes, cuts it there, and writes the remaining bytes once more.
    pub(crate) fn append(&self, name: &str, len: u64, counters: &Counters) -> Result<File> {
        let path = self.path.join(name);
        let (file, _, file_len) = self.open_file(name, OFlags::RDWR)?;
        if file_len < len {
            return Err(Error::Short { path, at: 0, len, file_len });
        }
        if file_len > len {
            let cut = || rustix::fs::ftruncate(&file, len);
            self.kernel.ask(Call::Resize, cut).map_err(self.error(name, "cut the file"))?;
        }
        let mut part = vec![0; len.min(PART) as usize];
        for at in (0..len).step_by(PART as usize) {
            let part = &mut part[..(len - at).min(PART) as usize];
            read(&self.kernel, &file, &path, at, part, len)?;
            counters.read(part.len());
            write(&self.kernel, &file, &path, at, part)?;
            counters.wrote(part.len());
        }
        Ok(file)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.kernel
            .ask(Call::Name, || rustix::fs::renameat(&self.folder, from, &self.folder, to))
            .map_err(self.error(from, "rename the file"))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.kernel
            .ask(Call::Name, || rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()))
            .map_err(self.error(name, "remove the file"))
    }

    /// Bytes of its file system, if that says so.
    pub(crate) fn capacity(&self) -> Option<u64> {
        let stat = self.kernel.ask(Call::Look, || rustix::fs::fstatvfs(&self.folder)).ok()?;
        stat.f_blocks.checked_mul(stat.f_frsize).filter(|bytes| *bytes > 0)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.kernel
            .ask(Call::Sync, || rustix::fs::fsync(&self.folder))
            .map_err(|errno| Error::of(errno, &self.path, "sync the folder"))
    }
}

/// Makes a folder and those that it is in, durably.
fn make(kernel: &Kernel, path: &Path) -> Result<()> {
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match kernel.ask_std(Call::Name, || fs::create_dir(path)) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let is_folder = match kernel.ask_std(Call::Look, || fs::metadata(path)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                looked => looked.map_err(|error| io_error(&error, path))?.is_dir(),
            };
            if !is_folder {
                return Err(Error::NotAFolder { path: path.to_owned() });
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && parent != path => {
            make(kernel, parent)?;
            // Not recursive: new parents do not repair a dangling link.
            let made = kernel.ask_std(Call::Name, || fs::create_dir(path));
            made.map_err(|error| io_error(&error, path))?;
        }
        Err(error) => return Err(io_error(&error, path)),
    }
    // Also for an existing folder: the process that made it may have been killed before this sync.
    let failed = |errno| Error::of(errno, parent, "sync the folder");
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(parent, flags, Mode::empty());
    let folder = kernel.ask(Call::Open, open).map_err(failed)?;
    kernel.ask(Call::Sync, || rustix::fs::fsync(&folder)).map_err(failed)
}

fn io_error(error: &std::io::Error, path: &Path) -> Error {
    Error::of(Errno::from_io_error(error).unwrap_or(Errno::IO), path, "create the folder")
}

/// Writes all of `bytes`.
pub(crate) fn write(
    kernel: &Kernel,
    file: &File,
    path: &Path,
    mut at: u64,
    mut bytes: &[u8],
) -> Result<()> {
    while !bytes.is_empty() {
        match kernel.ask(Call::Write, || rustix::io::pwrite(file, bytes, at)) {
            Ok(0) => return Err(Error::NoSpace { path: path.to_owned() }),
            Ok(written) => (at, bytes) = (at + written as u64, &bytes[written..]),
            Err(errno) => return Err(Error::of(errno, path, "write the file")),
        }
    }
    Ok(())
}

/// Reads all of `to` from a file that was `file_len` bytes long.
pub(crate) fn read(
    kernel: &Kernel,
    file: &File,
    path: &Path,
    at: u64,
    to: &mut [u8],
    file_len: u64,
) -> Result<()> {
    let needed = to.len();
    read_some(kernel, file, path, at, to, needed, file_len)
}

/// Reads at least the first `needed` bytes of `to`, as [`read`] does.
pub(crate) fn read_some(
    kernel: &Kernel,
    file: &File,
    path: &Path,
    at: u64,
    to: &mut [u8],
    needed: usize,
    file_len: u64,
) -> Result<()> {
    let mut done = 0;
    while done < needed {
        let read = || rustix::io::pread(file, &mut to[done..], at + done as u64);
        match kernel.ask(Call::Read, read) {
            Ok(0) => {
                // Another program cut it.
                let file_len = file_len.min(at + done as u64);
                let (path, len) = (path.to_owned(), needed as u64);
                return Err(Error::Short { path, at, len, file_len });
            }
            Ok(read) => done += read,
            Err(errno) => return Err(Error::of(errno, path, "read the file")),
        }
    }
    Ok(())
}

/// Sets space aside behind a file's end, up to `len` bytes. Its length stays.
pub(crate) fn reserve(kernel: &Kernel, file: &File, path: &Path, at: u64, len: u64) -> Result<()> {
    let reserve = || rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, at, len - at);
    match kernel.ask(Call::Resize, reserve) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
            Err(Error::of(errno, path, "set space aside for the file"))
        }
        // Not every file system can reserve space; other errors show when the file is written.
        _ => Ok(()),
    }
}

/// Makes a file longer, from `at` to `len` bytes, with space for the new ones. Returns whether the file system can do
/// that; on an error the file may be longer.
pub(crate) fn preallocate(
    kernel: &Kernel,
    file: &File,
    path: &Path,
    at: u64,
    len: u64,
) -> Result<bool> {
    let allocate = || rustix::fs::fallocate(file, FallocateFlags::empty(), at, len - at);
    match kernel.ask(Call::Resize, allocate) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(errno) => Err(Error::of(errno, path, "set space aside for the file")),
    }
}

/// Has reads and writes of a file go past the page cache, if its file system can do that; returns the alignment that
/// they must have then.
pub(crate) fn make_direct(kernel: &Kernel, file: &File, path: &Path) -> Result<Option<Alignment>> {
    let failed = |errno| Error::of(errno, path, "look at the file");
    let look = || rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let alignment = match kernel.ask(Call::Look, look) {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            let alignment = Alignment {
                memory: stat.stx_dio_mem_align as usize,
                offset: stat.stx_dio_offset_align.into(),
            };
            match alignment.memory.is_power_of_two() && alignment.offset.is_power_of_two() {
                true => alignment,
                // Zeros: the file has no direct access.
                false => return Ok(None),
            }
        }
        // Kernels before 6.1, and file systems that do not say.
        Ok(_) | Err(Errno::NOSYS | Errno::INVAL | Errno::PERM) => Alignment::PAGE,
        Err(errno) => return Err(failed(errno)),
    };
    let flags = kernel.ask(Call::Look, || rustix::fs::fcntl_getfl(file)).map_err(failed)?;
    match kernel.ask(Call::Look, || rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT)) {
        Ok(()) => Ok(Some(alignment)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}

/// Gives the space behind a file's end back: truncation to the file's own length changes nothing else.
pub(crate) fn give_back(file: &File, len: u64) {
    let _ = rustix::fs::ftruncate(file, len);
}

/// Has the kernel begin to write back a range that was just written, so that the sync at the end is short.
pub(crate) fn begin_write_back(file: &File, at: u64, len: u64) {
    // Linux begins to write the dirty pages of the range, and drops the clean ones: of bytes just written,
    // next to none. The kernel may ignore the advice: the sync makes the bytes durable.
    let _ = rustix::fs::fadvise(file, at, NonZeroU64::new(len), Advice::DontNeed);
}

/// Turns the kernel's readahead off. A kernel that ignores the advice only makes reads slower.
pub(crate) fn expect_random_reads(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
}

/// Has the kernel begin to read a range. A kernel that ignores the advice only makes reads wait longer.
pub(crate) fn expect_read(file: &File, at: u64, len: u64) {
    if let Some(len) = NonZeroU64::new(len) {
        let _ = rustix::fs::fadvise(file, at, Some(len), Advice::WillNeed);
    }
}

/// Makes a file's bytes and length durable.
pub(crate) fn sync(kernel: &Kernel, file: &File, path: &Path) -> Result<()> {
    let sync = || rustix::fs::fdatasync(file);
    kernel.ask(Call::Sync, sync).map_err(|errno| Error::of(errno, path, "sync the file"))
}
