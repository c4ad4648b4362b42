//! Applies the publications that a crash may have left without effect.
//!
//! The newest record whose bytes have their check is of a publication that happened; one whose bytes do not was
//! interrupted, and then the record in the other area is the newest one. The record before the newest one is applied
//! first: its words may not be durable in their places, if the power was cut in the newest one's fence. Words are stored
//! again in the order in which they were stored, so recovery may be interrupted and repeated.
//!
//! A state that a record stores occurs once, as it has the slot's generation. So if one is in its place, the record was
//! fenced before, with its bytes: those are damaged if they do not have their check, and the publication happened. If a
//! slot is in a state that follows the one of the newest record, a newer record is damaged. Otherwise a damaged newest
//! record cannot be told from an interrupted one.
//!
//! Costs: a fence, and two more if a record was applied. Looks at no chunk but those that the records' slots are in.

use halite_pmem::LINE;
use halite_sim::planted;

use super::ground::Ground;
use super::layout::{CHUNK, DEAD_OWNERS_MAX, chunk_of, dead_word_at};
use super::log::Log;
use super::record::{self, Entry, Record};
use super::table::Table;
use crate::Result;

/// Recovers a heap whose segments were claimed.
pub(super) fn recover(ground: &mut Ground, table: &mut Table) -> Result<Log> {
    let mut records = [Record::read(ground, 0), Record::read(ground, 1)];
    records.sort_by_key(|record| record.as_ref().map(|record| record.sequence));
    let [other, Some(newest)] = records else {
        return Err(ground.damaged("publication records", "neither has its check"));
    };
    // The process that stored a record, and the bytes that it publishes, may have died before its fence. So may one that
    // stored the words of chunk 0.
    newest.note(ground, table)?;
    ground.note(0, dead_word_at(DEAD_OWNERS_MAX).next_multiple_of(LINE));
    ground.fence_found()?;
    let other = other.filter(|other| other.sequence + 1 == newest.sequence);
    if other.is_none() && newest.was_followed(ground) {
        let why = "slots were published after the newest record that has its check";
        return Err(ground.damaged("publication records", why));
    }
    let happened = planted!(
        "alloc.heap-record-without-its-bytes",
        true,
        newest.has_its_bytes(ground, table)? || newest.was_applied(ground)
    );
    let (before, last) = match (happened, other) {
        (true, other) => (other, newest),
        (false, Some(other)) if other.has_its_bytes(ground, table)? => (None, other),
        (false, _) => {
            let why = "the bytes that the newest one published do not have their check";
            return Err(ground.damaged("publication records", why));
        }
    };
    if !last.is_barrier() {
        for record in before.iter().chain([&last]) {
            apply(ground, table, &record.entries)?;
        }
        ground.fence()?;
    }
    let mut log = Log::behind(last.sequence);
    if happened && last.is_barrier() {
        record::erase(ground, last.sequence + 1);
        return Ok(log);
    }
    settle(ground, table, &mut log)?;
    Ok(log)
}

/// Stores the words of a record in their places. Their chunks are to be looked at anew.
fn apply(ground: &mut Ground, table: &mut Table, entries: &[Entry]) -> Result<()> {
    for &entry in entries {
        let Some((place, len)) = entry.stores() else { continue };
        if !place.is_multiple_of(len) || !ground.contains(place, len) {
            return Err(entry.misplaced(ground));
        }
        match entry {
            Entry::Word { place, value } => ground.store_word(place, value),
            Entry::State { place, state, .. } => ground.store_half(place, state),
            Entry::Published { .. } => {}
        }
        table.forget(chunk_of(place));
        table.forget_word(place);
    }
    Ok(())
}

/// Writes a barrier behind the newest record, all of which is durable in its place; so no record will be applied again.
/// One fence.
pub(super) fn settle(ground: &mut Ground, table: &Table, log: &mut Log) -> Result<()> {
    let sequence = log.sequence() + 1;
    record::write(ground, table, sequence, &[])?;
    ground.fence()?;
    // If the barrier were damaged, the record before it must not be taken for the newest one.
    record::erase(ground, sequence + 1);
    *log = Log::behind(sequence);
    Ok(())
}

// The words of chunk 0 end before the next chunk.
const _: () = assert!(DEAD_OWNERS_MAX as u64 * 8 + (12 << 10) <= CHUNK);
