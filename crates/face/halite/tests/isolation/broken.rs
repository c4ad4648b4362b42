//! An engine with a fault in a guarantee that transactions rely on.

use std::sync::Arc;

use halite::{Bytes, Durability, Engine, KeyRange, KeySpaceId, Progress, Stats, VerifyReport};
use halite_contract::{
    Capabilities, Direction, Expectation, Model, Op, Result, Scan, Snapshot, Snapshots,
    Transactional,
};

/// The fault of a [`Broken`] engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A conditional write checks none of its conditions.
    ExpectsNothing,
    /// Ranges that a write expects are not looked at.
    ExpectsNoRanges,
    /// A conditional write checks its conditions beforehand, and others may write in between.
    LooksBeforeWriting,
    /// A snapshot shows the present, and the conditions of a write always hold.
    SnapshotsThePresent,
}

/// The model of an engine, with a fault.
pub(crate) struct Broken {
    fault: Fault,
    model: Arc<Model>,
}

impl Broken {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, model: Arc::default() }
    }
}

impl Engine for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { snapshots: Some(self), transactional: Some(self), ..Capabilities::default() }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        self.model.key_space(name)
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        Engine::key_spaces(&*self.model)
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        self.model.drop_key_space(space)
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        Engine::get(&*self.model, space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        Engine::len(&*self.model, space)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        self.model.sample(space, random)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.model.write(ops, durability)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        Engine::scan(&*self.model, space, range, direction)
    }

    fn sync(&self) -> Result<()> {
        self.model.sync()
    }

    fn stats(&self) -> Stats {
        self.model.stats()
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        self.model.verify(progress)
    }
}

impl Snapshots for Broken {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        match self.fault {
            Fault::SnapshotsThePresent => Ok(Arc::new(Present(Arc::clone(&self.model)))),
            _ => self.model.snapshot(),
        }
    }
}

impl Transactional for Broken {
    fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        let mut expected = expected.to_vec();
        match self.fault {
            Fault::ExpectsNoRanges => expected.iter_mut().for_each(|each| each.ranges = &[]),
            Fault::LooksBeforeWriting => {
                self.model.write_if(&[], durability, &expected)?;
                std::thread::yield_now();
                expected.clear();
            }
            Fault::ExpectsNothing | Fault::SnapshotsThePresent => expected.clear(),
        }
        self.model.write_if(ops, durability, &expected)
    }
}

/// A snapshot that shows the present.
struct Present(Arc<Model>);

impl Snapshot for Present {
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        Engine::key_spaces(&*self.0).expect("the model has its names")
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        Engine::get(&*self.0, space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        Engine::len(&*self.0, space)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        Engine::scan(&*self.0, space, range, direction)
    }
}
