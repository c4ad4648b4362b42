//! A model with a fault.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halite_contract::conformance::Factory;
use halite_contract::{
    Bytes, Capabilities, Damage, Direction, Durability, Engine, Error, Expectation, KeyRange,
    KeySpaceId, Model, Op, Progress, Result, Scan, Snapshot, Snapshots, Stats, Transactional,
    VerifyReport,
};

/// The fault of a [`Broken`] model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Now and then a delete does nothing.
    LosesDeletes,
    /// The removal of a range removes its end too.
    IncludesEnds,
    /// Keys lose the bytes beyond 64 KiB less a byte.
    CutsLongKeys,
    /// Values of 64 KiB and more lose their last byte.
    CutsLongValues,
    /// Deletes of a batch come before its puts.
    SortsBatches,
    /// A refused batch is applied up to the operation at fault.
    AppliesUpToTheError,
    /// Readers see the operations of a batch one by one.
    WritesOneByOne,
    /// A dropped key space is only emptied, and its name is hidden.
    KeepsDropped,
    /// A scan yields its end.
    ScansEnds,
    /// A scan reads values when it gets to them.
    ScansThePresent,
    /// A snapshot shows the present.
    SnapshotsThePresent,
    /// A write ignores its expectations.
    IgnoresExpectations,
    /// A write ignores its expected ranges.
    IgnoresExpectedRanges,
    /// A write ignores all its expectations but the last snapshot's.
    IgnoresEarlierExpectations,
    /// A write checks its expectations some time before it happens.
    LooksBeforeWriting,
    /// A key that was put and deleted since counts as unchanged.
    ForgetsWhatWent,
    /// A snapshot of any store will do.
    TakesForeignSnapshots,
    /// Every sample is the first key.
    SamplesTheFirst,
    /// Verification reports damage that is not there.
    InventsDamage,
    /// The last write is not there when the store is opened again.
    ForgetsTheLastWrite,
}

/// Opens models with a fault; they remember their folders.
pub(crate) struct Broken {
    fault: Fault,
    folders: Mutex<HashMap<PathBuf, Arc<BrokenModel>>>,
}

impl Broken {
    pub(crate) fn with(fault: Fault) -> Self {
        Self { fault, folders: Mutex::default() }
    }
}

impl Factory for Broken {
    fn open(&self, folder: &Path, _: u64) -> Result<Arc<dyn Engine>> {
        let mut folders = self.folders.lock().unwrap();
        let model = folders.get(folder).map_or_else(Model::new, |old| {
            if self.fault == Fault::ForgetsTheLastWrite {
                old.before.lock().unwrap().clone()
            } else {
                (*old.model).clone()
            }
        });
        let opened = Arc::new(BrokenModel {
            fault: self.fault,
            before: Mutex::new(model.clone()),
            model: Arc::new(model),
            hidden: Mutex::default(),
        });
        folders.insert(folder.to_owned(), Arc::clone(&opened));
        Ok(opened)
    }
}

struct BrokenModel {
    fault: Fault,
    model: Arc<Model>,
    /// The state before the last write.
    before: Mutex<Model>,
    hidden: Mutex<Vec<KeySpaceId>>,
}

impl BrokenModel {
    fn put_in(&self, op: &Op<'_>, durability: Durability) -> Result<()> {
        match *op {
            Op::Delete { key, .. }
                if self.fault == Fault::LosesDeletes && key.iter().any(|byte| byte % 4 == 1) =>
            {
                op.check()
            }
            Op::DeleteRange { space, start, end: Some(end) }
                if self.fault == Fault::IncludesEnds =>
            {
                let above = [end, b"\0"].concat();
                self.model.write(&[Op::DeleteRange { space, start, end: Some(&above) }], durability)
            }
            Op::Put { space, key, value }
                if self.fault == Fault::CutsLongValues && value.len() >= 64 << 10 =>
            {
                let value = &value[..value.len() - 1];
                self.model.write(&[Op::Put { space, key, value }], durability)
            }
            Op::Put { space, key, value }
                if self.fault == Fault::CutsLongKeys && key.len() >= 64 << 10 =>
            {
                let key = &key[..key.len() - 1];
                self.model.write(&[Op::Put { space, key, value }], durability)
            }
            op => self.model.write(&[op], durability),
        }
    }
}

impl Engine for BrokenModel {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { snapshots: Some(self), transactional: Some(self), ..Capabilities::default() }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        let id = self.model.key_space(name)?;
        self.hidden.lock().unwrap().retain(|hidden| *hidden != id);
        Ok(id)
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        let hidden = self.hidden.lock().unwrap();
        let all = self.model.key_spaces()?.into_iter();
        Ok(all.filter(|(_, id)| !hidden.contains(id)).collect())
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        if self.fault != Fault::KeepsDropped {
            return self.model.drop_key_space(space);
        }
        self.hidden.lock().unwrap().push(space);
        let all = Op::DeleteRange { space, start: b"", end: None };
        self.model.write(&[all], Durability::Immediate)
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.model.get(space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.model.len(space)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        let random = if self.fault == Fault::SamplesTheFirst { 0 } else { random };
        self.model.sample(space, random)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        match self.fault {
            Fault::ForgetsTheLastWrite => {
                *self.before.lock().unwrap() = (*self.model).clone();
                self.model.write(ops, durability)
            }
            Fault::SortsBatches => {
                let mut ops = ops.to_vec();
                ops.sort_by_key(|op| matches!(op, Op::Put { .. }));
                self.model.write(&ops, durability)
            }
            Fault::AppliesUpToTheError => ops.iter().try_for_each(|op| self.put_in(op, durability)),
            Fault::WritesOneByOne => ops.iter().try_for_each(|op| {
                // Long enough for a reader to come in between, even on a busy machine.
                std::thread::sleep(Duration::from_micros(1));
                self.put_in(op, durability)
            }),
            _ => {
                // The errors of single operations are checked first, so that all are applied or none.
                for op in ops {
                    op.check()?;
                    self.model.len(op.space())?;
                }
                ops.iter().try_for_each(|op| self.put_in(op, durability))
            }
        }
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        match (self.fault, range.end()) {
            (Fault::ScansEnds, Some(end)) => {
                let end = [end, b"\0"].concat();
                self.model.scan(space, KeyRange::new(range.start(), Some(end)), direction)
            }
            (Fault::ScansThePresent, _) => {
                let model = Arc::clone(&self.model);
                let scan = model.scan(space, range, direction)?;
                Ok(Box::new(scan.map(move |pair| {
                    let (key, value) = pair?;
                    let present = model.get(space, &key)?;
                    Ok((key, present.unwrap_or(value)))
                })))
            }
            _ => self.model.scan(space, range, direction),
        }
    }

    fn sync(&self) -> Result<()> {
        self.model.sync()
    }

    fn stats(&self) -> Stats {
        self.model.stats()
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        let mut report = self.model.verify(progress)?;
        if self.fault == Fault::InventsDamage && report.records > 0 {
            report.damage.push(Damage { what: "nothing".into(), why: "at all".into() });
        }
        Ok(report)
    }
}

impl Snapshots for BrokenModel {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        match self.fault {
            Fault::SnapshotsThePresent => Ok(Arc::new(Present(Arc::clone(&self.model)))),
            _ => self.model.snapshot(),
        }
    }
}

impl Transactional for BrokenModel {
    fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()> {
        let mut expected = expected.to_vec();
        match self.fault {
            Fault::IgnoresExpectations => expected.clear(),
            Fault::IgnoresExpectedRanges => {
                expected.iter_mut().for_each(|expected| expected.ranges = &[]);
            }
            Fault::IgnoresEarlierExpectations => {
                expected.drain(..expected.len().saturating_sub(1));
            }
            Fault::LooksBeforeWriting => {
                self.model.write_if(&[], durability, &expected)?;
                std::thread::sleep(Duration::from_micros(1));
                expected.clear();
            }
            Fault::ForgetsWhatWent => {
                let present = self.model.snapshot()?;
                for expected in &expected {
                    let is_absent = |snapshot: &dyn Snapshot, (space, key): (KeySpaceId, &[u8])| {
                        snapshot.get(space, key).is_ok_and(|found| found.is_none())
                    };
                    let keys = expected.keys.iter().copied().filter(|&of| {
                        !(is_absent(expected.snapshot, of) && is_absent(&*present, of))
                    });
                    let keys: Vec<_> = keys.collect();
                    let expected = Expectation { keys: &keys, ..*expected };
                    self.model.write_if(&[], durability, &[expected])?;
                }
                expected.clear();
            }
            Fault::TakesForeignSnapshots => match self.model.write_if(ops, durability, &expected) {
                Err(Error::ForeignSnapshot) => expected.clear(),
                other => return other,
            },
            _ => {}
        }
        self.model.write_if(ops, durability, &expected)
    }
}

/// A snapshot that shows the present.
struct Present(Arc<Model>);

impl Snapshot for Present {
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        Engine::key_spaces(&*self.0).unwrap()
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
