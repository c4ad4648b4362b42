//! Commands on lists.
//!
//! [`pop_one`], [`move_one`] and [`pop_from`] try once what LPOP, LMOVE and LMPOP do, so that commands which wait for an
//! element can try it again.

use std::ops::ControlFlow;

use halite::Bytes;

use crate::call::{Call, is};
use crate::collection::list::{End, List};
use crate::failure::{NO_SUCH_KEY, NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::number::parse_i64;

use super::long_reply::LongReply;
use super::ranges::{count_of_keys, count_option, positive, span};

pub(super) fn lpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Left, true)
}

pub(super) fn rpush(call: &mut Call<'_>) -> Outcome {
    push(call, End::Right, true)
}

pub(super) fn lpushx(call: &mut Call<'_>) -> Outcome {
    push(call, End::Left, false)
}

pub(super) fn rpushx(call: &mut Call<'_>) -> Outcome {
    push(call, End::Right, false)
}

fn push(call: &mut Call<'_>, end: End, makes: bool) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    let found = List::find(&mut call.service.store, db, key)?;
    if found.is_none() && !makes {
        call.reply().integer(0);
        return Ok(());
    }
    let mut list = found.unwrap_or_else(|| List::new(db, key));
    list.prepare(&mut call.service.store, call.args.from(2))?;
    for element in call.args.from(2) {
        call.check_ending()?;
        list.push(&mut call.service.store, end, element)?;
    }
    let len = list.len(&mut call.service.store)?;
    list.save(&mut call.service.store, [pushed(end)])?;
    call.reply().integer(len as i64);
    Ok(())
}

/// The event of elements that come to an end of a list.
fn pushed(end: End) -> &'static str {
    match end {
        End::Left => "lpush",
        End::Right => "rpush",
    }
}

/// The event of elements that go from an end of a list.
fn popped(end: End) -> &'static str {
    match end {
        End::Left => "lpop",
        End::Right => "rpop",
    }
}

pub(super) fn llen(call: &mut Call<'_>) -> Outcome {
    let len = match read(call)? {
        Some(list) => list.len(&mut call.service.store)?,
        None => 0,
    };
    call.reply().integer(len as i64);
    Ok(())
}

/// The list at the first key, for a command that only reads: it counts as a hit or a miss.
fn read(call: &mut Call<'_>) -> Outcome<Option<List>> {
    let list = find(call)?;
    call.note_lookup(call.arg(1), list.is_some());
    Ok(list)
}

/// The list at the first key, for a command that changes it.
fn find(call: &mut Call<'_>) -> Outcome<Option<List>> {
    let (db, key) = (call.client.db, call.arg(1));
    List::find(&mut call.service.store, db, key)
}

/// The number of an element that is counted from the left, or, if it is negative, from the right.
fn index(at: i64, len: usize) -> Option<usize> {
    let at = if at < 0 { at.checked_add(len as i64)? } else { at };
    usize::try_from(at).ok().filter(|&at| at < len)
}

pub(super) fn lindex(call: &mut Call<'_>) -> Outcome {
    let Some(list) = read(call)? else {
        call.reply().null();
        return Ok(());
    };
    let at = call.integer(2)?;
    let len = list.len(&mut call.service.store)?;
    let element = match index(at, len) {
        Some(at) => list.get(&mut call.service.store, at)?,
        None => None,
    };
    call.reply().bulk_or_null(element.as_deref());
    Ok(())
}

pub(super) fn lset(call: &mut Call<'_>) -> Outcome {
    let mut list = find(call)?.ok_or(NO_SUCH_KEY)?;
    let (at, element) = (call.integer(2)?, call.arg(3));
    let store = &mut call.service.store;
    let at = index(at, list.len(store)?).ok_or("ERR index out of range")?;
    list.prepare(store, [element])?;
    list.set(store, at, element)?;
    list.save(store, ["lset"])?;
    call.reply().ok();
    Ok(())
}

pub(super) fn linsert(call: &mut Call<'_>) -> Outcome {
    let behind = match call.arg(2) {
        word if is(word, "BEFORE") => 0,
        word if is(word, "AFTER") => 1,
        _ => return Err(SYNTAX.into()),
    };
    let (pivot, element) = (call.arg(3), call.arg(4));
    let Some(mut list) = find(call)? else {
        call.reply().integer(0);
        return Ok(());
    };
    let mut at = None;
    let (store, reply) = LongReply::of(call);
    list.visit(store, 0, |index, bytes| {
        reply.check_ending()?;
        if bytes != pivot {
            return Ok(ControlFlow::Continue(()));
        }
        at = Some(index + behind);
        Ok(ControlFlow::Break(()))
    })?;
    let store = &mut call.service.store;
    let len = match at {
        Some(at) => {
            list.prepare(store, [element])?;
            list.insert(store, at, element)?;
            let len = list.len(store)?;
            list.save(store, ["linsert"])?;
            len as i64
        }
        None => -1,
    };
    call.reply().integer(len);
    Ok(())
}

pub(super) fn lrange(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let list = read(call)?;
    let len = match &list {
        Some(list) => list.len(&mut call.service.store)?,
        None => 0,
    };
    let range = span(start, end, len);
    let (store, mut reply) = LongReply::of(call);
    reply.write().array(range.len());
    if let Some(list) = list.filter(|_| !range.is_empty()) {
        list.visit(store, range.start, |index, bytes| {
            reply.write().bulk(bytes);
            if index + 1 < range.end { reply.go_on() } else { Ok(ControlFlow::Break(())) }
        })?;
    }
    Ok(())
}

pub(super) fn ltrim(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    if let Some(mut list) = find(call)? {
        let (db, key) = (call.client.db, call.arg(1));
        let store = &mut call.service.store;
        let len = list.len(store)?;
        let kept = span(start, end, len);
        match kept.is_empty() {
            true => list.remove_range(store, 0, len)?,
            false => list.keep_range(store, kept.clone())?,
        }
        if kept == (0..len) {
            // Those who watch the key are told all the same, as in Redis.
            store.note_changed(db, key);
        }
        list.save(store, ["ltrim"])?;
    }
    call.reply().ok();
    Ok(())
}

pub(super) fn lrem(call: &mut Call<'_>) -> Outcome {
    let (count, element) = (call.count_in_range(2)?, call.arg(3));
    let Some(mut list) = find(call)? else {
        call.reply().integer(0);
        return Ok(());
    };
    let most = match count {
        0 => usize::MAX,
        count => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let (store, reply) = LongReply::of(call);
    let mut found = Vec::new();
    let visit = |index: usize, bytes: &[u8]| {
        reply.check_ending()?;
        if bytes == element {
            found.push(index);
        }
        Ok(if found.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    };
    match count < 0 {
        true => {
            let last = list.len(store)? - 1;
            list.visit_back(store, last, visit)?;
            found.reverse();
        }
        false => list.visit(store, 0, visit)?,
    }
    list.remove_all(store, &found)?;
    list.save(store, (!found.is_empty()).then_some("lrem"))?;
    call.reply().integer(found.len() as i64);
    Ok(())
}

/// The options of LPOS.
struct Sought {
    /// The first match of those that are reported; counted from the right, if it is negative.
    rank: i64,
    /// How many matches are reported, as an array; 0: all.
    count: Option<usize>,
    /// How many elements are compared; 0: all.
    compared_max: usize,
}

impl Sought {
    fn of(call: &Call<'_>) -> Outcome<Self> {
        let mut sought = Self { rank: 1, count: None, compared_max: 0 };
        let mut words = call.args.from(3).iter();
        while let Some(word) = words.next() {
            let value = words.next();
            let unsigned = |name| {
                let number = value.and_then(parse_i64).filter(|&number| number >= 0);
                number.map(|number| number as usize).ok_or(format!("ERR {name} can't be negative"))
            };
            match () {
                () if value.is_none() => return Err(SYNTAX.into()),
                () if is(word, "RANK") => sought.rank = rank(value.unwrap_or_default())?,
                () if is(word, "COUNT") => sought.count = Some(unsigned("COUNT")?),
                () if is(word, "MAXLEN") => sought.compared_max = unsigned("MAXLEN")?,
                () => return Err(SYNTAX.into()),
            }
        }
        Ok(sought)
    }
}

fn rank(word: &[u8]) -> Outcome<i64> {
    match parse_i64(word) {
        Some(0) => Err("ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                        second ... or use negative to start from the end of the list"
            .into()),
        Some(i64::MIN) => Err("ERR value is out of range, value must between \
                               -9223372036854775807 and 9223372036854775807"
            .into()),
        Some(rank) => Ok(rank),
        None => Err(NOT_AN_INTEGER.into()),
    }
}

pub(super) fn lpos(call: &mut Call<'_>) -> Outcome {
    let element = call.arg(2);
    let Sought { rank, count, compared_max } = Sought::of(call)?;
    let Some(list) = read(call)? else {
        match count {
            Some(_) => call.reply().array(0),
            None => call.reply().null(),
        }
        return Ok(());
    };
    let most = match count {
        Some(0) => usize::MAX,
        Some(count) => count,
        None => 1,
    };
    let (store, reply) = LongReply::of(call);
    let (mut compared, mut left_out) = (0, rank.unsigned_abs() - 1);
    let mut found = Vec::new();
    let visit = |index: usize, bytes: &[u8]| {
        reply.check_ending()?;
        if bytes == element && left_out > 0 {
            left_out -= 1;
        } else if bytes == element {
            found.push(index);
        }
        compared += 1;
        let is_over = found.len() >= most || compared == compared_max;
        Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    match rank < 0 {
        true => {
            let last = list.len(store)? - 1;
            list.visit_back(store, last, visit)?;
        }
        false => list.visit(store, 0, visit)?,
    }
    let mut reply = call.reply();
    match (count, found.first()) {
        (Some(_), _) => {
            reply.array(found.len());
            found.iter().for_each(|&index| reply.integer(index as i64));
        }
        (None, Some(&index)) => reply.integer(index as i64),
        (None, None) => reply.null(),
    }
    Ok(())
}

pub(super) fn lpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Left)
}

pub(super) fn rpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Right)
}

fn pop(call: &mut Call<'_>, end: End) -> Outcome {
    if call.args.len() > 3 {
        let name = if end == End::Left { "lpop" } else { "rpop" };
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    if call.args.len() < 3 {
        let element = pop_one(call, call.arg(1), end)?;
        call.reply().bulk_or_null(element.as_deref());
        return Ok(());
    }
    let count = positive(call.arg(2))?;
    let Some(list) = find(call)? else {
        call.reply().null_array();
        return Ok(());
    };
    pop_many(call, list, end, count)
}

/// Takes the element at an end of the list at a key, if there is one.
pub(super) fn pop_one(call: &mut Call<'_>, key: &[u8], end: End) -> Outcome<Option<Bytes>> {
    let store = &mut call.service.store;
    let Some(mut list) = List::find(store, call.client.db, key)? else { return Ok(None) };
    let element = list.pop(store, end)?;
    list.save(store, element.is_some().then_some(popped(end)))?;
    Ok(element)
}

/// Takes up to `count` elements at an end of a list, and replies them.
fn pop_many(call: &mut Call<'_>, mut list: List, end: End, count: usize) -> Outcome {
    let len = list.len(&mut call.service.store)?;
    let count = count.min(len);
    let (store, mut reply) = LongReply::of(call);
    reply.write().array(count);
    let from = match end {
        End::Left => 0,
        End::Right => len - count,
    };
    if count > 0 {
        let mut left = count;
        let visit = |_: usize, bytes: &[u8]| {
            reply.write().bulk(bytes);
            left -= 1;
            if left > 0 { reply.go_on() } else { Ok(ControlFlow::Break(())) }
        };
        match end {
            End::Left => list.visit(store, 0, visit)?,
            End::Right => list.visit_back(store, len - 1, visit)?,
        }
    }
    list.remove_range(store, from, count)?;
    list.save(store, (count > 0).then_some(popped(end)))
}

/// An end of a list by its name.
pub(super) fn end(word: &[u8]) -> Outcome<End> {
    match () {
        () if is(word, "LEFT") => Ok(End::Left),
        () if is(word, "RIGHT") => Ok(End::Right),
        () => Err(SYNTAX.into()),
    }
}

pub(super) fn lmove(call: &mut Call<'_>) -> Outcome {
    let ends = (end(call.arg(3))?, end(call.arg(4))?);
    let element = move_one(call, call.arg(1), call.arg(2), ends)?;
    call.reply().bulk_or_null(element.as_deref());
    Ok(())
}

pub(super) fn rpoplpush(call: &mut Call<'_>) -> Outcome {
    let element = move_one(call, call.arg(1), call.arg(2), (End::Right, End::Left))?;
    call.reply().bulk_or_null(element.as_deref());
    Ok(())
}

/// Moves the element at an end of the list at a key to an end of that at another key, or at the same one, if there is one.
pub(super) fn move_one(
    call: &mut Call<'_>,
    from: &[u8],
    to: &[u8],
    (from_end, to_end): (End, End),
) -> Outcome<Option<Bytes>> {
    let (store, db) = (&mut call.service.store, call.client.db);
    let Some(mut source) = List::find(store, db, from)? else { return Ok(None) };
    if from == to {
        let Some(element) = source.pop(store, from_end)? else { return Ok(None) };
        source.prepare(store, [&element[..]])?;
        source.push(store, to_end, &element)?;
        source.save(store, [pushed(to_end), popped(from_end)])?;
        return Ok(Some(element));
    }
    let mut target = List::find_or_new(store, db, to)?;
    let Some(element) = source.pop(store, from_end)? else { return Ok(None) };
    target.prepare(store, [&element[..]])?;
    target.push(store, to_end, &element)?;
    target.save(store, [pushed(to_end)])?;
    source.save(store, [popped(from_end)])?;
    store.count_as_one_change();
    Ok(Some(element))
}

pub(super) fn lmpop(call: &mut Call<'_>) -> Outcome {
    let request = Popped::of(call, 1)?;
    for index in request.keys() {
        if pop_from(call, call.arg(index), &request)? {
            return Ok(());
        }
    }
    call.reply().null_array();
    Ok(())
}

/// The words of LMPOP, and of its form that waits.
pub(super) struct Popped {
    first: usize,
    keys: usize,
    end: End,
    count: usize,
}

impl Popped {
    /// Reads the words from the number of keys on, which is the word with this index.
    pub(super) fn of(call: &Call<'_>, at: usize) -> Outcome<Self> {
        let keys = count_of_keys(call.arg(at))?;
        let first = at + 1;
        let place = first.checked_add(keys).filter(|&place| place < call.args.len());
        let place = place.ok_or(SYNTAX)?;
        let end = end(call.arg(place))?;
        let count = count_option(call.args.from(place + 1))?;
        Ok(Self { first, keys, end, count })
    }

    /// The indexes of the keys.
    pub(super) fn keys(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.keys
    }
}

/// Takes elements of the list at a key and replies them behind the key, if there is one; returns whether there is.
pub(super) fn pop_from(call: &mut Call<'_>, key: &[u8], request: &Popped) -> Outcome<bool> {
    let Some(list) = List::find(&mut call.service.store, call.client.db, key)? else {
        return Ok(false);
    };
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(key);
    pop_many(call, list, request.end, request.count)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_count_from_either_end() {
        for (at, len, expected) in [
            (0, 3, Some(0)),
            (2, 3, Some(2)),
            (3, 3, None),
            (-1, 3, Some(2)),
            (-3, 3, Some(0)),
            (-4, 3, None),
            (0, 0, None),
            (i64::MIN, 3, None),
            (i64::MAX, 3, None),
        ] {
            assert_eq!(index(at, len), expected);
        }
    }
}
