//! Open partitions, and how they take steps.
//!
//! On a small medium a step may be refused for lack of room. It has changed nothing then, and happens after all once the
//! rows that fill the medium are gone, which always works.

use std::ops::ControlFlow;

use halite_lab::{Digest, Refusal, World};
use halite_table::index::Direction;
use halite_table::{
    Catalog, Change, Error, IndexState, KeyRange, Method, Partition, Result, Row, RowRef, Table,
    TableSchema, Type, values,
};

use super::refusal::{is_full, refusal};
use super::steps::{
    INDEX, LEFT, MORE_MAX, Move, RIGHT, Step, Work, Write, accounts_of, amount_of, digest,
    digest_of, group_of, index_of, long_of, more_of, moves, writes,
};

/// The table of rows that fill the medium.
const BALLAST: &str = "ballast";

/// Bytes of such rows, the longest first.
const BALLAST_LENS: [usize; 4] = [1 << 20, 200_000, 60_000, 300];

/// The schema of the table that each partition has.
pub(super) fn schema() -> TableSchema {
    let builder = TableSchema::builder("t")
        .column("key", Type::Int32)
        .column("group", Type::Int16)
        .nullable("long", Type::Bytes(3_000))
        .nullable("more", Type::Bytes(MORE_MAX as u32));
    builder.primary_key(["key"]).index("by_group", ["group"]).build().expect("it is right")
}

/// A table of numbers with amounts, or with bytes.
fn numbered(name: &str, ty: Type) -> TableSchema {
    let builder = TableSchema::builder(name).column("number", Type::Int32).column("has", ty);
    builder.primary_key(["number"]).build().expect("it is right")
}

/// A partition, opened.
struct Part<M> {
    number: usize,
    partition: Partition<M>,
}

/// Partitions, opened.
pub(crate) struct Open<M> {
    parts: Vec<Part<M>>,
    /// A step failed in the midst: what it wrote cannot be told from what there was before.
    has_failed: bool,
}

fn key_of(table: &Table, number: i32) -> Result<Vec<u8>> {
    table.schema().primary_key().encode(&values![number])
}

impl<M: Method> Part<M> {
    fn table(&self, name: &str) -> Result<Table> {
        self.partition.catalog().table(name).map(|table| Table::clone(table))
    }

    /// The table of this name, which is created if it is not there.
    fn numbered(&mut self, name: &str, ty: Type) -> Result<Table> {
        if self.partition.catalog().table(name).is_err() {
            self.partition.create_table(numbered(name, ty))?;
        }
        self.table(name)
    }

    fn scan(&self, table: &Table, mut visit: impl FnMut(RowRef<'_>) -> Result<()>) -> Result<()> {
        let visit = |_: &[u8], row: RowRef<'_>| visit(row).map(ControlFlow::Continue);
        self.partition.scan(table, None, &KeyRange::all(), Direction::Forward, visit)
    }

    /// The tables of accounts, if both are there.
    fn accounts(&self) -> Option<(Table, Table)> {
        self.table(LEFT).ok().zip(self.table(RIGHT).ok())
    }

    fn run(&mut self, seed: u64, commits: bool) -> Result<()> {
        let table = self.table("t")?;
        self.partition.begin()?;
        for write in writes(seed) {
            self.write(&table, write)?;
        }
        if let Some((left, right)) = self.accounts() {
            for Move { from, to, amount } in moves(seed) {
                self.add(&left, from, -amount)?;
                self.add(&right, to, amount)?;
            }
        }
        match commits {
            true => self.partition.commit().map(drop),
            false => self.partition.abort(),
        }
    }

    fn write(&mut self, table: &Table, write: Write) -> Result<()> {
        match write {
            Write::Put { key, group, long, more } => {
                let values = values![key, group, &long[..], more.as_deref()];
                let row = Row::from_values(table.schema(), &values)?;
                self.partition.delete(table, &key_of(table, key)?)?;
                self.partition.insert(table, &row)
            }
            Write::Group { key, group } => self.update(table, key, &[Change::new(1, group)]),
            Write::Long { key, long } => self.update(table, key, &[Change::new(2, &long[..])]),
            Write::More { key, more } => {
                self.update(table, key, &[Change::new(3, more.as_deref())])
            }
            Write::Both { key, long, more } => {
                let changes = [Change::new(2, &long[..]), Change::new(3, more.as_deref())];
                self.update(table, key, &changes)
            }
            Write::Remove { key } => self.partition.delete(table, &key_of(table, key)?).map(drop),
        }
    }

    fn update(&mut self, table: &Table, key: i32, changes: &[Change]) -> Result<()> {
        self.partition.update(table, &key_of(table, key)?, changes).map(drop)
    }

    /// Adds to the amount of an account.
    fn add(&mut self, table: &Table, account: i32, amount: i64) -> Result<()> {
        let key = key_of(table, account)?;
        let Some(row) = self.partition.get(table, &key)? else {
            let row = Row::from_values(table.schema(), &values![account, amount])?;
            return self.partition.insert(table, &row);
        };
        match row.view(table.schema())?.int(1)? + amount {
            0 => self.partition.delete(table, &key).map(drop),
            sum => self.partition.update(table, &key, &[Change::new(1, sum)]).map(drop),
        }
    }

    fn has_index(&self) -> Result<bool> {
        let table = self.table("t")?;
        Ok(table.index(INDEX).is_ok_and(|index| index.state == IndexState::Ready))
    }

    fn take(&mut self, work: &Work) -> Result<()> {
        match *work {
            Work::Transaction { seed, commits, syncs } => {
                if let Err(error) = self.run(seed, commits) {
                    // A failed commit has ended it.
                    let _ = self.partition.abort();
                    return Err(error);
                }
                if syncs { self.partition.sync().map(drop) } else { Ok(()) }
            }
            Work::Index { is_there } => match (self.has_index()?, is_there) {
                (false, true) => {
                    self.partition.create_index("t", INDEX, &["group", "key"], true).map(drop)
                }
                (true, false) => self.partition.drop_index("t", INDEX),
                _ => self.partition.sync().map(drop),
            },
            Work::Truncate => self.partition.truncate_table("t").map(drop),
            Work::Reclaim => {
                self.partition.reclaim()?;
                self.partition.sync().map(drop)
            }
            Work::Checkpoint => self.partition.checkpoint(),
            Work::Accounts => {
                self.numbered(LEFT, Type::Int64)?;
                self.numbered(RIGHT, Type::Int64)?;
                self.partition.sync().map(drop)
            }
            Work::Fill => self.fill(),
        }
    }

    fn fill(&mut self) -> Result<()> {
        let table = self.numbered(BALLAST, Type::Bytes(1 << 20))?;
        let mut number = 0;
        self.scan(&table, |row| {
            number = row.int(0)? as i32 + 1;
            Ok(())
        })?;
        for len in BALLAST_LENS {
            let bytes = vec![7; len];
            loop {
                let row = Row::from_values(table.schema(), &values![number, &bytes[..]])?;
                self.partition.begin()?;
                self.partition.insert(&table, &row)?;
                match self.partition.commit() {
                    Ok(_) => number += 1,
                    Err(error) if is_full(&error) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Removes what fills the medium, row by row, and gives the space of dropped things back.
    fn make_room(&mut self) -> Result<()> {
        if let Ok(table) = self.table(BALLAST) {
            let mut numbers = Vec::new();
            self.scan(&table, |row| {
                numbers.push(row.int(0)? as i32);
                Ok(())
            })?;
            for number in numbers {
                self.partition.begin()?;
                self.partition.delete(&table, &key_of(&table, number)?)?;
                self.partition.commit()?;
            }
        }
        while !self.partition.reclaim()? {}
        Ok(())
    }

    /// Adds the contents to a world. Returns the sum of all accounts, which is zero.
    fn describe(&self, world: &mut World) -> Result<i64> {
        let (number, table) = (self.number, self.table("t")?);
        self.scan(&table, |row| {
            let [long, more] = [2, 3].map(|column| row.long_bytes(column));
            let (key, group) = (row.int(0)? as i32, row.int(1)? as i16);
            world.insert(group_of(number, key), digest(group));
            world.insert(long_of(number, key), Digest::of(long?.unwrap_or_default()));
            world.insert(more_of(number, key), digest_of(more?));
            Ok(())
        })?;
        let mut sum = 0;
        if let Some((left, right)) = self.accounts() {
            world.insert(accounts_of(number), Digest::of(&[]));
            for (name, table) in [(LEFT, left), (RIGHT, right)] {
                self.scan(&table, |row| {
                    let (account, amount) = (row.int(0)? as i32, row.int(1)?);
                    sum += amount;
                    world.insert(amount_of(number, name, account, amount), Digest::of(&[]));
                    Ok(())
                })?;
            }
        }
        if self.has_index()? {
            world.insert(index_of(number), Digest::of(&[]));
        }
        Ok(sum)
    }
}

impl<M: Method> Open<M> {
    /// Opens the partitions of these methods' storages, and makes what is not there yet.
    pub(super) fn new(methods: Vec<M>) -> Result<Self> {
        let open = |(number, method)| {
            let mut partition = Partition::new(method)?;
            if partition.catalog().version() == Catalog::new().version() {
                partition.create_table(schema())?;
            }
            Ok(Part { number, partition })
        };
        let parts = (0..).zip(methods).map(open).collect::<Result<_>>()?;
        Ok(Self { parts, has_failed: false })
    }

    /// Takes a step.
    pub(super) fn apply(&mut self, step: &Step) -> Result<(), String> {
        let done = self.try_to(step);
        self.has_failed |= done.is_err();
        done
    }

    fn try_to(&mut self, Step { partition, work }: &Step) -> Result<(), String> {
        let told = |error: Error| error.to_string();
        let part = &mut self.parts[*partition];
        let mut before = World::new();
        part.describe(&mut before).map_err(told)?;
        match part.take(work) {
            Err(error) if is_full(&error) => {
                let mut after = World::new();
                part.describe(&mut after).map_err(told)?;
                if before != after {
                    return Err("it was refused for lack of room, and changed something".to_owned());
                }
                part.partition.verify().map_err(told)?;
                part.make_room().map_err(|error| format!("it cannot make room: {error}"))?;
                part.take(work).map_err(told)
            }
            done => done.map_err(told),
        }
    }

    pub(super) fn world(&self) -> Result<World, Refusal> {
        if self.has_failed {
            return Err(Refusal::Failed("a step failed: open it again".to_owned()));
        }
        let mut world = World::new();
        for part in &self.parts {
            let sum = part.describe(&mut world).map_err(|error| refusal(&error))?;
            if sum != 0 {
                let number = part.number;
                return Err(Refusal::Failed(format!(
                    "partition {number} has half of a move: {sum}"
                )));
            }
        }
        Ok(world)
    }

    pub(super) fn verify(&mut self) -> Result<(), Refusal> {
        let mut parts = self.parts.iter_mut();
        parts
            .try_for_each(|part| part.partition.verify().map(drop))
            .map_err(|error| refusal(&error))
    }
}
