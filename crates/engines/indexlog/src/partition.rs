//! A partition: an index, a log and a collector of its own, shared with no other partition.

mod stats;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use halite_contract::{
    Bytes, Damage, Durability, Error, Health, KEY_LEN_MAX, KeyRange, KeySpaceId, Op, Result,
};
use halite_index::FullKeys;
use halite_pmem::Pool;
use halite_sim::locks::{Mutex, MutexGuard, RwLock};

use crate::change_log::Segments;
use crate::closing::Closing;
use crate::entry::Entry;
use crate::group_commit::GroupCommit;
use crate::index::Index;
use crate::layout::in_partition;
use crate::read::scans::Scans;
use crate::read::view::View;
use crate::storage::Storage;
use crate::write::Writer;

/// Range bounds that are longer than this together do not fit a record; see [`Partition::expand`].
const BOUNDS_LEN_MAX: usize = 96 << 10;

/// The beginning of the message of a panic under the writer's lock.
pub(crate) const WRITER: &str = "a thread that changes the store";

/// Keys of a table that are visited under one lock.
const VISITED_AT_ONCE: usize = 64;

/// The state that the store and the scans of a partition share; it closes when the last of them is gone.
pub(crate) struct Partition {
    pub(crate) pool: Pool,
    pub(crate) salt: u64,
    pub(crate) view: RwLock<View>,
    pub(crate) scans: Arc<Scans>,
    /// The change log as readers see it, if there is one.
    pub(crate) changes: Option<Arc<Segments>>,
    /// Locked before the view, and after the writers of partitions with lower numbers.
    pub(crate) writer: Mutex<Writer>,
    pub(crate) group_commit: GroupCommit,
    /// Held while a snapshot of the index is taken. Locked before the writer.
    snapshotting: Mutex<()>,
    /// Its number, if the store has several.
    number: Option<usize>,
    /// Bytes of DRAM, as they were last counted, and until when that count is used.
    counted: Mutex<(u64, Option<Instant>)>,
    closing: Arc<Closing>,
    /// The health of the store, shared by all its partitions.
    pub(crate) health: Arc<Health>,
}

impl Partition {
    /// `number` is that of the partition, if the store has several.
    pub(crate) fn new(
        mut writer: Writer,
        mut view: View,
        number: Option<usize>,
        closing: Arc<Closing>,
        health: Arc<Health>,
    ) -> Self {
        let Storage { space, log, .. } = &mut writer.storage;
        space.health.share(&health);
        view.position = log.durability.next();
        Self {
            pool: space.pool().clone(),
            salt: space.salt(),
            view: RwLock::new(view),
            scans: Arc::clone(space.scans()),
            changes: log.changes().map(|changes| Arc::clone(changes.segments())),
            writer: Mutex::new(writer),
            group_commit: GroupCommit::default(),
            snapshotting: Mutex::default(),
            number,
            counted: Mutex::new((0, None)),
            closing,
            health,
        }
    }

    /// Bytes of DRAM that the indexes take. Counting visits every node, so it is done on a snapshot, without the
    /// locks that readers and writers need, and takes a twentieth of the time at most.
    pub(crate) fn index_bytes(&self) -> u64 {
        let mut counted = self.counted.lock();
        let began = Instant::now();
        if counted.1.is_none_or(|until| until <= began) {
            let mut bytes = self.writer.lock().storage.tombstones.heap_len();
            let indexes: Vec<_> =
                self.view.read().spaces.values().map(|space| space.index.clone()).collect();
            bytes += indexes.iter().map(Index::heap_len).sum::<usize>();
            *counted = (bytes as u64, Instant::now().checked_add(20 * began.elapsed()));
        }
        counted.0
    }

    /// Changes the partition under its writer's lock. After a panic, no partition of the store is written to any more.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut MutexGuard<'_, Writer>) -> Result<T>,
    ) -> Result<T> {
        // Locked outside of the watch, so that the next writer finds the panic noted.
        let mut writer = self.writer.lock();
        self.health.watch(WRITER, || change(&mut writer))
    }

    /// Writes operations on any key space, internal ones included.
    pub(crate) fn write(
        &self,
        writer: &mut Writer,
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<()> {
        self.check_spaces(ops)?;
        self.named(
            self.expand(ops)
                .and_then(|expanded| writer.write(&self.view, &expanded.ops(ops), durability)),
        )
    }

    /// Writes operations of a caller, in a group or alone; `is_bookkeeping` gives them room where puts have none.
    pub(crate) fn commit(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        is_bookkeeping: bool,
    ) -> Result<()> {
        let is_awaited = durability == Durability::Immediate && !is_bookkeeping;
        if is_awaited && GroupCommit::takes(&self.pool, ops) {
            return self.group_commit.write(self, ops);
        }
        self.change(|writer| {
            writer.set_bookkeeping(is_bookkeeping);
            let written = self.write(writer, ops, durability);
            writer.set_bookkeeping(false);
            written?;
            self.pace_snapshot(writer);
            Ok(())
        })
    }

    /// Takes a step of collection that later writes would have to take. Returns whether there is more to do.
    pub(crate) fn collect_ahead(&self) -> Result<bool> {
        let ahead = self.change(|writer| writer.collect_ahead(&self.view));
        self.named(ahead)
    }

    /// Adds to damage in a report which partition it is in.
    pub(crate) fn name_damage(&self, damage: &mut Damage) {
        if let Some(number) = self.number {
            damage.what += &format!(", partition {number}");
        }
    }

    /// Adds to an error that tells of damage which partition it is in.
    pub(crate) fn named<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| in_partition(self.number, error))
    }

    /// Checks that the key spaces of operations exist.
    pub(crate) fn check_spaces(&self, ops: &[Op<'_>]) -> Result<()> {
        let view = self.view.read();
        match ops.iter().all(|op| view.spaces.contains_key(&op.space().0)) {
            true => Ok(()),
            false => Err(Error::NoSuchKeySpace),
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.named(self.find(space, key))
    }

    fn find(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        let pinned = {
            let view = self.view.read();
            let index = &view.user_space(space)?.index;
            let Some(entry) = index.get_candidate(key, &view.blocks)? else { return Ok(None) };
            view.pin(Entry::from_bits(entry))?
        };
        pinned.value_of(key, self.salt)
    }

    /// Brings the lines that operations on these keys will read into the cache.
    pub(crate) fn prefetch(&self, space: KeySpaceId, keys: &[&[u8]]) {
        let view = self.view.read();
        if let Ok(space) = view.user_space(space) {
            space.index.prefetch(keys, &view.blocks);
        }
    }

    /// The value of a key in an index that a snapshot keeps.
    pub(crate) fn get_in(&self, index: &Index, key: &[u8]) -> Result<Option<Bytes>> {
        let find = || {
            let pinned = {
                let view = self.view.read();
                let Some(entry) = index.get_candidate(key, &view.blocks)? else { return Ok(None) };
                view.pin(Entry::from_bits(entry))?
            };
            pinned.value_of(key, self.salt)
        };
        self.named(find())
    }

    /// The pair of an entry, its value without a copy if it is in one piece.
    pub(crate) fn read_pair(&self, entry: Entry) -> Result<(Bytes, Bytes)> {
        let pinned = self.view.read().pin(entry)?;
        pinned.pair(self.salt)
    }

    /// Whether a range has keys.
    pub(crate) fn has_any(
        &self,
        space: KeySpaceId,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<bool> {
        let view = self.view.read();
        let Some(space) = view.spaces.get(&space.0) else { return Ok(false) };
        space.index.has_any(start, end, &view.blocks)
    }

    /// Finds the keys of ranges whose bounds are too long: they are deleted one by one, in the same
    /// batch.
    pub(crate) fn expand(&self, ops: &[Op<'_>]) -> Result<Expanded> {
        let mut expanded = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            let Op::DeleteRange { space, start, end } = *op else { continue };
            if !is_long_range(op) {
                continue;
            }
            let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
            let mut keys = self.keys(space, &range)?;
            let earlier = ops[..at].iter().filter_map(|op| match *op {
                Op::Put { space: of, key, .. } if of == space && range.contains(key) => {
                    Some(key.to_vec())
                }
                _ => None,
            });
            keys.extend(earlier);
            expanded.push((at, keys));
        }
        Ok(Expanded(expanded))
    }

    /// Visits at least `count` keys from a position of a table on, and returns the next position; `None` if the index
    /// is not a hash table.
    pub(crate) fn visit(
        &self,
        space: KeySpaceId,
        mut position: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<u64>> {
        let mut visited = 0;
        loop {
            // The lock is given back in between, since writers wait for it.
            let view = self.view.read();
            let Index::Hash(table) = &view.user_space(space)?.index else { return Ok(None) };
            let mut entries = Vec::new();
            while entries.len() < VISITED_AT_ONCE.min(count - visited) {
                position = table.scan(position, |entry| entries.push(entry));
                if position == 0 {
                    break;
                }
            }
            entries.iter().for_each(|entry| view.blocks.prefetch(*entry));
            for entry in &entries {
                view.blocks.with_key(*entry, &mut *visit)?;
            }
            visited += entries.len();
            if position == 0 || visited >= count {
                return Ok(Some(position));
            }
        }
    }

    /// Takes a snapshot of the index now. Returns whether there is one: not if the index has none, the pool no
    /// room for it, or scans hold blocks that were collected. Others may write between its steps.
    pub(crate) fn snapshot_index(&self) -> Result<bool> {
        let _one_at_a_time = self.snapshotting.lock();
        let begun = self.change(|writer| {
            writer.check_health()?;
            writer.begin_snapshot(&self.view)
        });
        let Some(number) = self.named(begun)? else { return Ok(false) };
        loop {
            let stepped = self.change(|writer| {
                writer.check_health()?;
                writer.step_of_snapshot(number)
            });
            if let Some(is_there) = self.named(stepped)? {
                return Ok(is_there);
            }
        }
    }

    /// Takes the steps of a snapshot of the index that the last writes pay for, if one is due.
    pub(crate) fn pace_snapshot(&self, writer: &mut Writer) {
        writer.pace_snapshot(&self.view);
    }

    /// Takes a snapshot of the index at close, if one is due.
    fn snapshot_at_close(&mut self) -> Result<bool> {
        let writer = self.writer.get_mut();
        let written = writer.written();
        if !writer.snapshots.is_due_at_close(written) {
            return Ok(false);
        }
        self.snapshot_index()
    }

    fn keys(&self, space: KeySpaceId, range: &KeyRange) -> Result<Vec<Vec<u8>>> {
        let view = self.view.read();
        let Some(space) = view.spaces.get(&space.0) else { return Ok(Vec::new()) };
        space.index.keys(range, &view.blocks)
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        if self.closing.is_wanted() && self.health.failure().is_none() {
            // Without a snapshot, the next open reads the records.
            let _ = self.snapshot_at_close();
        }
        // If this fails, the next open finds the log's end by its records, as after a crash.
        if let Ok(digest) = self.writer.get_mut().close() {
            self.closing.add(digest);
        }
    }
}

/// The views of all partitions at one moment, between batches.
pub(crate) fn views<R>(
    partitions: &[Arc<Partition>],
    mut look: impl FnMut(&Arc<Partition>, &View) -> R,
) -> Vec<R> {
    let views: Vec<_> = partitions.iter().map(|partition| partition.view.read()).collect();
    partitions.iter().zip(&views).map(|(partition, view)| look(partition, view)).collect()
}

/// Whether the bounds of a range are too long for one record.
fn is_long_range(op: &Op<'_>) -> bool {
    let Op::DeleteRange { start, end, .. } = *op else { return false };
    start.len() > KEY_LEN_MAX || start.len() + end.map_or(0, <[u8]>::len) > BOUNDS_LEN_MAX
}

/// Deletes of the keys in ranges whose bounds are too long for one record, by operation.
#[derive(Default)]
pub(crate) struct Expanded(Vec<(usize, Vec<Vec<u8>>)>);

impl Expanded {
    /// The operations, with deletes in place of such ranges.
    pub(crate) fn ops<'a>(&'a self, ops: &'a [Op<'a>]) -> Cow<'a, [Op<'a>]> {
        if self.0.is_empty() {
            return Cow::Borrowed(ops);
        }
        let mut all = Vec::new();
        let mut expanded = self.0.iter().peekable();
        for (at, op) in ops.iter().enumerate() {
            match expanded.next_if(|(expanded_at, _)| *expanded_at == at) {
                Some((_, keys)) => {
                    all.extend(keys.iter().map(|key| Op::Delete { space: op.space(), key }));
                }
                None => all.push(*op),
            }
        }
        Cow::Owned(all)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use halite_contract::{
        Durability, Engine, EngineOptions, Error, KeySpaceId, Op, Partitioning, SpaceManagement,
        Transactional, panic_message,
    };
    use halite_pmem::Domain;

    use crate::IndexLog;

    const THREADS: u32 = 2;
    const KEYS: u32 = 500;
    const WRITES_MAX: u32 = 100_000;

    fn key(thread: u32, number: u32, of_batch: u32) -> [u8; 12] {
        let parts = [thread, number % KEYS, of_batch].map(u32::to_be_bytes);
        parts.concat().try_into().unwrap()
    }

    /// Has a thread write batches until one panics or is refused. Returns how many were taken, and why the next was
    /// not.
    fn write_until_refused(engine: &IndexLog, space: KeySpaceId, thread: u32) -> (u32, String) {
        for number in 0..WRITES_MAX {
            let keys = [0, 1].map(|of_batch| key(thread, number, of_batch));
            let value = [number.to_be_bytes(); 200].concat();
            let put = |key| Op::Put { space, key, value: &value };
            let ops = [put(&keys[0]), put(&keys[1])];
            let write = || engine.write(&ops, Durability::Immediate);
            match catch_unwind(AssertUnwindSafe(write)) {
                Ok(Ok(())) => {}
                Ok(Err(Error::Poisoned { why })) => return (number, why),
                Err(panic) => return (number, format!("panicked: {}", panic_message(&*panic))),
                Ok(Err(other)) => panic!("it is told that it was poisoned, not: {other}"),
            }
        }
        panic!("nothing panicked");
    }

    /// The number of the last batch that wrote a key.
    fn number_of(engine: &IndexLog, space: KeySpaceId, key: &[u8]) -> Option<u32> {
        let value = engine.get(space, key).unwrap()?;
        Some(u32::from_be_bytes(value[..4].try_into().unwrap()))
    }

    #[test]
    fn a_panic_under_a_writers_lock_is_told_to_every_writer_and_loses_nothing() {
        let places = [
            ("a write that is not shown yet", 1, None),
            ("a write that is not shown yet", 1, Some(Domain::PageCache)),
            ("a batch that is not shown yet", 4, None),
            ("a collection", 1, None),
            ("a collection", 1, Some(Domain::PageCache)),
            ("a collection", 4, None),
        ];
        for (place, partitions, assume_domain) in places {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let mut options = EngineOptions::new(folder.path().join("pool"));
            options.pool_options.size_max = 32 << 20;
            options.pool_options.assume_domain = assume_domain;
            options.partitioning = Some(Partitioning::Hash(partitions));
            let engine = IndexLog::open(&options).unwrap();
            let space = engine.key_space("space").unwrap();
            engine.partition(b"").unwrap().health.plant(place);
            let refused: Vec<_> = thread::scope(|scope| {
                let engine = &engine;
                let write = move |thread| move || write_until_refused(engine, space, thread);
                let threads: Vec<_> = (0..THREADS).map(|at| scope.spawn(write(at))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let message = format!("panicked: planted in {place}");
            let is_told =
                |error: Error| matches!(&error, Error::Poisoned { why } if why.contains(&message));
            for (_, why) in &refused {
                assert!(why.contains(&message), "{place}: {why}");
            }
            let removal = [Op::DeleteRange { space, start: b"", end: None }];
            assert!(is_told(engine.write(&removal, Durability::Deferred).unwrap_err()));
            let of_nothing = [Op::DeleteRange { space, start: b"z", end: None }];
            assert!(is_told(engine.write(&of_nothing, Durability::Deferred).unwrap_err()));
            assert!(is_told(engine.write_bookkeeping(&removal, Durability::Deferred).unwrap_err()));
            assert!(is_told(engine.write_if(&removal, Durability::Deferred, &[]).unwrap_err()));
            assert!(is_told(engine.sync().unwrap_err()));
            assert!(is_told(engine.collect_ahead(0).unwrap_err()));
            assert!(is_told(engine.key_space("another").unwrap_err()));

            // Writes that were taken are there, before the store closes and behind it; those that were refused may be.
            let mut last = BTreeMap::new();
            for (thread, (taken, _)) in refused.iter().enumerate() {
                (0..*taken).for_each(|number| {
                    last.insert((thread as u32, number % KEYS), number);
                });
            }
            let check = |engine: &IndexLog| {
                for (&(thread, at), &number) in &last {
                    let next = refused[thread as usize].0;
                    let found =
                        [0, 1].map(|of| number_of(engine, space, &key(thread, at, of)).unwrap());
                    let may_be_next = next % KEYS == at && found == [next; 2];
                    assert!(found == [number; 2] || may_be_next, "{place}: {found:?}, {number}");
                }
            };
            check(&engine);
            drop(engine);
            let engine = IndexLog::open(&options).unwrap();
            check(&engine);
            engine.write(&removal, Durability::Immediate).unwrap();
        }
    }
}
