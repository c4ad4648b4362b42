//! TPC-C under each recovery method, in a process that is killed again and again.
//!
//! ```text
//!  parent                                       child: opens the store, two threads run TPC-C, each commit durable
//!    start ──────────────────────────────────►    "open", then "WAREHOUSE DISTRICT ORDER" for each New-Order that returned
//!    kill -9 after 5 to 150 ms behind "open"
//!    now and then: start, kill -9 after 0 to 20 ms, which is while the store recovers
//!    open the store, check all, run some transactions; next round
//! ```
//!
//! The child also checkpoints, reclaims, and creates and drops a table, and its logs and memtables are small, so that kills
//! fall into all of these. `HALITE_KILLS` is the number of rounds of each method, `HALITE_KILLS_FOLDER` the place of the stores
//! in place of `/dev/shm`. Names of methods as arguments leave out the others. A store that is wrong is kept.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio, exit};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io, panic, thread};

use fastrand::Rng;
use halite_contract::{Durability, EngineOptions, Partitioning};
use halite_table::{Kind, Row, TableOptions, TableSchema, Testbed, Timestamp, Type, values};
use halite_workload::store::{Homes, Outcome, Store, TestbedStore};
use halite_workload::tpcc::inputs::Inputs;
use halite_workload::tpcc::mix::{self, Choice, Chooser, Mix};
use halite_workload::tpcc::procedures::{count_low_stock, deliver, order, pay, status};
use halite_workload::tpcc::random::Constants;
use halite_workload::tpcc::schema::{ORDER, schemas};
use halite_workload::tpcc::{End, Loaded, RunOptions, Scale, check, load, run};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Warehouses, and partitions.
const WAREHOUSES: u32 = 2;

/// Threads of a child, each of which may have one order that is not acknowledged.
const THREADS: u32 = 2;

/// Rounds that a store lives, so that checking it stays short.
const ROUNDS_OF_A_STORE: u64 = 20;

/// The table that children create and drop.
const SCRATCH: &str = "SCRATCH";

const SIGKILL: i32 = 9;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).filter(|text| !text.starts_with('-')).collect();
    if env::args().nth(1).as_deref() == Some("--child") {
        child(arguments[0].parse().unwrap(), arguments[1].as_ref(), arguments[2].parse().unwrap());
    }
    let rounds = env::var("HALITE_KILLS").map_or(4, |rounds| rounds.parse().unwrap());
    let place = env::var("HALITE_KILLS_FOLDER").map_or_else(|_| default_place(), Into::into);
    for &kind in Kind::ALL {
        if !arguments.is_empty() && arguments.iter().all(|name| name != kind.name()) {
            continue;
        }
        let mut counts = Counts::default();
        while counts.rounds < rounds {
            let folder = tempfile::tempdir_in(&place).unwrap().keep();
            let until = rounds.min(counts.rounds + ROUNDS_OF_A_STORE);
            if let Err(error) = live(kind, &folder, until, &mut counts) {
                println!("kills of {kind}: {counts:?}, then: {error}; {}", folder.display());
                return ExitCode::FAILURE;
            }
            fs::remove_dir_all(folder).unwrap();
        }
        println!("kills of {kind}: {counts:?}, violations: 0");
    }
    ExitCode::SUCCESS
}

fn default_place() -> std::path::PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { env::temp_dir() }
}

#[derive(Debug, Default)]
struct Counts {
    rounds: u64,
    kills: u64,
    kills_within_opening: u64,
    acknowledged: u64,
}

/// A store with memtables, logs and checkpoints so small that they are filled and written often.
fn open(kind: Kind, folder: &Path) -> Result<TestbedStore> {
    let mut options = EngineOptions::new(folder.join("pool"));
    options.pool_options.size_max = 512 << 20;
    options.partitioning = Some(Partitioning::Hash(WAREHOUSES as usize));
    let own: &mut TableOptions = options.own.get_mut();
    (own.inp.log_file_bytes, own.inp.checkpoint_bytes) = (64 << 10, 256 << 10);
    (own.log.memtable_bytes, own.log.table_bytes) = (64 << 10, 64 << 10);
    own.log.log.file_bytes = 64 << 10;
    own.nvm_log.memtable_bytes = 64 << 10;
    let testbed = Arc::new(Testbed::open(Some(kind), &options)?);
    Ok(TestbedStore::create(testbed, schemas(), Durability::Immediate)?)
}

/// The life of a store until there were so many rounds.
fn live(kind: Kind, folder: &Path, until: u64, counts: &mut Counts) -> Result<()> {
    let store = open(kind, folder)?;
    load(&store, Scale::tiny(WAREHOUSES), counts.rounds, 1, &|_, _| true)?;
    let mut before = orders(&store)?;
    drop(store);
    let mut random = Rng::with_seed(counts.rounds);
    let mut all = Vec::new();
    while counts.rounds < until {
        let seed = 2 * counts.rounds;
        let time = Duration::from_micros(random.u64(5_000..150_000));
        let mut acknowledged = killed(kind, folder, seed, Moment::Running(time), counts)?;
        let mut begun = THREADS;
        if random.bool() {
            // Opening takes a few milliseconds.
            let max = if random.bool() { 4_000 } else { 20_000 };
            let time = Duration::from_micros(random.u64(..max));
            acknowledged.extend(killed(kind, folder, seed + 1, Moment::Started(time), counts)?);
            begun += THREADS;
        }
        let store = open(kind, folder)?;
        store.testbed().verify()?;
        let found = orders(&store)?;
        expect_all(&store, &acknowledged)?;
        let least = before + acknowledged.len() as u64;
        if !(least..=least + u64::from(begun)).contains(&found) {
            return Err(format!("{found} orders, of at least {least} and {begun} more").into());
        }
        let end = End::Transactions(40);
        let options = RunOptions { threads: THREADS, end, seed, ..RunOptions::default() };
        run(&store, &options, &|_| true)?;
        before = orders(&store)?;
        counts.rounds += 1;
        counts.acknowledged += acknowledged.len() as u64;
        all.extend(acknowledged);
    }
    expect_all(&open(kind, folder)?, &all)
}

/// Checks the twelve conditions. Returns the number of orders.
fn orders(store: &TestbedStore) -> Result<u64> {
    let report = check(store, &mut |_, _| true)?.expect("the check is not broken off");
    match report.violations.first() {
        Some(violation) => Err(violation.to_string().into()),
        None => Ok(report.orders),
    }
}

fn expect_all(store: &TestbedStore, acknowledged: &[[u32; 3]]) -> Result<()> {
    for &[warehouse, district, order] in acknowledged {
        let mut is_there = false;
        store.run(Homes::Of(&[warehouse]), &mut |tx| {
            is_there = tx.get(ORDER, &values![warehouse, district, order], &mut |_| Ok(()))?;
            Ok(Outcome::Commit)
        })?;
        if !is_there {
            return Err(format!("order {order} of {warehouse}, {district} is lost").into());
        }
    }
    Ok(())
}

/// When a child is killed.
enum Moment {
    /// So long after it has opened the store.
    Running(Duration),
    /// So long after it was started.
    Started(Duration),
}

/// Starts a child and kills it. Returns the orders that it acknowledged.
fn killed(
    kind: Kind,
    folder: &Path,
    seed: u64,
    moment: Moment,
    counts: &mut Counts,
) -> Result<Vec<[u32; 3]>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--child", kind.name()]).arg(folder).arg(seed.to_string());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut first = None;
    thread::sleep(match moment {
        Moment::Running(time) => {
            first = lines.next().transpose()?;
            time
        }
        Moment::Started(time) => time,
    });
    child.kill()?;
    let status = child.wait()?;
    if status.signal() != Some(SIGKILL) {
        return Err(format!("the child ended by itself: {status}").into());
    }
    if first.is_none() {
        first = lines.next().transpose()?;
    }
    counts.kills += 1;
    counts.kills_within_opening += u64::from(first.is_none());
    let order = |line: io::Result<String>| {
        let numbers =
            line?.split(' ').map(|text| Ok(text.parse()?)).collect::<Result<Vec<u32>>>()?;
        Ok(numbers.try_into().map_err(|_| "a line has three numbers")?)
    };
    lines.map(order).collect()
}

/// Runs TPC-C until it is killed. An error ends the process.
fn child(kind: Kind, folder: &Path, seed: u64) -> ! {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        exit(1);
    }));
    let store = open(kind, folder).unwrap();
    announce("open\n");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || terminal(store, thread, seed).unwrap());
        }
    });
    unreachable!("terminals do not end")
}

/// Writes a line with one call, so that a kill leaves the whole of it or nothing.
fn announce(line: &str) {
    io::stdout().write_all(line.as_bytes()).unwrap();
}

fn terminal(store: &TestbedStore, thread: u32, seed: u64) -> Result<()> {
    let Loaded { scale, last_constant } = Loaded::open(store)?;
    let mut random = Rng::with_seed(seed << 8 | u64::from(thread));
    let inputs = Inputs::new(scale, Constants::for_run(&mut random, last_constant));
    let mut chooser = Chooser::new(Mix::default(), Choice::Weighted);
    for now in (0..).map(Timestamp) {
        match random.u32(..100) {
            0 => store.testbed().checkpoint()?,
            1 if thread == 0 => change_tables(store.testbed())?,
            2 => drop(store.testbed().reclaim()?),
            _ => {}
        }
        let warehouse = random.u32(1..=scale.warehouses);
        let home = [warehouse];
        match chooser.next(&mut random) {
            mix::Kind::NewOrder => {
                let input = inputs.new_order(&mut random, warehouse);
                let mut ordered = None;
                store.run(Homes::Of(&input.warehouses()), &mut |tx| {
                    ordered = order(tx, &input, now)?;
                    Ok(if ordered.is_some() { Outcome::Commit } else { Outcome::Rollback })
                })?;
                if let Some(ordered) = ordered {
                    announce(&format!("{warehouse} {} {}\n", input.district, ordered.order));
                }
            }
            mix::Kind::Payment => {
                let input = inputs.payment(&mut random, warehouse);
                store.run(Homes::Of(&input.warehouses()), &mut |tx| {
                    pay(tx, &input, now).map(|_| Outcome::Commit)
                })?;
            }
            mix::Kind::OrderStatus => {
                let input = inputs.order_status(&mut random, warehouse);
                store
                    .run(Homes::Of(&home), &mut |tx| status(tx, &input).map(|_| Outcome::Commit))?;
            }
            mix::Kind::Delivery => {
                let input = inputs.delivery(&mut random, warehouse);
                store.run(Homes::Of(&home), &mut |tx| {
                    deliver(tx, &input, scale.districts, now).map(|_| Outcome::Commit)
                })?;
            }
            mix::Kind::StockLevel => {
                let input = inputs.stock_level(&mut random, warehouse, 1);
                store.run(Homes::Of(&home), &mut |tx| {
                    count_low_stock(tx, &input).map(|_| Outcome::Commit)
                })?;
            }
        }
    }
    Ok(())
}

/// Drops the table for trials if it is there, and creates it with some rows otherwise.
fn change_tables(testbed: &Testbed) -> Result<()> {
    if testbed.catalog().table(SCRATCH).is_ok() {
        return Ok(testbed.drop_table(SCRATCH)?);
    }
    let schema =
        TableSchema::builder(SCRATCH).column("ID", Type::UInt32).primary_key(["ID"]).build()?;
    testbed.create_table(&schema)?;
    testbed.transact(&[0, 1], Durability::Immediate, |tx| {
        for (partition, id) in (0..40_u32).map(|id| (id as usize % 2, id)) {
            let table = tx.table(partition, SCRATCH)?;
            tx.insert(partition, &table, &Row::from_values(&schema, &values![id])?)?;
        }
        Ok::<_, halite_table::Error>(())
    })?;
    Ok(())
}
