//! Streams: entries, groups, consumers, and what is pending with them.

use std::collections::HashMap;
use std::ops::ControlFlow;

use halite_rdb::Id;

use super::reading::Budget;
use crate::collection::packed::{entries_of, put_entry};
use crate::collection::stream::{Pending, Stream};
use crate::collection::{check_ending, damaged};
use crate::failure::Outcome;
use crate::store::{Order, Store};
use crate::stream_id::StreamId;
use crate::stream_state::{Consumer, Group};

fn to_file(id: StreamId) -> Id {
    Id::new(id.ms, id.seq)
}

fn from_file(id: Id) -> StreamId {
    StreamId { ms: id.ms, seq: id.sequence }
}

/// A time in a file, whose times have a sign.
fn time(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// The stream at a key.
pub(super) fn read(
    store: &mut Store,
    db: usize,
    key: &[u8],
    budget: &mut Budget,
) -> Outcome<Option<halite_rdb::Stream>> {
    let Some(stream) = Stream::find(store, db, key)? else { return Ok(None) };
    let state = stream.state(store)?;
    let (last_id, max_deleted_id) = (to_file(state.last), to_file(state.max_deleted));
    let mut read = halite_rdb::Stream {
        last_id,
        max_deleted_id,
        entries_added: state.added,
        ..halite_rdb::Stream::default()
    };
    let mut numbers = Vec::new();
    for (name, group) in &state.groups {
        budget.take(name.len())?;
        numbers.push((group.number, consumers_of(group)));
        read.groups.push(group_without_pending(name, group, budget)?);
    }
    let entries = &mut read.entries;
    let (first, last) = (StreamId::MIN, StreamId::MAX);
    stream.visit(store, first, last, Order::Ascending, |id, fields| {
        budget.take(fields.len())?;
        entries.push(halite_rdb::Entry { id: to_file(id), fields: fields_of(&fields, budget)? });
        Ok(ControlFlow::Continue(()))
    })?;
    for (group, (number, consumers)) in read.groups.iter_mut().zip(numbers) {
        stream.visit_pending(store, number, first, Order::Ascending, |id, pending| {
            budget.take(0)?;
            let consumer = consumers.get(&pending.consumer).copied();
            let consumer =
                consumer.ok_or_else(|| damaged(key, "a pending entry has no consumer"))?;
            group.pending.push(halite_rdb::Pending {
                id: to_file(id),
                consumer,
                delivered_ms: time(pending.delivered_ms),
                deliveries: pending.count,
            });
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(Some(read))
}

/// By the numbers of the consumers of a group: their places in the order of their names.
fn consumers_of(group: &Group) -> HashMap<u32, usize> {
    group.names.values().enumerate().map(|(place, number)| (*number, place)).collect()
}

fn group_without_pending(
    name: &[u8],
    group: &Group,
    budget: &mut Budget,
) -> Outcome<halite_rdb::Group> {
    let mut consumers = Vec::new();
    for consumer in group.by_name() {
        budget.take(consumer.name.len())?;
        consumers.push(halite_rdb::Consumer {
            name: consumer.name.to_vec(),
            seen_ms: time(consumer.seen_ms),
            active_ms: consumer.active_ms.map(time),
        });
    }
    Ok(halite_rdb::Group {
        name: name.to_vec(),
        last_id: to_file(group.last),
        entries_read: group.entries_read.and_then(|read| u64::try_from(read).ok()),
        consumers,
        pending: Vec::new(),
    })
}

/// The fields of an entry with their values.
fn fields_of(stored: &[u8], budget: &mut Budget) -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut words = entries_of(stored).map(|(_, word)| word.to_vec());
    let mut fields = Vec::new();
    while let Some((name, value)) = words.next().zip(words.next()) {
        budget.take(0)?;
        fields.push((name, value));
    }
    Ok(fields)
}

/// Whether a stream is one that a key can have: no entry has the lowest id, and each can be stored.
pub(super) fn can_be_put(stream: &halite_rdb::Stream) -> bool {
    let is_right = |entry: &halite_rdb::Entry| {
        from_file(entry.id) != StreamId::MIN && stored_fields(entry).len() <= halite::VALUE_LEN_MAX
    };
    stream.entries.iter().all(is_right)
}

fn stored_fields(entry: &halite_rdb::Entry) -> Vec<u8> {
    let mut stored = Vec::new();
    for (name, value) in &entry.fields {
        put_entry(&mut stored, name);
        put_entry(&mut stored, value);
    }
    stored
}

/// Puts a stream at a key that has no value.
pub(super) fn put(store: &mut Store, db: usize, key: &[u8], read: &halite_rdb::Stream) -> Outcome {
    let mut stream = Stream::create(store, db, key)?;
    for entry in &read.entries {
        check_ending(store)?;
        stream.add(store, from_file(entry.id), &stored_fields(entry))?;
    }
    // The counter is at least the number of the entries, and what is computed with it has a sign.
    let added = read.entries_added.max(read.entries.len() as u64).min(i64::MAX as u64);
    let (last, max_deleted) = (from_file(read.last_id), from_file(read.max_deleted_id));
    stream.set(store, last, Some(added), Some(max_deleted))?;
    for (number, group) in (0..).zip(&read.groups) {
        put_group(store, &mut stream, number, group)?;
    }
    stream.save(store, [])
}

fn put_group(
    store: &mut Store,
    stream: &mut Stream,
    number: u32,
    read: &halite_rdb::Group,
) -> Outcome {
    let entries_read = read.entries_read.and_then(|read| i64::try_from(read).ok());
    let mut group = Group::new(number, from_file(read.last_id), entries_read);
    for (number, consumer) in (0..).zip(&read.consumers) {
        let active_ms = consumer.active_ms.and_then(|ms| u64::try_from(ms).ok());
        let seen_ms = u64::try_from(consumer.seen_ms).unwrap_or(0);
        let (name, pending) = (consumer.name.as_slice().into(), Default::default());
        group.insert(number, Consumer { name, seen_ms, active_ms, pending });
    }
    let pending = read.pending.iter().map(|pending| {
        let delivered_ms = u64::try_from(pending.delivered_ms).unwrap_or(0);
        let consumer = pending.consumer as u32;
        (from_file(pending.id), Pending { consumer, delivered_ms, count: pending.deliveries })
    });
    stream.put_group(store, &read.name, group, pending)
}
