//! Placement: the storage class that an extent is written to.
//!
//! ```text
//!  what is written                      class
//!  nodes, the root tree, bitmaps        metadata
//!  runs in the buffers of nodes         preference of the dataset, or buffers
//!  leaves                               preference of the object or the dataset, or leaves
//!  values in extents of their own       the same, or large_values
//!  a leaf or value below small_bytes    metadata, if there is no preference
//! ```
//!
//! A leaf may have keys of several preferences: it goes to the fastest class that one of its keys asks for (Haura merges
//! the hints of entries upward in that way), and the writer of leaves ends one where the preference changes, unless it
//! is short. A class that the pool does not have, or that has no room, is replaced by the next slower one, and then by
//! the nearest faster one (`allocation/classes.rs`). If migration is on, leaves and values do not go to a class that is
//! fuller than the migration's threshold while a slower one is not.
//!
//! Costs: a lookup of the dataset a flush, and of the object a value; in a dataset without preferences of objects nothing
//! for an entry of a leaf.

use halite_contract::Preference;
use halite_index::PersistentMap;

use crate::Error;
use crate::storage::CLASSES_MAX;

/// All preferences, by the number that is stored.
pub(crate) const PREFERENCES: [Preference; 5] = [
    Preference::None,
    Preference::Fastest,
    Preference::Fast,
    Preference::Slow,
    Preference::Slowest,
];

/// The class that a preference asks for.
fn class_of(preference: Preference) -> Option<u8> {
    (preference as u8).checked_sub(1)
}

/// The storage class of each kind of data, from 0, the fastest, on.
///
/// The paper's open question of "internal nodes in persistent memory, leaves on SSD" (Haura §6) is
/// `Placement { leaves: 1, large_values: 1, ..Placement::default() }` on a pool of these two classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement {
    /// The class of nodes, of the root tree, and of bitmaps.
    pub metadata: u8,
    /// The class of the runs in the buffers of nodes: messages on their way to leaves.
    pub buffers: u8,
    /// The class of leaves.
    pub leaves: u8,
    /// The class of values in extents of their own.
    pub large_values: u8,
    /// Bytes below which a leaf or a value in extents of its own goes to the class of metadata. 0: none does.
    pub small_bytes: u32,
}

impl Placement {
    /// Refuses classes that a pool of so many classes does not have.
    pub(crate) fn check(&self, classes: usize) -> Result<(), Error> {
        let all = [
            ("metadata", self.metadata),
            ("buffers", self.buffers),
            ("leaves", self.leaves),
            ("large values", self.large_values),
        ];
        let missing = all.into_iter().find(|(_, class)| usize::from(*class) >= classes);
        match missing {
            Some((what, class)) => Err(Error::NoSuchClass { what, class, classes }),
            None => Ok(()),
        }
    }

    /// The placement of the root tree: all is metadata.
    pub(crate) fn of_metadata(self) -> Placed {
        let class = self.metadata;
        let small_bytes = 0;
        let of = Self { buffers: class, leaves: class, large_values: class, small_bytes, ..self };
        Placed { of, dataset: 0, preference: None, objects: None }
    }
}

/// The preferences of datasets and objects. A clone shares everything.
#[derive(Clone, Default)]
pub(crate) struct Preferences {
    /// By dataset, and the id of an object of it.
    of: PersistentMap<(u32, Option<u64>), Preference>,
}

impl Preferences {
    /// The preference of a dataset, or of an object of it.
    pub(crate) fn get(&self, dataset: u32, object: Option<u64>) -> Preference {
        self.of.get(&(dataset, object)).copied().unwrap_or_default()
    }

    /// Sets a preference.
    pub(crate) fn set(&mut self, dataset: u32, object: Option<u64>, preference: Preference) {
        match preference {
            Preference::None => self.of.remove(&(dataset, object)),
            preference => self.of.insert((dataset, object), preference),
        };
    }

    /// Forgets all preferences of a dataset.
    pub(crate) fn forget(&mut self, dataset: u32) {
        self.of.remove_range(&(dataset, None), &(dataset + 1, None));
    }

    /// The placement of what a dataset has.
    pub(crate) fn placed(&self, of: Placement, dataset: u32) -> Placed {
        let preference = class_of(self.get(dataset, None));
        let mut objects = self.of.iter_from(&(dataset, Some(0)));
        let has_objects = objects.next().is_some_and(|((of, _), _)| *of == dataset);
        Placed { of, dataset, preference, objects: has_objects.then(|| self.clone()) }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.of.iter().count()
    }
}

/// The placement of what one dataset has.
#[derive(Clone)]
pub(crate) struct Placed {
    of: Placement,
    dataset: u32,
    /// The class that the dataset prefers.
    preference: Option<u8>,
    /// The preferences of objects, if the dataset has any.
    objects: Option<Preferences>,
}

impl Placed {
    /// The placement of leaves that stay in their class: migration has chosen it.
    pub(crate) fn staying(mut self, class: u8) -> Self {
        self.of.leaves = class;
        self
    }

    /// Whether a dataset or an object asks for the class of a key, so that migration leaves it there.
    pub(crate) fn is_preferred(&self, key: &[u8]) -> bool {
        self.preferred(key).is_some()
    }

    /// The class of runs in buffers.
    pub(crate) fn buffers(&self) -> u8 {
        self.preference.unwrap_or(self.of.buffers)
    }

    /// The class of a leaf of a key, if that is alone in it, and the class of a leaf that is short.
    pub(crate) fn leaf(&self, key: &[u8]) -> (u8, u8) {
        let preference = self.preferred(key);
        let class = preference.unwrap_or(self.of.leaves);
        (class, preference.unwrap_or(self.of.metadata))
    }

    /// Whether leaves may differ in their class.
    pub(crate) fn has_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// The class of a large value of a key.
    pub(crate) fn large_value(&self, key: &[u8], len: u64) -> u8 {
        let is_small = len < u64::from(self.of.small_bytes);
        let otherwise = if is_small { self.of.metadata } else { self.of.large_values };
        self.preferred(key).unwrap_or(otherwise)
    }

    /// Bytes below which a leaf is short.
    pub(crate) fn small_bytes(&self) -> usize {
        self.of.small_bytes as usize
    }

    /// The class that the object of a key, or the dataset, prefers.
    fn preferred(&self, key: &[u8]) -> Option<u8> {
        let Some(objects) = &self.objects else { return self.preference };
        let id = key.first_chunk().map(|id| u64::from_be_bytes(*id));
        let of_object = id.and_then(|id| class_of(objects.get(self.dataset, Some(id))));
        of_object.or(self.preference)
    }
}

const _: () = assert!(CLASSES_MAX as usize + 1 == PREFERENCES.len(), "a preference for each class");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_preference_decides_and_the_placement_where_there_is_none() {
        let of =
            Placement { metadata: 0, buffers: 1, leaves: 2, large_values: 3, small_bytes: 100 };
        let mut preferences = Preferences::default();
        let key = |id: u64| [&id.to_be_bytes()[..], &[0; 4]].concat();
        let placed = preferences.placed(of, 5);
        assert_eq!(
            (placed.buffers(), placed.leaf(&key(1)), placed.has_objects()),
            (1, (2, 0), false)
        );
        assert_eq!((placed.large_value(&key(1), 99), placed.large_value(&key(1), 100)), (0, 3));
        preferences.set(5, Some(1), Preference::Fast);
        preferences.set(4, None, Preference::Slowest);
        let placed = preferences.placed(of, 5);
        assert_eq!(
            (placed.leaf(&key(1)), placed.leaf(&key(2)), placed.leaf(b"x")),
            ((1, 1), (2, 0), (2, 0))
        );
        assert_eq!((placed.large_value(&key(1), 1), placed.buffers()), (1, 1));
        preferences.set(5, None, Preference::Slow);
        let placed = preferences.placed(of, 5);
        assert_eq!(
            (placed.leaf(&key(1)), placed.leaf(&key(2)), placed.buffers()),
            ((1, 1), (2, 2), 2)
        );
        let of_other = preferences.placed(of, 4);
        assert_eq!((of_other.large_value(&key(1), 1), of_other.has_objects()), (3, false));
        preferences.set(5, Some(1), Preference::None);
        assert!(!preferences.placed(of, 5).has_objects());
        preferences.forget(5);
        assert_eq!(preferences.len(), 1);
        let metadata = of.of_metadata();
        assert_eq!(
            (metadata.buffers(), metadata.leaf(b""), metadata.large_value(b"", 1)),
            (0, (0, 0), 0)
        );
    }

    #[test]
    fn a_class_that_the_pool_lacks_is_refused_by_name() {
        let of = Placement { leaves: 1, ..Placement::default() };
        assert!(of.check(2).is_ok());
        let error = of.check(1).unwrap_err().to_string();
        assert!(error.contains("leaves") && error.contains('1'), "{error}");
    }
}
