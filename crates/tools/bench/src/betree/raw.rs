//! A file of a medium, written and read in sequence without any store: the limit of what a store can do there.
//!
//! On a disk the file is written and read past the page cache, where the file system allows that. In memory the pages
//! of a file are made when they are written first, for this file as for those of stores.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::{Error, Result};

/// Bytes at a multiple of which direct reads and writes begin.
const ALIGNMENT: usize = 4096;

/// Memory that direct reads and writes take.
pub(super) struct Aligned {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    pub(super) fn new(len: usize) -> Self {
        let bytes = vec![7; len + ALIGNMENT];
        let from = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { bytes, from, len }
    }

    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.len]
    }

    pub(super) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}

/// A file that is read and written at any place.
pub(super) struct RawFile {
    file: File,
    is_direct: bool,
}

impl RawFile {
    /// Makes a file, past the page cache if the file system can do that.
    pub(super) fn create(path: &Path) -> Result<Self> {
        match options().custom_flags(OFlags::DIRECT.bits() as i32).open(path) {
            Ok(file) => Ok(Self { file, is_direct: true }),
            Err(_) => Self::create_buffered(path),
        }
    }

    /// Makes a file that is written and read through the page cache.
    pub(super) fn create_buffered(path: &Path) -> Result<Self> {
        let file = options().open(path).map_err(failed("create its file"))?;
        Ok(Self { file, is_direct: false })
    }

    /// How it is written and read.
    pub(super) fn access(&self) -> &'static str {
        if self.is_direct { "O_DIRECT" } else { "through the page cache" }
    }

    pub(super) fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(failed("write"))
    }

    pub(super) fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(to, at).map_err(failed("read"))
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(failed("sync"))
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    options
}

fn failed(action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::of_store("the medium", action)(error.into())
}
