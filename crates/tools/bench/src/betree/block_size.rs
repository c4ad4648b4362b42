//! The time of a block (Haura §4.2, Fig. 4): blocks of 4 KiB to 4 MiB, read and written at random places of a region of
//! 256 MiB, each write durable before the next one.
//!
//! In persistent memory a block is streamed and fenced, or copied out; on a disk it is written past the page cache and
//! `fdatasync` follows, or it is read past the page cache. Persistent memory was far ahead with small blocks in the
//! paper, and its lead shrank with their size.

use std::time::Instant;

use fastrand::Rng;
use serde_json::json;

use super::Medium;
use super::raw::{Aligned, RawFile};
use super::setting::Setting;
use crate::scratch::Home;
use crate::{Contender, Params, Result, Run, RunOptions, Sample, Scratch};

pub(super) const NAME: &str = "betree.block-size";

const KIB: u64 = 1 << 10;

const BLOCKS: [u64; 6] = [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB];

/// Bytes that a measurement moves, and blocks, at most.
const BYTES_MAX: u64 = 256 << 20;
const COUNT_MAX: u64 = 2000;

fn blocks(setting: &Setting<'_>) -> &'static [u64] {
    setting.sized(&BLOCKS[..], &[4 * KIB, 256 * KIB])
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    blocks(setting).len() as u64 * setting.media_count() * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let options = run.options.clone();
    let region = setting.sized(256 << 20, 8 << 20);
    for &block in blocks(setting) {
        let count = (setting.sized(BYTES_MAX, 8 << 20) / block).min(COUNT_MAX);
        let places = Places { region, block, count, seed: options.seed };
        let mut params = Params::new();
        params.insert("region".to_owned(), json!(region));
        params.insert("block".to_owned(), json!(block));
        let contender = |medium: Medium| {
            let options = &options;
            Contender::new(medium.name(), move || match medium {
                Medium::Pmem => in_memory(places, options),
                Medium::Disk => on_disk(places, setting, options),
            })
        };
        let mut contenders: Vec<_> = setting.media().map(contender).collect();
        run.compare(NAME, &params, &mut contenders)?;
    }
    Ok(())
}

/// The blocks of a measurement.
#[derive(Clone, Copy)]
struct Places {
    region: u64,
    block: u64,
    count: u64,
    seed: u64,
}

impl Places {
    /// The time of a block, if `block` is called with the place of each.
    fn timed(self, metric: &str, mut block: impl FnMut(u64) -> Result<()>) -> Result<Sample> {
        let mut random = Rng::with_seed(self.seed);
        let places: Vec<u64> =
            (0..self.count).map(|_| random.u64(..self.region / self.block) * self.block).collect();
        let start = Instant::now();
        places.into_iter().try_for_each(&mut block)?;
        let ns = start.elapsed().as_nanos() as f64;
        Ok(Sample::new(metric, "ns", ns / self.count as f64))
    }
}

fn in_memory(places: Places, run: &RunOptions) -> Result<Vec<Sample>> {
    let scratch = Scratch::new(run, places.region)?;
    let mut fresh = scratch.pool().claim(0, places.region)?;
    let _ = fresh.zero(0..places.region);
    let mut block = vec![7; places.block as usize];
    let written = places.timed("write", |at| {
        let flushed = fresh.write_stream(at, &block);
        Ok(fresh.pool().fence([flushed]).map(drop)?)
    })?;
    let read = places.timed("read", |at| {
        block.copy_from_slice(fresh.read(at, places.block));
        std::hint::black_box(&block);
        Ok(())
    })?;
    Ok(vec![written, read])
}

fn on_disk(places: Places, setting: &Setting<'_>, run: &RunOptions) -> Result<Vec<Sample>> {
    const PART: usize = 1 << 20;
    let home = Home::new(&setting.folder(Medium::Disk, run))?;
    let file = RawFile::create(&home.path().join("file"))?;
    let zeros = Aligned::new(PART);
    for at in (0..places.region).step_by(PART) {
        file.write_at(at, zeros.get())?;
    }
    file.sync()?;
    let mut block = Aligned::new(places.block as usize);
    let written = places.timed("write", |at| {
        file.write_at(at, block.get())?;
        file.sync()
    })?;
    let read = places.timed("read", |at| file.read_at(at, block.get_mut()))?;
    Ok(vec![written, read])
}
