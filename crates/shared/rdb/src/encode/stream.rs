//! Streams, in their second and third form (`decode::stream` has the layout).
//!
//! The entries of a node are items of a listpack:
//!
//! ```text
//! entries | deleted entries | names | name... | 0 | entry...
//!
//! An entry:     flags | ms and sequence, less those of the node's id | fields | items of the entry before this
//! The fields:   if they have the names of the node's first entry, their values; else fields | (name | value)...
//! ```
//!
//! The node's id is that of its first entry, whose fields' names come first.

use std::io::{self, Write};

use super::Unwritable;
use crate::codes::{entry_flags, types};
use crate::packed::Builder;
use crate::sink::Sink;
use crate::stream::{Consumer, Entry, Group, Id, Stream};

/// The most entries of a node.
const NODE_COUNT_MAX: usize = 100;
/// A node of as many bytes takes no more entries.
const NODE_LEN_MAX: usize = 4096;

/// Refuses a stream with a pending entry that is of no consumer.
pub(super) fn check(stream: &Stream) -> Result<(), Unwritable> {
    let is_without = |group: &Group| {
        group.pending.iter().any(|pending| pending.consumer >= group.consumers.len())
    };
    match stream.groups.iter().any(is_without) {
        true => Err(Unwritable::NoConsumer),
        false => Ok(()),
    }
}

pub(super) fn write<W: Write>(sink: &mut Sink<W>, stream: &Stream, code: u8) -> io::Result<()> {
    let nodes = nodes_of(&stream.entries);
    sink.length(nodes.len() as u64)?;
    for node in &nodes {
        sink.string(&node[0].id.to_bytes())?;
        sink.string(&listpack(node))?;
    }
    sink.length(stream.entries.len() as u64)?;
    let first_id = stream.entries.first().map_or(Id::default(), |entry| entry.id);
    for id in [stream.last_id, first_id, stream.max_deleted_id] {
        put_id(sink, id)?;
    }
    sink.length(stream.entries_added)?;
    sink.length(stream.groups.len() as u64)?;
    stream.groups.iter().try_for_each(|group| put_group(sink, group, code))
}

fn put_id<W: Write>(sink: &mut Sink<W>, id: Id) -> io::Result<()> {
    sink.length(id.ms)?;
    sink.length(id.sequence)
}

/// The entries of each node.
fn nodes_of(entries: &[Entry]) -> Vec<&[Entry]> {
    let (mut nodes, mut begin, mut len) = (Vec::new(), 0, 0);
    for (at, entry) in entries.iter().enumerate() {
        let fields = entry.fields.iter().map(|(name, value)| name.len() + value.len() + 4);
        let entry_len = fields.sum::<usize>();
        if begin < at && (at - begin == NODE_COUNT_MAX || len + entry_len > NODE_LEN_MAX) {
            nodes.push(&entries[begin..at]);
            (begin, len) = (at, 0);
        }
        len += entry_len;
    }
    if begin < entries.len() {
        nodes.push(&entries[begin..]);
    }
    nodes
}

fn listpack(node: &[Entry]) -> Vec<u8> {
    let mut builder = Builder::new();
    let (id, names) = (node[0].id, &node[0].fields);
    builder.push_integer(node.len() as i64);
    builder.push_integer(0);
    builder.push_integer(names.len() as i64);
    names.iter().for_each(|(name, _)| builder.push(name));
    builder.push_integer(0);
    for entry in node {
        let names_of_entry = entry.fields.iter().map(|(name, _)| name);
        let is_same = names.iter().map(|(name, _)| name).eq(names_of_entry);
        let begin = builder.count();
        builder.push_integer(if is_same { entry_flags::SAME_FIELDS as i64 } else { 0 });
        builder.push_integer(entry.id.ms.wrapping_sub(id.ms).cast_signed());
        builder.push_integer(entry.id.sequence.wrapping_sub(id.sequence).cast_signed());
        if !is_same {
            builder.push_integer(entry.fields.len() as i64);
        }
        for (name, value) in &entry.fields {
            if !is_same {
                builder.push(name);
            }
            builder.push(value);
        }
        builder.push_integer((builder.count() - begin) as i64);
    }
    builder.finish()
}

fn put_group<W: Write>(sink: &mut Sink<W>, group: &Group, code: u8) -> io::Result<()> {
    sink.string(&group.name)?;
    put_id(sink, group.last_id)?;
    // -1 stands for a number that is not known.
    sink.length(group.entries_read.unwrap_or(u64::MAX))?;
    sink.length(group.pending.len() as u64)?;
    let mut of_consumers = vec![Vec::new(); group.consumers.len()];
    for pending in &group.pending {
        sink.bytes(&pending.id.to_bytes())?;
        sink.bytes(&pending.delivered_ms.to_le_bytes())?;
        sink.length(pending.deliveries)?;
        // `check` refused one of no consumer.
        if let Some(of_consumer) = of_consumers.get_mut(pending.consumer) {
            of_consumer.push(pending.id);
        }
    }
    sink.length(group.consumers.len() as u64)?;
    for (consumer, pending) in group.consumers.iter().zip(of_consumers) {
        put_consumer(sink, consumer, code)?;
        sink.length(pending.len() as u64)?;
        pending.into_iter().try_for_each(|id| sink.bytes(&id.to_bytes()))?;
    }
    Ok(())
}

fn put_consumer<W: Write>(sink: &mut Sink<W>, consumer: &Consumer, code: u8) -> io::Result<()> {
    sink.string(&consumer.name)?;
    sink.bytes(&consumer.seen_ms.to_le_bytes())?;
    match code {
        types::STREAM_3 => sink.bytes(&consumer.active_ms.unwrap_or(-1).to_le_bytes()),
        _ => Ok(()),
    }
}
