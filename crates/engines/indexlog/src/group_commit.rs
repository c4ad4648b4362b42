//! Group commit: the writes of threads that wait for one log are one batch there, with one fence.
//!
//! On an ordinary file a fence is a sync, of a hundred microseconds and more, and writes that wait for one under the
//! writer's lock would take turns. So a thread leaves a copy of its operations, and waits; one of the threads that wait
//! leads (`halite_sync`): it takes all writes that came since the leader before it took its own, and writes them as one
//! batch. After a power cut the batch is there or not, and readers see it at once, which is more than each of its
//! writes was promised. Where a batch is refused, each half of it is tried alone, down to single writes: one that finds
//! no room takes no other with it. A delete of a key that is not there writes nothing, and stays out of the batch.
//!
//! | | fences | copies |
//! |---|---|---|
//! | writes of a group, up to [`BATCH_LEN_MAX`], none refused | 1 | 1 in DRAM, of keys and values |

use halite_contract::{Durability, Error, Op, Result, WriteBatch};
use halite_pmem::{Domain, Pool};
use halite_sim::locks::Mutex;
use halite_sync::Group;

use crate::partition::Partition;
use crate::write::{Writer, is_needless};

/// Bytes of a batch of several writes, at most.
const BATCH_LEN_MAX: usize = 256 << 10;

/// A write of more bytes is not copied: it is written alone.
const COPY_LEN_MAX: usize = 32 << 10;

/// Bytes that the copy of an operation takes besides its keys and values, about.
const OP_LEN: usize = 64;

/// The writes of threads that wait for the log of a partition.
#[derive(Default)]
pub(crate) struct GroupCommit {
    group: Group,
    /// The writes that no leader has taken.
    waiting: Mutex<Writes>,
    /// The numbers of writes that were refused, whose threads do not know yet.
    refused: Mutex<Vec<(u64, Error)>>,
}

/// Writes with successive numbers.
#[derive(Default)]
struct Writes {
    ops: WriteBatch,
    /// How many operations there are up to the end of each write.
    ends: Vec<usize>,
    /// The number of the write before the first.
    before: u64,
}

/// A write, and its number.
type Numbered<'a> = (u64, &'a [Op<'a>]);

impl Writes {
    /// Adds a write. Returns its number.
    fn push(&mut self, ops: &[Op<'_>]) -> u64 {
        ops.iter().for_each(|op| self.ops.push(op));
        self.ends.push(self.ops.len());
        self.last()
    }

    /// The number of the last write.
    fn last(&self) -> u64 {
        self.before + self.ends.len() as u64
    }
}

impl GroupCommit {
    /// Whether a durable write of these operations is for a group.
    pub(crate) fn takes(pool: &Pool, ops: &[Op<'_>]) -> bool {
        pool.domain() == Domain::PageCache && byte_len(ops) <= COPY_LEN_MAX
    }

    /// Writes operations on a partition, durably, together with those of all threads that wait.
    pub(crate) fn write(&self, partition: &Partition, ops: &[Op<'_>]) -> Result<()> {
        partition.check_spaces(ops)?;
        let number = self.waiting.lock().push(ops);
        let take = || {
            let mut waiting = self.waiting.lock();
            let last = waiting.last();
            let next = Writes { before: last, ..Writes::default() };
            (std::mem::replace(&mut *waiting, next), last)
        };
        self.group.commit(number, take, |taken| {
            partition.change(|writer| {
                // A write whose leader panicked is in no later group: its thread must not take the success of one for
                // its own.
                writer.check_health()?;
                self.write_group(partition, writer, &taken);
                if writer.check_health().is_ok() {
                    partition.pace_snapshot(writer);
                }
                Ok(())
            })
        })?;
        let mut refused = self.refused.lock();
        match refused.iter().position(|(of, _)| *of == number) {
            Some(at) => Err(refused.swap_remove(at).1),
            None => Ok(()),
        }
    }

    /// Writes what a leader has taken. All of these writes wait, so that any order is right.
    fn write_group(&self, partition: &Partition, writer: &mut Writer, taken: &Writes) {
        let ops = taken.ops.ops();
        let starts = std::iter::once(0).chain(taken.ends.iter().copied());
        let writes = starts.zip(&taken.ends).map(|(start, end)| &ops[start..*end]);
        // A delete that meets a damaged record is apart, too: the error is its own.
        let is_apart = |(_, ops): &Numbered<'_>| {
            !matches!(is_needless(&partition.view.read(), ops), Ok(false))
        };
        let (apart, writes): (Vec<_>, Vec<_>) =
            (taken.before + 1..).zip(writes).partition(is_apart);
        for write in apart.chunks(1) {
            self.write_batch(partition, writer, write);
        }
        let mut rest = &writes[..];
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(batch_of(rest));
            self.write_batch(partition, writer, batch);
            rest = behind;
        }
    }

    /// Writes a batch, or what of it is not refused.
    fn write_batch(&self, partition: &Partition, writer: &mut Writer, batch: &[Numbered<'_>]) {
        let ops: Vec<_> = batch.iter().flat_map(|(_, ops)| *ops).copied().collect();
        let Err(error) = partition.write(writer, &ops, Durability::Immediate) else { return };
        let [(first, _), others @ ..] = batch else { return };
        if others.is_empty() {
            self.refused.lock().push((*first, error));
        } else if writer.check_health().is_err() {
            // One thread learns why no other is written any more.
            let others = others.iter().filter_map(|(number, _)| {
                writer.check_health().err().map(|poisoned| (*number, poisoned))
            });
            self.refused.lock().extend(std::iter::once((*first, error)).chain(others));
        } else {
            let (half, other) = batch.split_at(batch.len() / 2);
            self.write_batch(partition, writer, half);
            self.write_batch(partition, writer, other);
        }
    }
}

/// How many of the first writes are one batch.
fn batch_of(writes: &[Numbered<'_>]) -> usize {
    let mut len = 0;
    let fits = |(_, ops): &&Numbered<'_>| {
        len += byte_len(ops);
        len <= BATCH_LEN_MAX
    };
    writes.iter().take_while(fits).count().max(1)
}

/// Bytes that operations take.
fn byte_len(ops: &[Op<'_>]) -> usize {
    let len = |op: &Op<'_>| match *op {
        Op::Put { key, value, .. } => key.len() + value.len(),
        Op::Delete { key, .. } => key.len(),
        Op::DeleteRange { start, end, .. } => start.len() + end.map_or(0, <[u8]>::len),
    };
    ops.iter().map(|op| OP_LEN + len(op)).sum()
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
        let waiting = || partition.group_commit.waiting.lock();
        let before = waiting().last();
        let batches: Vec<_> = batches.into_iter().collect();
        thread::scope(|scope| {
            let writer = partition.writer.lock();
            let threads: Vec<_> = batches
                .iter()
                .zip(before + 1..)
                .map(|(ops, number)| {
                    let thread = scope.spawn(|| engine.write(ops, Durability::Immediate));
                    // The first thread leads, and has taken its own write before the others come.
                    while waiting().last() < number || waiting().before == before {
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
        // That of the first, and that of the others.
        assert_eq!(engine.stats().traffic.fences - before, 2);
        assert_eq!(engine.len(space).unwrap(), 21);
    }

    #[test]
    fn a_write_that_is_refused_takes_no_other_with_it() {
        let (_folder, engine, space) = open(8 << 20);
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
                vec![long(b"b")],
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
        assert!(matches!(written[2], Err(Error::Full { .. })), "{written:?}");
        for at in [0, 3, 4] {
            assert!(written[at].is_ok(), "{written:?}");
        }
        // Refused or not, as its answer says.
        assert_eq!(engine.get(space, b"c").unwrap().is_some(), written[5].is_ok());
        assert!(engine.get(space, b"a").unwrap().is_none());
        assert!(engine.get(space, b"b").unwrap().is_none());
        assert_eq!(
            engine.len(space).unwrap(),
            u64::from(key - 1 - 8) + u64::from(written[5].is_ok())
        );
        assert!(engine.partition(b"").unwrap().group_commit.refused.lock().is_empty());
        let dropped = engine.key_space("dropped").unwrap();
        engine.drop_key_space(dropped).unwrap();
        let removal = [Op::Delete { space: dropped, key: b"a" }];
        let refused = engine.write(&removal, Durability::Immediate);
        assert!(matches!(refused, Err(Error::NoSuchKeySpace)), "{refused:?}");
    }

    #[test]
    fn deletes_of_what_is_not_there_write_nothing() {
        let (_folder, engine, space) = open(64 << 20);
        engine.write(&[Op::Put { space, key: b"a", value: b"" }], Durability::Immediate).unwrap();
        let before = engine.stats().traffic;
        let keys: Vec<_> = (0..8_u8).map(|key| [b'b', key]).collect();
        let deletes = keys.iter().map(|key| match key[1] % 2 {
            0 => vec![Op::Delete { space, key }],
            _ => vec![Op::DeleteRange { space, start: key, end: None }],
        });
        assert!(write_at_once(&engine, deletes).iter().all(Result::is_ok));
        assert_eq!(engine.stats().traffic, before);
    }

    #[test]
    fn a_group_of_many_bytes_is_several_batches() {
        let (_folder, engine, space) = open(64 << 20);
        let value = vec![1; COPY_LEN_MAX - 2 * OP_LEN];
        let keys: Vec<_> = (0..17_u32).map(u32::to_be_bytes).collect();
        let batches = keys.iter().map(|key| vec![Op::Put { space, key, value: &value }]);
        let before = engine.stats().traffic.fences;
        assert!(write_at_once(&engine, batches).iter().all(Result::is_ok));
        assert_eq!(engine.len(space).unwrap(), 17);
        assert!(engine.stats().traffic.fences - before >= 3);
        let ops: Vec<_> = keys.iter().map(|key| Op::Put { space, key, value: &value }).collect();
        let writes: Vec<_> = (1..).zip(ops.iter().map(std::slice::from_ref)).collect();
        assert_eq!(batch_of(&writes), BATCH_LEN_MAX / byte_len(&ops[..1]));
        let whole = vec![2; BATCH_LEN_MAX];
        let put = [Op::Put { space, key: b"k", value: &whole }];
        assert_eq!(batch_of(&[(1, &put), writes[0]]), 1);
    }

    #[test]
    fn after_a_failed_sync_one_thread_learns_why_and_all_are_refused() {
        let failures = Failures::default();
        let (_folder, engine, space) = open_with(64 << 20, failures.clone());
        let put = |key| vec![Op::Put { space, key, value: b"value" }];
        engine.write(&put(b"before"), Durability::Immediate).unwrap();
        failures.fail_every(Call::Sync, 5);
        // The first needs no sync, so that the others are a group.
        let needless = vec![Op::Delete { space, key: b"nothing" }];
        let written = write_at_once(&engine, [needless, put(b"b"), put(b"c"), put(b"d")]);
        failures.stop();
        let is_poisoned = |result: &Result<()>| matches!(result, Err(Error::Poisoned { .. }));
        assert!(written[0].is_ok() && written[1..].iter().all(Result::is_err), "{written:?}");
        assert_eq!(written.iter().filter(|result| is_poisoned(result)).count(), 2, "{written:?}");
        assert!(is_poisoned(&engine.write(&put(b"e"), Durability::Immediate)));
        // The refused writes, which may be lost, are not shown.
        assert_eq!(engine.len(space).unwrap(), 1);
    }
}
