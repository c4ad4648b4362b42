//! Halite under measurement.

use std::path::Path;

use halite::{Database, KeySpace};

use crate::{Counters, Store, StoreResult};

/// Halite through its public face, each put durable when it returns.
#[derive(Debug, Default)]
pub struct HaliteStore {
    engine: Option<String>,
    open: Option<(Database, KeySpace)>,
    domain: halite::Domain,
}

impl HaliteStore {
    /// Halite with its default engine.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Halite with one of [`halite::ENGINES`].
    #[must_use]
    pub fn with_engine(name: impl Into<String>) -> Self {
        Self { engine: Some(name.into()), ..Self::default() }
    }

    fn space(&self) -> StoreResult<&KeySpace> {
        self.open.as_ref().map(|(_, space)| space).ok_or_else(|| "the store is closed".into())
    }
}

impl Store for HaliteStore {
    fn name(&self) -> &str {
        "halite"
    }

    fn durability(&self) -> String {
        format!("each put fenced; {}", self.domain.guarantee())
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        let mut builder = Database::builder();
        if let Some(engine) = &self.engine {
            builder = builder.engine(engine);
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

    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        Ok(self.space()?.put(key, value)?)
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        if let Some(value) = self.space()?.get(key)? {
            read(&value);
        }
        Ok(())
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        for pair in self.space()?.range(start..)?.take(limit as usize) {
            let (key, value) = pair?;
            read(&key, &value);
        }
        Ok(())
    }

    fn counters(&self) -> Option<Counters> {
        let stats = self.open.as_ref().map(|(db, _)| db.stats())?;
        let (traffic, index_bytes, records) = (stats.traffic, stats.index_bytes, stats.records);
        Some(Counters { traffic, index_bytes, records })
    }
}
