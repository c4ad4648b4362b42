//! Sorted sets: members with scores, by the scores and then by the members' bytes.
//!
//! A sorted set is a map from members to scores, 8 bytes each ([`Map`]), and an order. The order of a small one is found
//! when it is asked for. Of a larger one there are two orders:
//!
//! ```text
//!                the engine keeps all keys in DRAM            the engine has keys below its pool, too
//! stored         -                                            a record for each member (`stored::order`), with the map's
//! in DRAM        a tree, made from the map at the first use   a tree, made at the first use of a rank far from both ends
//! ```
//!
//! The tree ([`Resident::Scores`]) is changed with the map, and gives ranks in logarithmic time. A stored order is read by
//! scans (`stored`), so that data may be larger than DRAM and a start reads nothing; a change of a score writes three
//! records where it would write one. Whether a set has a stored order says the record of its key: sets of older versions
//! have none, nor do those that came from other engines, and these have the tree on any engine.

mod bounds;
mod removal;
mod selection;
mod stored;

use std::ops::ControlFlow;

use super::map::Map;
use super::{check_ending, damaged};
use crate::counted_tree::{CountedTree, Scored};
use crate::failure::{Failure, Outcome};
use crate::store::{Order, Resident, Store};
use crate::stored::Type;

pub(crate) use crate::stored::order::read_score;
pub(crate) use bounds::{Bounds, Member, Scores};
pub(crate) use selection::{Selection, Wanted};
use stored::Stretch;

/// A sorted set, as a command has it.
#[derive(Debug)]
pub(crate) struct SortedSet {
    map: Map,
    key: Vec<u8>,
}

impl SortedSet {
    /// The sorted set at a key, if there is one. Another type is refused.
    pub(crate) fn find(store: &mut Store, db: usize, key: &[u8]) -> Outcome<Option<Self>> {
        let map = Map::find(store, db, key, Type::SortedSet)?;
        Ok(map.map(|map| Self { map, key: key.to_vec() }))
    }

    /// A sorted set without members, in the place of whatever the key has.
    pub(crate) fn new(db: usize, key: &[u8]) -> Self {
        Self { map: Map::new(db, key, Type::SortedSet), key: key.to_vec() }
    }

    /// Its members with their scores as a map, in no order.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// The score of a member.
    pub(crate) fn score(&self, store: &Store, member: &[u8]) -> Outcome<Option<f64>> {
        let value = self.map.get(store, member)?;
        value.map(|value| read_score(&value).ok_or_else(|| self.no_score())).transpose()
    }

    fn no_score(&self) -> Failure {
        damaged(&self.key, "a score has another length, or is no number")
    }

    /// Sets the score of a member, which is a number; returns the one before.
    pub(crate) fn put(
        &mut self,
        store: &mut Store,
        member: &[u8],
        score: f64,
    ) -> Outcome<Option<f64>> {
        let before = self.score(store, member)?;
        self.put_over(store, member, score, before)?;
        Ok(before)
    }

    /// [`SortedSet::put`] of a member whose score before is known.
    pub(crate) fn put_over(
        &mut self,
        store: &mut Store,
        member: &[u8],
        score: f64,
        before: Option<f64>,
    ) -> Outcome {
        // Zeros of both signs are equal, and as in Redis the one that is there is kept.
        if before.is_some_and(|before| before == score) {
            return Ok(());
        }
        // Redis packs a negative zero as 0, but for that of the member with which the set becomes too large for that.
        let was_packed = self.is_packed();
        let stored = if was_packed { score + 0.0 } else { score };
        self.map.put_known(store, member, &stored.to_le_bytes(), before.is_none())?;
        if !was_packed {
            return self.change_order(store, member, before, Some(score));
        }
        if self.is_packed() {
            return Ok(());
        }
        if score.to_bits() != stored.to_bits() {
            self.map.put_known(store, member, &score.to_le_bytes(), false)?;
        }
        self.begin_order(store)
    }

    /// Removes a member; returns its score if it was there.
    pub(crate) fn remove(&mut self, store: &mut Store, member: &[u8]) -> Outcome<Option<f64>> {
        let Some(before) = self.score(store, member)? else { return Ok(None) };
        self.map.remove_known(store, member)?;
        self.change_order(store, member, Some(before), None)?;
        Ok(Some(before))
    }

    /// The number of members.
    pub(crate) fn len(&self, store: &mut Store) -> Outcome<usize> {
        let Some(elements) = self.map.elements() else { return Ok(self.map.len(store)? as usize) };
        let known = store.known_resident(&elements).and_then(|resident| resident.count());
        match known {
            Some(count) => Ok(count as usize),
            None if self.map.has_order() => Ok(self.count_both(store, &elements)? as usize),
            None => self.with_order(store, |order| order.len()),
        }
    }

    /// The number of its records, of one that has elements.
    pub(crate) fn records(&self, store: &mut Store) -> Outcome<usize> {
        let len = self.len(store)?;
        Ok(if self.map.has_order() { 2 * len } else { len })
    }

    /// Whether the order is there as a tree, or small, so that a rank takes logarithmic time.
    pub(crate) fn has_ranks(&self, store: &mut Store) -> bool {
        self.stored_order(store).is_none()
    }

    /// Reads the order of the members.
    pub(crate) fn with_order<T>(
        &self,
        store: &mut Store,
        read: impl FnOnce(&CountedTree<Scored>) -> T,
    ) -> Outcome<T> {
        let Some(elements) = self.map.elements() else { return Ok(read(&self.sort(store)?)) };
        if !matches!(store.known_resident(&elements), Some(Resident::Scores(_))) {
            let scores = self.sort(store)?;
            if self.map.has_order() {
                self.check_order(store, &scores)?;
            }
            store.forget_resident(&elements);
            store.resident(&elements, |_| Ok(Resident::Scores(scores)))?;
        }
        match store.known_resident(&elements) {
            Some(Resident::Scores(scores)) => Ok(read(scores)),
            _ => Err(damaged(&self.key, "it is no sorted set")),
        }
    }

    fn sort(&self, store: &Store) -> Outcome<CountedTree<Scored>> {
        let mut scores = CountedTree::default();
        self.map.visit(store, |member, value| {
            check_ending(store)?;
            scores.insert((read_score(value).ok_or_else(|| self.no_score())?, member));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(scores)
    }

    /// Refuses a stored order that is not that of the members.
    fn check_order(&self, store: &mut Store, scores: &CountedTree<Scored>) -> Outcome {
        let Some(elements) = self.map.elements() else { return Ok(()) };
        let mut rank = 0;
        self.walk(store, &elements, &Stretch::whole(), Order::Ascending, |score, member| {
            let is_same =
                |(known, of): (f64, &[u8])| known.to_bits() == score.to_bits() && of == &member[..];
            if !scores.get(rank).is_some_and(is_same) {
                return Err(self.other_order());
            }
            rank += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        if rank == scores.len() { Ok(()) } else { Err(self.other_order()) }
    }

    /// Whether it is one record.
    pub(crate) fn is_packed(&self) -> bool {
        self.map.is_packed()
    }

    /// Writes the sorted set, and tells of events: what was changed is there now. One without members is no more.
    pub(crate) fn save(
        self,
        store: &mut Store,
        events: impl IntoIterator<Item = &'static str>,
    ) -> Outcome {
        self.map.save(store, events)
    }

    /// [`SortedSet::save`] of one that takes the place of whatever the key had.
    pub(crate) fn save_new(self, store: &mut Store, event: &'static str) -> Outcome {
        self.map.save_new(store, event)
    }
}

#[cfg(test)]
mod tests;
