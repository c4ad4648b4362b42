//! The allocator in persistent memory (Yan §4.5, Fig. 17): allocations of one size after the other, each
//! durable before the next.
//!
//! The allocated memory is not written to, which would take as long for all allocators. The pools have their whole
//! length before; the work of growing within it is counted. The limit stores and persists one word for each allocation,
//! one behind the other, as the words of an object pool are.

use std::time::{Duration, Instant};

use halite_alloc::{HALLOC_LEN_MAX, Halloc, SEGMENT, Segments};
use halite_pmem::Traffic;
use serde_json::json;

use crate::scratch::Home;
use crate::{Contender, Error, LIMIT, Params, Result, Run, RunOptions, Sample, Scratch};

/// The bytes of an allocation: in Fig. 17 they go from 128 to 16384.
fn sizes(options: &RunOptions) -> Vec<u64> {
    if options.quick {
        return vec![128, 4096];
    }
    (7..=14).map(|power| 1 << power).collect()
}

/// Allocations for one figure: a million, as the paper has it, or as many as there is room for.
fn allocations(options: &RunOptions, size: u64) -> u64 {
    let (count, room) = if options.quick { (5_000, 32 << 20) } else { (1_000_000, 1 << 30) };
    count.min(room / size)
}

const POOL: &str = "halloc-pool";
const ZONE: &str = "halloc-zone";

/// How many measurements [`run`] makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    sizes(options).len() as u64 * 3 * u64::from(options.repeats)
}

/// Experiment `lsm.halloc`.
///
/// # Errors
/// The errors of the allocator or its pool; [`Error::WrongAnswer`], [`Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let options = run.options.clone();
    for size in sizes(&options) {
        let mut params = Params::new();
        params.insert("bytes".to_owned(), json!(size));
        params.insert("allocations".to_owned(), json!(allocations(&options, size)));
        let mut contenders = [
            Contender::new(LIMIT, || words(&options, size)),
            Contender::new(POOL, || pool(&options, size)),
            Contender::new(ZONE, || zone(&options, size)),
        ];
        run.compare("lsm.halloc", &params, &mut contenders)?;
    }
    Ok(())
}

/// The samples of `count` allocations.
fn samples(count: u64, time: Duration, cost: Traffic) -> Vec<Sample> {
    let each = |counted: u64| counted as f64 / count as f64;
    vec![
        Sample::new("latency", "ns", time.as_nanos() as f64 / count as f64),
        Sample::new("fences", "1/op", each(cost.fences)),
        Sample::new("lines", "1/op", each(cost.lines)),
    ]
}

fn words(options: &RunOptions, size: u64) -> Result<Vec<Sample>> {
    let count = allocations(options, size);
    let scratch = Scratch::new(options, (count * 8).next_multiple_of(SEGMENT))?;
    let words = scratch.pool().claim(0, count * 8)?.into_words();
    // No page fault is due.
    (0..count).step_by(512).for_each(|number| words.store(number * 8, 0));
    let before = scratch.pool().traffic();
    let start = Instant::now();
    for number in 0..count {
        words.store(number * 8, number);
        scratch.pool().fence([words.flush(number * 8..number * 8 + 8)])?;
    }
    Ok(samples(count, start.elapsed(), scratch.pool().traffic() - before))
}

/// A pool with room for all allocations, and for the waste of the size classes.
fn segments(options: &RunOptions, home: &Home, size: u64) -> Result<std::sync::Arc<Segments>> {
    let mut pool = options.pool();
    let room = allocations(options, size) * (size + 8);
    pool.size_max = room + room / 8 + 8 * SEGMENT;
    pool.size_initial = pool.size_max;
    Ok(Segments::create(&home.path().join("pool"), &pool)?)
}

fn pool(options: &RunOptions, size: u64) -> Result<Vec<Sample>> {
    let count = allocations(options, size);
    let home = Home::new(&options.folder)?;
    let segments = segments(options, &home, size)?;
    let halloc = Halloc::open(&segments, 0)?;
    let mut addresses = Vec::with_capacity(count as usize);
    let before = segments.pool().traffic();
    let start = Instant::now();
    for _ in 0..count {
        let allocation = halloc.get(size)?.expect("none is larger than the largest class");
        addresses.push(allocation.address());
        allocation.commit()?;
    }
    let mut samples = samples(count, start.elapsed(), segments.pool().traffic() - before);

    drop(halloc);
    let start = Instant::now();
    let halloc = Halloc::open(&segments, 0)?;
    samples.push(Sample::new("open", "ns", start.elapsed().as_nanos() as f64));
    let found = halloc.committed()?.len() as u64;
    expect(POOL, found == count, || format!("of {count} allocations {found} are there"))?;
    let start = Instant::now();
    for &address in &addresses {
        halloc.release(address)?;
    }
    let time = start.elapsed();
    samples.push(Sample::new("release-latency", "ns", time.as_nanos() as f64 / count as f64));
    let found = halloc.committed()?.len();
    expect(POOL, found == 0, || format!("{found} allocations are there after their release"))?;
    Ok(samples)
}

fn zone(options: &RunOptions, size: u64) -> Result<Vec<Sample>> {
    const { assert!(HALLOC_LEN_MAX < halite_alloc::COMMITTED_ZONE_LEN) };
    let count = allocations(options, size);
    let home = Home::new(&options.folder)?;
    let segments = segments(options, &home, size)?;
    let halloc = Halloc::open(&segments, 0)?;
    let zones = halloc.zones();
    let before = segments.pool().traffic();
    let start = Instant::now();
    let mut all = vec![zones.create(0)?];
    for _ in 0..count {
        let zone = &all[all.len() - 1];
        if let Some(grant) = zone.get(size) {
            grant.reveal();
            zone.commit()?;
            continue;
        }
        let zone = zones.create(all.len() as u32)?;
        zone.get(size).expect("a zone has room for more than one").reveal();
        zone.commit()?;
        all.push(zone);
    }
    let mut samples = samples(count, start.elapsed(), segments.pool().traffic() - before);

    let committed = all.iter().map(|zone| zone.published().len()).sum::<u64>();
    expect(ZONE, committed == count * size, || format!("{committed} bytes were allocated"))?;
    let numbers = 0..all.len() as u32;
    drop(all);
    let start = Instant::now();
    for number in numbers {
        zones.release(number)?;
    }
    let time = start.elapsed();
    samples.push(Sample::new("release-latency", "ns", time.as_nanos() as f64 / count as f64));
    Ok(samples)
}

fn expect(subject: &str, holds: bool, why: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::WrongAnswer { store: subject.to_owned(), why: why() }) }
}
