//! The stored form of a stream: its record, its elements, and how both are read when the stream is first used.

use super::super::damage;
use super::super::map::record_of;
use crate::store::{Elements, Order, Store};
use crate::stored::Type;
use crate::stream_id::StreamId;
use crate::stream_state::{Consumer, Group, StreamState};

/// The first byte of the key of an entry's element; and of the others.
pub(crate) const ENTRY: u8 = 0;
pub(super) const GROUP: u8 = 1;
const CONSUMER: u8 = 2;
const PENDING: u8 = 3;

/// Bytes of a record before the header: the tag, the form, and the number.
const BEFORE_HEADER: usize = 10;

/// The part of the key's record that is a stream's.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Header {
    last: StreamId,
    max_deleted: StreamId,
    added: u64,
}

impl Header {
    pub(super) fn of(state: &StreamState) -> Self {
        Self { last: state.last, max_deleted: state.max_deleted, added: state.added }
    }

    pub(super) fn read(record: &[u8]) -> Option<Self> {
        let mut bytes = Bytewise(record.get(BEFORE_HEADER..)?);
        let header = Self { last: bytes.id()?, max_deleted: bytes.id()?, added: bytes.u64()? };
        bytes.0.is_empty().then_some(header)
    }

    /// The record of the key.
    pub(super) fn record(&self, id: u64) -> Vec<u8> {
        let mut record = record_of(Type::Stream, id);
        record.extend(self.last.to_bytes());
        record.extend(self.max_deleted.to_bytes());
        record.extend(self.added.to_be_bytes());
        record
    }
}

/// An entry that was delivered, and not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The number of the consumer that has it.
    pub(crate) consumer: u32,
    /// The time of the last delivery, in milliseconds since 1970.
    pub(crate) delivered_ms: u64,
    /// The number of deliveries.
    pub(crate) count: u64,
}

impl Pending {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Bytewise(bytes);
        Some(Self { consumer: bytes.u32()?, delivered_ms: bytes.u64()?, count: bytes.u64()? })
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = self.consumer.to_be_bytes().to_vec();
        bytes.extend(self.delivered_ms.to_be_bytes());
        bytes.extend(self.count.to_be_bytes());
        bytes
    }
}

pub(super) fn entry_key(id: StreamId) -> Vec<u8> {
    [&[ENTRY][..], &id.to_bytes()].concat()
}

pub(super) fn entry_id(key: &[u8]) -> Option<StreamId> {
    let mut bytes = Bytewise(key.strip_prefix(&[ENTRY])?);
    bytes.id().filter(|_| bytes.0.is_empty())
}

pub(super) fn group_key(group: u32) -> Vec<u8> {
    [&[GROUP][..], &group.to_be_bytes()].concat()
}

/// The value of a group's element. A counter that is not known is -1, as in Redis.
pub(super) fn write_group(name: &[u8], group: &Group) -> Vec<u8> {
    let read = group.entries_read.unwrap_or(-1);
    [&group.last.to_bytes()[..], &read.to_be_bytes(), name].concat()
}

pub(super) fn consumer_key(group: u32, consumer: u32) -> Vec<u8> {
    [&[CONSUMER][..], &group.to_be_bytes(), &consumer.to_be_bytes()].concat()
}

/// The value of a consumer's element: a time that never was is -1. The times are those of when it was last written.
pub(super) fn write_consumer(consumer: &Consumer) -> Vec<u8> {
    let active = consumer.active_ms.map_or(-1, |ms| ms as i64);
    [&consumer.seen_ms.to_be_bytes()[..], &active.to_be_bytes(), &consumer.name].concat()
}

/// The beginning of the keys of a group's pending entries.
pub(super) fn pending_prefix(group: u32) -> Vec<u8> {
    [&[PENDING][..], &group.to_be_bytes()].concat()
}

pub(super) fn pending_key(group: u32, id: StreamId) -> Vec<u8> {
    [&[PENDING][..], &group.to_be_bytes(), &id.to_bytes()].concat()
}

/// The id in the key of a pending entry.
pub(super) fn pending_id(key: &[u8]) -> Option<StreamId> {
    let mut bytes = Bytewise(key.strip_prefix(&[PENDING])?);
    bytes.u32()?;
    bytes.id().filter(|_| bytes.0.is_empty())
}

/// Reads all of a stream.
pub(super) fn load(
    store: &Store,
    elements: &Elements,
    header: &Header,
    key: &[u8],
) -> halite::Result<StreamState> {
    let mut state = StreamState {
        last: header.last,
        max_deleted: header.max_deleted,
        added: header.added,
        noted: header.last,
        ..StreamState::default()
    };
    // The keys of groups come before those of consumers, and these before those of pending entries.
    let mut groups = std::collections::BTreeMap::new();
    for pair in store.scan(elements, &[], Order::Ascending)? {
        let (element, value) = pair?;
        let done = match element.first() {
            Some(&ENTRY) => load_entry(&mut state, &element),
            _ => load_of_group(&mut groups, &element, &value),
        };
        done.ok_or_else(|| damage(key, "an element is none of a stream"))?;
    }
    state.groups = groups.into_values().collect();
    Ok(state)
}

fn load_entry(state: &mut StreamState, element: &[u8]) -> Option<()> {
    let id = entry_id(element)?;
    if state.len == 0 {
        state.first = id;
    }
    state.len += 1;
    state.end = id;
    if id > state.noted {
        state.added = state.added.saturating_add(1);
        state.last = id;
    }
    Some(())
}

type Groups = std::collections::BTreeMap<u32, (Box<[u8]>, Group)>;

fn load_of_group(groups: &mut Groups, element: &[u8], value: &[u8]) -> Option<()> {
    let (mut key, mut value) = (Bytewise(&element[1..]), Bytewise(value));
    let number = key.u32()?;
    match element[0] {
        GROUP => {
            let (last, read) = (value.id()?, value.i64()?);
            let group = Group::new(number, last, Some(read).filter(|read| *read != -1));
            groups.insert(number, (value.0.into(), group));
        }
        CONSUMER => {
            let consumer = key.u32()?;
            let (seen_ms, active) = (value.u64()?, value.i64()?);
            let active_ms = u64::try_from(active).ok();
            let (name, pending) = (value.0.into(), Default::default());
            let (_, group) = groups.get_mut(&number)?;
            group.insert(consumer, Consumer { name, seen_ms, active_ms, pending });
        }
        PENDING => {
            let (id, pending) = (key.id()?, Pending::read(value.0)?);
            let (_, group) = groups.get_mut(&number)?;
            let consumer = group.consumers.get_mut(&pending.consumer)?;
            // A delivery does not write the consumer.
            consumer.seen_ms = consumer.seen_ms.max(pending.delivered_ms);
            consumer.active_ms = consumer.active_ms.max(Some(pending.delivered_ms));
            group.assign(pending.consumer, id);
        }
        _ => return None,
    }
    Some(())
}

/// Takes numbers from the front of bytes.
struct Bytewise<'a>(&'a [u8]);

impl Bytewise<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn id(&mut self) -> Option<StreamId> {
        self.take().map(StreamId::from_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }
}
