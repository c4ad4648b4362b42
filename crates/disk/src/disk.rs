//! The disk: a folder's files, and the door to them.

use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_pmem::locks::Mutex;
use halite_pmem::{Medium, Site, planted};
use rustix::fs::OFlags;

use crate::folder::Folder;
use crate::memory::{Asker, MemoryFiles};
use crate::model::DiskModel;
use crate::traffic::Counters;
use crate::{Error, File, Result, Traffic, Writer};

/// The files of one folder, in memory, or of a model. Cloning makes another handle; the folder is locked
/// against other processes until the last one is gone, and every [`Writer`].
///
/// Names are of this folder: 1 to 255 bytes without `/`. A name that was made, changed or removed is
/// durable when [`Disk::sync`] has returned, and no sync of the file makes it so.
#[derive(Clone)]
pub struct Disk(Arc<Inner>);

struct Inner {
    path: PathBuf,
    backing: Backing,
    counters: Arc<Counters>,
    /// Whether a sync of the names failed.
    has_failed: AtomicBool,
    /// Held in a sync of the names: the kernel tells a failure to one of those that sync at once.
    syncing: Mutex<()>,
}

/// Where the files are.
enum Backing {
    Folder(Folder),
    Memory(Arc<MemoryFiles>),
    Model(DiskModel),
}

impl Disk {
    /// Opens a folder; with `create`, makes it if there is none, and those that it is in, all of them
    /// durably.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotAFolder`], [`Error::ReadOnly`], [`Error::Locked`],
    /// [`Error::NoSpace`], [`Error::Io`].
    pub fn folder(path: &Path, create: bool) -> Result<Self> {
        Ok(Self::with_backing(path, Backing::Folder(Folder::open(path, create)?)))
    }

    /// Files in memory, none to begin with. Nothing survives the last handle.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::with_backing(Path::new("memory"), Backing::Memory(Arc::default()))
    }

    /// Files in memory that may have so many bytes together: beyond that there is [`Error::NoSpace`].
    #[must_use]
    pub fn in_memory_up_to(bytes: u64) -> Self {
        Self::with_backing(
            Path::new("memory"),
            Backing::Memory(Arc::new(MemoryFiles::up_to(bytes))),
        )
    }

    /// The files of a model, as they are.
    #[must_use]
    pub fn model(model: &DiskModel) -> Self {
        Self::with_backing(Path::new("model"), Backing::Model(model.clone()))
    }

    fn with_backing(path: &Path, backing: Backing) -> Self {
        let (path, counters) = (path.to_owned(), Arc::default());
        Self(Arc::new(Inner {
            path,
            backing,
            counters,
            has_failed: AtomicBool::new(false),
            syncing: Mutex::default(),
        }))
    }

    /// The folder; in memory and of a model, a name for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Names and lengths in bytes of all regular files, sorted, whoever made them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list(&self) -> Result<Vec<(String, u64)>> {
        match &self.0.backing {
            Backing::Folder(folder) => folder.list(),
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => Ok(files.list()),
        }
    }

    /// Makes an empty file, to be written.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Exists`], [`Error::ReadOnly`], [`Error::NoSpace`], [`Error::Failed`],
    /// [`Error::PowerCut`], [`Error::Io`].
    #[track_caller]
    pub fn create(&self, name: &str) -> Result<Writer> {
        let path = self.path_to_change(name)?;
        Ok(match &self.0.backing {
            Backing::Folder(folder) => Writer::of_file(self, path, folder.create(name)?, 0),
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                let inode = files.create(name, self.asker(&path, Location::caller()))?;
                Writer::of_memory(self, path, files, inode, 0)
            }
        })
    }

    /// Cuts a file to `len` bytes, to write what comes behind them.
    ///
    /// What stays is written again as it is, so that the writer's first sync makes all of it durable: a
    /// process that was killed may not have synced what it wrote, and the kernel may have failed to write
    /// it and take it for clean since.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Missing`], [`Error::NotAFile`], [`Error::ReadOnly`], [`Error::Short`] if
    /// the file has fewer bytes, [`Error::NoSpace`], [`Error::Failed`], [`Error::PowerCut`],
    /// [`Error::Io`].
    #[track_caller]
    pub fn append(&self, name: &str, len: u64) -> Result<Writer> {
        let path = self.path_to_change(name)?;
        Ok(match &self.0.backing {
            Backing::Folder(folder) => {
                let file = folder.append(name, len, self.counters())?;
                Writer::of_file(self, path, file, len)
            }
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                let inode = files.append(name, len, self.asker(&path, Location::caller()))?;
                Writer::of_memory(self, path, files, inode, len)
            }
        })
    }

    /// Opens a file to be read, as long as it is now.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Missing`], [`Error::NotAFile`], [`Error::Io`].
    pub fn open(&self, name: &str) -> Result<File> {
        let path = self.path_of(name)?;
        let counters = Arc::clone(&self.0.counters);
        Ok(match &self.0.backing {
            Backing::Folder(folder) => {
                let (file, len) = folder.open_file(name, OFlags::RDONLY)?;
                File::of_file(path, counters, file, len)
            }
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                let inode = files.open(name, &path)?;
                let len = inode.bytes.read().len() as u64;
                File::of_memory(path, counters, inode, len)
            }
        })
    }

    /// Gives a file another name, in one step: whoever had the name is replaced.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Missing`], [`Error::NotAFile`], [`Error::ReadOnly`], [`Error::NoSpace`],
    /// [`Error::Failed`], [`Error::PowerCut`], [`Error::Io`].
    #[track_caller]
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let path = self.path_to_change(from)?;
        self.path_of(to)?;
        if planted!(RenamedInTwoSteps) {
            // There may be none.
            let _ = self.remove(to);
        }
        match &self.0.backing {
            Backing::Folder(folder) => folder.rename(from, to),
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                files.rename(from, to, self.asker(&path, Location::caller()))
            }
        }
    }

    /// Removes a file's name; its bytes go when nobody has it open.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Missing`], [`Error::NotAFile`], [`Error::ReadOnly`], [`Error::Failed`],
    /// [`Error::PowerCut`], [`Error::Io`].
    #[track_caller]
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.path_to_change(name)?;
        match &self.0.backing {
            Backing::Folder(folder) => folder.remove(name),
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                files.remove(name, self.asker(&path, Location::caller()))
            }
        }
    }

    /// Makes all names durable, as they are.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`] if the kernel cannot: then nothing is known about the names, and
    /// every later change of one, and sync, is [`Error::Failed`]. [`Error::PowerCut`].
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        let _syncing = self.0.syncing.lock();
        self.check()?;
        if planted!(NamesNotSynced) {
            return Ok(());
        }
        self.0.counters.synced();
        let synced = match &self.0.backing {
            Backing::Folder(folder) => folder.sync(),
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                files.sync_names(self.asker(self.path(), Location::caller()))
            }
        };
        synced.inspect_err(|_| self.0.has_failed.store(true, Ordering::Relaxed))
    }

    /// What went through the door since this disk was opened.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.0.counters.total()
    }

    /// Bytes of DRAM that the files take: of those in memory, and of a model.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        match &self.0.backing {
            Backing::Folder(_) => 0,
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => files.used_bytes(),
        }
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.0.counters
    }

    pub(crate) fn asker<'a>(&'a self, path: &'a Path, site: Site) -> Asker<'a> {
        Asker { clock: self.clock(), path, site }
    }

    fn clock(&self) -> Option<&Medium> {
        match &self.0.backing {
            Backing::Folder(_) | Backing::Memory(_) => None,
            Backing::Model(model) => Some(&model.medium),
        }
    }

    /// Refuses if a sync of the names failed.
    fn check(&self) -> Result<()> {
        match self.0.has_failed.load(Ordering::Relaxed) {
            true => Err(Error::Failed { path: self.path().to_owned() }),
            false => Ok(()),
        }
    }

    fn path_to_change(&self, name: &str) -> Result<PathBuf> {
        self.check()?;
        self.path_of(name)
    }

    fn path_of(&self, name: &str) -> Result<PathBuf> {
        const NAME_LEN_MAX: usize = 255;
        let is_name = (1..=NAME_LEN_MAX).contains(&name.len())
            && !name.contains(['/', '\0'])
            && !matches!(name, "." | "..");
        match is_name {
            true => Ok(self.path().join(name)),
            false => Err(Error::Name { name: name.to_owned() }),
        }
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("path", &self.0.path).finish_non_exhaustive()
    }
}
