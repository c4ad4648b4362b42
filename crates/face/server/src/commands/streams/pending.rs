//! Entries that were delivered and not acknowledged: XPENDING tells them, XCLAIM and XAUTOCLAIM give them to other consumers.

use std::ops::ControlFlow;

use crate::call::{Call, is};
use crate::collection::stream::{Claim, Claiming, Reader, Stream};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::number::{Decimal, parse_i64};
use crate::reply::{Protocol, Reply};
use crate::store::Order;
use crate::stream_id::StreamId;

use super::groups::CONSUMER_MADE;
use super::{
    Room, counted, id, look_up, lower_bound, no_group, upper_bound, write_entry, write_id,
};

/// The part of what is pending that the longer form of XPENDING asks for.
#[derive(Debug)]
struct Wanted<'a> {
    min_idle_ms: i64,
    from: StreamId,
    to: StreamId,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Wanted<'a> {
    fn parse(call: &Call<'a>) -> Outcome<Option<Self>> {
        let words = call.args.len();
        if words == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&words) {
            return Err(SYNTAX.into());
        }
        let (mut index, mut min_idle_ms) = (3, 0);
        if is(call.arg(3), "IDLE") {
            min_idle_ms = call.integer(4)?;
            if words < 8 {
                return Err(SYNTAX.into());
            }
            index = 5;
        }
        let count = u64::try_from(call.integer(index + 2)?).unwrap_or(0);
        let (from, to) = (lower_bound(call.arg(index))?, upper_bound(call.arg(index + 1))?);
        let consumer = call.args.get(index + 3);
        Ok(Some(Self { min_idle_ms, from, to, count, consumer }))
    }
}

pub(in crate::commands) fn xpending(call: &mut Call<'_>) -> Outcome {
    let wanted = Wanted::parse(call)?;
    let (key, group) = (call.arg(1), call.arg(2));
    let stream = look_up(call, key)?;
    let stream = stream.ok_or_else(|| no_group(key, group, ""))?;
    if stream.group(&mut call.service.store, group)?.is_none() {
        return Err(no_group(key, group, ""));
    }
    match wanted {
        None => sum_up(call, &stream, group),
        Some(wanted) => list(call, &stream, group, &wanted),
    }
}

/// How much is pending, from which id to which, and how much with which consumer.
fn sum_up(call: &mut Call<'_>, stream: &Stream, name: &[u8]) -> Outcome {
    let room = Room::of(call);
    let mut reply = Reply { out: call.out, protocol: call.client.protocol };
    let store = &mut call.service.store;
    let Some(group) = stream.group(store, name)? else { return Ok(()) };
    let (number, pending) = (group.number, group.pending);
    reply.array(4);
    reply.integer(pending as i64);
    if pending == 0 {
        reply.null();
        reply.null();
        reply.null_array();
        return Ok(());
    }
    for (from, order) in [(StreamId::MIN, Order::Ascending), (StreamId::MAX, Order::Descending)] {
        stream.visit_pending(store, number, from, order, |id, _| {
            write_id(&mut reply, id);
            Ok(ControlFlow::Break(()))
        })?;
    }
    let Some(group) = stream.group(store, name)? else { return Ok(()) };
    let with_some = || group.by_name().filter(|consumer| !consumer.pending.is_empty());
    reply.array(with_some().count());
    for consumer in with_some() {
        reply.array(2);
        reply.bulk(&consumer.name);
        reply.bulk(Decimal::unsigned(consumer.pending.len() as u64).as_bytes());
        if room.go_on(reply.out).is_break() {
            break;
        }
    }
    Ok(())
}

fn list(call: &mut Call<'_>, stream: &Stream, name: &[u8], wanted: &Wanted<'_>) -> Outcome {
    let (room, protocol) = (Room::of(call), call.client.protocol);
    let store = &mut call.service.store;
    let Some(group) = stream.group(store, name)? else { return Ok(()) };
    let number = group.number;
    let names: std::collections::HashMap<u32, Box<[u8]>> =
        group.consumers.iter().map(|(number, of)| (*number, of.name.clone())).collect();
    let of_consumer = match wanted.consumer.map(|consumer| group.consumer(consumer)) {
        Some(None) => {
            call.reply().array(0);
            return Ok(());
        }
        Some(Some((_, consumer))) if wanted.from <= wanted.to => {
            Some(consumer.pending.range(wanted.from..=wanted.to).copied().collect::<Vec<_>>())
        }
        Some(Some(_)) => Some(Vec::new()),
        None => None,
    };
    let now_ms = store.now_ms;
    counted(call.out, protocol, false, |out| {
        let mut written = 0;
        let mut write = |id: StreamId, pending: crate::collection::stream::Pending| {
            if id > wanted.to || written as u64 == wanted.count {
                return ControlFlow::Break(());
            }
            let idle = (now_ms as i64).saturating_sub(pending.delivered_ms as i64);
            if wanted.min_idle_ms != 0 && idle < wanted.min_idle_ms {
                return ControlFlow::Continue(());
            }
            let mut reply = Reply { out, protocol };
            reply.array(4);
            write_id(&mut reply, id);
            reply.bulk(names.get(&pending.consumer).map_or(&[][..], |name| name));
            reply.integer(idle.max(0));
            reply.integer(pending.count as i64);
            written += 1;
            room.go_on(out)
        };
        match of_consumer {
            Some(ids) => {
                for id in ids {
                    if let Some(pending) = stream.pending(store, number, id)?
                        && write(id, pending).is_break()
                    {
                        break;
                    }
                }
            }
            None => {
                stream.visit_pending(
                    store,
                    number,
                    wanted.from,
                    Order::Ascending,
                    |id, pending| {
                        if store.ending.breaks_off() {
                            return Err(Failure::Interrupted);
                        }
                        Ok(write(id, pending))
                    },
                )?;
            }
        }
        Ok(written)
    })?;
    Ok(())
}

/// The least time for which an entry that is claimed was with its consumer.
fn min_idle(call: &Call<'_>, command: &str) -> Outcome<u64> {
    let time = parse_i64(call.arg(4));
    let time = time.ok_or_else(|| format!("ERR Invalid min-idle-time argument for {command}"))?;
    Ok(u64::try_from(time).unwrap_or(0))
}

/// The stream with the group of a claim.
fn claimed_from(call: &mut Call<'_>) -> Outcome<Stream> {
    let (key, group) = (call.arg(1), call.arg(2));
    let stream = look_up(call, key)?.ok_or_else(|| no_group(key, group, ""))?;
    match stream.group(&mut call.service.store, group)? {
        Some(_) => Ok(stream),
        None => Err(no_group(key, group, "")),
    }
}

/// The options of XCLAIM behind the ids.
struct Options {
    delivered_ms: Option<i64>,
    count: Option<u64>,
    force: bool,
    only_ids: bool,
    last: StreamId,
}

impl Options {
    fn parse(call: &Call<'_>, mut index: usize, now_ms: u64) -> Outcome<Self> {
        let mut options = Self {
            delivered_ms: None,
            count: None,
            force: false,
            only_ids: false,
            last: StreamId::MIN,
        };
        while let Some(word) = call.args.get(index) {
            let value = call.args.get(index + 1);
            let number = |option: &str| {
                let number = value.and_then(parse_i64);
                let why = || format!("ERR Invalid {option} option argument for XCLAIM");
                number.ok_or_else(|| Failure::from(why()))
            };
            let has_value = value.is_some();
            index += 1;
            match () {
                () if is(word, "FORCE") => options.force = true,
                () if is(word, "JUSTID") => options.only_ids = true,
                () if has_value && is(word, "IDLE") => {
                    let idle = number("IDLE")?;
                    options.delivered_ms = Some((now_ms as i64).wrapping_sub(idle));
                    index += 1;
                }
                () if has_value && is(word, "TIME") => {
                    options.delivered_ms = Some(number("TIME")?);
                    index += 1;
                }
                () if has_value && is(word, "RETRYCOUNT") => {
                    options.count = u64::try_from(number("RETRYCOUNT")?).ok();
                    index += 1;
                }
                () if has_value && is(word, "LASTID") => {
                    options.last = id(value.unwrap_or_default())?;
                    index += 1;
                }
                () => return Err(Failure::quoting("ERR Unrecognized XCLAIM option '", word, "'")),
            }
        }
        Ok(options)
    }
}

pub(in crate::commands) fn xclaim(call: &mut Call<'_>) -> Outcome {
    let mut stream = claimed_from(call)?;
    let min_idle_ms = min_idle(call, "XCLAIM")?;
    let now_ms = call.service.store.now_ms;
    let ids: Vec<_> = call.args.from(5).iter().map_while(|word| id(word).ok()).collect();
    let options = Options::parse(call, 5 + ids.len(), now_ms)?;
    let (group, consumer) = (call.arg(2), call.arg(3));
    let (room, protocol) = (Room::of(call), call.client.protocol);
    let store = &mut call.service.store;
    if let Some(of) = stream.group(store, group)?
        && options.last > of.last
    {
        of.last = options.last;
        stream.write_group(store, group)?;
    }
    // A time that is none, or is to come, is taken for now, as by Redis.
    let delivered = options.delivered_ms.and_then(|time| u64::try_from(time).ok());
    let how = Claiming {
        min_idle_ms,
        delivered_ms: delivered.filter(|time| *time <= now_ms).unwrap_or(now_ms),
        count: options.count,
        force: options.force,
        only_ids: options.only_ids,
    };
    let (number, is_made) = stream.find_or_make_consumer(store, group, consumer, now_ms)?;
    let reader = Reader { group, consumer: number, now_ms };
    stream.note_seen(store, &reader)?;
    counted(call.out, protocol, false, |out| {
        let mut written = 0;
        for id in ids {
            if store.ending.breaks_off() {
                return Err(Failure::Interrupted);
            }
            if let Claim::Claimed(fields) = stream.claim(store, &reader, id, &how)? {
                write_claimed(out, protocol, how.only_ids, id, &fields);
                written += 1;
            }
            if room.go_on(out).is_break() {
                break;
            }
        }
        Ok(written)
    })?;
    stream.save_groups(store, is_made.then_some(CONSUMER_MADE))
}

fn write_claimed(
    out: &mut Vec<u8>,
    protocol: Protocol,
    only_ids: bool,
    id: StreamId,
    fields: &[u8],
) {
    let mut reply = Reply { out, protocol };
    match only_ids {
        true => write_id(&mut reply, id),
        false => write_entry(&mut reply, id, fields),
    }
}

/// Pending entries that XAUTOCLAIM looks at, for each that it may claim.
const LOOKED_AT: u64 = 10;

/// The highest COUNT of XAUTOCLAIM that Redis takes: the most ids that it could have in memory.
const COUNT_MAX: i64 = i64::MAX / 16;

pub(in crate::commands) fn xautoclaim(call: &mut Call<'_>) -> Outcome {
    let min_idle_ms = min_idle(call, "XAUTOCLAIM")?;
    let from = lower_bound(call.arg(5))?;
    let (mut count, mut only_ids, mut index) = (100, false, 6);
    while let Some(word) = call.args.get(index) {
        index += 1;
        if is(word, "COUNT") && index < call.args.len() {
            let wanted = parse_i64(call.arg(index)).filter(|count| (1..=COUNT_MAX).contains(count));
            count = wanted.ok_or("ERR COUNT must be > 0")? as u64;
            index += 1;
        } else if is(word, "JUSTID") {
            only_ids = true;
        } else {
            return Err(SYNTAX.into());
        }
    }
    let mut stream = claimed_from(call)?;
    let (group, consumer) = (call.arg(2), call.arg(3));
    let (room, protocol) = (Room::of(call), call.client.protocol);
    let store = &mut call.service.store;
    let now_ms = store.now_ms;
    let how = Claiming { min_idle_ms, delivered_ms: now_ms, count: None, force: false, only_ids };
    let (number, is_made) = stream.find_or_make_consumer(store, group, consumer, now_ms)?;
    let reader = Reader { group, consumer: number, now_ms };
    stream.note_seen(store, &reader)?;
    let Some(of) = stream.group(store, group)? else { return Ok(()) };
    let (number, mut left) = (of.number, count);
    let (mut looks, mut next) = (count.saturating_mul(LOOKED_AT), Some(from));
    let (mut claimed, mut written, mut gone) = (Vec::new(), 0, Vec::new());
    // The pending entries in steps: each is read before it is changed.
    while let Some(at) = next
        && looks > 0
        && left > 0
    {
        let mut ids = Vec::new();
        let step = looks.min(STEP) as usize;
        next = None;
        stream.visit_pending(store, number, at, Order::Ascending, |id, _| {
            if ids.len() == step {
                next = Some(id);
                return Ok(ControlFlow::Break(()));
            }
            ids.push(id);
            Ok(ControlFlow::Continue(()))
        })?;
        for id in ids {
            if left == 0 || room.go_on(&claimed).is_break() {
                next = Some(id);
                left = 0;
                break;
            }
            if store.ending.breaks_off() {
                return Err(Failure::Interrupted);
            }
            looks -= 1;
            match stream.claim(store, &reader, id, &how)? {
                Claim::Claimed(fields) => {
                    write_claimed(&mut claimed, protocol, only_ids, id, &fields);
                    written += 1;
                    left -= 1;
                }
                Claim::Gone => {
                    gone.push(id);
                    left -= 1;
                }
                Claim::Left => {}
            }
        }
    }
    stream.save_groups(store, is_made.then_some(CONSUMER_MADE))?;
    let mut reply = call.reply();
    reply.array(3);
    write_id(&mut reply, next.unwrap_or(StreamId::MIN));
    reply.array(written);
    reply.out.append(&mut claimed);
    reply.array(gone.len());
    gone.into_iter().for_each(|id| write_id(&mut reply, id));
    Ok(())
}

/// Pending entries that XAUTOCLAIM reads at once.
const STEP: u64 = 256;
