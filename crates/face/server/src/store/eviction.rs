//! Keys that are removed to make room, by a policy.
//!
//! As in Redis, some keys are looked at by chance, and the best of them, together with those that were good before, is
//! evicted: the one that was used longest ago, or least often, or, where it is the deadline that counts, expires first. That
//! one is found exactly, by the index of deadlines. A key is evicted as a command removes it: durably.

use super::clocks::{Clocks, Usage};
use super::deadline_records::Records;
use super::{Result, Store};
use crate::notifications::EventClass;

/// The keys that may be evicted, and which goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The one that was used longest ago, or least often, as is noted.
    ByUsage,
    /// The one that expires first.
    ByDeadline,
    /// Any.
    Random,
}

/// Good keys that are remembered.
const POOL_MAX: usize = 16;

/// How often keys are looked at before it is given up to find one by chance.
const ROUNDS: usize = 4;

/// A key that may be evicted.
#[derive(Debug)]
struct Candidate {
    /// The better, the larger.
    score: u64,
    place: usize,
    key: Vec<u8>,
}

/// Keys that may be evicted next, the best one last.
#[derive(Debug, Default)]
pub(super) struct Candidates(Vec<Candidate>);

impl Candidates {
    fn offer(&mut self, candidate: Candidate) {
        let is_known =
            |other: &Candidate| (other.place, &other.key) == (candidate.place, &candidate.key);
        if self.0.iter().any(is_known) {
            return;
        }
        let at = self.0.partition_point(|other| other.score < candidate.score);
        if self.0.len() < POOL_MAX {
            self.0.insert(at, candidate);
        } else if at > 0 {
            self.0.remove(0);
            self.0.insert(at - 1, candidate);
        }
    }
}

impl Store {
    /// Sets which use of keys is noted, and whether keys are evicted by it.
    pub(crate) fn set_usage(&mut self, usage: Usage, evicts: bool) {
        (self.usage, self.evicts_by_usage) = (usage, evicts);
        self.candidates.0.clear();
    }

    /// Gives the clocks of the parts here the room that their keys need.
    pub(crate) fn fit_clocks(&mut self) {
        for part in self.parts.iter_mut().flatten() {
            let records =
                self.evicts_by_usage.then(|| self.db.partition_stats(part.number).records);
            part.clocks.fit(records);
        }
    }

    /// How long ago a key was used, in milliseconds.
    pub(crate) fn idle_ms(&self, db: usize, key: &[u8]) -> u64 {
        let spot = self.spot(db, key);
        self.part(spot.partition).clocks.idle_ms(spot.place, key, self.now_ms)
    }

    /// When a key was last used, in milliseconds since 1970, to the unit of the clocks.
    pub(crate) fn used_ms(&self, db: usize, key: &[u8]) -> u64 {
        Clocks::unit_of(self.now_ms).saturating_sub(self.idle_ms(db, key))
    }

    /// Sets for how long a key, whose part is here, counts as idle, unless it is counted how often keys are used.
    pub(crate) fn set_idle(&mut self, db: usize, key: &[u8], idle_ms: u64) {
        let (spot, now_ms) = (self.spot(db, key), self.now_ms);
        if self.usage == Usage::Recent {
            self.part_mut(spot.partition).clocks.set_idle((spot.place, key), idle_ms, now_ms);
        }
    }

    /// Sets how often a key, whose part is here, counts as used, if that is counted.
    pub(crate) fn set_frequency(&mut self, db: usize, key: &[u8], count: u8) {
        let (spot, now_ms) = (self.spot(db, key), self.now_ms);
        if self.usage != Usage::Recent {
            self.part_mut(spot.partition).clocks.set_frequency((spot.place, key), count, now_ms);
        }
    }

    /// How often a key is used: the counter, up to 255.
    pub(crate) fn frequency(&self, db: usize, key: &[u8]) -> u32 {
        let spot = self.spot(db, key);
        self.part(spot.partition).clocks.frequency(spot.place, key, self.now_ms)
    }

    /// Removes a key of the parts here, outside of transactions, of those that have a deadline if `is_volatile`; of the
    /// keys that are looked at, `samples` of each database, the first in this order. Returns whether there was one.
    pub(crate) fn evict(&mut self, order: Order, is_volatile: bool, samples: usize) -> bool {
        debug_assert!(self.overlay.is_none(), "a transaction sees no eviction");
        self.outbox.look_for_watchers();
        self.outbox.actor = 0;
        // A key whose record cannot be read or removed stays: the next command on it reports the error. The search begins
        // anew, with other samples.
        for _ in 0..ROUNDS {
            match self.find_victim(order, is_volatile, samples) {
                Ok(Some((place, key))) if self.evict_key(place, &key).is_ok() => return true,
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => {}
            }
        }
        false
    }

    fn evict_key(&mut self, place: usize, key: &[u8]) -> Result<()> {
        let spot = self.spot_at(place, key);
        let db = self.part(spot.partition).order.iter().position(|&at| at == place);
        let db = db.expect("each database has a number");
        self.erase(db, spot, key)?;
        self.evicted += 1;
        self.notify(EventClass::Evicted, "evicted", db, key);
        Ok(())
    }

    fn find_victim(
        &mut self,
        order: Order,
        is_volatile: bool,
        samples: usize,
    ) -> Result<Option<(usize, Vec<u8>)>> {
        if order == Order::ByDeadline {
            return self.soonest();
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        for _ in 0..ROUNDS {
            self.sample(&mut candidates, order, is_volatile, samples)?;
            while let Some(best) = candidates.0.pop() {
                // It may be gone, or used since.
                let is_good = self.score(order, is_volatile, best.place, &best.key);
                if is_good.is_ok_and(|score| score.is_some_and(|score| score >= best.score)) {
                    if order == Order::ByUsage {
                        self.candidates = candidates;
                    }
                    return Ok(Some((best.place, best.key)));
                }
            }
        }
        self.any(is_volatile)
    }

    /// Looks at some keys of each database.
    fn sample(
        &mut self,
        candidates: &mut Candidates,
        order: Order,
        is_volatile: bool,
        samples: usize,
    ) -> Result<()> {
        // The keys of other threads are not to be evicted here.
        let here = self.parts.iter().flatten().count().max(1);
        let looks = samples * self.parts.len().div_ceil(here);
        for place in 0..self.databases.len() {
            for _ in 0..looks {
                let database = &self.databases[place];
                let space = if is_volatile { &database.expires } else { &database.values };
                let Some(key) = space.sample(self.random.u64(..))? else { break };
                if let Ok(Some(score)) = self.score(order, is_volatile, place, &key) {
                    candidates.offer(Candidate { score, place, key: key.to_vec() });
                }
            }
        }
        Ok(())
    }

    /// How good it is to evict a key; `None`: it cannot be evicted.
    fn score(
        &self,
        order: Order,
        is_volatile: bool,
        place: usize,
        key: &[u8],
    ) -> Result<Option<u64>> {
        let spot = self.spot_at(place, key);
        let Some(part) = &self.parts[spot.partition] else { return Ok(None) };
        let idle_ms = part.clocks.idle_ms(place, key, self.now_ms);
        let frequency = part.clocks.frequency(place, key, self.now_ms);
        if is_volatile && self.stored_deadline(spot, key)?.is_none()
            || !self.is_stored(spot, key)?
        {
            return Ok(None);
        }
        Ok(Some(match (order, self.usage) {
            (Order::ByUsage, Usage::Recent) => idle_ms,
            (Order::ByUsage, Usage::Frequent { .. }) => u64::from(255 - frequency.min(255)),
            _ => 0,
        }))
    }

    /// The key of the parts here that expires first.
    fn soonest(&mut self) -> Result<Option<(usize, Vec<u8>)>> {
        let mut soonest: Option<(u64, usize, Vec<u8>)> = None;
        for part in self.parts.iter_mut().flatten() {
            for (place, database) in self.databases.iter().enumerate() {
                let deadlines = &mut part.deadlines[place];
                let known = soonest.as_ref().map_or(u64::MAX, |(deadline, ..)| *deadline);
                if deadlines.first().is_none_or(|first| first > known) {
                    continue;
                }
                let records = Records::of_keys(database, part.number);
                let found = deadlines.soonest(&records, self.random.u64(..))?;
                if let Some(found) = found.filter(|found| found.deadline < known) {
                    soonest = Some((found.deadline, place, found.key.into_vec()));
                }
            }
        }
        Ok(soonest.map(|(_, place, key)| (place, key)))
    }

    /// Some key of the parts here that may be evicted.
    fn any(&mut self, is_volatile: bool) -> Result<Option<(usize, Vec<u8>)>> {
        if is_volatile {
            return self.soonest();
        }
        for part in self.parts.iter().flatten() {
            for (place, database) in self.databases.iter().enumerate() {
                let first = database.values.range_of_partition::<&[u8]>(part.number, ..)?.next();
                if let Some((key, _)) = first.transpose()? {
                    return Ok(Some((place, key.to_vec())));
                }
            }
        }
        Ok(None)
    }
}
