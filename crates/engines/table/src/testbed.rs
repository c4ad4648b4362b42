//! A testbed: a store of some partitions under one recovery method, and transactions over one or several of them.
//!
//! ```text
//!  pool:     engine:table:METHOD │ table:partitions │ coordinator (device 1) │ partition N (device 2 + N), if its method has a heap
//!  `tables`: a folder for each partition, if its method has files
//!
//!  transact ─► lock the partitions, in their order ─► timestamp ─► body ─┬─ one changed:  commit ───────────┬─► unlock ─► sync
//!                                                                        └─ several: decide, commit each ──┘
//! ```
//!
//! A partition runs one transaction at a time, so that its transactions happen in the order of their timestamps, which are
//! taken while all partitions of a transaction are locked. A transaction that changes one partition costs no more than that
//! partition's commit; threads that wait for the same partition to sync share that.
//!
//! A transaction that changes several is written to the coordinator as a whole first (`coordinator.rs`): that publication
//! decides it. Then each partition commits its part and makes it durable, and the decision is removed before the locks are.
//! Opening finishes a transaction that was decided, so that no crash leaves a part of it. Statements that change the catalogs
//! of all partitions go the same way.
//!
//! A client calls a stored procedure by its name ([`Testbed::call`]), or hands a body over ([`Testbed::transact`]). A body
//! that begins another transaction of the store, or a statement beside it, is refused: it would wait for itself.
//!
//! Costs of a transaction that changes n partitions: a sync of each before the decision, if they had commits that were not
//! durable; two publications of the coordinator; the commits of the partitions, and a sync of each.

mod commit;
mod coordinator;
mod decision;
mod executor;
mod merged;
mod open;
mod placement;
mod procedure;
mod running;
mod statement;
mod transaction;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use halite_alloc::Segments;
use halite_contract::Durability;
use halite_disk::{Disk, Traffic};
use halite_pmem::Pool;
use halite_sim::locks::{Mutex, MutexGuard, RwLock};
use halite_sync::Group;

use self::commit::Tickets;
use self::coordinator::{Coordinator, TIMESTAMPS};
pub use self::executor::{Executor, ExecutorOptions, Latencies, Pending};
pub use self::merged::MergedRows;
pub(crate) use self::open::{FOLDER, PARTITIONS, folder};
pub use self::open::{PARTITIONS_MAX, TableOptions};
use self::procedure::Registered;
pub use self::procedure::{Procedure, Records};
pub use self::transaction::Transaction;
use crate::method::{Footprint, Kind, Method, Ticket, View, Wear};
use crate::{Catalog, Error, Partition, Result};

/// A partition of any method.
type AnyPartition = Partition<Box<dyn Method + Send>>;

/// A partition, and the threads that wait for it to be durable.
struct Shared {
    partition: Mutex<AnyPartition>,
    syncs: Group,
}

/// A store of some partitions under one recovery method.
pub struct Testbed {
    kind: Kind,
    segments: Arc<Segments>,
    partitions: Vec<Shared>,
    /// The folders of files, one for each partition, if the method has files.
    disks: Vec<Disk>,
    coordinator: Mutex<Coordinator>,
    /// The next timestamp.
    timestamp: AtomicU64,
    /// The stored procedures by their names.
    procedures: RwLock<BTreeMap<Box<str>, Arc<Registered>>>,
    /// Why no transaction can run any more.
    failed: Arc<OnceLock<Box<str>>>,
}

impl Testbed {
    /// Its recovery method.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The number of its partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Its pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.segments.pool()
    }

    /// The segments of its pool.
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The catalog, which is the same in all partitions but for the ids. It waits for the transaction of the first
    /// partition: in the body of one, [`Transaction::table`] is there instead.
    #[must_use]
    pub fn catalog(&self) -> Catalog {
        self.lock(0).catalog().clone()
    }

    /// Runs a transaction over partitions, by their numbers: its changes happen whole and as if no other transaction ran, or
    /// not at all if the body returns an error or panics. With [`Durability::Immediate`], all that it changed and read is
    /// durable on return; otherwise after the next [`Testbed::sync`].
    ///
    /// # Errors
    /// Those of the body; [`Error::Partitions`] for a number that the store does not have; [`Error::Panicked`];
    /// [`Error::Recursion`] in the body of another transaction of the store; those of the method's commit and sync.
    pub fn transact<T, E: From<Error>>(
        &self,
        partitions: &[usize],
        durability: Durability,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact_and(partitions, durability, body, |_| ())
    }

    /// [`Testbed::transact`]; `committed` is called with the body's result between the commit and the release of the
    /// partitions: before any other transaction sees the changes.
    pub(crate) fn transact_and<T, E: From<Error>>(
        &self,
        partitions: &[usize],
        durability: Durability,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
        committed: impl FnOnce(&mut T),
    ) -> Result<T, E> {
        let (result, tickets) = self.run("a transaction", partitions, body, committed)?;
        if durability == Durability::Immediate {
            self.wait_for(&tickets)?;
        }
        Ok(result)
    }

    /// Runs a transaction, and returns what has to be durable before anybody is told that it was.
    fn run<T, E: From<Error>>(
        &self,
        name: &str,
        partitions: &[usize],
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
        committed: impl FnOnce(&mut T),
    ) -> Result<(T, Tickets), E> {
        let _running = self.enter(name)?;
        let mut transaction = self.begin(partitions)?;
        match caught(|| body(&mut transaction)).map_err(E::from).flatten() {
            Ok(mut result) => {
                let tickets = self.commit(&mut transaction)?;
                committed(&mut result);
                Ok((result, tickets))
            }
            Err(error) => {
                transaction.abort();
                Err(error)
            }
        }
    }

    /// Makes all commits durable.
    ///
    /// # Errors
    /// Those of the method.
    pub fn sync(&self) -> Result<()> {
        (0..self.partitions.len()).try_for_each(|partition| self.sync_partition(partition))
    }

    /// Makes the commits of one partition durable.
    ///
    /// # Errors
    /// Those of the method.
    ///
    /// # Panics
    /// If there is no partition of that number.
    pub fn sync_partition(&self, partition: usize) -> Result<()> {
        self.check_outside("a sync")?;
        let last = self.lock(partition).last();
        self.wait(partition, last)
    }

    /// The traffic of the files beside the pool, whose own is that of [`Testbed::pool`].
    #[must_use]
    pub fn file_traffic(&self) -> Traffic {
        let mut all = Traffic::default();
        for disk in &self.disks {
            let Traffic { bytes_written, writes, bytes_read, reads, syncs, opens } = disk.traffic();
            all.bytes_written += bytes_written;
            all.writes += writes;
            all.bytes_read += bytes_read;
            all.reads += reads;
            all.syncs += syncs;
            all.opens += opens;
        }
        all
    }

    /// A view of the rows of a partition that were durable at its last sync: it stays as it is, on any thread, and no
    /// transaction waits for it.
    ///
    /// # Errors
    /// [`Error::NoViews`] of methods that do not copy on write; [`Error::Partitions`].
    pub fn view(&self, partition: usize) -> Result<Box<dyn View>> {
        self.check_outside("a view")?;
        let max = self.partitions.len();
        if partition >= max {
            return Err(Error::Partitions { asked: partition as u64 + 1, max: max as u64 });
        }
        self.lock(partition).method().view()
    }

    /// Shortens the recovery, for methods that replay a log.
    ///
    /// # Errors
    /// Those of the method.
    pub fn checkpoint(&self) -> Result<()> {
        self.check_outside("a checkpoint")?;
        (0..self.partitions.len()).try_for_each(|number| self.lock(number).checkpoint())
    }

    /// Gives back some space of things that were dropped. Returns whether none is left.
    ///
    /// # Errors
    /// Those of the method.
    pub fn reclaim(&self) -> Result<bool> {
        self.check_outside("a reclamation")?;
        let mut is_done = true;
        for number in 0..self.partitions.len() {
            is_done &= self.lock(number).reclaim()?;
        }
        Ok(is_done)
    }

    /// Bytes of all partitions by use, without those of the coordinator.
    ///
    /// # Errors
    /// Those of the method.
    pub fn footprint(&self) -> Result<Footprint> {
        self.check_outside("a footprint")?;
        let mut all = Footprint::default();
        for number in 0..self.partitions.len() {
            let Footprint { table, index, log, checkpoint, other } =
                self.lock(number).footprint()?;
            all.table += table;
            all.index += index;
            all.log += log;
            all.checkpoint += checkpoint;
            all.other += other;
        }
        Ok(all)
    }

    /// The wear of each partition's heap, if its method has one that persists.
    ///
    /// # Errors
    /// Those of the method.
    pub fn wear(&self) -> Result<Vec<Wear>> {
        self.check_outside("a look at the wear")?;
        let all = (0..self.partitions.len()).map(|number| self.lock(number).method().wear());
        all.filter_map(Result::transpose).collect()
    }

    /// Checks all that is stored. Returns the number of rows.
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first defect.
    pub fn verify(&self) -> Result<u64> {
        self.check_outside("a check of the store")?;
        self.coordinator.lock().verify()?;
        (0..self.partitions.len()).map(|number| self.lock(number).verify()).sum()
    }

    fn check(&self) -> Result<()> {
        match self.failed.get() {
            Some(why) => Err(Error::Lost { why: why.clone() }),
            None => Ok(()),
        }
    }

    fn lock(&self, partition: usize) -> MutexGuard<'_, AnyPartition> {
        self.partitions[partition].partition.lock()
    }

    /// Locks the partitions of a transaction, and takes its timestamp.
    fn begin(&self, partitions: &[usize]) -> Result<Transaction<'_>> {
        self.check()?;
        let mut numbers = partitions.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let max = self.partitions.len() as u64;
        if let Some(&asked) = numbers.iter().find(|&&number| number as u64 >= max) {
            return Err(Error::Partitions { asked: asked as u64 + 1, max });
        }
        let mut parts = Vec::with_capacity(numbers.len());
        for number in numbers {
            parts.push((number, self.lock(number)));
        }
        let timestamp = self.timestamp.fetch_add(1, Ordering::Relaxed);
        if timestamp.is_multiple_of(TIMESTAMPS) {
            self.coordinator.lock().reserve_timestamps(timestamp)?;
        }
        for (_, partition) in &mut parts {
            partition.begin()?;
        }
        Ok(Transaction::new(parts, timestamp))
    }

    /// Returns when all of the tickets are durable.
    fn wait_for(&self, tickets: &Tickets) -> Result<()> {
        tickets.iter().try_for_each(|&(partition, ticket)| self.wait(partition, ticket))
    }

    /// Returns when the commits of a partition up to a ticket are durable.
    fn wait(&self, number: usize, ticket: Ticket) -> Result<()> {
        let Shared { partition, syncs } = &self.partitions[number];
        let take = || {
            let partition = partition.lock();
            let last = partition.last();
            (partition, last.0)
        };
        syncs.commit(ticket.0, take, |mut partition| partition.sync().map(drop))
    }
}

/// Runs something, and returns its panic as an error.
fn caught<T>(body: impl FnOnce() -> T) -> Result<T> {
    let panicked =
        |panic: Box<dyn std::any::Any + Send>| Error::Panicked { message: message_of(&*panic) };
    catch_unwind(AssertUnwindSafe(body)).map_err(panicked)
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> Box<str> {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned()).into()
}

#[cfg(test)]
mod tests;
