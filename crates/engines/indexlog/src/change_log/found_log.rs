//! Opening a store with a change log: finding the log's end.
//!
//! The log is read from its oldest segment on. Entries follow each other without gaps; where the next one is missing,
//! the log ends, unless an entry behind it says that it was durable: that is damage. The log also ends before a batch
//! that is not proved durable and has a torn large value. Records of open blocks that are beyond the log's end are
//! cut like those behind a gap (`recovery/log_end.rs`): they were never acknowledged.

use std::collections::VecDeque;

use halite_alloc::{Device, SEGMENT};
use halite_contract::{Error, Result};
use halite_pmem::{Fresh, Parcel};
use halite_sim::planted;

use crate::batch::commit_record::Batch;
use crate::change_log::entry::{self, Entry, seed};
use crate::log::overflow::read_whole;
use crate::record::{BATCH_ALIGN, Record};
use crate::space::carving::Carving;

/// A segment that was found.
pub(super) struct FoundSegment {
    pub(super) number: u32,
    pub(super) fresh: Fresh,
    /// The number of its first operation, if it has one.
    pub(super) first: Option<u64>,
    /// Where its entries end.
    pub(super) end: u64,
}

/// A batch that was found whole.
#[derive(Clone, Copy)]
pub(super) struct FoundBatch {
    first: u64,
    pub(super) last: u64,
    /// Where it begins: the segment's index, and the place in it.
    at: (usize, u64),
    /// The opening in which the entry before it was written.
    before: u32,
    /// The highest number that the map, or an entry before it, proves durable.
    proved_before: u64,
    /// The batch on several partitions whose part it is.
    commit: Option<Batch>,
}

/// A change log, read up to its end.
pub(crate) struct FoundLog {
    pub(super) device: Device,
    pub(super) salt: u64,
    pub(super) segments: Vec<FoundSegment>,
    /// The last batches: those of which not all records are sealed, and those to be replayed.
    pub(super) batches: VecDeque<FoundBatch>,
    /// The number of the last operation; 0 if there is none.
    pub(crate) last: u64,
    /// The opening in which it was written.
    pub(super) opening: u32,
    /// The highest number that an entry says to be durable in the log.
    pub(super) logged: u64,
    /// The highest number up to which an entry, or the map, says the records to be durable. The last of these records
    /// may be gone since: collection drops dead ones.
    pub(super) durable: u64,
    /// The highest number that the map, or a batch that is kept, proves durable. Batches that are cut off prove
    /// nothing to the next opening.
    proved: u64,
    /// Large values that were read.
    pub(crate) values: Vec<Parcel>,
}

impl FoundLog {
    /// Reads the log on `device`, whose large values are in `data`. Records up to `durable` were durable. Of the
    /// batches that end before number `floor` and are proved durable, at most one is kept.
    pub(crate) fn read(
        device: Device,
        data: &Carving,
        salt: u64,
        durable: u64,
        floor: u64,
    ) -> Result<Self> {
        let mut segments = Vec::new();
        for number in device.logical_segments() {
            let follows =
                segments.last().is_none_or(|last: &FoundSegment| last.number + 1 == number);
            if !follows {
                return Err(Error::Damaged {
                    what: format!("change log, segment {}", number - 1),
                    why: "it is missing from the allocation table".into(),
                });
            }
            let fresh = device.claim(number, 0, SEGMENT)?;
            segments.push(FoundSegment { number, fresh, first: None, end: 0 });
        }
        let mut log = Self {
            device,
            salt,
            segments,
            batches: VecDeque::new(),
            last: 0,
            opening: 0,
            logged: 0,
            durable,
            proved: durable,
            values: Vec::new(),
        };
        log.walk(floor)?;
        log.check_end()?;
        log.cut_torn_values(data)?;
        Ok(log)
    }

    fn entry(&self, segment: usize, at: u64) -> Option<Entry<'_>> {
        let found = self.segments.get(segment)?;
        Entry::read(found.fresh.bytes(), at, seed(self.salt, found.number))
    }

    /// Follows the entries to the end of the last whole batch.
    ///
    /// # Errors
    /// An entry has its checksum and numbers that no entry has.
    fn walk(&mut self, floor: u64) -> Result<()> {
        // The number of the next entry, and the opening of the entry before it.
        let mut next: Option<(u64, u32)> = None;
        let mut batch: Option<FoundBatch> = None;
        // For each segment, where the accepted entries end, and the number of the first one.
        let mut accepted = vec![0; self.segments.len()];
        let mut firsts = vec![None; self.segments.len()];
        let (mut segment, mut at) = (0, 0);
        while segment < self.segments.len() {
            if at == 0 {
                self.segments[segment].fresh.read_ahead();
            }
            let entry = self.entry(segment, at).filter(|entry| {
                next.is_none_or(|next| next == (entry.first(), entry.head.before.get()))
            });
            let Some(entry) = entry else {
                if at == 0 {
                    break;
                }
                (segment, at) = (segment + 1, 0);
                continue;
            };
            let (first, last) = (entry.first(), entry.last());
            if !entry.has_numbers() {
                return Err(Error::Damaged {
                    what: format!("change log, segment {segment}, number {first}"),
                    why: "it states numbers that are never written".into(),
                });
            }
            let (opening, before) = (entry.head.opening.get(), entry.head.before.get());
            let (logged, durable) = (entry.head.logged.get(), entry.head.durable.get());
            let ends_batch = entry.ends_batch();
            let commit = entry.records.last().and_then(Batch::of);
            if entry.begins_batch() {
                let (at, proved_before) = ((segment, at), self.proved);
                batch = Some(FoundBatch { first, last, at, before, proved_before, commit: None });
            }
            at = entry.next_at;
            accepted[segment] = at;
            firsts[segment] = firsts[segment].or(Some(first));
            self.logged = self.logged.max(logged);
            self.durable = self.durable.max(durable);
            next = Some((last + 1, opening));
            if !ends_batch {
                continue;
            }
            (self.last, self.opening) = (last, opening);
            self.proved = self.logged.max(self.durable);
            let begun = batch.map_or(0, |batch| batch.at.0);
            for at in begun..=segment {
                (self.segments[at].first, self.segments[at].end) = (firsts[at], accepted[at]);
            }
            if let Some(batch) = batch.take() {
                self.batches.push_back(FoundBatch { last, commit, ..batch });
            }
            // The last batch stays, since it may have to be cut off.
            while self.batches.len() > 1 && self.batches[0].last < floor.min(self.proved + 1) {
                self.batches.pop_front();
            }
        }
        Ok(())
    }

    /// The highest number that is proved durable, in the log or as a record, by the batches that are kept.
    pub(crate) fn proved(&self) -> u64 {
        self.proved
    }

    /// Cuts off the first batch that is not proved durable and has a torn value, and all batches behind it.
    fn cut_torn_values(&mut self, data: &Carving) -> Result<()> {
        let mut values = Vec::new();
        let mut torn = None;
        'batches: for batch in self.batches.iter().filter(|batch| batch.last > self.proved) {
            for record in self.records(batch)?.iter().filter(|record| record.has_overflow()) {
                let value = read_whole(data, record, self.salt);
                match planted!("indexlog.torn-value-taken", value.or(Some(Vec::new())), value) {
                    Some(value) => values.extend(value),
                    None => {
                        torn = Some(batch.first);
                        break 'batches;
                    }
                }
            }
        }
        self.values = values;
        while torn.is_some_and(|torn| self.batches.back().is_some_and(|last| last.first >= torn)) {
            self.drop_last_batch();
        }
        Ok(())
    }

    /// The index of the newest segment with entries.
    pub(super) fn newest(&self) -> usize {
        self.segments.iter().rposition(|found| found.first.is_some()).unwrap_or(0)
    }

    /// Checks that no entry proves the missing ones durable; else they are damaged.
    fn check_end(&self) -> Result<()> {
        let behind = &self.segments[self.newest().min(self.segments.len())..];
        let logged = behind.iter().map(|found| {
            let seed = seed(self.salt, found.number);
            logged_behind(found.fresh.bytes(), found.end, seed, self.last).0
        });
        let logged = logged.fold(self.logged, u64::max);
        if logged > self.last { Err(self.damaged(logged)) } else { Ok(()) }
    }

    fn damaged(&self, durable: u64) -> Error {
        let newest = self.segments.get(self.newest()).map_or(0, |found| found.number);
        Error::Damaged {
            what: format!("change log, segment {newest}, number {}", self.last + 1),
            why: format!("it is not whole, though everything up to {durable} was durable"),
        }
    }

    /// The newest batch on several partitions beyond number `record`, and whether it is the last batch; `None` if
    /// there is no batch beyond it.
    pub(crate) fn newest_commit(&self, record: u64) -> Option<(Option<Batch>, bool)> {
        let record = record.max(self.durable);
        let mut beyond = self.batches.iter().rev().take_while(|batch| batch.last > record);
        let last = beyond.next()?;
        let is_last = last.commit.is_some();
        Some((last.commit.or_else(|| beyond.find_map(|batch| batch.commit)), is_last))
    }

    /// Cuts off the last batch. Returns whether it is not proved durable.
    pub(crate) fn drop_last_batch(&mut self) -> bool {
        let Some(batch) = self.batches.pop_back() else { return false };
        let (segment, at) = batch.at;
        self.segments[segment].end = at;
        if at == 0 {
            self.segments[segment].first = None;
        }
        for found in &mut self.segments[segment + 1..] {
            (found.first, found.end) = (None, 0);
        }
        let undecided = self.logged < batch.last;
        (self.last, self.opening) = (batch.first - 1, batch.before);
        self.proved = batch.proved_before;
        undecided
    }

    /// The records of a batch.
    pub(super) fn records(&self, batch: &FoundBatch) -> Result<Vec<Record<'_>>> {
        let (mut segment, mut at) = batch.at;
        let mut records: Vec<Record<'_>> = Vec::new();
        loop {
            match self.entry(segment, at) {
                Some(entry) if at < self.segments[segment].end => {
                    at = entry.next_at;
                    let ends = entry.ends_batch();
                    records.extend(entry.records);
                    if ends {
                        return Ok(records);
                    }
                }
                _ if segment + 1 < self.segments.len() => (segment, at) = (segment + 1, 0),
                _ => return Err(self.damaged(batch.last)),
            }
        }
    }
}

/// The highest number beyond `last` that a whole entry behind `end` of a segment says to be durable, zero if none
/// does; and how many bytes were read for that.
///
/// Anything may lie there, such as values that look like heads of long entries in every line. The bytes of candidates
/// that are not whole are paid for from a credit: the length of a segment, and the bytes that the search has
/// advanced.
fn logged_behind(segment: &[u8], end: u64, seed: u64, last: u64) -> (u64, u64) {
    let (mut logged, mut read) = (0, 0);
    let (mut at, mut credit) = (end, SEGMENT);
    while at < SEGMENT {
        let bytes = entry::bytes_at(segment, at);
        let says_more = entry::head_of(bytes)
            .is_some_and(|head| head.logged.get() > last && head.logged.get() < head.first.get());
        let len = bytes.len() as u64;
        let mut next = at + BATCH_ALIGN;
        if says_more && len <= credit {
            read += len;
            match Entry::read_at(bytes, at, seed) {
                Some(entry) => {
                    logged = logged.max(entry.head.logged.get());
                    next = entry.next_at;
                }
                None => credit -= len,
            }
        }
        credit += next - at;
        at = next;
    }
    (logged, read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change_log::entry::{HEAD_LEN, Head};
    use crate::record::Draft;
    use crate::record::Kind;

    /// Puts an entry of one operation at `at`, which says that everything up to `logged` is durable.
    fn put_entry(segment: &mut [u8], at: u64, seq: u64, logged: u64, value: &[u8]) -> u64 {
        let (opening, before) = (1.into(), 1.into());
        let (logged, first) = (logged.into(), seq.into());
        let head = Head { opening, before, logged, durable: 0.into(), first };
        let mut bytes = Vec::new();
        entry::begin(&mut bytes, &head);
        let (key, value, space) = (&b"key"[..], Some(value), 1);
        let kind = Kind::Put;
        let draft = Draft { kind, seq, lag: 0, remaining: 0, space, key, value, pieces: &[] };
        entry::add(&mut bytes, &draft);
        entry::end(&mut bytes, 9, at);
        segment[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        at + bytes.len() as u64
    }

    #[test]
    fn proof_behind_the_end_is_found_whatever_else_lies_there_and_in_bounded_time() {
        let mut segment = vec![0; SEGMENT as usize];
        let mut at = 0;
        while at < SEGMENT / 2 {
            at = put_entry(&mut segment, at, 70, 60, &[b'v'; 1000]);
        }
        let proves_to = |segment: &[u8], last| logged_behind(segment, 0, 9, last).0;
        assert_eq!((proves_to(&segment, 59), proves_to(&segment, 60)), (60, 0));
        // One whole entry behind others that are torn.
        for line in (0..at).step_by(1000).map(|at| at as usize) {
            segment[line] ^= 1;
        }
        put_entry(&mut segment, at, 90, 80, b"value");
        assert_eq!(proves_to(&segment, 59), 80);

        // Every line has bytes that look like the head of an entry that reaches to the end.
        let head = segment[at as usize..][..HEAD_LEN as usize].to_vec();
        for at in (0..SEGMENT).step_by(BATCH_ALIGN as usize) {
            let line = &mut segment[at as usize..][..HEAD_LEN as usize];
            line.copy_from_slice(&head);
            let len = (SEGMENT - at - HEAD_LEN) as u32;
            line[8..12].copy_from_slice(&len.to_le_bytes());
        }
        let (logged, read) = logged_behind(&segment, 0, 9, 59);
        assert!(logged == 0 && read <= 2 * SEGMENT, "{read} bytes were read");
    }
}
