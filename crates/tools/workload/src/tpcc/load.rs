//! Loading a database, and knowing whether it is whole.
//!
//! TPCC_LOAD has a row for each warehouse whose load began: the size that was asked for, and the number of batches that
//! are there. A batch and the number that counts it are one transaction, so that a load that was broken off, by a crash
//! too, goes on where it was; a database of another size is refused.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use halite_table::{Change, Timestamp, values};

use super::population::{Batch, Population, batches};
use super::random::Constants;
use super::rows::{change, find, number};
use super::scale::Scale;
use super::schema::{LOAD, load as columns};
use crate::store::{Homes, Outcome, Store};
use crate::{Error, Result};

/// A database that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded {
    /// Its size.
    pub scale: Scale,
    /// The constant of NURand for C_LAST that the load used.
    pub last_constant: u64,
}

/// A warehouse's row of TPCC_LOAD.
#[derive(Debug, Clone, Copy)]
struct LoadRow {
    scale: Scale,
    last: u64,
    seed: u64,
    done: u32,
}

/// How a load goes on: takes the batches that are done and all, and says whether to go on.
pub type LoadProgress<'a> = &'a (dyn Fn(u64, u64) -> bool + Sync);

/// Now, in microseconds.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

fn read_row(store: &dyn Store, warehouse: u32) -> Result<Option<LoadRow>> {
    let mut row = None;
    store.run(Homes::Of(&[warehouse]), &mut |tx| {
        row = find(tx, LOAD, &values![warehouse], |row| {
            let scale = Scale {
                warehouses: number(&row, columns::L_WAREHOUSES)?,
                districts: number(&row, columns::L_DISTRICTS)?,
                customers: number(&row, columns::L_CUSTOMERS)?,
                items: number(&row, columns::L_ITEMS)?,
            };
            let (last, seed) = (row.uint(columns::L_C_LAST_CONSTANT)?, row.uint(columns::L_SEED)?);
            Ok(LoadRow { scale, last, seed, done: number(&row, columns::L_DONE)? })
        })?;
        Ok(Outcome::Commit)
    })?;
    Ok(row)
}

impl LoadRow {
    fn refuse_other(&self, wanted: &Scale) -> Result<()> {
        let found = &self.scale;
        let pairs = [
            ("warehouses", found.warehouses, wanted.warehouses),
            ("districts a warehouse", found.districts, wanted.districts),
            ("customers a district", found.customers, wanted.customers),
            ("items", found.items, wanted.items),
        ];
        match pairs.into_iter().find(|(_, found, wanted)| found != wanted) {
            Some((what, found, wanted)) => {
                Err(Error::OtherScale { what, found: found.into(), wanted: wanted.into() })
            }
            None => Ok(()),
        }
    }
}

impl Loaded {
    /// The database in a store.
    ///
    /// # Errors
    /// [`Error::NotLoaded`], [`Error::HalfLoaded`]; those of the store.
    pub fn open(store: &dyn Store) -> Result<Self> {
        let first = read_row(store, 1)?.ok_or(Error::NotLoaded)?;
        first.scale.check()?;
        for warehouse in 1..=first.scale.warehouses {
            let done = read_row(store, warehouse)?.map_or(0, |row| row.done.into());
            let batches = batches(&first.scale, warehouse).len() as u64;
            if done < batches {
                return Err(Error::HalfLoaded { warehouse, done, batches });
            }
        }
        Ok(Self { scale: first.scale, last_constant: first.last })
    }

    /// Refuses a database that has not so many warehouses.
    ///
    /// # Errors
    /// [`Error::OtherScale`].
    pub fn expect_warehouses(&self, wanted: u32) -> Result<()> {
        let found = self.scale.warehouses;
        match found == wanted {
            true => Ok(()),
            false => {
                let (found, wanted) = (found.into(), wanted.into());
                Err(Error::OtherScale { what: "warehouses", found, wanted })
            }
        }
    }
}

/// Loads a database, or the rest of one whose load was broken off. Returns whether the database is whole: `progress`
/// can break the load off.
///
/// `seed` decides the rows; a load that goes on takes the first one's.
///
/// # Errors
/// [`Error::Scale`], [`Error::Zero`], [`Error::OtherScale`]; those of the store.
pub fn load(
    store: &dyn Store,
    scale: Scale,
    seed: u64,
    threads: u32,
    progress: LoadProgress<'_>,
) -> Result<bool> {
    scale.check()?;
    if threads == 0 {
        return Err(Error::Zero { what: "the number of threads" });
    }
    let (mut last, mut seed) = (Constants::for_load(&mut Rng::with_seed(seed)).last, seed);
    if let Some(begun) = read_row(store, 1)? {
        begun.refuse_other(&scale)?;
        (last, seed) = (begun.last, begun.seed);
    }
    let population = Population { scale, seed, last, now: now() };
    begin(store, &population, 1)?;
    let all = (1..=scale.warehouses).map(|w| batches(&scale, w).len() as u64).sum();
    let loader = Loader {
        store,
        population,
        progress,
        all,
        done: AtomicU64::new(0),
        goes_on: AtomicBool::new(true),
    };
    thread::scope(|scope| {
        let threads = threads.min(scale.warehouses);
        let load = |thread: u32| {
            let loader = &loader;
            scope.spawn(move || {
                (thread..=scale.warehouses)
                    .step_by(threads as usize)
                    .try_for_each(|warehouse| loader.load(warehouse))
                    .inspect_err(|_| loader.goes_on.store(false, Ordering::Relaxed))
            })
        };
        let threads: Vec<_> = (1..=threads).map(load).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| Error::Panicked)?)
    })?;
    Ok(loader.done.into_inner() == all)
}

/// Writes the row of a warehouse's load, if there is none; the batches that are done.
fn begin(store: &dyn Store, population: &Population, warehouse: u32) -> Result<u32> {
    if let Some(begun) = read_row(store, warehouse)? {
        begun.refuse_other(&population.scale)?;
        return Ok(begun.done);
    }
    let Population { scale, seed, last, .. } = *population;
    store.run(Homes::Of(&[warehouse]), &mut |tx| {
        let Scale { warehouses, districts, customers, items } = scale;
        let row = values![warehouse, warehouses, districts, customers, items, last, seed, 0];
        tx.insert(LOAD, &row)?;
        Ok(Outcome::Commit)
    })?;
    Ok(0)
}

struct Loader<'a> {
    store: &'a dyn Store,
    population: Population,
    progress: LoadProgress<'a>,
    all: u64,
    done: AtomicU64,
    goes_on: AtomicBool,
}

impl Loader<'_> {
    fn load(&self, warehouse: u32) -> Result<()> {
        let done = begin(self.store, &self.population, warehouse)?;
        let batches = batches(&self.population.scale, warehouse);
        self.done.fetch_add(done.into(), Ordering::Relaxed);
        for (number, batch) in (0..).zip(batches).skip(done as usize) {
            if !self.goes_on.load(Ordering::Relaxed) {
                break;
            }
            self.insert(warehouse, number, batch)?;
            let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
            if !(self.progress)(done, self.all) {
                self.goes_on.store(false, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn insert(&self, warehouse: u32, number: u32, batch: Batch) -> Result<()> {
        let is_everywhere = matches!(batch, Batch::Items { .. });
        if is_everywhere {
            self.store.run(Homes::Everywhere, &mut |tx| {
                self.population.insert(tx, warehouse, number, batch)?;
                Ok(Outcome::Commit)
            })?;
        }
        self.store.run(Homes::Of(&[warehouse]), &mut |tx| {
            if !is_everywhere {
                self.population.insert(tx, warehouse, number, batch)?;
            }
            let counted = [Change::new(columns::L_DONE, number + 1)];
            change(tx, LOAD, &values![warehouse], &counted)?;
            Ok(Outcome::Commit)
        })?;
        Ok(())
    }
}
