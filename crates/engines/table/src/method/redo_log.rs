//! The redo log of methods that have their rows in volatile memory: what transactions changed, in files ([`halite_wal`]).
//!
//! ```text
//!  commit ──► append ──► memory ──► sync ──► LOG-000001, LOG-000002, ..
//!                                                │
//!                 opening: replay from a position ◄┘──► release: files that serve again
//! ```
//!
//! A batch of the log is a transaction, or a catalog (`record`), and takes one sequence number. A transaction is logged when
//! it commits, whole: nothing of one that has not ended is ever there, so that no log has anything to undo. A torn batch at
//! the end, of a crash, is cut.
//!
//! A client keeps its rows elsewhere in a form that has all batches before some [`Position`], and may have some behind it. It
//! notes that position and the log's end at the time, has the log synced before the form counts, and then releases what
//! is before the position. On opening, the log has to begin there, and to reach that end, or the one of the last close
//! (`closed.rs`).
//!
//! Costs: a batch is a copy in memory; a sync is one write and one sync, for all commits since the last. Going on in
//! the next file is another sync; a file is written first with the journal's help, and again without, when it serves once
//! more.

mod closed;
mod record;

use halite_disk::Disk;
use halite_sim::planted;
use halite_wal::{Found, HEADER, Identity, Known, Shape, Stopped, Wal};

pub(crate) use self::record::{Logged, LoggedChange, LoggedRow, catalog, transaction};
use crate::component::Component;
use crate::{Error, Result};

/// Batches beyond so many bytes do not wait for a sync in memory.
const BUFFER: u64 = 1 << 20;

/// The longest batch.
const BATCH_LEN_MAX: u64 = 2 << 30;

/// No batch has a greater number.
const SEQUENCE_MAX: u64 = 1 << 62;

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// The number of the batch that follows.
    pub(crate) sequence: u64,
    /// The file that was appended to.
    pub(crate) file: u64,
    /// Bytes there.
    pub(crate) len: u64,
}

/// The log, open.
pub(crate) struct RedoLog {
    wal: Wal,
    disk: Disk,
    store_id: u128,
    /// The end that is noted of the last close, or a later one.
    noted: Option<Position>,
    /// The number of the next batch.
    next: u64,
    /// Bytes of batches that were appended or replayed since the log was opened.
    passed: u64,
    /// Why commits are lost, and nothing is appended any more.
    lost: Option<Box<str>>,
}

impl RedoLog {
    /// Makes a log, in a folder in which none has been used.
    ///
    /// # Errors
    /// [`Error::Exists`]; those of the disk.
    pub(crate) fn create(disk: &Disk, store_id: u128, shape: Shape) -> Result<Self> {
        if disk.list()?.iter().any(|(name, len)| name.starts_with("LOG-") && *len > 0) {
            let name = disk.path().display().to_string().into();
            return Err(Error::Exists { what: "log", name });
        }
        halite_wal::remove(disk)?;
        let found = Found::read(disk, identity(store_id), Known::default(), |_| Ok(()));
        let wal = Wal::open(disk, identity(store_id), found.map_err(stopped)?, shape)?;
        Ok(Self { wal, disk: disk.clone(), store_id, noted: None, next: 1, passed: 0, lost: None })
    }

    /// Opens the log, and replays the batches from `from` on, by their numbers. It has to reach `to`.
    ///
    /// # Errors
    /// Those of `replay`; [`Error::Damaged`], [`Error::Log`]; those of the disk.
    pub(crate) fn open(
        disk: &Disk,
        store_id: u128,
        shape: Shape,
        (from, to): (Position, Position),
        mut replay: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Self> {
        let noted = closed::read(disk, store_id)?;
        let to = noted.filter(|noted| noted.sequence > to.sequence).unwrap_or(to);
        let mut passed = 0;
        let replay = |sequence, payload: &[u8]| {
            passed += (HEADER + payload.len()) as u64;
            replay(sequence, payload)
        };
        let (found, next) = read(disk, store_id, (from, to), replay)?;
        let wal = Wal::open(disk, identity(store_id), found, shape)?;
        Ok(Self { wal, disk: disk.clone(), store_id, noted, next, passed, lost: None })
    }

    /// Reads the log that is open, from `from` on, and changes nothing. All batches have to be durable.
    ///
    /// # Errors
    /// As [`RedoLog::open`].
    pub(crate) fn check_files(
        &self,
        disk: &Disk,
        store_id: u128,
        from: Position,
        replay: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (found, _) = read(disk, store_id, (from, self.position()), replay)?;
        let (broken, _) = found.repair(disk, str::to_owned, false)?;
        broken.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Refuses after a failure behind which commits may be lost.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn check(&self) -> Result<()> {
        match &self.lost {
            Some(why) => Err(Error::Lost { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Remembers a failure behind which nothing may be read or appended.
    pub(crate) fn failing<T>(&mut self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done {
            self.lost.get_or_insert_with(|| error.to_string().into());
        }
        done
    }

    /// The place behind all batches.
    pub(crate) fn position(&self) -> Position {
        let (file, len) = self.wal.end();
        Position { sequence: self.next, file, len }
    }

    /// Bytes of batches that were appended or replayed since the log was opened.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// Bytes of the files, with the space that is set aside in them.
    pub(crate) fn bytes(&self) -> u64 {
        self.wal.bytes()
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`]; those of the disk, also for lack of space. Nothing has changed then, unless
    /// [`RedoLog::check`] refuses.
    pub(crate) fn append(&mut self, batch: &[u8]) -> Result<()> {
        let _in = Component::Recovery.enter();
        self.check()?;
        let len = batch.len() as u64;
        if len > BATCH_LEN_MAX {
            return Err(Error::TransactionTooLarge { len, max: BATCH_LEN_MAX });
        }
        match self.make_room(len) {
            Err(error @ halite_wal::Error::NoFile(_)) => return Err(error.into()),
            made => self.failing(made.map_err(Error::from))?,
        }
        self.wal.append(self.next, 1, |to| to.extend_from_slice(batch));
        self.next += 1;
        self.passed += HEADER as u64 + len;
        Ok(())
    }

    fn make_room(&self, len: u64) -> halite_wal::Result<()> {
        if self.wal.buffer_bytes() > BUFFER {
            self.wal.hand_over()?;
        }
        if self.wal.lacks(len, 0) {
            self.wal.grow(len, 0)?;
        }
        self.wal.place(len)
    }

    /// Makes all batches durable.
    ///
    /// # Errors
    /// Those of the disk: nothing may be read or appended any more.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let _in = Component::Recovery.enter();
        self.check()?;
        let synced = planted!("table.log-not-synced", Ok(()), self.wal.sync());
        self.failing(synced.map_err(Error::from))
    }

    /// Makes all commits durable, and notes that the log goes to here. Without the note, an opening takes damage at the end
    /// for that of a crash.
    ///
    /// # Errors
    /// [`Error::Lost`]; those of the disk, behind which some commits may be lost like those of a crash.
    pub(crate) fn close(&mut self) -> Result<()> {
        planted!("table.log-noted-before-sync", Ok(()), self.sync())?;
        let end = self.position();
        if self.noted != Some(end) {
            closed::write(&self.disk, self.store_id, end)?;
            self.noted = Some(end);
        }
        Ok(())
    }

    /// Lets the files before a position serve again, or removes them.
    ///
    /// # Errors
    /// Those of the disk; files that were not released stay.
    pub(crate) fn release(&self, before: Position) -> Result<()> {
        Ok(self.wal.release(before.file, true)?)
    }
}

fn identity(store_id: u128) -> Identity {
    Identity { store_id, sequence_max: SEQUENCE_MAX }
}

/// Reads the batches from a position on. Returns the log, and the number of the batch that follows.
fn read(
    disk: &Disk,
    store_id: u128,
    (from, to): (Position, Position),
    mut replay: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<(Found, u64)> {
    let damaged = |why: String| Error::damaged("the log", why);
    let known = Known { first: from.file, resumed: 0, end: (to.file, to.len) };
    let mut next = from.sequence;
    let found = Found::read(disk, identity(store_id), known, |batch| {
        if batch.sequence < from.sequence {
            return Ok(());
        }
        if batch.sequence != next || batch.records != 1 {
            return Err(damaged(format!("batch {} follows, where {next} should", batch.sequence)));
        }
        replay(batch.sequence, batch.payload)?;
        next += 1;
        Ok(())
    });
    let found = found.map_err(stopped)?;
    // A log without batches has had none since its files were released.
    let end = if found.next() == 0 { from.sequence } else { found.next() };
    if end < to.sequence && !found.is_broken() {
        return Err(damaged(format!(
            "it ends before batch {end}, and {} was written",
            to.sequence - 1
        )));
    }
    Ok((found, next))
}

fn stopped(stopped: Stopped<Error>) -> Error {
    match stopped {
        Stopped::Log(error) => error.into(),
        Stopped::Replay(error) => error,
    }
}

#[cfg(test)]
mod tests;
