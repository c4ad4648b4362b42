//! Groups of consumers: what was delivered to whom, and has yet to be acknowledged.
//!
//! To deliver an entry writes one record, that it is pending; the group's own is written once for all entries of a
//! command, and a consumer's when it is made, and when it first gets an entry. What a consumer has pending is known in
//! DRAM by its ids.

use std::ops::ControlFlow;

use halite::Bytes;

use super::layout::{
    Pending, consumer_key, group_key, pending_id, pending_key, pending_prefix, write_consumer,
    write_group,
};
use super::{READ_AT_ONCE, Stream};
use crate::collection::{check_ending, damaged};
use crate::failure::Outcome;
use crate::store::{Order, Store};
use crate::stream_id::StreamId;
use crate::stream_state::{Consumer, Group};

/// A consumer that reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) group: &'a [u8],
    /// The number of the consumer.
    pub(crate) consumer: u32,
    pub(crate) now_ms: u64,
}

/// How entries are claimed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claiming {
    /// Entries that were delivered later than so long ago are left.
    pub(crate) min_idle_ms: u64,
    /// The time of delivery that they get.
    pub(crate) delivered_ms: u64,
    /// The count of deliveries that they get.
    pub(crate) count: Option<u64>,
    /// Whether an entry that is not pending becomes so.
    pub(crate) force: bool,
    /// Whether only ids are asked for, which is no delivery.
    pub(crate) only_ids: bool,
}

/// The outcome of a claim of an entry.
#[derive(Debug)]
pub(crate) enum Claim {
    /// The consumer has it: its fields.
    Claimed(Bytes),
    /// The stream does not have it any more, and it was pending.
    Gone,
    /// It is not pending, or was delivered too short a time ago.
    Left,
}

impl Stream {
    /// A group, if it is there.
    pub(crate) fn group<'s>(
        &self,
        store: &'s mut Store,
        name: &[u8],
    ) -> Outcome<Option<&'s mut Group>> {
        Ok(self.state(store)?.groups.get_mut(name))
    }

    /// A group that was found before.
    fn known<'s>(&self, store: &'s mut Store, name: &[u8]) -> Outcome<&'s mut Group> {
        self.group(store, name)?.ok_or_else(|| damaged(&self.key, "a group is missing"))
    }

    /// Makes a group; returns whether it is new.
    pub(crate) fn create_group(
        &mut self,
        store: &mut Store,
        name: &[u8],
        last: StreamId,
        entries_read: Option<i64>,
    ) -> Outcome<bool> {
        let groups = &mut self.state(store)?.groups;
        if groups.contains_key(name) {
            return Ok(false);
        }
        let number = free_number(groups.values().map(|group| group.number));
        groups.insert(name.into(), Group::new(number, last, entries_read));
        self.write_group(store, name)?;
        Ok(true)
    }

    /// Puts a group with its consumers, and with the entries that are pending with them, as they were elsewhere. No group
    /// has its name or its number.
    pub(crate) fn put_group(
        &mut self,
        store: &mut Store,
        name: &[u8],
        mut group: Group,
        pending: impl IntoIterator<Item = (StreamId, Pending)>,
    ) -> Outcome {
        let number = group.number;
        for (consumer, of) in &group.consumers {
            check_ending(store)?;
            let key = consumer_key(number, *consumer);
            store.put_element(&self.elements, &key, &write_consumer(of))?;
        }
        for (id, pending) in pending {
            check_ending(store)?;
            store.put_element(&self.elements, &pending_key(number, id), &pending.write())?;
            group.assign(pending.consumer, id);
        }
        self.state(store)?.groups.insert(name.into(), group);
        self.write_group(store, name)
    }

    /// Sets from where a group that is there reads on.
    pub(crate) fn set_group(
        &mut self,
        store: &mut Store,
        name: &[u8],
        last: StreamId,
        entries_read: Option<i64>,
    ) -> Outcome {
        let group = self.known(store, name)?;
        group.last = last;
        group.entries_read = entries_read;
        self.write_group(store, name)
    }

    /// Writes the element of a group.
    pub(crate) fn write_group(&mut self, store: &mut Store, name: &[u8]) -> Outcome {
        let group = self.known(store, name)?;
        let (key, value) = (group_key(group.number), write_group(name, group));
        store.put_element(&self.elements, &key, &value)?;
        self.has_changed_elements = true;
        Ok(())
    }

    /// Removes a group with all that is pending there; returns whether it was there.
    pub(crate) fn destroy_group(&mut self, store: &mut Store, name: &[u8]) -> Outcome<bool> {
        let Some(group) = self.state(store)?.groups.remove(name) else { return Ok(false) };
        for (consumer, of) in &group.consumers {
            for id in &of.pending {
                store.remove_element(&self.elements, &pending_key(group.number, *id))?;
            }
            store.remove_element(&self.elements, &consumer_key(group.number, *consumer))?;
        }
        store.remove_element(&self.elements, &group_key(group.number))?;
        self.has_changed_elements = true;
        Ok(true)
    }

    /// The number of a consumer of a group that is there, and whether it was made now.
    pub(crate) fn find_or_make_consumer(
        &mut self,
        store: &mut Store,
        group: &[u8],
        name: &[u8],
        now_ms: u64,
    ) -> Outcome<(u32, bool)> {
        let of = self.known(store, group)?;
        if let Some((number, _)) = of.consumer(name) {
            return Ok((number, false));
        }
        let number = free_number(of.consumers.keys().copied());
        let (active_ms, pending) = Default::default();
        of.insert(number, Consumer { name: name.into(), seen_ms: now_ms, active_ms, pending });
        self.write_consumer(store, group, number)?;
        Ok((number, true))
    }

    fn write_consumer(&mut self, store: &mut Store, group: &[u8], number: u32) -> Outcome {
        let of = self.known(store, group)?;
        let Some(consumer) = of.consumers.get(&number) else { return Ok(()) };
        let (key, value) = (consumer_key(of.number, number), write_consumer(consumer));
        store.put_element(&self.elements, &key, &value)?;
        self.has_changed_elements = true;
        Ok(())
    }

    /// Removes a consumer with all that is pending with it; returns how much that was.
    pub(crate) fn remove_consumer(
        &mut self,
        store: &mut Store,
        group: &[u8],
        name: &[u8],
    ) -> Outcome<Option<u64>> {
        let of = self.known(store, group)?;
        let Some(number) = of.names.remove(name) else { return Ok(None) };
        let Some(consumer) = of.consumers.remove(&number) else { return Ok(None) };
        let pending = consumer.pending.len() as u64;
        of.pending -= pending;
        let group = of.number;
        for id in &consumer.pending {
            store.remove_element(&self.elements, &pending_key(group, *id))?;
        }
        store.remove_element(&self.elements, &consumer_key(group, number))?;
        self.has_changed_elements = true;
        Ok(Some(pending))
    }

    /// Notes that a consumer tried to read.
    pub(crate) fn note_seen(&self, store: &mut Store, reader: &Reader<'_>) -> Outcome {
        if let Some(consumer) = self.known(store, reader.group)?.consumers.get_mut(&reader.consumer)
        {
            consumer.seen_ms = reader.now_ms;
        }
        Ok(())
    }

    /// Notes that a consumer got an entry. Its record is written at the first time only: later on, what is pending
    /// tells.
    pub(crate) fn note_active(&mut self, store: &mut Store, reader: &Reader<'_>) -> Outcome {
        let of = self.known(store, reader.group)?;
        let Some(consumer) = of.consumers.get_mut(&reader.consumer) else { return Ok(()) };
        let before = consumer.active_ms.replace(reader.now_ms);
        match before {
            Some(_) => Ok(()),
            None => self.write_consumer(store, reader.group, reader.consumer),
        }
    }

    /// The state of an entry that is pending in a group.
    pub(crate) fn pending(
        &self,
        store: &Store,
        group: u32,
        id: StreamId,
    ) -> Outcome<Option<Pending>> {
        let value = store.element(&self.elements, &pending_key(group, id))?;
        value.map(|value| self.read_pending(&value)).transpose()
    }

    fn read_pending(&self, value: &[u8]) -> Outcome<Pending> {
        Pending::read(value).ok_or_else(|| damaged(&self.key, "a pending entry is none"))
    }

    /// Visits the pending entries of a group with ids from `from` on, until `visit` breaks or fails.
    pub(crate) fn visit_pending(
        &self,
        store: &Store,
        group: u32,
        from: StreamId,
        order: Order,
        mut visit: impl FnMut(StreamId, Pending) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        let prefix = pending_prefix(group);
        for pair in store.scan(&self.elements, &pending_key(group, from), order)? {
            let (element, value) = pair?;
            if !element.starts_with(&prefix) {
                break;
            }
            let id = pending_id(&element);
            let id = id.ok_or_else(|| damaged(&self.key, "a pending entry has no id"))?;
            if visit(id, self.read_pending(&value)?)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Sets what is known of a pending entry, in place of what was.
    fn set_pending(
        &mut self,
        store: &mut Store,
        group: &[u8],
        id: StreamId,
        before: Option<Pending>,
        now: Pending,
    ) -> Outcome {
        let number = self.known(store, group)?.number;
        store.put_element(&self.elements, &pending_key(number, id), &now.write())?;
        let group = self.known(store, group)?;
        if let Some(before) = before.filter(|before| before.consumer != now.consumer) {
            group.release(before.consumer, id);
        }
        group.assign(now.consumer, id);
        self.has_changed_elements = true;
        Ok(())
    }

    /// Lets an entry be pending in a group no more; returns whether it was.
    pub(crate) fn acknowledge(
        &mut self,
        store: &mut Store,
        group: &[u8],
        id: StreamId,
    ) -> Outcome<bool> {
        let number = self.known(store, group)?.number;
        let Some(before) = self.pending(store, number, id)? else { return Ok(false) };
        store.remove_element(&self.elements, &pending_key(number, id))?;
        self.known(store, group)?.release(before.consumer, id);
        self.has_changed_elements = true;
        Ok(true)
    }

    /// Whether a group has an entry pending, or has yet to read it.
    pub(crate) fn is_wanted(&self, store: &mut Store, id: StreamId) -> Outcome<bool> {
        let groups = self.state(store)?.groups.values();
        let groups: Vec<_> = groups.map(|group| (group.number, group.last)).collect();
        for (number, last) in groups {
            if id > last || self.pending(store, number, id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets an entry be pending in no group.
    pub(crate) fn acknowledge_everywhere(&mut self, store: &mut Store, id: StreamId) -> Outcome {
        let names: Vec<_> = self.state(store)?.groups.keys().cloned().collect();
        for name in names {
            self.acknowledge(store, &name, id)?;
        }
        Ok(())
    }

    /// Delivers at most `count` entries that the group has not read yet, until `visit` breaks. They are pending then,
    /// unless no acknowledgement is wanted.
    pub(crate) fn read_new(
        &mut self,
        store: &mut Store,
        reader: &Reader<'_>,
        count: u64,
        acknowledged: bool,
        mut visit: impl FnMut(StreamId, &[u8]) -> ControlFlow<()>,
    ) -> Outcome {
        let (mut left, mut has_read) = (count, false);
        'read: while left > 0 {
            let Some(from) = self.known(store, reader.group)?.last.next() else { break };
            let wanted = left.min(READ_AT_ONCE as u64) as usize;
            let entries = self.entries_from(store, from, wanted)?;
            let is_last = entries.len() < wanted;
            for (id, fields) in entries {
                self.read_one(store, reader, acknowledged, id)?;
                has_read = true;
                left -= 1;
                if visit(id, &fields).is_break() {
                    break 'read;
                }
            }
            if is_last {
                break;
            }
        }
        if has_read {
            self.write_group(store, reader.group)?;
            if !acknowledged {
                self.note_active(store, reader)?;
            }
        }
        Ok(())
    }

    /// Moves a group on to an entry, which is pending then.
    fn read_one(
        &mut self,
        store: &mut Store,
        reader: &Reader<'_>,
        acknowledged: bool,
        id: StreamId,
    ) -> Outcome {
        let state = self.state(store)?;
        let of = state.groups.get(reader.group);
        let read = of.and_then(|group| state.read_on(group, id));
        let group = self.known(store, reader.group)?;
        group.entries_read = read;
        group.last = id;
        if acknowledged {
            return Ok(());
        }
        let (number, is_pending) = (group.number, group.pending > 0);
        let before = if is_pending { self.pending(store, number, id)? } else { None };
        let now = Pending { consumer: reader.consumer, delivered_ms: reader.now_ms, count: 1 };
        self.set_pending(store, reader.group, id, before, now)
    }

    /// Delivers at most `count` entries from an id on again that are pending with the consumer, until `visit` breaks.
    /// Those that the stream does not have any more come without fields. That they were delivered again is written, and is
    /// no change of the key, as in Redis: a watch of the key does not see it.
    pub(crate) fn read_again(
        &mut self,
        store: &mut Store,
        reader: &Reader<'_>,
        from: StreamId,
        count: u64,
        mut visit: impl FnMut(StreamId, Option<&[u8]>) -> ControlFlow<()>,
    ) -> Outcome {
        let of = self.known(store, reader.group)?;
        let number = of.number;
        let Some(consumer) = of.consumers.get(&reader.consumer) else { return Ok(()) };
        let pending = consumer.pending.range(from..);
        let ids: Vec<_> =
            pending.take(usize::try_from(count).unwrap_or(usize::MAX)).copied().collect();
        let has_changed = self.has_changed_elements;
        for id in ids {
            let fields = self.get(store, id)?;
            if fields.is_some()
                && let Some(before) = self.pending(store, number, id)?
            {
                let count = before.count.saturating_add(1);
                let now = Pending { delivered_ms: reader.now_ms, count, ..before };
                self.set_pending(store, reader.group, id, Some(before), now)?;
            }
            if visit(id, fields.as_deref()).is_break() {
                break;
            }
        }
        self.has_changed_elements = has_changed;
        Ok(())
    }

    /// Claims an entry for a consumer.
    pub(crate) fn claim(
        &mut self,
        store: &mut Store,
        reader: &Reader<'_>,
        id: StreamId,
        how: &Claiming,
    ) -> Outcome<Claim> {
        let number = self.known(store, reader.group)?.number;
        let before = self.pending(store, number, id)?;
        let Some(fields) = self.get(store, id)? else {
            let was_pending = self.acknowledge(store, reader.group, id)?;
            return Ok(if was_pending { Claim::Gone } else { Claim::Left });
        };
        let count = match before {
            None if !how.force => return Ok(Claim::Left),
            None => 1,
            Some(before) => {
                let idle = (reader.now_ms as i64).saturating_sub(before.delivered_ms as i64);
                if how.min_idle_ms > 0 && idle < how.min_idle_ms as i64 {
                    return Ok(Claim::Left);
                }
                before.count
            }
        };
        let count = how.count.unwrap_or(count.saturating_add(u64::from(!how.only_ids)));
        let now = Pending { consumer: reader.consumer, delivered_ms: how.delivered_ms, count };
        self.set_pending(store, reader.group, id, before, now)?;
        self.note_active(store, reader)?;
        Ok(Claim::Claimed(fields))
    }
}

/// A number that none of these is: the next one, or, behind the last, the first that is free.
fn free_number(used: impl Iterator<Item = u32> + Clone) -> u32 {
    let last = used.clone().max();
    let next = last.map_or(Some(0), |last| last.checked_add(1));
    next.unwrap_or_else(|| {
        let used: std::collections::BTreeSet<u32> = used.collect();
        (0..u32::MAX).find(|number| !used.contains(number)).unwrap_or(u32::MAX)
    })
}
