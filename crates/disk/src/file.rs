//! Reading a file, at any place.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::memory::Inode;
use crate::traffic::Counters;
use crate::{Error, Result, folder};

/// An open file, as long as it was when it was opened. It can be read when it has no name any more.
/// Cloning makes another handle.
#[derive(Clone)]
pub struct File(Arc<Inner>);

struct Inner {
    path: PathBuf,
    counters: Arc<Counters>,
    source: Source,
    len: u64,
}

enum Source {
    File(fs::File),
    Memory(Arc<Inode>),
}

impl File {
    pub(crate) fn of_file(
        path: PathBuf,
        counters: Arc<Counters>,
        file: fs::File,
        len: u64,
    ) -> Self {
        Self(Arc::new(Inner { path, counters, source: Source::File(file), len }))
    }

    pub(crate) fn of_memory(
        path: PathBuf,
        counters: Arc<Counters>,
        inode: Arc<Inode>,
        len: u64,
    ) -> Self {
        Self(Arc::new(Inner { path, counters, source: Source::Memory(inode), len }))
    }

    /// The name under which it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has the kernel read no more of it than it is asked for.
    pub fn expect_random_reads(&self) {
        if let Source::File(file) = &self.0.source {
            folder::expect_random_reads(file);
        }
    }

    /// Has the kernel begin to read bytes that will be asked for soon.
    pub fn expect_read(&self, at: u64, len: u64) {
        if let Source::File(file) = &self.0.source {
            folder::expect_read(file, at, len);
        }
    }

    /// Reads the bytes from `at` on, as many as `to` has.
    ///
    /// # Errors
    /// [`Error::Short`] if the file has not so many, and was perhaps cut since; [`Error::Io`]. What is in
    /// `to` is then worth nothing.
    pub fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        let Inner { path, counters, source, len: file_len } = &*self.0;
        let (len, file_len) = (to.len() as u64, *file_len);
        let short = |file_len| Error::Short { path: path.clone(), at, len, file_len };
        let end = at.checked_add(len).filter(|&end| end <= file_len);
        let end = end.ok_or_else(|| short(file_len))?;
        counters.read(to.len());
        match source {
            Source::File(file) => folder::read(file, path, at, to, file_len),
            Source::Memory(inode) => {
                let bytes = inode.bytes.read();
                let there = bytes.get(at as usize..end as usize);
                to.copy_from_slice(there.ok_or_else(|| short(bytes.len() as u64))?);
                Ok(())
            }
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("path", &self.0.path)
            .field("len", &self.0.len)
            .finish_non_exhaustive()
    }
}
