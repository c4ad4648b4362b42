//! The write-ahead log, where memtables are volatile (Yan's XS).
//!
//! A log is a sequence of files `LOG-<number>`, each of batches:
//!
//! ```text
//!  0  check     u64  xxh3 of all that follows, seeded with the store and the file's number
//!  8  sequence  u64  of the first record
//! 16  records   u32
//! 20  len       u32  bytes that follow
//! 24  for each fragment: tree u32, len u32, records as in a zone, numbered from zero
//! ```
//!
//! Batches are appended in their turns, to memory. A thread that needs one durable writes and syncs everything that
//! there is by then; others that come meanwhile wait, and find theirs synced, or sync the next lot: group commit.
//!
//! A new file is begun with each memtable, when everything before is synced. Files are removed when no memtable needs
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use halite_disk::{Disk, Writer};
use halite_sim::locks::Mutex;
use halite_sim::planted;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::encoded::{Encoded, Fragment};
use crate::failure::from_levels;
use crate::layout::Known;
use crate::levels::aside;
use crate::refusals::Purpose;
use crate::sst::{Error, Result, SEQUENCE_MAX};

/// Bytes before a batch's fragments.
const HEADER: usize = 24;

/// Bytes before a fragment's records.
const HEADER_OF_FRAGMENT: usize = 8;

/// Space that is set aside for bookkeeping and removals: a part of the device, and no more bytes than this.
const SPARE_PART: u64 = 64;
const SPARE_MAX: u64 = 4 << 20;

const PREFIX: &str = "LOG-";

/// The largest number that is taken for a file's: there is always another one behind it.
const NUMBER_MAX: u64 = 1 << 40;

/// The log of an open store.
pub(crate) struct Wal {
    disk: Disk,
    seed: u64,
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

/// A log that was read, and not cut yet.
pub(crate) struct Found {
    numbers: Vec<u64>,
    /// How much is whole of each file that was read.
    lens: Vec<u64>,
    /// The sequence behind the last batch; 0, if there is none.
    pub(crate) next: u64,
    /// The error behind that, where it cannot be the torn end of a crash.
    broken: Option<Error>,
}

/// A batch that was read.
pub(crate) struct Logged<'a> {
    pub(crate) sequence: u64,
    pub(crate) records: u32,
    fragments: &'a [u8],
}

impl<'a> Logged<'a> {
    /// The trees of the batch's fragments, and their records.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let mut rest = self.fragments;
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<8>()?;
            let half =
                |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
            let (records, behind) = behind.split_at_checked(half(4) as usize)?;
            rest = behind;
            Some((half(0) as usize, records))
        })
    }
}

impl Found {
    /// Reads the logged batches, in order, up to one that is torn or damaged. Changes nothing.
    pub(crate) fn read(
        disk: &Disk,
        store_id: u128,
        known: Known,
        mut replay: impl FnMut(&Logged<'_>) -> halite_contract::Result<()>,
    ) -> halite_contract::Result<Self> {
        let failed = |error: halite_disk::Error| from_levels(error.into());
        let numbers = numbers_of(disk).map_err(failed)?;
        if let Some(&last) = numbers.last().filter(|&&last| last > NUMBER_MAX) {
            let why = "its number is too large; move it away";
            return Err(from_levels(Error::damaged(&name_of(last), "name", why)));
        }
        let mut found = Self { numbers: numbers.clone(), lens: Vec::new(), next: 0, broken: None };
        if known.first > 0 && !numbers.contains(&known.first) {
            found.broken = Some(Error::Missing { file: name_of(known.first) });
        }
        for (at, &number) in numbers.iter().enumerate() {
            if at > 0 && numbers[at - 1] + 1 != number {
                let file = name_of(numbers[at - 1] + 1);
                found.broken.get_or_insert(Error::Missing { file });
                return Ok(found);
            }
            let name = name_of(number);
            let mut batches = Batches::of(disk.open(&name).map_err(failed)?);
            let mut why = None;
            while let Some(batch) = batches.first(seed_of(store_id) ^ number).map_err(failed)? {
                let next = found.next;
                let is_resumed = next < batch.sequence && batch.sequence <= known.resumed;
                if next > 0 && next != batch.sequence && !is_resumed {
                    why = Some(format!("batch {} follows, where {next} should", batch.sequence));
                    break;
                }
                found.next = batch.sequence + u64::from(batch.records);
                replay(&batch)?;
                let len = HEADER + batch.fragments.len();
                batches.at += len as u64;
            }
            let valid = batches.at;
            found.lens.push(valid);
            let (last, len) = known.end;
            if number == last && valid < len {
                why.get_or_insert(format!("{len} bytes were whole when the store was closed"));
            } else if valid < batches.file.len() && at + 1 < numbers.len() {
                why.get_or_insert("it is not whole, and there are later ones".into());
            }
            if let Some(why) = why {
                let error = Error::damaged(&name, format!("the batch at {valid}"), why);
                found.broken.get_or_insert(error);
                return Ok(found);
            }
        }
        if numbers.last().copied().unwrap_or(0) < known.end.0 {
            found.broken.get_or_insert(Error::Missing { file: name_of(known.end.0) });
        }
        Ok(found)
    }

    /// Whether it cannot be opened without a repair.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The last file that was read, by its place, and how much of it is whole.
    fn whole(&self) -> (usize, u64) {
        match self.lens.last() {
            Some(&len) => (self.lens.len() - 1, len),
            None => (0, 0),
        }
    }

    /// Sets aside the part that cannot be read, and everything behind it, or, unless `for_good`, finds what that
    /// would be. Returns the error of the lost part, and the names that files get. Nothing, if it is whole but for
    /// the torn end of a crash.
    pub(crate) fn repair(
        self,
        disk: &Disk,
        for_good: bool,
    ) -> Result<(Option<Error>, Vec<String>)> {
        let mut names = Vec::new();
        let (at, whole) = self.whole();
        let Some(error) = self.broken else { return Ok((None, names)) };
        let list = disk.list()?.into_iter().collect();
        // The last first: the files that an interrupted repair leaves are broken at the same place.
        for (place, &number) in self.numbers.iter().enumerate().skip(at).rev() {
            let name = name_of(number);
            let aside = aside(&list, &name);
            if place > at {
                names.push(aside.clone());
                if for_good {
                    disk.rename(&name, &aside)?;
                    disk.sync()?;
                }
                continue;
            }
            let file = disk.open(&name)?;
            if file.len() > whole {
                names.push(aside.clone());
                if for_good {
                    let mut copy = disk.create(&aside)?;
                    let mut bytes = Vec::new();
                    for from in (0..file.len()).step_by(WINDOW) {
                        bytes.resize((file.len() - from).min(WINDOW as u64) as usize, 0);
                        file.read_at(from, &mut bytes)?;
                        copy.write(&bytes)?;
                    }
                    copy.sync()?;
                    disk.sync()?;
                    disk.append(&name, whole)?.sync()?;
                }
            }
        }
        Ok((Some(error), names))
    }
}

fn seed_of(store_id: u128) -> u64 {
    xxh3_64_with_seed(&store_id.to_le_bytes(), 0)
}

impl Wal {
    /// Goes on behind the batches that were found. A torn end is cut.
    ///
    /// # Errors
    /// The error of a broken log, or of the disk.
    pub(crate) fn open(disk: &Disk, store_id: u128, found: Found) -> Result<Self> {
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
            seed: seed_of(store_id),
            pending: Mutex::new(Pending { number, len: writer.len(), ..Pending::default() }),
            file: Mutex::new(File { writer, number, ended: files }),
            synced: AtomicU64::new(0),
            bytes: AtomicU64::new(bytes),
            spare: disk.capacity().map_or(0, |bytes| (bytes / SPARE_PART).min(SPARE_MAX)),
            is_to_be_shorter: AtomicBool::new(false),
        })
    }

    /// The file that is appended to, and how long it is, when everything is durable.
    pub(crate) fn end(&self) -> (u64, u64) {
        let file = self.file.lock();
        (file.number, file.writer.len())
    }

    /// Bytes of its files, as far as they are written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM that hold batches which are not written yet.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.pending.lock().bytes.capacity() as u64
    }

    /// The number of the file that is appended to.
    pub(crate) fn number(&self) -> u64 {
        self.pending.lock().number
    }

    /// The end up to which the file has to have space set aside before a batch is granted its place, so that the
    /// batch does not fail for lack of it: puts leave some to bookkeeping, and both to removals.
    pub(crate) fn end_with(&self, encoded: &Encoded) -> u64 {
        let records = |fragment: &Fragment| HEADER_OF_FRAGMENT + fragment.unnumbered().len();
        let len = HEADER + encoded.fragments().iter().map(records).sum::<usize>();
        let left = match encoded.purpose {
            Purpose::Put => self.spare,
            Purpose::Bookkeeping => self.spare / 2,
            Purpose::Removal => 0,
        };
        self.end_behind(len as u64 + left)
    }

    /// The end of so many bytes behind all that were appended.
    pub(crate) fn end_behind(&self, bytes: u64) -> u64 {
        self.pending.lock().len + bytes
    }

    /// Whether the space that is set aside ends before `end`.
    pub(crate) fn lacks(&self, end: u64) -> bool {
        end > self.pending.lock().reserved
    }

    /// Bytes that are set aside for bookkeeping and removals, where the disk has them.
    pub(crate) fn spare(&self) -> u64 {
        self.spare
    }

    /// Bytes of these that are missing.
    pub(crate) fn missing_spare(&self) -> u64 {
        let pending = self.pending.lock();
        (pending.len + self.spare).saturating_sub(pending.reserved)
    }

    /// Whether a quarter of these is used up, and more since this was asked the last time.
    pub(crate) fn is_spare_low(&self) -> bool {
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
    pub(crate) fn reserve(&self, end: u64) -> halite_disk::Result<()> {
        let mut file = self.file.lock();
        file.writer.reserve(end)?;
        let mut pending = self.pending.lock();
        pending.reserved = pending.reserved.max(end);
        Ok(())
    }

    /// Whether it is to be made shorter.
    pub(crate) fn is_to_be_shorter(&self) -> bool {
        self.is_to_be_shorter.load(Ordering::Relaxed)
    }

    pub(crate) fn set_to_be_shorter(&self, is_to_be: bool) {
        self.is_to_be_shorter.store(is_to_be, Ordering::Relaxed);
    }

    /// Appends a batch, in its turn. Returns up to where the log has to be durable for it.
    pub(crate) fn append(&self, sequence: u64, encoded: &Encoded) -> u64 {
        let mut pending = self.pending.lock();
        let seed = self.seed ^ pending.number;
        let bytes = &mut pending.bytes;
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&sequence.to_le_bytes());
        bytes.extend_from_slice(&encoded.records().to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for fragment in encoded.fragments() {
            let records = fragment.unnumbered();
            bytes.extend_from_slice(&(fragment.tree as u32).to_le_bytes());
            bytes.extend_from_slice(&(records.len() as u32).to_le_bytes());
            bytes.extend_from_slice(records);
        }
        let len = (bytes.len() - start - HEADER) as u32;
        bytes[start + 20..start + HEADER].copy_from_slice(&len.to_le_bytes());
        let check = xxh3_64_with_seed(&bytes[start + 8..], seed);
        bytes[start..start + 8].copy_from_slice(&check.to_le_bytes());
        let added = (bytes.len() - start) as u64;
        pending.appended += added;
        pending.len += added;
        pending.appended
    }

    /// Makes everything durable up to an end that [`Wal::append`] returned. One sync, for all threads that wait.
    pub(crate) fn sync_to(&self, end: u64) -> Result<()> {
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
    pub(crate) fn sync(&self) -> Result<()> {
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
    /// [`halite_contract::Error::LogFull`], [`halite_contract::Error::LogFile`]: nothing is changed. Any
    /// other error of the disk.
    pub(crate) fn roll(&self) -> halite_contract::Result<()> {
        let mut file = self.file.lock();
        let (ended, number) = ((file.number, file.writer.len()), file.number + 1);
        let next = self.disk.create(&name_of(number)).map_err(no_file)?;
        let failed = |error: halite_disk::Error| from_levels(error.into());
        self.disk.sync().map_err(failed)?;
        file.writer.give_back().map_err(failed)?;
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
    pub(crate) fn give_back(&self) -> Result<()> {
        Ok(self.file.lock().writer.give_back()?)
    }

    /// Removes the files before one that is needed. Returns how many are left.
    pub(crate) fn release(&self, first: u64) -> Result<usize> {
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

/// Removes all files of a log.
pub(crate) fn remove(disk: &Disk) -> halite_disk::Result<()> {
    numbers_of(disk)?.into_iter().try_for_each(|number| disk.remove(&name_of(number)))
}

/// The error of a log that cannot grow.
pub(crate) fn no_room(error: halite_disk::Error) -> halite_contract::Error {
    match error {
        error @ halite_disk::Error::NoSpace { .. } => {
            halite_contract::Error::LogFull { reason: Arc::new(error) }
        }
        error => from_levels(error.into()),
    }
}

/// The error of a log that cannot go on in a new file.
fn no_file(error: halite_disk::Error) -> halite_contract::Error {
    use halite_disk::Error::{Failed, PowerCut};
    match error {
        error @ (Failed { .. } | PowerCut { .. } | halite_disk::Error::NoSpace { .. }) => {
            no_room(error)
        }
        // A file that could not be made is not there.
        error => halite_contract::Error::LogFile { reason: Arc::new(error) },
    }
}

/// Bytes of a file that are read at once, if a batch is not longer.
const WINDOW: usize = 1 << 20;

/// A file, of which batches are read one after the other.
struct Batches {
    file: halite_disk::File,
    /// Where the first one is that was not read.
    at: u64,
    /// Bytes of the file from `start` on.
    bytes: Vec<u8>,
    start: u64,
}

impl Batches {
    fn of(file: halite_disk::File) -> Self {
        Self { file, at: 0, bytes: Vec::new(), start: 0 }
    }

    /// The next so many bytes, if the file has them.
    fn next_bytes(&mut self, len: usize) -> halite_disk::Result<Option<&[u8]>> {
        let left = self.file.len() - self.at;
        if len as u64 > left {
            return Ok(None);
        }
        let end = self.start + self.bytes.len() as u64;
        if self.at + len as u64 > end {
            self.bytes.resize((len.max(WINDOW) as u64).min(left) as usize, 0);
            self.start = self.at;
            self.file.read_at(self.at, &mut self.bytes)?;
        }
        let from = (self.at - self.start) as usize;
        Ok(Some(&self.bytes[from..from + len]))
    }

    /// The first batch that was not read, if there is a whole one.
    fn first(&mut self, seed: u64) -> halite_disk::Result<Option<Logged<'_>>> {
        let Some(header) = self.next_bytes(HEADER)? else { return Ok(None) };
        let len = u32::from_le_bytes(header[20..].try_into().expect("4 bytes"));
        let bytes = self.next_bytes(HEADER + len as usize)?;
        Ok(bytes.and_then(|bytes| read(bytes, seed)))
    }
}

/// The batch at the start of `bytes`, if there is a whole one.
fn read(bytes: &[u8], seed: u64) -> Option<Logged<'_>> {
    let header = bytes.first_chunk::<HEADER>()?;
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let batch = bytes.get(..HEADER.checked_add(half(20) as usize)?)?;
    let is_whole = word(0) == xxh3_64_with_seed(&batch[8..], seed);
    let is_checked = planted!("lsm.torn-log-taken", true, is_whole);
    let last = word(8).checked_add(half(16).into());
    let is_sane = half(16) > 0 && last.is_some_and(|last| last <= SEQUENCE_MAX);
    (is_checked && is_sane).then_some(Logged {
        sequence: word(8),
        records: half(16),
        fragments: &batch[HEADER..],
    })
}

fn name_of(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// The numbers of the files that there are, ascending.
fn numbers_of(disk: &Disk) -> halite_disk::Result<Vec<u64>> {
    let names = disk.list()?;
    let number =
        |name: &str| name.strip_prefix(PREFIX)?.parse().ok().filter(|&n| name_of(n) == *name);
    let mut numbers: Vec<u64> = names.iter().filter_map(|(name, _)| number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
