//! The datasets and their snapshots, and the names of both.
//!
//! They are keys of dataset 0, the catalogue, and so part of every batch, snapshot and replay like other changes:
//!
//! ```text
//! 0              the number that the next dataset gets, u32 little-endian
//! 1 | name       a dataset: its number, u32 little-endian; of a clone, also the number of the dataset, and the number,
//!                u64, of the snapshot that it began as
//! 2 | dataset u32 big-endian | name
//!                a snapshot: its number, u64 little-endian, and its identity, u128 little-endian
//! 3              the number that the next snapshot gets, u64 little-endian
//! 4              the last command (`dataset/command.rs`)
//! 5 | dataset u32 big-endian
//!                the storage class that the dataset prefers, u8
//! 5 | dataset u32 big-endian | object u64 big-endian
//!                the storage class that an object of it prefers, u8
//! 8 | dataset u32 big-endian
//!                the name of the action of its messages
//! 6 | dataset u32 big-endian
//!                bytes by which copies may have made its keys longer than the longest of a put, u32 little-endian
//! 7 | dataset u32 big-endian
//!                how far a stream was received in a dataset that stages it (`transfer/receive.rs`)
//! ```
//!
//! Names that begin with [`OWN`] or [`RECEIVING`] are of the engine's own datasets, which no user of key spaces sees or reaches.
//! A change costs a copy of the path to an entry of a persistent map, however many datasets there are.

mod facts;

use std::collections::BTreeSet;
use std::sync::Arc;

use halite_contract::{Error, KeySpaceId, Preference, Result, check_key_space_name};
use halite_index::PersistentMap;

use crate::message::Kind;
use crate::placement::{PREFERENCES, Preferences};
use crate::record::Batch;

/// The dataset of the catalogue.
pub(crate) const CATALOGUE: u32 = 0;

/// The largest number of a dataset: the one behind it has a number, too.
const LAST: u32 = u32::MAX - 1;

const NEXT: u8 = 0;

const NAME: u8 = 1;

/// The beginning of the names of the engine's own datasets.
pub(crate) const OWN: &str = "\0objects/";

/// The beginning of the names of datasets in which streams are staged.
pub(crate) const RECEIVING: &str = "\0receive/";

const SNAPSHOT: u8 = 2;

const NEXT_SNAPSHOT: u8 = 3;

/// The key of the last command.
pub(crate) const COMMAND: u8 = 4;

const PREFERENCE: u8 = 5;

const ACTION: u8 = 8;

const GROWTH: u8 = 6;

/// The tag of keys that say how far a stream was received.
pub(crate) const RECEIVED: u8 = 7;

/// A snapshot of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) number: u64,
    /// A number that no other snapshot has, but for those that it was sent to.
    pub(crate) identity: u128,
}

/// A snapshot: its dataset, and its number.
pub(crate) type SnapshotId = (u32, u64);

/// The datasets that there are.
#[derive(Clone)]
pub(crate) struct Catalogue {
    names: PersistentMap<u32, Arc<str>>,
    by_name: PersistentMap<Arc<str>, u32>,
    /// The engine's own datasets.
    own: PersistentMap<Arc<str>, u32>,
    next: u32,
    /// By dataset and name.
    snapshots: PersistentMap<(u32, Arc<str>), Snapshot>,
    /// The snapshots that clones began as, by the clones' numbers.
    origins: PersistentMap<u32, SnapshotId>,
    next_snapshot: u64,
    preferences: Preferences,
    /// Bytes by which copies may have made the keys of datasets longer.
    growths: PersistentMap<u32, u32>,
    /// The names of the actions of datasets.
    actions: PersistentMap<u32, Arc<str>>,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self {
            names: PersistentMap::default(),
            by_name: PersistentMap::default(),
            own: PersistentMap::default(),
            next: CATALOGUE + 1,
            snapshots: PersistentMap::default(),
            origins: PersistentMap::default(),
            next_snapshot: 1,
            preferences: Preferences::default(),
            growths: PersistentMap::default(),
            actions: PersistentMap::default(),
        }
    }
}

/// Refuses a name that no dataset of a user can have.
pub(crate) fn check_name(name: &str) -> Result<()> {
    check_key_space_name(name)?;
    match is_own(name) {
        true => Err(crate::Error::OwnName.into()),
        false => Ok(()),
    }
}

/// Whether a name is of a dataset of the engine's own.
fn is_own(name: &str) -> bool {
    name.starts_with(OWN) || name.starts_with(RECEIVING)
}

fn damaged(why: &str) -> Error {
    Error::Damaged { what: "the catalogue of datasets".into(), why: why.into() }
}

fn dataset_number(value: &[u8]) -> Result<u32> {
    let number = value.try_into().map(u32::from_le_bytes).ok();
    let number = number.filter(|&number| number > CATALOGUE);
    number.ok_or_else(|| damaged("an entry has no number of a dataset"))
}

fn snapshot_number(value: &[u8]) -> Result<u64> {
    let number = value.try_into().map(u64::from_le_bytes).ok();
    number
        .filter(|&number| number > 0)
        .ok_or_else(|| damaged("an entry has no number of a snapshot"))
}

fn snapshot_key(space: KeySpaceId, name: &str) -> Vec<u8> {
    [&[SNAPSHOT], &space.0.to_be_bytes()[..], name.as_bytes()].concat()
}

fn preference_key(dataset: u32, object: Option<u64>) -> Vec<u8> {
    let mut key = [&[PREFERENCE], &dataset.to_be_bytes()[..]].concat();
    object.iter().for_each(|id| key.extend_from_slice(&id.to_be_bytes()));
    key
}

/// The dataset, and the object, of a preference's key.
fn preference_of(key: &[u8]) -> Option<(u32, Option<u64>)> {
    let (dataset, object) = key.split_first_chunk()?;
    let object = match object {
        [] => None,
        id => Some(u64::from_be_bytes(id.try_into().ok()?)),
    };
    Some((u32::from_be_bytes(*dataset), object))
}

impl Catalogue {
    /// Adds what an entry of the stored catalogue says.
    pub(crate) fn read(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let text = |name| std::str::from_utf8(name).map_err(|_| damaged("a name is no text"));
        match key {
            [NEXT] => self.next = dataset_number(value)?,
            [NAME, name @ ..] => {
                let (number, origin) = value.split_at_checked(4).unwrap_or((value, &[]));
                let number = dataset_number(number)?;
                self.insert(number, text(name)?);
                if let Some((dataset, snapshot)) = origin.split_at_checked(4) {
                    self.origins
                        .insert(number, (dataset_number(dataset)?, snapshot_number(snapshot)?));
                }
            }
            [SNAPSHOT, key @ ..] => {
                let (dataset, name) =
                    key.split_first_chunk().ok_or_else(|| damaged("a snapshot has no dataset"))?;
                let key = (u32::from_be_bytes(*dataset), text(name)?.into());
                let (number, identity) = value
                    .split_at_checked(size_of::<u64>())
                    .ok_or_else(|| damaged("a snapshot has no number"))?;
                let identity = identity.try_into().map(u128::from_le_bytes);
                let identity = identity.map_err(|_| damaged("a snapshot has no identity"))?;
                let number = snapshot_number(number)?;
                self.snapshots.insert(key, Snapshot { number, identity });
            }
            [NEXT_SNAPSHOT] => self.next_snapshot = snapshot_number(value)?,
            [COMMAND] | [RECEIVED, ..] => {}
            [ACTION, dataset @ ..] => {
                let dataset = dataset.try_into().map(u32::from_be_bytes);
                let dataset = dataset.map_err(|_| damaged("an action is of no dataset"))?;
                self.actions.insert(dataset, text(value)?.into());
            }
            [GROWTH, dataset @ ..] => {
                let dataset = dataset.try_into().map(u32::from_be_bytes);
                let growth = value.try_into().map(u32::from_le_bytes);
                let (Ok(dataset), Ok(growth)) = (dataset, growth) else {
                    return Err(damaged("an entry of the growth of keys is none"));
                };
                self.growths.insert(dataset, growth);
            }
            [PREFERENCE, key @ ..] => {
                let of = preference_of(key).ok_or_else(|| damaged("a preference is of nothing"))?;
                let (dataset, object) = of;
                let preference = match value {
                    [number] => PREFERENCES.get(usize::from(*number)),
                    _ => None,
                };
                let preference =
                    preference.ok_or_else(|| damaged("a preference is of no storage class"))?;
                self.preferences.set(dataset, object, *preference);
            }
            _ => return Err(damaged("an entry is of no kind")),
        }
        Ok(())
    }

    /// Refuses a catalogue that contradicts itself, when all entries were read.
    pub(crate) fn check_read(&self) -> Result<()> {
        let mut own = self.own.iter();
        if self.names.iter_from(&self.next).next().is_some() || own.any(|(_, &id)| id >= self.next)
        {
            return Err(damaged("it does not know the number of the next dataset"));
        }
        let mut numbers = BTreeSet::new();
        for ((dataset, _), &Snapshot { number, .. }) in self.snapshots.iter() {
            if number >= self.next_snapshot || !numbers.insert((*dataset, number)) {
                return Err(damaged("it does not know the number of the next snapshot"));
            }
            self.check(KeySpaceId(*dataset)).map_err(|_| damaged("a snapshot is of no dataset"))?;
        }
        match self.origins.iter().all(|(_, origin)| numbers.contains(origin)) {
            true => Ok(()),
            false => Err(damaged("a clone is of no snapshot")),
        }
    }

    fn insert(&mut self, id: u32, name: &str) {
        let name: Arc<str> = name.into();
        if is_own(&name) {
            self.own.insert(name, id);
            return;
        }
        self.names.insert(id, Arc::clone(&name));
        self.by_name.insert(name, id);
    }

    /// Refuses a dataset that there is not, or that is the engine's own.
    #[inline]
    pub(crate) fn check(&self, space: KeySpaceId) -> Result<()> {
        self.name(space).map(drop)
    }

    pub(crate) fn name(&self, space: KeySpaceId) -> Result<&Arc<str>> {
        self.names.get(&space.0).ok_or(Error::NoSuchKeySpace)
    }

    pub(crate) fn find(&self, name: &str) -> Option<KeySpaceId> {
        self.by_name.get(name).copied().map(KeySpaceId)
    }

    /// The number of a dataset of the engine's own.
    pub(crate) fn find_own(&self, name: &str) -> Option<u32> {
        self.own.get(name).copied()
    }

    /// The names of the engine's own datasets.
    pub(crate) fn own(&self) -> impl Iterator<Item = &str> {
        self.own.iter().map(|(name, _)| &**name)
    }

    /// The datasets by name, but for the engine's own.
    pub(crate) fn named(&self) -> Vec<(String, KeySpaceId)> {
        let named = self.by_name.iter().map(|(name, &id)| (name.to_string(), KeySpaceId(id)));
        named.collect()
    }

    /// The catalogue with another dataset, and its changes, which are added to a batch.
    pub(crate) fn with(&self, name: &str, batch: &mut Batch) -> Result<(Self, KeySpaceId)> {
        self.with_origin(name, None, batch)
    }

    /// As [`Catalogue::with`]; the dataset begins as a snapshot.
    pub(crate) fn with_origin(
        &self,
        name: &str,
        origin: Option<SnapshotId>,
        batch: &mut Batch,
    ) -> Result<(Self, KeySpaceId)> {
        let id = self.next;
        if id > LAST {
            return Err(damaged("all numbers were given"));
        }
        let mut changed = self.clone();
        changed.insert(id, name);
        changed.next = id + 1;
        origin.into_iter().for_each(|origin| changed.origins.insert(id, origin));
        changed.push_dataset(id, name, batch);
        if let Some((dataset, _)) = origin {
            changed = changed.with_growth(KeySpaceId(id), self.growth(dataset), batch);
            if let Some(name) = self.action(dataset) {
                changed = changed.with_action(KeySpaceId(id), name, batch);
            }
        }
        batch.push(CATALOGUE, Kind::Insert, &[NEXT], &changed.next.to_le_bytes());
        Ok((changed, KeySpaceId(id)))
    }

    /// Adds the entry of a dataset to a batch.
    fn push_dataset(&self, id: u32, name: &str, batch: &mut Batch) {
        let mut value = id.to_le_bytes().to_vec();
        if let Some((dataset, snapshot)) = self.origins.get(&id) {
            value.extend_from_slice(&dataset.to_le_bytes());
            value.extend_from_slice(&snapshot.to_le_bytes());
        }
        batch.push(CATALOGUE, Kind::Insert, &[&[NAME], name.as_bytes()].concat(), &value);
    }

    /// The catalogue in which a dataset has another name, and its changes, which are added to a batch.
    pub(crate) fn renamed(&self, space: KeySpaceId, name: &str, batch: &mut Batch) -> Result<Self> {
        let before = Arc::clone(self.name(space)?);
        let mut changed = self.clone();
        changed.by_name.remove(&*before);
        changed.insert(space.0, name);
        batch.push(CATALOGUE, Kind::Delete, &[&[NAME], before.as_bytes()].concat(), &[]);
        changed.push_dataset(space.0, name, batch);
        Ok(changed)
    }

    /// The catalogue in which a dataset of the engine's own is a user's, and its changes, which are added to a batch.
    pub(crate) fn adopted(&self, own: &str, name: &str, batch: &mut Batch) -> Result<Self> {
        let id = self.find_own(own).ok_or(Error::NoSuchKeySpace)?;
        let mut changed = self.clone();
        changed.own.remove(own);
        changed.insert(id, name);
        batch.push(CATALOGUE, Kind::Delete, &[&[NAME], own.as_bytes()].concat(), &[]);
        changed.push_dataset(id, name, batch);
        Ok(changed)
    }

    /// The number of a snapshot of a dataset.
    pub(crate) fn snapshot(&self, space: KeySpaceId, name: &str) -> Option<u64> {
        self.snapshot_of(space, name).map(|snapshot| snapshot.number)
    }

    /// A snapshot of a dataset.
    pub(crate) fn snapshot_of(&self, space: KeySpaceId, name: &str) -> Option<Snapshot> {
        self.snapshots.get(&(space.0, Arc::from(name))).copied()
    }

    /// The snapshots of a dataset, by name.
    pub(crate) fn snapshots_of(&self, space: KeySpaceId) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.snapshots_with(space).map(|(name, snapshot)| (name, snapshot.number))
    }

    /// These, with their identities.
    pub(crate) fn snapshots_with(
        &self,
        space: KeySpaceId,
    ) -> impl Iterator<Item = (&Arc<str>, Snapshot)> {
        let first = (space.0, Arc::from(""));
        let of_dataset =
            self.snapshots.iter_from(&first).take_while(move |((of, _), _)| *of == space.0);
        of_dataset.map(|((_, name), snapshot)| (name, *snapshot))
    }

    /// The snapshot that a dataset began as.
    pub(crate) fn origin(&self, space: KeySpaceId) -> Option<SnapshotId> {
        self.origins.get(&space.0).copied()
    }

    /// The datasets that began as a snapshot.
    pub(crate) fn clones_of(&self, snapshot: SnapshotId) -> impl Iterator<Item = &Arc<str>> {
        let clones = self.origins.iter().filter(move |(_, origin)| **origin == snapshot);
        clones.filter_map(|(clone, _)| self.names.get(clone))
    }

    /// The catalogue with another snapshot of a dataset, and its changes, which are added to a batch.
    pub(crate) fn with_snapshot(
        &self,
        space: KeySpaceId,
        name: &str,
        identity: u128,
        batch: &mut Batch,
    ) -> (Self, u64) {
        let mut changed = self.clone();
        let number = self.next_snapshot;
        changed.next_snapshot += 1;
        changed.snapshots.insert((space.0, name.into()), Snapshot { number, identity });
        let value = [&number.to_le_bytes()[..], &identity.to_le_bytes()].concat();
        batch.push(CATALOGUE, Kind::Insert, &snapshot_key(space, name), &value);
        batch.push(CATALOGUE, Kind::Insert, &[NEXT_SNAPSHOT], &changed.next_snapshot.to_le_bytes());
        (changed, number)
    }

    /// The catalogue without a snapshot, and its change, which is added to a batch.
    pub(crate) fn without_snapshot(
        &self,
        space: KeySpaceId,
        name: &str,
        batch: &mut Batch,
    ) -> Self {
        let mut changed = self.clone();
        changed.snapshots.remove(&(space.0, Arc::from(name)));
        batch.push(CATALOGUE, Kind::Delete, &snapshot_key(space, name), &[]);
        changed
    }

    /// The catalogue without a dataset, and its changes, which are added to a batch.
    pub(crate) fn without(&self, space: KeySpaceId, batch: &mut Batch) -> Result<Self> {
        let name = Arc::clone(self.name(space)?);
        let mut changed = self.clone();
        changed.names.remove(&space.0);
        changed.by_name.remove(&*name);
        changed.origins.remove(&space.0);
        changed.preferences.forget(space.0);
        push_drop(space.0, &name, batch);
        changed.forget(space.0, batch);
        Ok(changed)
    }

    /// The storage classes that datasets and objects prefer.
    pub(crate) fn preferences(&self) -> &Preferences {
        &self.preferences
    }

    /// The catalogue in which a dataset, or an object of it, has another preference, and its change, which is added to a
    /// batch.
    pub(crate) fn with_preference(
        &self,
        dataset: u32,
        object: Option<u64>,
        preference: Preference,
        batch: &mut Batch,
    ) -> Self {
        let mut changed = self.clone();
        changed.preferences.set(dataset, object, preference);
        let (key, value) = (preference_key(dataset, object), [preference as u8]);
        match preference {
            Preference::None => batch.push(CATALOGUE, Kind::Delete, &key, &[]),
            _ => batch.push(CATALOGUE, Kind::Insert, &key, &value),
        }
        changed
    }

    /// The catalogue without a dataset of the engine's own, if it has that, and its changes, which are added to a batch.
    pub(crate) fn without_own(&self, name: &str, batch: &mut Batch) -> Self {
        let mut changed = self.clone();
        if let Some(id) = self.find_own(name) {
            changed.own.remove(name);
            changed.preferences.forget(id);
            push_drop(id, name, batch);
        }
        changed
    }
}

/// Adds the removal of a dataset to a batch.
fn push_drop(id: u32, name: &str, batch: &mut Batch) {
    let (first, behind) = (preference_key(id, None), preference_key(id + 1, None));
    batch.push_range(CATALOGUE, &first, Some(&behind));
    batch.push_range(id, &[], None);
    batch.push(CATALOGUE, Kind::Delete, &[&[NAME], name.as_bytes()].concat(), &[]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Changes, dataset_of};

    #[test]
    fn a_catalogue_is_read_as_its_changes_have_left_it() {
        let mut batch = Batch::default();
        let (one, a) = Catalogue::default().with("a", &mut batch).unwrap();
        let (two, b) = one.with("b", &mut batch).unwrap();
        assert_eq!((two.find("a"), two.find("b")), (Some(a), Some(b)));
        assert!(one.check(b).is_err());
        let mut read = Catalogue::default();
        for change in Changes::of(batch.bytes()) {
            let change = change.unwrap();
            read.read(dataset_of(change.key).unwrap().1, change.payload).unwrap();
        }
        read.check_read().unwrap();
        assert_eq!(read.named(), two.named());
        let three = read.without(a, &mut batch).unwrap();
        assert_eq!((three.find("a"), three.next), (None, 3));
        assert!(three.without(a, &mut batch).is_err());
        assert!(three.snapshots_of(b).next().is_none());
        let mut batch = Batch::default();
        let (four, one) = three.with_snapshot(b, "s", 7, &mut batch);
        let (five, two) = four.with_snapshot(b, "r", 8, &mut batch);
        let (six, clone) = five.with_origin("c", Some((b.0, one)), &mut batch).unwrap();
        let seven =
            six.renamed(clone, "d", &mut batch).unwrap().without_snapshot(b, "r", &mut batch);
        assert_eq!(five.snapshots_of(b).map(|(_, number)| number).collect::<Vec<_>>(), [two, one]);
        assert_eq!((seven.snapshot(b, "s"), seven.snapshot(b, "r")), (Some(one), None));
        assert_eq!(seven.clones_of((b.0, one)).map(|name| &**name).collect::<Vec<_>>(), ["d"]);
        let mut read = three;
        for change in Changes::of(batch.bytes()) {
            let (change, deleted) = (change.unwrap(), Kind::Delete as u8);
            let key = dataset_of(change.key).unwrap().1;
            match key {
                [NAME, name @ ..] if change.kind == deleted => {
                    read.by_name.remove(std::str::from_utf8(name).unwrap());
                }
                _ if change.kind == deleted => {
                    read.snapshots.remove(&(b.0, Arc::from("r")));
                }
                _ => read.read(key, change.payload).unwrap(),
            }
        }
        read.check_read().unwrap();
        assert_eq!((read.named(), read.origin(clone)), (seven.named(), Some((b.0, one))));
        assert_eq!(
            (read.next_snapshot, read.snapshot(b, "s"), read.snapshot(b, "r")),
            (3, Some(one), None)
        );
        read.snapshots.remove(&(b.0, Arc::from("s")));
        assert!(read.check_read().is_err(), "a clone is of no snapshot");
        assert!(read.read(&[NEXT], &[1]).is_err() && read.read(&[9], &[1, 0, 0, 0]).is_err());
    }

    #[test]
    fn preferences_are_read_as_their_changes_have_left_them_and_go_with_their_dataset() {
        let mut batch = Batch::default();
        let (one, a) = Catalogue::default().with("a", &mut batch).unwrap();
        let two = one.with_preference(a.0, None, Preference::Slow, &mut batch);
        let three = two.with_preference(a.0, Some(7), Preference::Fast, &mut batch);
        let mut read = Catalogue::default();
        for change in Changes::of(batch.bytes()).map(|change| change.unwrap()) {
            read.read(dataset_of(change.key).unwrap().1, change.payload).unwrap();
        }
        for catalogue in [&three, &read] {
            let preferences = catalogue.preferences();
            assert_eq!(preferences.get(a.0, None), Preference::Slow);
            assert_eq!(preferences.get(a.0, Some(7)), Preference::Fast);
            assert_eq!(preferences.len(), 2);
        }
        let none = three.with_preference(a.0, None, Preference::None, &mut batch);
        assert_eq!(none.preferences().len(), 1);
        assert_eq!(three.without(a, &mut batch).unwrap().preferences().len(), 0);
        for (key, value) in
            [(&[5, 0, 0][..], &[1][..]), (&[5, 0, 0, 0, 1], &[5]), (&[5, 0, 0, 0, 1, 9], &[1])]
        {
            assert!(read.read(key, value).is_err());
        }
    }

    #[test]
    fn datasets_of_the_engines_own_are_not_found_as_others_are() {
        let (own, mut batch) = (format!("{OWN}x"), Batch::default());
        let (one, id) = Catalogue::default().with(&own, &mut batch).unwrap();
        assert_eq!((one.find_own(&own), one.find(&own), one.named().len()), (Some(1), None, 0));
        assert!(one.check(id).is_err() && one.own().eq([&own[..]]));
        one.check_read().unwrap();
        let two = one.without_own(&own, &mut batch);
        assert_eq!((two.find_own(&own), two.next), (None, 2));
        assert!(check_name(&own).is_err() && check_name("").is_err() && check_name("\0").is_ok());
        let mut read = Catalogue::default();
        read.read(&[&[NAME], own.as_bytes()].concat(), &[3, 0, 0, 0]).unwrap();
        assert!(read.check_read().is_err(), "the next dataset would get the same number");
    }
}
