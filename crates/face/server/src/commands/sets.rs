//! Commands on single sets, and SMOVE. Those that combine sets are in `set_algebra`.

use crate::call::Call;
use crate::collection::map::{Map, Pair};
use crate::failure::{Outcome, SYNTAX};
use crate::notifications::EventClass;
use crate::number::parse_i64;
use crate::stored::Type;

use super::long_reply::LongReply;
use super::scan::{self, ElementOptions};

/// The set at a key, for a command that changes it.
fn find(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<Map>> {
    Map::find(&mut call.service.store, call.client.db, key, Type::Set)
}

/// The set at a key, for a command that only reads: it counts as a hit or a miss.
pub(super) fn read(call: &mut Call<'_>, key: &[u8]) -> Outcome<Option<Map>> {
    let set = find(call, key)?;
    call.note_lookup(key, set.is_some());
    Ok(set)
}

pub(super) fn sadd(call: &mut Call<'_>) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    let mut set = Map::find_or_new(&mut call.service.store, db, key, Type::Set)?;
    set.expect(&mut call.service.store, call.args.len() - 2)?;
    let mut count = 0;
    for member in call.args.from(2) {
        call.check_ending()?;
        count += i64::from(set.put(&mut call.service.store, member, b"")?);
    }
    set.save(&mut call.service.store, (count > 0).then_some("sadd"))?;
    call.reply().integer(count);
    Ok(())
}

pub(super) fn srem(call: &mut Call<'_>) -> Outcome {
    let mut count = 0;
    if let Some(mut set) = find(call, call.arg(1))? {
        for member in call.args.from(2) {
            call.check_ending()?;
            count += i64::from(set.remove(&mut call.service.store, member)?);
        }
        set.save(&mut call.service.store, (count > 0).then_some("srem"))?;
    }
    call.reply().integer(count);
    Ok(())
}

pub(super) fn sismember(call: &mut Call<'_>) -> Outcome {
    let set = read(call, call.arg(1))?;
    let is_member = match set {
        Some(set) => set.contains(&call.service.store, call.arg(2))?,
        None => false,
    };
    call.reply().flag(is_member);
    Ok(())
}

pub(super) fn smismember(call: &mut Call<'_>) -> Outcome {
    let set = read(call, call.arg(1))?;
    let members = call.args.from(2);
    call.reply().array(members.len());
    for member in members {
        call.check_ending()?;
        let is_member = match &set {
            Some(set) => set.contains(&call.service.store, member)?,
            None => false,
        };
        call.reply().flag(is_member);
    }
    Ok(())
}

pub(super) fn scard(call: &mut Call<'_>) -> Outcome {
    let set = read(call, call.arg(1))?;
    let len = set.map_or(Ok(0), |set| set.len(&mut call.service.store))?;
    call.reply().integer(len as i64);
    Ok(())
}

pub(super) fn smembers(call: &mut Call<'_>) -> Outcome {
    let set = read(call, call.arg(1))?;
    reply_all(call, set)
}

/// Replies with all members of a set.
pub(super) fn reply_all(call: &mut Call<'_>, set: Option<Map>) -> Outcome {
    let (store, mut reply) = LongReply::of(call);
    let Some(set) = set else {
        reply.write().set(0);
        return Ok(());
    };
    reply.write().set(set.len(store)? as usize);
    set.visit(store, |member, _| {
        reply.write().bulk(member);
        reply.go_on()
    })
}

pub(super) fn smove(call: &mut Call<'_>) -> Outcome {
    let (from, to, member) = (call.arg(1), call.arg(2), call.arg(3));
    let moved = match find(call, from)? {
        None => false,
        Some(source) => {
            let target = find(call, to)?;
            move_member(call, source, target, member)?
        }
    };
    call.reply().flag(moved);
    Ok(())
}

fn move_member(
    call: &mut Call<'_>,
    mut source: Map,
    target: Option<Map>,
    member: &[u8],
) -> Outcome<bool> {
    let (db, to) = (call.client.db, call.arg(2));
    let store = &mut call.service.store;
    if call.args.get(1) == call.args.get(2) {
        return source.contains(store, member);
    }
    if !source.remove(store, member)? {
        return Ok(false);
    }
    source.save(store, ["srem"])?;
    let mut target = target.unwrap_or_else(|| Map::new(db, to, Type::Set));
    let is_new = target.put(store, member, b"")?;
    target.save(store, is_new.then_some("sadd"))?;
    Ok(true)
}

pub(super) fn spop(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        2 => pop_one(call),
        3 => pop_many(call),
        _ => Err(SYNTAX.into()),
    }
}

fn pop_one(call: &mut Call<'_>) -> Outcome {
    let mut popped = None;
    if let Some(mut set) = find(call, call.arg(1))? {
        let service = &mut *call.service;
        popped = set.sample(&mut service.store, || service.random.u64(..))?;
        if let Some((member, _)) = &popped {
            set.remove(&mut service.store, member)?;
        }
        set.save(&mut service.store, popped.as_ref().map(|_| "spop"))?;
    }
    call.reply().bulk_or_null(popped.as_ref().map(|(member, _)| &member[..]));
    Ok(())
}

fn pop_many(call: &mut Call<'_>) -> Outcome {
    let count = parse_i64(call.arg(2)).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or("ERR value is out of range, must be positive")?;
    let (db, key) = (call.client.db, call.arg(1));
    let Some(set) = find(call, key)?.filter(|_| count > 0) else {
        call.reply().set(0);
        return Ok(());
    };
    let service = &mut *call.service;
    let len = set.len(&mut service.store)? as usize;
    if count >= len {
        // All of them go with the key.
        let set = find(call, key)?;
        reply_all(call, set)?;
        call.service.store.remove(db, key)?;
        call.notify(EventClass::Set, "spop", key);
        call.notify(EventClass::Generic, "del", key);
        return Ok(());
    }
    let mut left = Vec::new();
    let popped = if count <= len / 2 {
        set.sample_distinct(&mut service.store, count, || service.random.u64(..))?
    } else {
        let mut all = set.sample_distinct(&mut service.store, len, || service.random.u64(..))?;
        left = all.split_off(count);
        all
    };
    take_out(call, set, &popped, &left)?;
    let start = call.out.len();
    call.reply().set(popped.len());
    for (member, _) in popped {
        call.reply().bulk(&member);
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

/// Removes members from a set. Where most are removed, those that are left are known: they become a set of their own, and
/// the elements of the other one go without being touched.
fn take_out(call: &mut Call<'_>, mut set: Map, popped: &[Pair], left: &[Pair]) -> Outcome {
    if left.is_empty() || set.is_packed() {
        for (member, _) in popped {
            call.check_ending()?;
            set.remove(&mut call.service.store, member)?;
        }
        return set.save(&mut call.service.store, ["spop"]);
    }
    let mut rest = Map::new(call.client.db, call.arg(1), Type::Set);
    for (member, _) in left {
        call.check_ending()?;
        rest.put(&mut call.service.store, member, b"")?;
    }
    rest.save(&mut call.service.store, ["spop"])
}

pub(super) fn srandmember(call: &mut Call<'_>) -> Outcome {
    let count = match call.args.len() {
        2 => None,
        3 => Some(call.count_in_range(2)?),
        _ => return Err(SYNTAX.into()),
    };
    let set = read(call, call.arg(1))?;
    match (set, count) {
        (None, None) => call.reply().null(),
        (None, Some(_)) | (_, Some(0)) => call.reply().array(0),
        (Some(set), None) => {
            let service = &mut *call.service;
            let drawn = set.sample(&mut service.store, || service.random.u64(..))?;
            call.reply().bulk_or_null(drawn.as_ref().map(|(member, _)| &member[..]));
        }
        (Some(set), Some(count @ 1..)) => reply_distinct(call, &set, count)?,
        (Some(set), Some(count)) => reply_drawn(call, &set, count.unsigned_abs())?,
    }
    Ok(())
}

/// Replies with different random members, so many if there are.
fn reply_distinct(call: &mut Call<'_>, set: &Map, count: i64) -> Outcome {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let service = &mut *call.service;
    let drawn = set.sample_distinct(&mut service.store, count, || service.random.u64(..))?;
    let start = call.out.len();
    call.reply().array(drawn.len());
    for (member, _) in drawn {
        call.reply().bulk(&member);
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

/// Replies with so many random members, of which some may be the same.
fn reply_drawn(call: &mut Call<'_>, set: &Map, count: u64) -> Outcome {
    let mut random = call.service.random.fork();
    let (store, mut reply) = LongReply::of(call);
    reply.write().array(count as usize);
    set.draw(
        store,
        count,
        || random.u64(..),
        |member, _| {
            reply.write().bulk(member);
            reply.go_on()
        },
    )
}

pub(super) fn sscan(call: &mut Call<'_>) -> Outcome {
    let cursor = scan::element_cursor(call.arg(2))?;
    let Some(set) = read(call, call.arg(1))? else {
        scan::reply_none(call);
        return Ok(());
    };
    let options = ElementOptions::parse(call, false)?;
    let mut page = scan::ElementPage::new(call, &options);
    let next = set
        .scan(&call.service.store, cursor, options.count, |member, _| page.look_at(member, None))?;
    page.reply(call, next);
    Ok(())
}

/// A number of keys that follows a command's name or its target, and the keys behind it.
pub(super) fn key_count(call: &Call<'_>, at: usize) -> Outcome<usize> {
    let count = parse_i64(call.arg(at)).filter(|count| *count > 0);
    let count = count.ok_or("ERR numkeys should be greater than 0")?;
    let count = usize::try_from(count).ok().filter(|count| *count < call.args.len() - at);
    Ok(count.ok_or("ERR Number of keys can't be greater than number of args")?)
}
