//! Group commit: the writes of threads that wait for one log are one batch there, with one fence.
//!
//! On an ordinary file a fence is a sync, of a hundred microseconds and more, and writes that wait for one under the
//! writer's lock would take turns. So a thread leaves a copy of its operations, and waits; one of the threads that wait
//! leads (`halite_sync`): it takes all writes that came while the group before it was synced, and writes them as one
//! batch. After a power cut the batch is there or not, and readers see it at once, which is more than each of its
//! writes was promised. Where a batch is refused, its writes are tried one by one, in the order in which they came: one
//! that finds no room takes no other with it.
//!
//! | | fences | copies |
//! |---|---|---|
//! | writes of a group, up to [`BATCH_LEN_MAX`] | 1 | 1 in DRAM, of keys and values |

use halite_contract::{Durability, Error, Op, Result, WriteBatch};
use halite_pmem::{Domain, Pool};
use halite_sim::locks::Mutex;
use halite_sync::Group;

use crate::partition::Partition;
use crate::write::Writer;

/// Bytes of keys and values that a batch of several writes has at most.
const BATCH_LEN_MAX: usize = 256 << 10;

/// A write with more bytes of keys and values is not copied: it is written alone.
const COPY_LEN_MAX: usize = 32 << 10;

/// The writes of threads that wait for the log of a partition.
#[derive(Default)]
pub(crate) struct GroupCommit {
    group: Group,
    waiting: Mutex<Waiting>,
    /// The numbers of writes that were refused, whose threads do not know yet.
    refused: Mutex<Vec<(u64, Error)>>,
}

/// Writes that were not taken yet. They have successive numbers, from 1 on.
#[derive(Default)]
struct Waiting {
    ops: WriteBatch,
    /// How many operations there are up to the end of each write.
    ends: Vec<usize>,
    /// The number of the last write that was taken before.
    taken: u64,
}

impl Waiting {
    /// The number of the last write.
    fn last(&self) -> u64 {
        self.taken + self.ends.len() as u64
    }
}

impl GroupCommit {
    /// Whether a durable write of these operations is for a group.
    pub(crate) fn takes(pool: &Pool, ops: &[Op<'_>]) -> bool {
        pool.domain() == Domain::PageCache && byte_len(ops) <= COPY_LEN_MAX
    }

    /// Writes operations on a partition, durably, together with those of all threads that wait.
    pub(crate) fn write(&self, partition: &Partition, ops: &[Op<'_>]) -> Result<()> {
        let number = {
            let mut waiting = self.waiting.lock();
            ops.iter().for_each(|op| waiting.ops.push(op));
            let end = waiting.ops.len();
            waiting.ends.push(end);
            waiting.last()
        };
        let take = || {
            let mut waiting = self.waiting.lock();
            let last = waiting.last();
            let next = Waiting { taken: last, ..Waiting::default() };
            (std::mem::replace(&mut *waiting, next), last)
        };
        self.group.commit(number, take, |taken| {
            partition.change(|writer| {
                // Where the leader of a write's group panicked, the write is in no later group.
                writer.check_health()?;
                self.write_group(partition, writer, &taken);
                partition.pace_snapshot(writer);
                Ok(())
            })
        })?;
        let mut refused = self.refused.lock();
        match refused.iter().position(|(of, _)| *of == number) {
            Some(at) => Err(refused.swap_remove(at).1),
            None => Ok(()),
        }
    }

    /// Writes what a leader has taken, in batches.
    fn write_group(&self, partition: &Partition, writer: &mut Writer, taken: &Waiting) {
        let ops = taken.ops.ops();
        let starts = std::iter::once(0).chain(taken.ends.iter().copied());
        let writes: Vec<_> =
            starts.zip(&taken.ends).map(|(start, end)| &ops[start..*end]).collect();
        let (mut rest, mut number) = (&writes[..], taken.taken);
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(batch_of(rest));
            self.write_batch(partition, writer, batch, number);
            number += batch.len() as u64;
            rest = behind;
        }
    }

    /// Writes a batch; `before` is the number of the write before it.
    fn write_batch(
        &self,
        partition: &Partition,
        writer: &mut Writer,
        writes: &[&[Op<'_>]],
        before: u64,
    ) {
        let mut write = |ops: &[Op<'_>]| partition.write(writer, ops, Durability::Immediate);
        let Err(error) = write(&writes.concat()) else { return };
        let mut failure = Some(error);
        for (number, ops) in (before + 1..).zip(writes) {
            let refused = match writes {
                [_] => failure.take(),
                _ => match write(ops) {
                    // The first of them learns why no other is written any more.
                    Err(Error::Poisoned { why }) => {
                        failure.take().or(Some(Error::Poisoned { why }))
                    }
                    written => written.err(),
                },
            };
            self.refused.lock().extend(refused.map(|error| (number, error)));
        }
    }
}

/// How many of the first writes are one batch.
fn batch_of(writes: &[&[Op<'_>]]) -> usize {
    let mut len = 0;
    let fits = |ops: &&&[Op<'_>]| {
        len += byte_len(ops);
        len <= BATCH_LEN_MAX
    };
    writes.iter().take_while(fits).count().max(1)
}

/// Bytes of keys and values.
fn byte_len(ops: &[Op<'_>]) -> usize {
    let len = |op: &Op<'_>| match *op {
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Delete { key, .. } => key.len(),
        Op::DeleteRange { start, end, .. } => start.len() + end.map_or(0, <[u8]>::len),
    };
    ops.iter().map(len).sum()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use halite_contract::{Engine, EngineOptions, KeySpaceId};
    use halite_sim::{Call, Failures};
    use tempfile::TempDir;

    use super::*;
    use crate::IndexLog;

    /// A store of one partition whose fences are taken for syncs, and its key space.
    fn open(size_max: u64) -> (TempDir, IndexLog, KeySpaceId) {
        open_with(size_max, Failures::default())
    }

    fn open_with(size_max: u64, failures: Failures) -> (TempDir, IndexLog, KeySpaceId) {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.pool_options.size_max = size_max;
        options.pool_options.assume_domain = Some(Domain::PageCache);
        options.pool_options.failures = Some(failures);
        let engine = IndexLog::open(&options).unwrap();
        let space = engine.key_space("space").unwrap();
        (folder, engine, space)
    }

    /// Has threads write one batch each while a writer's lock is held, until all wait for it, and lets them go on.
    fn write_at_once<'a>(
        engine: &IndexLog,
        batches: impl IntoIterator<Item = Vec<Op<'a>>>,
    ) -> Vec<Result<()>> {
        let partition = engine.partition(b"").unwrap();
        let numbers_before = partition.group_commit.waiting.lock().last();
        let batches: Vec<_> = batches.into_iter().collect();
        thread::scope(|scope| {
            let writer = partition.writer.lock();
            let threads: Vec<_> = batches
                .iter()
                .zip(numbers_before + 1..)
                .map(|(ops, number)| {
                    let thread = scope.spawn(|| engine.write(ops, Durability::Immediate));
                    while partition.group_commit.waiting.lock().last() < number {
                        thread::yield_now();
                    }
                    thread
                })
                .collect();
            drop(writer);
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn writes_that_wait_share_a_fence() {
        let (_folder, engine, space) = open(64 << 20);
        let keys: Vec<_> = (0..20_u32).map(u32::to_be_bytes).collect();
        let put = |key: &'static [u8]| Op::Put { space, key, value: b"value" };
        engine.write(&[put(b"first")], Durability::Immediate).unwrap();
        let before = engine.stats().traffic.fences;
        let batches = keys.iter().map(|key| vec![Op::Put { space, key, value: b"value" }]);
        let written = write_at_once(&engine, batches);
        assert!(written.iter().all(Result::is_ok));
        // The first of them led before the others came.
        assert_eq!(engine.stats().traffic.fences - before, 2);
        assert_eq!(engine.len(space).unwrap(), 21);
    }

    #[test]
    fn a_write_that_is_refused_takes_no_other_with_it() {
        let (_folder, engine, space) = open(8 << 20);
        let dropped = engine.key_space("dropped").unwrap();
        engine.drop_key_space(dropped).unwrap();
        let fill = vec![7; 30 << 10];
        let mut key = 0_u32;
        let full = loop {
            key += 1;
            let key = key.to_be_bytes();
            let put = Op::Put { space, key: &key, value: &fill };
            if let Err(error) = engine.write(&[put], Durability::Immediate) {
                break error;
            }
        };
        assert!(matches!(full, Error::Full { .. }), "{full}");
        let long = |key| Op::Put { space, key, value: &fill };
        let written = write_at_once(
            &engine,
            [
                vec![Op::Delete { space, key: b"nothing" }],
                vec![long(b"a")],
                vec![Op::Put { space: dropped, key: b"b", value: b"" }],
                vec![Op::Delete { space, key: &1_u32.to_be_bytes() }],
                vec![Op::DeleteRange {
                    space,
                    start: &2_u32.to_be_bytes(),
                    end: Some(&[0, 0, 0, 9]),
                }],
                vec![long(b"c")],
            ],
        );
        assert!(matches!(written[1], Err(Error::Full { .. })), "{written:?}");
        assert!(matches!(written[2], Err(Error::NoSuchKeySpace)), "{written:?}");
        for at in [0, 3, 4] {
            assert!(written[at].is_ok(), "{written:?}");
        }
        // Refused or not, as its answer says.
        assert_eq!(engine.get(space, b"c").unwrap().is_some(), written[5].is_ok());
        assert!(engine.get(space, b"a").unwrap().is_none());
        assert_eq!(
            engine.len(space).unwrap(),
            u64::from(key - 1 - 8) + u64::from(written[5].is_ok())
        );
        assert!(engine.partition(b"").unwrap().group_commit.refused.lock().is_empty());
    }

    #[test]
    fn a_group_of_many_bytes_is_several_batches() {
        let (_folder, engine, space) = open(64 << 20);
        let value = vec![1; COPY_LEN_MAX - 64];
        let keys: Vec<_> = (0..17_u32).map(u32::to_be_bytes).collect();
        let batches = keys.iter().map(|key| vec![Op::Put { space, key, value: &value }]);
        let before = engine.stats().traffic.fences;
        assert!(write_at_once(&engine, batches).iter().all(Result::is_ok));
        assert_eq!(engine.len(space).unwrap(), 17);
        assert!(engine.stats().traffic.fences - before >= 3);
        let ops: Vec<_> = keys.iter().map(|key| Op::Put { space, key, value: &value }).collect();
        let writes: Vec<_> = ops.iter().map(std::slice::from_ref).collect();
        assert_eq!(batch_of(&writes), BATCH_LEN_MAX / (COPY_LEN_MAX - 60));
        let whole = vec![2; BATCH_LEN_MAX];
        assert_eq!(batch_of(&[&[Op::Put { space, key: b"k", value: &whole }], writes[0]]), 1);
    }

    #[test]
    fn after_a_failed_sync_one_thread_learns_why_and_all_are_refused() {
        let failures = Failures::default();
        let (_folder, engine, space) = open_with(64 << 20, failures.clone());
        let put = |key| vec![Op::Put { space, key, value: b"value" }];
        engine.write(&put(b"before"), Durability::Immediate).unwrap();
        failures.fail_every(Call::Sync, 5);
        let written = write_at_once(&engine, [&b"a"[..], b"b", b"c", b"d"].map(put));
        failures.stop();
        let is_poisoned = |result: &Result<()>| matches!(result, Err(Error::Poisoned { .. }));
        assert!(written.iter().all(Result::is_err), "{written:?}");
        assert_eq!(written.iter().filter(|result| is_poisoned(result)).count(), 3, "{written:?}");
        assert!(is_poisoned(&engine.write(&put(b"e"), Durability::Immediate)));
        // What may be lost is not shown.
        assert_eq!(engine.len(space).unwrap(), 1);
    }
}
