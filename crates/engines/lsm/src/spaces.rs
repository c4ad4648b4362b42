//! The key spaces and their names.
//!
//! The catalogue is a key space of the first tree: its keys are names, its values numbers, 4 bytes little-endian.
//! The key `` has the number that the next one gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use halite_contract::{Error, KeySpaceId, Result};

use crate::scan::{ReadAt, TreeScan, end_of_space};
use crate::store::Store;
use halite_index::PersistentMap;

/// The catalogue.
pub(crate) const CATALOGUE: KeySpaceId = KeySpaceId(0);

/// The largest number of a key space: the one behind it has a number, too.
const LAST: u32 = u32::MAX - 1;

/// The key spaces that there are.
#[derive(Clone, Default)]
pub(crate) struct Spaces {
    names: PersistentMap<u32, Arc<str>>,
    by_name: PersistentMap<Arc<str>, u32>,
    /// The number that the next one gets.
    next: u32,
}

/// The key spaces of a store that is open.
pub(crate) struct OpenSpaces {
    all: ArcSwap<Spaces>,
    /// Which of the first key spaces are there, as bits: for readers that ask for no more, before each get.
    first: AtomicU64,
}

impl OpenSpaces {
    pub(crate) fn new(spaces: Spaces) -> Self {
        Self { first: AtomicU64::new(spaces.first()), all: ArcSwap::from_pointee(spaces) }
    }

    #[inline]
    pub(crate) fn check(&self, space: KeySpaceId) -> Result<()> {
        let bit = 1_u64.checked_shl(space.0).unwrap_or(0);
        match self.first.load(Ordering::Acquire) & bit {
            0 => self.all.load().check(space),
            _ => Ok(()),
        }
    }

    pub(crate) fn load(&self) -> Arc<Spaces> {
        self.all.load_full()
    }

    /// Replaces the key spaces; only the thread that changes them calls this.
    pub(crate) fn store(&self, spaces: Spaces) {
        self.first.store(spaces.first(), Ordering::Release);
        self.all.store(Arc::new(spaces));
    }
}

impl Spaces {
    /// Which of the first 64 are there.
    fn first(&self) -> u64 {
        let first = self.names.iter().take_while(|(space, _)| **space < 64);
        first.fold(0, |first, (space, _)| first | 1 << space)
    }

    /// Reads the key spaces from the catalogue.
    pub(crate) fn read(store: &Arc<Store>) -> Result<Self> {
        let damaged = |why: &str| Error::Damaged {
            what: "the catalogue of key spaces".into(),
            why: why.into(),
        };
        let at = ReadAt::now(store);
        let (start, end) = (CATALOGUE.0.to_be_bytes(), end_of_space(CATALOGUE));
        let mut scan = TreeScan::new(&at, 0, &start, &end, halite_contract::Direction::Forward)?;
        let mut spaces = Self { next: 1, ..Self::default() };
        while let Some(pair) = scan.next_pair(true) {
            let (key, value) = pair?;
            let number = <[u8; 4]>::try_from(&value[..]).ok();
            let number = number.map(u32::from_le_bytes).filter(|&number| number > CATALOGUE.0);
            let number = number.ok_or_else(|| damaged("an entry is not a name and a number"))?;
            match &key[..] {
                b"" => spaces.next = number,
                name => {
                    let name =
                        std::str::from_utf8(name).map_err(|_| damaged("a name is no text"))?;
                    spaces.insert(number, name);
                }
            }
        }
        if spaces.names.iter_from(&spaces.next).next().is_some() {
            return Err(damaged("it does not know the number of the next key space"));
        }
        Ok(spaces)
    }

    pub(crate) fn check(&self, space: KeySpaceId) -> Result<()> {
        self.name(space).map(drop)
    }

    pub(crate) fn find(&self, name: &str) -> Option<KeySpaceId> {
        self.by_name.get(name).copied().map(KeySpaceId)
    }

    pub(crate) fn name(&self, space: KeySpaceId) -> Result<&Arc<str>> {
        self.names.get(&space.0).ok_or(Error::NoSuchKeySpace)
    }

    /// Adds one that is behind all others.
    pub(crate) fn add(&mut self, id: u32, name: &str) {
        self.insert(id, name);
        self.next = id + 1;
    }

    fn insert(&mut self, id: u32, name: &str) {
        let name: Arc<str> = name.into();
        self.names.insert(id, Arc::clone(&name));
        self.by_name.insert(name, id);
    }

    pub(crate) fn remove(&mut self, space: KeySpaceId) {
        if let Some(name) = self.names.get(&space.0).cloned() {
            self.by_name.remove(&*name);
            self.names.remove(&space.0);
        }
    }

    /// The number of the next key space.
    pub(crate) fn next(&self) -> Result<u32> {
        match self.next {
            next if next <= LAST => Ok(next),
            _ => Err(Error::Damaged {
                what: "the catalogue of key spaces".into(),
                why: "all numbers were given".into(),
            }),
        }
    }

    /// Returns the key spaces by name.
    pub(crate) fn named(&self) -> Vec<(String, KeySpaceId)> {
        let mut named: Vec<_> =
            self.names.iter().map(|(&id, name)| (name.to_string(), KeySpaceId(id))).collect();
        named.sort();
        named
    }
}
