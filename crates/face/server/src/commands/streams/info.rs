//! XINFO: streams, groups and consumers as they are.

use std::ops::ControlFlow;

use crate::call::{Call, is};
use crate::collection::stream::{Pending, Stream};
use crate::failure::{NO_SUCH_KEY, Outcome};
use crate::reply::Reply;
use crate::store::{Order, Store};
use crate::stream_id::StreamId;
use crate::stream_state::{Group, StreamState};

use super::{
    Room, counted, limit, look_up, no_group_of, write_entry, write_id, write_range,
    wrong_subcommand,
};

/// Entries of each list of XINFO STREAM FULL, if the request does not say it.
const LISTED: i64 = 10;

/// Entries of a stream that Redis keeps in one node of its tree.
const IN_NODE: u64 = 100;

fn named(reply: &mut Reply<'_>, name: &str, number: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(number);
}

fn named_id(reply: &mut Reply<'_>, name: &str, id: StreamId) {
    reply.bulk(name.as_bytes());
    write_id(reply, id);
}

fn named_or_null(reply: &mut Reply<'_>, name: &str, number: Option<i64>) {
    reply.bulk(name.as_bytes());
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

/// The beginning of both forms of XINFO STREAM: seven pairs.
fn write_state(reply: &mut Reply<'_>, state: &StreamState) {
    let nodes = state.len.div_ceil(IN_NODE) as i64;
    named(reply, "length", state.len as i64);
    named(reply, "radix-tree-keys", nodes);
    named(reply, "radix-tree-nodes", nodes + 1);
    named_id(reply, "last-generated-id", state.last);
    named_id(reply, "max-deleted-entry-id", state.max_deleted);
    named(reply, "entries-added", state.added as i64);
    named_id(reply, "recorded-first-entry-id", state.first);
}

pub(in crate::commands) fn xinfo_stream(call: &mut Call<'_>) -> Outcome {
    let stream = look_up(call, call.arg(2))?.ok_or(NO_SUCH_KEY)?;
    let words = call.args.from(3);
    let is_full = !words.is_empty();
    let mut count = LISTED;
    if is_full {
        let is_known = is(call.arg(3), "FULL")
            && (words.len() == 1 || words.len() == 3 && is(call.arg(4), "COUNT"));
        if !is_known {
            return Err(wrong_subcommand(call, "XINFO"));
        }
        if words.len() == 3 {
            count = Some(call.integer(5)?).filter(|count| *count >= 0).unwrap_or(LISTED);
        }
    }
    let (room, protocol) = (Room::of(call), call.client.protocol);
    let store = &mut call.service.store;
    let mut reply = Reply { out: call.out, protocol };
    reply.map(if is_full { 9 } else { 10 });
    let state = stream.state(store)?;
    write_state(&mut reply, state);
    if is_full {
        reply.bulk(b"entries");
        let all = (StreamId::MIN, StreamId::MAX);
        let entries = Reply { out: reply.out, protocol };
        write_range(store, &stream, all, Order::Ascending, limit(count), entries, room)?;
        return write_groups_in_full(store, &stream, &mut reply, limit(count), room);
    }
    named(&mut reply, "groups", state.groups.len() as i64);
    for (name, order) in [("first-entry", Order::Ascending), ("last-entry", Order::Descending)] {
        reply.bulk(name.as_bytes());
        let mut found = false;
        stream.visit(store, StreamId::MIN, StreamId::MAX, order, |id, fields| {
            write_entry(&mut reply, id, &fields);
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        if !found {
            reply.null();
        }
    }
    Ok(())
}

/// The groups of XINFO STREAM FULL, with what is pending there and with each consumer.
fn write_groups_in_full(
    store: &mut Store,
    stream: &Stream,
    reply: &mut Reply<'_>,
    count: u64,
    room: Room,
) -> Outcome {
    let names: Vec<_> = stream.state(store)?.groups.keys().cloned().collect();
    reply.bulk(b"groups");
    reply.array(names.len());
    for name in names {
        let state = stream.state(store)?;
        let Some(group) = state.groups.get(&name) else { continue };
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(&name);
        named_id(reply, "last-delivered-id", group.last);
        named_or_null(reply, "entries-read", group.entries_read);
        named_or_null(reply, "lag", state.lag(group));
        named(reply, "pel-count", group.pending as i64);
        let number = group.number;
        let consumers: Vec<_> =
            group.by_name().map(|consumer| Listed::of(consumer, count)).collect();
        let names = group.consumers.iter();
        let names: std::collections::HashMap<u32, Box<[u8]>> =
            names.map(|(number, consumer)| (*number, consumer.name.clone())).collect();
        reply.bulk(b"pending");
        write_pending(store, stream, number, reply, count, &names)?;
        reply.bulk(b"consumers");
        reply.array(consumers.len());
        for consumer in consumers {
            consumer.write(store, stream, number, reply)?;
            if room.go_on(reply.out).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn write_pending(
    store: &Store,
    stream: &Stream,
    group: u32,
    reply: &mut Reply<'_>,
    count: u64,
    names: &std::collections::HashMap<u32, Box<[u8]>>,
) -> Outcome {
    let protocol = reply.protocol;
    counted(reply.out, protocol, false, |out| {
        let mut reply = Reply { out, protocol };
        let mut written = 0;
        let from = (StreamId::MIN, Order::Ascending);
        stream.visit_pending(store, group, from.0, from.1, |id, pending| {
            reply.array(4);
            write_id(&mut reply, id);
            reply.bulk(names.get(&pending.consumer).map_or(&[][..], |name| name));
            reply.integer(pending.delivered_ms as i64);
            reply.integer(pending.count as i64);
            written += 1;
            Ok(match written as u64 == count {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        })?;
        Ok(written)
    })?;
    Ok(())
}

/// A consumer as XINFO STREAM FULL lists it.
struct Listed {
    name: Box<[u8]>,
    seen_ms: u64,
    active_ms: Option<u64>,
    pending: usize,
    /// The first ones that are pending.
    first: Vec<StreamId>,
}

impl Listed {
    fn of(consumer: &crate::stream_state::Consumer, count: u64) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Self {
            name: consumer.name.clone(),
            seen_ms: consumer.seen_ms,
            active_ms: consumer.active_ms,
            pending: consumer.pending.len(),
            first: consumer.pending.iter().take(count).copied().collect(),
        }
    }

    fn write(self, store: &Store, stream: &Stream, group: u32, reply: &mut Reply<'_>) -> Outcome {
        reply.map(5);
        reply.bulk(b"name");
        reply.bulk(&self.name);
        named(reply, "seen-time", self.seen_ms as i64);
        named(reply, "active-time", self.active_ms.map_or(-1, |ms| ms as i64));
        named(reply, "pel-count", self.pending as i64);
        reply.bulk(b"pending");
        reply.array(self.first.len());
        for id in self.first {
            let pending = stream.pending(store, group, id)?;
            let Pending { delivered_ms, count, .. } =
                pending.unwrap_or(Pending { consumer: 0, delivered_ms: 0, count: 0 });
            reply.array(3);
            write_id(reply, id);
            reply.integer(delivered_ms as i64);
            reply.integer(count as i64);
        }
        Ok(())
    }
}

pub(in crate::commands) fn xinfo_groups(call: &mut Call<'_>) -> Outcome {
    let stream = look_up(call, call.arg(2))?.ok_or(NO_SUCH_KEY)?;
    let mut reply = Reply { out: call.out, protocol: call.client.protocol };
    let state = &*stream.state(&mut call.service.store)?;
    reply.array(state.groups.len());
    for (name, group) in &state.groups {
        let Group { last, entries_read, pending, .. } = group;
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        named(&mut reply, "consumers", group.consumers.len() as i64);
        named(&mut reply, "pending", *pending as i64);
        named_id(&mut reply, "last-delivered-id", *last);
        named_or_null(&mut reply, "entries-read", *entries_read);
        named_or_null(&mut reply, "lag", state.lag(group));
    }
    Ok(())
}

pub(in crate::commands) fn xinfo_consumers(call: &mut Call<'_>) -> Outcome {
    let (key, name) = (call.arg(2), call.arg(3));
    let stream = look_up(call, key)?.ok_or(NO_SUCH_KEY)?;
    let now_ms = call.service.store.now_ms;
    let mut reply = Reply { out: call.out, protocol: call.client.protocol };
    let group = stream.group(&mut call.service.store, name)?;
    let group = group.ok_or_else(|| no_group_of(key, name))?;
    reply.array(group.consumers.len());
    for consumer in group.by_name() {
        let since = |ms: u64| now_ms.saturating_sub(ms) as i64;
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        named(&mut reply, "pending", consumer.pending.len() as i64);
        named(&mut reply, "idle", since(consumer.seen_ms));
        named(&mut reply, "inactive", consumer.active_ms.map_or(-1, since));
    }
    Ok(())
}

pub(in crate::commands) fn xinfo_help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <groupname>",
        "    Lists the consumers of a group.",
        "GROUPS <key>",
        "    Lists the groups of a stream.",
        "STREAM <key> [FULL [COUNT <count>]]",
        "    Tells how a stream is, in full with its entries, its groups, and what is pending.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
