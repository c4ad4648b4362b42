//! Batches on several partitions: atomic, by one fence for all of them.
//!
//! The writers of all partitions concerned are locked, in ascending order. Each gets its part of the operations behind
//! its log's tail, and behind them a commit record (`commit_record`): a put of [`KEY`] in the internal key space, with
//! the batch's number and its participants. One fence then makes all parts durable, and all earlier appends to
//! those logs. Only then are the parts applied, under the locks of all views, so that a reader that looks at all of
//! them at once sees the whole batch or nothing; and only then does anything follow them.
//!
//! So, after a crash, only the last batch of a log may lack a part elsewhere. It is whole if every
//! participant's newest record of [`KEY`] has its number or a higher one; else its parts are cut off, as
//! the torn batch of one log is (`recovery/log_end.rs`). Numbers are drawn while the writers are locked, so they
//! ascend in every log.
//!
//! | | fences | lines written |
//! |---|---|---|
//! | batch on `n` partitions | 1 | its records and values, and one of 64 bytes a partition |

pub(crate) mod commit_record;
pub(crate) mod part;

use std::sync::Arc;

use halite_contract::{Durability, Error, KeySpaceId, Op, Partitioning, Result};

use crate::batch::commit_record::{Batch, KEY, Numbers};
use crate::batch::part::Part;
use crate::key_spaces::{CATALOGUE, INTERNAL};
use crate::log::overflow::Values;
use crate::partition::{Expanded, Partition};
use crate::storage::Storage;
use crate::validation::Validation;

/// Locks the writers of partitions, in ascending order, validates what is `expected` under the locks, and gives each
/// partition the operations on its keys.
///
/// A range goes to the partitions in which it removes something.
///
/// # Errors
/// [`halite_contract::Error::NoSuchKeySpace`]; [`halite_contract::Error::Conflict`].
pub(crate) fn lock<'a>(
    partitions: &'a [Arc<Partition>],
    partitioning: &Partitioning,
    ops: &[Op<'a>],
    expected: &[Validation<'_>],
) -> Result<Vec<Part<'a>>> {
    let mut is_expected = vec![false; partitions.len()];
    expected.iter().for_each(|expected| expected.mark(partitioning, &mut is_expected));
    let mut concerned = is_expected.clone();
    for op in ops {
        match *op {
            Op::Put { space, key, .. } | Op::Delete { space, key } => {
                concerned[partition_of(partitioning, space, key)] = true;
            }
            Op::DeleteRange { start, end, .. } => {
                partitioning.partitions_of(start, end).for_each(|at| concerned[at] = true);
            }
        }
    }
    let numbers = (0..partitions.len()).filter(|&at| concerned[at]);
    let mut parts: Vec<_> = numbers
        .map(|number| {
            let (partition, is_expected) = (&*partitions[number], is_expected[number]);
            let writer = partition.writer.lock();
            Part { number, partition, writer, ops: Vec::new(), is_expected }
        })
        .collect();
    // All partitions have the same key spaces.
    parts.first().map_or(&*partitions[0], |first| first.partition).check_spaces(ops)?;
    expected.iter().try_for_each(|expected| expected.check(&parts, partitioning))?;
    for op in ops {
        match *op {
            Op::Put { space, key, .. } | Op::Delete { space, key } => {
                let number = partition_of(partitioning, space, key);
                if let Ok(at) = parts.binary_search_by_key(&number, |part| part.number) {
                    parts[at].ops.push(*op);
                }
            }
            Op::DeleteRange { space, start, end } => {
                for number in partitioning.partitions_of(start, end) {
                    if let Ok(at) = parts.binary_search_by_key(&number, |part| part.number)
                        && (!parts[at].ops.is_empty()
                            || parts[at].partition.has_any(space, start, end)?)
                    {
                        parts[at].ops.push(*op);
                    }
                }
            }
        }
    }
    Ok(parts)
}

/// Records that are not spread over the partitions are in the first one.
fn partition_of(partitioning: &Partitioning, space: KeySpaceId, key: &[u8]) -> usize {
    let is_spread = space.0 != CATALOGUE && space.0 != INTERNAL;
    if is_spread { partitioning.partition_of(key) } else { 0 }
}

/// Writes the parts, atomically, and durably if there are several. The writes of other partitions that they rely on
/// are made durable before: a crash may take any of a partition's deferred writes.
pub(crate) fn write(
    parts: &mut [Part<'_>],
    numbers: &Numbers,
    durability: Durability,
) -> Result<()> {
    // A store that is poisoned refuses operations that change nothing, too.
    parts.iter().try_for_each(|part| part.writer.check_health())?;
    let (mut concerned, needless): (Vec<_>, Vec<_>) =
        parts.iter_mut().partition(|part| !part.ops.is_empty());
    // The writes that make the operations needless there may not be durable yet.
    let syncs = durability == Durability::Immediate || concerned.len() > 1;
    for part in needless {
        if syncs || (part.is_expected && !concerned.is_empty()) {
            part.writer.sync()?;
        }
    }
    match &mut concerned[..] {
        [] => Ok(()),
        [part] => part.partition.write(&mut part.writer, &part.ops, durability),
        several => write_several(several, numbers.draw()),
    }
}

fn write_several(parts: &mut [&mut Part<'_>], number: u64) -> Result<()> {
    let participants = parts.iter().fold(0, |all, part| all | 1 << part.number);
    let commit = Batch { number, participants }.encode();
    let commit = Op::Put { space: KeySpaceId(INTERNAL), key: KEY, value: &commit };
    let given: Vec<Vec<Op<'_>>> =
        parts.iter_mut().map(|part| std::mem::take(&mut part.ops)).collect();
    let expanded: Result<Vec<Expanded>> = parts
        .iter()
        .zip(&given)
        .map(|(part, ops)| part.partition.named(part.partition.expand(ops)))
        .collect();
    let expanded = expanded?;
    let ops: Vec<Vec<Op<'_>>> = given
        .iter()
        .zip(&expanded)
        .map(|(ops, expanded)| expanded.ops(ops).iter().copied().chain([commit]).collect())
        .collect();

    // Nothing is written as long as there may be no room.
    let made = make_room(parts, &ops);
    let values = match made.and_then(|()| write_values(parts, &ops)) {
        Err(full @ Error::Full { .. }) => {
            parts.iter_mut().try_for_each(|part| part.writer.storage.give_back_room())?;
            return Err(full);
        }
        values => values?,
    };
    let written = append(parts, &ops, values).and_then(|()| sync(parts));
    parts[0].writer.storage.space.health.place("a batch that is not shown yet");
    if let Err(error) = written.and_then(|()| apply(parts, &ops)) {
        // It is unknown which parts are durable, or they are durable and cannot be seen.
        let why = error.to_string();
        parts.iter_mut().for_each(|part| part.writer.storage.space.health.poison(&why));
        return Err(error);
    }
    Ok(())
}

/// Makes sure that all parts find room.
fn make_room(parts: &mut [&mut Part<'_>], ops: &[Vec<Op<'_>>]) -> Result<()> {
    for (part, ops) in parts.iter_mut().zip(ops) {
        let made = part.writer.make_room_for(&part.partition.view, ops);
        part.partition.named(made)?;
    }
    Ok(())
}

/// Writes the large values of all parts, or of none.
fn write_values(parts: &mut [&mut Part<'_>], ops: &[Vec<Op<'_>>]) -> Result<Vec<Values>> {
    let mut values = Vec::new();
    for at in 0..parts.len() {
        let view = &parts[at].partition.view;
        match parts[at].writer.write_values(view, &ops[at], false) {
            Ok(written) => values.push(written),
            Err(error) => {
                let written = parts.iter_mut().zip(values);
                written.for_each(|(part, values)| {
                    part.writer.storage.space.discard(values);
                });
                return Err(error);
            }
        }
    }
    Ok(values)
}

/// Shows all parts to readers at once.
fn apply(parts: &mut [&mut Part<'_>], ops: &[Vec<Op<'_>>]) -> Result<()> {
    let mut views: Vec<_> = parts.iter().map(|part| part.partition.view.write()).collect();
    for ((part, view), ops) in parts.iter_mut().zip(&mut views).zip(ops) {
        part.partition.named(part.writer.storage.apply(view, ops))?;
    }
    Ok(())
}

/// Writes the records of all parts.
fn append(parts: &mut [&mut Part<'_>], ops: &[Vec<Op<'_>>], values: Vec<Values>) -> Result<()> {
    for ((part, ops), values) in parts.iter_mut().zip(ops).zip(values) {
        let view = &part.partition.view;
        part.writer.append(view, ops, values, false)?;
    }
    Ok(())
}

/// Makes durable the bytes that wait in all logs. One fence.
fn sync(parts: &mut [&mut Part<'_>]) -> Result<()> {
    let mut flushed = Vec::new();
    let mut waiting = Vec::new();
    for part in parts.iter_mut() {
        let Storage { space, log, .. } = &mut part.writer.storage;
        let with_records = log.waits_for_records();
        let waits = with_records && log.durability.flush_pending(&mut flushed);
        waiting.push((flushed.len(), waits, with_records));
        log.flush_changes(&mut flushed);
        log.durability.flush_values(&mut flushed);
        space.map_mut().flush(&mut flushed);
    }
    let pool = parts[0].partition.pool.clone();
    let proofs = pool.fence_all(&flushed)?;
    for (part, (end, waits, with_records)) in parts.iter_mut().zip(waiting) {
        let last = end.checked_sub(1).and_then(|last| proofs.get(last)).filter(|_| waits);
        let Storage { space, log, .. } = &mut part.writer.storage;
        if with_records {
            log.end_sync(space, last, waits);
        } else {
            log.end_changes_sync();
        }
    }
    Ok(())
}
