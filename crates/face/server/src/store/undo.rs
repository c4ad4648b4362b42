//! The way back from the changes of a part of a transaction: a script within EXEC that fails.
//!
//! From [`Overlay::save`] on, the first change of each key or element notes what it replaces. So a savepoint costs nothing,
//! and what comes behind it little, however much the transaction has changed before. What is noted is bounded as the
//! transaction is.

use std::collections::{BTreeMap, HashSet};

use super::elements::Elements;
use super::overlay::{Change, Changes, Overlay};

/// A change of an overlay, as what was there before; by index of the database's key spaces, and by key.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) enum Undo {
    Key(usize, Box<[u8]>, Option<Change>),
    Deadline(usize, Box<[u8]>, Option<u64>),
    /// The value was noted to have shrunk.
    Shrunk(usize, Box<[u8]>),
    Element(usize, Box<[u8]>, Option<Option<Vec<u8>>>),
    FieldDeadline(usize, Box<[u8]>, Option<Option<u64>>),
    Database(usize, Option<Changes>),
    FieldDeadlines(usize, Option<BTreeMap<Box<[u8]>, Option<u64>>>),
    Dropped(Vec<Elements>),
    Order(Option<Vec<usize>>),
}

/// The values that changes behind a savepoint have replaced.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Undos {
    list: Vec<Undo>,
    /// The keys whose first change is in the list, by kind of change and database. A removed database forgets them.
    noted: HashSet<(u8, usize, Box<[u8]>)>,
    /// Bytes that they take, about.
    pub(super) len: usize,
}

/// A kind of change, the index of the database, and the key.
type Id<'a> = (u8, usize, &'a [u8]);

/// Bytes that a noted change takes beside its key and its value, about: also in the set of those that are noted.
const NOTE_LEN: usize = 160;

impl Undo {
    /// The key that is noted once, if it is of one, and the bytes that the note takes.
    fn parts(&self) -> (Option<Id<'_>>, usize) {
        match self {
            Self::Key(place, key, before) => {
                (Some((0, *place, key)), before.as_ref().map_or(0, |change| change.len(key)))
            }
            Self::Deadline(place, key, _) => (Some((1, *place, key)), 0),
            Self::Shrunk(place, key) => (Some((2, *place, key)), 0),
            Self::Element(place, key, before) => {
                let value = before.as_ref().and_then(Option::as_ref);
                (Some((3, *place, key)), value.map_or(0, Vec::len))
            }
            Self::FieldDeadline(place, key, _) => (Some((4, *place, key)), 0),
            Self::Database(_, before) => {
                let keys = before.iter().flat_map(|changes| &changes.keys);
                (None, keys.map(|(key, change)| change.len(key)).sum())
            }
            Self::FieldDeadlines(_, before) => {
                let keys = before.iter().flat_map(BTreeMap::keys);
                (None, keys.map(|key| NOTE_LEN + key.len()).sum())
            }
            Self::Dropped(before) => (None, size_of_val(&before[..])),
            Self::Order(before) => {
                (Some((5, 0, b"")), before.as_ref().map_or(0, |order| size_of_val(&order[..])))
            }
        }
    }
}

impl Undos {
    pub(super) fn push(&mut self, undo: Undo) {
        let (once, len) = undo.parts();
        match once {
            Some((kind, place, key)) => {
                if !self.noted.insert((kind, place, key.into())) {
                    return;
                }
                self.len += 2 * key.len();
            }
            None => self.noted.clear(),
        }
        self.len += NOTE_LEN + len;
        self.list.push(undo);
    }
}

/// The part of an overlay that is no map, at a savepoint.
#[derive(Debug)]
pub(super) struct Mark {
    len: usize,
    dropped_len: usize,
    is_asked_for: bool,
}

impl Overlay {
    /// Begins to note what changes replace. There is one savepoint at a time.
    pub(super) fn save(&mut self) -> Mark {
        debug_assert!(self.undo.is_none(), "one savepoint at a time");
        self.undo = Some(Undos::default());
        Mark { len: self.len, dropped_len: self.dropped.len(), is_asked_for: self.is_asked_for }
    }

    /// Forgets the savepoint: the changes behind it stay.
    pub(super) fn release(&mut self) {
        self.undo = None;
    }

    /// Takes back the changes behind the savepoint. Collections stay noted as touched.
    pub(super) fn return_to(&mut self, mark: &Mark) {
        for undo in self.undo.take().unwrap_or_default().list.into_iter().rev() {
            match undo {
                Undo::Key(place, key, before) => {
                    restore(&mut self.databases.entry(place).or_default().keys, key, before);
                }
                Undo::Deadline(place, key, before) => {
                    if let Some(change) = self.change_mut(place, &key) {
                        change.deadline = before;
                    }
                }
                Undo::Shrunk(place, key) => {
                    if let Some(change) = self.change_mut(place, &key) {
                        change.has_shrunk = false;
                    }
                }
                Undo::Element(place, key, before) => {
                    restore(self.elements.entry(place).or_default(), key, before);
                }
                Undo::FieldDeadline(place, key, before) => {
                    restore(self.field_deadlines.entry(place).or_default(), key, before);
                }
                Undo::Database(place, before) => restore(&mut self.databases, place, before),
                Undo::FieldDeadlines(place, before) => {
                    restore(&mut self.field_deadlines, place, before);
                }
                Undo::Dropped(before) => self.dropped = before,
                Undo::Order(before) => self.order = before,
            }
        }
        self.dropped.truncate(mark.dropped_len);
        self.len = mark.len;
        self.is_asked_for = mark.is_asked_for;
    }

    /// Notes a change, if there is a savepoint.
    pub(super) fn note(&mut self, undo: impl FnOnce() -> Undo) {
        if let Some(undos) = &mut self.undo {
            undos.push(undo());
        }
    }
}

fn restore<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, before: Option<V>) {
    match before {
        Some(before) => drop(map.insert(key, before)),
        None => drop(map.remove(&key)),
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// Both without what may be empty or not.
    fn is_same(a: &Overlay, b: &Overlay) -> bool {
        let plain = |overlay: &Overlay| {
            let mut plain = overlay.clone();
            plain.databases.retain(|_, changes| changes.cleared || !changes.keys.is_empty());
            plain.elements.retain(|_, changes| !changes.is_empty());
            plain.field_deadlines.retain(|_, changes| !changes.is_empty());
            plain.undo = None;
            format!("{plain:?}")
        };
        plain(a) == plain(b)
    }

    fn change(overlay: &mut Overlay, random: &mut Rng) {
        let place = random.usize(..2);
        let key = [b'k', random.u8(..8)];
        let some = |random: &mut Rng| random.bool().then(|| random.u64(..100));
        match random.u8(..20) {
            0..5 => {
                let value = vec![1; random.usize(..20)];
                let _ = overlay.put(place, &key, &value, some(random));
            }
            5..7 => drop(overlay.remove(place, &key)),
            7 => overlay.expire(place, &key),
            8..10 => drop(overlay.set_deadline(place, &key, some(random))),
            10 => overlay.note_shrunk(place, &key),
            11..15 => {
                let value = random.bool().then(|| vec![2; random.usize(..20)]);
                let _ = overlay.set_element(place, key.to_vec(), value);
            }
            15 => overlay.forget_elements(place, &key[..random.usize(..3)]),
            16..18 => drop(overlay.set_field_deadline(place, &key, some(random))),
            18 => overlay.dropped.push(Elements::new(random.usize(..3), place, random.u64(..))),
            _ if random.u8(..4) == 0 => overlay.clear(place),
            _ => overlay.reorder(vec![random.usize(..9)]),
        }
    }

    #[test]
    fn what_is_noted_is_bounded() {
        let mut overlay = Overlay::new(10_000);
        let mark = overlay.save();
        for _ in 0..1000 {
            overlay.put(0, b"k", &[1; 1000], None).unwrap();
        }
        assert!(overlay.undo.as_ref().unwrap().len < 1000);
        overlay.return_to(&mark);
        let mark = overlay.save();
        let puts = (0..1000).take_while(|_| {
            overlay.clear(0);
            overlay.put(0, b"k", &[1; 1000], None).is_ok()
        });
        assert!(puts.count() < 20);
        overlay.return_to(&mark);
        assert!(is_same(&overlay, &Overlay::new(10_000)));
    }

    #[test]
    fn all_changes_behind_a_savepoint_are_taken_back() {
        let mut random = Rng::with_seed(1);
        for _ in 0..2000 {
            let mut overlay = Overlay::new(2500);
            for _ in 0..random.usize(..30) {
                change(&mut overlay, &mut random);
            }
            for _ in 0..3 {
                let before = overlay.clone();
                let mark = overlay.save();
                for _ in 0..random.usize(..20) {
                    change(&mut overlay, &mut random);
                }
                if random.bool() {
                    overlay.return_to(&mark);
                    assert!(is_same(&overlay, &before), "{before:?}\n{overlay:?}");
                } else {
                    overlay.release();
                }
            }
        }
    }
}
