//! An open testbed, and how it takes steps.

use std::ops::ControlFlow;

use halite_contract::{Durability, EngineOptions, OwnOptions, Partitioning};
use halite_disk::{Disk, DiskModel};
use halite_lab::{Digest, Refusal, World};
use halite_pmem::Medium;
use halite_table::index::{Direction, cow_file};
use halite_table::method::{View, inp, log_structured, nvm_cow, nvm_inp};
use halite_table::{
    Change, Column, Error, KeyRange, Kind, Procedure, Records, Result, Row, RowRef, TableOptions,
    TableSchema, Testbed, Transaction, Type, Value, values,
};
use halite_wal::Shape;

use super::PARTITIONS;
use super::steps::{Add, INDEX, Step, adds, amount_of, digest, index_of, partitions_of};
use crate::methods::{is_full, refusal};

pub(super) const ALL: [usize; PARTITIONS] = [0, 1];

/// The key that has the timestamp of a partition's last transaction. It is no part of the world.
const STAMP: i32 = -1;

/// The table of names, each of which one row may have.
const NAMES: &str = "names";

/// The amounts of a partition, by their keys.
type Amounts = Vec<(i32, i32)>;

/// A testbed, opened.
pub(crate) struct Open {
    /// None while it is opened again.
    testbed: Option<Testbed>,
    pub(super) kind: Kind,
    /// Steps fill the pool.
    pub(super) is_small: bool,
    pub(super) options: EngineOptions,
    pub(super) model: DiskModel,
    /// Views of the partitions, and what they had at first.
    views: Vec<(Box<dyn View>, Amounts)>,
    has_failed: bool,
}

fn schema() -> TableSchema {
    let builder =
        TableSchema::builder("t").column("key", Type::Int32).column("amount", Type::Int32);
    builder.primary_key(["key"]).build().expect("it is right")
}

fn names() -> TableSchema {
    let builder =
        TableSchema::builder(NAMES).column("number", Type::Int32).column("name", Type::Int32);
    builder.primary_key(["number"]).unique_index("by_name", ["name"]).build().expect("it is right")
}

/// Sizes so small that a short history reaches every part of a method.
fn own_options() -> TableOptions {
    TableOptions {
        inp: inp::Options {
            node_len: 256,
            memory_bytes: 16 << 20,
            log_file_bytes: 4 << 10,
            checkpoint_bytes: 1 << 10,
            step_bytes: 2_000,
        },
        nvm_inp: nvm_inp::Options { node_len: 256, ..nvm_inp::Options::default() },
        cow: cow_file::Options { page_len: 512, ..cow_file::Options::default() },
        nvm_cow: nvm_cow::Options { node_len: 256 },
        log: log_structured::Options {
            memtable_bytes: 1_500,
            table_bytes: 2_000,
            fanout: 2,
            level0_max: 2,
            step_bytes: 1_000,
            cache_bytes: 256 << 10,
            log: Shape { file_bytes: 8 << 10, kept_bytes: 8 << 10 },
            ..log_structured::Options::default()
        },
        ..TableOptions::default()
    }
}

/// The stored procedure that makes the changes of a seed.
struct Adds;

impl Procedure for Adds {
    fn signature(&self) -> (&str, Vec<Column>) {
        ("adds", vec![Column::new("seed", Type::Int64, false)])
    }

    fn partitions(&self, arguments: &[Value], _: usize) -> Vec<usize> {
        partitions_of(arguments[0].as_ref().int().expect("it is a number") as u64)
    }

    fn run(&self, tx: &mut Transaction<'_>, arguments: &[Value]) -> Result<Records> {
        let seed = arguments[0].as_ref().int()? as u64;
        change(tx, seed).map(|()| Vec::new())
    }
}

/// Makes the changes of a seed, and leaves the transaction's timestamp in each partition that they are of: it is later than
/// the one that it finds there.
fn change(tx: &mut Transaction<'_>, seed: u64) -> Result<()> {
    adds(seed).iter().try_for_each(|change| add(tx, change))?;
    let now = tx.timestamp() as i32;
    for partition in partitions_of(seed) {
        let before = amount_at(tx, partition, STAMP)?;
        if now <= before {
            let why = format!("{now} is given out, and {before} was before").into();
            return Err(Error::Damaged { what: "the timestamps".into(), why });
        }
        add(tx, &Add { partition, key: STAMP, amount: now - before })?;
    }
    Ok(())
}

/// The amount of a key.
fn amount_at(tx: &mut Transaction<'_>, partition: usize, key: i32) -> Result<i32> {
    let table = tx.table(partition, "t")?;
    let at = table.schema().primary_key().encode(&values![key])?;
    let found = tx.get(partition, &table, &at)?;
    Ok(found.map(|row| row.view(table.schema())?.int(1)).transpose()?.unwrap_or(0) as i32)
}

fn add(tx: &mut Transaction<'_>, add: &Add) -> Result<()> {
    let Add { partition, key, amount } = *add;
    let table = tx.table(partition, "t")?;
    let schema = table.schema();
    let at = schema.primary_key().encode(&values![key])?;
    let before = amount_at(tx, partition, key)?;
    match (before, before + amount) {
        (0, 0) => Ok(()),
        (0, now) => tx.insert(partition, &table, &Row::from_values(schema, &values![key, now])?),
        (_, 0) => tx.delete(partition, &table, &at).map(drop),
        (_, now) => tx.update(partition, &table, &at, &[Change::new(1, now)]).map(drop),
    }
}

/// The amounts of a view.
fn seen(view: &dyn View) -> Result<Amounts> {
    let Ok(table) = view.catalog().table("t") else { return Ok(Vec::new()) };
    let mut rows = view.scan(table, None, &KeyRange::all(), Direction::Forward)?;
    let mut amounts = Vec::new();
    while let Some((key, row)) = rows.next()? {
        if view.get(table, &key)?.as_ref() != Some(&row) {
            let what = "a view".into();
            return Err(Error::Damaged { what, why: "a row is not where its key is".into() });
        }
        let row = row.view(table.schema())?;
        if row.int(0)? != i64::from(STAMP) {
            amounts.push((row.int(0)? as i32, row.int(1)? as i32));
        }
    }
    Ok(amounts)
}

impl Open {
    pub(super) fn new(
        kind: Kind,
        (capacity, is_small): (u64, bool),
        medium: &Medium,
    ) -> Result<Self> {
        let model = DiskModel::of(medium.machine());
        let mut options = EngineOptions::new("pool");
        options.pool_options.size_max = capacity;
        options.pool_options.medium = Some(medium.clone());
        options.partitioning = Some(Partitioning::Hash(PARTITIONS));
        options.disk = Some(Disk::model(&model));
        options.own = OwnOptions::of(own_options());
        let mut open = Self {
            testbed: None,
            kind,
            is_small,
            options,
            model,
            views: Vec::new(),
            has_failed: false,
        };
        open.open()?;
        Ok(open)
    }

    /// Opens the testbed, and makes its table.
    pub(super) fn open(&mut self) -> Result<()> {
        self.views.clear();
        self.testbed = None;
        let testbed = Testbed::open(Some(self.kind), &self.options)?;
        if testbed.catalog().table("t").is_err() {
            testbed.create_table(&schema())?;
        }
        testbed.register(Adds)?;
        self.testbed = Some(testbed);
        Ok(())
    }

    pub(super) fn testbed(&self) -> &Testbed {
        self.testbed.as_ref().expect("it is open")
    }

    /// Takes a step.
    pub(super) fn apply(&mut self, step: &Step) -> Result<(), String> {
        let done = match *step {
            Step::Squeezed { seed, room } => self.squeezed(seed, room),
            _ => self.take_with_room(step).map_err(|error| error.to_string()),
        };
        let done = done.and_then(|()| self.look_at_views().map_err(|error| error.to_string()));
        self.has_failed |= done.is_err();
        done
    }

    /// Takes a step; once more if it is refused for the rows that an interrupted step has filled the medium with.
    fn take_with_room(&mut self, step: &Step) -> Result<()> {
        if self.is_small && matches!(step, Step::Index { .. } | Step::Truncate | Step::Name { .. })
        {
            // A statement that a partition has no room for waits for the next opening, and that for room.
            self.make_room()?;
        }
        match self.take(step) {
            Err(error) if is_full(&error) => {
                self.make_room()?;
                self.take(step)
            }
            taken => taken,
        }
    }

    pub(super) fn take(&mut self, step: &Step) -> Result<()> {
        let testbed = self.testbed();
        match *step {
            Step::Transaction { seed, commits, syncs } => {
                let durability = if syncs { Durability::Immediate } else { Durability::Deferred };
                let done = testbed.transact(&partitions_of(seed), durability, |tx| {
                    change(tx, seed)?;
                    if commits { Ok(()) } else { Err(Error::NoMoreIds) }
                });
                match done {
                    Err(Error::NoMoreIds) if !commits => Ok(()),
                    done => done,
                }
            }
            Step::Call { seed } | Step::Squeezed { seed, .. } => {
                testbed.call("adds", &values![seed as i64]).map(drop)
            }
            Step::Name { number } => self.name(number),
            Step::View => self.view(),
            Step::Index { is_there } => {
                let has = testbed.catalog().table("t")?.index(INDEX).is_ok();
                match (has, is_there) {
                    (false, true) => testbed.create_index("t", INDEX, &["amount"], false),
                    (true, false) => testbed.drop_index("t", INDEX),
                    _ => testbed.sync(),
                }
            }
            Step::Truncate => testbed.truncate_table("t"),
            Step::Reclaim => {
                testbed.reclaim()?;
                testbed.sync()
            }
            Step::Checkpoint => {
                testbed.checkpoint()?;
                testbed.sync()
            }
        }
    }

    /// Gives the only name in both partitions to a row, if no row has it yet. Another row may not have it, too.
    fn name(&self, number: i32) -> Result<()> {
        let testbed = self.testbed();
        if testbed.catalog().table(NAMES).is_err() {
            testbed.create_table(&names())?;
        }
        let named = testbed.transact(&ALL, Durability::Immediate, |tx| {
            for partition in ALL {
                let table = tx.table(partition, NAMES)?;
                let row = Row::from_values(table.schema(), &values![number, 1])?;
                tx.insert(partition, &table, &row)?;
            }
            Ok(())
        });
        match named {
            Err(Error::DuplicateKey { .. }) => testbed.sync(),
            named => named,
        }?;
        let mut counts = [0; PARTITIONS];
        testbed.transact(&ALL, Durability::Deferred, |tx| {
            for partition in ALL {
                let table = tx.table(partition, NAMES)?;
                let count = |_: &[u8], _: RowRef<'_>| {
                    counts[partition] += 1;
                    Ok(ControlFlow::Continue(()))
                };
                tx.scan(partition, (&table, None), &KeyRange::all(), Direction::Forward, count)?;
            }
            Ok::<_, Error>(())
        })?;
        match counts {
            [1, 1] => Ok(()),
            _ => {
                let why = format!("{counts:?} rows have it").into();
                Err(Error::Damaged { what: "a unique name".into(), why })
            }
        }
    }

    fn view(&mut self) -> Result<()> {
        self.views.clear();
        self.testbed().sync()?;
        for partition in ALL {
            let view = self.testbed().view(partition)?;
            let amounts = seen(&*view)?;
            self.views.push((view, amounts));
        }
        let seen: Vec<_> = self.views.iter().map(|(_, amounts)| amounts.clone()).collect();
        let there = self.read(|number, key, amount| (number, key, amount))?;
        let viewed = ALL.into_iter().zip(&seen).flat_map(|(number, amounts)| {
            amounts.iter().map(move |&(key, amount)| (number, key, amount))
        });
        match viewed.eq(there) {
            true => Ok(()),
            false => Err(changed_view()),
        }
    }

    fn look_at_views(&self) -> Result<()> {
        for (view, amounts) in &self.views {
            if seen(&**view)? != *amounts {
                return Err(changed_view());
            }
        }
        Ok(())
    }

    /// The rows of both partitions.
    fn read<T>(&self, row_of: impl Fn(usize, i32, i32) -> T) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        self.testbed().transact(&ALL, Durability::Deferred, |tx| {
            for partition in ALL {
                let table = tx.table(partition, "t")?;
                let visit = |_: &[u8], row: RowRef<'_>| {
                    if row.int(0)? != i64::from(STAMP) {
                        rows.push(row_of(partition, row.int(0)? as i32, row.int(1)? as i32));
                    }
                    Ok(ControlFlow::Continue(()))
                };
                let range = KeyRange::all();
                tx.scan(partition, (&table, None), &range, Direction::Forward, visit)?;
            }
            Ok::<_, Error>(())
        })?;
        Ok(rows)
    }

    pub(super) fn contents(&self) -> Result<World> {
        let of = |partition, key, amount| (amount_of(partition, key), digest(amount));
        let mut world: World = self.read(of)?.into_iter().collect();
        self.testbed().transact(&ALL, Durability::Deferred, |tx| {
            for partition in ALL {
                let table = tx.table(partition, "t")?;
                if table.index(INDEX).is_ok() {
                    world.insert(index_of(partition), Digest::of(&[]));
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(world)
    }

    pub(super) fn world(&self) -> Result<World, Refusal> {
        if self.has_failed {
            return Err(Refusal::Failed("a step failed: open it again".to_owned()));
        }
        self.contents().map_err(|error| refusal(&error))
    }

    pub(super) fn verify(&self) -> Result<(), Refusal> {
        let verified = self.testbed().verify().and_then(|_| self.look_at_views());
        verified.map_err(|error| refusal(&error))
    }
}

fn changed_view() -> Error {
    Error::Damaged { what: "a view".into(), why: "it has other rows than it had".into() }
}
