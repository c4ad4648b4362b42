//! Bytes written for each byte of a user, and throughput, by how buffers are written and how large nodes are.
//!
//! ```text
//! cargo run --release -p halite-betree --example buffers -- FOLDER MIX VALUE_BYTES MIB [SETTING ...]
//! ```
//!
//! MIX is `insert` (random keys), `update` (uniform, of keys that are there), `a` (YCSB A: half updates, half reads) or
//! `f` (YCSB F: half reads, half reads with an update). SETTINGs are `haura` (the node of Haura: copied at each arrival,
//! 4 MiB), `in-place` (buffers that are appended to in place), and `buffer=KIB`, `leaf=KIB`, `runs=N`. The folder has to be on the
//! medium that is measured; it is made, and removed. Every write is durable when it returns.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use halite_betree::{Betree, BetreeOptions, Buffers};
use halite_codec::Compression;
use halite_contract::{Durability, Engine, EngineOptions, KeySpaceId, Op, Result as EngineResult};
use halite_pmem::PoolOptions;

/// A store with records of one length.
struct Run {
    engine: Betree,
    space: KeySpaceId,
    value: Vec<u8>,
    random: fastrand::Rng,
}

impl Run {
    /// The key of a record: numbers in a row have keys that are far apart.
    fn key(number: u64) -> String {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        format!("{mixed:016x}")
    }

    fn put(&mut self, number: u64) -> EngineResult<()> {
        self.random.fill(&mut self.value);
        let key = Self::key(number);
        let put = Op::Put { space: self.space, key: key.as_bytes(), value: &self.value };
        self.engine.write(&[put], Durability::Immediate)
    }

    fn get(&self, number: u64) -> EngineResult<()> {
        let found = self.engine.get(self.space, Self::key(number).as_bytes())?;
        assert!(found.is_some(), "record {number} is missing");
        Ok(())
    }

    /// Does something for each of so many operations, and prints what that cost.
    fn measure(
        &mut self,
        name: &str,
        count: u64,
        mut operation: impl FnMut(&mut Self, u64) -> EngineResult<()>,
    ) -> EngineResult<()> {
        let (before, start, processor) = (self.engine.stats(), Instant::now(), processor_s());
        (0..count).try_for_each(|number| operation(self, number))?;
        let (seconds, after) = (start.elapsed().as_secs_f64(), self.engine.stats());
        let user = after.user_bytes_written - before.user_bytes_written;
        let written = (after.traffic.lines - before.traffic.lines) * halite_pmem::LINE;
        let amplification = match user {
            0 => String::new(),
            _ => format!("{:5.2} bytes written/user byte  ", written as f64 / user as f64),
        };
        println!(
            "{name:7} {:8.1} kops/s  {:5.2} us of processor/op  {amplification}{} MiB in use",
            count as f64 / seconds / 1e3,
            (processor_s() - processor) / count as f64 * 1e6,
            after.figure("class_used_bytes").unwrap_or_default() >> 20,
        );
        Ok(())
    }
}

/// Seconds that the processors spent for this process so far.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = |field| behind.split(' ').nth(field).and_then(|text| text.parse::<f64>().ok());
    (ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) / 100.0
}

fn set(own: &mut BetreeOptions, setting: &str) -> Result<(), Box<dyn Error>> {
    match setting.split_once('=') {
        None if setting == "in-place" => own.buffers = Buffers::InPlace,
        None if setting == "haura" => {
            (own.runs_max, own.leaf_bytes, own.buffer_bytes) =
                (Some(1), Some(4 << 20), Some(4 << 20));
        }
        Some(("buffer", kib)) => own.buffer_bytes = Some(kib.parse::<u64>()? << 10),
        Some(("leaf", kib)) => own.leaf_bytes = Some(kib.parse::<u64>()? << 10),
        Some(("runs", runs)) => own.runs_max = Some(runs.parse()?),
        _ => return Err(format!("there is no setting {setting}").into()),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, mix, value_bytes, mib, settings @ ..] = &arguments[..] else {
        return Err("usage: buffers FOLDER MIX VALUE_BYTES MIB [SETTING ...]".into());
    };
    let folder = Path::new(folder);
    std::fs::create_dir(folder)?;
    let mut own = BetreeOptions { compression: Compression::None, ..BetreeOptions::default() };
    settings.iter().try_for_each(|setting| set(&mut own, setting))?;
    let options = EngineOptions {
        pool_options: PoolOptions::default(),
        own: own.into(),
        ..EngineOptions::new(folder.join("pool"))
    };
    let engine = Betree::open(&options)?;
    let space = engine.key_space("records")?;
    let value = vec![0; value_bytes.parse()?];
    let records = (mib.parse::<u64>()? << 20) / (value.len() as u64 + 16);
    let mut run = Run { engine, space, value, random: fastrand::Rng::with_seed(7) };
    run.measure("insert", records, Run::put)?;
    let any = |run: &mut Run| run.random.u64(0..records);
    match &**mix {
        "insert" => {}
        "update" => run.measure(mix, records, |run, _| {
            let number = any(run);
            run.put(number)
        })?,
        "a" | "f" => run.measure(mix, records, |run, operation| {
            let (number, updates) = (any(run), operation % 2 == 0);
            if !updates || mix == "f" {
                run.get(number)?;
            }
            if updates { run.put(number) } else { Ok(()) }
        })?,
        _ => return Err(format!("there is no mix {mix}").into()),
    }
    run.measure("read", records / 4, |run, _| {
        let number = any(run);
        run.get(number)
    })?;
    drop(run);
    Ok(std::fs::remove_dir_all(folder)?)
}
