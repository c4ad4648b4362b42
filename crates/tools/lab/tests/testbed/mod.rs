//! A testbed of two partitions as a subject of the lab: no power cut leaves a transaction or a statement in one partition
//! and not in the other.

use std::ops::ControlFlow;

use halite_alloc::Error as SpaceError;
use halite_contract::{Durability, EngineOptions, OwnOptions, Partitioning};
use halite_lab::{Action, Digest, Random, Refusal, Subject, World};
use halite_pmem::Medium;
use halite_table::index::Direction;
use halite_table::method::nvm_inp;
use halite_table::{
    Change, Error, KeyRange, Kind, Result, Row, TableOptions, TableSchema, Testbed, Transaction,
    Type, values,
};

const PARTITIONS: usize = 2;
const KEYS: u64 = 6;
const INDEX: &str = "by_amount";

/// A step of a user of the testbed.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Moves amounts between keys of both partitions, or of one of them.
    Transaction { seed: u64, commits: bool },
    /// Creates or drops a secondary index in both partitions.
    Index { is_there: bool },
    /// Removes all rows of both partitions by a statement.
    Truncate,
    /// Gives the space of dropped things back.
    Reclaim,
}

/// Adds an amount to a key of a partition; a key without an amount has no row.
struct Add {
    partition: usize,
    key: i32,
    amount: i32,
}

fn draw(random: &mut Random) -> Step {
    match random.below(16) {
        0 => Step::Index { is_there: random.below(2) == 0 },
        1 => Step::Truncate,
        2 => Step::Reclaim,
        _ => Step::Transaction { seed: random.next(), commits: random.below(6) > 0 },
    }
}

fn adds(seed: u64) -> Vec<Add> {
    let mut random = Random::new(seed);
    let is_single = random.below(3) == 0;
    let home = random.below(PARTITIONS as u64) as usize;
    let mut all = Vec::new();
    for _ in 0..1 + random.below(4) {
        let amount = 1 + random.below(3) as i32;
        let other = if is_single { home } else { 1 - home };
        let mut key = || random.below(KEYS) as i32;
        all.push(Add { partition: home, key: key(), amount: -amount });
        all.push(Add { partition: other, key: key(), amount });
    }
    all
}

fn name(partition: usize, key: i32) -> Vec<u8> {
    format!("amount {key:03} of partition {partition}").into_bytes()
}

fn schema() -> TableSchema {
    let builder =
        TableSchema::builder("t").column("key", Type::Int32).column("amount", Type::Int32);
    builder.primary_key(["key"]).build().expect("it is right")
}

fn add(tx: &mut Transaction<'_>, add: &Add) -> Result<()> {
    let Add { partition, key, amount } = *add;
    let table = tx.table(partition, "t")?;
    let schema = table.schema();
    let at = schema.primary_key().encode(&values![key])?;
    let found = tx.get(partition, &table, &at)?;
    let before = found.map(|row| row.view(schema)?.int(1)).transpose()?.unwrap_or(0) as i32;
    match (before, before + amount) {
        (0, 0) => Ok(()),
        (0, now) => tx.insert(partition, &table, &Row::from_values(schema, &values![key, now])?),
        (_, 0) => tx.delete(partition, &table, &at).map(drop),
        (_, now) => tx.update(partition, &table, &at, &[Change::new(1, now)]).map(drop),
    }
}

/// A testbed, opened.
pub(crate) struct Open {
    testbed: Testbed,
    has_failed: bool,
}

impl Open {
    fn apply(&self, step: &Step) -> Result<()> {
        let testbed = &self.testbed;
        match *step {
            Step::Transaction { seed, commits } => {
                let done = testbed.transact(&[0, 1], Durability::Immediate, |tx| {
                    adds(seed).iter().try_for_each(|change| add(tx, change))?;
                    if commits { Ok(()) } else { Err(Error::NoMoreIds) }
                });
                match done {
                    Err(Error::NoMoreIds) if !commits => Ok(()),
                    done => done,
                }
            }
            Step::Index { is_there } => {
                let has = testbed.catalog().table("t")?.index(INDEX).is_ok();
                match (has, is_there) {
                    (false, true) => testbed.create_index("t", INDEX, &["amount"], false),
                    (true, false) => testbed.drop_index("t", INDEX),
                    _ => Ok(()),
                }
            }
            Step::Truncate => testbed.truncate_table("t"),
            Step::Reclaim => testbed.reclaim().map(drop),
        }
    }

    fn world(&self) -> Result<World> {
        let mut world = World::new();
        let all: Vec<_> = (0..PARTITIONS).collect();
        self.testbed.transact(&all, Durability::Immediate, |tx| {
            for &partition in &all {
                let table = tx.table(partition, "t")?;
                let visit = |_: &[u8], row: halite_table::RowRef<'_>| {
                    let (key, amount) = (row.int(0)? as i32, row.int(1)? as i32);
                    world.insert(name(partition, key), Digest::of(&amount.to_le_bytes()));
                    Ok(ControlFlow::Continue(()))
                };
                let range = KeyRange::all();
                tx.scan(partition, (&table, None), &range, Direction::Forward, visit)?;
                if table.index(INDEX).is_ok() {
                    world.insert(format!("{INDEX} of {partition}").into(), Digest::of(&[]));
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(world)
    }
}

/// The subject: two partitions under a method that has no files.
pub(crate) struct Partitions(pub(crate) Kind);

fn refusal(error: &Error) -> Refusal {
    match error {
        Error::Heap(error) => match &**error {
            SpaceError::UnsafeShutdown { .. } => Refusal::UnsafeShutdown,
            SpaceError::Damaged { .. }
            | SpaceError::Foreign { .. }
            | SpaceError::NotObjects { .. }
            | SpaceError::FutureVersion { .. } => Refusal::Named(error.to_string()),
            _ => Refusal::Failed(error.to_string()),
        },
        Error::Damaged { .. } => Refusal::Named(error.to_string()),
        _ => Refusal::Failed(error.to_string()),
    }
}

impl Subject for Partitions {
    type Step = Step;
    type Open = Open;

    fn name(&self) -> &str {
        "table:partitions"
    }

    fn capacity(&self) -> u64 {
        64 << 20
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..14 => Action::Kill,
            14..20 => Action::KillWithin(None, random.below(20) as u32),
            20..40 => Action::KillWithin(Some(draw(random)), random.below(60) as u32),
            _ => Action::Step(draw(random)),
        };
        (0..1 + random.below(8)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Step> {
        (0..random.below(3)).map(|_| draw(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Open, Refusal> {
        let open = || {
            let mut options = EngineOptions::new("pool");
            options.pool_options.size_max = self.capacity();
            options.pool_options.medium = Some(medium.clone());
            options.partitioning = Some(Partitioning::Hash(PARTITIONS));
            let nvm_inp = nvm_inp::Options { node_len: 256, ..nvm_inp::Options::default() };
            options.own = OwnOptions::of(TableOptions { nvm_inp, ..TableOptions::default() });
            let testbed = Testbed::open(Some(self.0), &options)?;
            if testbed.catalog().table("t").is_err() {
                testbed.create_table(&schema())?;
            }
            Ok(Open { testbed, has_failed: false })
        };
        open().map_err(|error| refusal(&error))
    }

    fn apply(&self, open: &mut Open, step: &Step) -> Result<(), String> {
        let done = open.apply(step);
        open.has_failed |= done.is_err();
        done.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        match step {
            Step::Transaction { commits: false, .. } | Step::Reclaim => {}
            Step::Transaction { seed, .. } => {
                for Add { partition, key, amount } in adds(*seed) {
                    let name = name(partition, key);
                    // A digest tells an amount among the few that there can be.
                    let of = |amount: i32| Digest::of(&amount.to_le_bytes());
                    let before = world.get(&name).map_or(0, |digest| {
                        (-500..500).find(|&amount| of(amount) == *digest).expect("it is small")
                    });
                    match before + amount {
                        0 => drop(world.remove(&name)),
                        now => drop(world.insert(name, of(now))),
                    }
                }
            }
            Step::Index { is_there } => {
                for partition in 0..PARTITIONS {
                    let name = format!("{INDEX} of {partition}").into_bytes();
                    match is_there {
                        true => drop(world.insert(name, Digest::of(&[]))),
                        false => drop(world.remove(&name)),
                    }
                }
            }
            Step::Truncate => world.retain(|name, _| name.starts_with(INDEX.as_bytes())),
        }
        true
    }

    fn world(&self, open: &mut Open) -> Result<World, Refusal> {
        if open.has_failed {
            return Err(Refusal::Failed("a step failed: open it again".to_owned()));
        }
        open.world().map_err(|error| refusal(&error))
    }

    fn look_up(&self, open: &mut Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        self.world(open).map(|mut world| world.remove(name))
    }

    fn verify(&self, open: &mut Open) -> Result<(), Refusal> {
        open.testbed.verify().map(drop).map_err(|error| refusal(&error))
    }
}
