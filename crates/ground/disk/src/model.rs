//! A modelled disk: files in memory, of a modelled machine, that record how they came about.
//!
//! Each event of the files is an event of the [`Machine`]'s trace, [`What::Disk`], among those of a pool:
//! so one moment cuts the power of both, and all events have one order. The event's number leads to a
//! [`FileEvent`]; the bytes that it wrote, if any, are in the trace. A sync is left out
//! ([`Machine::disregard`]) or fails ([`Machine::fail_sync_after`]) as one of the pool does.
//!
//! From the events `halite-lab` derives the files that a power cut may leave: of what no completed sync has covered,
//! each sector of 512 bytes old, new or torn, in any order; any length between the old and the new; preallocated space
//! of zeros. A sync that failed leaves the same choice for good. The files are put back with [`DiskModel::restore`], and
//! a store opens on them as on a folder.
//!
//! A lack of space shows at preallocation, at a write behind the end, and at one into a hole ([`DiskModel::limit`]); it
//! changes nothing.
//!
//! [`What::Disk`]: halite_sim::What::Disk

use std::sync::Arc;

use halite_sim::Machine;

use crate::memory::MemoryFiles;

/// An event of modelled files. A file has a number, which outlives its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// An empty file got a name.
    Create {
        /// The file.
        file: u32,
        /// Its name.
        name: Arc<str>,
    },
    /// Bytes were written, which may have made the file longer.
    Write {
        /// The file.
        file: u32,
        /// Where the bytes begin.
        at: u64,
    },
    /// A file was made longer, with space for the new bytes, which are zero.
    Preallocate {
        /// The file.
        file: u32,
        /// The new length in bytes.
        len: u64,
    },
    /// A file was cut. The bytes of the event are as many zeros as were cut off.
    Cut {
        /// The file.
        file: u32,
        /// The new length in bytes.
        len: u64,
    },
    /// The kernel made a file's bytes and length durable.
    Sync {
        /// The file.
        file: u32,
    },
    /// The kernel failed to do so, and marks the file's pages clean: any part of them may be durable, and
    /// later syncs do not make the rest durable.
    SyncFailed {
        /// The file.
        file: u32,
    },
    /// A file got another name in one step, and the file that had it lost it.
    Rename {
        /// The file.
        file: u32,
        /// The name that it had.
        from: Arc<str>,
        /// The name that it has.
        to: Arc<str>,
    },
    /// A file lost its name.
    Remove {
        /// The name.
        name: Arc<str>,
    },
    /// The kernel made all names in a folder durable.
    SyncFolder {
        /// The beginning of these names: nothing, or the name of a [`Disk::subfolder`](crate::Disk::subfolder) and `/`.
        folder: Arc<str>,
    },
    /// The kernel failed to do so: no name is more certain than before.
    SyncFolderFailed,
}

impl FileEvent {
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::SyncFolder { .. })
    }

    /// The event that is recorded if this one fails.
    pub(crate) fn failed(self) -> Self {
        match self {
            Self::Sync { file } => Self::SyncFailed { file },
            Self::SyncFolder { .. } => Self::SyncFolderFailed,
            other => other,
        }
    }
}

/// The files that share a machine's power. Cloning makes another handle.
#[derive(Clone)]
pub struct DiskModel {
    pub(crate) machine: Machine,
    pub(crate) files: Arc<MemoryFiles>,
}

impl DiskModel {
    /// The files of a machine: always the same ones, none to begin with.
    ///
    /// # Panics
    /// If another crate has asked for the machine's files.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        Self { machine: machine.clone(), files: machine.files() }
    }

    /// An event, by the number in the machine's trace.
    #[must_use]
    pub fn event(&self, number: u32) -> Option<FileEvent> {
        self.files.event(number)
    }

    /// Forgets the events, whose numbers begin at 0 again. No trace that names them may be read any more.
    pub fn forget_events(&self) {
        self.files.forget_events();
    }

    /// Limits the bytes that the files may have together, holes left out: a write to more of them, or setting space
    /// aside for them, is [`Error::NoSpace`]. `None`: any number.
    ///
    /// [`Error::NoSpace`]: crate::Error::NoSpace
    pub fn limit(&self, bytes: Option<u64>) {
        self.files.set_limit(bytes.unwrap_or(u64::MAX));
    }

    /// Replaces the files by other ones, without a record in the trace: number, name and bytes. New files
    /// get higher numbers.
    pub fn restore(&self, files: impl IntoIterator<Item = (u32, Arc<str>, Vec<u8>)>) {
        self.files.restore(files.into_iter());
    }
}

impl std::fmt::Debug for DiskModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskModel").field("machine", &self.machine).finish_non_exhaustive()
    }
}
