//! The intent log: every change, in the order of its sequence, until a checkpoint has it.
//!
//! It lies in the fastest class: in the pool, where a commit costs one fence, or, if the pool is an ordinary file, in
//! files of the folder beside it, where commits share a sync.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::Result;
use halite_disk::Disk;
use halite_wal::pool_log::{BATCH_MAX, PoolFound, PoolKnown, PoolLog, PoolShape};
use halite_wal::{Found, Identity, Known, Shape, Wal};

use crate::failure::{from_log, from_replay};
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::store::superblock::Superblock;

/// The device of the pool that has the log.
const DEVICE: u16 = 1;

/// Bytes of a file of the log: not more, and not less.
const FILE_MAX: u64 = 32 << 20;
const FILE_MIN: u64 = 64 << 10;

/// Bytes of a batch, where the log is in files.
const BATCH_IN_FILES_MAX: u64 = 256 << 20;

/// How a log is opened.
pub(crate) struct Opening {
    pub(crate) is_in_pool: bool,
    /// Whether a repair has given up all behind its whole batches.
    pub(crate) is_repaired: bool,
    pub(crate) checkpoint_bytes: u64,
}

/// The intent log of an open store.
pub(crate) enum Log {
    /// In files: threads share a sync.
    Files(Wal),
    /// In segments of the pool: a fence each.
    Pool(PoolLog),
}

/// A batch of a log that is replayed: its first sequence, how many changes it has, and these.
pub(crate) type Replay<'a> = &'a mut dyn FnMut(u64, u32, &[u8]) -> Result<()>;

impl Log {
    /// Replays the log of a store, and opens it behind the batches that are whole.
    pub(crate) fn open(
        home: &Arc<Segments>,
        disk: &Disk,
        (identity, superblock): (Identity, &Superblock),
        Opening { is_in_pool, is_repaired, checkpoint_bytes }: Opening,
        replay: Replay<'_>,
    ) -> Result<Self> {
        if is_in_pool {
            let kept = (2 * checkpoint_bytes / halite_alloc::SEGMENT) as usize;
            let shape = PoolShape { kept, ..PoolShape::default() };
            let mut found = read_in_pool(home, identity, superblock, shape, replay)?;
            if is_repaired {
                found.accept_end();
            }
            return Ok(Self::Pool(PoolLog::open(found).map_err(from_log)?));
        }
        // A repair may have set aside what the superblock knows of.
        let known = known_files(superblock);
        let known = if is_repaired { Known { first: 0, end: (0, 0), ..known } } else { known };
        let found = Found::read(disk, identity, known, |batch| {
            replay(batch.sequence, batch.records, batch.payload)
        });
        let file_bytes = checkpoint_bytes.clamp(FILE_MIN, FILE_MAX);
        let shape = Shape { file_bytes, kept_bytes: 2 * checkpoint_bytes };
        let wal =
            Wal::open(disk, identity, found.map_err(from_replay)?, shape).map_err(from_log)?;
        Ok(Self::Files(wal))
    }

    /// Bytes that a batch may have.
    pub(crate) fn batch_max(&self) -> u64 {
        match self {
            Self::Files(_) => BATCH_IN_FILES_MAX,
            Self::Pool(_) => BATCH_MAX as u64,
        }
    }

    /// Makes sure that a batch of so many bytes can be appended, in its turn. Puts leave the spare space to bookkeeping
    /// and removals, and bookkeeping a half of it to removals.
    pub(crate) fn prepare(&self, len: usize, purpose: Purpose) -> Result<()> {
        match self {
            Self::Files(wal) => {
                let (len, left) = (len as u64, left_of(wal.spare(), purpose));
                if wal.lacks(len, left) {
                    wal.grow(len, left).map_err(from_log)?;
                }
                wal.place(len).map_err(from_log)
            }
            Self::Pool(log) => {
                let left = left_of(log.spare() as u64, purpose) as usize;
                if log.lacks(len, left) {
                    log.grow(len, left).map_err(from_log)?;
                }
                Ok(())
            }
        }
    }

    /// Appends a batch for which room was prepared, in its turn. Returns up to where the log has to be durable for it.
    /// In the pool, one that waits for that is durable on return: one fence.
    pub(crate) fn append(&self, sequence: u64, batch: &Batch, waits: bool) -> Result<u64> {
        let payload = |to: &mut Vec<u8>| to.extend_from_slice(batch.bytes());
        match self {
            Self::Files(wal) => Ok(wal.append(sequence, batch.changes(), payload)),
            Self::Pool(log) => {
                log.append(sequence, batch.changes(), waits, payload).map_err(from_log)?;
                Ok(sequence + u64::from(batch.changes()))
            }
        }
    }

    /// Makes everything durable up to an end: in files, one sync, which threads share; in the pool, one fence, unless it
    /// is durable.
    #[track_caller]
    pub(crate) fn sync_to(&self, end: u64) -> Result<()> {
        match self {
            Self::Files(wal) => wal.sync_to(end).map_err(from_log),
            Self::Pool(log) if log.durable() >= end => Ok(()),
            Self::Pool(log) => log.sync().map_err(from_log),
        }
    }

    /// Makes everything durable that was appended.
    #[track_caller]
    pub(crate) fn sync(&self) -> Result<()> {
        match self {
            Self::Files(wal) => wal.sync().map_err(from_log),
            Self::Pool(log) => log.sync().map_err(from_log),
        }
    }

    /// Gives everything that was appended to the operating system.
    pub(crate) fn hand_over(&self) -> Result<()> {
        match self {
            Self::Files(wal) => wal.hand_over().map_err(from_log),
            Self::Pool(_) => Ok(()),
        }
    }

    /// The file, or segment, that is appended to, and how long it is, when everything is durable.
    pub(crate) fn end(&self) -> (u64, u64) {
        match self {
            Self::Files(wal) => wal.end(),
            Self::Pool(log) => {
                let (segment, len) = log.end();
                (u64::from(segment), len)
            }
        }
    }

    /// Bytes that have batches.
    pub(crate) fn used_bytes(&self) -> u64 {
        match self {
            Self::Files(wal) => wal.used_bytes(),
            Self::Pool(log) => log.bytes().0,
        }
    }

    /// Lets the files, or segments, before one that is needed serve again.
    pub(crate) fn release(&self, first: u64) -> Result<()> {
        match self {
            Self::Files(wal) => wal.release(first, true).map_err(from_log),
            Self::Pool(log) => log.release(first as u32).map_err(from_log),
        }
    }

    /// Makes everything durable, and gives back the space that is set aside.
    pub(crate) fn close(&self) -> Result<()> {
        match self {
            Self::Files(wal) => wal.close().map(drop).map_err(from_log),
            Self::Pool(log) => log.close().map(drop).map_err(from_log),
        }
    }

    /// Does ahead of commits what they would have to do: the next file gets its zeros, or the spare segments are made
    /// ready.
    pub(crate) fn prepare_ahead(&self) -> Result<()> {
        match self {
            Self::Files(wal) if wal.asks_to_prepare() || wal.must_prepare() => {
                wal.prepare().map_err(from_log)
            }
            Self::Pool(log) if log.missing_spare() > 0 => {
                log.grow(0, log.spare()).map_err(from_log)
            }
            _ => Ok(()),
        }
    }
}

/// The bounds of a log in files, as a superblock has them. A repair may have cut the log below the sequence that the
/// trees have: it goes on behind that sequence, and no replay needs what is missing.
pub(crate) fn known_files(superblock: &Superblock) -> Known {
    let Superblock { log_first, log_end, applied, .. } = *superblock;
    Known { first: log_first, resumed: applied + 1, end: log_end }
}

/// Reads the log in the pool, and changes nothing.
pub(crate) fn read_in_pool(
    home: &Arc<Segments>,
    identity: Identity,
    superblock: &Superblock,
    shape: PoolShape,
    replay: Replay<'_>,
) -> Result<PoolFound> {
    let Superblock { log_first, log_end, applied, .. } = *superblock;
    let end = (log_end.0 as u32, log_end.1);
    let known = PoolKnown { first: log_first as u32, sequence: applied + 1, end };
    PoolFound::read(&home.device(DEVICE), identity, known, shape, |batch| {
        replay(batch.sequence, batch.records, &batch.payload)
    })
    .map_err(from_replay)
}

/// The spare room that a batch leaves.
fn left_of(spare: u64, purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Put => spare,
        Purpose::Bookkeeping => spare / 2,
        Purpose::Removal => 0,
    }
}
