//! Reading a file, at any place.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_sim::Kernel;

use crate::handles::Slot;
use crate::memory::Inode;
use crate::traffic::Counters;
use crate::{Disk, Error, Result, folder};

/// An open file, with its length at opening. It can still be read when its name is removed. Cloning makes
/// another handle.
#[derive(Clone)]
pub struct File(Arc<Inner>);

struct Inner {
    path: PathBuf,
    counters: Arc<Counters>,
    source: Source,
    len: u64,
}

enum Source {
    File(fs::File, Kernel),
    Shared(Shared),
    Memory(Arc<Inode>),
}

/// A file whose descriptor may be closed between reads.
struct Shared {
    disk: Disk,
    name: String,
    /// The device and the inode number: another file that has the name later has other ones.
    identity: (u64, u64),
    slot: Arc<Slot>,
    is_read_at_random: AtomicBool,
}

impl Shared {
    /// Runs `act` with the descriptor.
    fn with<T>(&self, path: &Path, act: impl FnOnce(&fs::File) -> Result<T>) -> Result<T> {
        if let Some(file) = &*self.slot.file() {
            return act(file);
        }
        let file = self.disk.handles().open(&self.slot, || {
            let (file, identity, _) = self.disk.open_in_folder(&self.name)?;
            if identity != self.identity {
                return Err(Error::Replaced { path: path.to_owned() });
            }
            if self.is_read_at_random.load(Ordering::Relaxed) {
                folder::expect_random_reads(&file);
            }
            Ok(file)
        })?;
        act(&file)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.disk.handles().close(&self.slot);
    }
}

impl File {
    pub(crate) fn of_file(path: PathBuf, disk: &Disk, file: fs::File, len: u64) -> Self {
        let source = Source::File(file, disk.kernel().clone());
        Self(Arc::new(Inner { path, counters: Arc::clone(disk.counters()), source, len }))
    }

    /// Opens a file of a folder that may be closed between reads.
    pub(crate) fn shared(disk: &Disk, path: PathBuf, name: &str) -> Result<Self> {
        let slot = Arc::<Slot>::default();
        let found = Cell::new(None);
        disk.handles().open(&slot, || {
            let (file, identity, len) = disk.open_in_folder(name)?;
            found.set(Some((identity, len)));
            Ok(file)
        })?;
        let (identity, len) = found.into_inner().expect("it was opened");
        let (disk, name) = (disk.clone(), name.to_owned());
        let counters = Arc::clone(disk.counters());
        let is_read_at_random = AtomicBool::new(false);
        let source = Source::Shared(Shared { disk, name, identity, slot, is_read_at_random });
        Ok(Self(Arc::new(Inner { path, counters, source, len })))
    }

    pub(crate) fn of_memory(
        path: PathBuf,
        counters: Arc<Counters>,
        inode: Arc<Inode>,
        len: u64,
    ) -> Self {
        Self(Arc::new(Inner { path, counters, source: Source::Memory(inode), len }))
    }

    /// The name under which it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has the kernel read only the requested bytes of it, with no readahead.
    pub fn expect_random_reads(&self) {
        match &self.0.source {
            Source::File(file, _) => folder::expect_random_reads(file),
            Source::Shared(shared) => {
                shared.is_read_at_random.store(true, Ordering::Relaxed);
                if let Some(file) = &*shared.slot.file() {
                    folder::expect_random_reads(file);
                }
            }
            Source::Memory(_) => {}
        }
    }

    /// Has the kernel begin to read bytes that will be read soon.
    pub fn expect_read(&self, at: u64, len: u64) {
        match &self.0.source {
            Source::File(file, _) => folder::expect_read(file, at, len),
            // The file was read just now.
            Source::Shared(shared) => {
                if let Some(file) = &*shared.slot.file() {
                    folder::expect_read(file, at, len);
                }
            }
            Source::Memory(_) => {}
        }
    }

    /// Reads the bytes from `at` on, as many as `to` has.
    ///
    /// # Errors
    /// [`Error::Short`] if the file has fewer bytes, perhaps because it was cut since; [`Error::Io`]; where
    /// it was closed meanwhile, those of [`Disk::open`], and [`Error::Replaced`]. On an error the contents
    /// of `to` are unspecified.
    pub fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        let Inner { path, counters, source, len: file_len } = &*self.0;
        let (len, file_len) = (to.len() as u64, *file_len);
        let short = |file_len| Error::Short { path: path.clone(), at, len, file_len };
        let end = at.checked_add(len).filter(|&end| end <= file_len);
        let end = end.ok_or_else(|| short(file_len))?;
        counters.read(to.len());
        match source {
            Source::File(file, kernel) => folder::read(kernel, file, path, at, to, file_len),
            Source::Shared(shared) => shared.with(path, |file| {
                folder::read(shared.disk.kernel(), file, path, at, to, file_len)
            }),
            Source::Memory(inode) => {
                let bytes = inode.bytes.read();
                let there = bytes.get(at as usize..end as usize);
                to.copy_from_slice(there.ok_or_else(|| short(bytes.len() as u64))?);
                Ok(())
            }
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("path", &self.0.path)
            .field("len", &self.0.len)
            .finish_non_exhaustive()
    }
}
