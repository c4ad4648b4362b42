//! The YCSB of the source (Arulraj): one table of a key and ten columns of 100 bytes, met unevenly.
//!
//! A transaction reads, or updates, one tuple or a few. A tuple's home is its number modulo the number of homes, plus
//! one, and all tuples of a transaction have one home. The source has 2,000,000 tuples and 8,000,000 transactions.

use std::sync::LazyLock;

use fastrand::Rng;
use halite_table::{Change, TableSchema, Type, ValueRef, values};

use crate::store::{Homes, Outcome, Store, Transaction};
use crate::{Error, Result};

mod permutation;
mod skew;

pub use skew::{Skew, TupleChooser};

/// Tuples that are loaded in one transaction. The source has 50,000, of which no undo log of pointers has room here.
pub const LOAD_BATCH: u64 = 500;

/// Columns behind the key, and the bytes of each.
const COLUMNS: usize = 10;
const COLUMN_LEN: usize = 100;

/// The number of the table in [`schemas`].
const TUPLES: usize = 0;

static SCHEMAS: LazyLock<Vec<TableSchema>> = LazyLock::new(|| {
    let table = TableSchema::builder("USERTABLE").column("YCSB_KEY", Type::UInt64);
    let columns = (0..COLUMNS).fold(table, |table, at| {
        table.column(&format!("FIELD{at}"), Type::Bytes(COLUMN_LEN as u32))
    });
    vec![columns.primary_key(["YCSB_KEY"]).build().expect("the schema is right")]
});

/// The schema of the table.
#[must_use]
pub fn schemas() -> &'static [TableSchema] {
    &SCHEMAS
}

/// The share of transactions that read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// All.
    ReadOnly,
    /// 90 %.
    ReadHeavy,
    /// 50 %.
    Balanced,
    /// 10 %.
    WriteHeavy,
}

impl Mix {
    /// All, in the order of the source's figures.
    pub const ALL: [Self; 4] = [Self::ReadOnly, Self::ReadHeavy, Self::Balanced, Self::WriteHeavy];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["read-only", "read-heavy", "balanced", "write-heavy"][self as usize]
    }

    /// The share of reads, in percent.
    #[must_use]
    pub fn read_percent(self) -> u32 {
        [100, 90, 50, 10][self as usize]
    }
}

/// A workload of the source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Tuples of the table.
    pub tuples: u64,
    /// The share of transactions that read.
    pub mix: Mix,
    /// How unevenly tuples are met.
    pub skew: Skew,
    /// Whether an update changes one column of a tuple, not all ten.
    pub updates_one: bool,
    /// Tuples a transaction: 1, or 20 in the source's runs of recovery.
    pub tuples_a_transaction: u32,
    /// Homes that the tuples are spread over, such as partitions.
    pub homes: u32,
    /// The seed of the hot tuples.
    pub seed: u64,
}

impl Default for Workload {
    /// That of the source, balanced, with the low skew and one home.
    fn default() -> Self {
        Self {
            tuples: 2_000_000,
            mix: Mix::Balanced,
            skew: Skew::LOW,
            updates_one: false,
            tuples_a_transaction: 1,
            homes: 1,
            seed: 1,
        }
    }
}

/// The bytes of a column.
fn field(random: &mut Rng) -> [u8; COLUMN_LEN] {
    std::array::from_fn(|_| random.u8(b' '..=b'~'))
}

/// The home of a tuple.
fn home(tuple: u64, homes: u32) -> u32 {
    (tuple % u64::from(homes)) as u32 + 1
}

/// Loads the tuples, home by home, each batch in one transaction; `progress` takes the tuples that are there.
///
/// # Errors
/// [`Error::Zero`]; those of the store.
pub fn load(store: &dyn Store, workload: &Workload, mut progress: impl FnMut(u64)) -> Result<()> {
    if workload.homes == 0 {
        return Err(Error::Zero { what: "the number of homes" });
    }
    let (tuples, homes) = (workload.tuples, u64::from(workload.homes));
    let mut done = 0;
    for first in 0..homes.min(tuples) {
        let of_home = (tuples - first).div_ceil(homes);
        for begin in (0..of_home).step_by(LOAD_BATCH as usize) {
            let end = (begin + LOAD_BATCH).min(of_home);
            store.run(Homes::Of(&[home(first, workload.homes)]), &mut |tx| {
                for at in begin..end {
                    insert(tx, at * homes + first)?;
                }
                Ok(Outcome::Commit)
            })?;
            done += end - begin;
            progress(done);
        }
    }
    Ok(())
}

fn insert(tx: &mut dyn Transaction, tuple: u64) -> Result<()> {
    let mut random = Rng::with_seed(tuple);
    let fields: [_; COLUMNS] = std::array::from_fn(|_| field(&mut random));
    let mut row = vec![ValueRef::from(tuple)];
    row.extend(fields.iter().map(ValueRef::from));
    tx.insert(TUPLES, &row)
}

/// One client of a workload.
#[derive(Debug)]
pub struct Client<'a> {
    workload: &'a Workload,
    /// The only home that it asks, if there is one.
    home: Option<u32>,
    chooser: TupleChooser,
    random: Rng,
}

impl<'a> Client<'a> {
    /// A client with a seed of its own.
    ///
    /// # Errors
    /// [`Error::Zero`], [`Error::Tuples`], [`Error::Skew`].
    pub fn new(workload: &'a Workload, seed: u64) -> Result<Self> {
        if workload.tuples_a_transaction == 0 {
            return Err(Error::Zero { what: "the number of tuples a transaction" });
        }
        if workload.homes == 0 {
            return Err(Error::Zero { what: "the number of homes" });
        }
        let of_home = workload.tuples / u64::from(workload.homes);
        let chooser = TupleChooser::new(workload.skew, of_home, workload.seed)?;
        Ok(Self { workload, home: None, chooser, random: Rng::with_seed(seed) })
    }

    /// The client, asking the tuples of one home alone, as the source's executors do.
    #[must_use]
    pub fn at_home(self, home: u32) -> Self {
        Self { home: Some(home), ..self }
    }

    /// Runs a transaction; returns whether it wrote.
    ///
    /// # Errors
    /// [`Error::Missing`] if a tuple is not there; those of the store.
    pub fn run(&mut self, store: &dyn Store) -> Result<bool> {
        let Workload { mix, updates_one, tuples_a_transaction, homes, .. } = *self.workload;
        let random = &mut self.random;
        let first = u64::from(self.home.map_or_else(|| random.u32(..homes), |home| home - 1));
        let tuples: Vec<_> = (0..tuples_a_transaction)
            .map(|_| self.chooser.next(random) * u64::from(homes) + first)
            .collect();
        let is_read = random.u32(..100) < mix.read_percent();
        let fields: [_; COLUMNS] = std::array::from_fn(|_| field(random));
        let changed = match updates_one {
            true => vec![random.usize(..COLUMNS)],
            false => (0..COLUMNS).collect(),
        };
        store.run(Homes::Of(&[home(first, homes)]), &mut |tx| {
            for tuple in &tuples {
                let key = values![*tuple];
                let is_there = match is_read {
                    true => tx.get(TUPLES, &key, &mut |row| Ok(row.values().map(drop)?))?,
                    false => {
                        let change = |column: &usize| Change::new(column + 1, &fields[*column]);
                        tx.update(TUPLES, &key, &changed.iter().map(change).collect::<Vec<_>>())?
                    }
                };
                if !is_there {
                    let (table, key) = (schemas()[TUPLES].name().to_owned(), tuple.to_string());
                    return Err(Error::Missing { table, key });
                }
            }
            Ok(Outcome::Commit)
        })?;
        Ok(!is_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ModelStore;

    fn rows(store: &ModelStore) -> Vec<Vec<u8>> {
        store.content()[0].values().cloned().collect()
    }

    #[test]
    fn tuples_have_ten_columns_of_a_hundred_bytes() {
        let workload = Workload { tuples: 1000, homes: 3, ..Workload::default() };
        let store = ModelStore::new(schemas());
        let mut last = 0;
        load(&store, &workload, |done| last = done).unwrap();
        assert_eq!(last, 1000);
        let (name, tuples, bytes) = store.sizes().remove(0);
        assert_eq!((name.as_str(), tuples), ("USERTABLE", 1000));
        assert!((1000 * 1008..1000 * 1150).contains(&bytes), "{bytes}");
    }

    #[test]
    fn mixes_have_their_shares_and_updates_their_columns() {
        let workload = Workload { tuples: 1000, updates_one: true, ..Workload::default() };
        let store = ModelStore::new(schemas());
        load(&store, &workload, |_| {}).unwrap();
        for mix in Mix::ALL {
            let workload = Workload { mix, ..workload };
            let mut client = Client::new(&workload, 5).unwrap();
            let writes: u32 = (0..5000).map(|_| u32::from(client.run(&store).unwrap())).sum();
            let share = (100 - mix.read_percent()) * 50;
            assert!(writes.abs_diff(share) < 150, "{}: {writes} of 5,000", mix.name());
            assert!(mix != Mix::ReadOnly || writes == 0);
        }
        let before = rows(&store);
        let writes = Workload { mix: Mix::WriteHeavy, ..workload };
        let mut client = Client::new(&writes, 6).unwrap();
        while !client.run(&store).unwrap() {}
        let changes: Vec<_> = before
            .iter()
            .zip(&rows(&store))
            .filter(|(before, after)| before != after)
            .map(|(before, after)| before.iter().zip(after).filter(|(a, b)| a != b).count())
            .collect();
        assert!(matches!(changes[..], [1..=100]), "{changes:?}");
    }

    #[test]
    fn a_transaction_of_twenty_tuples_keeps_to_one_home() {
        struct OneHome(ModelStore);
        impl Store for OneHome {
            fn run(
                &self,
                homes: Homes<'_>,
                body: &mut crate::store::Body<'_>,
            ) -> Result<crate::store::Ended> {
                assert!(matches!(homes, Homes::Of([1..=4])));
                self.0.run(homes, body)
            }
        }
        let workload =
            Workload { tuples: 1000, homes: 4, tuples_a_transaction: 20, ..Workload::default() };
        let store = OneHome(ModelStore::new(schemas()));
        load(&store, &workload, |_| {}).unwrap();
        let mut client = Client::new(&workload, 7).unwrap();
        (0..200).for_each(|_| assert!(client.run(&store).is_ok()));
    }

    #[test]
    fn numbers_that_must_not_be_zero_are_refused() {
        for workload in [
            Workload { tuples_a_transaction: 0, ..Workload::default() },
            Workload { homes: 0, ..Workload::default() },
        ] {
            assert!(matches!(Client::new(&workload, 1), Err(Error::Zero { .. })));
        }
    }
}
