//! The files beside the pool that are certainly on the disk: bytes, lengths and names.
//!
//! Bytes have addresses beyond those of any pool, so that the rules for a pool's bytes (cells, versions, how to take a
//! change back) apply to theirs, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_disk::FileEvent;
use halite_pmem::LINE;

use crate::disk::{LINE_LEN, Line};

/// The first of the addresses of files.
const FILES: u64 = 1 << 62;

/// Between the beginnings of two files; a trace has no more bytes.
pub(crate) const SPAN: u64 = 1 << 32;

/// The first line of the files.
pub(crate) const FILES_LINE: u64 = FILES / LINE;

/// The address of a byte of a file.
pub(crate) fn address(file: u32, at: u64) -> u64 {
    FILES + u64::from(file) * SPAN + at
}

/// The file that has an address, and where in it, if one has.
pub(crate) fn place_in_file(address: u64) -> Option<(u32, u64)> {
    let at = address.checked_sub(FILES)?;
    Some(((at / SPAN) as u32, at % SPAN))
}

/// The files by name.
pub(crate) type Names = BTreeMap<Arc<str>, u32>;

/// The metadata of a folder: which file a name leads to, and how long files are.
#[derive(Clone, Default)]
pub(crate) struct Folder {
    pub(crate) names: Names,
    pub(crate) lens: BTreeMap<u32, u64>,
}

impl Folder {
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.lens.is_empty()
    }

    pub(crate) fn len(&self, file: u32) -> u64 {
        self.lens.get(&file).copied().unwrap_or(0)
    }

    /// The state in bytes, to tell it from others.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, file) in &self.names {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&file.to_le_bytes());
            bytes.extend_from_slice(&self.len(*file).to_le_bytes());
        }
        bytes
    }
}

/// Makes the change of a name.
pub(crate) fn rename(names: &mut Names, event: &FileEvent) {
    match event {
        FileEvent::Create { file, name } => drop(names.insert(Arc::clone(name), *file)),
        FileEvent::Rename { file, from, to } => {
            names.remove(from);
            names.insert(Arc::clone(to), *file);
        }
        FileEvent::Remove { name } => drop(names.remove(name)),
        _ => {}
    }
}

/// The names that an event changes.
pub(crate) fn renamed(event: &FileEvent) -> impl Iterator<Item = &Arc<str>> {
    let names = match event {
        FileEvent::Create { name, .. } | FileEvent::Remove { name } => [Some(name), None],
        FileEvent::Rename { from, to, .. } => [Some(from), Some(to)],
        _ => [None, None],
    };
    names.into_iter().flatten()
}

/// Bytes of files by their numbers: as many whole lines of each as were ever changed.
#[derive(Default)]
pub(crate) struct Bytes(Vec<Vec<u8>>);

impl Bytes {
    fn place(line: u64) -> (usize, usize) {
        let (file, at) = place_in_file(line * LINE).expect("the line is a file's");
        (file as usize, at as usize)
    }

    pub(crate) fn line(&self, line: u64) -> &Line {
        const NOTHING: Line = [0; LINE_LEN];
        let (file, at) = Self::place(line);
        let there = self.0.get(file).and_then(|bytes| bytes.get(at..at + LINE_LEN));
        there.map_or(&NOTHING, |line| line.as_array().expect("as long as a line"))
    }

    pub(crate) fn set_line(&mut self, line: u64, new: &Line) {
        let (file, at) = Self::place(line);
        if self.0.len() <= file {
            self.0.resize_with(file + 1, Vec::new);
        }
        let bytes = &mut self.0[file];
        if bytes.len() < at + LINE_LEN {
            bytes.resize(at + LINE_LEN, 0);
        }
        bytes[at..at + LINE_LEN].copy_from_slice(new);
    }

    /// The numbers of files that may have bytes that are not zero, and in how many.
    pub(crate) fn all(&self) -> Vec<(u32, u64)> {
        let files = (0..).zip(&self.0).filter(|(_, bytes)| !bytes.is_empty());
        files.map(|(file, bytes)| (file, bytes.len() as u64)).collect()
    }

    /// Forgets lines behind the first `len` bytes, which are zero.
    pub(crate) fn truncate(&mut self, file: u32, len: u64) {
        if let Some(bytes) = self.0.get_mut(file as usize) {
            bytes.truncate(len.next_multiple_of(LINE) as usize);
        }
    }

    /// The first `len` bytes of a file.
    pub(crate) fn of(&self, file: u32, len: u64) -> Vec<u8> {
        let mut bytes = self.0.get(file as usize).cloned().unwrap_or_default();
        bytes.resize(len as usize, 0);
        bytes
    }
}
