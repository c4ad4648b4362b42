//! Commands on sorted sets.
//!
//! Here are those about single members. Those on ranges are in `ranges`, with the words that say a range in `bounds`;
//! those that take members out are in `pops`, and those on several sets in `algebra`.

use std::ops::ControlFlow;

use crate::call::{Call, is};
use crate::collection::sorted_set::{Scores, Selection, SortedSet, read_score};
use crate::double;
use crate::failure::{Failure, NOT_A_FLOAT, Outcome, SYNTAX};
use crate::reply::{Protocol, Reply};
use crate::store::Store;

use super::long_reply::LongReply;
use super::scan::{self, ElementOptions, ElementPage};

pub(super) mod algebra;
pub(super) mod bounds;
pub(super) mod pops;
pub(super) mod ranges;

/// The sorted set at the first key, for a command that only reads: it counts as a hit or a miss.
pub(super) fn read(call: &mut Call<'_>) -> Outcome<Option<SortedSet>> {
    read_at(call, 1)
}

/// [`read`] of the key that is the word with this index.
pub(super) fn read_at(call: &mut Call<'_>, index: usize) -> Outcome<Option<SortedSet>> {
    let (db, key) = (call.client.db, call.arg(index));
    let set = SortedSet::find(&mut call.service.store, db, key)?;
    call.note_lookup(key, set.is_some());
    Ok(set)
}

/// The reply if the score of a member is no number.
const DAMAGED_SCORE: &str = "ERR a score is damaged";

/// Writes a member with its score, if that is requested: as a pair of its own in RESP3.
fn write_member(reply: &mut Reply<'_>, (score, member): (f64, &[u8]), with_score: bool) {
    if !with_score {
        return reply.bulk(member);
    }
    if reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    reply.double(score);
}

/// Begins an array of so many members, with their scores if those are requested.
fn write_len(reply: &mut Reply<'_>, len: usize, with_scores: bool) {
    let are_flat = with_scores && reply.protocol == Protocol::Resp2;
    reply.array(if are_flat { 2 * len } else { len });
}

/// How ZADD, ZINCRBY and GEOADD set scores.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Setting {
    pub(super) if_absent: bool,
    pub(super) if_present: bool,
    if_greater: bool,
    if_less: bool,
    /// Changed scores count, too.
    pub(super) counts_changes: bool,
    increments: bool,
}

impl Setting {
    /// Reads the options from the second argument on; returns the index of the first word behind them.
    fn of(call: &Call<'_>, increments: bool) -> (Self, usize) {
        let mut setting = Self { increments, ..Self::default() };
        let mut at = 2;
        while let Some(word) = call.args.get(at) {
            match () {
                () if is(word, "NX") => setting.if_absent = true,
                () if is(word, "XX") => setting.if_present = true,
                () if is(word, "GT") => setting.if_greater = true,
                () if is(word, "LT") => setting.if_less = true,
                () if is(word, "CH") => setting.counts_changes = true,
                () if is(word, "INCR") => setting.increments = true,
                () => break,
            }
            at += 1;
        }
        (setting, at)
    }

    fn check(self) -> Outcome {
        let Self { if_absent, if_present, if_greater, if_less, .. } = self;
        if if_absent && if_present {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        if if_absent && (if_greater || if_less) || if_greater && if_less {
            let why = "ERR GT, LT, and/or NX options at the same time are not compatible";
            return Err(why.into());
        }
        Ok(())
    }
}

/// The effect of setting a score.
enum Set {
    Added(f64),
    Changed(f64),
    /// The score was the same before.
    Same(f64),
    /// An option forbade it.
    Refused,
}

pub(super) fn zadd(call: &mut Call<'_>) -> Outcome {
    add(call, false)
}

pub(super) fn zincrby(call: &mut Call<'_>) -> Outcome {
    add(call, true)
}

fn add(call: &mut Call<'_>, increments: bool) -> Outcome {
    let (setting, first) = Setting::of(call, increments);
    let words = call.args.from(first);
    if words.is_empty() || words.len() % 2 == 1 {
        return Err(SYNTAX.into());
    }
    setting.check()?;
    if setting.increments && words.len() > 2 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    let mut members = Vec::new();
    let mut words = words.iter();
    while let (Some(score), Some(member)) = (words.next(), words.next()) {
        members.push((double::parse(score).ok_or(NOT_A_FLOAT)?, member));
    }
    add_members(call, setting, &members)
}

/// Sets the scores of members of the sorted set at the first key, and replies as ZADD does.
pub(super) fn add_members(
    call: &mut Call<'_>,
    setting: Setting,
    members: &[(f64, &[u8])],
) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    let found = SortedSet::find(&mut call.service.store, db, key)?;
    let is_absent = found.is_none();
    let mut set = found.unwrap_or_else(|| SortedSet::new(db, key));
    let (mut added, mut changed, mut last) = (0, 0, None);
    if !(is_absent && setting.if_present) {
        for (score, member) in members {
            call.check_ending()?;
            match set_score(&mut call.service.store, &mut set, setting, *score, member)? {
                Set::Added(score) => {
                    added += 1;
                    last = Some(score);
                }
                Set::Changed(score) => {
                    changed += 1;
                    last = Some(score);
                }
                Set::Same(score) => last = Some(score),
                Set::Refused => last = None,
            }
        }
        let event = if setting.increments { "zincr" } else { "zadd" };
        set.save(&mut call.service.store, (added + changed > 0).then_some(event))?;
    }
    let mut reply = call.reply();
    match (setting.increments, last) {
        (true, Some(score)) => reply.double(score),
        (true, None) => reply.null(),
        (false, _) => reply.integer(added + if setting.counts_changes { changed } else { 0 }),
    }
    Ok(())
}

fn set_score(
    store: &mut Store,
    set: &mut SortedSet,
    setting: Setting,
    score: f64,
    member: &[u8],
) -> Outcome<Set> {
    let Some(before) = set.score(store, member)? else {
        if setting.if_present {
            return Ok(Set::Refused);
        }
        set.put_over(store, member, score, None)?;
        return Ok(Set::Added(score));
    };
    if setting.if_absent {
        return Ok(Set::Refused);
    }
    let score = if setting.increments { before + score } else { score };
    if score.is_nan() {
        return Err("ERR resulting score is not a number (NaN)".into());
    }
    if setting.if_less && score >= before || setting.if_greater && score <= before {
        return Ok(Set::Refused);
    }
    if score == before {
        return Ok(Set::Same(score));
    }
    set.put_over(store, member, score, Some(before))?;
    Ok(Set::Changed(score))
}

pub(super) fn zrem(call: &mut Call<'_>) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    let mut count = 0;
    if let Some(mut set) = SortedSet::find(&mut call.service.store, db, key)? {
        for member in call.args.from(2) {
            call.check_ending()?;
            count += i64::from(set.remove(&mut call.service.store, member)?.is_some());
        }
        set.save(&mut call.service.store, (count > 0).then_some("zrem"))?;
    }
    call.reply().integer(count);
    Ok(())
}

pub(super) fn zcard(call: &mut Call<'_>) -> Outcome {
    let len = match read(call)? {
        Some(set) => set.len(&mut call.service.store)?,
        None => 0,
    };
    call.reply().integer(len as i64);
    Ok(())
}

pub(super) fn zscore(call: &mut Call<'_>) -> Outcome {
    let score = match read(call)? {
        Some(set) => set.score(&call.service.store, call.arg(2))?,
        None => None,
    };
    write_score(&mut call.reply(), score);
    Ok(())
}

fn write_score(reply: &mut Reply<'_>, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

pub(super) fn zmscore(call: &mut Call<'_>) -> Outcome {
    let set = read(call)?;
    let (members, start) = (call.args.from(2), call.out.len());
    call.reply().array(members.len());
    for member in members {
        let score = match &set {
            Some(set) => set.score(&call.service.store, member)?,
            None => None,
        };
        write_score(&mut call.reply(), score);
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

pub(super) fn zrank(call: &mut Call<'_>) -> Outcome {
    rank(call, false)
}

pub(super) fn zrevrank(call: &mut Call<'_>) -> Outcome {
    rank(call, true)
}

fn rank(call: &mut Call<'_>, is_reverse: bool) -> Outcome {
    let with_score = match call.args.len() {
        3 => false,
        4 if is(call.arg(3), "WITHSCORE") => true,
        4 => return Err(SYNTAX.into()),
        _ => {
            let name = if is_reverse { "zrevrank" } else { "zrank" };
            return Err(format!("ERR wrong number of arguments for '{name}' command").into());
        }
    };
    let member = call.arg(2);
    let found = match read(call)? {
        Some(set) => rank_of(&mut call.service.store, &set, member, is_reverse)?,
        None => None,
    };
    let mut reply = call.reply();
    match (found, with_score) {
        (Some((rank, score)), true) => {
            reply.array(2);
            reply.integer(rank as i64);
            reply.double(score);
        }
        (Some((rank, _)), false) => reply.integer(rank as i64),
        (None, true) => reply.null_array(),
        (None, false) => reply.null(),
    }
    Ok(())
}

fn rank_of(
    store: &mut Store,
    set: &SortedSet,
    member: &[u8],
    is_reverse: bool,
) -> Outcome<Option<(usize, f64)>> {
    let Some(score) = set.score(store, member)? else { return Ok(None) };
    let rank = set.with_order(store, |order| {
        let (rank, _) = order.rank((score, member));
        if is_reverse { order.len() - 1 - rank } else { rank }
    })?;
    Ok(Some((rank, score)))
}

pub(super) fn zrandmember(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 2 {
        return random_members(call);
    }
    let mut random = call.service.random.fork();
    let set = read(call)?;
    let store = &mut call.service.store;
    let member = match set {
        Some(set) if set.has_ranks(store) => set.with_order(store, |order| {
            let member = order.get(random.usize(..order.len().max(1)));
            member.map(|(_, member)| member.to_vec())
        })?,
        Some(set) => set.map().sample(store, || random.u64(..))?.map(|(member, _)| member),
        None => None,
    };
    call.reply().bulk_or_null(member.as_deref());
    Ok(())
}

fn random_members(call: &mut Call<'_>) -> Outcome {
    let count = call.count_in_range(2)?;
    let with_scores = match (call.args.len(), call.args.get(3)) {
        (3, _) => false,
        (4, Some(word)) if is(word, "WITHSCORES") => true,
        _ => return Err(SYNTAX.into()),
    };
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err("ERR value is out of range".into());
    }
    let mut random = call.service.random.fork();
    let Some(set) = read(call)? else {
        call.reply().array(0);
        return Ok(());
    };
    let (store, mut reply) = LongReply::of(call);
    if !set.has_ranks(store) {
        return drawn_members(store, &mut reply, &set, (count, with_scores), &mut random);
    }
    set.with_order(store, |order| {
        let len = order.len();
        let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let ranks: Box<dyn Iterator<Item = usize>> = match count {
            ..0 => Box::new((0..most).map(|_| random.usize(..len))),
            _ if most >= len => Box::new(0..len),
            _ => Box::new(distinct(len, most, &mut random).into_iter()),
        };
        write_len(&mut reply.write(), if count < 0 { most } else { most.min(len) }, with_scores);
        for rank in ranks {
            if let Some((score, member)) = order.get(rank) {
                write_member(&mut reply.write(), (score, member), with_scores);
            }
            if reply.go_on()?.is_break() {
                break;
            }
        }
        Ok(())
    })?
}

/// [`random_members`] of a set without ranks: they are drawn from the map.
fn drawn_members(
    store: &mut Store,
    reply: &mut LongReply<'_>,
    set: &SortedSet,
    (count, with_scores): (i64, bool),
    random: &mut fastrand::Rng,
) -> Outcome {
    let write = |reply: &mut LongReply<'_>, member: &[u8], value: &[u8]| {
        let score = read_score(value).ok_or_else(|| Failure::from(DAMAGED_SCORE))?;
        write_member(&mut reply.write(), (score, member), with_scores);
        reply.go_on()
    };
    let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        write_len(&mut reply.write(), most, with_scores);
        let next = || random.u64(..);
        return set
            .map()
            .draw(store, count.unsigned_abs(), next, |member, value| write(reply, member, value));
    }
    let drawn = set.map().sample_distinct(store, most, || random.u64(..))?;
    write_len(&mut reply.write(), drawn.len(), with_scores);
    for (member, value) in &drawn {
        if write(reply, member, value)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// `count` different numbers below `len`, which is larger, in random order.
fn distinct(len: usize, count: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    if count > len / 3 {
        let mut all: Vec<usize> = (0..len).collect();
        random.shuffle(&mut all);
        all.truncate(count);
        return all;
    }
    let (mut drawn, mut seen) = (Vec::new(), std::collections::HashSet::new());
    while drawn.len() < count {
        let number = random.usize(..len);
        if seen.insert(number) {
            drawn.push(number);
        }
    }
    drawn
}

pub(super) fn zscan(call: &mut Call<'_>) -> Outcome {
    let cursor = scan::element_cursor(call.arg(2))?;
    let Some(set) = read(call)? else {
        scan::reply_none(call);
        return Ok(());
    };
    let options = ElementOptions::parse(call, false)?;
    let mut page = ElementPage::new(call, &options);
    let store = &mut call.service.store;
    let mut text = Vec::new();
    // A small set comes by its scores, and Redis writes those of larger ones otherwise here.
    let next = if set.is_packed() {
        set.visit_in(store, &[Scores::ALL], |score, member| {
            text.clear();
            double::write(&mut text, score);
            page.look_at(member, Some(&text))?;
            Ok(ControlFlow::Continue(()))
        })?;
        0
    } else {
        set.map().scan(store, cursor, options.count, |member, value| {
            let score = read_score(value).ok_or_else(|| Failure::from(DAMAGED_SCORE))?;
            text.clear();
            double::write_17_digits(&mut text, score);
            page.look_at(member, Some(&text))
        })?
    };
    page.reply(call, next);
    Ok(())
}

/// Writes members that were found, until the reply is too long.
fn write_selected(
    store: &mut Store,
    reply: &mut LongReply<'_>,
    set: &SortedSet,
    selection: &Selection<'_>,
    with_scores: bool,
) -> Outcome {
    write_len(&mut reply.write(), selection.len(), with_scores);
    set.visit(store, selection, |score, member| {
        write_member(&mut reply.write(), (score, member), with_scores);
        reply.go_on()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_numbers_are_different() {
        let mut random = fastrand::Rng::with_seed(7);
        for (len, count) in [(10, 0), (10, 1), (10, 9), (1000, 100), (1000, 900)] {
            let drawn = distinct(len, count, &mut random);
            let seen: std::collections::BTreeSet<_> = drawn.iter().copied().collect();
            assert!(seen.len() == count && drawn.len() == count);
            assert!(drawn.iter().all(|&number| number < len));
        }
    }
}
