//! Engines as subjects of the lab.

use std::collections::BTreeSet;
use std::sync::Arc;

use halite_alloc::Error as SpaceError;
use halite_contract::lab::{Kind, Variant};
use halite_contract::{
    Direction, Durability, Engine, EngineOptions, Error, Expectation, KeyRange, KeySpaceId, Op,
    Partitioning, Registration,
};
use halite_disk::{Disk, DiskModel};
use halite_pmem::{Error as PoolError, Medium, Pool};

use crate::Random;
use crate::subject::{Action, Refusal, Subject};
use crate::world::{Digest, World};

/// Any engine, through its contract.
pub struct Store<F> {
    open: Arc<F>,
    variant: Variant,
    partitioning: Partitioning,
    /// Whether it is made with one partition, and changed when it opens again.
    repartitions: bool,
}

/// A step of an engine: one of its calls.
#[derive(Debug, Clone)]
pub enum Step {
    /// A batch.
    Write {
        /// Its operations.
        ops: Vec<Change>,
        /// Whether it is durable only after the next sync.
        deferred: bool,
    },
    /// A sync.
    Sync,
    /// A sync of one partition, by its number modulo the number of them.
    SyncPartition(u8),
    /// The making of a key space.
    Create(u8),
    /// The dropping of a key space.
    Drop(u8),
    /// A snapshot of the index.
    SnapshotIndex,
    /// A batch that is durable on return, if none of its keys has changed.
    WriteIf {
        /// Its operations.
        ops: Vec<Change>,
    },
    /// A little background work of the engine, in a partition by its number modulo their count.
    Collect(u8),
}

/// An operation on a key space; it is skipped if the key space does not exist.
#[derive(Debug, Clone)]
pub enum Change {
    /// Sets a key.
    Put {
        /// The key space.
        space: u8,
        /// The number of the key.
        key: u8,
        /// The length of the value in bytes.
        len: u32,
        /// The byte that fills the value.
        fill: u8,
    },
    /// Removes a key.
    Delete {
        /// The key space.
        space: u8,
        /// The number of the key.
        key: u8,
    },
    /// Removes the keys of a range of numbers.
    DeleteRange {
        /// The key space.
        space: u8,
        /// The first.
        from: u8,
        /// The first behind them.
        to: u8,
    },
}

/// Bytes of the medium of a store.
pub(crate) const CAPACITY: u64 = 32 << 20;

const SPACES: [&str; 2] = ["one", "two"];

/// The longest value of a run, in bytes: an engine may store longer ones apart from their records.
const PART_LEN: u32 = 2000;

/// The most values of a run.
const RUN_MAX: u8 = 17;

/// The bytes of the longest run: four of them fill a block.
const RUN_LEN: u32 = RUN_MAX as u32 * PART_LEN;

/// The bytes of a block of records or of values.
const BLOCK: u32 = 131_072;

fn key(number: u8) -> Vec<u8> {
    let mut key = format!("key {number:02}").into_bytes();
    if number % 4 == 3 {
        key.resize(150, b'+');
    }
    key
}

fn value(key: u8, len: u32, fill: u8) -> Vec<u8> {
    let mut random = Random::of(&[key.into(), len.into(), fill.into()]);
    let mut value = Vec::with_capacity(len as usize + 8);
    while value.len() < len as usize {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value.truncate(len as usize);
    value
}

impl Change {
    fn space(&self) -> u8 {
        match *self {
            Self::Put { space, .. }
            | Self::Delete { space, .. }
            | Self::DeleteRange { space, .. } => space,
        }
    }
}

/// The name of a key space in a world, and the prefix of its pairs' names.
fn marker(space: u8) -> Vec<u8> {
    format!("{}/", SPACES[usize::from(space)]).into_bytes()
}

pub(crate) fn named(space: &str, key: &[u8]) -> Vec<u8> {
    [space.as_bytes(), b"/", key].concat()
}

/// A function that opens an engine.
pub type Opener = fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>>;

impl Store<Opener> {
    /// The variant of an engine that has this name.
    ///
    /// # Panics
    /// If the engine has no such variant.
    #[must_use]
    pub fn of(engine: &Registration, name: &str) -> Self {
        let mut variants = (engine.crash_variants)().into_iter();
        let found = variants.find(|variant| variant.name == name);
        Self::new(found.unwrap_or_else(|| panic!("no variant is called {name}")), engine.open)
    }
}

impl<F> Clone for Store<F> {
    fn clone(&self) -> Self {
        Self {
            open: Arc::clone(&self.open),
            variant: self.variant.clone(),
            partitioning: self.partitioning.clone(),
            repartitions: self.repartitions,
        }
    }
}

impl<F> Store<F>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>> + Send + Sync,
{
    /// A variant of the engine that `open` opens.
    pub fn new(variant: Variant, open: F) -> Self {
        let partitioning = variant.options.partitioning.clone().unwrap_or(Partitioning::Hash(1));
        Self { open: Arc::new(open), variant, partitioning, repartitions: false }
    }

    /// Explores histories of these kinds only.
    #[must_use]
    pub fn with_kinds(mut self, kinds: &'static [Kind]) -> Self {
        self.variant.kinds = kinds;
        self
    }

    /// Sets the number of partitions, by hash.
    #[must_use]
    pub fn with_partitions(mut self, count: usize) -> Self {
        self.partitioning = Partitioning::Hash(count);
        self
    }

    /// Made with one partition, and changed when it opens again.
    #[must_use]
    pub fn with_repartitioning(mut self) -> Self {
        self.repartitions = true;
        self
    }

    /// How the engine is opened on a medium.
    pub(crate) fn options(&self, medium: &Medium) -> EngineOptions {
        let mut options = options_on(medium, &self.variant.options);
        options.pool_options.size_max = CAPACITY;
        options.partitioning = Some(self.partitioning.clone());
        options
    }

    /// Whether its histories have background work.
    pub(crate) fn works_ahead(&self) -> bool {
        self.variant.works_ahead
    }

    /// The function that opens the engine.
    pub(crate) fn opener(&self) -> &F {
        &self.open
    }

    fn kind(&self, random: &mut Random) -> Kind {
        let kinds = self.variant.kinds;
        if !kinds.is_empty() {
            return kinds[random.index(kinds.len())];
        }
        match random.below(100) {
            0..45 => Kind::Few,
            45..75 => Kind::Mixed,
            75..88 => Kind::Blocks,
            88..95 => Kind::Large,
            _ => Kind::Collecting,
        }
    }
}

impl<F> Store<F> {
    /// The partitions that get a part of a write: those of its keys, and those in which a range has keys.
    fn parts_of_write(&self, world: &World, ops: &[Change]) -> BTreeSet<usize> {
        let mut parts = BTreeSet::new();
        let exists = |op: &&Change| world.contains_key(&marker(op.space()));
        for op in ops.iter().filter(exists) {
            match *op {
                Change::Put { key: number, .. } | Change::Delete { key: number, .. } => {
                    parts.insert(self.partitioning.partition_of(&key(number)));
                }
                Change::DeleteRange { space, from, to } => {
                    let marker = marker(space);
                    let of_space = world.keys().filter_map(|name| name.strip_prefix(&marker[..]));
                    let range = key(from)..key(to);
                    let inside = of_space.filter(|key| range.contains(&key.to_vec()));
                    parts.extend(inside.map(|key| self.partitioning.partition_of(key)));
                }
            }
        }
        parts
    }
}

/// The random draws of a kind of history.
trait Draw: Sized {
    fn steps(self, random: &mut Random) -> u64;
    fn value_len(self, random: &mut Random) -> u32;
    fn keys(self) -> u64;
    /// The distance between the numbers of keys whose values follow one another.
    fn stride(self) -> u8;
    fn key(self, random: &mut Random) -> u8;
    fn put(self, space: u8, random: &mut Random) -> Vec<Change>;
    /// Puts so many bytes: where they are to fill blocks, as values that are stored within records.
    fn put_run(self, space: u8, key: u8, len: u32, random: &mut Random) -> Vec<Change>;
    fn change(self, space: u8, random: &mut Random) -> Vec<Change>;
    fn write(self, space: u8, random: &mut Random) -> Step;
    fn step(self, random: &mut Random) -> Step;
}

impl Draw for Kind {
    fn steps(self, random: &mut Random) -> u64 {
        match self {
            Self::Few => 1 + random.below(5),
            Self::Mixed => 6 + random.below(12),
            Self::Blocks => 4 + random.below(12),
            Self::Large => 6 + random.below(14),
            Self::Collecting => 12 + random.below(20),
            Self::Segments => random.below(3),
            Self::Zones => 4 + random.below(8),
            Self::Levels => 1 + random.below(3),
            Self::Unsynced => 2 + random.below(2),
        }
    }

    fn value_len(self, random: &mut Random) -> u32 {
        if matches!(self, Self::Large | Self::Collecting) && random.percent(30) {
            // Lengths around powers of two, where an engine may begin to store values otherwise.
            let border = 2048 << random.below(8);
            return border - 2 + random.below(5) as u32;
        }
        let (from, to) = match self {
            Self::Few => (0, 40),
            Self::Mixed | Self::Levels => (0, 300),
            Self::Blocks | Self::Collecting if random.percent(80) => (15_000, 32_000),
            Self::Large if random.percent(60) => (33_000, 300_000),
            Self::Collecting if random.percent(30) => (33_000, 200_000),
            Self::Blocks | Self::Large | Self::Collecting => (0, 100),
            Self::Segments => (29_000, 31_000),
            Self::Unsynced => (RUN_LEN.into(), u64::from(RUN_LEN) + 1),
            Self::Zones if random.percent(50) => (1_000, 40_000),
            Self::Zones => (0, 300),
        };
        (from + random.below(to - from)) as u32
    }

    fn keys(self) -> u64 {
        match self {
            Self::Few => 3,
            Self::Mixed | Self::Levels => 8,
            Self::Blocks => 6,
            Self::Large | Self::Collecting | Self::Segments | Self::Zones | Self::Unsynced => 5,
        }
    }

    fn stride(self) -> u8 {
        match self {
            Self::Few | Self::Mixed | Self::Large | Self::Zones | Self::Levels => 1,
            Self::Blocks | Self::Collecting | Self::Segments | Self::Unsynced => RUN_MAX,
        }
    }

    fn key(self, random: &mut Random) -> u8 {
        random.below(self.keys()) as u8 * self.stride()
    }

    fn put(self, space: u8, random: &mut Random) -> Vec<Change> {
        let key = self.key(random);
        let len = self.value_len(random);
        self.put_run(space, key, len, random)
    }

    fn put_run(self, space: u8, key: u8, len: u32, random: &mut Random) -> Vec<Change> {
        let fill = random.next() as u8;
        if self.stride() == 1 || !(PART_LEN..=RUN_LEN).contains(&len) {
            return vec![Change::Put { space, key, len, fill }];
        }
        let parts = len.div_ceil(PART_LEN);
        let part = |at: u32| Change::Put { space, key: key + at as u8, len: len / parts, fill };
        (0..parts).map(part).collect()
    }

    fn change(self, space: u8, random: &mut Random) -> Vec<Change> {
        let key = self.key(random);
        match random.below(100) {
            0..75 => self.put(space, random),
            75..92 => vec![Change::Delete { space, key }],
            _ => {
                let to = key + self.stride() + self.key(random);
                vec![Change::DeleteRange { space, from: key, to }]
            }
        }
    }

    fn write(self, space: u8, random: &mut Random) -> Step {
        let several = if self == Self::Blocks { 16 } else { 3 };
        let ops = if random.percent(25) { 2 + random.below(several) } else { 1 };
        let deferred = random.percent(if self == Self::Blocks { 70 } else { 25 });
        let ops = (0..ops).flat_map(|_| {
            let space = if random.percent(10) { 1 - space } else { space };
            self.change(space, random)
        });
        Step::Write { ops: ops.collect(), deferred }
    }

    fn step(self, random: &mut Random) -> Step {
        let space = u8::from(random.percent(15));
        match random.below(100) {
            0..80 => self.write(space, random),
            80..90 => Step::Sync,
            90..96 => Step::Create(1),
            _ => Step::Drop(space),
        }
    }
}

impl<F> Subject for Store<F>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>> + Send + Sync,
{
    type Step = Step;
    type Open = Arc<dyn Engine>;

    fn name(&self) -> &str {
        &self.variant.name
    }

    fn capacity(&self) -> u64 {
        CAPACITY
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
        let kind = self.kind(random);
        let mut actions = vec![Action::Step(Step::Create(0))];
        if matches!(kind, Kind::Blocks | Kind::Collecting) && random.percent(60) {
            // A large value that is removed again: blocks taken later are not adjacent then, and the store's notes on
            // them lie in different lines and sectors.
            let blocks_max = if random.percent(30) { 62 } else { 9 };
            let blocks = random.below(blocks_max);
            let put = Change::Put { space: 0, key: 0, len: blocks as u32 * BLOCK, fill: 0 };
            let delete = Change::Delete { space: 0, key: 0 };
            let small = kind.put(0, random);
            for ops in [vec![put], small, vec![delete]] {
                actions.push(Action::Step(Step::Write { ops, deferred: false }));
            }
        }
        if kind == Kind::Unsynced {
            let run =
                |len: u32, random: &mut Random| kind.put_run(0, kind.key(random), len, random);
            let write = |ops, deferred| Action::Step(Step::Write { ops, deferred });
            // The map has the words of eight blocks in a line. Values take all blocks behind the first one but for the
            // last of two lines, so the next three blocks of records have their words in three lines.
            let value = |(key, blocks)| Change::Put { space: 0, key, len: blocks * BLOCK, fill: 0 };
            actions.extend(
                [(90, 6), (91, 1), (92, 7), (93, 1)].map(|put| write(vec![value(put)], false)),
            );
            let gaps = [91, 93].map(|key| Change::Delete { space: 0, key });
            actions.extend([write(gaps.to_vec(), false), Action::Reopen]);
            // Three runs, and one that often ends where no other record fits behind it.
            actions.extend((0..3).map(|_| write(run(RUN_LEN, random), false)));
            actions.push(write(run(21_000 + random.below(3_000) as u32, random), false));
            for _ in 0..8 + random.below(6) {
                actions.push(write(run(RUN_LEN, random), true));
            }
        }
        if kind == Kind::Zones {
            let put = Change::Put {
                space: 0,
                key: 0,
                len: (1_900_000 + random.below(190_000)) as u32,
                fill: 0,
            };
            actions
                .push(Action::Step(Step::Write { ops: vec![put], deferred: random.percent(50) }));
        }
        if kind == Kind::Collecting && self.variant.options.change_log.is_some() {
            // Writes that fill segments of a change log: the first is reused when the third is entered.
            for _ in 0..random.below(4) {
                let ops = 40 + random.below(30);
                let put = |random: &mut Random| {
                    let (len, key) = (26_000 + random.below(6_000) as u32, kind.key(random));
                    kind.put_run(0, key, len, random)
                };
                let ops = (0..ops).flat_map(|_| put(random)).collect();
                actions.push(Action::Step(Step::Write { ops, deferred: random.percent(30) }));
            }
        }
        if kind == Kind::Segments {
            // A segment has room for 65 of the longest.
            let batches =
                [(true, 62 + random.below(10)), (false, 40), (false, 30 + random.below(10))];
            for (is_durable, ops) in batches {
                let put = |random: &mut Random| {
                    let key = kind.key(random);
                    let len = if is_durable { 31_000 } else { kind.value_len(random) };
                    kind.put_run(0, key, len, random)
                };
                let ops = (0..ops).flat_map(|_| put(random)).collect();
                actions.push(Action::Step(Step::Write { ops, deferred: true }));
                if is_durable {
                    actions.push(Action::Step(Step::Sync));
                }
            }
        }
        if kind == Kind::Collecting {
            // Records come in batches, so that the crashes are where space is collected.
            for _ in 0..14 + random.below(8) {
                let ops = (0..4).flat_map(|_| kind.change(0, random)).collect();
                let step = Step::Write { ops, deferred: false };
                actions.push(Action::Step(step));
            }
        }
        if kind == Kind::Levels {
            // Often no step syncs until another operation has to.
            let deferred = if random.percent(30) { 90 } else { 20 };
            for _ in 0..2 + random.below(4) {
                let ops = (0..4 + random.below(3)).flat_map(|_| kind.change(0, random)).collect();
                actions.push(Action::Step(Step::Write { ops, deferred: random.percent(deferred) }));
                for _ in 0..1 + random.below(3) {
                    let step = Step::Collect(random.below(2) as u8);
                    actions.push(match random.percent(12) {
                        true => Action::KillWithin(Some(step), random.below(50) as u32),
                        false => Action::Step(step),
                    });
                }
            }
        }
        for _ in 0..kind.steps(random) {
            let killed_until = if kind == Kind::Collecting { 24 } else { 18 };
            if kind == Kind::Blocks && random.percent(20) {
                // Several blocks full of writes that no sync covers yet.
                for _ in 0..4 + random.below(12) {
                    let step = Step::Write { ops: kind.put(0, random), deferred: true };
                    actions.push(Action::Step(step));
                }
            }
            actions.push(match random.below(100) {
                0..5 => Action::Reopen,
                5..8 => Action::Kill,
                8..12 => Action::KillWithin(None, random.below(24) as u32),
                at @ 12.. if at < killed_until => {
                    let step = kind.step(random);
                    Action::KillWithin(Some(step), random.below(10) as u32)
                }
                _ => Action::Step(kind.step(random)),
            });
        }
        if self.variant.snapshots_index {
            for at in (1..=actions.len()).rev() {
                if random.percent(16) {
                    let step = Step::SnapshotIndex;
                    let action = match random.percent(10) {
                        true => Action::KillWithin(Some(step), random.below(10) as u32),
                        false => Action::Step(step),
                    };
                    actions.insert(at, action);
                }
            }
        }
        if self.variant.works_ahead {
            for at in (1..=actions.len()).rev() {
                if random.percent(25) {
                    let step = Step::Collect(random.below(2) as u8);
                    let action = match random.percent(20) {
                        true => Action::KillWithin(Some(step), random.below(24) as u32),
                        false => Action::Step(step),
                    };
                    actions.insert(at, action);
                }
            }
            for action in &mut actions {
                if let Action::Step(Step::Write { ops, .. }) = action
                    && random.percent(12)
                {
                    *action = Action::Step(Step::WriteIf { ops: std::mem::take(ops) });
                }
            }
        }
        if self.partitioning.count() > 1 {
            // Every other sync is of one partition.
            let syncs = actions.iter_mut().filter_map(|action| match action {
                Action::Step(step) | Action::KillWithin(Some(step), _) => Some(step),
                _ => None,
            });
            let syncs = syncs.filter(|step| matches!(step, Step::Sync));
            for (number, step) in (0..).zip(syncs).filter(|(number, _)| number % 2 == 1) {
                *step = Step::SyncPartition(number / 2);
            }
        }
        actions
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Step> {
        let mut steps = vec![Kind::Few.write(0, random)];
        if random.percent(30) {
            steps.push(Step::Create(0));
            steps.push(Kind::Mixed.step(random));
        }
        if random.percent(3) {
            let ops = Kind::Blocks.put(0, random);
            steps.push(Step::Write { ops, deferred: random.percent(50) });
        }
        if self.variant.works_ahead && random.percent(40) {
            (0..1 + random.below(4)).for_each(|_| steps.push(Step::Collect(random.below(2) as u8)));
            steps.push(Kind::Few.write(0, random));
        }
        steps
    }

    fn open(&self, medium: &Medium) -> Result<Arc<dyn Engine>, Refusal> {
        let mut options = self.options(medium);
        if self.repartitions && !Pool::exists(&options.pool, &options.pool_options) {
            options.partitioning = Some(Partitioning::Hash(1));
        }
        (self.open)(&options).map_err(|error| refusal(&error))
    }

    fn apply(&self, open: &mut Arc<dyn Engine>, step: &Step) -> Result<(), String> {
        let spaces = open.key_spaces().map_err(|error| error.to_string())?;
        let id = |space: u8| {
            let name = SPACES[usize::from(space)];
            spaces.iter().find_map(|(of, id)| (of == name).then_some(*id))
        };
        let done = match step {
            Step::Sync => open.sync(),
            Step::SnapshotIndex => open.snapshot_index().map(drop),
            Step::SyncPartition(number) => {
                open.sync_partition(usize::from(*number) % open.partitions())
            }
            Step::Create(space) => open.key_space(SPACES[usize::from(*space)]).map(drop),
            Step::Drop(space) => id(*space).map_or(Ok(()), |id| open.drop_key_space(id)),
            Step::Collect(number) => {
                open.collect_ahead(usize::from(*number) % open.partitions()).map(drop)
            }
            Step::Write { ops, .. } | Step::WriteIf { ops } => {
                let ops: Vec<_> = ops.iter().filter_map(|op| Some((id(op.space())?, op))).collect();
                if ops.is_empty() {
                    return Ok(());
                }
                let deferred = matches!(step, Step::Write { deferred: true, .. });
                write(&**open, &ops, deferred, matches!(step, Step::WriteIf { .. }))
            }
        };
        done.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        match step {
            Step::Sync | Step::SyncPartition(_) => true,
            // There may be no work to do.
            Step::SnapshotIndex | Step::Collect(_) => false,
            Step::WriteIf { ops } => {
                self.model(world, &Step::Write { ops: ops.clone(), deferred: false })
            }
            Step::Create(space) => {
                // A key space that exists is found without a write.
                world.insert(marker(*space), Digest::of(b"")).is_none()
            }
            Step::Drop(space) => {
                let marker = marker(*space);
                let exists = world.contains_key(&marker);
                world.retain(|name, _| !name.starts_with(&marker));
                exists
            }
            Step::Write { ops, deferred } => {
                let mut any = false;
                for op in ops {
                    let marker = marker(op.space());
                    if !world.contains_key(&marker) {
                        continue;
                    }
                    any = true;
                    change(world, &marker, op);
                }
                any && !deferred
            }
        }
    }

    fn part_of(&self, name: &[u8]) -> usize {
        match name.iter().position(|&byte| byte == b'/') {
            // The catalogue of key spaces is in the first partition.
            Some(end) if end + 1 < name.len() => self.partitioning.partition_of(&name[end + 1..]),
            _ => 0,
        }
    }

    fn parts_of(&self, world: &World, step: &Step) -> Option<(Vec<usize>, bool)> {
        if self.partitioning.count() == 1 || self.variant.has_one_log {
            return None;
        }
        match step {
            Step::Sync | Step::Drop(_) => None,
            Step::SnapshotIndex | Step::Collect(_) => Some((Vec::new(), false)),
            Step::WriteIf { ops } => {
                self.parts_of(world, &Step::Write { ops: ops.clone(), deferred: false })
            }
            Step::SyncPartition(number) => {
                Some((vec![usize::from(*number) % self.partitioning.count()], true))
            }
            Step::Create(space) => {
                let exists = world.contains_key(&marker(*space));
                Some(if exists { (Vec::new(), false) } else { (vec![0], true) })
            }
            Step::Write { ops, deferred } => {
                let parts = self.parts_of_write(world, ops);
                // With one partition, a batch on several keys may be deferred.
                let durable = !deferred || parts.len() > 1 && !self.repartitions;
                let is_range = |op: &Change| {
                    let exists = world.contains_key(&marker(op.space()));
                    exists && matches!(op, Change::DeleteRange { .. })
                };
                if durable && ops.iter().any(is_range) {
                    // If the range has no key to remove, the earlier removals have to be durable.
                    return None;
                }
                Some((parts.into_iter().collect(), durable))
            }
        }
    }

    /// A write's share of an index snapshot is done after the write is durable.
    fn tells_failures_later(&self) -> bool {
        self.variant.snapshots_index
    }

    fn world(&self, open: &mut Arc<dyn Engine>) -> Result<World, Refusal> {
        let mut world = World::new();
        for (name, id) in open.key_spaces().map_err(|error| refusal(&error))? {
            let scan = open.scan(id, KeyRange::all(), Direction::Forward);
            let (mut count, mut last) = (0, None);
            for pair in scan.map_err(|error| refusal(&error))? {
                let (key, value) = pair.map_err(|error| refusal(&error))?;
                if last.as_ref().is_some_and(|last: &Vec<u8>| last[..] >= *key) {
                    let what = format!("the scan of `{name}` is out of order");
                    return Err(Refusal::Failed(what));
                }
                last = Some(key.to_vec());
                count += 1;
                world.insert(named(&name, &key), Digest::of(&value));
            }
            if open.len(id).map_err(|error| refusal(&error))? != count {
                let what = format!("`{name}` does not have as many keys as it says");
                return Err(Refusal::Failed(what));
            }
            world.insert(named(&name, b""), Digest::of(b""));
        }
        Ok(world)
    }

    fn look_up(&self, open: &mut Arc<dyn Engine>, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        let end = name.iter().position(|&byte| byte == b'/').unwrap_or(name.len());
        let (space, key) = (&name[..end], name.get(end + 1..).unwrap_or_default());
        let spaces = open.key_spaces().map_err(|error| refusal(&error))?;
        let found = spaces.into_iter().find(|(name, _)| name.as_bytes() == space);
        let Some((_, id)) = found else { return Ok(None) };
        if key.is_empty() {
            return Ok(Some(Digest::of(b"")));
        }
        let value = open.get(id, key).map_err(|error| refusal(&error))?;
        Ok(value.map(|value| Digest::of(&value)))
    }

    fn verify(&self, open: &mut Arc<dyn Engine>) -> Result<(), Refusal> {
        let go_on = &mut |_, _| std::ops::ControlFlow::Continue(());
        let report = open.verify(go_on).map_err(|error| refusal(&error))?;
        match report.damage.into_iter().next() {
            None => Ok(()),
            Some(damage) => Err(refusal(&damage.into())),
        }
    }
}

fn change(world: &mut World, marker: &[u8], change: &Change) {
    let name = |number: u8| [marker, &key(number)].concat();
    match *change {
        Change::Put { key, len, fill, .. } => {
            world.insert(name(key), Digest::of(&value(key, len, fill)));
        }
        Change::Delete { key, .. } => drop(world.remove(&name(key))),
        Change::DeleteRange { from, to, .. } => {
            let (from, to) = (name(from), name(to));
            world.retain(|found, _| found == marker || found < &from[..] || found >= &to[..]);
        }
    }
}

fn write(
    engine: &dyn Engine,
    changes: &[(KeySpaceId, &Change)],
    deferred: bool,
    is_conditional: bool,
) -> halite_contract::Result<()> {
    // The bytes that the operations borrow: a key, and a value or the end of a range.
    let bytes: Vec<(Vec<u8>, Vec<u8>)> = changes
        .iter()
        .map(|(_, change)| match **change {
            Change::Put { key: number, len, fill, .. } => (key(number), value(number, len, fill)),
            Change::Delete { key: number, .. } => (key(number), Vec::new()),
            Change::DeleteRange { from, to, .. } => (key(from), key(to)),
        })
        .collect();
    let ops: Vec<_> = changes
        .iter()
        .zip(&bytes)
        .map(|(&(space, change), (key, value))| match change {
            Change::Put { .. } => Op::Put { space, key, value },
            Change::Delete { .. } => Op::Delete { space, key },
            Change::DeleteRange { .. } => Op::DeleteRange { space, start: key, end: Some(value) },
        })
        .collect();
    let durability = if deferred { Durability::Deferred } else { Durability::Immediate };
    if !is_conditional {
        return engine.write(&ops, durability);
    }
    let snapshot = engine.snapshot()?;
    let keys: Vec<_> =
        changes.iter().zip(&bytes).map(|(&(space, _), (key, _))| (space, &key[..])).collect();
    engine.write_if(
        &ops,
        durability,
        &[Expectation { snapshot: &*snapshot, keys: &keys, ranges: &[] }],
    )
}

/// The options of an engine with its pool on a medium, and its files, if it has some, beside that.
pub(crate) fn options_on(medium: &Medium, options: &EngineOptions) -> EngineOptions {
    let mut options = EngineOptions { pool: "pool".into(), ..options.clone() };
    options.pool_options.medium = Some(medium.clone());
    options.disk = Some(Disk::model(&DiskModel::of(medium.machine())));
    options
}

/// Classifies errors of engines: which of them name damaged bytes, or a platform that failed.
#[must_use]
pub fn refusal(error: &Error) -> Refusal {
    if let Error::Alloc(SpaceError::UnsafeShutdown { .. }) = error {
        return Refusal::UnsafeShutdown;
    }
    let is_named = error.damage().is_some()
        || matches!(
            error,
            Error::Pool(PoolError::TooShort { .. })
                | Error::Alloc(
                    SpaceError::Foreign { .. }
                        | SpaceError::FutureVersion { .. }
                        | SpaceError::NotObjects { .. }
                        | SpaceError::Pool(PoolError::TooShort { .. })
                )
        );
    let what = error.to_string();
    if is_named { Refusal::Named(what) } else { Refusal::Failed(what) }
}
