//! The DRAM state of one partition's keys.

use fastrand::Rng;

use super::Result;
use super::database::Database;
use super::deadlines::Deadlines;
use super::encodings::Encodings;
use super::readers::Readers;
use super::watches::Watches;
use crate::cursors::Cursors;
use crate::ending::Ending;

/// The server's DRAM state of a partition. The thread that holds it may read and change the partition's keys, and no
/// other thread may. It travels between threads as a whole.
pub(crate) struct Part {
    pub(super) number: usize,
    /// For each number that clients select, the index of its key spaces. All parts have the same order: it changes only
    /// on a thread that holds all of them.
    pub(super) order: Vec<usize>,
    /// By index of the key spaces.
    pub(super) deadlines: Vec<Deadlines>,
    /// By index of the key spaces.
    pub(super) encodings: Vec<Encodings>,
    /// By number of the database.
    pub(super) watches: Watches,
    /// The clients to tell when a key changes.
    pub(super) readers: Readers,
    /// The scans that stand in this partition.
    pub(crate) cursors: Cursors,
    /// The reason for refusing the partition's requests: it could not be recovered, or read.
    broken: Option<Box<str>>,
    /// There are changes since the last sync.
    pub(super) unsynced: bool,
}

impl Part {
    /// The part of one of so many partitions, without the deadlines of its keys.
    pub(super) fn new(
        number: usize,
        order: &[usize],
        databases: usize,
        partitions: usize,
        random: &mut Rng,
    ) -> Self {
        Self {
            number,
            order: order.to_vec(),
            deadlines: (0..databases).map(|_| Deadlines::default()).collect(),
            encodings: (0..databases).map(|_| Encodings::default()).collect(),
            watches: Watches::new(order.len()),
            readers: Readers::new(),
            cursors: Cursors::new(random, partitions),
            broken: None,
            unsynced: false,
        }
    }

    /// Reads the deadlines of its keys, once. Waits until the partition is recovered. Returns false if the
    /// server ends.
    pub(super) fn read_deadlines(
        &mut self,
        databases: &[Database],
        ending: &Ending,
    ) -> Result<bool> {
        for (deadlines, database) in self.deadlines.iter_mut().zip(databases) {
            let note = |key: &[u8], deadline| deadlines.set(key, Some(deadline));
            if !database.read_deadlines(self.number, ending, note)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets the partition's requests be refused.
    pub(crate) fn break_down(&mut self, error: &halite::Error) {
        self.broken = Some(error.to_string().into());
    }

    /// The reason for refusing the partition's requests.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// The number of the partition.
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}
