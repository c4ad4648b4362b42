//! The state of a stream that DRAM has: where it begins and ends, its counters, and its groups with what is pending there.
//!
//! The rules by which Redis counts what groups have read are here, too. A deletion in the middle leaves a gap that no
//! counter can see over; only the latest is known ([`StreamState::max_deleted`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::stream_id::StreamId;

/// The state of a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamState {
    /// The number of entries.
    pub(crate) len: u64,
    /// The id of the first entry, [`StreamId::MIN`] if there is none.
    pub(crate) first: StreamId,
    /// The id of the last entry, [`StreamId::MIN`] if there is none.
    pub(crate) end: StreamId,
    /// The last id that was given, of an entry that may be gone.
    pub(crate) last: StreamId,
    /// The largest id that was deleted.
    pub(crate) max_deleted: StreamId,
    /// The number of entries that ever came.
    pub(crate) added: u64,
    /// The last id as the record of the key has it.
    pub(crate) noted: StreamId,
    /// By their names.
    pub(crate) groups: BTreeMap<Box<[u8]>, Group>,
}

/// A group of consumers.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// The number in the keys of its elements.
    pub(crate) number: u32,
    /// The last id that was delivered.
    pub(crate) last: StreamId,
    /// The number of entries that were read, if it is known.
    pub(crate) entries_read: Option<i64>,
    /// By their numbers.
    pub(crate) consumers: BTreeMap<u32, Consumer>,
    /// The numbers of the consumers by their names.
    pub(crate) names: BTreeMap<Box<[u8]>, u32>,
    /// The number of entries that are pending.
    pub(crate) pending: u64,
}

/// A consumer of a group.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    pub(crate) name: Box<[u8]>,
    /// The time of its last attempt to read, in milliseconds since 1970.
    pub(crate) seen_ms: u64,
    /// The time at which it last got an entry.
    pub(crate) active_ms: Option<u64>,
    /// The entries that were delivered to it, and not acknowledged.
    pub(crate) pending: BTreeSet<StreamId>,
}

impl StreamState {
    /// Notes an entry behind all others.
    pub(crate) fn push(&mut self, id: StreamId) {
        if self.len == 0 {
            self.first = id;
        }
        self.len += 1;
        self.added = self.added.saturating_add(1);
        self.last = id;
        self.end = id;
    }

    /// Whether an entry may be missing from `from` on.
    fn has_gap(&self, from: StreamId) -> bool {
        self.len > 0
            && self.max_deleted != StreamId::MIN
            && self.first <= self.max_deleted
            && from <= self.max_deleted
    }

    /// How many entries ever came up to an id, if that can be known.
    pub(crate) fn count_to(&self, id: StreamId) -> Option<i64> {
        let added = self.added as i64;
        match () {
            () if self.added == 0 => Some(0),
            () if self.len == 0 && id <= self.last => Some(added),
            () if id != StreamId::MIN && id < self.max_deleted => None,
            () if id == self.last => Some(added),
            () if id > self.last => None,
            () if self.max_deleted != StreamId::MIN && self.max_deleted >= self.first => None,
            () if id < self.first => Some(added.wrapping_sub(self.len as i64)),
            () if id == self.first => Some(added.wrapping_sub(self.len as i64).wrapping_add(1)),
            () => None,
        }
    }

    /// How many entries a group has yet to read, if that can be known.
    pub(crate) fn lag(&self, group: &Group) -> Option<i64> {
        let added = self.added as i64;
        if self.added == 0 || self.len == 0 {
            return Some(0);
        }
        if group.last < self.first && self.max_deleted < self.first {
            return Some(self.len as i64);
        }
        match group.entries_read {
            Some(read) if !self.has_gap(group.last) => Some(added.wrapping_sub(read)),
            _ => self.count_to(group.last).map(|read| added.wrapping_sub(read)),
        }
    }

    /// The counter of a group that reads an entry behind its last one.
    pub(crate) fn read_on(&self, group: &Group, id: StreamId) -> Option<i64> {
        match group.entries_read {
            Some(read) if group.last >= self.first && !self.has_gap(group.last) => {
                Some(read.wrapping_add(1))
            }
            _ if self.added > 0 => self.count_to(id),
            known => known,
        }
    }

    /// The number of its elements that are no entries.
    pub(crate) fn elements_but_entries(&self) -> u64 {
        let of = |group: &Group| 1 + group.consumers.len() as u64 + group.pending;
        self.groups.values().map(of).sum()
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.groups.values().map(Group::bytes).sum::<usize>()
    }
}

impl Group {
    pub(crate) fn new(number: u32, last: StreamId, entries_read: Option<i64>) -> Self {
        let (consumers, names) = Default::default();
        Self { number, last, entries_read, consumers, names, pending: 0 }
    }

    /// The number and the state of a consumer.
    pub(crate) fn consumer(&self, name: &[u8]) -> Option<(u32, &Consumer)> {
        let number = *self.names.get(name)?;
        Some((number, self.consumers.get(&number)?))
    }

    /// The consumers by their names.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = &Consumer> {
        self.names.values().filter_map(|number| self.consumers.get(number))
    }

    /// Adds a consumer.
    pub(crate) fn insert(&mut self, number: u32, consumer: Consumer) {
        self.names.insert(consumer.name.clone(), number);
        self.consumers.insert(number, consumer);
    }

    /// Notes that an entry is pending with a consumer.
    pub(crate) fn assign(&mut self, consumer: u32, id: StreamId) {
        if let Some(consumer) = self.consumers.get_mut(&consumer)
            && consumer.pending.insert(id)
        {
            self.pending += 1;
        }
    }

    /// Notes that an entry is not pending with a consumer any more.
    pub(crate) fn release(&mut self, consumer: u32, id: StreamId) {
        if let Some(consumer) = self.consumers.get_mut(&consumer)
            && consumer.pending.remove(&id)
        {
            self.pending -= 1;
        }
    }

    fn bytes(&self) -> usize {
        let names: usize = self.names.keys().map(|name| 2 * (name.len() + ENTRY)).sum();
        size_of::<Self>() + names + self.pending as usize * (size_of::<StreamId>() + ENTRY / 2)
    }
}

/// Bytes that an entry of a map takes beside its own, about.
const ENTRY: usize = 16;
