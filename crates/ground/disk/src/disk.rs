//! The disk: a folder's files, and the interface to them.

use std::borrow::Cow;
use std::fs;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_sim::locks::Mutex;
use halite_sim::{Failures, Kernel, Machine, Site, planted};
use rustix::fs::OFlags;

use crate::folder::Folder;
use crate::handles::Handles;
use crate::memory::{Asker, MemoryFiles};
use crate::model::DiskModel;
use crate::traffic::Counters;
use crate::{Error, File, Result, Traffic, Writer};

/// The files of one folder, in memory, or of a model. Cloning makes another handle; the folder is locked
/// against other processes until the last handle and every [`Writer`] are dropped.
///
/// Names are of this folder: 1 to 255 bytes without `/`. A name that was made, changed or removed is
/// durable when [`Disk::sync`] has returned; a sync of the file does not make it durable.
#[derive(Clone)]
pub struct Disk(Arc<Inner>);

struct Inner {
    path: PathBuf,
    backing: Backing,
    /// In memory and of a model, the beginning of the names of the folder's files: nothing, or the folder's own name and
    /// `/` ([`Disk::subfolder`]).
    prefix: Box<str>,
    kernel: Kernel,
    handles: Handles,
    counters: Arc<Counters>,
    /// Whether a sync of the names failed.
    has_failed: AtomicBool,
    /// Held during a sync of the names: of several concurrent syncs, the kernel reports a failure to one
    /// only.
    syncing: Mutex<()>,
}

/// Where the files are.
pub(crate) enum Backing {
    Folder(Folder),
    Memory(Arc<MemoryFiles>),
    Model(DiskModel),
}

impl Disk {
    /// Opens a folder; with `create`, makes it and its missing parents, all durably.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotAFolder`], [`Error::ReadOnly`], [`Error::Locked`],
    /// [`Error::NoSpace`], [`Error::TooManyFiles`], [`Error::Io`].
    pub fn folder(path: &Path, create: bool) -> Result<Self> {
        Self::failing_folder(path, create, None)
    }

    /// [`Disk::folder`] with calls of the kernel that fail as a test asks.
    ///
    /// # Errors
    /// As [`Disk::folder`].
    pub fn failing_folder(path: &Path, create: bool, failures: Option<Failures>) -> Result<Self> {
        Ok(Self::with_backing(path, Backing::Folder(Folder::open(path, create, failures)?)))
    }

    /// Files in memory, none to begin with. They are lost with the last handle.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::with_backing(Path::new("memory"), Backing::Memory(Arc::default()))
    }

    /// Files in memory that may have so many bytes together: a write beyond that is [`Error::NoSpace`].
    #[must_use]
    pub fn in_memory_up_to(bytes: u64) -> Self {
        Self::with_backing(
            Path::new("memory"),
            Backing::Memory(Arc::new(MemoryFiles::up_to(bytes))),
        )
    }

    /// The files of a model, in their current state.
    #[must_use]
    pub fn model(model: &DiskModel) -> Self {
        Self::with_backing(Path::new("model"), Backing::Model(model.clone()))
    }

    /// A folder in this one, with files and traffic of its own, in the same room and under the same power. With `create`,
    /// it is made durably.
    ///
    /// # Errors
    /// [`Error::Name`]; those of [`Disk::folder`].
    pub fn subfolder(&self, name: &str, create: bool) -> Result<Self> {
        let path = self.path_of(name)?;
        let backing = match &self.0.backing {
            Backing::Folder(folder) => {
                let failures = folder.kernel().failures().cloned();
                Backing::Folder(Folder::open(&path, create, failures)?)
            }
            Backing::Memory(files) => Backing::Memory(Arc::clone(files)),
            Backing::Model(model) => Backing::Model(model.clone()),
        };
        let prefix = match &backing {
            Backing::Folder(_) => String::new(),
            Backing::Memory(_) | Backing::Model(_) => format!("{}{name}/", self.0.prefix),
        };
        Ok(Self::with_prefix(&path, backing, &prefix))
    }

    fn with_backing(path: &Path, backing: Backing) -> Self {
        Self::with_prefix(path, backing, "")
    }

    fn with_prefix(path: &Path, backing: Backing, prefix: &str) -> Self {
        let (path, counters) = (path.to_owned(), Arc::default());
        let kernel = match &backing {
            Backing::Folder(folder) => folder.kernel().clone(),
            Backing::Memory(_) | Backing::Model(_) => Kernel::default(),
        };
        Self(Arc::new(Inner {
            path,
            backing,
            prefix: prefix.into(),
            kernel,
            handles: Handles::new(),
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

    /// Bytes that the device has in all, free or not, where that is known.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        match &self.0.backing {
            Backing::Folder(folder) => folder.capacity(),
            Backing::Memory(files) => files.limit(),
            Backing::Model(_) => None,
        }
    }

    /// Names and lengths in bytes of all regular files, sorted, including those that other programs made.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list(&self) -> Result<Vec<(String, u64)>> {
        match &self.0.backing {
            Backing::Folder(folder) => folder.list(),
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                Ok(files.list(&self.0.prefix))
            }
        }
    }

    /// Makes an empty file, to be written.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Exists`], [`Error::ReadOnly`], [`Error::NoSpace`], [`Error::TooManyFiles`],
    /// [`Error::Failed`], [`Error::PowerCut`], [`Error::Io`]. Then there is none.
    #[track_caller]
    pub fn create(&self, name: &str) -> Result<Writer> {
        let path = self.path_to_change(name)?;
        Ok(match &self.0.backing {
            Backing::Folder(folder) => {
                let file = self.0.handles.give_way(|| folder.create(name))?;
                Writer::of_file(self, path, file, 0)
            }
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                let inode =
                    files.create(&self.full(name), self.asker(&path, Location::caller()))?;
                Writer::of_memory(self, path, files, inode, 0)
            }
        })
    }

    /// Cuts a file to `len` bytes, so that the writer appends behind them.
    ///
    /// The remaining bytes are written again unchanged, so that the writer's first sync makes all of them
    /// durable: a killed process may not have synced its writes, and the kernel may have failed to write
    /// them and have marked them clean since.
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
                let append = || folder.append(name, len, self.counters());
                let file = self.0.handles.give_way(append)?;
                Writer::of_file(self, path, file, len)
            }
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                let inode =
                    files.append(&self.full(name), len, self.asker(&path, Location::caller()))?;
                Writer::of_memory(self, path, files, inode, len)
            }
        })
    }

    /// Opens a file to be read, with its current length.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Missing`], [`Error::NotAFile`], [`Error::TooManyFiles`], [`Error::Io`].
    pub fn open(&self, name: &str) -> Result<File> {
        let path = self.path_of(name)?;
        Ok(match &self.0.backing {
            Backing::Folder(_) => {
                let (file, _, len) = self.0.handles.give_way(|| self.open_in_folder(name))?;
                File::of_file(path, self, file, len)
            }
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                let inode = files.open(&self.full(name), &path)?;
                let len = inode.bytes.read().len() as u64;
                File::of_memory(path, Arc::clone(&self.0.counters), inode, len)
            }
        })
    }

    /// Opens one of many files to be read, with its current length. Its descriptor may be closed between
    /// reads, and is opened again by the name, which the file has to keep until it is dropped. No more of
    /// these are open at once than [`Disk::keep_open`] allows.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub fn open_shared(&self, name: &str) -> Result<File> {
        match &self.0.backing {
            Backing::Folder(_) => File::shared(self, self.path_of(name)?, name),
            Backing::Memory(_) | Backing::Model(_) => self.open(name),
        }
    }

    /// From now on keeps at most `files_max` of the files of [`Disk::open_shared`] open at once, beside
    /// those that are being read. A disk begins with a quarter of the descriptors that the process may
    /// have, 16 at least and 4,096 at most.
    pub fn keep_open(&self, files_max: usize) {
        self.0.handles.set_limit(files_max);
    }

    /// How many of the files of [`Disk::open_shared`] may be open at once, and are.
    #[must_use]
    pub fn kept_open(&self) -> (usize, usize) {
        (self.0.handles.limit(), self.0.handles.open_count())
    }

    /// Gives a file another name, in one step: a file that had the name is replaced.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Missing`], [`Error::NotAFile`], [`Error::ReadOnly`], [`Error::NoSpace`],
    /// [`Error::Failed`], [`Error::PowerCut`], [`Error::Io`].
    #[track_caller]
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let path = self.path_to_change(from)?;
        self.path_of(to)?;
        planted!("disk.renamed-in-two-steps", drop(self.remove(to)));
        match &self.0.backing {
            Backing::Folder(folder) => folder.rename(from, to),
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                let (from, to) = (self.full(from), self.full(to));
                files.rename(&from, &to, self.asker(&path, Location::caller()))
            }
        }
    }

    /// Removes a file's name; its bytes go with the last handle that has it open.
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
                files.remove(&self.full(name), self.asker(&path, Location::caller()))
            }
        }
    }

    /// Makes all names durable, as they are.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`] if the kernel cannot: then the state of the names is unknown,
    /// and every later change of one, and sync, is [`Error::Failed`]. [`Error::PowerCut`].
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        let _syncing = self.0.syncing.lock();
        self.check_synced()?;
        let synced =
            planted!("disk.names-not-synced", Ok(()), self.ask_for_sync(Location::caller()));
        synced.inspect_err(|_| self.0.has_failed.store(true, Ordering::Relaxed))
    }

    fn ask_for_sync(&self, site: Site) -> Result<()> {
        self.0.counters.synced();
        match &self.0.backing {
            Backing::Folder(folder) => folder.sync(),
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                files.sync_names(&self.0.prefix, self.asker(self.path(), site))
            }
        }
    }

    /// The traffic of this disk since it was opened.
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

    /// The way to the kernel.
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.0.kernel
    }

    pub(crate) fn backing(&self) -> &Backing {
        &self.0.backing
    }

    pub(crate) fn handles(&self) -> &Handles {
        &self.0.handles
    }

    /// Opens a file of a folder to be read, and returns its identity and length too.
    pub(crate) fn open_in_folder(&self, name: &str) -> Result<(fs::File, (u64, u64), u64)> {
        let Backing::Folder(folder) = &self.0.backing else {
            unreachable!("files in memory have no descriptor")
        };
        self.0.counters.opened();
        folder.open_file(name, OFlags::RDONLY)
    }

    fn clock(&self) -> Option<&Machine> {
        match &self.0.backing {
            Backing::Folder(_) | Backing::Memory(_) => None,
            Backing::Model(model) => Some(&model.machine),
        }
    }

    /// Refuses if a sync of the names failed since the folder was opened: no file in it can be changed any
    /// more.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn check_synced(&self) -> Result<()> {
        match self.0.has_failed.load(Ordering::Relaxed) {
            true => Err(Error::Failed { path: self.path().to_owned() }),
            false => Ok(()),
        }
    }

    pub(crate) fn path_to_change(&self, name: &str) -> Result<PathBuf> {
        self.check_synced()?;
        self.path_of(name)
    }

    /// The name that a file in memory or of a model has among those of all folders.
    pub(crate) fn full<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match &*self.0.prefix {
            "" => Cow::Borrowed(name),
            prefix => Cow::Owned(format!("{prefix}{name}")),
        }
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
