//! Random programs over every method, compared with a map.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use halite_alloc::{Device, Segments};
use halite_disk::Disk;
use halite_pmem::PoolOptions;
use halite_wal::Shape;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::index::Direction;
use crate::index::cow_file::Options;
use crate::method::cow::Cow;
use crate::method::inp::{self, InP};
use crate::method::log_structured::{self, LogStructured};
use crate::method::nvm_cow::{self, NvmCow};
use crate::method::nvm_inp::{self, NvmInP};
use crate::method::nvm_log::{self, NvmLog};
use crate::method::nvm_wbl::{self, NvmWbl};
use crate::{KeyRange, Type, Value, ValueRef, values};

mod refusals;

impl<M> Partition<M> {
    /// The method, for tests that stop in the midst of what it does.
    pub(crate) fn method_mut(&mut self) -> &mut M {
        &mut self.method
    }
}

/// A medium with a partition of one method.
trait Medium: Sized {
    type Method: Method;

    fn new() -> Self;

    /// Opens the partition, or makes it. A partition that was open before, and did not sync, was killed.
    fn open(&self) -> Self::Method;
}

/// A method whose storage is in files.
trait InFiles: Method + Sized {
    fn open(disk: &Disk) -> Self;
}

impl InFiles for Cow {
    fn open(disk: &Disk) -> Self {
        let options = Options { page_len: 1024, ..Options::default() };
        match disk.list().unwrap().iter().any(|(name, _)| name == "partition") {
            true => Self::open(disk, "partition", 7, options).unwrap(),
            false => Self::create(disk, "partition", 7, options).unwrap(),
        }
    }
}

impl InFiles for InP {
    /// With checkpoints that begin often and take many steps.
    fn open(disk: &Disk) -> Self {
        let options = inp::Options {
            node_len: 128,
            memory_bytes: 64 << 20,
            log_file_bytes: 8 << 10,
            checkpoint_bytes: 4 << 10,
            step_bytes: 2_000,
        };
        match Self::is_there(disk).unwrap() {
            true => Self::open(disk, 7, options).unwrap(),
            false => Self::create(disk, 7, options).unwrap(),
        }
    }
}

impl InFiles for LogStructured {
    /// With so small a memtable that the rows are in several levels.
    fn open(disk: &Disk) -> Self {
        let options = log_structured::Options {
            memtable_bytes: 3_000,
            table_bytes: 4_000,
            fanout: 2,
            level0_max: 2,
            step_bytes: 1_500,
            log: Shape { file_bytes: 16 << 10, kept_bytes: 16 << 10 },
            ..log_structured::Options::default()
        };
        match disk.list().unwrap().iter().any(|(name, _)| name == "MANIFEST") {
            true => Self::open(disk, 7, options).unwrap(),
            false => Self::create(disk, 7, options).unwrap(),
        }
    }
}

/// A folder, which a kill leaves as it is.
struct FileMedium<M>(TempDir, PhantomData<M>);

impl<M: InFiles> Medium for FileMedium<M> {
    type Method = M;

    fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").unwrap(), PhantomData)
    }

    fn open(&self) -> M {
        M::open(&Disk::folder(self.0.path(), false).unwrap())
    }
}

/// A method whose storage is in a heap.
trait InHeap: Method + Sized {
    fn open(device: &Device) -> Self;
}

impl InHeap for NvmInP {
    fn open(device: &Device) -> Self {
        Self::open(device, nvm_inp::Options { node_len: 256, log_len: 256 }).unwrap()
    }
}

impl InHeap for NvmCow {
    fn open(device: &Device) -> Self {
        Self::open(device, nvm_cow::Options { node_len: 256 }).unwrap()
    }
}

impl InHeap for NvmLog {
    /// With memtables that some rows fill.
    fn open(device: &Device) -> Self {
        let options =
            nvm_log::Options { node_len: 256, memtable_bytes: 6_000, fanout: 2, step_keys: 3 };
        Self::open(device, options).unwrap()
    }
}

impl InHeap for NvmWbl {
    /// With steps that a few changes fill.
    fn open(device: &Device) -> Self {
        Self::open(device, nvm_wbl::Options { node_len: 256, step: 6 }).unwrap()
    }
}

/// A pool in a file, which a kill leaves as it is.
struct HeapMedium<M>(TempDir, PhantomData<M>);

impl<M: InHeap> Medium for HeapMedium<M> {
    type Method = M;

    fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").unwrap(), PhantomData)
    }

    fn open(&self) -> M {
        let path = self.0.path().join("pool");
        let mut options = PoolOptions::default();
        options.size_max = 64 << 20;
        let segments = if path.exists() {
            Segments::open(&path, &options).unwrap()
        } else {
            let segments = Segments::create(&path, &options).unwrap();
            segments.install().unwrap();
            segments
        };
        M::open(&segments.device(1))
    }
}

fn schema() -> TableSchema {
    let builder = TableSchema::builder("t")
        .column("id", Type::Int32)
        .nullable("a", Type::Int16)
        .column("b", Type::VarChar(40))
        .column("c", Type::Bytes(3000));
    builder.primary_key(["id"]).index("by_a", ["a"]).unique_index("by_b", ["b"]).build().unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Begin,
    Insert(Content),
    Update(i32, Content, u8),
    Delete(i32),
    Savepoint,
    RollBack(u8),
    Commit,
    Abort,
    Sync,
    Checkpoint,
    /// Ends the process, without a sync.
    Kill,
    CreateIndex(bool),
    DropIndex,
    Truncate,
    Reclaim,
    Scan(i32, i32),
}

type Content = (i32, Option<i16>, u8, u16);

fn step() -> impl Strategy<Value = Step> {
    let content = (0..40_i32, proptest::option::of(0..4_i16), 0..50_u8, 0..2_500_u16);
    prop_oneof![
        6 => Just(Step::Begin),
        12 => content.clone().prop_map(Step::Insert),
        10 => (0..40_i32, content, 0..16_u8).prop_map(|(key, content, columns)| Step::Update(key, content, columns)),
        5 => (0..40_i32).prop_map(Step::Delete),
        3 => Just(Step::Savepoint),
        2 => any::<u8>().prop_map(Step::RollBack),
        6 => Just(Step::Commit),
        2 => Just(Step::Abort),
        3 => Just(Step::Sync),
        1 => Just(Step::Checkpoint),
        2 => Just(Step::Kill),
        1 => any::<bool>().prop_map(Step::CreateIndex),
        1 => Just(Step::DropIndex),
        1 => Just(Step::Truncate),
        1 => Just(Step::Reclaim),
        3 => (0..40_i32, 0..40_i32).prop_map(|(from, to)| Step::Scan(from, to)),
    ]
}

fn row((id, a, b, c): Content) -> Vec<Value> {
    let b = format!("b{b:02}{}", "-".repeat(usize::from(b % 30)));
    let c = vec![b.len() as u8; usize::from(c)];
    vec![id.into(), a.into(), b.as_str().into(), c.as_slice().into()]
}

fn refs(values: &[Value]) -> Vec<ValueRef<'_>> {
    values.iter().map(Value::as_ref).collect()
}

/// The rows by their ids.
type Map = BTreeMap<i32, Vec<Value>>;

/// The map that a partition is compared with.
#[derive(Debug)]
struct Model {
    committed: Map,
    /// The commits that a crash may lead back to, the oldest first: the last durable one, and those behind it.
    before: Vec<Map>,
    transaction: Option<Map>,
    savepoints: Vec<(Savepoint, Map)>,
    /// Whether index `more` is there, and unique.
    index: Option<bool>,
}

fn id(row: &[Value]) -> i32 {
    row[0].as_ref().int().unwrap() as i32
}

impl Model {
    fn sync(&mut self) {
        self.before = vec![self.committed.clone()];
    }

    fn rows(&self) -> &Map {
        self.transaction.as_ref().unwrap_or(&self.committed)
    }

    /// Whether a row may be in the place of that with a key.
    fn has_room(&self, row: &[Value], instead_of: Option<i32>) -> bool {
        let mut others = self.rows().iter().filter(|&(&key, _)| Some(key) != instead_of);
        others.all(|(&key, other)| {
            let clashes =
                self.index == Some(true) && row[1..3] == other[1..3] && row[1] != Value::Null;
            key != id(row) && row[2] != other[2] && !clashes
        })
    }
}

/// Compares rows with the map, by each index.
fn compare<M: Method>(partition: &Partition<M>, model: &Model, (from, to): (i32, i32)) {
    let table = partition.catalog().table("t").unwrap().clone();
    let schema = table.schema();
    let key = |id: i32| schema.primary_key().encode(&values![id]).unwrap();
    for (id, row) in model.rows() {
        let found = partition.get(&table, &key(*id)).unwrap().unwrap();
        assert_eq!(&found.view(schema).unwrap().to_values().unwrap(), row);
    }
    let positions = std::iter::once(None).chain((0..schema.indexes().len()).map(Some));
    for position in positions {
        for direction in [Direction::Forward, Direction::Reverse] {
            let range = match position {
                None => KeyRange { from: key(from), to: Some(key(to)) },
                Some(_) => KeyRange::all(),
            };
            let mut found = Vec::new();
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let scanned = partition.scan(&table, position, &range, direction, |key, row| {
                keys.push(key.to_vec());
                found.push((id(&row.to_values()?), row.to_values()?));
                Ok(ControlFlow::Continue(()))
            });
            scanned.unwrap();
            let is_ordered = |pair: &[Vec<u8>]| match direction {
                Direction::Forward => pair[0] < pair[1],
                Direction::Reverse => pair[0] > pair[1],
            };
            assert!(keys.windows(2).all(is_ordered), "{position:?} {direction:?}");
            let expected = model
                .rows()
                .iter()
                .filter(|&(&id, _)| position.is_some() || (from..to).contains(&id));
            let found: BTreeMap<_, _> = found.into_iter().collect();
            let expected: BTreeMap<_, _> = expected.map(|(&id, row)| (id, row.clone())).collect();
            assert_eq!(found, expected, "{position:?} {direction:?}");
            assert_eq!(keys.len(), expected.len());
        }
    }
}

fn run<T: Medium>(steps: &[Step]) {
    let medium = T::new();
    let mut partition = Partition::new(medium.open()).unwrap();
    partition.create_table(schema()).unwrap();
    let mut model = Model {
        committed: Map::new(),
        before: vec![Map::new()],
        transaction: None,
        savepoints: Vec::new(),
        index: None,
    };
    for step in steps {
        let table = partition.catalog().table("t").unwrap().clone();
        let key = |id: i32| table.schema().primary_key().encode(&values![id]).unwrap();
        let is_inside = model.transaction.is_some();
        let needs = |result: Result<bool>| match result {
            Err(Error::Transaction { .. }) if !is_inside => false,
            Err(Error::DuplicateKey { .. }) if is_inside => false,
            other => {
                assert!(is_inside);
                other.unwrap()
            }
        };
        match step {
            Step::Begin => {
                assert_eq!(partition.begin().is_ok(), !is_inside);
                let committed = &model.committed;
                model.transaction.get_or_insert_with(|| committed.clone());
            }
            Step::Insert(content) => {
                let values = row(*content);
                let stored = Row::from_values(table.schema(), &refs(&values)).unwrap();
                let done = needs(partition.insert(&table, &stored).map(|()| true));
                assert_eq!(done, is_inside && model.has_room(&values, None));
                if done {
                    model.transaction.as_mut().unwrap().insert(id(&values), values);
                }
            }
            Step::Update(from, content, columns) => {
                let new = row(*content);
                let changed = (0..4).filter(|column| columns >> column & 1 != 0);
                let changes: Vec<_> =
                    changed.map(|column| Change::new(column, new[column].as_ref())).collect();
                let done = needs(partition.update(&table, &key(*from), &changes));
                let after = model.rows().get(from).map(|row| {
                    let mut row = row.clone();
                    changes
                        .iter()
                        .for_each(|change| row[change.column] = new[change.column].clone());
                    row
                });
                let after = after.filter(|row| is_inside && model.has_room(row, Some(*from)));
                assert_eq!(done, after.is_some());
                if let Some(after) = after {
                    let rows = model.transaction.as_mut().unwrap();
                    rows.remove(from);
                    rows.insert(id(&after), after);
                }
            }
            Step::Delete(id) => {
                let done = needs(partition.delete(&table, &key(*id)));
                let is_there = is_inside && model.rows().contains_key(id);
                assert_eq!(done, is_there);
                if done {
                    model.transaction.as_mut().unwrap().remove(id);
                }
            }
            Step::Savepoint => {
                let savepoint = partition.savepoint();
                assert_eq!(savepoint.is_ok(), is_inside);
                model.savepoints.extend(savepoint.ok().zip(model.transaction.clone()));
            }
            Step::RollBack(number) => {
                if model.savepoints.is_empty() {
                    continue;
                }
                let at = usize::from(*number) % model.savepoints.len();
                model.savepoints.truncate(at + 1);
                let (savepoint, rows) = model.savepoints.last().cloned().unwrap();
                partition.rollback_to(savepoint).unwrap();
                model.transaction = Some(rows);
            }
            Step::Commit => {
                assert_eq!(partition.commit().is_ok(), is_inside);
                model.savepoints.clear();
                let committed = model.transaction.take();
                model.committed = committed.unwrap_or(model.committed);
                model.before.push(model.committed.clone());
            }
            Step::Abort => {
                assert_eq!(partition.abort().is_ok(), is_inside);
                model.savepoints.clear();
                model.transaction = None;
            }
            Step::Sync => {
                partition.sync().unwrap();
                model.sync();
            }
            Step::Checkpoint => {
                partition.checkpoint().unwrap();
                model.sync();
            }
            Step::Kill => {
                drop(partition);
                partition = Partition::new(medium.open()).unwrap();
                (model.transaction, model.savepoints) = (None, Vec::new());
                let table = partition.catalog().table("t").unwrap().clone();
                let mut rows = Map::new();
                let scanned =
                    partition.scan(&table, None, &KeyRange::all(), Direction::Forward, |_, row| {
                        let row = row.to_values()?;
                        rows.insert(id(&row), row);
                        Ok(ControlFlow::Continue(()))
                    });
                scanned.unwrap();
                assert!(model.before.contains(&rows), "{rows:?}");
                model.committed = rows;
                model.sync();
                assert!(partition.footprint().unwrap().total() > 0);
            }
            Step::CreateIndex(is_unique) => {
                let created = partition.create_index("t", "more", &["a", "b"], *is_unique);
                assert_eq!(created.is_ok(), !is_inside && model.index.is_none(), "{created:?}");
                if created.is_ok() {
                    model.index = Some(*is_unique);
                    model.sync();
                }
            }
            Step::DropIndex => {
                let dropped = partition.drop_index("t", "more");
                assert_eq!(dropped.is_ok(), !is_inside && model.index.is_some());
                if dropped.is_ok() {
                    model.index = None;
                    model.sync();
                }
            }
            Step::Truncate => {
                let done = partition.truncate_table("t").is_ok();
                assert_eq!(done, !is_inside);
                if done {
                    model.committed = Map::new();
                    model.sync();
                }
            }
            Step::Reclaim => {
                assert_eq!(partition.reclaim().is_ok(), !is_inside);
            }
            Step::Scan(from, to) => compare(&partition, &model, (*from, *to)),
        }
    }
    compare(&partition, &model, (0, i32::MAX));
    if model.transaction.is_some() {
        partition.abort().unwrap();
    }
    assert_eq!(partition.verify().unwrap(), model.committed.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn inp_is_a_map_with_transactions(steps in proptest::collection::vec(step(), 1..150)) {
        run::<FileMedium<InP>>(&steps);
    }

    #[test]
    fn nvm_inp_is_a_map_with_transactions(steps in proptest::collection::vec(step(), 1..150)) {
        run::<HeapMedium<NvmInP>>(&steps);
    }

    #[test]
    fn cow_is_a_map_with_transactions(steps in proptest::collection::vec(step(), 1..150)) {
        run::<FileMedium<Cow>>(&steps);
    }

    #[test]
    fn nvm_cow_is_a_map_with_transactions(steps in proptest::collection::vec(step(), 1..150)) {
        run::<HeapMedium<NvmCow>>(&steps);
    }

    #[test]
    fn log_is_a_map_with_transactions(steps in proptest::collection::vec(step(), 1..150)) {
        run::<FileMedium<LogStructured>>(&steps);
    }

    #[test]
    fn nvm_log_is_a_map_with_transactions(steps in proptest::collection::vec(step(), 1..150)) {
        run::<HeapMedium<NvmLog>>(&steps);
    }

    #[test]
    fn nvm_wbl_is_a_map_with_transactions(steps in proptest::collection::vec(step(), 1..150)) {
        run::<HeapMedium<NvmWbl>>(&steps);
    }
}
