//! The same lookups and inserts by hand-written state machines (asynchronous memory access chaining,
//! AMAC: Kocberber et al., cited by van Renen §3.5), to measure the cost of coroutines against them.
//!
//! The state of each operation is an entry of an array, which is visited in turn. The variants of an enum
//! hold the state that an `async fn` keeps in its future, and the arm of a variant has the code behind the
//! `await`.

use halite_pmem::{Fenced, Flushed};

use super::leaf::{Leaves, NO_RUN, Reservation, Search};
use super::slots;
use crate::Result;

/// A lookup on its way.
enum LookUp {
    /// There is no operation.
    Idle,
    /// The leaf's first line is fetched.
    First { leaf: u64, key: u64 },
    /// The pair of the first of these slots is fetched.
    Pair { leaf: u64, key: u64, candidates: u32 },
}

/// Looks up keys of leaves, `size` at a time. `done` takes the values, in the order in which they are
/// found.
///
/// # Panics
/// If `size` is zero.
pub fn look_up_all(
    leaves: &Leaves,
    size: usize,
    keys: impl IntoIterator<Item = (u64, u64)>,
    mut done: impl FnMut(Result<Option<u64>>),
) {
    assert!(size > 0, "a group has at least one operation at a time");
    let mut keys = keys.into_iter().fuse();
    let mut states: Vec<LookUp> = (0..size).map(|_| LookUp::Idle).collect();
    let mut active = usize::MAX;
    while active > 0 {
        active = 0;
        for state in &mut states {
            let next = match *state {
                LookUp::Idle => None,
                LookUp::First { leaf, key } => match leaves.candidates(leaf, key) {
                    Err(error) => ended(&mut done, Err(error)),
                    Ok(candidates) => next_pair(leaves, leaf, key, candidates, &mut done),
                },
                LookUp::Pair { leaf, key, candidates } => {
                    match leaves.compare(leaf, candidates.trailing_zeros(), key) {
                        Ok(None) => {
                            let rest = candidates & (candidates - 1);
                            next_pair(leaves, leaf, key, rest, &mut done)
                        }
                        found => ended(&mut done, found),
                    }
                }
            };
            *state = next
                .or_else(|| begin_look_up(leaves, &mut keys, &mut done))
                .unwrap_or(LookUp::Idle);
            active += usize::from(!matches!(state, LookUp::Idle));
        }
    }
}

fn begin_look_up(
    leaves: &Leaves,
    keys: &mut impl Iterator<Item = (u64, u64)>,
    done: &mut impl FnMut(Result<Option<u64>>),
) -> Option<LookUp> {
    let (leaf, key) = next_of(leaves, keys, |(leaf, _)| *leaf, |error| done(Err(error)))?;
    leaves.prefetch(leaf);
    Some(LookUp::First { leaf, key })
}

fn next_pair(
    leaves: &Leaves,
    leaf: u64,
    key: u64,
    candidates: u32,
    done: &mut impl FnMut(Result<Option<u64>>),
) -> Option<LookUp> {
    match slots::lowest(candidates) {
        None => ended(done, Ok(None)),
        Some(slot) => {
            leaves.prefetch_pair(leaf, slot);
            Some(LookUp::Pair { leaf, key, candidates })
        }
    }
}

fn ended<T, S>(done: &mut impl FnMut(T), outcome: T) -> Option<S> {
    done(outcome);
    None
}

/// The next operation whose leaf exists.
fn next_of<O>(
    leaves: &Leaves,
    operations: &mut impl Iterator<Item = O>,
    leaf: impl Fn(&O) -> u64,
    mut refuse: impl FnMut(crate::Error),
) -> Option<O> {
    operations.find(|operation| leaves.check(leaf(operation)).map_err(&mut refuse).is_ok())
}

/// An insert on its way.
enum Insert<'a> {
    /// There is no operation.
    Idle,
    /// The leaf's first line, or that of a pair, is fetched.
    Search { pair: Pair, compared: u32, compare: Option<u32> },
    /// The line of the reserved slot is fetched.
    Reserved { reserved: Reservation<'a>, value: u64 },
    /// The pair is written; the proof will be in this place.
    Written { reserved: Reservation<'a>, proof: usize },
    /// The bit is set. The reservation keeps others from it until it is durable.
    Set { _reserved: Reservation<'a> },
}

/// The pair to be inserted, and its leaf.
#[derive(Clone, Copy)]
struct Pair {
    leaf: u64,
    key: u64,
    value: u64,
}

/// The outcome of one turn of an insert.
enum Turn<'a> {
    Goes(Insert<'a>),
    Waits(Insert<'a>),
    Ended(Result<()>),
}

/// Inserts pairs (leaf, key, value), `size` at a time. `done` takes the outcomes, in the order in which
/// they are durable. Two fences for `size` inserts. No group inserts meanwhile.
///
/// # Errors
/// The pool's errors of a fence. The inserts without an outcome may have happened or not, and later ones
/// are [`Error::LeavesFailed`](crate::Error::LeavesFailed).
///
/// # Panics
/// If `size` is zero.
pub fn insert_all(
    leaves: &mut Leaves,
    size: usize,
    pairs: impl IntoIterator<Item = (u64, u64, u64)>,
    mut done: impl FnMut(Result<()>),
) -> Result<()> {
    assert!(size > 0, "a group has at least one operation at a time");
    leaves.forget_inserts();
    let leaves = &*leaves;
    let mut pairs = pairs.into_iter().fuse();
    let mut states: Vec<(Insert<'_>, bool)> = (0..size).map(|_| (Insert::Idle, false)).collect();
    let (mut flushed, mut fenced) = (Vec::with_capacity(size), Vec::with_capacity(size));
    loop {
        let (mut active, mut waiting) = (0, 0);
        for (state, waits) in &mut states {
            if !*waits {
                let mut turn = match std::mem::replace(state, Insert::Idle) {
                    Insert::Idle => begin_insert(leaves, &mut pairs, &mut done),
                    insert => Some(step(leaves, insert, &mut flushed, &fenced)),
                };
                if let Some(Turn::Ended(_)) = turn {
                    if let Some(Turn::Ended(outcome)) = turn {
                        done(outcome);
                    }
                    turn = begin_insert(leaves, &mut pairs, &mut done);
                }
                (*state, *waits) = match turn {
                    Some(Turn::Goes(insert)) => (insert, false),
                    Some(Turn::Waits(insert)) => (insert, true),
                    Some(Turn::Ended(_)) | None => (Insert::Idle, false),
                };
            }
            active += usize::from(!matches!(state, Insert::Idle));
            waiting += usize::from(*waits);
        }
        if active == 0 {
            return Ok(());
        }
        if waiting == active {
            if !flushed.is_empty() {
                leaves.known(leaves.pool().fence_into(&mut flushed, &mut fenced))?;
            }
            states.iter_mut().for_each(|(_, waits)| *waits = false);
        }
    }
}

fn begin_insert<'a>(
    leaves: &'a Leaves,
    pairs: &mut impl Iterator<Item = (u64, u64, u64)>,
    done: &mut impl FnMut(Result<()>),
) -> Option<Turn<'a>> {
    let next = next_of(leaves, pairs, |(leaf, ..)| *leaf, |error| done(Err(error)));
    let (leaf, key, value) = next?;
    leaves.prefetch(leaf);
    let pair = Pair { leaf, key, value };
    Some(Turn::Goes(Insert::Search { pair, compared: 0, compare: None }))
}

fn step<'a>(
    leaves: &'a Leaves,
    insert: Insert<'a>,
    flushed: &mut Vec<Flushed>,
    fenced: &[Fenced],
) -> Turn<'a> {
    match insert {
        Insert::Idle => unreachable!("an idle entry begins an insert"),
        Insert::Search { pair, compared, compare } => search(leaves, pair, compared, compare),
        Insert::Reserved { reserved, value } => {
            let proof = flushed.len();
            match reserved.write_pair(value) {
                Err(error) => Turn::Ended(Err(error)),
                Ok(pair) => {
                    flushed.push(pair);
                    Turn::Waits(Insert::Written { reserved, proof })
                }
            }
        }
        Insert::Written { reserved, proof } => match reserved.set_bit(&fenced[proof]) {
            Err(error) => Turn::Ended(Err(error)),
            Ok(line) => {
                flushed.push(line);
                Turn::Waits(Insert::Set { _reserved: reserved })
            }
        },
        Insert::Set { .. } => Turn::Ended(Ok(())),
    }
}

fn search(leaves: &Leaves, pair: Pair, mut compared: u32, compare: Option<u32>) -> Turn<'_> {
    let Pair { leaf, key, value } = pair;
    if let Some(slot) = compare {
        if let Err(error) = leaves.refuse_existing(leaf, slot, key) {
            return Turn::Ended(Err(error));
        }
        compared |= 1 << slot;
    }
    match leaves.search(leaf, key, compared, NO_RUN) {
        Err(error) => Turn::Ended(Err(error)),
        Ok(Search::Wait) => Turn::Waits(Insert::Search { pair, compared, compare: None }),
        Ok(Search::Compare(slot)) => {
            leaves.prefetch_pair(leaf, slot);
            Turn::Goes(Insert::Search { pair, compared, compare: Some(slot) })
        }
        Ok(Search::Reserved(reserved)) => {
            reserved.prefetch();
            Turn::Goes(Insert::Reserved { reserved, value })
        }
    }
}
