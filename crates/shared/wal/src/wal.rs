//! An open log: appending, group commit, room, and its files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use halite_codec::Seed;
use halite_disk::{Disk, Writer};
use halite_sim::locks::Mutex;

use crate::batch;
use crate::files::name_of;
use crate::found::{Found, Identity};
use crate::{Error, Result};

/// Space that is set aside for bookkeeping and removals: a part of the device, and no more bytes than this.
const SPARE_PART: u64 = 64;
const SPARE_MAX: u64 = 4 << 20;

/// The log of an open store.
pub struct Wal {
    disk: Disk,
    seed: Seed,
    pending: Mutex<Pending>,
    file: Mutex<File>,
    /// Bytes of all files up to which everything is durable.
    synced: AtomicU64,
    /// Bytes of the files that there are.
    bytes: AtomicU64,
    /// Bytes of the file that are set aside for bookkeeping and removals.
    spare: u64,
    /// Whether so much of the spare space was used that the log is to be made shorter.
    is_to_be_shorter: AtomicBool,
}

/// The batches that are not written yet.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    /// Bytes of all files, with these.
    appended: u64,
    number: u64,
    /// Bytes of the file, with these.
    len: u64,
    /// Up to where the file can grow, as space is set aside for it.
    reserved: u64,
    /// The length of the file from which on it is checked again whether the spare space is low.
    low_from: u64,
}

struct File {
    writer: Writer,
    number: u64,
    /// The files before it that there are, and their lengths.
    ended: Vec<(u64, u64)>,
}

impl Wal {
    /// Goes on behind the batches that were found. A torn end is cut.
    ///
    /// # Errors
    /// The error of a broken log, or of the disk.
    pub fn open(disk: &Disk, identity: Identity, found: Found) -> Result<Self> {
        let Found { numbers, lens, broken, .. } = found;
        if let Some(error) = broken {
            return Err(error);
        }
        let bytes = lens.iter().sum();
        let mut files: Vec<(u64, u64)> = numbers.into_iter().zip(lens).collect();
        let (number, mut writer) = match files.pop() {
            Some((last, len)) => (last, disk.append(&name_of(last), len)?),
            None => (1, disk.create(&name_of(1))?),
        };
        writer.sync()?;
        disk.sync()?;
        Ok(Self {
            disk: disk.clone(),
            seed: Seed::of_store(identity.store_id),
            pending: Mutex::new(Pending { number, len: writer.len(), ..Pending::default() }),
            file: Mutex::new(File { writer, number, ended: files }),
            synced: AtomicU64::new(0),
            bytes: AtomicU64::new(bytes),
            spare: disk.capacity().map_or(0, |bytes| (bytes / SPARE_PART).min(SPARE_MAX)),
            is_to_be_shorter: AtomicBool::new(false),
        })
    }

    /// The file that is appended to, and how long it is, when everything is durable.
    #[must_use]
    pub fn end(&self) -> (u64, u64) {
        let file = self.file.lock();
        (file.number, file.writer.len())
    }

    /// Bytes of its files, as far as they are written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM that hold batches which are not written yet.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        self.pending.lock().bytes.capacity() as u64
    }

    /// The number of the file that is appended to.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.pending.lock().number
    }

    /// The end of so many bytes behind all that were appended.
    #[must_use]
    pub fn end_behind(&self, bytes: u64) -> u64 {
        self.pending.lock().len + bytes
    }

    /// Whether the space that is set aside ends before `end`.
    #[must_use]
    pub fn lacks(&self, end: u64) -> bool {
        end > self.pending.lock().reserved
    }

    /// Bytes that are set aside for bookkeeping and removals, where the disk has them, so that these do not fail on a
    /// full disk.
    #[must_use]
    pub fn spare(&self) -> u64 {
        self.spare
    }

    /// Bytes of these that are missing.
    #[must_use]
    pub fn missing_spare(&self) -> u64 {
        let pending = self.pending.lock();
        (pending.len + self.spare).saturating_sub(pending.reserved)
    }

    /// Whether a quarter of these is used up, and more since this was asked the last time.
    #[must_use]
    pub fn is_spare_low(&self) -> bool {
        let mut pending = self.pending.lock();
        let missing = (pending.len + self.spare).saturating_sub(pending.reserved);
        let is_low = missing > self.spare / 4 && pending.len >= pending.low_from;
        if is_low {
            pending.low_from = pending.len + self.spare / 16;
        }
        is_low
    }

    /// Sets space aside up to an end.
    ///
    /// # Errors
    /// [`halite_disk::Error::NoSpace`]: nothing is changed, though the file may have got a part, which it gives back with
    /// the rest. Any other error of the disk.
    pub fn reserve(&self, end: u64) -> halite_disk::Result<()> {
        let mut file = self.file.lock();
        file.writer.reserve(end)?;
        let mut pending = self.pending.lock();
        pending.reserved = pending.reserved.max(end);
        Ok(())
    }

    /// Whether its writer has noted that the log is to be made shorter.
    #[must_use]
    pub fn is_to_be_shorter(&self) -> bool {
        self.is_to_be_shorter.load(Ordering::Relaxed)
    }

    /// Notes whether the log is to be made shorter, for the thread that does so.
    pub fn set_to_be_shorter(&self, is_to_be: bool) {
        self.is_to_be_shorter.store(is_to_be, Ordering::Relaxed);
    }

    /// Appends a batch, in its turn: the sequence of its first record, how many records it has, and the bytes that
    /// `payload` appends to what it is given. Returns up to where the log has to be durable for it.
    pub fn append(&self, sequence: u64, records: u32, payload: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let mut pending = self.pending.lock();
        let seed = self.seed.numbered(pending.number);
        let added = batch::put(&mut pending.bytes, seed, sequence, records, payload);
        pending.appended += added;
        pending.len += added;
        pending.appended
    }

    /// Makes everything durable up to an end that [`Wal::append`] returned. One sync, for all threads that wait.
    ///
    /// # Errors
    /// An error of the disk: how much of the log is durable is not known then, and nothing may be appended any more. So
    /// for [`Wal::sync`].
    pub fn sync_to(&self, end: u64) -> Result<()> {
        if self.synced.load(Ordering::Acquire) >= end {
            return Ok(());
        }
        let mut file = self.file.lock();
        if self.synced.load(Ordering::Acquire) >= end {
            return Ok(());
        }
        self.write_out(&mut file)
    }

    /// Makes everything durable that was appended.
    ///
    /// # Errors
    /// See [`Wal::sync_to`].
    pub fn sync(&self) -> Result<()> {
        let appended = self.pending.lock().appended;
        self.sync_to(appended)
    }

    fn write_out(&self, file: &mut File) -> Result<()> {
        let (bytes, appended) = {
            let mut pending = self.pending.lock();
            (std::mem::take(&mut pending.bytes), pending.appended)
        };
        file.writer.write(&bytes)?;
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        file.writer.sync()?;
        self.synced.store(appended, Ordering::Release);
        Ok(())
    }

    /// Goes on in a new file, in a turn, when everything before is durable ([`Wal::sync`]). Space that was set aside
    /// and not used is set aside for the new file.
    ///
    /// # Errors
    /// [`Error::NoFile`]: nothing is changed. Any other error of the disk.
    pub fn roll(&self) -> Result<()> {
        let mut file = self.file.lock();
        let (ended, number) = ((file.number, file.writer.len()), file.number + 1);
        let next = self.disk.create(&name_of(number));
        let next = next.map_err(|error| Error::NoFile(Arc::new(error)))?;
        self.disk.sync()?;
        file.writer.give_back()?;
        file.writer = next;
        let mut pending = self.pending.lock();
        let left = pending.reserved.saturating_sub(pending.len).min(self.spare);
        let reserved = if file.writer.reserve(left).is_ok() { left } else { 0 };
        file.ended.push(ended);
        file.number = number;
        (pending.number, pending.len) = (number, 0);
        (pending.reserved, pending.low_from) = (reserved, 0);
        Ok(())
    }

    /// Gives back the space that is set aside, as nothing more will be appended.
    ///
    /// # Errors
    /// An error of the disk.
    pub fn give_back(&self) -> Result<()> {
        Ok(self.file.lock().writer.give_back()?)
    }

    /// Removes the files before one that is needed. Returns how many are left.
    ///
    /// # Errors
    /// An error of the disk. The files that were not removed stay in the log.
    pub fn release(&self, first: u64) -> Result<usize> {
        let mut file = self.file.lock();
        // The oldest first: the files that an interrupted removal leaves have no gap.
        while let Some(&(number, len)) = file.ended.first().filter(|(number, _)| *number < first) {
            self.disk.remove(&name_of(number))?;
            self.disk.sync()?;
            file.ended.remove(0);
            self.bytes.fetch_sub(len, Ordering::Relaxed);
        }
        Ok(file.ended.len() + 1)
    }
}
