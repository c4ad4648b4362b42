//! Opening a store with a change log: replaying the records that are missing.
//!
//! The batches of the log beyond the last record are replayed: first the blocks of their large values are taken, then
//! their records are written like new ones, with the numbers that they have. Then the log's writer goes on behind its
//! end.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

use halite_alloc::SEGMENT;
use halite_contract::Result;
use halite_pmem::{Flushed, Parcel};
use halite_sim::locks::RwLock;
use halite_sim::planted;

use crate::change_log::found_log::{FoundLog, FoundSegment};
use crate::change_log::{ChangeLog, End, Segment};
use crate::collection::collector::Collector;
use crate::read::view::View;
use crate::record::op::op_of;
use crate::record::{BATCH_ALIGN, Record};
use crate::recovery::stop::go_on;
use crate::recovery::values::take_pieces;
use crate::storage::Storage;

impl FoundLog {
    /// Overwrites the line with which the next entry begins, in this segment or the next one. It may hold the head of
    /// an entry that was never whole, which the next writes could make whole; or the head of a batch that was cut
    /// off: that it lacks a part would no longer be known once another batch of the partition that lacks it is
    /// durable.
    #[track_caller]
    pub(crate) fn erase_behind_end(&mut self) -> Vec<Flushed> {
        let newest = self.newest();
        let mut flushed = Vec::new();
        for at in newest..self.segments.len().min(newest + 2) {
            let FoundSegment { fresh, end, .. } = &mut self.segments[at];
            let line = *end..(*end + BATCH_ALIGN).min(SEGMENT);
            let is_clear = |byte: &u8| *byte == 0;
            if !fresh.bytes()[line.start as usize..line.end as usize].iter().all(is_clear) {
                fresh.write(line.start, &[0; BATCH_ALIGN as usize]);
                flushed.push(fresh.flush(line));
            }
        }
        flushed
    }

    /// Starts the write-back of entries and values that may not be durable yet, as where the process was killed.
    pub(crate) fn flush(&self, flushed: &mut Vec<Flushed>) {
        let newest = self.newest();
        for (at, found) in self.segments.iter().enumerate().take(newest + 1) {
            let next = self.segments.get(at + 1).and_then(|next| next.first);
            let is_durable = next.is_some_and(|next| next <= self.logged + 1);
            if !is_durable && found.end > 0 {
                flushed.push(found.fresh.flush(0..found.end));
            }
        }
        flushed.extend(self.values.iter().map(Parcel::flush));
    }

    /// Takes the blocks of the large values that are to be replayed, and writes the records of all batches behind the
    /// last record. Returns how many records. One fence, if there are any.
    pub(crate) fn replay(
        &self,
        storage: &mut Storage,
        collector: &mut Collector,
        view: &mut View,
        stop: &AtomicBool,
    ) -> Result<u64> {
        // Records that collection dropped are not replayed: the blocks of their values may have been used again.
        let behind = self.durable.max(storage.next() - 1);
        let replayed = self.batches.iter().filter(|batch| batch.last > behind);
        let batches: Vec<Vec<Record<'_>>> =
            replayed.map(|batch| self.records(batch)).collect::<Result<_>>()?;
        for record in batches.iter().flatten().filter(|record| record.has_overflow()) {
            take_pieces(&mut storage.space, view, record, None)?;
        }
        // Records that a collection during the replay drops are not replayed after the next crash: their space may be
        // reused.
        storage.space.map_mut().set_durable(behind);
        let view = {
            let shared = RwLock::new(std::mem::take(view));
            let done = batches.iter().try_for_each(|records| {
                go_on(stop)?;
                let kept = planted!("indexlog.replay-skips-last", records.len() - 1, records.len());
                append_again(storage, collector, &shared, &records[..kept])
            });
            *view = std::mem::take(&mut *shared.write());
            done?;
            view
        };
        // The numbers up to the log's end count as written.
        let next = storage.next().max(self.last + 1);
        storage.log.durability.go_on_with(next);
        view.space_mut(crate::key_spaces::INTERNAL);
        if batches.is_empty() {
            storage.log.durability.complete();
        } else {
            storage.sync_records()?;
        }
        Ok(batches.iter().map(|records| records.len() as u64).sum())
    }

    /// The writer that goes on behind the end. `first` is the number of the next operation.
    pub(crate) fn into_writer(self, first: u64, retain: u64, opening: u32) -> Result<ChangeLog> {
        let newest = self.newest();
        let mut older = VecDeque::new();
        let mut current = None;
        let mut spare = 0;
        let numbers: Vec<u32> = self.segments.iter().map(|found| found.number).collect();
        for (at, found) in self.segments.into_iter().enumerate() {
            let FoundSegment { number, fresh, first: of_segment, end } = found;
            if at < newest {
                let published = fresh.into_appender(end).published().clone();
                older.push_back(Segment { number, first: of_segment.unwrap_or(first), published });
            } else if at == newest {
                let of_segment = of_segment.unwrap_or(first);
                current = Some((number, of_segment, fresh.into_appender(end)));
            } else {
                spare += 1;
            }
        }
        let (number, of_segment, appender) = match current {
            Some(current) => current,
            None => {
                self.device.get(0)?.commit()?;
                (0, first, self.device.claim(0, 0, SEGMENT)?.into_appender(0))
            }
        };
        // A crash may have left more spare segments than the one that is kept.
        while spare > 1 {
            self.device.release(numbers[newest] + spare)?;
            spare -= 1;
        }
        let end = End {
            older,
            number,
            first: of_segment,
            appender,
            spare,
            before: self.opening,
            last: self.last,
        };
        let is_new = end.older.is_empty() && spare == 0;
        let mut log = ChangeLog::new(self.device, self.salt, retain, opening, end);
        if is_new {
            log.allocate_spare()?;
        }
        Ok(log)
    }
}

/// Writes the records of a batch again, and applies it.
fn append_again(
    storage: &mut Storage,
    collector: &mut Collector,
    view: &RwLock<View>,
    records: &[Record<'_>],
) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    collector.make_room_again(storage, view, records.iter().map(Record::len))?;
    storage.log.append_again(&mut storage.space, view, records)?;
    let ops: Vec<_> = records.iter().map(op_of).collect();
    let mut view = view.write();
    for op in &ops {
        view.space_mut(op.space().0);
    }
    storage.apply(&mut view, &ops)
}
