//! Stores that are not certainly durable: by cell, in their order.
//!
//! A cell of memory is a line, and keeps the order of the stores to it. A store longer than a word counts as one store
//! for each of its words of 8 bytes. So the line has one *version* for each word stored to it, and one for none of them.
//! A power cut leaves any version of each line, and, because a copy may go in any order, any set of the words of the one
//! store that it interrupts.
//!
//! A cell behind the page cache is one word of 8 bytes. The kernel writes a page back while stores to it go on, and what
//! it reads of the page is no snapshot, so words beside each other keep no order. They are kept here by sectors, which
//! only saves entries: a power cut leaves of each word of a sector any of the stores to it, or none.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use halite_pmem::ModelFile;
use halite_sim::{Trace, What};

use crate::Rules;
use crate::disk::Disk;

/// The unit that the kernel marks as clean or dirty, in bytes.
const PAGE: u64 = 4096;

/// The part of a store that lies in one cell.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// The store's place in the trace.
    pub(crate) event: u32,
    /// The offset in the pool.
    pub(crate) at: u64,
    /// Where the trace keeps its bytes.
    bytes: u32,
    len: u32,
    streamed: bool,
    /// Its words persist in ascending order in any case, if they are in one line of memory.
    pub(crate) in_order: bool,
}

impl Part {
    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len.into()
    }

    /// Aligned words of 8 bytes that it touches: of a sector, 64 at most.
    pub(crate) fn words(&self) -> u32 {
        ((self.at + u64::from(self.len) - 1) / 8 - self.at / 8 + 1) as u32
    }

    /// The bytes of one of its words, and where they go.
    fn word<'a>(&self, trace: &'a Trace, word: u32) -> (u64, &'a [u8]) {
        let end = self.at + u64::from(self.len);
        let start = ((self.at / 8 + u64::from(word)) * 8).max(self.at);
        let end = ((self.at / 8 + u64::from(word) + 1) * 8).min(end);
        let bytes = trace.stored(self.bytes + (start - self.at) as u32, (end - start) as u32);
        (start, bytes)
    }
}

#[derive(Default)]
struct Cell {
    parts: Vec<Part>,
    /// How many of them a flush has covered that a fence may make durable.
    flushed: usize,
}

/// A line or a sector that is not certainly durable.
#[derive(Clone, Copy)]
pub(crate) struct Dirty<'a> {
    /// The stores to it, in their order.
    pub(crate) parts: &'a [Part],
    /// Whether each of its words is a cell.
    pub(crate) by_word: bool,
}

/// The content of a line or a sector after a power cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Stores that are there whole.
    pub(crate) whole: u32,
    /// Words of the next store that are there, a bit each.
    pub(crate) torn: u64,
    /// Words that have another version than these: each with its address in words, and with how many of the stores to
    /// the sector it may have.
    pub(crate) apart: Vec<(u64, u32)>,
}

impl Choice {
    /// The first `whole` stores, and none of the others.
    pub(crate) fn whole(whole: u32) -> Self {
        Self { whole, ..Self::default() }
    }

    /// The words of a store that are there, a bit each.
    pub(crate) fn words(&self, number: usize, part: &Part) -> u64 {
        let all = u64::MAX >> (64 - part.words());
        let mut words = match number.cmp(&(self.whole as usize)) {
            Ordering::Less => all,
            Ordering::Equal => self.torn & all,
            Ordering::Greater => 0,
        };
        for &(word, stores) in &self.apart {
            if let Some(bit) = word.checked_sub(part.at / 8)
                && bit < u64::from(part.words())
            {
                words &= !(1 << bit);
                words |= u64::from(number < stores as usize) << bit;
            }
        }
        words
    }
}

/// The cells that are not certainly durable, and the state of the file that the file system may not have.
pub(crate) struct Cells {
    rules: Rules,
    pending: BTreeMap<u64, Cell>,
    /// Pages that the kernel marks as clean, though it failed to sync them.
    lost: BTreeSet<u64>,
    /// Lengths that the file got and that are not synced.
    lens: Vec<(u32, u64)>,
    /// The file got its name, and that is not synced.
    linked: Option<u32>,
}

impl Cells {
    pub(crate) fn new(rules: Rules) -> Self {
        let (pending, lost) = (BTreeMap::new(), BTreeSet::new());
        Self { rules, pending, lost, lens: Vec::new(), linked: None }
    }

    /// Whether an event shrinks the set of images that a power cut may leave. Before it happens, all of these images
    /// have to be examined.
    pub(crate) fn shrinks(&self, what: What, trace: &Trace) -> bool {
        match (what, self.rules) {
            (
                What::Fence { .. },
                Rules::PageCache | Rules::FailingSyncs | Rules::FailedPlatform,
            ) => false,
            (What::Fence { first, count }, _) => {
                trace.fenced(first, count).iter().any(|&(at, len)| self.touches(at, len))
            }
            (What::Sync { at, len }, _) => self.touches(at, len),
            (What::SyncFile, _) => self.touches(0, u64::MAX) || !self.lens.is_empty(),
            (What::SyncFolder, _) => self.linked.is_some(),
            // Here every store is durable as soon as it is done.
            (What::Store { streamed, .. }, Rules::Platform) => !streamed,
            _ => false,
        }
    }

    fn touches(&self, at: u64, len: u64) -> bool {
        let cell = self.rules.cell_len();
        let touched = self.pending.range(at / cell..at.saturating_add(len).div_ceil(cell));
        touched.into_iter().any(|(&number, _)| !self.is_lost(number))
    }

    /// Whether syncs skip a cell.
    fn is_lost(&self, cell: u64) -> bool {
        !self.lost.is_empty() && self.lost.contains(&(cell * self.rules.cell_len() / PAGE))
    }

    /// The beginning of an event: adds the images that it makes possible.
    pub(crate) fn begin(&mut self, number: u32, what: What) {
        match what {
            What::Store { at, len, bytes, streamed, in_order } => {
                self.make_dirty(at, len.into());
                self.store(Part { event: number, at, bytes, len, streamed, in_order });
            }
            What::Rewrite { at, len } => self.make_dirty(at, len),
            What::SyncFailed { at, len } => {
                let cell = self.rules.cell_len();
                let failed = self.pending.range(at / cell..(at + len).div_ceil(cell));
                self.lost.extend(failed.map(|(number, _)| number * cell / PAGE));
            }
            What::Flush { at, len } => self.flush(at, len),
            What::Length { to } => self.lens.push((number, to)),
            What::Link => self.linked = Some(number),
            What::Kill => self.pending.values_mut().for_each(|cell| cell.flushed = 0),
            _ => {}
        }
    }

    /// The end of an event: makes its effects certain.
    pub(crate) fn end(&mut self, what: What, trace: &Trace, disk: &mut Disk) {
        match (what, self.rules) {
            (What::Store { at, len, streamed: false, .. }, Rules::Platform) => {
                self.settle(at, len.into(), trace, disk, |part| !part.streamed);
                self.supersede(at, at + u64::from(len));
            }
            (What::Fence { first, count }, Rules::Memory | Rules::Platform) => {
                for &(at, len) in trace.fenced(first, count) {
                    self.settle_flushed(at, len, trace, disk);
                }
            }
            (What::Sync { at, len }, _) => self.settle(at, len, trace, disk, |_| true),
            (What::SyncFile, _) => {
                self.settle(0, u64::MAX, trace, disk, |_| true);
                if let Some((_, len)) = self.lens.drain(..).next_back() {
                    disk.file.len = len;
                }
            }
            (What::SyncFolder, _) => disk.file.named |= self.linked.take().is_some(),
            _ => {}
        }
    }

    /// The kernel marks pages as dirty: the next sync writes their whole content.
    fn make_dirty(&mut self, at: u64, len: u64) {
        if !self.lost.is_empty() && len > 0 {
            let dirty = at / PAGE..(at + len).div_ceil(PAGE);
            self.lost.retain(|page| !dirty.contains(page));
        }
    }

    fn store(&mut self, store: Part) {
        let cell_len = self.rules.cell_len();
        let (mut at, end) = (store.at, store.at + u64::from(store.len));
        while at < end {
            let cell = at / cell_len;
            let part_end = end.min((cell + 1) * cell_len);
            let bytes = store.bytes + (at - store.at) as u32;
            let part = Part { at, bytes, len: (part_end - at) as u32, ..store };
            let cell = self.pending.entry(cell).or_default();
            cell.parts.push(part);
            if self.rules == Rules::Platform {
                // Streamed stores are on their way there without a flush.
                cell.flushed = cell.parts.len();
            }
            at = part_end;
        }
    }

    fn flush(&mut self, at: u64, len: u64) {
        let cell_len = self.rules.cell_len();
        for (_, cell) in self.pending.range_mut(at / cell_len..(at + len).div_ceil(cell_len)) {
            cell.flushed = cell.parts.len();
        }
    }

    /// Makes the flushed stores to a range durable.
    fn settle_flushed(&mut self, at: u64, len: u64, trace: &Trace, disk: &mut Disk) {
        let cell_len = self.rules.cell_len();
        let mut clean = Vec::new();
        for (&number, cell) in self.pending.range_mut(at / cell_len..(at + len).div_ceil(cell_len))
        {
            for part in cell.parts.drain(..cell.flushed) {
                disk.change(part.at, trace.stored(part.bytes, part.len));
            }
            cell.flushed = 0;
            if cell.parts.is_empty() {
                clean.push(number);
            }
        }
        clean.iter().for_each(|number| drop(self.pending.remove(number)));
    }

    /// Makes stores to a range durable.
    fn settle(
        &mut self,
        at: u64,
        len: u64,
        trace: &Trace,
        disk: &mut Disk,
        which: impl Fn(&Part) -> bool,
    ) {
        let cell_len = self.rules.cell_len();
        let (first, end) = (at / cell_len, at.saturating_add(len).div_ceil(cell_len));
        let mut clean = Vec::new();
        for (&number, cell) in self.pending.range_mut(first..end) {
            if self.lost.contains(&(number * cell_len / PAGE)) {
                continue;
            }
            cell.parts.retain(|part| {
                let settles = which(part);
                if settles {
                    disk.change(part.at, trace.stored(part.bytes, part.len));
                }
                !settles
            });
            cell.flushed = cell.flushed.min(cell.parts.len());
            if cell.parts.is_empty() {
                clean.push(number);
            }
        }
        clean.iter().for_each(|number| drop(self.pending.remove(number)));
    }

    /// Removes the bytes from the pending stores that a later store, which is durable, has replaced.
    fn supersede(&mut self, start: u64, end: u64) {
        let cell_len = self.rules.cell_len();
        let mut clean = Vec::new();
        for (&number, cell) in self.pending.range_mut(start / cell_len..end.div_ceil(cell_len)) {
            let rest = |part: Part| {
                let part_end = part.at + part.len();
                let before =
                    Part { len: start.clamp(part.at, part_end).abs_diff(part.at) as u32, ..part };
                let from = end.clamp(part.at, part_end);
                let behind = Part {
                    at: from,
                    bytes: part.bytes + (from - part.at) as u32,
                    len: (part_end - from) as u32,
                    ..part
                };
                [before, behind].into_iter().filter(|part| part.len > 0)
            };
            cell.parts = std::mem::take(&mut cell.parts).into_iter().flat_map(rest).collect();
            cell.flushed = cell.parts.len();
            if cell.parts.is_empty() {
                clean.push(number);
            }
        }
        clean.iter().for_each(|number| drop(self.pending.remove(number)));
    }

    /// The lines or sectors that are not certainly durable.
    pub(crate) fn dirty(&self) -> Vec<Dirty<'_>> {
        let by_word = self.rules.words_are_cells();
        self.pending.values().map(|cell| Dirty { parts: &cell.parts, by_word }).collect()
    }

    /// The states of the file that the file system may have after a power cut, each with the event from which on it is
    /// possible; the certain state comes first.
    pub(crate) fn files(&self, certain: ModelFile) -> Vec<(u32, ModelFile)> {
        let mut files = Vec::new();
        for (named_at, named) in
            [(0, certain.named)].into_iter().chain(self.linked.map(|at| (at, true)))
        {
            for (len_at, len) in [(0, certain.len)].iter().chain(&self.lens) {
                files.push((named_at.max(*len_at), ModelFile { named, len: *len, ..certain }));
            }
        }
        files
    }
}

/// Stores the part of a line or sector that a power cut leaves to the disk. Returns the youngest event of that part.
pub(crate) fn leave(parts: &[Part], choice: &Choice, trace: &Trace, disk: &mut Disk) -> u32 {
    let mut youngest = 0;
    // Of the stores behind those that are whole, only words that are apart can be there.
    let none_from = match choice.apart.is_empty() {
        true => parts.len().min(choice.whole as usize + 1),
        false => parts.len(),
    };
    for (number, part) in parts[..none_from].iter().enumerate() {
        let words = choice.words(number, part);
        if words == u64::MAX >> (64 - part.words()) {
            disk.change(part.at, trace.stored(part.bytes, part.len));
        } else {
            for word in (0..part.words()).filter(|word| words & 1 << word != 0) {
                let (at, bytes) = part.word(trace, word);
                disk.change(at, bytes);
            }
        }
        if words != 0 {
            youngest = youngest.max(part.event);
        }
    }
    youngest
}
