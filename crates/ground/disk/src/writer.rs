//! Writing a file, from its end on.

use std::fs;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_sim::{Site, planted};

use crate::memory::{Inode, MemoryFiles};
use crate::{Disk, Error, File, Result, folder};

/// Bytes that are handed to the kernel at once.
const BUFFER: usize = 128 << 10;

/// Bytes after which the kernel is asked to begin write-back.
const WRITE_BACK: u64 = 1 << 20;

/// The only writer of a file, which appends to it.
///
/// Written bytes wait in a buffer, go to the kernel in pieces, and are durable when [`Writer::sync`] has
/// returned. A writer that is dropped leaves the file without the bytes in its buffer.
pub struct Writer {
    disk: Disk,
    path: PathBuf,
    target: Target,
    /// Bytes that the kernel does not have yet.
    buffer: Vec<u8>,
    /// How much it has.
    handed: u64,
    /// How many of these bytes the kernel was asked to write back.
    written_back: u64,
    /// Whether a write or a sync failed.
    has_failed: bool,
}

enum Target {
    File(fs::File),
    Memory(Arc<MemoryFiles>, Arc<Inode>),
}

impl Writer {
    pub(crate) fn of_file(disk: &Disk, path: PathBuf, file: fs::File, len: u64) -> Self {
        Self::new(disk, path, Target::File(file), len)
    }

    pub(crate) fn of_memory(
        disk: &Disk,
        path: PathBuf,
        files: &Arc<MemoryFiles>,
        inode: Arc<Inode>,
        len: u64,
    ) -> Self {
        Self::new(disk, path, Target::Memory(Arc::clone(files), inode), len)
    }

    fn new(disk: &Disk, path: PathBuf, target: Target, len: u64) -> Self {
        let disk = disk.clone();
        let buffer = Vec::with_capacity(BUFFER);
        Self { disk, path, target, buffer, handed: len, written_back: len, has_failed: false }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length in bytes, with the buffered ones.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.handed + self.buffer.len() as u64
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has the file system reserve space, so that the file can grow up to `len` bytes: writes up to there
    /// find room. On a file system that cannot reserve, a lack of space shows when the file is written.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: the file is as it was, and can be written to. [`Error::Failed`].
    pub fn reserve(&mut self, len: u64) -> Result<()> {
        self.check()?;
        if len <= self.len() {
            return Ok(());
        }
        match &self.target {
            Target::File(file) => {
                folder::reserve(self.disk.kernel(), file, &self.path, self.handed, len)
            }
            Target::Memory(files, inode) => files.reserve(inode, len, &self.path),
        }
    }

    /// Gives back the reserved space that is not used yet.
    ///
    /// # Errors
    /// As [`Writer::write`].
    #[track_caller]
    pub fn give_back(&mut self) -> Result<()> {
        self.check()?;
        self.hand_over(Location::caller())?;
        match &self.target {
            Target::File(file) => folder::give_back(file, self.handed),
            Target::Memory(_, inode) => inode.give_back(),
        }
        Ok(())
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] if the kernel does not take them: then everything later is
    /// [`Error::Failed`]. [`Error::PowerCut`].
    #[track_caller]
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check()?;
        while self.buffer.len() + bytes.len() > BUFFER {
            // Pieces have one length, so that each begins at a page boundary.
            let (first, rest) = bytes.split_at(BUFFER - self.buffer.len());
            self.buffer.extend_from_slice(first);
            self.hand_over(Location::caller())?;
            bytes = rest;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Hands the buffered bytes to the kernel. If the kernel refuses some of them, the file does not have
    /// them whole.
    ///
    /// # Errors
    /// As [`Writer::write`].
    #[track_caller]
    pub fn flush(&mut self) -> Result<()> {
        self.check()?;
        self.hand_over(Location::caller())
    }

    /// Makes all written bytes durable, and the length; not the name ([`Disk::sync`]).
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] if the kernel cannot write: then the state of the bytes is
    /// unknown, and every later operation is [`Error::Failed`]. [`Error::PowerCut`].
    #[track_caller]
    pub fn sync(&mut self) -> Result<()> {
        let site = Location::caller();
        self.check()?;
        planted!("disk.synced-without-buffer", Ok(()), self.hand_over(site))?;
        let answer = self.ask_for_sync(site);
        let synced = planted!(
            "disk.failed-file-sync-repeated",
            answer.or_else(|_| self.ask_for_sync(site)),
            answer
        );
        self.written_back = self.handed;
        self.note(synced)
    }

    fn ask_for_sync(&self, site: Site) -> Result<()> {
        self.disk.counters().synced();
        match &self.target {
            Target::File(file) => folder::sync(self.disk.kernel(), file, &self.path),
            Target::Memory(files, inode) => {
                files.sync_file(inode, self.disk.asker(&self.path, site))
            }
        }
    }

    /// Hands the buffered bytes to the kernel, and opens the file to be read. Bytes that were not synced
    /// are not durable.
    ///
    /// # Errors
    /// As [`Writer::write`].
    #[track_caller]
    pub fn finish(mut self) -> Result<File> {
        self.check()?;
        self.hand_over(Location::caller())?;
        Ok(match self.target {
            Target::File(file) => File::of_file(self.path, &self.disk, file, self.handed),
            Target::Memory(_, inode) => {
                let counters = Arc::clone(self.disk.counters());
                File::of_memory(self.path, counters, inode, self.handed)
            }
        })
    }

    /// Gives the buffer to the kernel.
    fn hand_over(&mut self, site: Site) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = match &self.target {
            Target::File(file) => {
                let kernel = self.disk.kernel();
                folder::write(kernel, file, &self.path, self.handed, &self.buffer)
            }
            Target::Memory(files, inode) => {
                let asker = self.disk.asker(&self.path, site);
                files.write(inode, self.handed, &self.buffer, asker)
            }
        };
        self.note(written)?;
        self.disk.counters().wrote(self.buffer.len());
        self.handed += self.buffer.len() as u64;
        self.buffer.clear();
        if let Target::File(file) = &self.target
            && self.handed - self.written_back >= WRITE_BACK
        {
            folder::begin_write_back(file, self.written_back, self.handed - self.written_back);
            self.written_back = self.handed;
        }
        Ok(())
    }

    /// Remembers a failure.
    fn note(&mut self, done: Result<()>) -> Result<()> {
        self.has_failed |= done.is_err();
        done
    }

    fn check(&self) -> Result<()> {
        match self.has_failed {
            true => Err(Error::Failed { path: self.path.clone() }),
            false => Ok(()),
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("path", &self.path)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
