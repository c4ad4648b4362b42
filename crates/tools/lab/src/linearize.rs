//! Durable linearizability: which states a crash may leave of a concurrent history.
//!
//! Calls of several threads overlap. A state is right if the calls can be put into an order in which each takes effect
//! at one moment between its beginning and its end, every read returns the value that it did return, every call that
//! had ended when the power was cut is included, and any of those that had begun. All such states are found by trying
//! all orders, where two ways to the same state through the same calls count once.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::run::Oracle;
use crate::world::{Digest, World};

/// The effect of a call.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    /// Sets names, or removes them, all at once.
    Write(Vec<(Vec<u8>, Option<Digest>)>),
    /// A read of one name.
    Get(Vec<u8>, Option<Digest>),
    /// A read of all names.
    Scan(World),
    /// A read of these names and writes or removals of others, at the same moment.
    Update(Vec<(Vec<u8>, Option<Digest>)>, Vec<(Vec<u8>, Option<Digest>)>),
}

/// A call of a thread, and between which events of the trace it was under way.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) begun: u32,
    /// `None` if the power was cut before.
    pub(crate) ended: Option<u32>,
    /// Its effect; `None` for a read that never returned.
    pub(crate) effect: Option<Effect>,
}

/// The calls that have to be there, and those that may be: a bit for each.
type Sets = (u64, u64);

/// A concurrent history, from a state that was durable before it.
pub(crate) struct ConcurrentHistory {
    before: Arc<World>,
    calls: Vec<Call>,
    /// The states found, by the calls that have to be included and those that may be.
    found: RefCell<HashMap<Sets, Vec<Arc<World>>>>,
}

impl ConcurrentHistory {
    pub(crate) fn new(before: World, calls: Vec<Call>) -> Self {
        assert!(calls.len() <= 64, "sets of calls are words");
        Self { before: Arc::new(before), calls, found: RefCell::default() }
    }

    /// The states that are possible if calls that ended before the event `point` have to be included, and only those
    /// that began before it can be.
    pub(crate) fn states_at(&self, point: u32) -> Vec<Arc<World>> {
        let ended = |call: &Call| call.ended.is_some_and(|ended| ended < point);
        let (mut must, mut may) = (0_u64, 0_u64);
        for (number, call) in self.calls.iter().enumerate() {
            must |= u64::from(ended(call)) << number;
            let writes = matches!(call.effect, Some(Effect::Write(_) | Effect::Update(..)));
            may |= u64::from(ended(call) || call.begun < point && writes) << number;
        }
        if let Some(found) = self.found.borrow().get(&(must, may)) {
            return found.clone();
        }
        let mut search =
            Search { calls: &self.calls, must, may, seen: HashSet::new(), found: Vec::new() };
        search.go_on(0, &self.before);
        self.found.borrow_mut().insert((must, may), search.found.clone());
        search.found
    }
}

impl Oracle for ConcurrentHistory {
    fn allowed(&self, youngest: u32, end: u32) -> Vec<Arc<World>> {
        let late = self.states_at(end);
        self.states_at(youngest + 1).into_iter().filter(|state| late.contains(state)).collect()
    }
}

struct Search<'a> {
    calls: &'a [Call],
    must: u64,
    may: u64,
    /// Sets of calls with the states that they led to.
    seen: HashSet<(u64, World)>,
    found: Vec<Arc<World>>,
}

impl Search<'_> {
    fn go_on(&mut self, done: u64, world: &World) {
        if !self.seen.insert((done, world.clone())) {
            return;
        }
        if done & self.must == self.must && !self.found.iter().any(|found| **found == *world) {
            self.found.push(Arc::new(world.clone()));
        }
        for number in 0..self.calls.len() {
            if self.may & !done & 1 << number == 0 || !self.is_next(number, done) {
                continue;
            }
            let done = done | 1 << number;
            match &self.calls[number].effect {
                Some(Effect::Write(changes)) => self.go_on(done, &changed(world, changes)),
                Some(Effect::Update(read, changes))
                    if read.iter().all(|(name, returned)| world.get(name) == returned.as_ref()) =>
                {
                    self.go_on(done, &changed(world, changes));
                }
                Some(Effect::Get(name, returned)) if world.get(name) == returned.as_ref() => {
                    self.go_on(done, world);
                }
                Some(Effect::Scan(returned)) if returned == world => self.go_on(done, world),
                _ => {}
            }
        }
    }

    /// Whether every call that ended before this one began is done.
    fn is_next(&self, number: usize, done: u64) -> bool {
        let begun = self.calls[number].begun;
        self.calls.iter().enumerate().all(|(other, call)| {
            done & 1 << other != 0 || call.ended.is_none_or(|ended| ended > begun)
        })
    }
}

/// A world with names set or removed.
fn changed(world: &World, changes: &[(Vec<u8>, Option<Digest>)]) -> World {
    let mut world = world.clone();
    for (name, digest) in changes {
        match digest {
            Some(digest) => drop(world.insert(name.clone(), *digest)),
            None => drop(world.remove(name)),
        }
    }
    world
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(begun: u32, ended: u32, name: &str, value: &str) -> Call {
        let digest = Digest::of(value.as_bytes());
        let effect = Effect::Write(vec![(name.into(), Some(digest))]);
        Call { begun, ended: Some(ended), effect: Some(effect) }
    }

    fn get(begun: u32, ended: u32, name: &str, value: Option<&str>) -> Call {
        let returned = value.map(|value| Digest::of(value.as_bytes()));
        let effect = Effect::Get(name.into(), returned);
        Call { begun, ended: Some(ended), effect: Some(effect) }
    }

    fn states(calls: Vec<Call>, point: u32) -> Vec<Vec<(String, Digest)>> {
        let history = ConcurrentHistory::new(World::new(), calls);
        let states = history.states_at(point);
        let mut states: Vec<Vec<_>> = states
            .iter()
            .map(|world| {
                let pair = |(name, digest): (&Vec<u8>, &Digest)| {
                    (String::from_utf8_lossy(name).into_owned(), *digest)
                };
                world.iter().map(pair).collect()
            })
            .collect();
        states.sort_by_key(|state| state.len());
        states
    }

    #[test]
    fn overlapping_writes_may_be_in_any_order_and_others_not() {
        assert_eq!(states(vec![put(0, 10, "a", "1"), put(5, 15, "a", "2")], 20).len(), 2);
        let one_after_the_other = states(vec![put(0, 4, "a", "1"), put(5, 15, "a", "2")], 20);
        assert_eq!(one_after_the_other, [[("a".to_owned(), Digest::of(b"2"))]]);
    }

    #[test]
    fn what_ended_must_be_there_and_what_began_may_be() {
        let calls = vec![put(0, 4, "a", "1"), put(5, 15, "b", "2")];
        assert_eq!(states(calls.clone(), 10).iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(states(calls.clone(), 16).iter().map(Vec::len).collect::<Vec<_>>(), [2]);
        assert_eq!(states(calls, 2).iter().map(Vec::len).collect::<Vec<_>>(), [0, 1]);
    }

    fn update(begun: u32, ended: u32, read: (&str, Option<&str>), name: &str, value: &str) -> Call {
        let Call { effect: Some(Effect::Get(of, returned)), .. } = get(0, 0, read.0, read.1) else {
            unreachable!("it is a get")
        };
        let Call { effect: Some(Effect::Write(changes)), .. } = put(0, 0, name, value) else {
            unreachable!("it is a write")
        };
        let effect = Some(Effect::Update(vec![(of, returned)], changes));
        Call { begun, ended: Some(ended), effect }
    }

    #[test]
    fn an_update_is_right_only_where_it_read_what_was_there() {
        // Of two calls that read an absent key and wrote, one overlooked the other's write.
        let one = update(0, 10, ("a", None), "a", "1");
        assert_eq!(
            states(vec![one.clone(), update(5, 15, ("a", Some("1")), "a", "2")], 20).len(),
            1
        );
        assert!(states(vec![one.clone(), update(5, 15, ("a", None), "a", "2")], 20).is_empty());
        assert_eq!(states(vec![one, update(5, 15, ("b", None), "b", "2")], 20).len(), 1);
    }

    #[test]
    fn a_read_that_ended_tells_what_was_there() {
        // The write had only begun, but a read returned its value: it must survive.
        let calls = vec![put(0, 20, "a", "1"), get(3, 5, "a", Some("1"))];
        assert_eq!(states(calls, 10).iter().map(Vec::len).collect::<Vec<_>>(), [1]);
        // A read cannot return a value that was never written.
        assert!(states(vec![get(0, 1, "a", Some("1"))], 10).is_empty());
        // The read came after the write had ended, and did not return its value.
        assert!(states(vec![put(0, 1, "a", "1"), get(3, 5, "a", None)], 10).is_empty());
    }
}
