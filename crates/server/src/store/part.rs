//! What belongs to the keys of one partition.

use super::Result;
use super::database::Database;
use super::deadlines::Deadlines;
use super::watches::Watches;
use crate::cursors::Cursors;
use crate::random::Random;

/// What the server has in DRAM of a partition: whoever holds it may read and change the
/// partition's keys, and nobody else. It travels between threads as a whole.
pub(crate) struct Part {
    pub(super) number: usize,
    /// For each number that clients select, the index of its key spaces. All parts have the same:
    /// it changes only where all of them are.
    pub(super) order: Vec<usize>,
    /// By index of the key spaces.
    pub(super) deadlines: Vec<Deadlines>,
    /// By number of the database.
    pub(super) watches: Watches,
    /// The scans that stand in this partition.
    pub(crate) cursors: Cursors,
    /// Whether the deadlines were read.
    loaded: bool,
    /// Something changed since the last sync.
    pub(super) unsynced: bool,
}

impl Part {
    /// The parts of all partitions, without the deadlines of their keys.
    pub(super) fn open_all(
        db: &halite::Database,
        databases: &[Database],
        order: &[usize],
    ) -> Vec<Option<Self>> {
        let mut random = Random::new();
        let parts = (0..db.partitions()).map(|number| {
            Some(Self {
                number,
                order: order.to_vec(),
                deadlines: databases.iter().map(|_| Deadlines::default()).collect(),
                watches: Watches::new(order.len()),
                cursors: Cursors::new(&mut random, db.partitions()),
                loaded: false,
                unsynced: false,
            })
        });
        parts.collect()
    }

    /// Reads the deadlines of its keys, once. Waits until the partition is recovered.
    pub(super) fn read_deadlines(&mut self, databases: &[Database]) -> Result<()> {
        if std::mem::replace(&mut self.loaded, true) {
            return Ok(());
        }
        for (deadlines, database) in self.deadlines.iter_mut().zip(databases) {
            database.read_deadlines(self.number, |key, deadline| {
                deadlines.set(key, Some(deadline));
            })?;
        }
        Ok(())
    }

    /// The number of the partition.
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}
