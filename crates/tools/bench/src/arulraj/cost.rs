//! The bytes that an operation writes to memory, to the log and to the table, beside the source's cost model
//! ([`cost_model`](super::cost_model)).
//!
//! Tuples have a key, a number of 8 bytes and two columns of 600. A table is filled with them; then operations follow, each a
//! transaction, in groups that become durable together, on tuples in random order, of which none comes twice. An update
//! changes the number and one long column. The meter is the bytes that are stored to the pool and written to files, split
//! among the parts of a transaction ([`halite_table::component`]), in a program that has them built in:
//!
//! | | memory | log | table |
//! |---|---|---|---|
//! | nvm-inp, nvm-log | storage | recovery | index |
//! | nvm-cow | storage | | index; recovery: copied nodes, the directory |
//! | inp, log | not counted | recovery | storage, index |
//! | cow | not counted | | all |
//!
//! Nobody counts memory that does not persist. The states of the heap's slots, 8 bytes a change, are of the part that changes
//! them. All is alike in a quick run. Of `inp`, `table` is a checkpoint behind the operations. Of `log`, theta is what insertions show.

use std::cell::Cell;

use halite::Durability;
use halite_pmem::Profile;
use halite_table::component::{Component, Split, measure};
use halite_table::method::{inp, log_structured};
use halite_table::{Change, Kind, TableOptions, TableSchema, Testbed, Type, ValueRef, values};
use halite_workload::store::{Homes, Outcome, Transaction};
use serde_json::json;

use super::cost_model::{Bytes, Operation, Place, Quantities, formula};
use super::setting::Setting;
use super::stores::{Opened, Shape, Subject, of_table};
use super::ycsb::failed;
use crate::scratch::Home;
use crate::{Contender, Error, Result, Run, Sample};

pub(super) const NAME: &str = "arulraj.cost";

/// Bytes of a long column.
const LONG: usize = 600;

/// Bytes of a tuple: the fixed part, with a cell for each long column, and these.
const TUPLE: usize = 4 * 8 + 2 * LONG;

/// Operations that become durable together.
const GROUP: u64 = 256;

/// The medium: counted, and as fast as it can be.
const COUNTED: &str = "read=1,persist=1";

/// A number without a factor in common with a power of two.
const STEP: u64 = 0x9e37_79b1;

fn schema() -> TableSchema {
    let long = Type::Bytes(LONG as u32);
    let table = TableSchema::builder("T").column("ID", Type::UInt64).column("NUMBER", Type::UInt64);
    let table = table.column("ONE", long).column("OTHER", long).primary_key(["ID"]);
    table.build().expect("the schema is right")
}

/// Tuples that are loaded: a power of two.
const TUPLES: u64 = 1 << 14;

/// Operations of each kind, behind a group that is not measured.
const OPERATIONS: u64 = 1 << 11;

pub(super) fn plan(setting: &Setting<'_>, _: &Run<'_>) -> u64 {
    (Operation::ALL.len() * setting.methods().len()) as u64
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let repeats = run.options.repeats;
    // Bytes do not vary as time does.
    run.options.repeats = 1;
    let outcome = once(setting, run);
    run.options.repeats = repeats;
    outcome
}

/// A method with its table.
struct Costed {
    kind: Kind,
    opened: Opened,
    node: f64,
    theta: Cell<f64>,
    _home: Home,
}

fn once(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let schemas = [schema()];
    let mut stores = Vec::new();
    for kind in setting.methods() {
        run.step(&format!("{NAME} load {}", kind.name()))?;
        stores.push(Costed::load(kind, setting, &schemas, run)?);
    }
    for operation in Operation::ALL {
        let params = [
            ("operation", json!(operation.name())),
            ("tuples", json!(TUPLES)),
            ("operations", json!(OPERATIONS)),
            ("group", json!(GROUP)),
        ];
        let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let contenders = stores.iter().map(|costed| {
            let measure = move || Ok(samples(&costed.cells(operation)?));
            Contender::new(costed.kind.name(), measure)
        });
        let mut contenders: Vec<_> = contenders.collect();
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

/// The bytes of an operation in a place, by the formula and measured.
#[derive(Debug, Clone, Copy)]
struct Measured {
    place: Place,
    formula: Bytes,
    bytes: f64,
}

fn samples(cells: &[Measured]) -> Vec<Sample> {
    let of = |cell: &Measured| {
        let (name, formula) = (cell.place.name(), cell.formula.value());
        let mut samples = vec![
            Sample::new(name, "B/op", cell.bytes),
            Sample::new(format!("{name}-formula"), "B/op", formula),
        ];
        if formula > 0.0 {
            samples.push(Sample::new(format!("{name}-ratio"), "B/B", cell.bytes / formula));
        }
        samples.push(Sample::new(
            format!("{name}-holds"),
            "bool",
            f64::from(u8::from(cell.formula.holds(cell.bytes))),
        ));
        samples
    };
    cells.iter().flat_map(of).collect()
}

impl Costed {
    fn load(
        kind: Kind,
        setting: &Setting<'_>,
        schemas: &[TableSchema],
        run: &Run<'_>,
    ) -> Result<Self> {
        let profile: Profile = COUNTED.parse().expect("it is one");
        let own = TableOptions {
            // A checkpoint is taken when it is asked for.
            inp: inp::Options { checkpoint_bytes: 1 << 40, ..inp::Options::default() },
            // So small that there are flushes and compactions.
            log: log_structured::Options {
                memtable_bytes: 128 << 10,
                table_bytes: 128 << 10,
                ..log_structured::Options::default()
            },
            ..TableOptions::default()
        };
        let node = match kind.name() {
            "cow" => own.cow.page_len,
            "nvm-cow" => own.nvm_cow.node_len,
            _ => 0,
        };
        let shape = Shape {
            schemas,
            partitions: 1,
            durability: Durability::Deferred,
            profile: Some(profile),
            own,
            built: setting.built,
        };
        let home = Home::new(&run.options.folder)?;
        let opened = Subject::Method(kind).open(home.path(), &shape)?;
        let (node, theta) = (node as f64, Cell::new(f64::NAN));
        let costed = Self { kind, opened, node, theta, _home: home };
        // Even keys, in an order of their own.
        for begin in (0..TUPLES).step_by(GROUP as usize) {
            costed.transact(|tx| {
                (begin..begin + GROUP).try_for_each(|at| insert(tx, 2 * scattered(at)))
            })?;
            costed.sync()?;
        }
        Ok(costed)
    }

    fn testbed(&self) -> &Testbed {
        self.opened.testbed.as_ref().expect("a method is a testbed")
    }

    fn sync(&self) -> Result<()> {
        self.testbed().sync().map_err(|error| of_table(self.kind.name(), "sync", error))
    }

    fn transact(
        &self,
        mut body: impl FnMut(&mut dyn Transaction) -> halite_workload::Result<()> + Send,
    ) -> Result<()> {
        let ran = self.opened.store.run(Homes::Of(&[1]), &mut |tx| {
            body(tx)?;
            Ok(Outcome::Commit)
        });
        ran.map(drop).map_err(failed(self.kind.name(), "run a transaction"))
    }

    /// The cells of an operation that are counted: first a group to get into a steady state, and then so many.
    fn cells(&self, operation: Operation) -> Result<Vec<Measured>> {
        let run = |from: u64, to: u64| {
            for at in from..to {
                self.operate(operation, at)?;
                if (at + 1).is_multiple_of(GROUP) {
                    self.sync()?;
                }
            }
            self.sync()
        };
        run(0, GROUP)?;
        let (done, split) = self.split(|| run(GROUP, OPERATIONS + GROUP));
        done?;
        let mut bytes = self.places(&split);
        if self.kind == Kind::InP {
            let (done, split) = self.split(|| self.testbed().checkpoint());
            done.map_err(|error| of_table("inp", "take a checkpoint", error))?;
            bytes[Place::Table as usize] = Some(split.total());
        }
        let each =
            |place: Place| bytes[place as usize].map(|bytes| bytes as f64 / OPERATIONS as f64);
        if operation == Operation::Insert
            && let Some(table) = each(Place::Table)
        {
            self.theta.set(table / TUPLE as f64);
        }
        let quantities = Quantities {
            tuple: TUPLE as f64,
            changed: (8 + LONG) as f64,
            fixed: 8.0,
            node: self.node,
            theta: self.theta.get(),
        };
        let cells = Place::ALL.into_iter().filter_map(|place| {
            let formula = formula(self.kind, operation, place, &quantities)?;
            Some(Measured { place, formula, bytes: each(place)? })
        });
        Ok(cells.collect())
    }

    /// Splits the bytes that something writes.
    fn split<T>(&self, body: impl FnOnce() -> T) -> (T, Split) {
        let testbed = self.opened.testbed.clone().expect("a method is a testbed");
        let meter = move || {
            let pool = testbed.pool().medium_traffic().unwrap_or_default().bytes_stored;
            pool + testbed.file_traffic().bytes_written
        };
        measure(meter, body)
    }

    /// The bytes of memory, log and table, as far as they are counted.
    fn places(&self, split: &Split) -> [Option<u64>; 3] {
        let of = |part| Some(split.of(part));
        let all = Some(split.total());
        let rest = Some(split.total() - split.of(Component::Recovery));
        let table = Some(split.of(Component::Index) + split.of(Component::Recovery));
        match self.kind {
            Kind::InP | Kind::Log => [None, of(Component::Recovery), rest],
            Kind::Cow => [None, Some(0), all],
            Kind::NvmCow => [of(Component::Storage), Some(0), table],
            _ => [of(Component::Storage), of(Component::Recovery), of(Component::Index)],
        }
    }

    /// Does something to a tuple: insertions have odd keys, updates and deletions are of different tuples.
    fn operate(&self, operation: Operation, at: u64) -> Result<()> {
        let mut is_there = true;
        self.transact(|tx| {
            match operation {
                Operation::Insert => insert(tx, 2 * scattered(at) + 1)?,
                Operation::Update => {
                    let key = values![2 * scattered(at)];
                    let column = long(at + TUPLES);
                    let changes = [Change::new(1, at + TUPLES), Change::new(2, &column[..])];
                    is_there = tx.update(0, &key, &changes)?;
                }
                Operation::Delete => {
                    let key = values![2 * scattered(2 * (OPERATIONS + GROUP) + at)];
                    is_there = tx.delete(0, &key)?;
                }
            }
            Ok(())
        })?;
        match is_there {
            true => Ok(()),
            false => {
                let (store, why) = (self.kind.name().to_owned(), "a tuple is missing".to_owned());
                Err(Error::WrongAnswer { store, why })
            }
        }
    }
}

/// The image of a number in a permutation of those below [`TUPLES`].
fn scattered(at: u64) -> u64 {
    at.wrapping_mul(STEP) % TUPLES
}

fn long(seed: u64) -> [u8; LONG] {
    let mut random = fastrand::Rng::with_seed(seed);
    std::array::from_fn(|_| random.u8(..))
}

fn insert(tx: &mut dyn Transaction, key: u64) -> halite_workload::Result<()> {
    let (one, other) = (long(key), long(!key));
    tx.insert(0, &[key.into(), key.into(), ValueRef::from(&one[..]), ValueRef::from(&other[..])])
}
