//! Transactions while there is little room: in files that may not grow, or in a pool that rows of one partition fill.

use std::ops::ControlFlow;

use halite_contract::Durability;
use halite_table::index::Direction;
use halite_table::{Error, KeyRange, Result, Row, TableSchema, Type, values};

use super::open::{ALL, Open};
use super::steps::{Step, model};
use crate::methods::is_full;

/// The table of rows that fill the medium, and bytes of such rows, the longest first.
const BALLAST: &str = "ballast";
const BALLAST_LENS: [usize; 4] = [1 << 20, 200_000, 40_000, 3_000];

fn ballast() -> TableSchema {
    let builder = TableSchema::builder(BALLAST)
        .column("number", Type::Int32)
        .column("has", Type::Bytes(1 << 20));
    builder.primary_key(["number"]).build().expect("it is right")
}

impl Open {
    /// Takes a transaction while there is little room. A failure for that reason leaves all of it or nothing, in both
    /// partitions, also when the testbed is opened again.
    pub(super) fn squeezed(&mut self, seed: u64, room: u64) -> Result<(), String> {
        let told = |error: Error| error.to_string();
        let step = Step::Squeezed { seed, room };
        let medium = self.options.pool_options.medium.clone().expect("there is a medium");
        if medium.machine().has_failed_to_sync() {
            return self.take(&step).map_err(told);
        }
        self.testbed().sync().map_err(told)?;
        let before = self.contents().map_err(told)?;
        let mut after = before.clone();
        model(&mut after, &step);
        let with = self.options.disk.as_ref().expect("there is a disk").memory_bytes();
        let is_filled = self.is_small;
        match is_filled {
            true => self.fill((seed % 2) as usize).map_err(told)?,
            false => self.model.limit(Some(with + room)),
        }
        let taken = self.take(&step);
        self.model.limit(None);
        let mut is_there = taken.is_ok();
        if medium.machine().has_failed_to_sync() {
            return taken.map_err(told);
        }
        if let Err(error) = taken {
            let found = self.contents();
            let goes_on =
                found.as_ref().is_ok_and(|found| *found == before) && self.testbed().sync().is_ok();
            if !goes_on {
                self.open().map_err(told)?;
            }
            let found = self.contents().map_err(told)?;
            is_there = found == after;
            if !is_there && found != before {
                return Err(format!("it failed, \"{error}\", and left half of itself"));
            }
        }
        if is_filled {
            self.make_room().map_err(told)?;
        }
        if !is_there {
            self.take(&step).map_err(told)?;
        }
        match medium.machine().has_failed_to_sync() {
            true => Err("a sync failed".to_owned()),
            false => Ok(()),
        }
    }

    /// Fills the medium with rows of one partition, that are no part of the world.
    fn fill(&self, partition: usize) -> Result<()> {
        let testbed = self.testbed();
        if testbed.catalog().table(BALLAST).is_err() {
            testbed.create_table(&ballast())?;
        }
        self.make_room()?;
        let mut number = 0;
        for len in BALLAST_LENS {
            let bytes = vec![7; len];
            loop {
                let filled = testbed.transact(&[partition], Durability::Immediate, |tx| {
                    let table = tx.table(partition, BALLAST)?;
                    let values = values![number, &bytes[..]];
                    tx.insert(partition, &table, &Row::from_values(table.schema(), &values)?)
                });
                match filled {
                    Ok(()) => number += 1,
                    Err(error) if is_full(&error) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Removes what fills the medium, row by row, which always works.
    pub(super) fn make_room(&self) -> Result<()> {
        let testbed = self.testbed();
        if testbed.catalog().table(BALLAST).is_ok() {
            for partition in ALL {
                while self.remove_ballast(partition)? {}
            }
        }
        while !testbed.reclaim()? {}
        Ok(())
    }

    /// Removes a row that fills the medium. Returns whether there was one.
    fn remove_ballast(&self, partition: usize) -> Result<bool> {
        self.testbed().transact(&[partition], Durability::Immediate, |tx| {
            let table = tx.table(partition, BALLAST)?;
            let mut first = None;
            let range = KeyRange::all();
            tx.scan(partition, (&table, None), &range, Direction::Forward, |key, _| {
                first = Some(key.to_vec());
                Ok(ControlFlow::Break(()))
            })?;
            first.map_or(Ok(false), |key| tx.delete(partition, &table, &key))
        })
    }
}
