//! Ranges of sorted sets: ZRANGE and its older forms, and those that count, remove or store.

use crate::call::{Call, is};
use crate::collection::sorted_set::{Bounds, Selection, SortedSet, Wanted};
use crate::commands::long_reply::LongReply;
use crate::failure::{NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::number::parse_i64;

use super::bounds::{self, By};
use super::{read, read_at, write_selected};

/// A range, as a command's name and its words describe it.
struct Request<'a> {
    bounds: Bounds<'a>,
    is_reverse: bool,
    with_scores: bool,
    /// Members that are left out at the beginning.
    offset: i64,
    /// The most members; negative: all.
    limit: i64,
}

/// The part of a range that the name of a command says, and no words.
#[derive(Debug, Clone, Copy, Default)]
struct Named {
    by: Option<By>,
    is_reverse: Option<bool>,
    /// The members are stored.
    stores: bool,
}

impl<'a> Request<'a> {
    /// Reads the words from the range's first end on, which has this index.
    fn parse(call: &Call<'a>, first: usize, named: Named) -> Outcome<Self> {
        let (mut by, mut is_reverse) = (named.by, named.is_reverse);
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut words = call.args.from(first + 2).iter();
        while let Some(word) = words.next() {
            match () {
                () if !named.stores && is(word, "WITHSCORES") => with_scores = true,
                () if is(word, "LIMIT") && words.len() >= 2 => {
                    let mut number = || words.next().and_then(parse_i64).ok_or(NOT_AN_INTEGER);
                    (offset, limit) = (number()?, number()?);
                }
                () if is_reverse.is_none() && is(word, "REV") => is_reverse = Some(true),
                () if by.is_none() && is(word, "BYLEX") => by = Some(By::Member),
                () if by.is_none() && is(word, "BYSCORE") => by = Some(By::Score),
                () => return Err(SYNTAX.into()),
            }
        }
        let (by, is_reverse) = (by.unwrap_or(By::Rank), is_reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err("ERR syntax error, LIMIT is only supported in combination with either \
                        BYSCORE or BYLEX"
                .into());
        }
        if with_scores && by == By::Member {
            let why = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
            return Err(why.into());
        }
        let (min, max) = match is_reverse && by != By::Rank {
            true => (call.arg(first + 1), call.arg(first)),
            false => (call.arg(first), call.arg(first + 1)),
        };
        let bounds = bounds::parse(by, min, max)?;
        Ok(Self { bounds, is_reverse, with_scores, offset, limit })
    }

    /// Finds the members that are requested.
    fn select(&self, call: &mut Call<'_>, set: &SortedSet) -> Outcome<Selection<'a>> {
        // Behind a negative offset there is no member.
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let Self { bounds, is_reverse, .. } = *self;
        set.select(&mut call.service.store, Wanted { bounds, is_reverse, offset, limit })
    }
}

pub(crate) fn zrange(call: &mut Call<'_>) -> Outcome {
    range(call, Named::default())
}

pub(crate) fn zrevrange(call: &mut Call<'_>) -> Outcome {
    range(call, named(By::Rank, true))
}

pub(crate) fn zrangebyscore(call: &mut Call<'_>) -> Outcome {
    range(call, named(By::Score, false))
}

pub(crate) fn zrevrangebyscore(call: &mut Call<'_>) -> Outcome {
    range(call, named(By::Score, true))
}

pub(crate) fn zrangebylex(call: &mut Call<'_>) -> Outcome {
    range(call, named(By::Member, false))
}

pub(crate) fn zrevrangebylex(call: &mut Call<'_>) -> Outcome {
    range(call, named(By::Member, true))
}

fn named(by: By, is_reverse: bool) -> Named {
    Named { by: Some(by), is_reverse: Some(is_reverse), stores: false }
}

fn range(call: &mut Call<'_>, named: Named) -> Outcome {
    let request = Request::parse(call, 2, named)?;
    let Some(set) = read(call)? else {
        call.reply().array(0);
        return Ok(());
    };
    let selection = request.select(call, &set)?;
    let (store, mut reply) = LongReply::of(call);
    write_selected(store, &mut reply, &set, &selection, request.with_scores)
}

pub(crate) fn zrangestore(call: &mut Call<'_>) -> Outcome {
    let request = Request::parse(call, 3, Named { stores: true, ..Named::default() })?;
    let source = read_at(call, 2)?;
    let mut target = SortedSet::new(call.client.db, call.arg(1));
    let mut count = 0;
    if let Some(source) = source {
        let selection = request.select(call, &source)?;
        count = selection.len();
        let members = source.members(&mut call.service.store, selection)?;
        for (score, member) in members {
            call.check_ending()?;
            target.put(&mut call.service.store, &member, score)?;
        }
    }
    target.save_new(&mut call.service.store, "zrangestore")?;
    call.reply().integer(count as i64);
    Ok(())
}

pub(crate) fn zcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Score)
}

pub(crate) fn zlexcount(call: &mut Call<'_>) -> Outcome {
    count(call, By::Member)
}

fn count(call: &mut Call<'_>, by: By) -> Outcome {
    let bounds = bounds::parse(by, call.arg(2), call.arg(3))?;
    let count = match read(call)? {
        Some(set) => set.count(&mut call.service.store, bounds)?,
        None => 0,
    };
    call.reply().integer(count as i64);
    Ok(())
}

pub(crate) fn zremrangebyrank(call: &mut Call<'_>) -> Outcome {
    remove(call, By::Rank)
}

pub(crate) fn zremrangebyscore(call: &mut Call<'_>) -> Outcome {
    remove(call, By::Score)
}

pub(crate) fn zremrangebylex(call: &mut Call<'_>) -> Outcome {
    remove(call, By::Member)
}

fn remove(call: &mut Call<'_>, by: By) -> Outcome {
    let bounds = bounds::parse(by, call.arg(2), call.arg(3))?;
    let (db, key) = (call.client.db, call.arg(1));
    let store = &mut call.service.store;
    let mut count = 0;
    if let Some(mut set) = SortedSet::find(store, db, key)? {
        let selection = set.select(store, Wanted::all_of(bounds))?;
        count = set.remove_selected(store, selection)?;
        let event = match by {
            By::Rank => "zremrangebyrank",
            By::Score => "zremrangebyscore",
            By::Member => "zremrangebylex",
        };
        set.save(store, (count > 0).then_some(event))?;
    }
    call.reply().integer(count as i64);
    Ok(())
}
