//! The engine as a key-value store under measurement.

use std::path::Path;

use halite::{BetreeOptions, Database, Domain, KeySpace};
use halite_pmem::Profile;

use crate::RunOptions;
use crate::kv::{Counters, Session, SpaceSession, Store, StoreResult};

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
        Ok(Box::new(SpaceSession::new(db, space)))
    }

    fn counters(&self) -> Option<Counters> {
        self.open.as_ref().map(|(db, _)| Counters::of(&db.stats()))
    }
}
