//! Streams: entries under ids that only grow, and groups of consumers that read them.
//!
//! ```text
//! record of the key    tag │ 1 │ number u64 │ last id │ largest deleted id │ entries added u64
//! element              0 │ id                  → field │ value │ field │ value │ ..     an entry
//!                      1 │ group u32           → a group                               (`layout`)
//!                      2 │ group u32 │ consumer u32 → a consumer
//!                      3 │ group u32 │ id      → a pending entry
//! ```
//!
//! An entry is one write: it does not change the record of the key. The last id is that of the last entry, or of the
//! record if that is larger, and entries behind the record's last id came after it was written, and are added to its
//! counter. So the record is written only with what would make that wrong: with the removal of an entry behind its last
//! id, and with a larger deleted id. A stream that is kept short by each XADD writes it once for all entries that fit.
//!
//! Counts, and the groups with the ids that are pending in them, are read when a stream is first used, and known
//! in DRAM from then on ([`StreamState`]). So XADD, XREADGROUP, XACK and reads of ranges touch only what they are about.
//!
//! A stream has no small form, and it may be empty.

mod groups;
pub(crate) mod layout;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use halite::Bytes;

pub(crate) use groups::{Claim, Claiming, Reader};
pub(crate) use layout::Pending;
use layout::{ENTRY, Header, entry_id, entry_key};

use super::{damaged, find, tell};
use crate::failure::Outcome;
use crate::store::{Elements, NewDeadline, Order, Resident, Store};
use crate::stored::{Type, collection_id};
use crate::stream_id::StreamId;
use crate::stream_state::StreamState;

/// Entries that are read at once where the store changes between them.
const READ_AT_ONCE: usize = 256;

/// Entries from which on those that are trimmed are left behind, if they are most of the stream.
const SWEPT_MIN: u64 = if cfg!(test) { 3 } else { 1 << 15 };

/// A stream, as a command has it.
#[derive(Debug)]
pub(crate) struct Stream {
    db: usize,
    key: Vec<u8>,
    elements: Elements,
    header: Header,
    /// Whether the key's record is to be written.
    is_changed: bool,
    /// Whether elements were changed.
    has_changed_elements: bool,
}

/// The entries that are kept by a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// So many of the last ones.
    Last(u64),
    /// Those with this id or a larger one.
    From(StreamId),
}

/// How exact a trim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exactness {
    Exact,
    /// Whole blocks of so many entries are removed, as by Redis, which keeps them in such blocks; and at most `limit`
    /// entries, if it is not 0.
    Blocks {
        len: u64,
        limit: u64,
    },
}

impl Stream {
    /// The stream at a key, if there is one. Another type is refused.
    pub(crate) fn find(store: &mut Store, db: usize, key: &[u8]) -> Outcome<Option<Self>> {
        let Some(stored) = find(store, db, key, Type::Stream)? else { return Ok(None) };
        let id = collection_id(stored.bytes());
        let (Some(id), Some(header)) = (id, Header::read(stored.bytes())) else {
            return Err(damaged(key, "its record is no stream's"));
        };
        let elements = store.elements(db, key, id);
        let (is_changed, has_changed_elements) = (false, false);
        let key = key.to_vec();
        Ok(Some(Self { db, key, elements, header, is_changed, has_changed_elements }))
    }

    /// A new stream without entries, which is there once it is saved. The key has no value.
    pub(crate) fn create(store: &mut Store, db: usize, key: &[u8]) -> Outcome<Self> {
        let elements = store.new_elements(db, key)?;
        store.resident(&elements, |_| Ok(Resident::Stream(Box::default())))?;
        Ok(Self {
            db,
            key: key.to_vec(),
            elements,
            header: Header::default(),
            is_changed: true,
            has_changed_elements: false,
        })
    }

    /// The state of the stream, as it is known in DRAM.
    pub(crate) fn state<'s>(&self, store: &'s mut Store) -> Outcome<&'s mut StreamState> {
        let resident = store.resident(&self.elements, |store| {
            let state = layout::load(store, &self.elements, &self.header, &self.key)?;
            Ok(Resident::Stream(Box::new(state)))
        })?;
        match resident {
            Resident::Stream(state) => Ok(state),
            _ => Err(damaged(&self.key, "it is no stream")),
        }
    }

    /// Adds an entry, whose id is larger than the last one: its fields and values, as they are stored.
    pub(crate) fn add(&mut self, store: &mut Store, id: StreamId, fields: &[u8]) -> Outcome {
        self.state(store)?;
        store.put_element(&self.elements, &entry_key(id), fields)?;
        self.state(store)?.push(id);
        self.has_changed_elements = true;
        Ok(())
    }

    /// The fields and values of an entry.
    pub(crate) fn get(&self, store: &Store, id: StreamId) -> Outcome<Option<Bytes>> {
        Ok(store.element(&self.elements, &entry_key(id))?)
    }

    /// Removes an entry; returns whether it was there.
    pub(crate) fn remove(&mut self, store: &mut Store, id: StreamId) -> Outcome<bool> {
        let state = self.state(store)?;
        if state.len == 0 || id < state.first || id > state.end || self.get(store, id)?.is_none() {
            return Ok(false);
        }
        store.remove_element(&self.elements, &entry_key(id))?;
        let state = self.state(store)?;
        state.len -= 1;
        self.is_changed |= id > state.noted;
        if id > state.max_deleted {
            state.max_deleted = id;
            self.is_changed = true;
        }
        self.has_changed_elements = true;
        let (is_first, is_last) = (id == state.first, id == state.end);
        if is_first {
            let first = self.nearest(store, Order::Ascending)?;
            self.state(store)?.first = first;
        }
        if is_last {
            let end = self.nearest(store, Order::Descending)?;
            self.state(store)?.end = end;
        }
        Ok(true)
    }

    /// The id at which a visit of all entries begins, [`StreamId::MIN`] if there is none.
    fn nearest(&self, store: &Store, order: Order) -> Outcome<StreamId> {
        let mut nearest = StreamId::MIN;
        self.visit(store, StreamId::MIN, StreamId::MAX, order, |id, _| {
            nearest = id;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(nearest)
    }

    /// The id of the last entry.
    pub(crate) fn last_entry(&self, store: &mut Store) -> Outcome<Option<StreamId>> {
        let state = self.state(store)?;
        Ok(Some(state.end).filter(|_| state.len > 0))
    }

    /// Visits the entries with ids from `from` to `to`, until `visit` breaks or fails.
    pub(crate) fn visit(
        &self,
        store: &Store,
        from: StreamId,
        to: StreamId,
        order: Order,
        mut visit: impl FnMut(StreamId, Bytes) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        let begin = match order {
            Order::Ascending => from,
            Order::Descending => to,
        };
        for pair in store.scan(&self.elements, &entry_key(begin), order)? {
            let (element, fields) = pair?;
            if element.first() != Some(&ENTRY) {
                break;
            }
            let id = entry_id(&element).ok_or_else(|| damaged(&self.key, "an entry has no id"))?;
            if id < from || id > to || visit(id, fields)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Some entries from an id on, for a command that changes the store between them.
    fn entries_from(
        &self,
        store: &Store,
        from: StreamId,
        count: usize,
    ) -> Outcome<Vec<(StreamId, Bytes)>> {
        let mut entries = Vec::new();
        self.visit(store, from, StreamId::MAX, Order::Ascending, |id, fields| {
            entries.push((id, fields));
            Ok(match entries.len() < count {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        Ok(entries)
    }

    /// Removes the first entries, but those to keep; returns how many.
    pub(crate) fn trim(
        &mut self,
        store: &mut Store,
        keep: Keep,
        exactness: Exactness,
    ) -> Outcome<u64> {
        let state = self.state(store)?;
        let (len, gone) = (state.len, state.added.saturating_sub(state.len));
        let most = match exactness {
            Exactness::Exact | Exactness::Blocks { limit: 0, .. } => u64::MAX,
            Exactness::Blocks { limit, .. } => limit,
        };
        let (wanted, end) = match keep {
            Keep::Last(count) => (len.saturating_sub(count), StreamId::MAX),
            Keep::From(id) => match id.previous() {
                Some(end) => (len, end),
                None => return Ok(0),
            },
        };
        let wanted = match (keep, exactness) {
            // All that go are known, without a look at them.
            (Keep::Last(_), Exactness::Blocks { len: block, .. }) => {
                whole_blocks(block, gone, len, wanted, most)
            }
            _ => wanted.min(most),
        };
        let mut removed = Vec::new();
        if wanted > 0 {
            self.visit(store, StreamId::MIN, end, Order::Ascending, |id, _| {
                removed.push(id);
                Ok(match (removed.len() as u64) < wanted {
                    true if store.ending.breaks_off() => {
                        return Err(crate::failure::Failure::Interrupted);
                    }
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            })?;
        }
        if let (Keep::From(_), Exactness::Blocks { len: block, .. }) = (keep, exactness) {
            let count = whole_blocks(block, gone, len, removed.len() as u64, most);
            removed.truncate(count as usize);
        }
        let Some(&last) = removed.last() else { return Ok(0) };
        let count = removed.len() as u64;
        match count > SWEPT_MIN && self.state(store)?.elements_but_entries() + len - count < count {
            true => self.sweep(store, last)?,
            false => {
                for id in &removed {
                    store.remove_element(&self.elements, &entry_key(*id))?;
                }
            }
        }
        let first = self.nearest(store, Order::Ascending)?;
        let state = self.state(store)?;
        state.len -= count;
        state.first = first;
        if state.len == 0 {
            state.end = StreamId::MIN;
        }
        self.is_changed |= last > state.noted;
        self.has_changed_elements = true;
        Ok(count)
    }

    /// Leaves all entries up to one behind with the number of the stream: it gets another one, and takes what is left
    /// along. Those go step by step, as those of a stream that is removed.
    fn sweep(&mut self, store: &mut Store, last: StreamId) -> Outcome {
        let new = store.new_elements(self.db, &self.key)?;
        let mut after = entry_key(last);
        loop {
            after.push(0);
            let scan = store.scan(&self.elements, &after, Order::Ascending)?;
            let pairs = scan.take(READ_AT_ONCE).collect::<halite::Result<Vec<_>>>()?;
            for (element, value) in &pairs {
                store.put_element(&new, element, value)?;
            }
            let Some((element, _)) = pairs.last() else { break };
            after = element.to_vec();
        }
        let state = std::mem::take(self.state(store)?);
        store.resident(&new, |_| Ok(Resident::Stream(Box::new(state))))?;
        self.elements = new;
        self.is_changed = true;
        Ok(())
    }

    /// Sets the last id, which is not smaller than that of the last entry, and the counters.
    pub(crate) fn set(
        &mut self,
        store: &mut Store,
        last: StreamId,
        added: Option<u64>,
        max_deleted: Option<StreamId>,
    ) -> Outcome {
        let state = self.state(store)?;
        state.last = last;
        state.added = added.unwrap_or(state.added);
        state.max_deleted = max_deleted.unwrap_or(state.max_deleted);
        self.is_changed = true;
        Ok(())
    }

    /// Writes the stream, and tells of events: what was changed is there now.
    pub(crate) fn save(
        mut self,
        store: &mut Store,
        events: impl IntoIterator<Item = &'static str>,
    ) -> Outcome {
        if self.is_changed {
            let state = self.state(store)?;
            state.noted = state.last;
            self.header = Header::of(state);
            let record = self.header.record(self.elements.id);
            store.put_stored(self.db, &self.key, &record, NewDeadline::Keep)?;
        } else if self.has_changed_elements {
            store.note_changed(self.db, &self.key);
        }
        tell(store, Type::Stream, (self.db, &self.key), events, false);
        Ok(())
    }

    /// [`Stream::save`] of a stream that has the same entries: as in Redis, clients that watch or track its key are not told.
    pub(crate) fn save_groups(
        self,
        store: &mut Store,
        events: impl IntoIterator<Item = &'static str>,
    ) -> Outcome {
        store.unwatched(|store| self.save(store, events))
    }

    /// Bytes of the pool that its elements take, about, from some of them; all are looked at if `samples` is 0.
    pub(crate) fn space(&self, store: &mut Store, samples: usize) -> Outcome<u64> {
        let state = self.state(store)?;
        let entries = state.len;
        let others = state.elements_but_entries();
        let of_entries = store.space_of_elements(&self.elements, &[layout::ENTRY], samples)?;
        if samples == 0 {
            return Ok(of_entries.0);
        }
        let of_others = store.space_of_elements(&self.elements, &[layout::GROUP], samples)?;
        let all = |(bytes, count): (u64, u64), of: u64| bytes * of / count.max(1);
        Ok(all(of_entries, entries) + all(of_others, others))
    }
}

/// How many of the first entries are whole blocks that may all go: of `len` entries, where `gone` came before them, at
/// most `wanted` and at most `most`.
fn whole_blocks(block: u64, gone: u64, len: u64, wanted: u64, most: u64) -> u64 {
    let block = block.max(1);
    let mut count = 0;
    loop {
        let next = (block - (gone + count) % block).min(len - count);
        if next == 0 || count + next > wanted || count + next > most {
            return count;
        }
        count += next;
    }
}
