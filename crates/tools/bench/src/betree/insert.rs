//! Random inserts into an empty store that outgrows its cache: records of 16 + 100 bytes, a thousand a commit, each
//! commit durable before the next one.
//!
//! A turn ends when all records are there, or after twelve times the length of a measurement: `inserted` says how many
//! it were. `write-amplification` is what was written, by calls of the kernel and in lines of the pool, for each byte
//! of keys and values, until the store is closed: so what a store puts off is in it. `disk-written` is the kernel's
//! count of bytes for the disk.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use serde_json::json;

use super::batches::Batches;
use super::setting::{KEY_LEN, Setting, memory, mixed};
use super::turns::in_new_places;
use crate::kv::{Store, process};
use crate::tenant::settle;
use crate::{Error, Result, Run, Sample};

pub(super) const NAME: &str = "betree.insert";

const PEERS: [&str; 4] = ["redb", "lmdb", "rocksdb", "fjall"];

const VALUE_LEN: usize = 100;

/// Records of a commit.
const BATCH: u64 = 1000;

/// A turn takes so many times as long as a measurement, at most.
const TIMES: u32 = 12;

/// Records that are looked for in the end.
const CHECKED: u64 = 1000;

fn records(setting: &Setting<'_>) -> u64 {
    setting.records(10_000_000, 20_000)
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    setting.media_count() * setting.stores_of(&PEERS) * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let records = records(setting);
    let data = records * (KEY_LEN + VALUE_LEN) as u64;
    for medium in setting.media() {
        let params = setting.params(
            medium,
            [
                ("records", json!(records)),
                ("key-len", json!(KEY_LEN)),
                ("value-len", json!(VALUE_LEN)),
                ("batch", json!(BATCH)),
                ("cache", json!(memory(data).cache)),
            ],
        );
        let (options, interrupted) = (run.options.clone(), run.interrupted());
        let lodging = setting.lodging(medium, &options);
        let mut stores = setting.stores(medium, data, &PEERS, &options);
        let measure = |store: &mut dyn Store| {
            let batches = Batches::new(mixed(VALUE_LEN, options.seed));
            let record = (KEY_LEN + VALUE_LEN) as u64;
            filled(store, batches, (records, record), setting, interrupted)
        };
        let mut contenders = in_new_places(&mut stores, &lodging, &measure)?;
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

/// Fills an open store with so many records, of so many bytes each, and closes it.
pub(super) fn filled(
    store: &mut dyn Store,
    mut batches: Batches,
    (records, record): (u64, u64),
    setting: &Setting<'_>,
    interrupted: &AtomicBool,
) -> Result<Vec<Sample>> {
    let name = store.name().to_owned();
    let written = || process::call_written_bytes().zip(process::disk_written_bytes());
    let (before, cpu_before) = (written(), process::cpu_ns());
    let pool_before = store.counters().unwrap_or_default();
    let mut session = store.session().map_err(Error::of_store(&name, "open a session"))?;
    let start = Instant::now();
    let mut inserted = 0;
    while inserted < records && start.elapsed() < setting.time * TIMES {
        if interrupted.load(Relaxed) {
            return Err(Error::Interrupted);
        }
        let end = records.min(inserted + BATCH);
        batches.put(&name, &mut *session, inserted..end)?;
        inserted = end;
    }
    let time = start.elapsed();
    let cpu = process::cpu_ns() - cpu_before;
    batches.check(&name, &mut *session, inserted, CHECKED)?;
    drop(session);
    settle(interrupted);
    let pool_after = store.counters().unwrap_or_default();
    store.close().map_err(Error::of_store(&name, "close"))?;
    let user = (inserted * record) as f64;
    let mut samples = vec![
        Sample::throughput(inserted, time),
        Sample::new("inserted", "record", inserted as f64),
        Sample::new("cpu", "ns/op", cpu as f64 / inserted.max(1) as f64),
    ];
    if let Some((before, after)) = before.zip(written()) {
        let pool = pool_after.pool_bytes() - pool_before.pool_bytes();
        let all = (after.0 - before.0 + pool) as f64;
        samples.push(Sample::new("write-amplification", "x", all / user));
        let disk = (after.1 - before.1) as f64;
        samples.push(Sample::new("disk-written", "B/op", disk / inserted.max(1) as f64));
    }
    Ok(samples)
}
