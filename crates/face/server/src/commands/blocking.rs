//! Commands that wait until one of their keys has something for them ([`crate::wait`]).

use std::time::Duration;

use crate::call::{Call, is};
use crate::collection::list::{End, List};
use crate::collection::sorted_set::SortedSet;
use crate::failure::{Outcome, SYNTAX};
use crate::number::parse_i64;
use crate::stored::Type;

pub(super) fn blpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Left)
}

pub(super) fn brpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Right)
}

fn pop(call: &mut Call<'_>, end: End) -> Outcome {
    let last = call.args.len() - 1;
    let timeout = call.timeout(last)?;
    for index in 1..last {
        call.check_ending()?;
        let key = call.arg(index);
        if !call.is_its_turn(Type::List, key) {
            continue;
        }
        let store = &mut call.service.store;
        let Some(mut list) = List::find(store, call.client.db, key)? else { continue };
        let Some(element) = list.pop(store, end)? else { continue };
        list.save(store)?;
        let mut reply = call.reply();
        reply.array(2);
        reply.bulk(key);
        reply.bulk(&element);
        return Ok(());
    }
    let args = call.args;
    let keys = (1..last).filter_map(|index| args.get(index));
    call.wait_for(Type::List, keys, timeout, |reply| reply.null_array())
}

pub(super) fn brpoplpush(call: &mut Call<'_>) -> Outcome {
    let timeout = call.timeout(3)?;
    move_element(call, (End::Right, End::Left), timeout)
}

pub(super) fn blmove(call: &mut Call<'_>) -> Outcome {
    let ends = (parse_end(call.arg(3))?, parse_end(call.arg(4))?);
    let timeout = call.timeout(5)?;
    move_element(call, ends, timeout)
}

fn parse_end(word: &[u8]) -> Outcome<End> {
    match () {
        () if is(word, "LEFT") => Ok(End::Left),
        () if is(word, "RIGHT") => Ok(End::Right),
        () => Err(SYNTAX.into()),
    }
}

fn move_element(
    call: &mut Call<'_>,
    (from_end, to_end): (End, End),
    timeout: Option<Duration>,
) -> Outcome {
    let (db, from, to) = (call.client.db, call.arg(1), call.arg(2));
    let is_its_turn = call.is_its_turn(Type::List, from);
    let store = &mut call.service.store;
    let Some(mut source) = List::find(store, db, from)?.filter(|_| is_its_turn) else {
        return call.wait_for(Type::List, [from], timeout, |reply| reply.null());
    };
    if from != to {
        // Refused before anything is changed, if it is of another type.
        List::find(store, db, to)?;
    }
    let Some(element) = source.pop(store, from_end)? else { return Ok(()) };
    if from == to {
        source.push(store, to_end, &element)?;
        source.save(store)?;
    } else {
        source.save(store)?;
        let mut target = List::find_or_new(store, db, to)?;
        target.push(store, to_end, &element)?;
        target.save(store)?;
    }
    call.reply().bulk(&element);
    Ok(())
}

/// The keys, the choice and the count of BLMPOP and BZMPOP: `timeout numkeys key .. choice [COUNT count]`.
struct Several<'a> {
    timeout: Option<Duration>,
    keys: Vec<&'a [u8]>,
    is_first: bool,
    count: usize,
}

impl<'a> Several<'a> {
    fn parse(call: &Call<'a>, [first, last]: [&str; 2]) -> Outcome<Self> {
        let timeout = call.timeout(1)?;
        let numkeys = parse_i64(call.arg(2)).filter(|&count| count > 0);
        let numkeys = numkeys.ok_or("ERR numkeys should be greater than 0")?;
        let end = usize::try_from(numkeys).ok().and_then(|count| count.checked_add(3));
        let end = end.filter(|&end| end < call.args.len()).ok_or(SYNTAX)?;
        let is_first = match () {
            () if is(call.arg(end), first) => true,
            () if is(call.arg(end), last) => false,
            () => return Err(SYNTAX.into()),
        };
        let count = match (call.args.get(end + 1), call.args.len() - end) {
            (None, _) => 1,
            (Some(word), 3) if is(word, "COUNT") => {
                let count = parse_i64(call.arg(end + 2)).filter(|&count| count > 0);
                count.ok_or("ERR count should be greater than 0")?
            }
            _ => return Err(SYNTAX.into()),
        };
        let keys = (3..end).map(|index| call.arg(index)).collect();
        Ok(Self { timeout, keys, is_first, count: usize::try_from(count).unwrap_or(usize::MAX) })
    }
}

pub(super) fn blmpop(call: &mut Call<'_>) -> Outcome {
    let Several { timeout, keys, is_first, count } = Several::parse(call, ["LEFT", "RIGHT"])?;
    let end = if is_first { End::Left } else { End::Right };
    for key in keys.iter().copied() {
        call.check_ending()?;
        if !call.is_its_turn(Type::List, key) {
            continue;
        }
        let store = &mut call.service.store;
        let Some(mut list) = List::find(store, call.client.db, key)? else { continue };
        let mut elements = Vec::new();
        while elements.len() < count
            && let Some(element) = list.pop(store, end)?
        {
            elements.push(element);
        }
        list.save(store)?;
        let mut reply = call.reply();
        reply.array(2);
        reply.bulk(key);
        reply.array(elements.len());
        elements.iter().for_each(|element| reply.bulk(element));
        return Ok(());
    }
    call.wait_for(Type::List, keys, timeout, |reply| reply.null_array())
}

pub(super) fn bzpopmin(call: &mut Call<'_>) -> Outcome {
    pop_member(call, true)
}

pub(super) fn bzpopmax(call: &mut Call<'_>) -> Outcome {
    pop_member(call, false)
}

fn pop_member(call: &mut Call<'_>, is_lowest: bool) -> Outcome {
    let last = call.args.len() - 1;
    let timeout = call.timeout(last)?;
    for index in 1..last {
        call.check_ending()?;
        let key = call.arg(index);
        if !call.is_its_turn(Type::SortedSet, key) {
            continue;
        }
        let Some(popped) = pop_members(call, key, is_lowest, 1)? else { continue };
        let Some((member, score)) = popped.first() else { continue };
        let mut reply = call.reply();
        reply.array(3);
        reply.bulk(key);
        reply.bulk(member);
        reply.double(*score);
        return Ok(());
    }
    let args = call.args;
    let keys = (1..last).filter_map(|index| args.get(index));
    call.wait_for(Type::SortedSet, keys, timeout, |reply| reply.null_array())
}

pub(super) fn bzmpop(call: &mut Call<'_>) -> Outcome {
    let Several { timeout, keys, is_first, count } = Several::parse(call, ["MIN", "MAX"])?;
    for key in keys.iter().copied() {
        call.check_ending()?;
        if !call.is_its_turn(Type::SortedSet, key) {
            continue;
        }
        let Some(popped) = pop_members(call, key, is_first, count)? else { continue };
        let mut reply = call.reply();
        reply.array(2);
        reply.bulk(key);
        reply.array(popped.len());
        for (member, score) in popped {
            reply.array(2);
            reply.bulk(&member);
            reply.double(score);
        }
        return Ok(());
    }
    call.wait_for(Type::SortedSet, keys, timeout, |reply| reply.null_array())
}

/// Takes the members with the lowest, or the highest scores out; `None` if there is no sorted set.
fn pop_members(
    call: &mut Call<'_>,
    key: &[u8],
    is_lowest: bool,
    count: usize,
) -> Outcome<Option<Vec<(Vec<u8>, f64)>>> {
    let store = &mut call.service.store;
    let Some(mut set) = SortedSet::find(store, call.client.db, key)? else { return Ok(None) };
    let members: Vec<_> = set.with_order(store, |order| {
        let count = count.min(order.len());
        let nth = |index| if is_lowest { index } else { order.len() - 1 - index };
        let item = |index| order.get(nth(index)).map(|(score, member)| (member.to_vec(), score));
        (0..count).filter_map(item).collect()
    })?;
    for (member, _) in &members {
        set.remove(store, member)?;
    }
    set.save(store)?;
    Ok(Some(members))
}
