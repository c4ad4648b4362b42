//! Halite under measurement.

use std::path::Path;

use halite::{Batch, Database, Durability, ENGINES, KeySpace};
use halite_pmem::Profile;

use super::store::{Counters, Pair, Session, Store, StoreResult};

/// Halite through its public face, each put durable when it returns.
#[derive(Debug)]
pub struct HaliteStore {
    name: String,
    engine: String,
    open: Option<(Database, KeySpace)>,
    domain: halite::Domain,
    profile: Option<Profile>,
    change_log: Option<u64>,
}

impl Default for HaliteStore {
    /// Halite with its default engine.
    fn default() -> Self {
        Self::with_engine("halite", ENGINES[0])
    }
}

impl HaliteStore {
    /// Halite with one of [`halite::ENGINES`], under a name of its own.
    #[must_use]
    pub fn with_engine(name: impl Into<String>, engine: impl Into<String>) -> Self {
        let domain = halite::Domain::default();
        Self {
            name: name.into(),
            engine: engine.into(),
            open: None,
            domain,
            profile: None,
            change_log: None,
        }
    }

    /// Adds a change log that retains so many bytes.
    #[must_use]
    pub fn with_change_log(mut self, retain: u64) -> Self {
        self.change_log = Some(retain);
        self
    }

    /// Makes the store as slow as the medium of a profile.
    #[must_use]
    pub fn with_profile(mut self, profile: Option<Profile>) -> Self {
        self.profile = profile;
        self
    }
}

impl Store for HaliteStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn durability(&self) -> String {
        format!("each put fenced; {}", self.domain.guarantee())
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        let mut builder = Database::builder().engine(&self.engine);
        if let Some(profile) = &self.profile {
            builder = builder.profile(profile.clone());
        }
        if let Some(retain) = self.change_log {
            builder = builder.change_log(retain);
        }
        let db = builder.open(folder)?;
        self.domain = db.domain();
        let space = db.key_space("bench")?;
        self.open = Some((db, space));
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        self.open = None;
        Ok(())
    }

    fn session(&self) -> StoreResult<Box<dyn Session + '_>> {
        let (db, space) = self.open.as_ref().ok_or("the store is closed")?;
        Ok(Box::new(SpaceSession::new(db, space)))
    }

    fn count(&self) -> StoreResult<Option<u64>> {
        let (_, space) = self.open.as_ref().ok_or("the store is closed")?;
        Ok(Some(space.len()?))
    }

    fn counters(&self) -> Option<Counters> {
        let stats = self.open.as_ref().map(|(db, _)| db.stats())?;
        Some(Counters::of(&stats))
    }
}

/// A key space of a database as one thread sees it, with a batch that is used again.
pub(crate) struct SpaceSession<'a> {
    space: &'a KeySpace,
    batch: Batch,
}

impl<'a> SpaceSession<'a> {
    pub(crate) fn new(db: &Database, space: &'a KeySpace) -> Self {
        Self { space, batch: db.batch() }
    }
}

impl Session for SpaceSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        Ok(self.space.put(key, value)?)
    }

    fn put_all(&mut self, pairs: &[Pair]) -> StoreResult<()> {
        for (key, value) in pairs {
            self.batch.put(self.space, key, value);
        }
        Ok(self.batch.commit_and_clear(Durability::Immediate)?)
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        self.space.get(key)?.iter().for_each(|value| read(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> StoreResult<()> {
        Ok(self.space.delete(key)?)
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        for pair in self.space.range(start..)?.take(limit as usize) {
            let (key, value) = pair?;
            read(&key, &value);
        }
        Ok(())
    }
}
