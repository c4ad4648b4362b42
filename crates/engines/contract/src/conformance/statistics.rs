//! Statistics.

use super::data::{key, value};
use super::{Check, Factory, Store, ensure};
use crate::{Durability, Op, Stats};
use halite_pmem::{Domain, Traffic};

const POOL: u64 = 64 << 20;

/// The numbers are consistent with each other and with the writes.
///
/// # Errors
/// The inconsistent numbers.
pub fn statistics_add_up(factory: &dyn Factory) -> Check {
    if !factory.counts() {
        return Ok(());
    }
    const KEYS: u64 = 5_000;
    const LEN: usize = 1_000;
    let store = Store::new(factory, POOL)?;
    let engine = store.engine();
    let space = engine.key_space("values")?;
    let before = engine.stats();
    let user_bytes = KEYS * (key(0).len() + LEN) as u64;
    let mut live_once = 0;
    for round in 1..=30 {
        for number in 0..KEYS {
            let bytes = value(number + round, LEN);
            let op = Op::Put { space, key: &key(number), value: &bytes };
            engine.write(&[op], Durability::Deferred)?;
        }
        engine.sync()?;
        let stats = engine.stats();
        fits(&stats)?;
        ensure!(stats.records == KEYS, "{} records, should be {KEYS}", stats.records);
        let brought = stats.user_bytes_written - before.user_bytes_written;
        ensure!(brought == user_bytes * round, "{brought} bytes brought, not {user_bytes}*{round}");
        ensure!(stats.live_bytes >= user_bytes, "{} live of {user_bytes}", stats.live_bytes);
        if round == 1 {
            live_once = stats.live_bytes;
        }
        let live = stats.live_bytes;
        ensure!(live <= 2 * live_once, "{live} live bytes, {live_once} after the first round");
        ensure!(stats.index_bytes > 0, "an index of {KEYS} keys takes no memory");
    }
    let stats = engine.stats();
    let traffic = stats.traffic - before.traffic;
    if stats.domain == Domain::Volatile {
        writes_nothing_back(&traffic)?;
    } else {
        ensure!(traffic.lines * 64 >= 30 * user_bytes, "less written than was put: {traffic:?}");
        ensure!(traffic.fences >= 30, "{} fences for 30 syncs", traffic.fences);
    }
    ensure!(stats.collected_blocks > 0, "twice the pool was written and nothing collected");

    let op = Op::DeleteRange { space, start: b"", end: None };
    engine.write(&[op], Durability::Immediate)?;
    let stats = engine.stats();
    fits(&stats)?;
    ensure!(stats.records == 0, "{} records, all were deleted", stats.records);
    ensure!(stats.live_bytes < live_once / 2, "{} live bytes of nothing", stats.live_bytes);
    Ok(())
}

/// There is no medium to write to.
fn writes_nothing_back(traffic: &Traffic) -> Check {
    let counted = traffic.flushes + traffic.fences + traffic.lines + traffic.media_blocks;
    ensure!(counted == 0, "written back where nothing survives: {traffic:?}");
    Ok(())
}

fn fits(stats: &Stats) -> Check {
    let parts = stats.live_bytes + stats.dead_bytes + stats.free_bytes;
    ensure!(parts <= stats.pool_bytes, "live, dead and free exceed the pool: {stats:?}");
    ensure!(stats.pool_bytes <= stats.pool_bytes_max, "the pool exceeds its limit: {stats:?}");
    ensure!(stats.pool_bytes_max <= POOL, "the limit is not the one asked for: {stats:?}");
    Ok(())
}

/// After a sync no write waits to become durable, and after a write that is durable at once none of its
/// partition's; each of the two fences.
///
/// # Errors
/// The numbers that say otherwise.
pub fn a_sync_leaves_no_write_behind(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, POOL)?;
    let engine = store.engine();
    let space = engine.key_space("values")?;
    for number in 0..100 {
        let before = engine.stats();
        for nth in 0..number {
            let op = Op::Put { space, key: &key(nth), value: b"deferred" };
            engine.write(&[op], Durability::Deferred)?;
        }
        let waiting = engine.stats().unsynced_writes;
        ensure!(waiting <= number, "{waiting} of {number} deferred writes wait");
        if number % 2 == 0 {
            engine.sync()?;
        } else {
            let op = Op::Put { space, key: &key(0), value: b"immediate" };
            engine.write(&[op], Durability::Immediate)?;
        }
        let after = engine.stats();
        let others_wait = number % 2 == 1 && engine.partitions() > 1;
        ensure!(after.unsynced_writes <= waiting, "{} writes wait", after.unsynced_writes);
        ensure!(after.unsynced_writes == 0 || others_wait, "{} writes wait", after.unsynced_writes);
        engine.sync()?;
        ensure!(engine.stats().unsynced_writes == 0, "writes wait behind a sync");
        let traffic = after.traffic - before.traffic;
        if after.domain == Domain::Volatile {
            writes_nothing_back(&traffic)?;
        } else {
            let is_elsewhere = !factory.counts();
            ensure!(traffic.fences > 0 || number == 0 || is_elsewhere, "durable without a fence");
        }
    }
    Ok(())
}
