//! Commands on streams.
//!
//! `entries` has those on the entries themselves, with the options of `trimming`; `reading` has XREAD and XREADGROUP;
//! `groups` has groups and acknowledgements, `pending` what is pending and moves between consumers, and `info` what
//! XINFO tells. All find their [`Stream`], which does the work, and write the reply.

mod entries;
mod groups;
mod info;
mod pending;
mod reading;
mod trimming;

use std::ops::ControlFlow;

pub(super) use entries::{xadd, xdel, xdelex, xlen, xrange, xrevrange, xsetid, xtrim};
pub(super) use groups::{
    xack, xackdel, xgroup_create, xgroup_createconsumer, xgroup_delconsumer, xgroup_destroy,
    xgroup_help, xgroup_setid,
};
pub(super) use info::{xinfo_consumers, xinfo_groups, xinfo_help, xinfo_stream};
pub(super) use pending::{xautoclaim, xclaim, xpending};
pub(super) use reading::{xread, xreadgroup};

use crate::call::Call;
use crate::collection::packed::entries_of;
use crate::collection::stream::Stream;
use crate::failure::{Failure, Outcome, shown};
use crate::reply::{Protocol, Reply};
use crate::store::{Order, Store};
use crate::stream_id::StreamId;

const INVALID_ID: &str = "ERR Invalid stream ID specified as stream command argument";

/// The stream at a key, for a command that changes it.
fn find(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<Stream>> {
    Stream::find(&mut call.service.store, call.client.db, key)
}

/// The stream at a key, for a command that only reads: it counts as a hit or a miss.
fn look_up(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<Stream>> {
    let found = find(call, key);
    call.note_lookup(key, !matches!(found, Ok(None)));
    found
}

/// A word as an id.
fn id(word: &[u8]) -> Outcome<StreamId> {
    StreamId::parse(word, 0).ok_or_else(|| INVALID_ID.into())
}

/// The first id of a range; behind `(` is the one before it.
fn lower_bound(word: &[u8]) -> Outcome<StreamId> {
    match word {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let next = id(rest)?.next();
            next.ok_or_else(|| "ERR invalid start ID for the interval".into())
        }
        _ => StreamId::parse_bound(word, 0).ok_or_else(|| INVALID_ID.into()),
    }
}

/// The last id of a range; behind `(` is the one behind it.
fn upper_bound(word: &[u8]) -> Outcome<StreamId> {
    match word {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let of = StreamId::parse(rest, u64::MAX).ok_or(INVALID_ID)?;
            of.previous().ok_or_else(|| "ERR invalid end ID for the interval".into())
        }
        _ => StreamId::parse_bound(word, u64::MAX).ok_or_else(|| INVALID_ID.into()),
    }
}

/// The refusal of a command about a group that is not there.
fn no_group(key: &[u8], group: &[u8], behind: &str) -> Failure {
    let text = [b"NOGROUP No such key '", shown(key), b"' or consumer group '", shown(group), b"'"];
    [&text.concat(), behind.as_bytes()].concat().into()
}

/// The refusal of a command on a group of a stream that is there.
fn no_group_of(key: &[u8], group: &[u8]) -> Failure {
    let group = [b"NOGROUP No such consumer group '", shown(group)].concat();
    [&group, &b"' for key name '"[..], shown(key), b"'"].concat().into()
}

/// The refusal of a subcommand with other words than it takes.
fn wrong_subcommand(call: &Call<'_>, command: &str) -> Failure {
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    let word = call.arg(1);
    Failure::quoting(before, &word[..word.len().min(128)], &format!("'. Try {command} HELP."))
}

/// The end of a reply, beyond which it need not be written: its client is dropped.
#[derive(Debug, Clone, Copy)]
struct Room {
    end: usize,
}

impl Room {
    /// The room of a reply that begins now.
    fn of(call: &Call<'_>) -> Self {
        Self { end: call.out.len().saturating_add(call.service.settings.reply_len_max()) }
    }

    fn go_on(self, out: &[u8]) -> ControlFlow<()> {
        if out.len() <= self.end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Writes an array, or with `is_map` a map, whose length is known only when its items are written.
fn counted(
    out: &mut Vec<u8>,
    protocol: Protocol,
    is_map: bool,
    write: impl FnOnce(&mut Vec<u8>) -> Outcome<usize>,
) -> Outcome<usize> {
    let start = out.len();
    let count = write(out)?;
    let mut head = Vec::new();
    let mut reply = Reply { out: &mut head, protocol };
    match is_map {
        true => reply.map(count),
        false => reply.array(count),
    }
    out.splice(start..start, head);
    Ok(count)
}

fn write_id(reply: &mut Reply<'_>, id: StreamId) {
    reply.bulk(id.to_string().as_bytes());
}

/// Writes an entry: its id, and its fields with their values.
fn write_entry(reply: &mut Reply<'_>, id: StreamId, fields: &[u8]) {
    reply.array(2);
    write_id(reply, id);
    reply.array(entries_of(fields).count());
    entries_of(fields).for_each(|(_, word)| reply.bulk(word));
}

/// Writes at most `count` entries of a range, as an array.
fn write_range(
    store: &Store,
    stream: &Stream,
    (from, to): (StreamId, StreamId),
    order: Order,
    count: u64,
    reply: Reply<'_>,
    room: Room,
) -> Outcome {
    let protocol = reply.protocol;
    counted(reply.out, protocol, false, |out| {
        let mut written = 0;
        stream.visit(store, from, to, order, |id, fields| {
            if store.ending.breaks_off() {
                return Err(Failure::Interrupted);
            }
            write_entry(&mut Reply { out, protocol }, id, &fields);
            written += 1;
            Ok(if written as u64 == count { ControlFlow::Break(()) } else { room.go_on(out) })
        })?;
        Ok(written)
    })?;
    Ok(())
}

/// The count of a word that may say 0 for no limit, and so says everything below.
fn limit(count: i64) -> u64 {
    u64::try_from(count).ok().filter(|count| *count > 0).unwrap_or(u64::MAX)
}
