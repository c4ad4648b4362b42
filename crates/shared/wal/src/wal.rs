//! An open log: appending, room, and its files.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_disk::{Disk, PositionedFile};
use halite_sim::Site;
use halite_sim::locks::Mutex;
use halite_sync::Group;

use crate::Result;
use crate::batch::{self, HEADER};
use crate::error::no_file;
use crate::files::{name_of, seed_of};
use crate::found::{Files, Found, Identity};
use crate::ready::Ready;
use crate::room::{Need, Room, Step};
use crate::segment::{self, PAGE, Segment};

/// Space that is set aside for bookkeeping and removals: a part of the device, and no more bytes than this.
const SPARE_PART: u64 = 64;
const SPARE_MAX: u64 = 4 << 20;

/// Bytes of DRAM that are kept for the next group.
const KEPT: usize = 1 << 20;

/// The next file is prepared when this one has this part of its length.
const PREPARED_PART: u64 = 4;

/// The lengths of a log's files.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of each file, unless a batch is longer.
    pub file_bytes: u64,
    /// Bytes of files that are kept to serve again.
    pub kept_bytes: u64,
}

/// The log of an open store.
pub struct Wal {
    disk: Disk,
    store_id: u128,
    shape: Shape,
    /// Bytes that are set aside for bookkeeping and removals.
    spare: u64,
    group: Group,
    // Locks are taken in this order.
    ready: Mutex<Ready>,
    written: Mutex<Written>,
    /// The files before the one that is written, and their lengths.
    ended: Mutex<Vec<(u64, u64)>>,
    pending: Mutex<Pending>,
    /// Whether so much of the spare space was used that the log is to be made shorter.
    is_to_be_shorter: AtomicBool,
}

/// The file that is written, by one thread at a time.
struct Written {
    segment: Segment,
    /// Whether a write or a sync failed.
    has_failed: bool,
}

/// The batches that are not written yet, and the room for them.
struct Pending {
    bytes: Vec<u8>,
    /// Memory for the next group.
    emptied: Vec<u8>,
    /// Bytes that were appended in all, with these.
    appended: u64,
    /// The sequence behind all batches.
    next: u64,
    /// The file that they go to, of which another thread may be writing the part before.
    file: PositionedFile,
    number: u64,
    room: Room,
    preparation: Preparation,
    /// Bytes that are appended in all when it is checked again whether the spare space is low.
    low_from: u64,
}

/// Whether the next file is to be written with zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Preparation {
    /// It is written, or it was tried.
    None,
    /// When this file is partly full.
    Later,
    Due,
}

impl Wal {
    /// Goes on behind the batches that were found. A torn end is cut.
    ///
    /// # Errors
    /// The error of a broken log, or of the disk.
    pub fn open(disk: &Disk, identity: Identity, found: Found, shape: Shape) -> Result<Self> {
        let next = found.next();
        let Files { ended, number, len, ready } = found.into_files()?;
        let file_bytes = shape.file_bytes.next_multiple_of(PAGE);
        if let Some((last, bytes)) = ended.last().filter(|_| len == 0) {
            // The process may have been killed before the end of the file before was synced, or that sync failed: no batch
            // is to follow one that is not durable.
            disk.append(&name_of(*last), *bytes)?.sync()?;
        }
        let file = cut(disk, number, len)?;
        let segment = Segment::new(number, file.clone(), len)?;
        let room = Room { file_bytes, len, capacity: file.len(), ready: 0, front: None };
        let wal = Self {
            disk: disk.clone(),
            store_id: identity.store_id,
            shape: Shape { file_bytes, ..shape },
            spare: disk.capacity().map_or(0, |bytes| (bytes / SPARE_PART).min(SPARE_MAX)),
            group: Group::default(),
            ready: Mutex::new(Ready::new(disk, number, &ready)),
            written: Mutex::new(Written { segment, has_failed: false }),
            ended: Mutex::new(ended),
            pending: Mutex::new(Pending {
                bytes: Vec::new(),
                emptied: Vec::new(),
                appended: 0,
                next,
                file,
                number,
                room,
                preparation: Preparation::None,
                low_from: 0,
            }),
            is_to_be_shorter: AtomicBool::new(false),
        };
        let mut next_files = wal.ready.lock();
        // A crash took the length of one, or another program has changed it.
        if ready.iter().any(|len| *len == 0 || !len.is_multiple_of(PAGE)) {
            next_files.remove()?;
        }
        wal.note(&next_files);
        drop(next_files);
        Ok(wal)
    }

    /// Notes the files that the log goes on in.
    fn note(&self, ready: &Ready) {
        let (front, mut pending) = (ready.front(), self.pending.lock());
        pending.room.ready = ready.bytes();
        pending.room.front = front.map(|file| file.len);
        let is_written = front.is_some_and(|file| file.is_written);
        pending.preparation = if is_written { Preparation::None } else { Preparation::Later };
    }

    /// The file that is appended to, and how long it is, when everything is durable.
    #[must_use]
    pub fn end(&self) -> (u64, u64) {
        let pending = self.pending.lock();
        (pending.number, pending.room.len)
    }

    /// Bytes of its files, with the space that is set aside in them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_of(|pending| pending.room.capacity + pending.room.ready)
    }

    /// Bytes of the files that have batches.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.bytes_of(|pending| pending.room.len)
    }

    fn bytes_of(&self, of_pending: impl FnOnce(&Pending) -> u64) -> u64 {
        let ended = self.ended.lock();
        ended.iter().map(|(_, len)| len).sum::<u64>() + of_pending(&self.pending.lock())
    }

    /// Whether it is written past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.pending.lock().file.is_direct()
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

    /// Bytes that are set aside for bookkeeping and removals, where the disk has them, so that these do not fail on a
    /// full disk.
    #[must_use]
    pub fn spare(&self) -> u64 {
        self.spare
    }

    /// Bytes of these that are missing.
    #[must_use]
    pub fn missing_spare(&self) -> u64 {
        self.spare.saturating_sub(self.pending.lock().room.ready)
    }

    /// Whether a quarter of these is used up, and more since this was asked the last time.
    #[must_use]
    pub fn is_spare_low(&self) -> bool {
        let mut pending = self.pending.lock();
        let missing = self.spare.saturating_sub(pending.room.ready);
        let is_low = missing > self.spare / 4 && pending.appended >= pending.low_from;
        if is_low {
            pending.low_from = pending.appended + self.spare / 16;
        }
        is_low
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

    /// Whether a batch needs more space than the log has: that of a payload of `len` bytes, or none for 0, when the
    /// files that the log goes on in are to have `left` bytes after it.
    #[must_use]
    pub fn lacks(&self, len: u64, left: u64) -> bool {
        self.pending.lock().room.step(need(len, left), true).is_some()
    }

    /// Sets the space aside that [`Wal::lacks`] finds missing.
    ///
    /// # Errors
    /// [`crate::Error::NoFile`]: the log is as it was, though it may have got a part. [`crate::Error::Disk`], if a name
    /// could not be made durable.
    pub fn grow(&self, len: u64, left: u64) -> Result<()> {
        let mut ready = self.ready.lock();
        let mut grows = true;
        loop {
            let (room, file) = {
                let pending = self.pending.lock();
                (pending.room, pending.file.clone())
            };
            match room.step(need(len, left), grows) {
                None => return Ok(()),
                Some(Step::Grow { to, least }) => {
                    match lengthen(&file, room.capacity, [to, least]) {
                        // There may be room in the next file.
                        Err(halite_disk::Error::NoSpace { .. }) if grows && room.len > 0 => {
                            grows = false;
                        }
                        grown => self.pending.lock().room.capacity = grown.map_err(no_file)?,
                    }
                }
                Some(Step::Lengthen(len)) => ready.lengthen(len)?,
                Some(Step::Make { len, least }) => ready.make(len, least)?,
            }
            self.note(&ready);
        }
    }

    /// Goes on in the next file, in a turn, if a batch of a payload of `len` bytes has no room in this one.
    ///
    /// # Errors
    /// [`crate::Error::NoFile`]: nothing is changed. After any other error of the disk nothing may be appended any more.
    pub fn place(&self, len: u64) -> Result<()> {
        let fits = self.pending.lock().room.fits(need(len, 0).batch);
        if fits { Ok(()) } else { self.move_on() }
    }

    fn move_on(&self) -> Result<()> {
        let mut ready = self.ready.lock();
        let no_space = || halite_disk::Error::NoSpace { path: self.disk.path().to_owned() };
        let next = ready.front().ok_or_else(|| no_file(no_space()))?;
        let file = segment::open(&self.disk, next.number, false).map_err(no_file)?;
        let end = {
            let pending = &mut *self.pending.lock();
            let seed = seed_of(self.store_id, pending.number);
            let added = batch::put_end(&mut pending.bytes, seed, pending.next);
            pending.room.len += added;
            pending.appended += added;
            pending.appended
        };
        // So the next file has no batch while this one may not be whole.
        self.sync_to(end)?;
        let mut written = self.written.lock();
        written.segment.move_on(next.number, file.clone())?;
        ready.pop();
        let mut ended = self.ended.lock();
        {
            let pending = &mut *self.pending.lock();
            ended.push((pending.number, pending.room.capacity));
            (pending.number, pending.file) = (next.number, file);
            (pending.room.len, pending.room.capacity) = (0, next.len);
        }
        drop((ended, written));
        self.note(&ready);
        Ok(())
    }

    /// Whether it has just become due to prepare the next file ([`Wal::prepare`]), as this one is partly full.
    #[must_use]
    pub fn asks_to_prepare(&self) -> bool {
        let pending = &mut *self.pending.lock();
        let is_due = pending.preparation == Preparation::Later
            && pending.room.len >= self.shape.file_bytes / PREPARED_PART;
        if is_due {
            pending.preparation = Preparation::Due;
        }
        is_due
    }

    /// Whether it is due to prepare the next file.
    #[must_use]
    pub fn must_prepare(&self) -> bool {
        self.pending.lock().preparation == Preparation::Due
    }

    /// Writes zeros over the next file, if there is one, away from the commits, so that these write over written
    /// blocks. It is not tried again.
    ///
    /// # Errors
    /// That of a sync. The log is as it was.
    pub fn prepare(&self) -> Result<()> {
        let mut ready = self.ready.lock();
        let prepared = ready.prepare();
        self.note(&ready);
        self.pending.lock().preparation = Preparation::None;
        Ok(prepared?)
    }

    /// Appends a batch, in its turn and in its place ([`Wal::place`]): the sequence of its first record, how many
    /// records it has, and the bytes that `payload` appends to what it is given. Returns up to where the log has to
    /// be durable for it.
    pub fn append(&self, sequence: u64, records: u32, payload: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let pending = &mut *self.pending.lock();
        let seed = seed_of(self.store_id, pending.number);
        let added = batch::put(&mut pending.bytes, seed, sequence, records, payload);
        pending.room.len += added;
        debug_assert!(pending.room.fits(0), "the batch was given its place");
        pending.next = sequence + u64::from(records);
        pending.appended += added;
        pending.appended
    }

    /// Makes everything durable up to an end that [`Wal::append`] returned. One sync, for all threads that wait.
    ///
    /// # Errors
    /// An error of the disk: how much of the log is durable is not known then, and nothing may be appended any more.
    /// So for [`Wal::sync`].
    #[track_caller]
    pub fn sync_to(&self, end: u64) -> Result<()> {
        let site = Location::caller();
        let take = || ((), self.pending.lock().appended);
        self.group.commit(end, take, |()| self.write(Some(site)))
    }

    /// Whether it is durable up to an end that [`Wal::append`] returned.
    #[must_use]
    pub fn is_synced(&self, end: u64) -> bool {
        self.group.is_synced(end)
    }

    /// Gives everything that was appended to the operating system, so that the end of the process does not take it: no
    /// sync.
    ///
    /// # Errors
    /// See [`Wal::sync_to`].
    pub fn hand_over(&self) -> Result<()> {
        let has_none = self.pending.lock().bytes.is_empty();
        if has_none { Ok(()) } else { self.write(None) }
    }

    /// Makes everything durable that was appended.
    ///
    /// # Errors
    /// See [`Wal::sync_to`].
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        let appended = self.pending.lock().appended;
        self.sync_to(appended)
    }

    /// Writes everything that was appended, in order, and syncs the file if a place in the code asks for that.
    fn write(&self, sync: Option<Site>) -> Result<()> {
        let Written { segment, has_failed } = &mut *self.written.lock();
        if *has_failed {
            let path = segment.file.path().to_owned();
            return Err(halite_disk::Error::Failed { path }.into());
        }
        let mut group = {
            let pending = &mut *self.pending.lock();
            let emptied = std::mem::take(&mut pending.emptied);
            std::mem::replace(&mut pending.bytes, emptied)
        };
        let written = segment.write(&group);
        let sync = |()| sync.map_or(Ok(()), |site| segment.file.sync_for(site));
        let synced = written.and_then(sync);
        *has_failed = synced.is_err();
        group.clear();
        if group.capacity() <= KEPT {
            self.pending.lock().emptied = group;
        }
        Ok(synced?)
    }

    /// Removes the files before one that is needed, or, as far as it `keeps` them, lets them serve again: removed files
    /// give their space back to the disk.
    ///
    /// # Errors
    /// An error of the disk. The files that were not removed stay in the log.
    pub fn release(&self, first: u64, keeps: bool) -> Result<()> {
        loop {
            let mut ready = self.ready.lock();
            // The oldest first: the files that an interrupted removal leaves have no gap.
            let oldest = self.ended.lock().first().copied();
            let Some((number, len)) = oldest.filter(|(number, _)| *number < first) else {
                return Ok(());
            };
            let is_kept = keeps && ready.bytes() + len <= self.shape.kept_bytes;
            if is_kept && len >= self.shape.file_bytes {
                ready.recycle(number, len)?;
            } else {
                self.disk.remove(&name_of(number))?;
                self.disk.sync()?;
            }
            self.ended.lock().remove(0);
            self.note(&ready);
        }
    }

    /// Makes everything durable, and gives the space back that is set aside, as nothing more will be appended. Returns
    /// the last file, and how long it is.
    ///
    /// # Errors
    /// An error of the disk.
    pub fn close(&self) -> Result<(u64, u64)> {
        self.sync()?;
        let mut ready = self.ready.lock();
        ready.remove()?;
        self.note(&ready);
        let (number, len) = self.end();
        self.disk.append(&name_of(number), len)?.sync()?;
        Ok((number, len))
    }
}

/// The need for a batch of a payload of so many bytes, or for none.
fn need(len: u64, left: u64) -> Need {
    Need { batch: if len > 0 { len + HEADER as u64 } else { 0 }, left }
}

/// Opens the last file with its first `len` bytes alone, which are durable then: behind them may be a torn batch, and
/// whole ones behind that.
fn cut(disk: &Disk, number: u64, len: u64) -> halite_disk::Result<PositionedFile> {
    let name = name_of(number);
    let is_there = disk.list()?.iter().any(|(there, _)| *there == name);
    let mut writer = if is_there { disk.append(&name, len)? } else { disk.create(&name)? };
    writer.write(&vec![0; (len.next_multiple_of(PAGE) - len) as usize])?;
    writer.sync()?;
    drop(writer);
    disk.sync()?;
    let file = segment::open(disk, number, false)?;
    if !file.is_direct() {
        // A killed process may have left bytes in the page cache that the kernel failed to write.
        file.rewrite(0..file.len())?;
        file.sync()?;
    }
    Ok(file)
}

/// Gives a file the first of two lengths for which there is room, with written blocks. Returns it.
fn lengthen(file: &PositionedFile, from: u64, lens: [u64; 2]) -> halite_disk::Result<u64> {
    let grow = |to| file.preallocate(to).and_then(|()| file.write_zeros(from..to)).map(|()| to);
    match grow(lens[0]) {
        Err(halite_disk::Error::NoSpace { .. }) => grow(lens[1]),
        grown => grown,
    }
}
