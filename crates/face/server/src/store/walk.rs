//! Visits of keys, in order or without one, as a transaction sees them.

use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};

use halite::{KeyRange, KeySpace};

use super::overlay::{Change, Value};
use super::{Opened, Result, Store};
use crate::partition_set::PartitionSet;

impl Store {
    /// Visits the keys that begin with `prefix` and are larger than `after`, in order, until
    /// `visit` breaks: those of one partition, or of all, which must be here then. Keys that have
    /// expired are passed over. Ends early if the server does.
    pub(crate) fn walk(
        &self,
        db: usize,
        partition: Option<usize>,
        prefix: &[u8],
        after: Option<&[u8]>,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let place = self.place(db);
        let range = KeyRange::prefix(prefix);
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let end = range.end().map_or(Bound::Unbounded, Bound::Excluded);
        if matches!((start, end), (Bound::Excluded(after), Bound::Excluded(end)) if after >= end) {
            return Ok(());
        }
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.databases.get(&place));
        let cleared = changes.is_some_and(|changes| changes.cleared);
        let stored = match cleared {
            true => None,
            false => {
                let values = &self.databases[place].values;
                Some(match partition {
                    Some(number) => values.range_of_partition::<&[u8]>(number, (start, end))?,
                    None => values.range::<&[u8]>((start, end))?,
                })
            }
        };
        let mut stored = stored.into_iter().flatten().peekable();
        let changed = changes.map(|changes| changes.keys.range::<[u8], _>((start, end)));
        let is_there = |key: &[u8]| partition.is_none_or(|number| self.partition_of(key) == number);
        let changed = changed.into_iter().flatten().filter(|(key, _)| is_there(key));
        let mut changed = changed.peekable();
        while !self.ending.breaks_off() {
            match next_change(&mut stored, &mut changed) {
                Some((key, change)) => {
                    if !matches!(change.value, Value::Removed)
                        && !self.is_due(self.spot_at(place, key), key)?
                        && visit(key).is_break()
                    {
                        return Ok(());
                    }
                }
                None => {
                    let Some(pair) = stored.next() else { return Ok(()) };
                    let (key, _) = pair?;
                    if !self.is_due(self.spot_at(place, &key), &key)? && visit(&key).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Visits at least `count` keys of one partition from a position on, if there are so many, in no order. Returns the
    /// next position, or 0 behind the last: see [`halite::KeySpace::visit_partition`]. Expired keys are skipped. Keys
    /// that a transaction has put are visited at each step.
    pub(crate) fn visit(
        &self,
        db: usize,
        partition: usize,
        position: u64,
        count: usize,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<Option<u64>> {
        let place = self.place(db);
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.databases.get(&place));
        let cleared = changes.is_some_and(|changes| changes.cleared);
        let changed = |key: &[u8]| changes?.keys.get(key).map(|change| &change.value);
        let is_due = |key: &[u8]| self.is_due(self.spot_at(place, key), key);
        let values = &self.databases[place].values;
        let count = if cleared { 0 } else { count };
        // The keys are copied, as the walk must not wait for reads of their deadlines within it.
        let mut keys = Vec::new();
        let next = values.visit_partition(partition, position, count, |key| {
            if matches!(changed(key), None | Some(Value::Kept)) {
                keys.push(key.to_vec());
            }
        })?;
        let Some(next) = next else { return Ok(None) };
        for key in &keys {
            if !is_due(key)? {
                visit(key);
            }
        }
        for (key, change) in changes.into_iter().flat_map(|changes| &changes.keys) {
            let is_here = self.partition_of(key) == partition;
            if matches!(change.value, Value::Put(_)) && is_here && !is_due(key)? {
                visit(key);
            }
        }
        Ok(Some(if cleared { 0 } else { next }))
    }

    /// The number of keys, expired ones that have not been removed yet included. Counting ends early if the server
    /// does.
    pub(crate) fn len(&self, db: usize) -> Result<u64> {
        let all = PartitionSet::first(self.partitions());
        let go_on = || !self.ending.breaks_off();
        self.len_by(db, |values| count(values, all, go_on).map(|(len, _)| len))
    }

    /// [`Store::len`], where `count` says how many keys a key space has.
    pub(super) fn len_by(
        &self,
        db: usize,
        count: impl FnOnce(&KeySpace) -> Result<u64>,
    ) -> Result<u64> {
        let place = self.place(db);
        let values = &self.databases[place].values;
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.databases.get(&place));
        let Some(changes) = changes else { return count(values) };
        let mut len = if changes.cleared { 0 } else { count(values)? };
        for (key, change) in &changes.keys {
            let was_there = !changes.cleared && values.contains_key(key)?;
            match change.value {
                Value::Put(_) if !was_there => len += 1,
                Value::Removed if was_there => len = len.saturating_sub(1),
                _ => {}
            }
        }
        Ok(len)
    }

    /// [`Store::len`] of some partitions, as it is outside of transactions, and whether these are all: an engine that
    /// has to count asks before it looks at a key.
    pub(crate) fn count(
        &self,
        db: usize,
        partitions: PartitionSet,
        go_on: impl FnMut() -> bool,
    ) -> Result<(u64, bool)> {
        let Some(opened) = self.opened.get() else { return Ok((0, true)) };
        count(&opened.databases[self.place_outside(opened, db)].values, partitions, go_on)
    }

    /// The key spaces that have the values of the databases, and for each database the index of its own, as it is
    /// outside of transactions.
    pub(crate) fn values(&self) -> (Vec<KeySpace>, Vec<usize>) {
        let Some(opened) = self.opened.get() else { return Default::default() };
        let values = opened.databases.iter().map(|database| database.values.clone());
        let order = (0..opened.order.len()).map(|db| self.place_outside(opened, db));
        (values.collect(), order.collect())
    }

    /// The index of a database's key spaces, outside of transactions.
    fn place_outside(&self, opened: &Opened, db: usize) -> usize {
        // While no part has come here, the order is that of the start: to change it takes all parts.
        if self.here().is_empty() { opened.order[db] } else { self.place(db) }
    }

    /// A key chosen by `random`, which gives a new number at each call.
    pub(crate) fn random_key(
        &mut self,
        db: usize,
        mut random: impl FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>> {
        let place = self.place(db);
        for _ in 0..SAMPLES_MAX {
            let sample = self.databases[place].values.sample(random())?;
            let Some(key) = sample else { break };
            if self.has_value(self.spot_at(place, &key), &key)? {
                return Ok(Some(key.to_vec()));
            }
        }
        // Nearly all keys have expired, or are a transaction's own.
        let mut first = None;
        self.walk(db, None, b"", None, |key| {
            first = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        if first.is_none() && self.is_paused {
            // As in Redis, an expired key that is still there will do.
            first = self.databases[place].values.sample(random())?.map(|key| key.to_vec());
        }
        Ok(first)
    }
}

/// The number of keys that partitions have, and whether these are all; see [`Store::count`].
pub(super) fn count(
    values: &KeySpace,
    partitions: PartitionSet,
    mut go_on: impl FnMut() -> bool,
) -> Result<(u64, bool)> {
    let mut len = 0;
    for number in partitions.iter() {
        let (more, is_all) = values.count_of_partition(number, |_, _| go_on())?;
        len += more;
        if !is_all {
            return Ok((len, false));
        }
    }
    Ok((len, true))
}

/// How often a random key may turn out to be gone.
const SAMPLES_MAX: usize = 100;

/// The next key of the two if it is a changed one; a stored one that it replaces is passed over.
fn next_change<'a, Stored, Changed, B>(
    stored: &mut Peekable<Stored>,
    changed: &mut Peekable<Changed>,
) -> Option<(&'a [u8], &'a Change)>
where
    Stored: Iterator<Item = Result<(B, B)>>,
    Changed: Iterator<Item = (&'a Box<[u8]>, &'a Change)>,
    B: AsRef<[u8]>,
{
    let (key, _) = changed.peek()?;
    match stored.peek() {
        Some(Ok((stored_key, _))) if stored_key.as_ref() < &key[..] => return None,
        Some(Ok((stored_key, _))) if stored_key.as_ref() == &key[..] => drop(stored.next()),
        Some(Err(_)) => return None,
        _ => {}
    }
    changed.next().map(|(key, change)| (&key[..], change))
}
