//! Scans of records (Fig. 5.17), in this process: ranges of 10 to 1000 records of 100 bytes, keys and values
//! read whole, from a random key on. Over the network Redis' protocol has no scan that returns values, so
//! that is measured apart (`scans`).

use std::time::{Duration, Instant};

use fastrand::Rng;
use halite::{Database, Durability, KeySpace};
use serde_json::json;

use super::fleet::KEY_LEN;
use super::throughput::{RECORDS, RECORDS_QUICK};
use crate::kv::records::{KeyForm, Records};
use crate::scratch::Home;
use crate::{Contender, Error, Params, Result, Run, RunOptions, Sample};

/// The experiment's name in rows.
pub const NAME: &str = "rstore.ranges";

const COUNTS: [u64; 5] = [10, 100, 300, 500, 1000];

const VALUE_LEN: usize = 100;

/// Puts that are made durable together.
const GROUP: u64 = 1000;

/// How many measurements it makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    COUNTS.len() as u64 * 2 * u64::from(options.repeats)
}

/// Measures: `throughput`, in scans a second, and `pairs`, in records a second; one thread, one partition.
///
/// # Errors
/// The errors of a store; [`Error::WrongAnswer`] if a scan is not in order; [`Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let options = &run.options;
    let records = if options.quick { RECORDS_QUICK } else { RECORDS };
    let length = Duration::from_millis(if options.quick { 50 } else { 500 });
    let seed = options.seed;
    let home = Home::new(&options.folder)?;
    let builder = Database::builder().engine("indexlog");
    let on_medium = builder.open(home.path()).map_err(failed("open it"))?;
    let in_memory = Database::in_memory().map_err(failed("open it"))?;
    let mut stores = Vec::new();
    for (name, db) in [("halite", on_medium), ("halite-in-memory", in_memory)] {
        run.step(&format!("{NAME}: {name} is loaded with {records} records"))?;
        let space = loaded(&db, records, seed).map_err(failed("load it"))?;
        stores.push((name, db.domain().guarantee(), space));
    }
    for count in COUNTS {
        let params = Params::from_iter([
            ("records".to_owned(), json!(records)),
            ("key-len".to_owned(), json!(KEY_LEN)),
            ("value-len".to_owned(), json!(VALUE_LEN)),
            ("count".to_owned(), json!(count)),
        ]);
        let contender = |(name, guarantee, space): &'_ (&str, &str, KeySpace)| {
            let space = space.clone();
            let measure = move || scanned(&space, records, count, length, seed);
            Contender::new(*name, measure).with_param("durability", json!(guarantee))
        };
        let mut contenders: Vec<_> = stores.iter().map(contender).collect();
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

fn failed(action: &'static str) -> impl Fn(halite::Error) -> Error {
    move |error| Error::of_store("halite", action)(error.into())
}

fn loaded(db: &Database, count: u64, seed: u64) -> halite::Result<KeySpace> {
    let space = db.key_space("bench")?;
    let mut records = Records::new(KeyForm::Padded, VALUE_LEN, seed);
    for first in (0..count).step_by(GROUP as usize) {
        let mut batch = db.batch();
        for number in first..(first + GROUP).min(count) {
            let (key, value) = records.pair(number, 0);
            batch.put(&space, key, value);
        }
        batch.commit_with(Durability::Deferred)?;
    }
    db.sync()?;
    Ok(space)
}

fn scanned(
    space: &KeySpace,
    count: u64,
    wanted: u64,
    length: Duration,
    seed: u64,
) -> Result<Vec<Sample>> {
    let mut records = Records::new(KeyForm::Padded, VALUE_LEN, seed);
    let mut random = Rng::with_seed(seed);
    let (mut scans, mut pairs) = (0, 0);
    let mut buffer = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < length {
        let start = records.key(random.u64(..count));
        buffer.clear();
        let mut last = start.to_vec();
        let found = space.range(start..).map_err(failed("scan it"))?.take(wanted as usize);
        for pair in found {
            let (key, value) = pair.map_err(failed("scan it"))?;
            if *key < *last {
                let why = "a scan is not in the order of keys".to_owned();
                return Err(Error::WrongAnswer { store: "halite".to_owned(), why });
            }
            last.clear();
            last.extend_from_slice(&key);
            buffer.extend_from_slice(&value);
            pairs += 1;
        }
        std::hint::black_box(&buffer);
        scans += 1;
    }
    let time = begin.elapsed();
    let pairs = pairs as f64 / time.as_secs_f64();
    Ok(vec![Sample::throughput(scans, time), Sample::new("pairs", "pair/s", pairs)])
}
