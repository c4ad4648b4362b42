//! The files that the log goes on in: they are there, and have their space, before they are needed.
//!
//! Such a file is new, or has served before: then it has taken a later number for its name, and its batches are none
//! of that number's. Its blocks are written, or are to be ([`Ready::prepare`]): a sync after a write over written
//! blocks is no commit of the file system's journal.

use std::collections::VecDeque;

use halite_disk::Disk;

use crate::Result;
use crate::error::no_file;
use crate::files::name_of;
use crate::segment::{self, PAGE};

/// Parts of a file's length to try where the disk has no room for all of it.
const PARTS: [u64; 4] = [1, 4, 16, 64];

pub(crate) struct Ready {
    disk: Disk,
    files: VecDeque<File>,
    /// The number of the last file of all.
    last: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct File {
    pub(crate) number: u64,
    pub(crate) len: u64,
    pub(crate) is_written: bool,
}

impl Ready {
    /// The files that were found behind the one of number `last`, by their lengths.
    pub(crate) fn new(disk: &Disk, last: u64, lens: &[u64]) -> Self {
        // Whether the blocks of a file are written is not known.
        let file = |(number, len): (u64, &u64)| File { number, len: *len, is_written: false };
        let files: VecDeque<_> = (last + 1..).zip(lens).map(file).collect();
        Self { disk: disk.clone(), last: last + files.len() as u64, files }
    }

    pub(crate) fn front(&self) -> Option<File> {
        self.files.front().copied()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// Takes the first file.
    pub(crate) fn pop(&mut self) -> Option<File> {
        self.files.pop_front()
    }

    /// Makes a file of `len` bytes, or fewer, where the disk does not have them, but `min` at the least.
    ///
    /// # Errors
    /// [`crate::Error::NoFile`]: nothing is changed. [`crate::Error::Disk`], if the name could not be made durable.
    pub(crate) fn make(&mut self, len: u64, min: u64) -> Result<()> {
        let number = self.last + 1;
        let file = segment::open(&self.disk, number, true).map_err(no_file)?;
        let mut made = Ok(());
        for part in PARTS {
            made = file.preallocate((len / part).max(min).next_multiple_of(PAGE));
            if !matches!(made, Err(halite_disk::Error::NoSpace { .. })) {
                break;
            }
        }
        if let Err(error) = made {
            let _ = self.disk.remove(&name_of(number));
            return Err(no_file(error));
        }
        self.disk.sync()?;
        self.last = number;
        self.files.push_back(File { number, len: file.len(), is_written: false });
        Ok(())
    }

    /// Makes the first file at least `len` bytes long.
    ///
    /// # Errors
    /// [`crate::Error::NoFile`]: nothing is changed.
    pub(crate) fn lengthen(&mut self, len: u64) -> Result<()> {
        let Some(front) = self.files.front_mut() else { return Ok(()) };
        let file = segment::open(&self.disk, front.number, false).map_err(no_file)?;
        file.preallocate(len.next_multiple_of(PAGE)).map_err(no_file)?;
        (front.len, front.is_written) = (file.len(), false);
        Ok(())
    }

    /// Writes zeros over the first file, if its blocks may not be written. If a write fails, the file serves as it is, at
    /// the price of slower syncs; a failed sync is an error, as every failed sync of a store is.
    ///
    /// # Errors
    /// That of the sync.
    pub(crate) fn prepare(&mut self) -> halite_disk::Result<()> {
        let Some(front) = self.files.front_mut().filter(|file| !file.is_written) else {
            return Ok(());
        };
        let written = segment::open(&self.disk, front.number, false)
            .and_then(|file| file.write_zeros(0..front.len).map(|()| file));
        let Ok(file) = written else { return Ok(()) };
        file.sync()?;
        front.is_written = true;
        Ok(())
    }

    /// Lets a file that is not needed any more serve again, under the next number.
    ///
    /// # Errors
    /// An error of the disk.
    pub(crate) fn recycle(&mut self, number: u64, len: u64) -> halite_disk::Result<()> {
        let next = self.last + 1;
        self.disk.rename(&name_of(number), &name_of(next))?;
        self.last = next;
        self.files.push_back(File { number: next, len, is_written: true });
        self.disk.sync()
    }

    /// Removes all of them, the last first: so there is no gap.
    ///
    /// # Errors
    /// An error of the disk. The files that were not removed stay.
    pub(crate) fn remove(&mut self) -> halite_disk::Result<()> {
        while let Some(file) = self.files.back() {
            self.disk.remove(&name_of(file.number))?;
            self.disk.sync()?;
            self.last = file.number - 1;
            self.files.pop_back();
        }
        Ok(())
    }
}
