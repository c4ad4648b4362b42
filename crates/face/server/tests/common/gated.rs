//! An engine whose partitions are recovered when a test says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use halite::{Database, Stats};
use halite_contract::{
    Bytes, Capabilities, Direction, Durability, Engine, EngineOptions, Error, KeyRange, KeySpaceId,
    OnDemand, Op, Partitioned, Partitioning, Progress, Result, Scan, Snapshot, Snapshots,
    VerifyReport,
};

/// How long anything waits that a test has closed or held.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state of a partition.
#[derive(Clone, Copy, PartialEq)]
enum Gate {
    Closed,
    Open,
    Damaged,
}

/// The engine, behind a gate for each partition.
pub(crate) struct Gated {
    inner: Arc<dyn Engine>,
    gates: Mutex<Vec<Gate>>,
    changed: Condvar,
    /// The error for writes, if they are refused.
    refusal: Mutex<Option<fn() -> Error>>,
    /// Syncs fail.
    syncs_fail: AtomicBool,
    syncs: Mutex<Syncs>,
    syncs_changed: Condvar,
}

/// The syncs that wait for a test.
#[derive(Default)]
struct Syncs {
    are_held: bool,
    waiting: usize,
    /// How many may go on.
    let_go: usize,
}

impl Gated {
    /// A database with this many partitions, with the records that `fill` writes, and with closed gates.
    pub(crate) fn database(
        partitions: usize,
        fill: impl FnOnce(&Database),
    ) -> (Database, Arc<Self>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let options = EngineOptions {
            partitioning: Some(Partitioning::Hash(partitions)),
            create: true,
            ..EngineOptions::new(folder.path().join("pool"))
        };
        let inner = halite::open_engine(halite::ENGINES[0], &options).unwrap();
        fill(&Database::with_engine(Arc::clone(&inner), folder.path()));
        let gates = Mutex::new(vec![Gate::Closed; partitions]);
        let (changed, refusal) = (Condvar::new(), Mutex::default());
        let syncs_fail = AtomicBool::new(false);
        let (syncs, syncs_changed) = (Mutex::default(), Condvar::new());
        let gated = Self { inner, gates, changed, refusal, syncs_fail, syncs, syncs_changed };
        let gated = Arc::new(gated);
        (Database::with_engine(Arc::clone(&gated) as Arc<dyn Engine>, folder.path()), gated, folder)
    }

    /// A partition is recovered.
    pub(crate) fn open(&self, partition: usize) {
        self.set(partition, Gate::Open);
    }

    /// A partition cannot be recovered.
    pub(crate) fn damage(&self, partition: usize) {
        self.set(partition, Gate::Damaged);
    }

    /// Writes are refused with an error, or are not.
    pub(crate) fn refuse_writes(&self, with: Option<fn() -> Error>) {
        *self.refusal.lock().unwrap() = with;
    }

    /// Syncs fail from now on.
    pub(crate) fn fail_syncs(&self) {
        self.syncs_fail.store(true, Ordering::SeqCst);
    }

    /// Syncs wait from now on.
    pub(crate) fn hold_syncs(&self) {
        self.syncs.lock().unwrap().are_held = true;
    }

    /// Waits until a sync waits.
    pub(crate) fn wait_for_sync(&self) {
        let mut syncs = self.syncs.lock().unwrap();
        while syncs.waiting == 0 {
            syncs = self.syncs_changed.wait(syncs).unwrap();
        }
    }

    /// Lets one sync go on, which waits.
    pub(crate) fn let_sync_go(&self) {
        let mut syncs = self.syncs.lock().unwrap();
        assert!(syncs.waiting > 0);
        syncs.waiting -= 1;
        syncs.let_go += 1;
        self.syncs_changed.notify_all();
    }

    /// No sync waits from now on.
    pub(crate) fn let_syncs_go(&self) {
        self.syncs.lock().unwrap().are_held = false;
        self.syncs_changed.notify_all();
    }

    fn pass_syncs(&self) {
        let mut syncs = self.syncs.lock().unwrap();
        if !syncs.are_held {
            return;
        }
        syncs.waiting += 1;
        self.syncs_changed.notify_all();
        let is_held = |syncs: &mut Syncs| syncs.let_go == 0 && syncs.are_held;
        // A test that fails does not wait for its server for ever.
        (syncs, _) = self.syncs_changed.wait_timeout_while(syncs, PATIENCE, is_held).unwrap();
        match syncs.let_go {
            0 => syncs.waiting -= 1,
            _ => syncs.let_go -= 1,
        }
    }

    fn check_syncs(&self) -> Result<()> {
        self.pass_syncs();
        match self.syncs_fail.load(Ordering::SeqCst) {
            true => Err(Error::Poisoned { why: "a test's sync failed".into() }),
            false => Ok(()),
        }
    }

    /// All partitions but one are recovered.
    pub(crate) fn open_all_but(&self, partition: usize) {
        (0..self.partitions()).filter(|&other| other != partition).for_each(|at| self.open(at));
    }

    fn set(&self, partition: usize, gate: Gate) {
        self.gates()[partition] = gate;
        self.changed.notify_all();
    }

    fn gates(&self) -> MutexGuard<'_, Vec<Gate>> {
        self.gates.lock().unwrap()
    }

    fn pass(&self, partition: usize) -> Result<()> {
        while !self.wait_partition(partition, PATIENCE)? {}
        Ok(())
    }

    fn pass_all(&self) -> Result<()> {
        (0..self.partitions()).try_for_each(|partition| self.pass(partition))
    }
}

impl Engine for Gated {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            partitioned: Some(self),
            snapshots: Some(self),
            on_demand: Some(self),
            ..Capabilities::default()
        }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        self.pass(0)?;
        if !self.inner.key_spaces()?.iter().any(|(known, _)| known == name) {
            self.pass_all()?;
        }
        self.inner.key_space(name)
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        self.pass(0)?;
        self.inner.key_spaces()
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        self.pass_all()?;
        self.inner.drop_key_space(space)
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.pass(self.partition_of(key))?;
        self.inner.get(space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.pass_all()?;
        self.inner.len(space)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        self.pass_all()?;
        self.inner.sample(space, random)
    }

    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        if let Some(error) = *self.refusal.lock().unwrap() {
            return Err(error());
        }
        let mut partitions: Vec<_> = ops
            .iter()
            .filter_map(|op| match op {
                Op::Put { key, .. } | Op::Delete { key, .. } => Some(self.partition_of(key)),
                Op::DeleteRange { .. } => None,
            })
            .collect();
        partitions.dedup();
        match partitions[..] {
            [only] => self.pass(only)?,
            _ => self.pass_all()?,
        }
        self.inner.write(ops, durability)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.pass_all()?;
        self.inner.scan(space, range, direction)
    }

    fn sync(&self) -> Result<()> {
        self.check_syncs()?;
        self.inner.sync()
    }

    fn stats(&self) -> Stats {
        let mut stats = self.inner.stats();
        let ready = self.gates().iter().filter(|&&gate| gate == Gate::Open).count();
        stats.recovery.partitions_ready = ready;
        stats
    }

    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        self.inner.verify(progress)
    }
}

impl Partitioned for Gated {
    fn partitioning(&self) -> Partitioning {
        self.inner.partitioning()
    }

    fn partitions(&self) -> usize {
        self.inner.partitions()
    }

    fn partition_of(&self, key: &[u8]) -> usize {
        self.inner.partition_of(key)
    }

    fn scan_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        self.pass(partition)?;
        self.inner.scan_partition(partition, space, range, direction)
    }

    fn len_of_partition(&self, partition: usize, space: KeySpaceId) -> Result<u64> {
        self.pass(partition)?;
        self.inner.len_of_partition(partition, space)
    }

    fn sync_partition(&self, partition: usize) -> Result<()> {
        self.pass(partition)?;
        self.check_syncs()?;
        self.inner.sync_partition(partition)
    }

    fn partition_stats(&self, partition: usize) -> Stats {
        self.inner.partition_stats(partition)
    }
}

impl Snapshots for Gated {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.pass_all()?;
        self.inner.snapshot()
    }
}

impl OnDemand for Gated {
    fn wait_ready(&self) -> Result<()> {
        self.pass_all()
    }

    fn wait_partition(&self, partition: usize, time: Duration) -> Result<bool> {
        let until = Instant::now() + time;
        let mut gates = self.gates();
        loop {
            match gates[partition] {
                Gate::Open => return Ok(true),
                Gate::Damaged => {
                    let (what, why) = ("log".into(), "a test has damaged it".into());
                    let reason = Arc::new(Error::Damaged { what, why });
                    return Err(Error::NotRecovered { partition, reason });
                }
                Gate::Closed => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            gates = self.changed.wait_timeout(gates, left).unwrap().0;
        }
    }
}
