//! XREAD and XREADGROUP: what came into several streams behind given ids, or is new to a group.
//!
//! A request is read into a [`Request`], which has its ids as they are now; [`serve`] tries once, and tells whether
//! there was anything to reply. If not, the request can be tried again when one of its streams has changed.

use std::time::Duration;

use crate::call::{Call, is};
use crate::collection::stream::{Reader, Stream};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::reply::{Protocol, Reply};
use crate::store::{Awaited, Order};
use crate::stored::Type;
use crate::stream_id::StreamId;

use super::groups::CONSUMER_MADE;
use super::{Room, counted, id, limit, look_up, no_group, write_entry, write_id, write_range};

/// A request of XREAD or XREADGROUP.
#[derive(Debug)]
struct Request {
    /// The group and the consumer, of XREADGROUP.
    reader: Option<(Vec<u8>, Vec<u8>)>,
    count: u64,
    /// Whether what is read counts as acknowledged.
    acknowledged: bool,
    /// How long the client waits if there is nothing, in milliseconds; 0: for ever. Without it, it does not wait.
    block_ms: Option<u64>,
    streams: Vec<(Vec<u8>, From)>,
}

/// The entries of a stream that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// Those behind an id: of the stream, or of what is pending with a consumer.
    Behind(StreamId),
    /// Those that the group has not read.
    New,
}

/// The outcome of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    /// The reply is written.
    Replied,
    /// There is nothing yet.
    Nothing,
}

pub(in crate::commands) fn xread(call: &mut Call<'_>) -> Outcome {
    read(call, false)
}

pub(in crate::commands) fn xreadgroup(call: &mut Call<'_>) -> Outcome {
    read(call, true)
}

fn read(call: &mut Call<'_>, of_group: bool) -> Outcome {
    let request = Request::parse(call, of_group)?;
    if serve(call, &request)? == Served::Replied {
        return Ok(());
    }
    let Some(block_ms) = request.block_ms else {
        call.reply().null_array();
        return Ok(());
    };
    let timeout = (block_ms > 0).then(|| Duration::from_millis(block_ms));
    let keys = request.streams.iter().map(|(key, _)| &key[..]);
    let of = Awaited { of: Type::Stream, or_none: of_group };
    let waits = call.wait_for(of, keys, timeout, |reply| reply.null_array());
    // The last ids are those of the time when the wait began.
    if let Some(wait) = &mut call.client.wait {
        let behind = request.streams.iter().map(|(_, from)| match from {
            From::Behind(id) => *id,
            From::New => StreamId::MIN,
        });
        wait.behind = behind.collect();
    }
    waits
}

impl Request {
    fn parse(call: &mut Call<'_>, of_group: bool) -> Outcome<Self> {
        let mut request = Self {
            reader: None,
            count: u64::MAX,
            acknowledged: false,
            block_ms: None,
            streams: Vec::new(),
        };
        let (words, mut index) = (call.args.len(), 1);
        let streams = loop {
            let Some(word) = call.args.get(index) else { return Err(SYNTAX.into()) };
            let behind = words - index - 1;
            match () {
                () if is(word, "BLOCK") && behind >= 1 => {
                    index += 1;
                    request.block_ms = Some(call.timeout_ms(call.arg(index))?);
                }
                () if is(word, "COUNT") && behind >= 1 => {
                    index += 1;
                    request.count = limit(call.integer(index)?);
                }
                () if is(word, "STREAMS") && behind >= 1 => break index + 1,
                () if is(word, "GROUP") && behind >= 2 => {
                    if !of_group {
                        return Err("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.".into());
                    }
                    let names = (call.arg(index + 1).to_vec(), call.arg(index + 2).to_vec());
                    request.reader = Some(names);
                    index += 2;
                }
                () if is(word, "NOACK") => {
                    if !of_group {
                        return Err("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.".into());
                    }
                    request.acknowledged = true;
                }
                () => return Err(SYNTAX.into()),
            }
            index += 1;
        };
        if !(words - streams).is_multiple_of(2) {
            let (name, mark) = if of_group { ("xreadgroup", '>') } else { ("xread", '$') };
            return Err(format!(
                "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{mark}' must be specified."
            )
            .into());
        }
        if of_group && request.reader.is_none() {
            return Err("ERR Missing GROUP option for XREADGROUP".into());
        }
        let count = (words - streams) / 2;
        for at in streams..streams + count {
            let (key, word) = (call.arg(at), call.arg(at + count));
            let known = call.client.wait.as_ref().and_then(|wait| wait.behind.get(at - streams));
            let known = known.copied().filter(|_| !of_group);
            let from = match known {
                Some(id) => From::Behind(id),
                None => request.from(call, key, word)?,
            };
            request.streams.push((key.to_vec(), from));
        }
        Ok(request)
    }

    /// Which entries of a stream a word asks for.
    fn from(&self, call: &mut Call<'_>, key: &[u8], word: &[u8]) -> Outcome<From> {
        let stream = look_up(call, key)?;
        let store = &mut call.service.store;
        if let Some((group, _)) = &self.reader {
            let found = match &stream {
                Some(stream) => stream.group(store, group)?.is_some(),
                None => false,
            };
            if !found {
                return Err(no_group(key, group, " in XREADGROUP with GROUP option"));
            }
        }
        match (word, &self.reader) {
            (b"$", Some(_)) => Err(meaningless('$')),
            (b"+", Some(_)) => Err(meaningless('+')),
            (b">", Some(_)) => Ok(From::New),
            (b">", None) => Err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.".into()),
            (b"$", None) => match stream {
                Some(stream) => Ok(From::Behind(stream.state(store)?.last)),
                None => Ok(From::Behind(StreamId::MIN)),
            },
            // The last entry, or what comes into an empty stream.
            (b"+", None) => match stream {
                Some(stream) => {
                    let last = stream.last_entry(store)?.and_then(StreamId::previous);
                    Ok(From::Behind(last.unwrap_or(stream.state(store)?.last)))
                }
                None => Ok(From::Behind(StreamId::MIN)),
            },
            // The largest id of all is `>` to a group, as in Redis.
            (word, reader) => Ok(match id(word)? {
                StreamId::MAX if reader.is_some() => From::New,
                id => From::Behind(id),
            }),
        }
    }
}

/// The refusal of an id that a group has no use for.
fn meaningless(id: char) -> Failure {
    format!(
        "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer \
         by specifying a proper ID, or use the > ID to get new messages. The {id} ID would just return an empty result \
         set."
    )
    .into()
}

/// Tries to serve a request, once.
fn serve(call: &mut Call<'_>, request: &Request) -> Outcome<Served> {
    let (room, protocol, start) = (Room::of(call), call.client.protocol, call.out.len());
    let is_map = protocol == Protocol::Resp3;
    let mut count = 0;
    for (key, from) in &request.streams {
        call.check_ending()?;
        let Some(stream) = look_up(call, key)? else { continue };
        let before = call.out.len();
        let mut reply = Reply { out: call.out, protocol };
        if !is_map {
            reply.array(2);
        }
        reply.bulk(key);
        let served = match &request.reader {
            Some(names) => serve_group(call, request, names, stream, *from, room)?,
            None => serve_stream(call, request, &stream, *from, room)?,
        };
        match served {
            Served::Replied => count += 1,
            Served::Nothing => call.out.truncate(before),
        }
    }
    if count == 0 {
        return Ok(Served::Nothing);
    }
    let body = call.out.split_off(start);
    let mut reply = call.reply();
    match is_map {
        true => reply.map(count),
        false => reply.array(count),
    }
    call.out.extend(body);
    Ok(Served::Replied)
}

/// Writes the entries of a stream behind an id.
fn serve_stream(
    call: &mut Call<'_>,
    request: &Request,
    stream: &Stream,
    from: From,
    room: Room,
) -> Outcome<Served> {
    let From::Behind(after) = from else { return Ok(Served::Nothing) };
    let store = &mut call.service.store;
    let (Some(next), Some(last)) = (after.next(), stream.last_entry(store)?) else {
        return Ok(Served::Nothing);
    };
    if last < next {
        return Ok(Served::Nothing);
    }
    let reply = Reply { out: call.out, protocol: call.client.protocol };
    let range = (next, StreamId::MAX);
    write_range(store, stream, range, Order::Ascending, request.count, reply, room)?;
    Ok(Served::Replied)
}

/// Delivers entries to a consumer of a group, and writes them.
fn serve_group(
    call: &mut Call<'_>,
    request: &Request,
    (group, consumer): &(Vec<u8>, Vec<u8>),
    mut stream: Stream,
    from: From,
    room: Room,
) -> Outcome<Served> {
    let store = &mut call.service.store;
    let now_ms = store.now_ms;
    let last = stream.last_entry(store)?;
    let Some(of) = stream.group(store, group)? else { return Ok(Served::Nothing) };
    let is_new = last.is_some_and(|last| last > of.last);
    let (number, is_made) = stream.find_or_make_consumer(store, group, consumer, now_ms)?;
    let reader = Reader { group, consumer: number, now_ms };
    stream.note_seen(store, &reader)?;
    let protocol = call.client.protocol;
    let count = request.count;
    let served = match from {
        From::New if !is_new => Served::Nothing,
        From::New => {
            counted(call.out, protocol, false, |out| {
                let mut written = 0;
                stream.read_new(store, &reader, count, request.acknowledged, |id, fields| {
                    write_entry(&mut Reply { out, protocol }, id, fields);
                    written += 1;
                    room.go_on(out)
                })?;
                Ok(written)
            })?;
            Served::Replied
        }
        From::Behind(after) => {
            counted(call.out, protocol, false, |out| {
                let mut written = 0;
                let Some(next) = after.next() else { return Ok(0) };
                stream.read_again(store, &reader, next, count, |id, fields| {
                    let mut reply = Reply { out, protocol };
                    match fields {
                        Some(fields) => write_entry(&mut reply, id, fields),
                        None => {
                            reply.array(2);
                            write_id(&mut reply, id);
                            reply.null_array();
                        }
                    }
                    written += 1;
                    room.go_on(out)
                })?;
                Ok(written)
            })?;
            Served::Replied
        }
    };
    stream.save_groups(store, is_made.then_some(CONSUMER_MADE))?;
    Ok(served)
}
