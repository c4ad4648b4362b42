//! Replaying the log into memtables, where a log makes batches durable.

use std::sync::atomic::Ordering;

use halite_contract::{Durability, Error, KEY_LEN_MAX, Result};
use halite_disk::Disk;
use halite_sst::{SEQUENCE_MAX, ValueRef};
use halite_wal::{Found, Logged, Wal};

use crate::encoded::Encoded;
use crate::failure::{from_log, from_replay, in_folder};
use crate::fragment;
use crate::layout::{self, flushed_word};
use crate::levels::CURRENT;
use crate::record::Kind;
use crate::store::Store;
use crate::wal;

/// The longest key, or bound of a range, behind its key space.
const BOUND_LEN_MAX: usize = 4 + KEY_LEN_MAX + 1;

/// Puts the records of the log that are not in the levels into memtables. Returns how many they were.
pub(super) fn replay(store: &mut Store, disk: &Disk, store_id: u128) -> Result<u64> {
    let flushed: Vec<u64> = (0..store.trees.len())
        .map(|tree| store.levels.word(&flushed_word(tree)).unwrap_or(0))
        .collect();
    let mut replayed = 0;
    store.is_replaying.store(true, Ordering::Relaxed);
    // For levels that were repaired without a manifest, only the tables have the last sequence.
    let flushed_last = flushed.iter().copied().max().unwrap_or(0);
    if flushed_last > SEQUENCE_MAX {
        return Err(Error::Damaged {
            what: in_folder(CURRENT),
            why: format!("the sequence {flushed_last} is none that there may be"),
        });
    }
    let trees = 0..store.trees.len() as u32;
    let in_tables = trees.filter_map(|tree| store.levels.sequence_max(tree)).max();
    let mut last = flushed_last.max(in_tables.unwrap_or(0));
    store.commits.resume_behind(last);
    if layout::has_values(store.memory.home()) {
        store.find_logged_values(disk, store_id, &flushed)?;
    }
    // Batches that were taken once are taken again.
    let mut encoded = Encoded::removal();
    let (identity, known) = (wal::of_store(store_id), layout::known_of_log(store.memory.home()));
    let found = Found::read(disk, identity, known, |batch| {
        encoded.clear();
        last = last.max(batch.sequence + u64::from(batch.records) - 1);
        decode(batch, &mut encoded, &flushed)?;
        if encoded.fragments().is_empty() {
            return Ok(());
        }
        replayed += u64::from(batch.records);
        store.commits.set_next_sequence(batch.sequence);
        store.commit(&mut encoded, Durability::Deferred, None).map(drop)
    })
    .map_err(from_replay)?;
    if found.next() > 0 && found.next() <= last {
        // A repair cut the log, and the levels have records from behind the cut, of one tree or of all.
        layout::raise(store.memory.home(), layout::LOG_RESUMED, last + 1)?;
    }
    let wal = Wal::open(disk, identity, found, store.limits.log).map_err(from_log)?;
    store.commits.resume_behind(last);
    store.is_replaying.store(false, Ordering::Relaxed);
    store.wal = Some(wal);
    store.refill_log();
    store.sync()?;
    Ok(replayed)
}

/// Encodes the records of a logged batch again, but for those of trees whose levels have the batch, as `flushed`
/// says. In memory they would hide newer ones there.
fn decode(batch: &Logged<'_>, to: &mut Encoded, flushed: &[u64]) -> Result<()> {
    let end = batch.sequence + u64::from(batch.records) - 1;
    let damaged = |why: &str| Error::Damaged {
        what: format!("batch {} of the log", batch.sequence),
        why: why.into(),
    };
    // The pieces of a tree's next value; those of several trees may alternate.
    let mut values = vec![Vec::new(); flushed.len()];
    for (tree, records) in wal::fragments(batch) {
        let Some(&flushed) = flushed.get(tree) else {
            return Err(damaged("it is of a tree that there is not"));
        };
        if end <= flushed {
            to.skip(fragment::records(records).count() as u32);
            continue;
        }
        let value = &mut values[tree];
        for (_, record) in fragment::records(records) {
            let is_bounds = record.kind() == Some(Kind::RangeDelete);
            let too_long = |bound: &[u8]| bound.len() > BOUND_LEN_MAX;
            if too_long(record.key()) || is_bounds && too_long(record.value()) {
                return Err(damaged("a key is too long"));
            }
            let key = || {
                record.key().split_first_chunk::<4>().ok_or_else(|| damaged("a key is too short"))
            };
            match record.kind() {
                Some(Kind::Piece) => value.extend_from_slice(record.value()),
                Some(Kind::PutPieces) => {
                    let (space, key) = key()?;
                    to.push(tree, Kind::Put, *space, key, value);
                    value.clear();
                }
                Some(Kind::PutFile) => {
                    let (space, key) = key()?;
                    let value = ValueRef::of_bytes(record.value()).map_err(damaged)?;
                    to.push_file(tree, *space, key, &value);
                }
                Some(kind @ (Kind::Put | Kind::Delete)) => {
                    let (space, key) = key()?;
                    let value = if kind == Kind::Put { record.value() } else { &[] };
                    to.push(tree, kind, *space, key, value);
                }
                Some(Kind::RangeDelete) => {
                    to.push_range(tree, [record.key(), &[]], [record.value(), &[]])
                }
                None => return Err(damaged("a record is of no kind")),
            }
        }
    }
    if to.records() == batch.records {
        Ok(())
    } else {
        Err(damaged("it does not have its records"))
    }
}
