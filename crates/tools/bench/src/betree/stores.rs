//! The engine as a key-value store under measurement.

use std::path::Path;

use halite::{Batch, BetreeOptions, Database, Domain, Durability, KeySpace};
use halite_pmem::Profile;

use crate::RunOptions;
use crate::kv::{Counters, Pair, Session, Store, StoreResult};

/// The engine, opened as a database.
pub(super) struct BetreeStore {
    name: String,
    options: BetreeOptions,
    profile: Option<Profile>,
    open: Option<(Database, KeySpace)>,
    domain: Domain,
}

impl BetreeStore {
    pub(super) fn new(name: &str, options: BetreeOptions, run: &RunOptions) -> Self {
        let (profile, domain) = (run.profile.clone(), Domain::default());
        Self { name: name.to_owned(), options, profile, open: None, domain }
    }
}

impl Store for BetreeStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn durability(&self) -> String {
        match self.domain {
            Domain::PageCache => "each commit followed by fdatasync of the log".to_owned(),
            domain => format!("each commit fenced; {}", domain.guarantee()),
        }
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        let mut builder = Database::builder().engine("betree").betree(self.options.clone());
        if let Some(profile) = &self.profile {
            builder = builder.profile(profile.clone());
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
        Ok(Box::new(BetreeSession { space, batch: db.batch() }))
    }

    fn counters(&self) -> Option<Counters> {
        self.open.as_ref().map(|(db, _)| Counters::of(&db.stats()))
    }
}

/// The engine as one thread sees it.
struct BetreeSession<'a> {
    space: &'a KeySpace,
    batch: Batch,
}

impl Session for BetreeSession<'_> {
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
