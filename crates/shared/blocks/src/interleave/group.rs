//! A group: the fences and reads that operations in turn wait for together.

use std::array;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use halite_pmem::{Fenced, Flushed, Pool, Words};

use crate::{Error, Result};

/// The waits that the operations of a group share. The other variants are there to be measured beside
/// [`Overlap::Both`] (van Renen, Fig. 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Lines that they read; each has fences of its own.
    Reads,
    /// Fences; each waits for the lines that it reads.
    Writes,
    /// Both of them.
    Both,
}

/// The state that the operations of one [`interleave`](super::interleave) share. It belongs to one thread.
pub struct Group {
    pool: Pool,
    size: usize,
    overlap: Overlap,
    /// Fences of the group so far: the number of the next one.
    fences: Cell<u64>,
    /// Whether the operation that is polled, or was polled last, waits for the next fence.
    waits: Cell<bool>,
    /// The run of an executor, while there is one.
    run: Cell<Option<u64>>,
    shared: RefCell<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The write-backs that the next fence covers.
    flushed: Vec<Flushed>,
    /// The proofs of the last one.
    fenced: Vec<Fenced>,
    /// Why a fence failed. The state of the pool is unknown from then on.
    failure: Option<Arc<halite_pmem::Error>>,
}

impl Group {
    /// A group of `size` operations at a time on a pool.
    ///
    /// # Panics
    /// If `size` is zero.
    #[must_use]
    pub fn new(pool: &Pool, size: usize) -> Self {
        Self::overlapping(pool, size, Overlap::Both)
    }

    /// A group whose operations wait together only for reads, or only for fences.
    ///
    /// # Panics
    /// If `size` is zero.
    #[must_use]
    pub fn overlapping(pool: &Pool, size: usize, overlap: Overlap) -> Self {
        assert!(size > 0, "a group has at least one operation at a time");
        Self {
            pool: pool.clone(),
            size,
            overlap,
            fences: Cell::new(0),
            waits: Cell::new(false),
            run: Cell::new(None),
            shared: RefCell::default(),
        }
    }

    /// How many operations are active at a time.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Has the line of the word at `at` fetched, and lets the others go on meanwhile.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline]
    pub async fn fetch(&self, words: &Words, at: u64) {
        if self.overlap != Overlap::Writes {
            words.prefetch(at);
            yield_now().await;
        }
    }

    /// Waits, with the rest of the group, until all of `flushed` are durable. One fence for all that
    /// wait.
    ///
    /// # Errors
    /// [`Error::SharedFence`] to all that waited for a fence that failed, and to those after them.
    ///
    /// # Panics
    /// If it is not awaited in the group's [`interleave`](super::interleave), or not polled between two
    /// fences: the executor polls each operation, and the operation has to poll its own futures.
    #[inline]
    pub async fn fence<const N: usize>(&self, flushed: [Flushed; N]) -> Result<[Fenced; N]> {
        if self.overlap == Overlap::Reads {
            return Ok(self.pool.fence(flushed)?);
        }
        let first = {
            let mut shared = self.shared.borrow_mut();
            let first = shared.flushed.len();
            shared.flushed.extend(flushed);
            first
        };
        let number = self.next_fence().await;
        let shared = self.shared.borrow();
        if let Some(failure) = &shared.failure {
            return Err(Error::SharedFence(Arc::clone(failure)));
        }
        assert_eq!(number + 1, self.fences.get(), "an operation is polled after each fence");
        Ok(array::from_fn(|place| shared.fenced[first + place].clone()))
    }

    /// Lets the other operations run until their waits are over.
    pub(crate) async fn give_way(&self) {
        if self.overlap == Overlap::Reads {
            yield_now().await;
        } else {
            self.next_fence().await;
        }
    }

    /// Waits for the next fence, and returns its number.
    async fn next_fence(&self) -> u64 {
        // Outside an executor no fence would ever be issued.
        self.run();
        let number = self.fences.get();
        poll_fn(|_| {
            let waits = self.fences.get() == number;
            self.waits.set(waits);
            if waits { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        number
    }

    /// Begins a run of the executor.
    ///
    /// # Panics
    /// If there is one: operations would see fences that they were not polled after.
    pub(crate) fn begin(&self) -> Running<'_> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        assert!(self.run.get().is_none(), "an operation of a group interleaves on the same group");
        self.run.set(Some(RUNS.fetch_add(1, Ordering::Relaxed)));
        self.waits.set(false);
        Running(self)
    }

    /// The number of the run; no two groups have the same.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(crate) fn run(&self) -> u64 {
        self.run.get().expect("operations of a group run in its interleave")
    }

    /// The number of the next fence.
    #[inline]
    pub(crate) fn fence_number(&self) -> u64 {
        self.fences.get()
    }

    /// Whether the operation that was just polled waits for the next fence. Resets the answer.
    #[inline]
    pub(crate) fn take_waits(&self) -> bool {
        self.waits.take()
    }

    /// Fences for all waiting operations, if they have flushed any bytes.
    pub(crate) fn fence_now(&self) {
        let mut shared = self.shared.borrow_mut();
        let Shared { flushed, fenced, failure } = &mut *shared;
        if failure.is_none() && !flushed.is_empty() {
            *failure = self.pool.fence_into(flushed, fenced).err().map(Arc::new);
        }
        flushed.clear();
        self.fences.set(self.fences.get() + 1);
    }
}

/// A run of a group's executor, until this is dropped.
pub(crate) struct Running<'a>(&'a Group);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.run.set(None);
    }
}

/// Lets the other operations of the thread go on.
#[inline]
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|_| match std::mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
