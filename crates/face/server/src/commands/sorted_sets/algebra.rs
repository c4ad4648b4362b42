//! Unions, intersections and differences of sorted sets, and of sets, whose members count with a score of 1.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::call::{Call, is};
use crate::collection::map::Map;
use crate::collection::sorted_set::{SortedSet, read_score};
use crate::commands::long_reply::LongReply;
use crate::double;
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX, WRONG_TYPE};
use crate::number::parse_i64;
use crate::store::Store;
use crate::stored::Type;

use super::{DAMAGED_SCORE, write_len, write_member};

/// The set that is made of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// The use of the members that are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Reply,
    Store,
    Count,
}

/// How scores of a member are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn join(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinities of both signs, or no number.
            Self::Sum => not_nan(one + other),
            Self::Min if other < one => other,
            Self::Max if other > one => other,
            Self::Min | Self::Max => one,
        }
    }
}

fn not_nan(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number }
}

/// A set that takes part.
struct Source {
    /// `None` if the key has no value.
    set: Option<Members>,
    len: usize,
    weight: f64,
}

enum Members {
    Sorted(SortedSet),
    Set(Map),
}

impl Source {
    fn find(call: &mut Call<'_>, key: &[u8]) -> Outcome<Self> {
        let value = call.read_any(key)?;
        let (store, db) = (&mut call.service.store, call.client.db);
        let set = match value.map(|value| value.value_type()).transpose()? {
            None => None,
            Some(Type::SortedSet) => SortedSet::find(store, db, key)?.map(Members::Sorted),
            Some(Type::Set) => Map::find(store, db, key, Type::Set)?.map(Members::Set),
            Some(_) => return Err(WRONG_TYPE.into()),
        };
        let len = match &set {
            None => 0,
            Some(Members::Sorted(set)) => set.len(store)?,
            Some(Members::Set(set)) => set.len(store)? as usize,
        };
        Ok(Self { set, len, weight: 1.0 })
    }

    /// The weighted score of a member; no number if a weight of 0 meets an infinite score, or the other way round.
    fn score(&self, store: &Store, member: &[u8]) -> Outcome<Option<f64>> {
        let score = match &self.set {
            None => None,
            Some(Members::Sorted(set)) => set.score(store, member)?,
            Some(Members::Set(set)) => set.contains(store, member)?.then_some(1.0),
        };
        Ok(score.map(|score| self.weight * score))
    }

    /// Visits all members with their weighted scores, until `visit` breaks or fails.
    fn visit(
        &self,
        store: &Store,
        mut visit: impl FnMut(&[u8], f64) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        match &self.set {
            None => Ok(()),
            Some(Members::Sorted(set)) => set.map().visit(store, |member, value| {
                let score = read_score(value).ok_or_else(|| Failure::from(DAMAGED_SCORE))?;
                visit(member, not_nan(self.weight * score))
            }),
            Some(Members::Set(set)) => {
                set.visit(store, |member, _| visit(member, not_nan(self.weight)))
            }
        }
    }
}

/// The words of a command.
struct Request {
    sources: Vec<Source>,
    aggregate: Aggregate,
    with_scores: bool,
    /// The most members that are counted.
    limit: usize,
}

impl Request {
    /// Reads the words from the number of keys on, which is the word with this index, and looks the keys up.
    fn of(call: &mut Call<'_>, at: usize, operation: Operation, used: Use) -> Outcome<Self> {
        let count = parse_i64(call.arg(at)).ok_or(NOT_AN_INTEGER)?;
        let Some(count) = usize::try_from(count).ok().filter(|&count| count > 0) else {
            let name = String::from_utf8_lossy(call.arg(0)).to_ascii_lowercase();
            return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
        };
        if count > call.args.len() - (at + 1) {
            return Err(SYNTAX.into());
        }
        let mut sources = Vec::new();
        for index in at + 1..at + 1 + count {
            call.check_ending()?;
            sources.push(Source::find(call, call.arg(index))?);
        }
        let mut request =
            Self { sources, aggregate: Aggregate::Sum, with_scores: false, limit: usize::MAX };
        request.read_options(call, at + 1 + count, operation, used)?;
        Ok(request)
    }

    fn read_options(
        &mut self,
        call: &Call<'_>,
        from: usize,
        operation: Operation,
        used: Use,
    ) -> Outcome {
        let joins = operation != Operation::Difference && used != Use::Count;
        let mut words = call.args.from(from).iter();
        while let Some(word) = words.next() {
            match () {
                () if joins && is(word, "WEIGHTS") && words.len() >= self.sources.len() => {
                    for (source, weight) in self.sources.iter_mut().zip(&mut words) {
                        let weight = double::parse(weight);
                        source.weight = weight.ok_or("ERR weight value is not a float")?;
                    }
                }
                () if joins && is(word, "AGGREGATE") && words.len() >= 1 => {
                    self.aggregate = match words.next() {
                        Some(word) if is(word, "SUM") => Aggregate::Sum,
                        Some(word) if is(word, "MIN") => Aggregate::Min,
                        Some(word) if is(word, "MAX") => Aggregate::Max,
                        _ => return Err(SYNTAX.into()),
                    };
                }
                () if used == Use::Reply && is(word, "WITHSCORES") => self.with_scores = true,
                () if used == Use::Count && is(word, "LIMIT") && words.len() >= 1 => {
                    let limit = words.next().and_then(parse_i64);
                    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
                    let limit = limit.ok_or("ERR LIMIT can't be negative")?;
                    self.limit = if limit == 0 { usize::MAX } else { limit };
                }
                () => return Err(SYNTAX.into()),
            }
        }
        Ok(())
    }

    /// The members with their scores, in order.
    fn members(mut self, call: &Call<'_>, operation: Operation) -> Outcome<Vec<(f64, Vec<u8>)>> {
        let mut members = Vec::new();
        match operation {
            Operation::Union => {
                for (member, score) in self.union(call)? {
                    members.push((score, member));
                }
            }
            Operation::Intersection => self.intersect(call, |member, score| {
                members.push((score, member.to_vec()));
                ControlFlow::Continue(())
            })?,
            Operation::Difference => self.subtract(call, |member, score| {
                members.push((score, member.to_vec()));
            })?,
        }
        members.sort_unstable_by(|(one, a), (other, b)| {
            one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal).then_with(|| a.cmp(b))
        });
        Ok(members)
    }

    fn union(&mut self, call: &Call<'_>) -> Outcome<HashMap<Vec<u8>, f64>> {
        // As in Redis, the smallest sets come first: the order matters to sums of doubles.
        self.sources.sort_by_key(|source| source.len);
        let mut union = HashMap::new();
        for source in &self.sources {
            source.visit(&call.service.store, |member, score| {
                call.check_ending()?;
                match union.get_mut(member) {
                    Some(known) => *known = self.aggregate.join(*known, score),
                    None => {
                        union.insert(member.to_vec(), score);
                    }
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(union)
    }

    /// Finds the members that are in all sets, by those of the smallest one.
    fn intersect(
        &mut self,
        call: &Call<'_>,
        mut found: impl FnMut(&[u8], f64) -> ControlFlow<()>,
    ) -> Outcome {
        self.sources.sort_by_key(|source| source.len);
        let Some((smallest, others)) = self.sources.split_first() else { return Ok(()) };
        let store = &call.service.store;
        smallest.visit(store, |member, score| {
            call.check_ending()?;
            let mut joined = score;
            for other in others {
                let Some(score) = other.score(store, member)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                joined = self.aggregate.join(joined, score);
            }
            Ok(found(member, joined))
        })
    }

    /// Finds the members of the first set that are in none of the others.
    fn subtract(&self, call: &Call<'_>, mut found: impl FnMut(&[u8], f64)) -> Outcome {
        let Some((first, others)) = self.sources.split_first() else { return Ok(()) };
        let store = &call.service.store;
        first.visit(store, |member, score| {
            call.check_ending()?;
            for other in others {
                if other.score(store, member)?.is_some() {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            found(member, score);
            Ok(ControlFlow::Continue(()))
        })
    }
}

pub(crate) fn zunion(call: &mut Call<'_>) -> Outcome {
    reply(call, Operation::Union)
}

pub(crate) fn zinter(call: &mut Call<'_>) -> Outcome {
    reply(call, Operation::Intersection)
}

pub(crate) fn zdiff(call: &mut Call<'_>) -> Outcome {
    reply(call, Operation::Difference)
}

fn reply(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let request = Request::of(call, 1, operation, Use::Reply)?;
    let with_scores = request.with_scores;
    let members = request.members(call, operation)?;
    let (_, mut reply) = LongReply::of(call);
    write_len(&mut reply.write(), members.len(), with_scores);
    for (score, member) in &members {
        write_member(&mut reply.write(), (*score, member), with_scores);
        if reply.go_on()?.is_break() {
            break;
        }
    }
    Ok(())
}

pub(crate) fn zunionstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Union, "zunionstore")
}

pub(crate) fn zinterstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Intersection, "zinterstore")
}

pub(crate) fn zdiffstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Difference, "zdiffstore")
}

fn store(call: &mut Call<'_>, operation: Operation, event: &'static str) -> Outcome {
    let request = Request::of(call, 2, operation, Use::Store)?;
    let members = request.members(call, operation)?;
    let mut target = SortedSet::new(call.client.db, call.arg(1));
    for (score, member) in &members {
        call.check_ending()?;
        target.put(&mut call.service.store, member, *score)?;
    }
    target.save_new(&mut call.service.store, event)?;
    call.reply().integer(members.len() as i64);
    Ok(())
}

pub(crate) fn zintercard(call: &mut Call<'_>) -> Outcome {
    let mut request = Request::of(call, 1, Operation::Intersection, Use::Count)?;
    let (mut count, limit) = (0, request.limit);
    request.intersect(call, |_, _| {
        count += 1;
        if count < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    call.reply().integer(count as i64);
    Ok(())
}
