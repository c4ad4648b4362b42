//! Writing a file at any place, by many threads.
//!
//! **The fast path of a durable write.** On an ordinary file the price of a durable write depends on what the sync has to
//! do besides sending bytes to the device. A write behind the end changes the length, and a write into space that was
//! never written changes the file's extents; the sync then waits for a commit of the file system's journal. A write over
//! blocks that were written before changes bytes alone. So a log preallocates its space, fills it with zeros away from
//! the commits, and writes its records over them; a file that has served its time takes another name
//! ([`Disk::rename`]) and serves again, as its blocks are written.
//!
//! | call | system calls | journal commit at the next sync |
//! |---|---|---|
//! | [`PositionedFile::write_at`] over written blocks | 1 `pwrite` | none |
//! | the same, into preallocated space that was never written | 1 `pwrite` | of the extents |
//! | the same, behind the end | 1 `pwrite` | of the length and the extents |
//! | [`PositionedFile::preallocate`] | 1 `fallocate`; without one, those of `write_zeros` | of the length and the extents |
//! | [`PositionedFile::write_zeros`] | 1 `pwrite` each 256 KiB | the first time, of the extents |
//! | [`PositionedFile::rewrite`] | 1 `pread` and 1 `pwrite` each 256 KiB | none |
//! | [`PositionedFile::begin_write_back`] | 1 `fadvise`; of a direct file none | |
//! | [`PositionedFile::sync`] | 1 `fdatasync` | as the lines above say; always a flush of the device's cache |
//!
//! A write of a direct file whose buffer is not aligned in memory costs a copy more; the kernel may take a long write in
//! several calls.
//!
//! **Durability.** Only a sync makes bytes durable. Until it has returned, a power cut leaves each sector of 512 bytes of
//! each write old or new, independently of all others: parts of one write, a later write without an earlier one, and the
//! old length. Preallocated space that was not written reads as zeros. Records therefore carry checksums. A failed sync
//! leaves the same choice for good, and every later change and sync of the file is refused.
//!
//! The model (`model.rs`) has these rules, and `halite-lab` explores what they allow.

use std::fs;
use std::ops::Range;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use halite_sim::Site;
use halite_sim::locks::Mutex;

use crate::aligned::{AlignedBuffer, Alignment};
use crate::disk::Backing;
use crate::memory::{Inode, MemoryFiles};
use crate::model::DiskModel;
use crate::{Disk, Error, Result, folder};

/// Bytes that are written at once where many are.
const PART: u64 = 256 << 10;

/// Whether the kernel's page cache takes part in reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Through the page cache, at any place.
    Cached,
    /// Past the page cache (`O_DIRECT`), in whole units of the device; through it where the file system has no such
    /// access: [`PositionedFile::alignment`] tells.
    Direct,
}

/// A file that is written and read at any place. Cloning makes another handle; threads share it, and a file has only
/// one of them and its clones, or one [`crate::Writer`], at a time.
#[derive(Clone)]
pub struct PositionedFile(Arc<Inner>);

struct Inner {
    disk: Disk,
    path: PathBuf,
    target: Target,
    /// The alignment of direct access, if the access is direct.
    alignment: Option<Alignment>,
    len: AtomicU64,
    /// Held while the length changes.
    growing: Mutex<()>,
    /// Held during a sync: of several concurrent ones, the kernel reports a failure to one only.
    syncing: Mutex<()>,
    /// Whether a sync failed.
    has_failed: AtomicBool,
}

enum Target {
    File(fs::File),
    Memory(Arc<MemoryFiles>, Arc<Inode>),
}

impl Disk {
    /// Makes an empty file, to be written at any place.
    ///
    /// # Errors
    /// As [`Disk::create`].
    #[track_caller]
    pub fn create_positioned(&self, name: &str, access: Access) -> Result<PositionedFile> {
        let path = self.path_to_change(name)?;
        match self.backing() {
            Backing::Folder(folder) => {
                let file = self.handles().give_way(|| folder.create(name))?;
                let positioned = PositionedFile::of_file(self, path, file, 0, access);
                // A file that is not handed out is not to be in the way.
                positioned.inspect_err(|_| drop(folder.remove(name)))
            }
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                let inode =
                    files.create(&self.full(name), self.asker(&path, Location::caller()))?;
                Ok(PositionedFile::of_memory(self, path, files, inode, access))
            }
        }
    }

    /// Opens a file to be written at any place, with its current length and bytes.
    ///
    /// The bytes may include writes of a killed process, which are in the page cache and not durable; a sync does not
    /// make them so for certain, as the kernel may have failed to write them and have marked them clean since. Bytes
    /// that a reader relies on are written again first: [`PositionedFile::rewrite`].
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Missing`], [`Error::NotAFile`], [`Error::ReadOnly`], [`Error::TooManyFiles`],
    /// [`Error::Failed`], [`Error::Io`].
    pub fn open_positioned(&self, name: &str, access: Access) -> Result<PositionedFile> {
        let path = self.path_to_change(name)?;
        match self.backing() {
            Backing::Folder(folder) => {
                let open = || folder.open_file(name, rustix::fs::OFlags::RDWR);
                let (file, _, len) = self.handles().give_way(open)?;
                PositionedFile::of_file(self, path, file, len, access)
            }
            Backing::Memory(files) | Backing::Model(DiskModel { files, .. }) => {
                let inode = files.open(&self.full(name), &path)?;
                Ok(PositionedFile::of_memory(self, path, files, inode, access))
            }
        }
    }
}

impl PositionedFile {
    fn of_file(
        disk: &Disk,
        path: PathBuf,
        file: fs::File,
        len: u64,
        access: Access,
    ) -> Result<Self> {
        let alignment = match access {
            Access::Cached => None,
            Access::Direct => folder::make_direct(disk.kernel(), &file, &path)?,
        };
        Ok(Self::new(disk, path, Target::File(file), len, alignment))
    }

    fn of_memory(
        disk: &Disk,
        path: PathBuf,
        files: &Arc<MemoryFiles>,
        inode: Arc<Inode>,
        access: Access,
    ) -> Self {
        /// Of a device with sectors of 512 bytes.
        const MODELLED: Alignment = Alignment { memory: 1, offset: 512 };
        let is_direct = access == Access::Direct && matches!(disk.backing(), Backing::Model(_));
        let len = inode.bytes.read().len() as u64;
        let target = Target::Memory(Arc::clone(files), inode);
        Self::new(disk, path, target, len, is_direct.then_some(MODELLED))
    }

    fn new(
        disk: &Disk,
        path: PathBuf,
        target: Target,
        len: u64,
        alignment: Option<Alignment>,
    ) -> Self {
        Self(Arc::new(Inner {
            disk: disk.clone(),
            path,
            target,
            alignment,
            len: AtomicU64::new(len),
            growing: Mutex::default(),
            syncing: Mutex::default(),
            has_failed: AtomicBool::new(false),
        }))
    }

    /// The name under which it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len.load(Ordering::Acquire)
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether reads and writes go past the page cache. Files in memory never do; those of a model do if that is asked
    /// for, with sectors of 512 bytes.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.0.alignment.is_some()
    }

    /// The alignment of a direct file's writes.
    #[must_use]
    pub fn alignment(&self) -> Option<Alignment> {
        self.0.alignment
    }

    /// Writes all of `bytes` from `at` on; a file that is shorter grows, with zeros up to `at`. The bytes are not
    /// durable before a [`PositionedFile::sync`]. Writes of several threads to different places go on side by side.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] if the kernel does not take them: then any part of these bytes may be
    /// written, all others are as they were, and the same place can be written again. [`Error::Unaligned`],
    /// [`Error::Failed`], [`Error::PowerCut`].
    #[track_caller]
    pub fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.check()?;
        self.check_aligned(at, bytes.len() as u64)?;
        self.put(at, bytes, Location::caller())
    }

    /// Reads the bytes from `at` on, as many as `to` has. Of a direct file, a range that is not aligned takes a copy of
    /// the aligned one around it.
    ///
    /// # Errors
    /// [`Error::Short`] if the file has fewer bytes, [`Error::Io`]. On an error the contents of `to` are unspecified.
    pub fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        let Inner { disk, path, target, alignment, .. } = &*self.0;
        let (len, file_len) = (to.len() as u64, self.len());
        let short = || Error::Short { path: path.clone(), at, len, file_len };
        let end = at.checked_add(len).filter(|&end| end <= file_len).ok_or_else(short)?;
        disk.counters().read(to.len());
        let file = match target {
            Target::File(file) => file,
            Target::Memory(_, inode) => {
                let bytes = inode.bytes.read();
                to.copy_from_slice(bytes.get(at as usize..end as usize).ok_or_else(short)?);
                return Ok(());
            }
        };
        let read = |at, to: &mut [u8], needed| {
            folder::read_some(disk.kernel(), file, path, at, to, needed, file_len)
        };
        match alignment {
            Some(alignment) if !alignment.fits(at, len) || !alignment.fits_memory(to) => {
                let start = at / alignment.offset * alignment.offset;
                let around = (end - start).next_multiple_of(alignment.offset) as usize;
                let mut buffer = AlignedBuffer::zeroed(around, alignment.memory);
                // The file may end within the last unit.
                read(start, &mut buffer, (end - start) as usize)?;
                to.copy_from_slice(&buffer[(at - start) as usize..][..to.len()]);
                Ok(())
            }
            _ => read(at, to, to.len()),
        }
    }

    /// Makes the file at least `len` bytes long, with room on the device for all new bytes, which are zero: writes to
    /// them find room. Neither the length nor the room is durable before a [`PositionedFile::sync`]. The space is not
    /// *written*: the first sync after a write to it is a commit of the journal ([`PositionedFile::write_zeros`]).
    ///
    /// A file system that cannot set space aside gets zeros written instead.
    ///
    /// # Errors
    /// [`Error::NoSpace`] (no room on the device, or none within the quota), [`Error::ReadOnly`], [`Error::Io`]: the file
    /// is as long as it was, and can be written to. [`Error::Unaligned`], [`Error::Failed`], [`Error::PowerCut`].
    #[track_caller]
    pub fn preallocate(&self, len: u64) -> Result<()> {
        let (site, Inner { disk, path, target, .. }) = (Location::caller(), &*self.0);
        self.check()?;
        let _growing = self.0.growing.lock();
        let old = self.len();
        if len <= old {
            return Ok(());
        }
        self.check_aligned(old, len - old)?;
        let grown = match target {
            Target::File(file) => match folder::preallocate(disk.kernel(), file, path, old, len) {
                Ok(false) => self.fill(old..len, site),
                grown => grown.map(|_| ()),
            },
            Target::Memory(files, inode) => files.preallocate(inode, len, disk.asker(path, site)),
        };
        if let Err(error) = grown {
            if let Target::File(file) = target {
                folder::give_back(file, old);
            }
            return Err(error);
        }
        self.0.len.store(len, Ordering::Release);
        Ok(())
    }

    /// Writes zeros over a range: then its blocks are *written*, and once that is synced, a sync after a write to them is
    /// no commit of the journal.
    ///
    /// # Errors
    /// As [`PositionedFile::write_at`].
    #[track_caller]
    pub fn write_zeros(&self, range: Range<u64>) -> Result<()> {
        self.check()?;
        let len = range.end.checked_sub(range.start).expect("a range ends after it starts");
        self.check_aligned(range.start, len)?;
        let _growing = (range.end > self.len()).then(|| self.0.growing.lock());
        self.fill(range.clone(), Location::caller())?;
        self.0.len.fetch_max(range.end, Ordering::AcqRel);
        Ok(())
    }

    /// Writes the bytes of a range again unchanged, so that the next sync makes them durable, whatever became of the
    /// process that wrote them before. No thread writes to them meanwhile.
    ///
    /// # Errors
    /// As [`PositionedFile::read_at`] and [`PositionedFile::write_at`].
    #[track_caller]
    pub fn rewrite(&self, range: Range<u64>) -> Result<()> {
        let site = Location::caller();
        self.check()?;
        let len = range.end.checked_sub(range.start).expect("a range ends after it starts");
        self.check_aligned(range.start, len)?;
        let mut buffer = self.buffer(len);
        let mut at = range.start;
        while at < range.end {
            let part = &mut buffer[..(range.end - at).min(PART) as usize];
            self.read_at(at, part)?;
            self.put(at, part, site)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Has the kernel begin to write back a range, so that the sync has less to do. **Nothing is durable by that**: the
    /// kernel may ignore the call, it neither waits for the bytes nor flushes the device's cache, and the length and the
    /// extents are not written at all (`sync_file_range` promises no more). Clean pages of the range leave the page
    /// cache. Of a direct file, whose bytes are with the device already, this does nothing.
    pub fn begin_write_back(&self, range: Range<u64>) {
        if let Target::File(file) = &self.0.target
            && self.0.alignment.is_none()
        {
            folder::begin_write_back(file, range.start, range.end.saturating_sub(range.start));
        }
    }

    /// Makes all bytes durable whose writes, by any thread, returned before this call, and the length; not the name
    /// ([`Disk::sync`]). Concurrent calls take turns; threads that could share one arrange that among themselves.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] if the kernel cannot write: then every byte that was written since the last
    /// sync may be old or new, and every later change and sync is [`Error::Failed`], also after the device has recovered:
    /// the kernel reports a failure once, and takes the bytes for written. [`Error::PowerCut`].
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        self.sync_for(Location::caller())
    }

    /// Does as [`PositionedFile::sync`], for a caller in another place of the code: one that a trait object or a closure
    /// hides from `#[track_caller]`. The lab leaves out the syncs of one place at a time.
    ///
    /// # Errors
    /// As [`PositionedFile::sync`].
    pub fn sync_for(&self, site: Site) -> Result<()> {
        let _syncing = self.0.syncing.lock();
        self.check()?;
        self.ask_for_sync(site).inspect_err(|_| self.0.has_failed.store(true, Ordering::Release))
    }

    fn ask_for_sync(&self, site: Site) -> Result<()> {
        let Inner { disk, path, target, .. } = &*self.0;
        disk.counters().synced();
        match target {
            Target::File(file) => folder::sync(disk.kernel(), file, path),
            Target::Memory(files, inode) => files.sync_file(inode, disk.asker(path, site)),
        }
    }

    /// Refuses if a sync failed since the file was opened.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn check(&self) -> Result<()> {
        match self.0.has_failed.load(Ordering::Acquire) {
            true => Err(Error::Failed { path: self.0.path.clone() }),
            false => Ok(()),
        }
    }

    fn check_aligned(&self, at: u64, len: u64) -> Result<()> {
        match self.0.alignment {
            Some(alignment) if !alignment.fits(at, len) => {
                let (path, alignment) = (self.0.path.clone(), alignment.offset);
                Err(Error::Unaligned { path, at, len, alignment })
            }
            _ => Ok(()),
        }
    }

    /// Writes bytes, and has the file grow if they are behind its end.
    fn put(&self, at: u64, bytes: &[u8], site: Site) -> Result<()> {
        let end = at.checked_add(bytes.len() as u64).ok_or_else(|| self.too_long())?;
        if bytes.is_empty() {
            return Ok(());
        }
        if end <= self.len() {
            return self.hand_over(at, bytes, site);
        }
        let _growing = self.0.growing.lock();
        if let Err(error) = self.hand_over(at, bytes, site) {
            // A part that was written lies behind the end, where all bytes are to be zeros.
            if let Target::File(file) = &self.0.target {
                folder::give_back(file, self.len());
            }
            return Err(error);
        }
        self.0.len.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    fn too_long(&self) -> Error {
        let source = std::io::ErrorKind::FileTooLarge.into();
        Error::Io { path: self.0.path.clone(), action: "write the file", source }
    }

    /// Writes zeros. The length is the caller's to change.
    fn fill(&self, range: Range<u64>, site: Site) -> Result<()> {
        let zeros = self.buffer(range.end - range.start);
        let mut at = range.start;
        while at < range.end {
            let part = &zeros[..(range.end - at).min(PART) as usize];
            self.hand_over(at, part, site)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// A buffer of zeros, for a range that is written in parts.
    fn buffer(&self, len: u64) -> AlignedBuffer {
        let memory = self.0.alignment.map_or(1, |alignment| alignment.memory);
        AlignedBuffer::zeroed(len.min(PART) as usize, memory)
    }

    /// Gives bytes to the kernel.
    fn hand_over(&self, at: u64, bytes: &[u8], site: Site) -> Result<()> {
        let Inner { disk, path, target, alignment, .. } = &*self.0;
        match target {
            Target::File(file) => match alignment {
                Some(alignment) if !alignment.fits_memory(bytes) => {
                    let mut copy = AlignedBuffer::zeroed(bytes.len(), alignment.memory);
                    copy.copy_from_slice(bytes);
                    folder::write(disk.kernel(), file, path, at, &copy)?;
                }
                _ => folder::write(disk.kernel(), file, path, at, bytes)?,
            },
            Target::Memory(files, inode) => {
                files.write(inode, at, bytes, disk.asker(path, site))?;
            }
        }
        disk.counters().wrote(bytes.len());
        Ok(())
    }
}

impl std::fmt::Debug for PositionedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PositionedFile")
            .field("path", &self.0.path)
            .field("len", &self.len())
            .field("alignment", &self.0.alignment)
            .finish_non_exhaustive()
    }
}
