//! Sorted sets: members with scores, by the scores and then by the members' bytes.
//!
//! A sorted set is a map from members to scores, 8 bytes each ([`Map`]), and an order. The order of a small one is found
//! when it is asked for; that of a larger one is in DRAM ([`Resident::Scores`]), made from the map when it is first asked
//! for, and changed with it. So a change writes one record, and ranks take logarithmic time.

use std::ops::{ControlFlow, Range};

use super::map::Map;
use super::{check_ending, damaged};
use crate::counted_tree::{CountedTree, Scored};
use crate::failure::{Failure, Outcome};
use crate::store::{Resident, Store};
use crate::stored::Type;

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
        // Zeros of both signs are equal, and as in Redis the one that is there is kept.
        if before.is_some_and(|before| before == score) {
            return Ok(before);
        }
        // Redis packs a negative zero as 0, but for that of the member with which the set becomes too large for that.
        let was_packed = self.is_packed();
        let stored = if was_packed { score + 0.0 } else { score };
        self.map.put_known(store, member, &stored.to_le_bytes(), before.is_none())?;
        if was_packed && !self.is_packed() && score.to_bits() != stored.to_bits() {
            self.map.put_known(store, member, &score.to_le_bytes(), false)?;
        }
        if let Some(elements) = self.map.elements()
            && let Some(Resident::Scores(scores)) = store.known_resident(&elements)
        {
            if let Some(before) = before {
                scores.remove((before, member));
            }
            scores.insert((score, member));
        }
        Ok(before)
    }

    /// Removes a member; returns its score if it was there.
    pub(crate) fn remove(&mut self, store: &mut Store, member: &[u8]) -> Outcome<Option<f64>> {
        let Some(before) = self.score(store, member)? else { return Ok(None) };
        self.map.remove_known(store, member)?;
        if let Some(elements) = self.map.elements()
            && let Some(Resident::Scores(scores)) = store.known_resident(&elements)
        {
            scores.remove((before, member));
        }
        Ok(Some(before))
    }

    /// The number of members.
    pub(crate) fn len(&self, store: &mut Store) -> Outcome<usize> {
        match self.map.is_packed() {
            true => Ok(self.map.len(store)? as usize),
            false => self.with_order(store, |order| order.len()),
        }
    }

    /// Reads the order of the members.
    pub(crate) fn with_order<T>(
        &self,
        store: &mut Store,
        read: impl FnOnce(&CountedTree<Scored>) -> T,
    ) -> Outcome<T> {
        let Some(elements) = self.map.elements() else { return Ok(read(&self.sort(store)?)) };
        if !matches!(store.known_resident(&elements), Some(Resident::Scores(_))) {
            store.forget_resident(&elements);
            let scores = self.sort(store)?;
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
            scores.insert((read_score(value).ok_or_else(|| self.no_score())?, member));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(scores)
    }

    /// Whether it is one record.
    pub(crate) fn is_packed(&self) -> bool {
        self.map.is_packed()
    }

    /// Removes the members of some ranks, and returns how many they are.
    pub(crate) fn remove_ranks(
        &mut self,
        store: &mut Store,
        ranks: Range<usize>,
    ) -> Outcome<usize> {
        let len = self.len(store)?;
        let ranks = ranks.start..ranks.end.min(len);
        if ranks.is_empty() {
            return Ok(0);
        }
        if ranks.len() == len {
            self.map.clear();
            return Ok(len);
        }
        if self.map.elements().is_none() || ranks.len() <= len / 2 || self.map.is_changed() {
            self.remove_each(store, ranks.clone())?;
            return Ok(ranks.len());
        }
        // Fewer stay than go: those are written under a new number, and the others go with the old one.
        let mut kept = self.members(store, 0..ranks.start)?;
        kept.extend(self.members(store, ranks.end..len)?);
        self.map.renew(store)?;
        for (score, member) in kept {
            check_ending(store)?;
            self.map.put_known(store, &member, &score.to_le_bytes(), true)?;
        }
        Ok(ranks.len())
    }

    fn remove_each(&mut self, store: &mut Store, ranks: Range<usize>) -> Outcome {
        for (_, member) in self.members(store, ranks.clone())? {
            check_ending(store)?;
            self.map.remove_known(store, &member)?;
            if let Some(elements) = self.map.elements()
                && let Some(Resident::Scores(scores)) = store.known_resident(&elements)
            {
                scores.remove_at(ranks.start);
            }
        }
        Ok(())
    }

    /// The members of some ranks, with their scores.
    pub(crate) fn members(
        &self,
        store: &mut Store,
        ranks: Range<usize>,
    ) -> Outcome<Vec<(f64, Vec<u8>)>> {
        let mut members = Vec::new();
        let mut left = ranks.len();
        if left == 0 {
            return Ok(members);
        }
        self.with_order(store, |order| {
            let _ = order.visit(ranks.start, |(score, member)| {
                members.push((score, member.to_vec()));
                left -= 1;
                if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        })?;
        Ok(members)
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

/// The score that a member's value has.
pub(crate) fn read_score(value: &[u8]) -> Option<f64> {
    let score = f64::from_le_bytes(value.try_into().ok()?);
    (!score.is_nan()).then_some(score)
}

#[cfg(test)]
mod tests;
