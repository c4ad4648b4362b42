//! Commands on hashes. Those about the deadlines of fields are in `fields`.

use crate::call::{Call, is};
use crate::collection::hash::{Field, Hash};
use crate::failure::{Failure, NOT_A_FLOAT, Outcome, SYNTAX};
use crate::long_double::LongDouble;
use crate::number::{Decimal, parse_i64};
use crate::reply::{Protocol, Reply};

use super::counters::is_infinite;
use super::long_reply::LongReply;
use super::scan::{self, ElementOptions};

/// The hash at the command's key, for a command that may change it.
pub(super) fn find(call: &mut Call<'_>) -> Outcome<Option<Hash>> {
    let key = call.arg(1);
    Hash::find(&mut call.service.store, call.client.db, key)
}

/// The hash at the command's key, for a command that only reads: it counts as a hit or a miss.
pub(super) fn read(call: &mut Call<'_>) -> Outcome<Option<Hash>> {
    let hash = find(call)?;
    call.note_lookup(call.arg(1), hash.is_some());
    Ok(hash)
}

/// The hash at the command's key, or a new one, for a command that adds to it.
pub(super) fn find_or_new(call: &mut Call<'_>) -> Outcome<Hash> {
    let key = call.arg(1);
    Hash::find_or_new(&mut call.service.store, call.client.db, key)
}

pub(super) fn hset(call: &mut Call<'_>) -> Outcome {
    let count = set_pairs(call, "hset")?;
    call.reply().integer(count);
    Ok(())
}

pub(super) fn hmset(call: &mut Call<'_>) -> Outcome {
    set_pairs(call, "hmset")?;
    call.reply().ok();
    Ok(())
}

/// Sets fields; returns how many are new.
fn set_pairs(call: &mut Call<'_>, command: &str) -> Outcome<i64> {
    if call.args.len() % 2 == 1 {
        return Err(wrong_number(command));
    }
    let mut hash = find_or_new(call)?;
    let mut count = 0;
    let mut words = call.args.from(2).iter();
    while let (Some(field), Some(value)) = (words.next(), words.next()) {
        call.check_ending()?;
        count += i64::from(hash.put(&mut call.service.store, field, value, None)?);
    }
    hash.save(&mut call.service.store, ["hset"])?;
    Ok(count)
}

pub(super) fn hsetnx(call: &mut Call<'_>) -> Outcome {
    let mut hash = find_or_new(call)?;
    let store = &mut call.service.store;
    let (field, value) =
        (call.args.get(2).unwrap_or_default(), call.args.get(3).unwrap_or_default());
    let is_new = hash.get(store, field)?.is_none();
    if is_new {
        hash.put(store, field, value, None)?;
    }
    hash.save(store, is_new.then_some("hset"))?;
    call.reply().flag(is_new);
    Ok(())
}

/// A field of the hash at the command's key, for a command that only reads.
fn read_field(call: &mut Call<'_>) -> Outcome<Option<Field>> {
    let Some(mut hash) = read(call)? else { return Ok(None) };
    let field = hash.get(&call.service.store, call.arg(2))?;
    hash.close(&mut call.service.store)?;
    Ok(field)
}

pub(super) fn hget(call: &mut Call<'_>) -> Outcome {
    let field = read_field(call)?;
    call.reply().bulk_or_null(field.as_ref().map(Field::value));
    Ok(())
}

pub(super) fn hexists(call: &mut Call<'_>) -> Outcome {
    let field = read_field(call)?;
    call.reply().flag(field.is_some());
    Ok(())
}

pub(super) fn hstrlen(call: &mut Call<'_>) -> Outcome {
    let field = read_field(call)?;
    call.reply().integer(field.map_or(0, |field| field.value().len() as i64));
    Ok(())
}

pub(super) fn hmget(call: &mut Call<'_>) -> Outcome {
    let mut hash = read(call)?;
    let (fields, start) = (call.args.from(2), call.out.len());
    call.reply().array(fields.len());
    for field in fields {
        let value = match &mut hash {
            Some(hash) => hash.get(&call.service.store, field)?,
            None => None,
        };
        call.reply().bulk_or_null(value.as_ref().map(Field::value));
        if !call.must_write_on(start)? {
            break;
        }
    }
    hash.map_or(Ok(()), |hash| hash.close(&mut call.service.store))
}

pub(super) fn hdel(call: &mut Call<'_>) -> Outcome {
    let Some(mut hash) = find(call)? else {
        call.reply().integer(0);
        return Ok(());
    };
    let mut count = 0;
    for field in call.args.from(2) {
        call.check_ending()?;
        count += i64::from(hash.remove(&mut call.service.store, field)?);
    }
    hash.save(&mut call.service.store, (count > 0).then_some("hdel"))?;
    call.reply().integer(count);
    Ok(())
}

pub(super) fn hlen(call: &mut Call<'_>) -> Outcome {
    let hash = read(call)?;
    let len = hash.map_or(Ok(0), |hash| hash.len(&mut call.service.store))?;
    call.reply().integer(len as i64);
    Ok(())
}

/// The parts of fields that are replied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    Fields,
    Values,
    Both,
}

pub(super) fn hgetall(call: &mut Call<'_>) -> Outcome {
    reply_all(call, Parts::Both)
}

pub(super) fn hkeys(call: &mut Call<'_>) -> Outcome {
    reply_all(call, Parts::Fields)
}

pub(super) fn hvals(call: &mut Call<'_>) -> Outcome {
    reply_all(call, Parts::Values)
}

fn reply_all(call: &mut Call<'_>, parts: Parts) -> Outcome {
    let hash = read(call)?;
    let len = match &hash {
        Some(hash) => hash.live_len(&mut call.service.store)? as usize,
        None => 0,
    };
    let (store, mut reply) = LongReply::of(call);
    match parts {
        Parts::Both => reply.write().map(len),
        Parts::Fields | Parts::Values => reply.write().array(len),
    }
    let Some(hash) = hash else { return Ok(()) };
    hash.visit(store, |field, value, _| {
        if parts != Parts::Values {
            reply.write().bulk(field);
        }
        if parts != Parts::Fields {
            reply.write().bulk(value);
        }
        reply.go_on()
    })
}

pub(super) fn hincrby(call: &mut Call<'_>) -> Outcome {
    let amount = call.integer(3)?;
    let mut hash = find_or_new(call)?;
    let (store, field) = (&mut call.service.store, call.args.get(2).unwrap_or_default());
    let old = hash.get(store, field)?;
    let number = match &old {
        Some(old) => parse_i64(old.value()).ok_or("ERR hash value is not an integer")?,
        None => 0,
    };
    let new = number.checked_add(amount).ok_or("ERR increment or decrement would overflow")?;
    let deadline = old.and_then(|old| old.deadline);
    hash.put(store, field, Decimal::new(new).as_bytes(), deadline)?;
    hash.save(store, ["hincrby"])?;
    call.reply().integer(new);
    Ok(())
}

pub(super) fn hincrbyfloat(call: &mut Call<'_>) -> Outcome {
    let amount = match LongDouble::parse(call.arg(3)) {
        Some(amount) => amount,
        None if is_infinite(call.arg(3)) => return Err("ERR value is NaN or Infinity".into()),
        None => return Err(NOT_A_FLOAT.into()),
    };
    let mut hash = find_or_new(call)?;
    let (store, field) = (&mut call.service.store, call.args.get(2).unwrap_or_default());
    let old = hash.get(store, field)?;
    let sum = match &old {
        Some(old) if is_infinite(old.value()) => None,
        Some(old) => {
            let number = LongDouble::parse(old.value());
            number.ok_or("ERR hash value is not a float")?.add(amount)
        }
        None => Some(amount),
    };
    let sum = sum.ok_or("ERR increment would produce NaN or Infinity")?;
    let deadline = old.and_then(|old| old.deadline);
    let text = sum.to_text();
    hash.put(store, field, text.as_bytes(), deadline)?;
    hash.save(store, ["hincrbyfloat"])?;
    call.reply().bulk(text.as_bytes());
    Ok(())
}

pub(super) fn hrandfield(call: &mut Call<'_>) -> Outcome {
    let count = match call.args.len() {
        2 => None,
        _ => Some(call.count_in_range(2)?),
    };
    let with_values = match call.args.get(3) {
        None => false,
        Some(word) if is(word, "WITHVALUES") && call.args.len() == 4 => true,
        Some(_) => return Err(SYNTAX.into()),
    };
    if with_values && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
        return Err("ERR value is out of range".into());
    }
    let hash = match read(call)? {
        Some(hash) => hash.without_expired(&mut call.service.store)?,
        None => None,
    };
    match (hash, count) {
        (None, None) => call.reply().null(),
        (_, Some(0)) | (None, Some(_)) => call.reply().array(0),
        (Some(hash), None) => {
            let service = &mut *call.service;
            let found = hash.sample(&mut service.store, || service.random.u64(..))?;
            call.reply().bulk_or_null(found.as_ref().map(|(field, _)| &field[..]));
        }
        (Some(hash), Some(count @ 1..)) => reply_distinct(call, &hash, count, with_values)?,
        (Some(hash), Some(count)) => reply_drawn(call, &hash, count.unsigned_abs(), with_values)?,
    }
    Ok(())
}

/// Replies with different random fields, so many if there are.
fn reply_distinct(call: &mut Call<'_>, hash: &Hash, count: i64, with_values: bool) -> Outcome {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let service = &mut *call.service;
    let random = || service.random.u64(..);
    let found = hash.sample_distinct(&mut service.store, count, random)?;
    let start = call.out.len();
    begin_random(call, found.len(), with_values);
    for (field, value) in found {
        write_random(&mut call.reply(), &field, with_values.then_some(&value[..]));
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

/// Replies with so many random fields, of which some may be the same.
fn reply_drawn(call: &mut Call<'_>, hash: &Hash, count: u64, with_values: bool) -> Outcome {
    begin_random(call, count as usize, with_values);
    let mut random = call.service.random.fork();
    let (store, mut reply) = LongReply::of(call);
    hash.draw(
        store,
        count,
        || random.u64(..),
        |field, value| {
            write_random(&mut reply.write(), field, with_values.then_some(value));
            reply.go_on()
        },
    )
}

/// Begins a reply of random fields: in RESP3, a field with its value is an array.
fn begin_random(call: &mut Call<'_>, count: usize, with_values: bool) {
    let is_flat = with_values && call.client.protocol == Protocol::Resp2;
    call.reply().array(if is_flat { count.saturating_mul(2) } else { count });
}

fn write_random(reply: &mut Reply<'_>, field: &[u8], value: Option<&[u8]>) {
    if value.is_some() && reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(field);
    value.into_iter().for_each(|value| reply.bulk(value));
}

pub(super) fn hscan(call: &mut Call<'_>) -> Outcome {
    let cursor = scan::element_cursor(call.arg(2))?;
    let Some(hash) = read(call)? else {
        scan::reply_none(call);
        return Ok(());
    };
    let options = ElementOptions::parse(call, true)?;
    let mut page = scan::ElementPage::new(call, &options);
    let next = hash.scan(&call.service.store, cursor, options.count, |field, value| {
        page.look_at(field, (!options.no_values).then_some(value))
    })?;
    page.reply(call, next);
    Ok(())
}

/// The refusal of a number of arguments.
pub(super) fn wrong_number(command: &str) -> Failure {
    format!("ERR wrong number of arguments for '{command}' command").into()
}
