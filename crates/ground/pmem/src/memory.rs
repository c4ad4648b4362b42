//! Memory without a file: a pool of which no byte survives the process.
//!
//! RStore(IM) of Lersch (§5.8.3) is the same store without persistent memory. A pool on [`Memory`] is that:
//! its bytes belong to the process; it has no file, folder or lock, no write-back and no wait. So it also
//! shows the costs of durability in the other domains.

use std::io;
use std::path::Path;

use crate::map::{Base, Mapping};
use crate::{Error, Result, file};
use halite_sim::{Call, Kernel};

/// Anonymous memory that grows in a reserved range, in large pages where the kernel has some.
pub(crate) struct Memory {
    mapping: Mapping,
    kernel: Kernel,
}

impl Memory {
    /// Memory of `len` bytes, all zero, that may grow to `capacity`.
    pub(crate) fn create(path: &Path, len: u64, capacity: u64, kernel: Kernel) -> Result<Self> {
        let mapping = kernel
            .ask_std(Call::Map, || Mapping::reserve(capacity))
            .map_err(|source| file::io_error(path, "reserve addresses for the pool", source))?;
        let memory = Self { mapping, kernel };
        memory.grow(path, 0, len)?;
        Ok(memory)
    }

    pub(crate) fn base(&self) -> Base {
        self.mapping.base()
    }

    /// Makes the memory longer, by zeros. The kernel may promise more memory than it has: it then ends
    /// processes that write to the memory, and no check here can detect that.
    pub(crate) fn grow(&self, path: &Path, old: u64, new: u64) -> Result<()> {
        let mapped = self.mapping.map_memory(&self.kernel, old, new);
        mapped.map_err(|source| match source.kind() {
            io::ErrorKind::OutOfMemory => {
                Error::NoSpace { path: path.to_owned(), bytes: new - old }
            }
            _ => file::io_error(path, "map memory for the pool", source),
        })
    }
}
