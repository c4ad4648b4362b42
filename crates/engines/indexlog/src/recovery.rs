//! Opening a store: from the state after a crash or a close to a writer and a view for each partition.
//!
//! 1. Read the map, and take every block that holds records. Check the records of the open blocks, which end where
//!    their records end, and of the sealed ones those that tell where the log ends.
//! 2. Find the log's end (`log_end`), and decide which batches on several partitions are whole.
//! 3. Make the cut durable: dropped blocks are freed first, then the kept ones are flushed; when all partitions have
//!    flushed theirs, they are sealed. The same rules handle a crash during this step.
//! 4. Read the index from a snapshot, and the records that were written after it (`index_snapshot`). If there is no
//!    snapshot, check every record of every block; sort the records by key (`records`), and build the index, the
//!    tombstones and the accounts from them.
//! 5. Take the blocks of large values, and replay the entries of a change log beyond the last record
//!    (`change_log/replay.rs`).
//!
//! All partitions take the first three steps at the same time, on threads of their own; then the store is open, and
//! each partition is ready when it has taken the other steps (`on_demand`).

pub(crate) mod index;
mod kept;
mod log_end;
pub(crate) mod map;
mod open_block;
pub(crate) mod records;
mod sealed;
pub(crate) mod stop;
pub(crate) mod values;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use halite_alloc::Segments;
use halite_contract::{Error, Recovery, Result};
use halite_index::parallel::try_map;
use halite_sim::planted;

use crate::change_log::found_log::FoundLog;
use crate::closing::{closed_digest, is_as_closed, reopened};
use crate::collection::collector::Collector;
use crate::index::Form;
use crate::index_snapshot::{self, Own, Snapshots};
use crate::layout::{Layout, in_partition};
use crate::read::view::View;
use crate::recovery::index::read_all;
use crate::recovery::log_end::{Cut, cut_undecided};
use crate::recovery::map::{open_map, read_map};
use crate::recovery::open_block::take_sealed_blocks;
use crate::recovery::sealed::{Sealed, sealed_batch};
use crate::storage::Storage;
use crate::write::Writer;
use crate::{change_device, data_device};

/// The name of the threads that find the ends of logs.
const THREADS_NAME: &str = "halite-recovery";

/// The partitions of a store, whose logs' ends are found and durable.
pub(crate) struct Ended {
    pub(crate) unbuilt: Vec<Unbuilt>,
    /// The recovery report so far.
    pub(crate) report: Recovery,
}

/// Finds the ends of all logs of the store in `segments`, and makes them durable.
///
/// # Errors
/// [`Error::Damaged`]; an error of the pool.
pub(crate) fn find_ends(
    segments: &Arc<Segments>,
    layout: Layout,
    form: Form,
    on_threads: bool,
) -> Result<Ended> {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let threads = if on_threads { cores() } else { 1 };
    let numbers: Vec<_> = (0..layout.partitions).collect();
    let found = try_map(THREADS_NAME, threads, numbers, |number| {
        let found = Recovering::find(segments, layout, number, form);
        found.map_err(|error| in_partition(layout.is_named(number), error))
    })?;
    let mut report = Recovery::default();
    let (mut recovering, mut cuts): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    // The maps of a store that was closed are as they were then.
    if let Some(digest) = closed_digest(segments) {
        if !is_as_closed(digest, recovering.iter().map(|partition| partition.digest)) {
            return Err(Error::Damaged {
                what: "block map".into(),
                why: "it is not as it was when the store was closed".into(),
            });
        }
        reopened(segments)?;
    }
    let sealed_batch = |number: usize| {
        let Recovering { storage, view, .. } = &recovering[number];
        let batch = sealed_batch(view, storage.space.blocks().len());
        batch.map_err(|error| in_partition(layout.is_named(number), error))
    };
    planted!("indexlog.batch-kept-in-parts", Ok(()), cut_undecided(&mut cuts, sealed_batch))?;
    report.clean = cuts.iter().all(|cut| cut.blocks.is_empty());
    report.records_cut = cuts.iter().map(|cut| cut.records_cut).sum();

    let cut: Vec<_> = recovering.iter_mut().zip(cuts).collect();
    let kept = try_map(THREADS_NAME, threads, cut, |(partition, cut): (&mut Recovering, Cut)| {
        cut.drop_and_flush(&mut partition.storage.space)
    })?;
    let kept: Vec<_> = recovering.into_iter().zip(kept).enumerate().collect();
    let unbuilt = try_map(THREADS_NAME, threads, kept, |(number, (partition, mut kept))| {
        let Recovering { mut storage, mut view, .. } = partition;
        let log = kept.log.take();
        kept.seal(&mut storage.space, &mut view)?;
        Ok::<_, Error>(Unbuilt { number, storage, view, log })
    })?;
    Ok(Ended { unbuilt, report })
}

/// A partition during the first three steps.
struct Recovering {
    storage: Storage,
    view: View,
    /// The digest of the map as it was found.
    digest: u64,
}

impl Recovering {
    /// Finds the log's end.
    fn find(
        segments: &Arc<Segments>,
        layout: Layout,
        number: usize,
        form: Form,
    ) -> Result<(Self, Cut)> {
        let generation = layout.generation;
        let map = open_map(segments, generation, number)?;
        if map.len() == 0 {
            return Err(Error::Damaged {
                what: "block map".into(),
                why: "the allocation table does not have it".into(),
            });
        }
        let device = segments.device(data_device(generation, number));
        let digest = map.digest();
        let mut storage = Storage::new(segments, device, map)?;
        let mut view = View::new(form);
        let lives = read_map(&mut storage.space, segments)?;
        let open = take_sealed_blocks(&mut storage.space, &mut view, &lives)?;
        let near = storage.log.near();
        let sealed = Sealed::read_end(&view, storage.space.blocks().len(), &open, near)?;
        let mut cut = Cut::find(&storage.space, near, sealed, open, layout.changes.is_none())?;
        if layout.changes.is_some() {
            let device = segments.device(change_device(generation, number));
            let durable = storage.space.map().durable()?;
            let log = FoundLog::read(
                device,
                storage.space.carving(),
                storage.space.salt(),
                durable,
                cut.last_batch(),
            )?;
            cut.compare(log, number)?;
        }
        Ok((Self { storage, view, digest }, cut))
    }
}

/// A partition whose log's end is durable, and whose blocks are all sealed and unread.
pub(crate) struct Unbuilt {
    number: usize,
    storage: Storage,
    view: View,
    log: Option<FoundLog>,
}

/// A partition whose index is built.
pub(crate) struct Built {
    pub(crate) writer: Writer,
    pub(crate) view: View,
    pub(crate) records_read: u64,
    pub(crate) records_replayed: u64,
}

impl Unbuilt {
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Reads the blocks, builds the index, the tombstones and the accounts, takes the values of the records, and
    /// replays the entries of the change log beyond these; `retain` is how much of the change log to keep, in bytes.
    /// Gives up soon if `stop` is set.
    ///
    /// If one of the `snapshots` of the index is there and fits, it is read, and of the records only those that came
    /// later.
    pub(crate) fn build(
        self,
        retain: Option<u64>,
        snapshots: &Snapshots,
        stop: &AtomicBool,
    ) -> Result<Built> {
        let Self { number, mut storage, mut view, log } = self;
        let mut own = Own::new(snapshots, number);
        let recovered = index_snapshot::merge::recover(&mut own, &mut storage, &mut view, stop)?;
        let records_read = match recovered {
            Some(records) => records,
            None => {
                let (records, bytes) = read_all(&mut storage, &mut view, stop)?;
                own.begin(storage.written(), bytes, 0);
                records
            }
        };
        storage.space.set_snapshots(snapshots.clone());
        // Recovery looks at values of open blocks, of which there are none, or of the change log.
        let durable = storage.space.map().durable()?;
        let records = storage.log.durability.records();
        let stated = log.as_ref().map_or(records, |log| log.proved().max(durable));
        storage.log.durability.state(stated);
        storage.log.durability.prove_stated();
        let (mut collector, mut records_replayed) = (Collector::default(), 0);
        if let (Some(log), Some(retain)) = (log, retain) {
            records_replayed = log.replay(&mut storage, &mut collector, &mut view, stop)?;
            let opening = storage.space.pool().random()? as u32;
            let changes = log.into_writer(storage.next(), retain, opening)?;
            storage.log.set_changes(changes);
        }
        let writer = Writer::new(storage, collector, own);
        Ok(Built { writer, view, records_read, records_replayed })
    }
}
