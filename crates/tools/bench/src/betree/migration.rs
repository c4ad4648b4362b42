//! Migration between storage classes: skewed reads of values of which a fifth fits in persistent memory, and the rest
//! lies on a disk.
//!
//! Values of 16 KiB lie in extents of their own, so each moves by itself, and are read from their class each time: the
//! cache keeps none of them. Ranks of Zipf's law (0.99) are spread over the values by chance, so a fifth of the reads or
//! so meet persistent memory at first. Then a turn has ten rounds, each of a tenth of the measured time: reads, and
//! behind them a round of migration by the policy, or none. `throughput` is that of the reads after the last round,
//! `fast-share` the share of them that persistent memory served, and `moved` what migration has moved in all rounds.
//!
//! The follow-up of the paper found that migration makes reads 1.3 times as fast as without.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use fastrand::Rng;
use halite_betree::{Betree, BetreeOptions, Migration, Policy};
use halite_contract::{Durability, Engine, KeySpaceId, Op};
use serde_json::json;

use super::Medium;
use super::engine::{failed, file, open, topology};
use super::setting::{BETREE, KEY_LEN, Setting, mixed};
use crate::kv::records::Records;
use crate::kv::zipfian::Zipfian;
use crate::mix::mix;
use crate::scratch::Home;
use crate::{Contender, Error, Result, Run, RunOptions, Sample};

pub(super) const NAME: &str = "betree.migration";

const VALUE_LEN: usize = 16 << 10;

const THETA: f64 = 0.99;

/// Persistent memory takes the data divided by this.
const FAST_PART: u64 = 5;

/// Bytes that the engine keeps free in each class.
const KEPT_FREE: u64 = 16 << 20;

/// Bytes of data at least: of less, metadata would take what the fast class may have.
const DATA_MIN: u64 = 64 * MIB;

/// A class has a multiple of this.
const MIB: u64 = 1 << 20;

const ROUNDS: u32 = 10;

/// Values of a commit, while loading.
const BATCH: u64 = 64;

const POLICIES: [(&str, Option<Policy>); 3] =
    [("none", None), ("lfu", Some(Policy::Lfu)), ("reinforcement", Some(Policy::Reinforcement))];

/// Whether both classes are among the media.
fn is_measured(setting: &Setting<'_>) -> bool {
    setting.media_count() == Medium::ALL.len() as u64
}

fn data(setting: &Setting<'_>) -> u64 {
    setting.object_bytes.max(DATA_MIN)
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let contenders = if is_measured(setting) { POLICIES.len() as u64 } else { 0 };
    contenders * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    if !is_measured(setting) {
        return Ok(());
    }
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    let data = data(setting);
    let records = data / VALUE_LEN as u64;
    let reading = Reading::new(setting, records, &options, interrupted);
    let params = [
        ("medium", json!("both")),
        ("records", json!(records)),
        ("value-len", json!(VALUE_LEN)),
        ("fast", json!(data / FAST_PART)),
        ("threads", json!(setting.options.threads)),
        ("theta", json!(THETA)),
    ];
    let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let contender = |(name, policy): (&str, Option<Policy>)| {
        let (reading, options) = (&reading, &options);
        Contender::new(name, move || measured(setting, policy, reading, options))
    };
    run.compare(NAME, &params, &mut POLICIES.map(contender))
}

fn measured(
    setting: &Setting<'_>,
    policy: Option<Policy>,
    reading: &Reading<'_>,
    run: &RunOptions,
) -> Result<Vec<Sample>> {
    let home = Home::new(&setting.folder(Medium::Pmem, run))?;
    let slow = Home::new(&setting.folder(Medium::Disk, run))?;
    let fast = data(setting) / FAST_PART;
    let capacity = (fast + KEPT_FREE).next_multiple_of(MIB);
    let classes = format!("pmem:@{capacity} ; {}", file(&slow.path().join("slow")));
    let migration = policy.map(|policy| Migration {
        policy,
        // Rounds are called for.
        grace: Duration::from_secs(24 * 3600),
        threshold_percent: (fast * 100 / capacity).max(1) as u8,
        ..Migration::default()
    });
    let own = BetreeOptions {
        topology: Some(topology(&classes)?),
        large_value_bytes: Some(VALUE_LEN as u64),
        cache_bytes: 16 << 20,
        migration,
        ..BetreeOptions::default()
    };
    let store = open(home.path(), own.clone(), run)?;
    let space = store.key_space("bench").map_err(failed("make a key space"))?;
    reading.load(&store, space)?;
    // Closing brings what the memtable has to the tree, where migration looks.
    drop(store);
    let store = open(home.path(), own, run)?;
    let mut moved = 0;
    for round in 0..ROUNDS {
        reading.read(&store, space, setting.time / ROUNDS, round)?;
        if policy.is_some() {
            let report = store.migrate_now().map_err(failed("migrate"))?;
            moved += report.promoted_bytes + report.demoted_bytes;
        }
    }
    let reads =
        || -> Vec<u64> { store.pool_status().classes.iter().map(|class| class.reads).collect() };
    let before = reads();
    let (count, took) = reading.read(&store, space, setting.time, ROUNDS)?;
    let served: Vec<_> =
        reads().iter().zip(&before).map(|(after, before)| after - before).collect();
    let share = served[0] as f64 / served.iter().sum::<u64>().max(1) as f64;
    Ok(vec![
        Sample::throughput(count, took),
        Sample::new("fast-share", "%", 100.0 * share),
        Sample::new("moved", "B", moved as f64),
    ])
}

/// The values, and which of them are read.
struct Reading<'a> {
    values: Records,
    records: u64,
    zipfian: Zipfian,
    /// The value of each rank.
    ranks: Vec<u64>,
    threads: usize,
    seed: u64,
    interrupted: &'a AtomicBool,
}

impl<'a> Reading<'a> {
    fn new(
        setting: &Setting<'_>,
        records: u64,
        run: &RunOptions,
        interrupted: &'a AtomicBool,
    ) -> Self {
        let mut ranks: Vec<u64> = (0..records).collect();
        Rng::with_seed(run.seed).shuffle(&mut ranks);
        Self {
            values: mixed(VALUE_LEN, run.seed),
            records,
            zipfian: Zipfian::new(records, THETA),
            ranks,
            threads: setting.options.threads,
            seed: run.seed,
            interrupted,
        }
    }

    fn go_on(&self) -> Result<()> {
        match self.interrupted.load(Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    fn load(&self, store: &Betree, space: KeySpaceId) -> Result<()> {
        let mut values = self.values.clone();
        for first in (0..self.records).step_by(BATCH as usize) {
            self.go_on()?;
            let pairs: Vec<_> = (first..self.records.min(first + BATCH))
                .map(|number| {
                    let (key, value) = values.pair(number, 0);
                    (key.to_vec(), value.to_vec())
                })
                .collect();
            let put = |(key, value)| Op::Put { space, key, value };
            let ops: Vec<_> =
                pairs.iter().map(|(key, value)| put((&key[..], &value[..]))).collect();
            store.write(&ops, Durability::Deferred).map_err(failed("load"))?;
        }
        store.sync().map_err(failed("sync"))
    }

    /// Lets threads read for so long. Returns how many values that were, and how long it took.
    fn read(
        &self,
        store: &Betree,
        space: KeySpaceId,
        time: Duration,
        round: u32,
    ) -> Result<(u64, Duration)> {
        let start = Instant::now();
        let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
            let work = |thread: usize| {
                let random =
                    Rng::with_seed(mix(self.seed) ^ mix((thread as u64) << 32 | u64::from(round)));
                scope.spawn(move || self.one_thread(store, space, random, start + time))
            };
            let threads: Vec<_> = (0..self.threads).map(work).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        let took = start.elapsed();
        Ok((counts.into_iter().sum::<Result<u64>>()?, took))
    }

    fn one_thread(
        &self,
        store: &Betree,
        space: KeySpaceId,
        mut random: Rng,
        deadline: Instant,
    ) -> Result<u64> {
        let (mut values, mut count) = (self.values.clone(), 0);
        while Instant::now() < deadline {
            self.go_on()?;
            let number = self.ranks[self.zipfian.next(&mut random) as usize];
            let key = values.key(number);
            debug_assert_eq!(key.len(), KEY_LEN);
            let found = store.get(space, key).map_err(failed("get"))?;
            if found.and_then(|value| values.version(values.last_key(), &value)) != Some(0) {
                let why = format!("value {number} is not what was written");
                return Err(Error::WrongAnswer { store: BETREE.to_owned(), why });
            }
            count += 1;
        }
        Ok(count)
    }
}
