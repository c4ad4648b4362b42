//! Elements that are not in the partition of their collection's key, as the number of partitions has changed.
//!
//! An element's key names its partition, and the engine puts it there, whatever the number of partitions is. A record of the
//! server says for which partitions all elements lie where the keys of their collections are. If a database opens with
//! others, each collection whose elements are elsewhere gets new ones in its own partition, before any client is served.
//!
//! A power cut in between leaves some moved and some not: a collection is its old elements until one batch gives its record
//! the new ones. Until then a note has them go at the next opening, as those of dropped collections.

use xxhash_rust::xxh3::xxh3_64;

use halite::{Batch, Database as Halite, KeyRange, KeySpace, ROUTED};
use halite_sim::planted;

use super::Result;
use super::database::Database;
use super::deadline_records;
use super::elements::{DROPPED, EXPIRING, Elements};
use crate::random::generator;
use crate::stored::collection_id;

/// The key of the record that says for which partitions elements lie where they should: in the first partition, which an
/// opening waits for in any case.
pub(super) const KEY: &[u8] = b"\xff\xfehp\0elements";

const _: () = assert!(matches!(KEY.first_chunk(), Some(&ROUTED)));

/// Keys that one batch removes or copies.
const STEP: usize = 256;

/// Whether all elements are in the partitions of their collections.
pub(super) fn are_home(db: &Halite, settings: &KeySpace) -> Result<bool> {
    Ok(settings.get(KEY)?.is_some_and(|record| record[..] == *partitions(db)))
}

/// The record for the partitions that there are now: how many, and where some keys are, as bounds may differ.
fn partitions(db: &Halite) -> Vec<u8> {
    let places: Vec<u8> = (0..=u8::MAX).map(|first| db.partition_of([first]) as u8).collect();
    [&[db.partitions() as u8][..], &xxh3_64(&places).to_be_bytes()].concat()
}

/// Moves all elements to the partitions of their collections, and removes those of dropped ones.
pub(super) fn rehome(db: &Halite, settings: &KeySpace, databases: &[Database]) -> Result<()> {
    // Behind a cut in between, elements lie neither for the old partitions nor for the new ones.
    settings.delete(KEY)?;
    for (place, database) in databases.iter().enumerate() {
        remove_dropped(db, database)?;
        // A stream may have no element, and a number all the same.
        let mut after = Vec::new();
        loop {
            let (mut last, mut collections) = (None, Vec::new());
            for pair in database.values.range::<&[u8]>(&after[..]..)?.take(STEP) {
                let (key, stored) = pair?;
                last = Some(key.to_vec());
                collections.extend(collection_id(&stored).map(|id| (key, stored, id)));
            }
            let Some(last) = last else { break };
            after = [&last[..], &[0]].concat();
            for (key, stored, id) in &collections {
                let partition = db.partition_of(key);
                let of = Elements { partition, place, id: *id };
                if of.home() % db.partitions() != partition {
                    move_elements(db, database, (key, stored), of)?;
                }
            }
        }
        remove_dropped(db, database)?;
        move_deadlines(db, database)?;
    }
    settings.put(KEY, partitions(db))
}

fn move_elements(
    db: &Halite,
    database: &Database,
    (key, stored): (&[u8], &[u8]),
    from: Elements,
) -> Result<()> {
    let to = Elements::new(from.partition, from.place, generator().u64(..));
    let elements = &database.elements;
    planted!("server.moved-without-note", (), elements.put(to.dropped_key(), [])?);
    let mut batch = db.batch();
    let mut count = 0;
    for pair in elements.prefix(from.prefix())? {
        let (element, value) = pair?;
        batch.put(elements, to.key(&element[from.prefix().len()..]), value);
        count += 1;
        if count % STEP == 0 {
            commit(&mut batch)?;
        }
    }
    let mut record = stored.to_vec();
    record[2..10].copy_from_slice(&to.id.to_be_bytes());
    batch.put(&database.values, key, record);
    planted!("server.old-elements-not-noted", (), batch.put(elements, from.dropped_key(), []));
    batch.delete(elements, to.dropped_key());
    commit(&mut batch)
}

/// Moves the deadlines of hashes with fields that expire to the partitions of their keys.
fn move_deadlines(db: &Halite, database: &Database) -> Result<()> {
    let elements = &database.elements;
    let (mut batch, mut count) = (db.batch(), 0);
    for number in 0..=u8::MAX {
        let prefix = [&ROUTED[..], &[number], &EXPIRING.to_be_bytes()].concat();
        for pair in elements.prefix(&prefix)? {
            let (note, record) = pair?;
            let Some(key) = deadline_records::key_of(&record) else { continue };
            let partition = db.partition_of(key);
            if partition != usize::from(number) {
                let of = Elements { partition, place: 0, id: EXPIRING };
                batch.put(elements, of.key(&note[prefix.len()..]), &record);
                batch.delete(elements, &note);
                count += 1;
                if count % STEP == 0 {
                    commit(&mut batch)?;
                }
            }
        }
    }
    commit(&mut batch)
}

/// Removes the elements of dropped collections, and the notes of them, of any partition.
fn remove_dropped(db: &Halite, database: &Database) -> Result<()> {
    let elements = &database.elements;
    for number in 0..=u8::MAX {
        let notes = [&ROUTED[..], &[number], &DROPPED.to_be_bytes()].concat();
        let range = KeyRange::prefix(&notes);
        loop {
            let Some(note) = elements.range::<&[u8]>(bounds(&range))?.next().transpose()? else {
                break;
            };
            let Some(id) = note.0.last_chunk::<8>().filter(|_| note.0.len() == notes.len() + 8)
            else {
                elements.delete(&note.0)?;
                continue;
            };
            let of = Elements { partition: 0, place: 0, id: u64::from_be_bytes(*id) };
            remove_all(db, elements, &of.prefix())?;
            elements.delete(&note.0)?;
        }
    }
    Ok(())
}

fn bounds(range: &KeyRange) -> (std::ops::Bound<&[u8]>, std::ops::Bound<&[u8]>) {
    let end = range.end().map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
    (std::ops::Bound::Included(range.start()), end)
}

fn remove_all(db: &Halite, elements: &KeySpace, prefix: &[u8]) -> Result<()> {
    loop {
        let found: Vec<_> = elements.prefix(prefix)?.take(STEP).collect::<Result<_>>()?;
        if found.is_empty() {
            return Ok(());
        }
        let mut batch = db.batch();
        found.iter().for_each(|(key, _)| batch.delete(elements, key));
        commit(&mut batch)?;
    }
}

fn commit(batch: &mut Batch) -> Result<()> {
    batch.commit_and_clear(halite::Durability::Immediate)
}
