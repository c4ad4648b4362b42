//! A model with a size limit and a memory of its folders, which counts as an engine does.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use halite_contract::conformance::Factory;
use halite_contract::{
    Bytes, Capabilities, Direction, Durability, Engine, Error, Expectation, KeyRange, KeySpaceId,
    Model, Op, Progress, Recovery, Result, Scan, Snapshot, Snapshots, Stats, Transactional,
    VerifyReport,
};

/// Opens limited models.
#[derive(Default)]
pub(crate) struct Limited {
    folders: Mutex<HashMap<PathBuf, Arc<LimitedModel>>>,
}

impl Factory for Limited {
    fn open(&self, folder: &Path, pool_bytes_max: u64) -> Result<Arc<dyn Engine>> {
        let mut folders = self.folders.lock().unwrap();
        let (model, used) = folders.get(folder).map_or_else(Default::default, |old| {
            (old.model.clone(), old.counts.lock().unwrap().used)
        });
        let counts = Counts { used, ..Counts::default() };
        let opened =
            Arc::new(LimitedModel { model, limit: pool_bytes_max, counts: Mutex::new(counts) });
        folders.insert(folder.to_owned(), Arc::clone(&opened));
        Ok(opened)
    }
}

#[derive(Default)]
struct Counts {
    used: u64,
    user_bytes_written: u64,
    unsynced_writes: u64,
    fences: u64,
}

struct LimitedModel {
    model: Model,
    limit: u64,
    /// Locked during every write.
    counts: Mutex<Counts>,
}

impl LimitedModel {
    fn size_of(&self, space: KeySpaceId, range: KeyRange) -> Result<u64> {
        let pairs = self.model.scan(space, range, Direction::Forward)?;
        Ok(pairs.flatten().map(|(key, value)| (key.len() + value.len()) as u64).sum())
    }

    /// Bytes that an operation replaces, and bytes that it brings.
    fn sizes(&self, op: &Op<'_>) -> Result<(u64, u64)> {
        let one = |key: &[u8]| {
            let old = self.model.get(op.space(), key)?;
            Ok::<_, Error>(old.map_or(0, |old| (key.len() + old.len()) as u64))
        };
        Ok(match *op {
            Op::Put { key, value, .. } => (one(key)?, (key.len() + value.len()) as u64),
            Op::Delete { key, .. } => (one(key)?, 0),
            Op::DeleteRange { space, start, end } => {
                (self.size_of(space, KeyRange::new(start, end.map(<[u8]>::to_vec)))?, 0)
            }
        })
    }
}

impl Engine for LimitedModel {
    fn name(&self) -> &'static str {
        "limited"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { snapshots: Some(self), transactional: Some(self), ..Capabilities::default() }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        self.model.key_space(name)
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        self.model.key_spaces()
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        let mut counts = self.counts.lock().unwrap();
        counts.used -= self.size_of(space, KeyRange::all())?;
        self.model.drop_key_space(space)
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.model.get(space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.model.len(space)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        self.model.sample(space, random)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.write_if(ops, durability, &[])
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.model.scan(space, range, direction)
    }

    fn sync(&self) -> Result<()> {
        let mut counts = self.counts.lock().unwrap();
        counts.unsynced_writes = 0;
        counts.fences += 1;
        Ok(())
    }

    fn stats(&self) -> Stats {
        let counts = self.counts.lock().unwrap();
        let mut stats = self.model.stats();
        stats.pool_bytes = self.limit;
        stats.pool_bytes_max = self.limit;
        stats.live_bytes = counts.used;
        stats.free_bytes = self.limit - counts.used;
        stats.index_bytes = 1;
        stats.user_bytes_written = counts.user_bytes_written;
        stats.collected_blocks = counts.user_bytes_written / self.limit;
        stats.unsynced_writes = counts.unsynced_writes;
        stats.traffic.fences = counts.fences;
        stats.traffic.lines = counts.user_bytes_written.div_ceil(64);
        stats.recovery = Recovery { clean: true, ..Recovery::default() };
        stats
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        let report = self.model.verify(progress)?;
        let complete = progress(report.records, report.records) == ControlFlow::Continue(());
        Ok(VerifyReport { complete, ..report })
    }
}

impl Snapshots for LimitedModel {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.model.snapshot()
    }
}

impl Transactional for LimitedModel {
    fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        let mut counts = self.counts.lock().unwrap();
        let brought: u64 = ops.iter().map(|op| self.sizes(op).map_or(0, |(_, new)| new)).sum();
        if brought > 0 && counts.used + brought > self.limit {
            return Err(Error::Full {
                used: counts.used,
                limit: self.limit,
                held: 0,
                holder: None,
            });
        }
        let used = if let [op] = ops {
            let (old, new) = self.sizes(op)?;
            self.model.write_if(ops, durability, expected)?;
            counts.used + new - old
        } else {
            self.model.write_if(ops, durability, expected)?;
            let spaces = self.model.key_spaces()?.into_iter();
            spaces.map(|(_, space)| self.size_of(space, KeyRange::all())).sum::<Result<u64>>()?
        };
        counts.used = used;
        counts.user_bytes_written += brought;
        counts.unsynced_writes += 1;
        if durability == Durability::Immediate {
            counts.unsynced_writes = 0;
            counts.fences += 1;
        }
        Ok(())
    }
}
