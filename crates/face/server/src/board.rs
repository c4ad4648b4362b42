//! Where each thread publishes its counters for threads that are not the server's.

use std::sync::Mutex;

use crate::counters::Counters;
use crate::lock::lock;

/// The last notes of all threads. A thread writes its own at each tick; only readers of the metrics lock them besides.
pub(crate) struct Board(Vec<Mutex<Note>>);

/// How a thread is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Note {
    pub(crate) counters: Counters,
    pub(crate) clients: u64,
    pub(crate) expired: u64,
    pub(crate) changes: u64,
}

impl Board {
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Mutex::default()).collect())
    }

    pub(crate) fn write(&self, thread: usize, note: Note) {
        *lock(&self.0[thread]) = note;
    }

    /// The notes by thread.
    pub(crate) fn read(&self) -> Vec<Note> {
        self.0.iter().map(|note| *lock(note)).collect()
    }
}
