//! Partitions; an engine may have a single one.

use fastrand::Rng;

use super::data::{key, show, value};
use super::{AMPLE, Check, Factory, Store, ensure};
use crate::{Direction, Durability, Engine, KeyRange, KeySpaceId, Op, Scan};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn collect(scan: Scan) -> Check<Pairs> {
    let pair = |pair: crate::Result<(crate::Bytes, crate::Bytes)>| {
        let (key, value) = pair?;
        Ok((key.to_vec(), value.to_vec()))
    };
    scan.map(pair).collect()
}

/// The scans of all partitions have the pairs of the store's scan: each in order, and each key in the
/// partition that is said to have it.
///
/// # Errors
/// The first scan of which that is not so.
pub fn scans_of_partitions_make_up_that_of_the_store(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("scanned")?;
    let mut random = Rng::with_seed(1);
    for number in 0..1_000 {
        let first = b"abckz"[random.u64(..5) as usize];
        let key = [&[first][..], &key(random.u64(..800))].concat();
        let op = Op::Put { space, key: &key, value: &value(number, 20) };
        engine.write(&[op], Durability::Deferred)?;
    }
    let ranges = [
        KeyRange::all(),
        KeyRange::prefix(b"b"),
        KeyRange::new("bkey-00000300", Some(b"kkey-00000300".to_vec())),
        KeyRange::new("b", Some(b"b".to_vec())),
    ];
    for range in ranges {
        for direction in [Direction::Forward, Direction::Reverse] {
            check_scans(engine, space, &range, direction)?;
        }
    }
    Ok(())
}

fn check_scans(
    engine: &dyn Engine,
    space: KeySpaceId,
    range: &KeyRange,
    direction: Direction,
) -> Check {
    let mut whole = collect(engine.scan(space, range.clone(), direction)?)?;
    let mut all = Pairs::new();
    for partition in 0..engine.partitions() {
        let part = collect(engine.scan_partition(partition, space, range.clone(), direction)?)?;
        let is_sorted = match direction {
            Direction::Forward => part.is_sorted_by(|a, b| a.0 < b.0),
            Direction::Reverse => part.is_sorted_by(|a, b| a.0 > b.0),
        };
        ensure!(is_sorted, "the scan of partition {partition} is not in order");
        for (key, _) in &part {
            let place = engine.partition_of(key);
            ensure!(place == partition, "{} is in partition {partition}, not {place}", show(key));
        }
        all.extend(part);
    }
    whole.sort();
    all.sort();
    ensure!(all == whole, "{} pairs in all partitions, {} in the store", all.len(), whole.len());
    Ok(())
}

/// Counts of all partitions make up that of the store, and one that is to end has no more than it looked at.
///
/// # Errors
/// The first count of which that is not so.
pub fn counts_of_partitions_make_up_that_of_the_store(factory: &dyn Factory) -> Check {
    const KEYS: u64 = 600;
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("counted")?;
    let removed = |number: &u64| number.is_multiple_of(3);
    for number in 0..KEYS {
        let op = Op::Put { space, key: &key(number), value: b"" };
        engine.write(&[op], Durability::Deferred)?;
    }
    for number in (0..KEYS).filter(removed) {
        engine.write(&[Op::Delete { space, key: &key(number) }], Durability::Deferred)?;
    }
    let mut all = 0;
    for partition in 0..engine.partitions() {
        let (len, is_all) = engine.count_partition(partition, space, &mut |_, _| true)?;
        let in_order = engine.len_of_partition(partition, space)?;
        ensure!(is_all && len == in_order, "{len} keys of {in_order} in partition {partition}");
        all += len;
        for limit in [0, 1, 50] {
            let mut looked = 0;
            let mut go_on = |keys, looked_at| {
                looked = looked_at;
                keys <= looked_at && looked_at < limit
            };
            let (some, is_all) = engine.count_partition(partition, space, &mut go_on)?;
            let is_right = if is_all { some == len } else { some <= looked && looked == limit };
            ensure!(is_right, "{some} of {len} keys are all: {is_all}, looked at {looked}");
        }
    }
    let kept = KEYS - (0..KEYS).filter(removed).count() as u64;
    ensure!(all == kept && engine.len(space)? == kept, "{all} keys, should be {kept}");
    Ok(())
}

/// A sync of one partition makes its writes durable. It may leave the others alone.
///
/// # Errors
/// The number of waiting writes, where it is wrong; the key that is missing after a crash.
pub fn a_sync_of_a_partition_makes_its_writes_durable(factory: &dyn Factory) -> Check {
    const KEYS: u64 = 100;
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("synced")?;
    engine.sync()?;
    let mut waiting = vec![0; engine.partitions()];
    for number in 0..KEYS {
        let key = key(number);
        let op = Op::Put { space, key: &key, value: &value(number, 50) };
        engine.write(&[op], Durability::Deferred)?;
        waiting[engine.partition_of(&key)] += 1;
    }
    for partition in 0..engine.partitions() {
        engine.sync_partition(partition)?;
        waiting[partition] = 0;
        let (left, found) = (waiting.iter().sum::<u64>(), engine.stats().unsynced_writes);
        ensure!(found <= left, "{found} writes wait after a sync of {partition}, at most {left}");
    }
    let store = store.crash()?;
    let engine = store.engine();
    let space = engine.key_space("synced")?;
    for number in 0..KEYS {
        let found = engine.get(space, &key(number))?;
        ensure!(found.is_some_and(|found| found == value(number, 50)), "key {number} is lost");
    }
    Ok(())
}
