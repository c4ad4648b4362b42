//! The certain state of the medium and of the files beside it, and how to put them into another state and back.
//!
//! Pools are not copied here. A change of the durable bytes is a few lines, remembered so that it can be taken back;
//! the live memory of the [`Medium`] is brought up to date line by line, before a store opens on it. Files, if there
//! are any, are written anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use halite_disk::{DiskModel, FileEvent};
use halite_pmem::{LINE, Medium, ModelFile};
use halite_sim::{Trace, What};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::files::{self, Bytes, FILES_LINE, Folder};

pub(crate) const LINE_LEN: usize = LINE as usize;

pub(crate) type Line = [u8; LINE_LEN];

/// The durable bytes, and the medium on which stores open.
pub(crate) struct Disk {
    pub(crate) medium: Medium,
    pub(crate) model: DiskModel,
    bytes: Vec<u8>,
    pub(crate) file: ModelFile,
    file_bytes: Bytes,
    pub(crate) folder: Folder,
    /// A sum over all lines that are not zero: two disks with one sum have the same bytes.
    sum: u64,
    undo: Vec<(u64, Line)>,
    /// Lines in which the medium may differ from the durable bytes.
    stale: Vec<u64>,
    /// Whether the modelled files may differ.
    files_are_stale: bool,
}

/// A state to go back to.
pub(crate) struct Moment {
    undo_len: usize,
    file: ModelFile,
    folder: Folder,
}

impl Disk {
    /// The disk of a medium to which no store was ever made.
    pub(crate) fn new(medium: Medium) -> Self {
        let bytes = vec![0; medium.capacity() as usize];
        let (file, model) = (medium.file(), DiskModel::of(medium.machine()));
        Self {
            medium,
            model,
            bytes,
            file,
            file_bytes: Bytes::default(),
            folder: Folder::default(),
            sum: 0,
            undo: Vec::new(),
            stale: Vec::new(),
            files_are_stale: false,
        }
    }

    pub(crate) fn line(&self, line: u64) -> &Line {
        if line >= FILES_LINE {
            return self.file_bytes.line(line);
        }
        let start = line as usize * LINE_LEN;
        self.bytes[start..start + LINE_LEN].as_array().expect("as long as a line")
    }

    /// Identifies the state: bytes, lengths, names, and the count of failures.
    pub(crate) fn identity(&self) -> u64 {
        let ModelFile { named, len, unsafe_shutdowns } = self.file;
        let shutdowns = unsafe_shutdowns.map_or(0, |count| count + 1);
        let mut file = [0; 24];
        file[..8].copy_from_slice(&len.to_le_bytes());
        file[8..16].copy_from_slice(&shutdowns.to_le_bytes());
        file[16] = named.into();
        let folder = match self.folder.is_empty() {
            true => 0,
            false => xxh3_64_with_seed(&self.folder.to_bytes(), 1),
        };
        self.sum ^ xxh3_64_with_seed(&file, 0) ^ folder
    }

    /// Makes bytes durable.
    pub(crate) fn change(&mut self, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (line, start) = (at / LINE, (at % LINE) as usize);
            let (part, rest) = bytes.split_at(bytes.len().min(LINE_LEN - start));
            let mut new = *self.line(line);
            new[start..start + part.len()].copy_from_slice(part);
            self.change_line(line, &new);
            (at, bytes) = (at + part.len() as u64, rest);
        }
    }

    pub(crate) fn change_line(&mut self, line: u64, new: &Line) {
        let old = *self.line(line);
        if old != *new {
            self.undo.push((line, old));
            self.set_line(line, &old, new);
        }
    }

    fn set_line(&mut self, line: u64, old: &Line, new: &Line) {
        self.sum = self.sum.wrapping_sub(sum_of(line, old)).wrapping_add(sum_of(line, new));
        if line >= FILES_LINE {
            self.file_bytes.set_line(line, new);
            self.files_are_stale = true;
            return;
        }
        let start = line as usize * LINE_LEN;
        self.bytes[start..start + LINE_LEN].copy_from_slice(new);
        self.stale.push(line);
    }

    /// Makes all bytes of the pool zero.
    pub(crate) fn clear_pool(&mut self) {
        // Every line that is not zero was changed once.
        let mut lines: Vec<_> = self.undo.iter().map(|(line, _)| *line).collect();
        lines.retain(|line| *line < FILES_LINE);
        lines.sort_unstable();
        lines.dedup();
        lines.into_iter().for_each(|line| self.change_line(line, &[0; LINE_LEN]));
    }

    /// Reduces the files to those that a folder has names for, with the lengths that it has for them.
    pub(crate) fn set_folder(&mut self, folder: Folder) {
        let named = folder.names.values().copied().collect();
        self.set_reachable(folder, &named);
    }

    /// The same for the files that have a name, or may get one that is not durable yet.
    pub(crate) fn set_reachable(&mut self, mut folder: Folder, named: &BTreeSet<u32>) {
        folder.lens.retain(|file, _| named.contains(file));
        for (file, there) in self.file_bytes.all() {
            let len = folder.len(file);
            if len < there {
                self.zero(files::address(file, len), files::address(file, there));
                self.file_bytes.truncate(file, len);
            }
        }
        self.put_folder(folder);
    }

    fn put_folder(&mut self, folder: Folder) {
        self.files_are_stale |= !self.folder.is_empty() || !folder.is_empty();
        self.folder = folder;
    }

    fn zero(&mut self, from: u64, to: u64) {
        for line in from / LINE..to.div_ceil(LINE) {
            let mut left = *self.line(line);
            left[from.saturating_sub(line * LINE) as usize..].fill(0);
            self.change_line(line, &left);
        }
    }

    /// Makes the effect of a file event durable.
    pub(crate) fn happen(&mut self, event: &FileEvent, bytes: &[u8]) {
        let mut folder = self.folder.clone();
        match event {
            FileEvent::Write { file, at } => {
                self.change(files::address(*file, *at), bytes);
                let end = at + bytes.len() as u64;
                folder.lens.insert(*file, end.max(folder.len(*file)));
            }
            FileEvent::Preallocate { file, len } => {
                folder.lens.insert(*file, (*len).max(folder.len(*file)));
            }
            FileEvent::Cut { file, len } => drop(folder.lens.insert(*file, *len)),
            event => files::rename(&mut folder.names, event),
        }
        self.put_folder(folder);
    }

    pub(crate) fn now(&self) -> Moment {
        Moment { undo_len: self.undo.len(), file: self.file, folder: self.folder.clone() }
    }

    /// Goes back to an earlier moment.
    pub(crate) fn go_back(&mut self, moment: Moment) {
        while self.undo.len() > moment.undo_len
            && let Some((line, old)) = self.undo.pop()
        {
            let new = *self.line(line);
            self.set_line(line, &new, &old);
        }
        self.file = moment.file;
        self.put_folder(moment.folder);
    }

    /// Forgets how to go back, and the events of files.
    pub(crate) fn forget_moments(&mut self) {
        self.undo.clear();
        self.model.forget_events();
        if self.folder.is_empty() {
            self.file_bytes = Bytes::default();
        }
    }

    /// Remembers that a store ran on the medium.
    pub(crate) fn was_used(&mut self, trace: &Trace) {
        for event in &trace.events {
            match event.what {
                What::Store { at, len, .. } => {
                    self.stale.extend(at / LINE..(at + u64::from(len)).div_ceil(LINE));
                }
                What::Disk { .. } => self.files_are_stale = true,
                _ => {}
            }
        }
    }

    /// Puts the medium and the files into the durable state. Their later behaviour depends on that state alone.
    pub(crate) fn show(&mut self) {
        self.stale.sort_unstable();
        self.stale.dedup();
        let bytes = &self.bytes;
        let parts = self.stale.drain(..).map(|line| {
            let start = line as usize * LINE_LEN;
            (line * LINE, &bytes[start..start + LINE_LEN])
        });
        self.medium.restore(self.file, parts);
        self.medium.seed(self.identity());
        if std::mem::take(&mut self.files_are_stale) {
            let file = |(name, &file): (&Arc<str>, &u32)| {
                (file, Arc::clone(name), self.file_bytes.of(file, self.folder.len(file)))
            };
            self.model.restore(self.folder.names.iter().map(file));
        }
    }
}

fn sum_of(line: u64, bytes: &Line) -> u64 {
    if *bytes == [0; LINE_LEN] { 0 } else { xxh3_64_with_seed(bytes, line) }
}
