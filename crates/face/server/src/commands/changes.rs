//! HALITE.CHANGES: the change log, read by those who follow it.
//!
//! A reader asks for the changes behind a position, and gets some of them: so the server keeps nothing for a reader that
//! is slow, but a place in the log, and a reader that comes back goes on by the last position that it got.

use std::ops::Range;

use halite::{Change, ChangeOp, EngineError};

use crate::call::Call;
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome};
use crate::partition_set::PartitionSet;
use crate::reply::Reply;

/// Bytes of keys and values behind which no more changes are added to a reply.
const BYTES: usize = 256 << 10;

/// Bytes of the frame of a change, or of an operation, in a reply: at most.
const FRAME: usize = 64;

/// Changes of a reply at most.
const CHANGES: usize = 1000;

/// Returns, for each partition, the oldest position and the one behind the last change.
pub(super) fn positions(call: &mut Call<'_>) -> Outcome {
    let store = &call.service.store;
    let all = (0..store.partitions()).map(|partition| store.database().change_positions(partition));
    let all: Vec<Range<u64>> = all.collect::<Result<_, _>>().map_err(failed)?;
    let mut reply = call.reply();
    reply.array(all.len());
    for positions in all {
        reply.array(2);
        reply.integer(positions.start as i64);
        reply.integer(positions.end as i64);
    }
    Ok(())
}

/// Returns the numbers and names of the key spaces.
pub(super) fn spaces(call: &mut Call<'_>) -> Outcome {
    let spaces = call.service.store.database().key_spaces()?;
    let mut reply = call.reply();
    reply.array(spaces.len());
    for space in spaces {
        reply.array(2);
        reply.integer(space.id().0.into());
        reply.bulk(space.name().as_bytes());
    }
    Ok(())
}

/// Returns the next changes of a partition behind a position.
pub(super) fn read(call: &mut Call<'_>) -> Outcome {
    let partition = partition(call)?;
    let position = u64::try_from(call.integer(3)?).map_err(|_| NOT_AN_INTEGER)?;
    let kept = call.client.changes.remove(&partition);
    let mut changes = match kept {
        Some((at, changes)) if at == position => changes,
        _ => call.service.store.database().changes(partition, position).map_err(failed)?,
    };
    let most = call.service.settings.reply_len_max();
    let (mut some, mut bytes, mut at, mut goes_on) = (Vec::new(), 0, position, true);
    while goes_on && bytes < BYTES.min(most) && some.len() < CHANGES {
        call.check_ending()?;
        let change = match changes.next().transpose() {
            Ok(Some(change)) => change,
            Ok(None) => break,
            Err(error) if some.is_empty() => return Err(failed(error)),
            // The changes before it come first; the next request meets it again.
            Err(_) => {
                goes_on = false;
                continue;
            }
        };
        let len = FRAME + change.ops.iter().map(len_of).sum::<usize>();
        if bytes + len <= most {
            bytes += len;
            at = change.position;
            some.push(change);
        } else if some.is_empty() {
            let text = format!(
                "ERR the change behind position {position} of partition {partition} takes {len} bytes, and a reply at \
                 most {most} (client-output-buffer-limit, maxmemory-clients)"
            );
            return Err(text.into());
        } else {
            goes_on = false;
        }
    }
    if goes_on {
        call.client.changes.insert(partition, (at, changes));
    }
    let mut reply = call.reply();
    reply.array(some.len());
    some.iter().for_each(|change| write(&mut reply, change));
    Ok(())
}

/// The partition that a request names, if its changes can be read.
fn partition(call: &Call<'_>) -> Outcome<usize> {
    let (store, number) = (&call.service.store, call.integer(2)?);
    let count = store.partitions();
    let known = usize::try_from(number).ok().filter(|&number| number < count);
    let number = known.ok_or_else(|| {
        format!("ERR there is no partition {number}: this database has {count}, numbered from 0")
    })?;
    if !PartitionSet::only(number).is_within(call.service.shared.loading.ready()) {
        return Err(format!("LOADING partition {number} is not recovered yet").into());
    }
    Ok(number)
}

fn failed(error: halite::Error) -> Failure {
    match error {
        halite::Error::Engine(EngineError::NoChangeLog) => {
            format!("ERR {error} (`halite serve --change-log`, of the engine `indexlog`)").into()
        }
        error => error.into(),
    }
}

/// Bytes of an operation in a reply.
fn len_of(op: &ChangeOp) -> usize {
    let words = match op {
        ChangeOp::Put { key, value, .. } => key.len() + value.len(),
        ChangeOp::Superseded { key, .. } | ChangeOp::Delete { key, .. } => key.len(),
        ChangeOp::DeleteRange { start, end, .. } => start.len() + end.as_ref().map_or(0, Vec::len),
        _ => 0,
    };
    FRAME + words
}

fn write(reply: &mut Reply<'_>, change: &Change) {
    reply.array(2);
    reply.integer(change.position as i64);
    reply.array(change.ops.len());
    for op in &change.ops {
        let (what, space, words): (_, _, Vec<&[u8]>) = match op {
            ChangeOp::CreateKeySpace { space, name } => {
                ("create", Some(space), vec![name.as_bytes()])
            }
            ChangeOp::DropKeySpace { name } => ("drop", None, vec![name.as_bytes()]),
            ChangeOp::Put { space, key, value } => ("put", Some(space), vec![key, value]),
            ChangeOp::Superseded { space, key } => ("superseded", Some(space), vec![key]),
            ChangeOp::Delete { space, key } => ("delete", Some(space), vec![key]),
            ChangeOp::DeleteRange { space, start, end } => {
                let range = std::iter::once(start).chain(end).map(Vec::as_slice);
                ("delete-range", Some(space), range.collect())
            }
            _ => ("other", None, vec![]),
        };
        reply.array(1 + usize::from(space.is_some()) + words.len());
        reply.bulk(what.as_bytes());
        if let Some(space) = space {
            reply.integer(space.0.into());
        }
        words.iter().for_each(|word| reply.bulk(word));
    }
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "HALITE.CHANGES <subcommand> [<arg> [value] ...]. Subcommands are:",
        "POSITIONS",
        "    Returns the oldest position of each partition, and the one behind its last change.",
        "SPACES",
        "    Returns the numbers and names of the key spaces.",
        "READ <partition> <position>",
        "    Returns the next changes behind a position, 0 or one that was returned: of each its",
        "    position, and its operations: create, drop, put, superseded, delete, delete-range.",
        "HELP",
        "    Prints this help.",
        "`halite tail --server ADDRESS [--follow]` prints them.",
    ]);
    Ok(())
}
