//! Reading the change log: a partition's changes, in the order of their numbers.
//!
//! A position is the number that the next operation has, or will have. It stays valid when the store is opened again.
//! A reader holds no segment: it copies one entry after the other.

use std::ops::Range;
use std::sync::Arc;

use halite_contract::{Change, ChangeOp, Changes, Error, KeySpaceId, Result};

use crate::change_log::entry::{self, Entry, seed};
use crate::change_log::{Segment, Segments};
use crate::key_spaces::{CATALOGUE, INTERNAL};
use crate::partition::Partition;
use crate::record::{Kind, Record};

impl Partition {
    fn change_segments(&self) -> Result<&Arc<Segments>> {
        self.changes.as_ref().ok_or(Error::NoChangeLog)
    }

    /// The positions that can be read from: up to the durable end.
    pub(crate) fn change_positions(&self) -> Result<Range<u64>> {
        let segments = self.change_segments()?;
        let all = segments.all.read();
        let end = segments.durable() + 1;
        let oldest = all.iter().find_map(|segment| first_batch(segment, segments.salt));
        Ok(oldest.unwrap_or(end).min(end)..end)
    }

    /// The changes from a position on.
    pub(crate) fn changes(self: &Arc<Self>, number: usize, from: u64) -> Result<Changes> {
        let positions = self.change_positions()?;
        // Nothing was ever written before the first number.
        let from = from.max(1);
        if from < positions.start {
            let (position, oldest) = (from, positions.start);
            return Err(Error::ChangesReleased { partition: number, position, oldest });
        }
        if from > positions.end {
            let (position, end) = (from, positions.end);
            return Err(Error::NoChangePosition { partition: number, position, end });
        }
        let partition = Arc::clone(self);
        Ok(Box::new(Reader { partition, number, position: from, at: None }))
    }
}

/// The number with which the first batch of a segment begins.
fn first_batch(segment: &Segment, salt: u64) -> Option<u64> {
    let (bytes, seed) = (segment.published.bytes(), seed(salt, segment.number));
    let mut at = 0;
    loop {
        let entry = Entry::read(bytes, at, seed)?;
        if entry.begins_batch() {
            return Some(entry.first());
        }
        at = entry.next_at;
    }
}

struct Reader {
    partition: Arc<Partition>,
    number: usize,
    position: u64,
    /// The segment, and where in it the position is.
    at: Option<(u32, u64)>,
}

impl Reader {
    /// The next batch; `None` at the durable end.
    fn read(&mut self) -> Result<Option<Change>> {
        let segments = Arc::clone(self.partition.change_segments()?);
        if self.position > segments.durable() {
            return Ok(None);
        }
        let (mut ops, mut has_begun) = (Vec::new(), false);
        let (mut next, mut at) = (self.position, self.at);
        loop {
            // Copied under the lock: a reader that held a segment would keep the writer from using it again, and a
            // full store from deleting.
            let (segment, place, is_end, copy) = {
                let all = segments.all.read();
                let found = match at {
                    Some((number, _)) => all.iter().position(|segment| segment.number == number),
                    None => all.partition_point(|segment| segment.first <= next).checked_sub(1),
                };
                let Some(found) = found else {
                    let oldest = all.front().map_or(0, |oldest| oldest.number);
                    if at.is_some_and(|(number, _)| number < oldest) {
                        // The segment was read to its end, and released: the position may be in the next one.
                        (ops, has_begun) = (Vec::new(), false);
                        (next, at) = (self.position, None);
                        continue;
                    }
                    drop(all);
                    let oldest = self.partition.change_positions()?.start;
                    let (partition, position) = (self.number, self.position);
                    return Err(Error::ChangesReleased { partition, position, oldest });
                };
                let place = at.map_or(0, |(_, place)| place);
                if place == 0 {
                    all[found].published.read_ahead(0);
                }
                let bytes = all[found].published.bytes();
                let copy = entry::bytes_at(bytes, place).to_vec();
                (all[found].number, place, place >= bytes.len() as u64, copy)
            };
            let Some(entry) = Entry::read_at(&copy, place, seed(segments.salt, segment)) else {
                if !is_end {
                    return Err(self.damaged(next));
                }
                at = Some((segment + 1, 0));
                continue;
            };
            at = Some((segment, entry.next_at));
            if entry.last() < next {
                continue;
            }
            // A position within a batch is none: a reader gets batches whole.
            if entry.first() < next || !has_begun && !entry.begins_batch() {
                let (partition, position, end) = (self.number, next, segments.durable() + 1);
                return Err(Error::NoChangePosition { partition, position, end });
            }
            if entry.first() > next {
                return Err(self.damaged(next));
            }
            has_begun = true;
            for record in &entry.records {
                ops.extend(self.op(record)?);
            }
            next = entry.last() + 1;
            if entry.ends_batch() {
                self.position = next;
                self.at = at;
                return Ok(Some(Change { position: next, ops }));
            }
        }
    }

    fn damaged(&self, number: u64) -> Error {
        Error::Damaged {
            what: format!("change log of partition {}, number {number}", self.number),
            why: "there is no whole entry, though it was durable".into(),
        }
    }

    /// The change that a record stands for; `None` if it is an internal record of the partition.
    fn op(&self, record: &Record<'_>) -> Result<Option<ChangeOp>> {
        let id = record.header.space.get();
        let (space, key) = (KeySpaceId(id), record.key.to_vec());
        Ok(Some(match (id, record.kind) {
            (INTERNAL, _) => return Ok(None),
            (CATALOGUE, kind) => {
                let name = String::from_utf8_lossy(record.key).into_owned();
                let id = record.inline_value().and_then(|value| <[u8; 4]>::try_from(value).ok());
                match (kind, id) {
                    (Kind::Put, Some(id)) => {
                        let space = KeySpaceId(u32::from_le_bytes(id));
                        ChangeOp::CreateKeySpace { space, name }
                    }
                    _ => ChangeOp::DropKeySpace { name },
                }
            }
            (_, Kind::Delete) => ChangeOp::Delete { space, key },
            (_, Kind::DeleteRange) => {
                let end = record.range_end().map(<[u8]>::to_vec);
                ChangeOp::DeleteRange { space, start: key, end }
            }
            (_, Kind::Put) => match self.value(record) {
                Some(value) => ChangeOp::Put { space, key, value },
                None => ChangeOp::Superseded { space, key },
            },
        }))
    }

    /// The value of a put; `None` if it was large and its blocks were freed: then a newer change of the key is
    /// durable.
    fn value(&self, record: &Record<'_>) -> Option<Vec<u8>> {
        if let Some(value) = record.inline_value() {
            return Some(value.to_vec());
        }
        let mut value = Vec::new();
        for piece in record.pieces() {
            let pinned = self.partition.view.read().pieces.pin(piece)?;
            if !piece.matches(&pinned, self.partition.salt, record.seq()) {
                return None;
            }
            value.extend_from_slice(&pinned);
        }
        (value.len() == record.value_len()).then_some(value)
    }
}

impl Iterator for Reader {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
