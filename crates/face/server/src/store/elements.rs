//! The elements of larger collections: a record each, in the key space `db<N>:elements`.
//!
//! ```text
//! key                                               value
//! ROUTED  partition u8  id u64  element             the element's
//! ROUTED  partition u8  0 u64   id u64              none: the collection was dropped, and its elements go (`reclaim`)
//! ROUTED  partition u8  MAX     ..                  a hash has fields with deadlines (`field_deadlines`)
//! ```
//!
//! The record of a collection's key has the collection's number (`id`), and so its elements can be found: they are in the
//! partition of that key, whatever their own bytes are ([`halite::ROUTED`]). The number's first byte is the partition's, so
//! that elements can be brought home if a database opens with other partitions (`rehoming`). To rename the key within its partition, or to
//! drop it, touches no element. Numbers are drawn at random, and none is drawn that has elements, dropped ones included.
//!
//! Elements change in transactions only ([`Store::begin`]), with the record of their key. What is known of a collection in
//! DRAM ([`Resident`]) is changed with it, and forgotten if the transaction is not carried out.

use std::collections::btree_map;
use std::iter::Peekable;
use std::ops::Bound;

use halite::{Bytes, KeyRange, ROUTED};
use halite_sim::planted;

use super::by_collection::Collections;
use super::database::Database;
use super::resident::Resident;
use super::{Result, Store};

/// The collection that has the elements of dropped ones.
pub(super) const DROPPED: u64 = 0;

/// The place of a partition's number in a collection's.
const HOME_SHIFT: u32 = 56;

/// The collection that has the deadlines of hashes with fields that expire.
pub(super) const EXPIRING: u64 = u64::MAX;

/// Bytes before an element's own.
const PREFIX: usize = ROUTED.len() + 1 + 8;

/// Elements of dropped collections that one step removes.
const RECLAIMED: usize = 256;

/// Whether an element's key is that of a note that a collection was dropped.
pub(super) fn is_drop_note(key: &[u8]) -> bool {
    key[ROUTED.len() + 1..].starts_with(&DROPPED.to_be_bytes())
}

/// The elements of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Elements {
    pub(super) partition: usize,
    pub(super) place: usize,
    /// The number of the collection.
    pub(crate) id: u64,
}

/// A direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Ascending,
    Descending,
}

impl Elements {
    /// The elements of a collection that is made in a partition, with a number by `random`.
    pub(super) fn new(partition: usize, place: usize, random: u64) -> Self {
        let id = (partition as u64) << HOME_SHIFT | (random >> 8).max(1);
        Self { partition, place, id }
    }

    /// The partition that their keys name.
    pub(super) fn home(&self) -> usize {
        match self.id {
            DROPPED | EXPIRING => self.partition,
            id => (id >> HOME_SHIFT) as usize,
        }
    }

    /// Whether they are where the key of their collection is, one of so many partitions.
    pub(super) fn are_home(&self, partitions: usize) -> bool {
        ![DROPPED, EXPIRING].contains(&self.id) && self.home() % partitions == self.partition
    }

    pub(super) fn prefix(&self) -> [u8; PREFIX] {
        let mut prefix = [0; PREFIX];
        prefix[..ROUTED.len()].copy_from_slice(&ROUTED);
        prefix[ROUTED.len()] = self.home() as u8;
        prefix[ROUTED.len() + 1..].copy_from_slice(&self.id.to_be_bytes());
        prefix
    }

    pub(super) fn key(&self, element: &[u8]) -> Vec<u8> {
        [&self.prefix(), element].concat()
    }

    /// The record that says that they go.
    pub(super) fn dropped_key(self) -> Vec<u8> {
        Self { id: DROPPED, ..self }.key(&self.id.to_be_bytes())
    }
}

impl Store {
    /// The elements of a collection, by its key and its number.
    pub(crate) fn elements(&self, db: usize, key: &[u8], id: u64) -> Elements {
        let super::Spot { partition, place } = self.spot(db, key);
        Elements { partition, place, id }
    }

    /// Whether elements under a number can be those of a collection at a key: they are in the key's partition.
    pub(crate) fn are_home(&self, db: usize, key: &[u8], id: u64) -> bool {
        self.elements(db, key, id).are_home(self.partitions())
    }

    /// The elements of a collection that is made.
    pub(crate) fn new_elements(&mut self, db: usize, key: &[u8]) -> Result<Elements> {
        loop {
            let super::Spot { partition, place } = self.spot(db, key);
            let elements = Elements::new(partition, place, self.random.u64(..));
            let is_dropped = self.element_record(&elements, &elements.dropped_key())?.is_some();
            if !is_dropped && self.scan(&elements, &[], Order::Ascending)?.next().is_none() {
                return Ok(elements);
            }
        }
    }

    /// The value of an element.
    pub(crate) fn element(&self, of: &Elements, element: &[u8]) -> Result<Option<Bytes>> {
        self.element_record(of, &of.key(element))
    }

    fn element_record(&self, of: &Elements, key: &[u8]) -> Result<Option<Bytes>> {
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.elements.get(&of.place));
        match changes.and_then(|changes| changes.get(key)) {
            Some(changed) => Ok(changed.as_deref().map(Bytes::from)),
            None => self.databases[of.place].elements.get(key),
        }
    }

    /// Sets the value of an element.
    pub(crate) fn put_element(
        &mut self,
        of: &Elements,
        element: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.part_mut(of.partition).has_elements[of.place] = true;
        self.change_element(of, of.key(element), Some(value.to_vec()))
    }

    /// Removes an element; it need not be there.
    pub(crate) fn remove_element(&mut self, of: &Elements, element: &[u8]) -> Result<()> {
        self.change_element(of, of.key(element), None)
    }

    fn change_element(
        &mut self,
        of: &Elements,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    ) -> Result<()> {
        super::lengths::check_lengths(&key, value.as_deref().unwrap_or_default())?;
        self.changes_of_elements().set_element(of.place, key, value)
    }

    pub(super) fn changes_of_elements(&mut self) -> &mut super::Overlay {
        self.overlay.as_mut().expect("elements change in transactions")
    }

    /// The elements from `from` on, or from there down to the first: with the keys of the elements, and their values. An
    /// empty `from` is the end at which the scan begins.
    pub(crate) fn scan(&self, of: &Elements, from: &[u8], order: Order) -> Result<Scan<'_>> {
        let prefix = of.prefix();
        let range = KeyRange::prefix(&prefix);
        let end = range.end().expect("a prefix of a collection has an end");
        let from_key = of.key(from);
        let bounds = match order {
            Order::Ascending => (Bound::Included(&from_key[..]), Bound::Excluded(end)),
            Order::Descending if from.is_empty() => {
                (Bound::Included(&prefix[..]), Bound::Excluded(end))
            }
            Order::Descending => (Bound::Included(&prefix[..]), Bound::Included(&from_key[..])),
        };
        let elements = &self.databases[of.place].elements;
        let stored = match order {
            Order::Ascending => elements.range_of_partition::<&[u8]>(of.partition, bounds)?,
            Order::Descending => elements.range_rev_of_partition::<&[u8]>(of.partition, bounds)?,
        };
        let changes = self.overlay.as_ref().and_then(|overlay| overlay.elements.get(&of.place));
        let changed = changes.map(|changes| changes.range::<[u8], _>(bounds));
        Ok(Scan { stored: stored.peekable(), changed, next_changed: None, order })
    }

    /// Bytes of the pool that some elements take which begin with `from`, or larger ones, and how many these are: at most
    /// `count_max`, or all if that is 0.
    pub(crate) fn space_of_elements(
        &self,
        of: &Elements,
        from: &[u8],
        count_max: usize,
    ) -> Result<(u64, u64)> {
        let count_max = if count_max == 0 { usize::MAX } else { count_max };
        let (mut bytes, mut count) = (0, 0);
        for pair in self.scan(of, from, Order::Ascending)?.take(count_max) {
            let (element, value) = pair?;
            bytes += self.db.space_of(PREFIX + element.len(), value.len());
            count += 1;
            if self.ending.breaks_off() {
                break;
            }
        }
        Ok((bytes, count))
    }

    /// Lets the elements of a collection go: at once for its clients, step by step for the store.
    pub(super) fn drop_elements(&mut self, of: &Elements) -> Result<()> {
        let prefix = of.prefix();
        self.changes_of_elements().forget_elements(of.place, &prefix);
        planted!(
            "server.drop-note-not-written",
            (),
            self.change_element(of, of.dropped_key(), Some(Vec::new()))?
        );
        self.changes_of_elements().dropped.push(*of);
        self.dropped += 1;
        self.part_mut(of.partition).forget(of);
        Ok(())
    }

    /// Whether collections of the parts here were dropped whose elements are still there.
    pub(crate) fn has_dropped(&self) -> bool {
        self.parts.iter().flatten().any(|part| !part.dropped.is_empty())
    }

    /// Removes some elements of dropped collections of the parts here, outside of transactions. Returns whether there were
    /// any. If they cannot be removed now, they are tried again.
    pub(crate) fn reclaim(&mut self) -> bool {
        let Some(of) = self.parts.iter().flatten().find_map(|part| part.dropped.last().copied())
        else {
            return false;
        };
        match self.reclaim_of(&of) {
            Ok(is_over) => {
                let part = self.part_mut(of.partition);
                part.unsynced = true;
                if is_over {
                    part.dropped.retain(|other| *other != of);
                }
                true
            }
            Err(_) => {
                // The others have their turn before it is tried again.
                self.part_mut(of.partition).dropped.rotate_right(1);
                false
            }
        }
    }

    fn reclaim_of(&mut self, of: &Elements) -> Result<bool> {
        let elements = self.databases[of.place].elements.clone();
        planted!("server.drop-note-goes-first", elements.delete(of.dropped_key())?);
        let mut count = 0;
        let mut batch = std::mem::replace(&mut self.batch, self.db.batch());
        for pair in self.scan(of, &[], Order::Ascending)?.take(RECLAIMED) {
            batch.delete(&elements, of.key(&pair?.0));
            count += 1;
        }
        if count < RECLAIMED {
            batch.delete(&elements, of.dropped_key());
        }
        self.batch = batch;
        self.commit_batch(true)?;
        Ok(count < RECLAIMED)
    }

    /// The state of a collection in DRAM, made by `load` if there is none.
    pub(crate) fn resident(
        &mut self,
        of: &Elements,
        load: impl FnOnce(&Self) -> Result<Resident>,
    ) -> Result<&mut Resident> {
        self.touch_resident(of);
        if !self.part(of.partition).residents.contains_key(of) {
            let resident = load(self)?;
            self.part_mut(of.partition).residents.insert(*of, resident);
        }
        Ok(self.part_mut(of.partition).residents.get_mut(of).expect("it is there"))
    }

    /// The state of a collection in DRAM, to be changed with the collection.
    pub(crate) fn known_resident(&mut self, of: &Elements) -> Option<&mut Resident> {
        self.touch_resident(of);
        self.part_mut(of.partition).residents.get_mut(of)
    }

    /// Forgets what is known in DRAM of a collection.
    pub(crate) fn forget_resident(&mut self, of: &Elements) {
        self.part_mut(of.partition).residents.remove(of);
    }

    /// Forgets what is known in DRAM of all collections of the parts here, outside of transactions.
    pub(crate) fn forget_all_residents(&mut self) {
        for part in self.parts.iter_mut().flatten() {
            part.residents.clear();
            part.field_times.clear();
        }
    }

    pub(super) fn touch_resident(&mut self, of: &Elements) {
        if let Some(overlay) = &mut self.overlay {
            overlay.touched.insert(*of);
        }
    }

    /// Forgets what is known in DRAM of collections that a transaction, which is not carried out, has touched.
    pub(super) fn forget_residents(&mut self, touched: &Collections) {
        for of in touched {
            if let Some(part) = &mut self.parts[of.partition] {
                planted!("server.resident-survives-rollback", (), part.forget(of));
            }
        }
    }
}

/// Reads which collections of a partition were dropped, and returns whether there are any elements.
pub(super) fn read_dropped(
    database: &Database,
    place: usize,
    partition: usize,
    dropped: &mut Vec<Elements>,
) -> Result<bool> {
    let of = Elements { partition, place, id: DROPPED };
    let prefix = of.prefix();
    let range = KeyRange::prefix(&prefix);
    let end = range.end().map_or(Bound::Unbounded, Bound::Excluded);
    let elements = &database.elements;
    let notes = (Bound::Included(&prefix[..]), end);
    for pair in elements.range_of_partition::<&[u8]>(partition, notes)? {
        let (key, _) = pair?;
        if let Ok(id) = <[u8; 8]>::try_from(&key[PREFIX..]) {
            dropped.push(Elements { id: u64::from_be_bytes(id), ..of });
        }
    }
    let mut all = elements.range_of_partition::<&[u8]>(partition, &ROUTED[..]..)?;
    Ok(all.next().transpose()?.is_some())
}

/// The changes of elements in order.
type Changed<'a> = btree_map::Range<'a, Box<[u8]>, Option<Vec<u8>>>;

/// The elements of a collection in order, as a transaction sees them.
pub(crate) struct Scan<'a> {
    stored: Peekable<halite::Iter>,
    changed: Option<Changed<'a>>,
    next_changed: Option<(&'a [u8], Option<&'a [u8]>)>,
    order: Order,
}

impl Iterator for Scan<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.next_changed.is_none()
                && let Some(changed) = &mut self.changed
            {
                let next = match self.order {
                    Order::Ascending => changed.next(),
                    Order::Descending => changed.next_back(),
                };
                self.next_changed = next.map(|(key, value)| (&key[..], value.as_deref()));
            }
            let Some((changed, value)) = self.next_changed else { break };
            match self.stored.peek() {
                Some(Err(_)) => break,
                Some(Ok((key, _))) => match (self.order, key[..].cmp(changed)) {
                    (Order::Ascending, std::cmp::Ordering::Less)
                    | (Order::Descending, std::cmp::Ordering::Greater) => break,
                    (_, std::cmp::Ordering::Equal) => drop(self.stored.next()),
                    _ => {}
                },
                None => {}
            }
            self.next_changed = None;
            if let Some(value) = value {
                return Some(Ok((Bytes::from(&changed[PREFIX..]), Bytes::from(value))));
            }
        }
        Some(self.stored.next()?.map(|(key, value)| {
            let len = key.len();
            (key.slice(PREFIX..len), value)
        }))
    }
}
