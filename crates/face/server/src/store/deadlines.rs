//! When keys expire: an index in DRAM of the stored deadlines, which has no key's bytes and no key's deadline.
//!
//! Each key that expires has a record with its deadline ([`Records`]), in the order of keys; that is the truth, and a
//! command that has to know a deadline reads it there. DRAM knows only enough to find the keys that are due: the records
//! of a partition are divided, in their order, into *slices* of up to [`SLICE_MAX`] keys, and of each slice DRAM has
//! where it begins, how many keys it has, and a time before which none of them expires (`first`).
//!
//! ```text
//! records    a:70 b:95 c:80 │ d:99 f:60 │ h:85 k:90 m:90
//! slices     "" 3 ≥70       │ "d" 2 ≥60 │ "g" 3 ≥85           due at 60: the slice "d" alone is read
//! ```
//!
//! - No key expires early, as only its record says when it does. No key that is overdue can be read: `first` is never
//!   later than a deadline in the slice, and where it is due, the key's record is read. In nearly all cases no slice at
//!   all is due, which is one comparison.
//! - A change finds its slice in O(log n). A later deadline leaves `first` as it is, which costs one look at the slice
//!   when that time comes; so changes leave nothing behind, however many there are.
//! - Keys that are due are found by reading the slices that are, the earliest first: each look at a slice reads up to
//!   [`SLICE_MAX`] records, removes those that are due, and makes `first` exact.
//! - A slice that has grown too large is read once and divided; small ones join the slice before them.
//!
//! So a key costs its record, with its entry in the engine's index, and about 1.6 bytes more: 141 bytes for a slice, of
//! 90 keys on the average. Where the engine's index has no order (`--index hash`), there is one slice, of all keys: when
//! it is due, a walk goes round through all records, some at each step. Times are milliseconds since 1970.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::Result;
use super::deadline_records::{Entry, Records};

/// Keys of a slice, at most, until it is divided.
const SLICE_MAX: usize = 128;

/// A slice with fewer keys joins the one before it, if both together have at most [`JOINED_MAX`].
const SLICE_MIN: usize = SLICE_MAX / 8;

/// Keys of two slices that are joined, at most.
const JOINED_MAX: usize = SLICE_MAX / 2;

/// Records that a step of the walk looks at, where the index has no order.
const STEP: usize = 1024;

/// Steps of the walk that one search does, at most.
const STEPS_MAX: usize = 4;

/// The time that no key expires before.
const NEVER: u64 = u64::MAX;

/// The index of the deadlines of a database's keys, in one partition.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    len: usize,
    /// The sum of all deadlines.
    sum: u128,
    /// By where they begin; the first one begins with the empty key.
    slices: BTreeMap<Arc<[u8]>, Slice>,
    /// The slices by `first`.
    by_first: BTreeSet<(u64, Arc<[u8]>)>,
    /// No key of the last slice is larger.
    last: Vec<u8>,
    /// Slices that have to be divided.
    crowded: Vec<Arc<[u8]>>,
    /// The walk that finds due keys if the index of the records has no order.
    walk: Option<Walk>,
}

/// Keys that follow each other.
#[derive(Debug, Clone, Copy)]
struct Slice {
    count: usize,
    /// No deadline is earlier.
    first: u64,
}

/// The walk through all records.
#[derive(Debug)]
struct Walk {
    position: u64,
    /// No deadline is earlier of those that this round has seen, or that were set since it began.
    first: u64,
}

impl Deadlines {
    /// The index of records whose own index has no order.
    pub(super) fn without_order() -> Self {
        Self { walk: Some(Walk { position: 0, first: NEVER }), ..Self::default() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The sum of all deadlines.
    pub(super) fn sum(&self) -> u128 {
        self.sum
    }

    /// A time before which no key expires, close to the first deadline.
    pub(super) fn first(&self) -> Option<u64> {
        let first = self.by_first.first().map(|(first, _)| *first);
        first.filter(|&first| first != NEVER)
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        let beginnings = self.slices.keys().map(|start| start.len()).sum::<usize>();
        self.slices.len() * SLICE_BYTES + beginnings + self.last.capacity()
    }

    /// Whether the deadline of a key may have come, if it has one: its record says so.
    #[inline]
    pub(super) fn may_be_due(&self, at: &[u8], now_ms: u64) -> bool {
        self.by_first.first().is_some_and(|(first, _)| *first <= now_ms)
            && self.slice_of(at).is_some_and(|(_, slice)| slice.first <= now_ms)
    }

    /// Notes that the deadline of the record `at` has changed. `old` is that of the record as it was.
    pub(super) fn change(&mut self, at: &[u8], old: Option<u64>, new: Option<u64>) {
        self.sum = self.sum - u128::from(old.unwrap_or(0)) + u128::from(new.unwrap_or(0));
        match (old, new) {
            (None, Some(new)) => self.insert(at, new),
            (Some(_), Some(new)) => self.lower(at, new),
            (Some(_), None) => self.remove(at),
            (None, None) => {}
        }
    }

    /// Notes that the record `at` has a deadline that a search has returned as due: it is still there.
    pub(super) fn lower(&mut self, at: &[u8], deadline: u64) {
        if let Some(walk) = &mut self.walk {
            walk.first = walk.first.min(deadline);
        }
        if let Some((start, slice)) = self.slice_of(at)
            && deadline < slice.first
        {
            let start = Arc::clone(start);
            self.set_first(&start, deadline);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = if self.walk.is_some() { Self::without_order() } else { Self::default() };
    }

    fn slice_of(&self, at: &[u8]) -> Option<(&Arc<[u8]>, &Slice)> {
        match self.walk {
            Some(_) => self.slices.first_key_value(),
            None => {
                self.slices.range::<[u8], _>((Bound::Unbounded, Bound::Included(at))).next_back()
            }
        }
    }

    fn set_first(&mut self, start: &Arc<[u8]>, first: u64) {
        let Some(slice) = self.slices.get_mut(start) else { return };
        if slice.first != first {
            self.by_first.remove(&(slice.first, Arc::clone(start)));
            slice.first = first;
            self.by_first.insert((first, Arc::clone(start)));
        }
    }

    fn add_slice(&mut self, start: &[u8], slice: Slice) {
        let start = Arc::<[u8]>::from(start);
        self.by_first.insert((slice.first, Arc::clone(&start)));
        self.slices.insert(start, slice);
    }

    fn remove_slice(&mut self, start: &Arc<[u8]>) -> Option<Slice> {
        let slice = self.slices.remove(start)?;
        self.by_first.remove(&(slice.first, Arc::clone(start)));
        Some(slice)
    }

    fn insert(&mut self, at: &[u8], deadline: u64) {
        self.len += 1;
        if self.slices.is_empty() {
            self.add_slice(b"", Slice { count: 0, first: NEVER });
        }
        self.lower(at, deadline);
        let Some((start, slice)) = self.slice_of(at) else { return };
        let (start, count) = (Arc::clone(start), slice.count);
        if self.walk.is_none()
            && self.slices.last_key_value().is_some_and(|(last, _)| *last == start)
        {
            let is_behind = at > &self.last[..];
            if is_behind {
                // Keys that come in order leave full slices behind, and none is read for it.
                if count >= SLICE_MAX {
                    let start = beginning(&self.last, at);
                    self.add_slice(&start, Slice { count: 1, first: deadline });
                    self.last = at.to_vec();
                    return;
                }
                self.last.clear();
                self.last.extend_from_slice(at);
            }
        }
        let Some(slice) = self.slices.get_mut(&start) else { return };
        slice.count += 1;
        if self.walk.is_none() && slice.count % SLICE_MAX == 1 && slice.count > SLICE_MAX {
            self.crowded.push(start);
        }
    }

    fn remove(&mut self, at: &[u8]) {
        self.len = self.len.saturating_sub(1);
        if self.len == 0 {
            self.clear();
            return;
        }
        let Some((start, slice)) = self.slice_of(at) else { return };
        let (start, count) = (Arc::clone(start), slice.count.saturating_sub(1));
        if let Some(slice) = self.slices.get_mut(&start) {
            slice.count = count;
        }
        if count == 0 {
            self.set_first(&start, NEVER);
        }
        if count < SLICE_MIN {
            self.join(&start);
        }
    }

    /// Joins a slice with the one before it, if both have few keys.
    fn join(&mut self, start: &Arc<[u8]>) {
        let before = (Bound::Unbounded, Bound::Excluded(&start[..]));
        let Some((to, other)) = self.slices.range::<[u8], _>(before).next_back() else { return };
        let (to, other) = (Arc::clone(to), *other);
        let Some(slice) = self.slices.get(start) else { return };
        if slice.count + other.count > JOINED_MAX {
            return;
        }
        let Some(slice) = self.remove_slice(start) else { return };
        self.set_first(&to, other.first.min(slice.first));
        if let Some(to) = self.slices.get_mut(&to) {
            to.count += slice.count;
        }
    }

    /// Whether there are slices to divide.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// Divides the slices that have too many keys. All changes of the records that were made together have been noted. If their records cannot be read, they stay as they are.
    #[inline]
    pub(super) fn settle(&mut self, records: &Records<'_>) {
        if !self.crowded.is_empty() {
            for start in std::mem::take(&mut self.crowded) {
                // A slice is as right when it is large.
                let _ = self.divide(&start, records);
            }
        }
    }

    fn divide(&mut self, start: &Arc<[u8]>, records: &Records<'_>) -> Result<()> {
        let Some(slice) = self.slices.get(start) else { return Ok(()) };
        let pieces = slice.count / (SLICE_MAX / 2);
        if slice.count <= SLICE_MAX || pieces < 2 {
            return Ok(());
        }
        let size = slice.count.div_ceil(pieces);
        let (mut found, mut last) = (Vec::<(Vec<u8>, Slice)>::new(), Vec::new());
        let end = self.end_of(start);
        records.range(start, end.as_deref(), |entry| {
            match found.last_mut() {
                Some((_, slice)) if slice.count < size => {
                    slice.count += 1;
                    slice.first = slice.first.min(entry.deadline);
                }
                piece => {
                    let first = piece.is_none();
                    let begins = if first { start.to_vec() } else { beginning(&last, entry.at) };
                    found.push((begins, Slice { count: 1, first: entry.deadline }));
                }
            }
            last.clear();
            last.extend_from_slice(entry.at);
            true
        })?;
        if found.is_empty() {
            return Ok(());
        }
        self.remove_slice(start);
        found.into_iter().for_each(|(start, slice)| self.add_slice(&start, slice));
        Ok(())
    }

    /// The beginning of the slice behind this one.
    fn end_of(&self, start: &[u8]) -> Option<Arc<[u8]>> {
        let behind = (Bound::Excluded(start), Bound::Unbounded);
        self.slices.range::<[u8], _>(behind).next().map(|(start, _)| Arc::clone(start))
    }

    /// Finds keys whose deadline is not after `now_ms`, about `count_max` at most. They count as removed: for those that
    /// cannot be, the caller calls [`Deadlines::lower`].
    pub(super) fn due(
        &mut self,
        now_ms: u64,
        count_max: usize,
        records: &Records<'_>,
    ) -> Result<Vec<Due>> {
        if self.walk.is_some() {
            return self.due_by_walk(now_ms, count_max, records);
        }
        let (mut due, mut failed, mut from) = (Vec::new(), None, Bound::Unbounded);
        while due.len() < count_max {
            let rest = (from.clone(), Bound::Unbounded);
            let Some((first, start)) = self.by_first.range(rest).next().cloned() else { break };
            if first > now_ms {
                break;
            }
            let (mut next, mut is_all) = (NEVER, true);
            let end = self.end_of(&start);
            let read = records.range(&start, end.as_deref(), |entry| {
                if entry.deadline > now_ms {
                    next = next.min(entry.deadline);
                } else if due.len() < count_max {
                    due.push(Due::from(entry));
                } else {
                    is_all = false;
                }
                is_all
            });
            if let Err(error) = read {
                // The slice stays due, and keeps no other one from being searched.
                failed = Some(error);
                from = Bound::Excluded((first, start));
                continue;
            }
            if !is_all {
                break;
            }
            self.set_first(&start, next);
        }
        match failed {
            Some(error) if due.is_empty() => Err(error),
            _ => Ok(due),
        }
    }

    /// The record whose deadline is the earliest; where the index has no order, the earliest of some from a position that
    /// `random` chooses.
    pub(super) fn soonest(&mut self, records: &Records<'_>, random: u64) -> Result<Option<Due>> {
        let mut soonest = None::<Due>;
        if self.walk.is_some() {
            // Behind the last position, the walk begins at the first.
            let mut position = random;
            for _ in 0..STEPS_MAX {
                position = records.visit(position, STEPS_MAX, |entry| {
                    if soonest.as_ref().is_none_or(|soonest| entry.deadline < soonest.deadline) {
                        soonest = Some(entry.into());
                    }
                })?;
            }
            return Ok(soonest);
        }
        loop {
            let Some((first, start)) = self.by_first.first().cloned() else { return Ok(soonest) };
            if first == NEVER || soonest.as_ref().is_some_and(|soonest| soonest.deadline <= first) {
                return Ok(soonest);
            }
            let (end, mut first) = (self.end_of(&start), NEVER);
            records.range(&start, end.as_deref(), |entry| {
                first = first.min(entry.deadline);
                if soonest.as_ref().is_none_or(|soonest| entry.deadline < soonest.deadline) {
                    soonest = Some(entry.into());
                }
                true
            })?;
            self.set_first(&start, first);
        }
    }

    fn due_by_walk(
        &mut self,
        now_ms: u64,
        count_max: usize,
        records: &Records<'_>,
    ) -> Result<Vec<Due>> {
        let (mut due, mut steps) = (Vec::new(), 0);
        while due.len() < count_max && steps < STEPS_MAX {
            let Some((first, start)) = self.by_first.first().cloned() else { break };
            let Some(walk) = self.walk.as_mut().filter(|_| first <= now_ms) else { break };
            walk.position = records.visit(walk.position, STEP, |entry| {
                if entry.deadline > now_ms {
                    walk.first = walk.first.min(entry.deadline);
                } else {
                    due.push(Due::from(entry));
                }
            })?;
            steps += 1;
            if walk.position == 0 {
                let next = std::mem::replace(&mut walk.first, NEVER);
                self.set_first(&start, next);
                // The next round would find those again that are due: they are still there.
                break;
            }
        }
        Ok(due)
    }

    /// Checks that the index is that of the records.
    #[cfg(test)]
    pub(super) fn check(&self, records: &Records<'_>) {
        let (mut len, mut sum) = (0, 0);
        let mut starts: Vec<_> = self.slices.keys().cloned().collect();
        starts.sort();
        for start in &starts {
            let slice = self.slices[start];
            assert!(self.by_first.contains(&(slice.first, Arc::clone(start))));
            let mut count = 0;
            let end = self.end_of(start);
            let note = |entry: Entry<'_>| {
                assert!(slice.first <= entry.deadline);
                count += 1;
                sum += u128::from(entry.deadline);
                true
            };
            records.range(start, end.as_deref(), note).unwrap();
            assert_eq!(count, slice.count);
            len += count;
        }
        assert_eq!((self.len, self.sum, self.by_first.len()), (len, sum, starts.len()));
    }
}

/// Bytes of memory that a slice takes, without those of where it begins: two nodes' entries, and an allocation.
const SLICE_BYTES: usize = 125;

/// A key that is due.
#[derive(Debug)]
pub(super) struct Due {
    /// The place of its record.
    pub(super) at: Box<[u8]>,
    pub(super) key: Box<[u8]>,
    pub(super) deadline: u64,
}

impl From<Entry<'_>> for Due {
    fn from(entry: Entry<'_>) -> Self {
        Self { at: entry.at.into(), key: entry.key.into(), deadline: entry.deadline }
    }
}

/// The shortest beginning of `at` that is larger than `before`, a smaller one.
fn beginning(before: &[u8], at: &[u8]) -> Vec<u8> {
    let common = before.iter().zip(at).take_while(|(one, other)| one == other).count();
    at[..at.len().min(common + 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::database::Database;

    fn database(db: &halite::Database) -> Database {
        Database::open(db, 0).unwrap()
    }

    /// Sets the record of a key, and notes it.
    fn set(deadlines: &mut Deadlines, database: &Database, key: &[u8], new: Option<u64>) {
        let records = Records::of_keys(database, 0);
        let old = records.get(key).unwrap();
        match new {
            Some(new) => database.expires.put(key, new.to_be_bytes()).unwrap(),
            None => database.expires.delete(key).unwrap(),
        }
        deadlines.change(key, old, new);
        deadlines.settle(&records);
    }

    /// The keys that are due, which go, in the order in which they are found.
    fn take_due(
        deadlines: &mut Deadlines,
        database: &Database,
        now_ms: u64,
        max: usize,
    ) -> Vec<Due> {
        let due = deadlines.due(now_ms, max, &Records::of_keys(database, 0)).unwrap();
        for due in &due {
            database.expires.delete(&due.key).unwrap();
            deadlines.change(&due.at, Some(due.deadline), None);
        }
        due
    }

    fn key(number: u16, in_order: bool) -> Vec<u8> {
        let number = if in_order { number } else { number.wrapping_mul(40503) };
        format!("key:{number:05}").into_bytes()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_keys_that_are_due_are_found(
            in_order: bool, is_hashed: bool, count in 0..1200_u16,
            changes in prop::collection::vec((0..1200_u16, proptest::option::of(1..1000_u64)), 0..600),
        ) {
            let index = match is_hashed {
                true => halite::IndexKind::Hash,
                false => halite::IndexKind::default(),
            };
            let db = halite::Database::builder().engine("indexlog").max_size(64 << 20).index(index);
            let db = db.in_memory().unwrap();
            let database = database(&db);
            let mut deadlines = match is_hashed {
                true => Deadlines::without_order(),
                false => Deadlines::default(),
            };
            prop_assert_eq!(Records::of_keys(&database, 0).have_order().unwrap(), !is_hashed);
            let mut model = BTreeMap::new();
            let all = (0..count).map(|number| (number, Some(u64::from(number) % 900 + 1)));
            for (number, new) in all.chain(changes) {
                let key = key(number, in_order);
                set(&mut deadlines, &database, &key, new);
                match new {
                    Some(new) => drop(model.insert(key, new)),
                    None => drop(model.remove(&key)),
                }
            }
            for now_ms in [0, 100, 333, 500, 2000] {
                for (key, &deadline) in model.iter().filter(|(_, deadline)| **deadline <= now_ms) {
                    prop_assert!(deadlines.may_be_due(key, now_ms), "{deadline}");
                }
                let first = deadlines.first().unwrap_or(0);
                prop_assert!(model.values().all(|deadline| first <= *deadline));
                if !is_hashed {
                    deadlines.check(&Records::of_keys(&database, 0));
                }
                let mut found = Vec::new();
                while deadlines.first().is_some_and(|first| first <= now_ms) {
                    found.extend(take_due(&mut deadlines, &database, now_ms, 50));
                }
                prop_assert!(found.iter().all(|due| model.remove(&due.key[..]) == Some(due.deadline)));
                prop_assert!(model.values().all(|deadline| *deadline > now_ms));
                prop_assert_eq!(deadlines.len(), model.len());
                prop_assert_eq!(deadlines.sum(), model.values().map(|at| u128::from(*at)).sum::<u128>());
            }
            prop_assert!(deadlines.is_empty() && deadlines.slices.is_empty());
        }
    }

    #[test]
    fn the_index_stays_small_and_does_not_grow_by_changes() {
        let db = halite::Database::builder().engine("indexlog").max_size(64 << 20);
        let db = db.in_memory().unwrap();
        let database = database(&db);
        let mut deadlines = Deadlines::default();
        for round in 0..5 {
            for number in 0..20_000 {
                set(&mut deadlines, &database, &key(number, false), Some(1000 - round * 100));
            }
            assert!(deadlines.bytes() < 3 * deadlines.len(), "{}", deadlines.bytes());
        }
        for number in 0..19_000 {
            set(&mut deadlines, &database, &key(number, false), None);
        }
        assert!(deadlines.slices.len() < 1000 / SLICE_MIN * 2 + 2);
    }

    #[test]
    fn a_key_that_could_not_be_removed_stays_due() {
        let db = halite::Database::builder().engine("indexlog").max_size(64 << 20);
        let db = db.in_memory().unwrap();
        let database = database(&db);
        let mut deadlines = Deadlines::default();
        set(&mut deadlines, &database, b"a", Some(10));
        let records = Records::of_keys(&database, 0);
        for _ in 0..3 {
            let due = deadlines.due(10, 9, &records).unwrap();
            assert_eq!((due.len(), &due[0].key[..]), (1, &b"a"[..]));
            deadlines.lower(&due[0].at, due[0].deadline);
            assert!(deadlines.may_be_due(b"a", 10) && !deadlines.may_be_due(b"a", 9));
        }
    }
}
