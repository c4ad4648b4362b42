//! Commands on the entries of a stream.

use crate::call::{Call, is};
use crate::collection::packed::put_entry;
use crate::collection::stream::Stream;
use crate::failure::{Failure, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::reply::Reply;
use crate::store::Order;
use crate::stream_id::{NewId, StreamId};

use super::groups::{Deletion, References};
use super::trimming::Options;
use super::{Room, find, id, limit, look_up, lower_bound, upper_bound, write_id, write_range};

pub(in crate::commands) fn xadd(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call, true)?;
    let fields = call.args.from(options.next);
    if fields.is_empty() || fields.len() % 2 == 1 {
        return Err("ERR wrong number of arguments for 'xadd' command".into());
    }
    if options.id == NewId::Whole(StreamId::MIN) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let mut stored = Vec::with_capacity(fields.byte_len() + 2 * fields.len());
    fields.iter().for_each(|word| put_entry(&mut stored, word));
    let (db, key) = (call.client.db, call.arg(1));
    let found = find(call, key)?;
    if found.is_none() && options.no_make {
        call.reply().null();
        return Ok(());
    }
    let store = &mut call.service.store;
    let last = match &found {
        Some(stream) => stream.state(store)?.last,
        None => StreamId::MIN,
    };
    let id = next_id(last, options.id, store.now_ms)?;
    if stored.len() > halite::VALUE_LEN_MAX {
        return Err("ERR Elements are too large to be stored".into());
    }
    let mut stream = match found {
        Some(stream) => stream,
        None => Stream::create(store, db, key)?,
    };
    stream.add(store, id, &stored)?;
    let trimmed = match options.trim {
        Some((keep, exactness)) => stream.trim(store, keep, exactness)?,
        None => 0,
    };
    let events = ["xadd"].into_iter().chain((trimmed > 0).then_some("xtrim"));
    stream.save(store, events)?;
    write_id(&mut call.reply(), id);
    Ok(())
}

/// The id of an entry that comes behind the last one.
fn next_id(last: StreamId, wanted: NewId, now_ms: u64) -> Outcome<StreamId> {
    let next = last
        .next()
        .ok_or("ERR The stream has exhausted the last possible ID, unable to add more items")?;
    let id = match wanted {
        NewId::Auto if now_ms > last.ms => StreamId { ms: now_ms, seq: 0 },
        NewId::Auto => next,
        NewId::OfTime(ms) if ms == last.ms => StreamId { ms, ..next },
        NewId::OfTime(ms) => StreamId { ms, seq: 0 },
        NewId::Whole(id) => id,
    };
    if id <= last {
        let text =
            "ERR The ID specified in XADD is equal or smaller than the target stream top item";
        return Err(text.into());
    }
    Ok(id)
}

pub(in crate::commands) fn xlen(call: &mut Call<'_>) -> Outcome {
    let stream = look_up(call, call.arg(1))?;
    let store = &mut call.service.store;
    let len = stream.map_or(Ok(0), |stream| Ok::<_, Failure>(stream.state(store)?.len))?;
    call.reply().integer(len as i64);
    Ok(())
}

pub(in crate::commands) fn xrange(call: &mut Call<'_>) -> Outcome {
    range(call, Order::Ascending)
}

pub(in crate::commands) fn xrevrange(call: &mut Call<'_>) -> Outcome {
    range(call, Order::Descending)
}

fn range(call: &mut Call<'_>, order: Order) -> Outcome {
    let (from, to) = match order {
        Order::Ascending => (2, 3),
        Order::Descending => (3, 2),
    };
    let range = (lower_bound(call.arg(from))?, upper_bound(call.arg(to))?);
    let (mut index, mut count) = (4, None);
    while index < call.args.len() {
        if !is(call.arg(index), "COUNT") || index + 1 == call.args.len() {
            return Err(SYNTAX.into());
        }
        count = Some(call.integer(index + 1)?.max(0));
        index += 2;
    }
    let Some(stream) = look_up(call, call.arg(1))? else {
        call.reply().array(0);
        return Ok(());
    };
    if count == Some(0) {
        call.reply().null_array();
        return Ok(());
    }
    let (room, protocol) = (Room::of(call), call.client.protocol);
    let reply = Reply { out: call.out, protocol };
    let count = count.map_or(u64::MAX, limit);
    write_range(&call.service.store, &stream, range, order, count, reply, room)
}

pub(in crate::commands) fn xdel(call: &mut Call<'_>) -> Outcome {
    let Some(mut stream) = find(call, call.arg(1))? else {
        call.reply().integer(0);
        return Ok(());
    };
    let ids = call.args.from(2).iter().map(id).collect::<Outcome<Vec<_>>>()?;
    let mut count = 0;
    for id in ids {
        call.check_ending()?;
        count += i64::from(stream.remove(&mut call.service.store, id)?);
    }
    stream.save(&mut call.service.store, (count > 0).then_some("xdel"))?;
    call.reply().integer(count);
    Ok(())
}

/// Removes entries as XDEL does, or only where no group wants them, or with what refers to them.
pub(in crate::commands) fn xdelex(call: &mut Call<'_>) -> Outcome {
    let Deletion { references, ids } = Deletion::parse(call, 2)?;
    let mut stream = find(call, call.arg(1))?;
    let mut is_changed = false;
    call.reply().array(ids.len());
    for id in ids {
        call.check_ending()?;
        let store = &mut call.service.store;
        let done = match &mut stream {
            Some(stream) => references.delete(store, stream, id)?,
            None => References::ABSENT,
        };
        is_changed |= done == References::DELETED;
        call.reply().integer(done);
    }
    let event = is_changed.then_some("xdel");
    stream.map_or(Ok(()), |stream| stream.save(&mut call.service.store, event))
}

pub(in crate::commands) fn xtrim(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call, false)?;
    let (stream, mut count) = (find(call, call.arg(1))?, 0);
    if let Some(mut stream) = stream
        && let Some((keep, exactness)) = options.trim
    {
        count = stream.trim(&mut call.service.store, keep, exactness)?;
        stream.save(&mut call.service.store, (count > 0).then_some("xtrim"))?;
    }
    call.reply().integer(count as i64);
    Ok(())
}

pub(in crate::commands) fn xsetid(call: &mut Call<'_>) -> Outcome {
    let last = id(call.arg(2))?;
    let (mut added, mut max_deleted, mut index) = (None, None, 3);
    while let Some(word) = call.args.get(index) {
        let has_value = index + 1 < call.args.len();
        if has_value && is(word, "ENTRIESADDED") {
            let count = u64::try_from(call.integer(index + 1)?);
            added = Some(count.map_err(|_| "ERR entries_added must be positive")?);
        } else if has_value && is(word, "MAXDELETEDID") {
            let deleted = id(call.arg(index + 1))?;
            if last < deleted {
                return Err("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id".into());
            }
            max_deleted = Some(deleted).filter(|id| *id != StreamId::MIN);
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    let mut stream = find(call, call.arg(1))?.ok_or(NO_SUCH_KEY)?;
    let store = &mut call.service.store;
    let state = stream.state(store)?;
    let len = state.len;
    if last < state.max_deleted {
        return Err(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id".into()
        );
    }
    if stream.last_entry(store)?.is_some_and(|top| last < top) {
        return Err(
            "ERR The ID specified in XSETID is smaller than the target stream top item".into()
        );
    }
    if len > 0 && added.is_some_and(|added| len > added) {
        return Err(
            "ERR The entries_added specified in XSETID is smaller than the target stream length"
                .into(),
        );
    }
    stream.set(store, last, added, max_deleted)?;
    stream.save_groups(store, ["xsetid"])?;
    call.reply().ok();
    Ok(())
}
