//! A log as it is found when a store opens: its batches are read, and nothing is changed yet.

use halite_codec::Seed;
use halite_disk::Disk;

use crate::batch::{self, HEADER, Logged};
use crate::files::{name_of, numbers_of, seed_of};
use crate::{Error, Result};

/// The largest number that is taken for a file's: there is always another one behind it.
const NUMBER_MAX: u64 = 1 << 40;

/// Which log it is.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The id of the store.
    pub store_id: u128,
    /// No record of the store has a larger sequence: batches that say so are damaged.
    pub sequence_max: u64,
}

/// The knowledge that a store has of its log, at the least.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// The first file that is needed; 0: nothing is known.
    pub first: u64,
    /// The sequence up to which batches may be missing, as a repair left a hole before it.
    pub resumed: u64,
    /// The file, and how long it was, when the store was closed.
    pub end: (u64, u64),
}

/// Why a log was not read to its end.
#[derive(Debug)]
pub enum Stopped<E> {
    /// An error of the log.
    Log(Error),
    /// The error of the caller, who replays the batches.
    Replay(E),
}

impl<E> From<halite_disk::Error> for Stopped<E> {
    fn from(error: halite_disk::Error) -> Self {
        Self::Log(error.into())
    }
}

/// A log that was read, and not cut yet.
pub struct Found {
    pub(crate) numbers: Vec<u64>,
    /// The files that were read.
    read: Vec<Read>,
    /// The lengths of the files behind the last one that has batches.
    ready: Vec<u64>,
    next: u64,
    /// The error behind the last batch, where it cannot be the torn end of a crash.
    broken: Option<Error>,
}

/// A file that was read.
struct Read {
    len: u64,
    /// Bytes that are whole.
    whole: u64,
    /// Whether the end of the file is among these: the log goes on in the next one.
    is_ended: bool,
}

/// The files of a log that goes on.
pub(crate) struct Files {
    /// The files that were ended, and their lengths.
    pub(crate) ended: Vec<(u64, u64)>,
    /// The file that the log goes on in, which may have to be made, and the bytes of its batches.
    pub(crate) number: u64,
    pub(crate) len: u64,
    /// The lengths of the files behind it.
    pub(crate) ready: Vec<u64>,
}

impl Found {
    /// Reads the logged batches, in order, up to one that is torn or damaged. Changes nothing.
    ///
    /// # Errors
    /// The error of `replay`; [`Error::Damaged`] of a file that could have none behind it; an error of the disk. A log
    /// that is damaged or lacks a file is found all the same, up to there: it does not open
    /// ([`Wal::open`](crate::Wal::open)).
    pub fn read<E>(
        disk: &Disk,
        identity: Identity,
        known: Known,
        mut replay: impl FnMut(&Logged<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, Stopped<E>> {
        let Identity { store_id, sequence_max } = identity;
        let numbers = numbers_of(disk)?;
        if let Some(&last) = numbers.last().filter(|&&last| last > NUMBER_MAX) {
            let why = "its number is too large; move it away";
            return Err(Stopped::Log(Error::damaged(&name_of(last), "name", why)));
        }
        let (read, ready) = (Vec::new(), Vec::new());
        let mut found = Self { numbers: numbers.clone(), read, ready, next: 0, broken: None };
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
            let mut batches = Batches::of(disk.open(&name)?);
            let (mut broken, mut is_ended) = (None, false);
            let seed = seed_of(store_id, number);
            // Behind a file that goes on, there are those that the log is to go on in.
            if let Some(before) = found.read.last().filter(|read| !read.is_ended) {
                if batches.first(seed, sequence_max)?.is_none() {
                    found.ready.push(batches.file.len());
                    continue;
                }
                let what = format!("the batch at {}", before.whole);
                let why = "it is not whole, and there are later ones";
                let error =
                    Error::damaged(&name_of(number - 1 - found.ready.len() as u64), what, why);
                found.broken.get_or_insert(error);
                return Ok(found);
            }
            while let Some(batch) = batches.first(seed, sequence_max)? {
                let next = found.next;
                let is_resumed = next < batch.sequence && batch.sequence <= known.resumed;
                if next > 0 && next != batch.sequence && !is_resumed {
                    let follows = format!("batch {} follows, where {next} should", batch.sequence);
                    broken = Some(match found.read.last().filter(|_| batches.at == 0) {
                        // The end of the file before is gone.
                        Some(before) => {
                            let what = format!("the batch at {}", before.whole);
                            let why = format!("it is missing: in {name} {follows}");
                            Error::damaged(&name_of(number - 1), what, why)
                        }
                        None => {
                            Error::damaged(&name, format!("the batch at {}", batches.at), follows)
                        }
                    });
                    break;
                }
                found.next = batch.sequence + u64::from(batch.records);
                let len = batch.len();
                is_ended = batch.records == 0;
                if !is_ended {
                    replay(&batch).map_err(Stopped::Replay)?;
                }
                batches.at += len;
                if is_ended {
                    break;
                }
            }
            let (whole, len) = (batches.at, batches.file.len());
            // Files of earlier versions have no end, and nothing behind their batches.
            is_ended |= whole == len && at + 1 < numbers.len() && broken.is_none();
            found.read.push(Read { len, whole, is_ended });
            let (last, known_len) = known.end;
            if number == last && whole < known_len {
                let what = format!("the batch at {whole}");
                let why = format!("{known_len} bytes were whole when the store was closed");
                broken.get_or_insert_with(|| Error::damaged(&name, what, why));
            }
            if let Some(error) = broken {
                found.broken.get_or_insert(error);
                return Ok(found);
            }
        }
        if numbers.last().copied().unwrap_or(0) < known.end.0 {
            found.broken.get_or_insert(Error::Missing { file: name_of(known.end.0) });
        }
        Ok(found)
    }

    /// The files, to go on with.
    ///
    /// # Errors
    /// The error of a broken log.
    pub(crate) fn into_files(self) -> Result<Files> {
        let Self { numbers, read, mut ready, broken, .. } = self;
        if let Some(error) = broken {
            return Err(error);
        }
        let mut ended: Vec<_> = numbers.into_iter().zip(read).collect();
        let goes_on = ended.pop_if(|(_, read)| !read.is_ended);
        let last = ended.last().map_or(0, |(number, _)| *number);
        let ended = ended.into_iter().map(|(number, read)| (number, read.len)).collect();
        let (number, len) = match goes_on {
            Some((number, read)) => (number, read.whole),
            None => {
                // The first of the next files, or a new one.
                ready.drain(..ready.len().min(1));
                (last + 1, 0)
            }
        };
        Ok(Files { ended, number, len, ready })
    }

    /// The sequence behind the last batch; 0, if there is none.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether it cannot be opened without a repair.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The last file that was read, by its place, and how much of it is whole.
    fn whole(&self) -> (usize, u64) {
        match self.read.last() {
            Some(read) => (self.read.len() - 1, read.whole),
            None => (0, 0),
        }
    }

    /// Sets aside the part that cannot be read, and everything behind it, or, unless `for_good`, finds what that
    /// would be. Returns the error of the lost part, and the names that files get, for which `aside` is asked by their
    /// own. Nothing, if it is whole but for the torn end of a crash.
    ///
    /// # Errors
    /// An error of the disk: a repair that is repeated goes on where this one stopped.
    pub fn repair(
        self,
        disk: &Disk,
        aside: impl Fn(&str) -> String,
        for_good: bool,
    ) -> Result<(Option<Error>, Vec<String>)> {
        let mut names = Vec::new();
        let (at, whole) = self.whole();
        let Some(error) = self.broken else { return Ok((None, names)) };
        // The last first: the files that an interrupted repair leaves are broken at the same place.
        for (place, &number) in self.numbers.iter().enumerate().skip(at).rev() {
            let name = name_of(number);
            let aside = aside(&name);
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
    fn first(&mut self, seed: Seed, sequence_max: u64) -> halite_disk::Result<Option<Logged<'_>>> {
        let Some(header) = self.next_bytes(HEADER)? else { return Ok(None) };
        let len = batch::len(header);
        let bytes = self.next_bytes(len)?;
        Ok(bytes.and_then(|bytes| batch::read(bytes, seed, sequence_max)))
    }
}
