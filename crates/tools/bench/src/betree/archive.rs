//! Random entries of an archive (Haura §4.3, Fig. 5): one object, with a directory at its front and entries behind
//! that, of which threads fetch entries at random: first its place in the directory, then the entry whole.
//!
//! The paper's archive is that of Linux 5.12.13: 80,690 entries in 1,011 MB. Ours is made by a seed: its entries have a
//! log-normal distribution of sizes with the same mean, 12.5 kB, and a median of 4 kB, as sources have it. A cell is a
//! number of threads and a size of the cache, and each opens the store anew, so that its cache begins empty. In the
//! paper the time of a fetch fell with threads and with the cache.
//!
//! On a disk, the store takes turns with `mixed`, which has in persistent memory what leads to the contents: nodes,
//! buffers, leaves, and the log. The paper found metadata on the faster device, and contents on the slower one, the
//! worst of its tiers.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use fastrand::Rng;
use halite_betree::object::Object;
use halite_betree::{Betree, BetreeOptions, Placement};
use halite_contract::Durability;
use serde_json::json;

use super::Medium;
use super::engine::{failed, file, open, topology};
use super::setting::{BETREE, Setting};
use crate::mix::mix;
use crate::scratch::Home;
use crate::{Contender, Error, Result, Run, RunOptions, Sample};

pub(super) const NAME: &str = "betree.archive";

/// The object.
const ARCHIVE: &[u8] = b"archive.zip";

/// Bytes of an entry of the directory: offset, length.
const PLACE: usize = 16;

/// The median of sizes, and the deviation of their logarithm: the mean is that times exp(sigma² / 2).
const MEDIAN: f64 = 4096.0;
const SIGMA: f64 = 1.49;

/// The largest entry.
const ENTRY_MAX: f64 = 1_048_576.0;

const MIB: u64 = 1 << 20;

const WORKERS: [usize; 4] = [1, 2, 4, 8];
const CACHES: [u64; 6] = [8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 128 * MIB, 256 * MIB];

fn cells(setting: &Setting<'_>) -> Vec<(usize, u64)> {
    let (workers, caches) = setting.sized((&WORKERS[..], &CACHES[..]), (&[1, 2], &[8 * MIB]));
    workers.iter().flat_map(|workers| caches.iter().map(|cache| (*workers, *cache))).collect()
}

/// Whether tiers are mixed: both media are measured.
fn is_mixed(setting: &Setting<'_>) -> bool {
    setting.media_count() == Medium::ALL.len() as u64
}

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    let stores = setting.media_count() + u64::from(is_mixed(setting));
    stores * cells(setting).len() as u64 * u64::from(run.options.repeats)
}

/// A store that has the archive.
struct Stored {
    name: &'static str,
    home: Home,
    own: BetreeOptions,
    /// The folder of the contents, if they are elsewhere.
    _contents: Option<Home>,
}

impl Stored {
    fn on(medium: Medium, setting: &Setting<'_>, run: &RunOptions) -> Result<Self> {
        let home = Home::new(&setting.folder(medium, run))?;
        Ok(Self { name: BETREE, home, own: BetreeOptions::default(), _contents: None })
    }

    fn mixed(setting: &Setting<'_>, run: &RunOptions) -> Result<Self> {
        let home = Home::new(&setting.folder(Medium::Pmem, run))?;
        let contents = Home::new(&setting.folder(Medium::Disk, run))?;
        let classes = format!("pmem: ; {}", file(&contents.path().join("contents")));
        let own = BetreeOptions {
            topology: Some(topology(&classes)?),
            placement: Placement { large_values: 1, ..Placement::default() },
            ..BetreeOptions::default()
        };
        Ok(Self { name: "mixed", home, own, _contents: Some(contents) })
    }

    fn open(&self, cache_bytes: u64, run: &RunOptions) -> Result<Betree> {
        open(self.home.path(), BetreeOptions { cache_bytes, ..self.own.clone() }, run)
    }
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    let bytes = setting.object_bytes / 2;
    let archive = Archive::new(bytes, options.seed);
    for medium in setting.media() {
        let mut all = vec![Stored::on(medium, setting, &options)?];
        if medium == Medium::Disk && is_mixed(setting) {
            all.push(Stored::mixed(setting, &options)?);
        }
        for stored in &all {
            run.step(&format!("{NAME} {} the archive is written", stored.name))?;
            archive.write(&stored.open(stored.own.cache_bytes, &options)?, run)?;
        }
        for (workers, cache) in cells(setting) {
            let params = setting.params(
                medium,
                [
                    ("archive", json!(bytes)),
                    ("entries", json!(archive.places.len())),
                    ("workers", json!(workers)),
                    ("cache", json!(cache)),
                ],
            );
            let contender = |stored| {
                let stored: &Stored = stored;
                let (archive, options) = (&archive, &options);
                Contender::new(stored.name, move || {
                    let store = stored.open(cache, options)?;
                    let objects = store.objects("bench").map_err(failed("open an object store"))?;
                    let object = objects.open(ARCHIVE).map_err(failed("open an object"))?;
                    archive.fetched(&object, workers, setting.time / 5, interrupted)
                })
            };
            let mut contenders: Vec<_> = all.iter().map(contender).collect();
            run.compare(NAME, &params, &mut contenders)?;
        }
    }
    Ok(())
}

/// The archive.
struct Archive {
    /// Offset and length of each entry.
    places: Vec<(u64, u64)>,
    noise: Vec<u8>,
    seed: u64,
}

impl Archive {
    fn new(bytes: u64, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut sizes = Vec::new();
        let mut sum = 0;
        while sum < bytes {
            // Box and Muller's: the root of the logarithm of a uniform number, and the cosine of another.
            let (one, other) = (random.f64().max(1e-12), random.f64());
            let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
            let size = (MEDIAN * (SIGMA * normal).exp()).clamp(32.0, ENTRY_MAX) as u64;
            sizes.push(size);
            sum += size + PLACE as u64;
        }
        let mut at = (sizes.len() * PLACE) as u64;
        let mut places = Vec::new();
        for size in sizes {
            places.push((at, size));
            at += size;
        }
        let words = 2 * ENTRY_MAX as usize / 8;
        let noise = (0..words).flat_map(|_| random.u64(..).to_le_bytes()).collect();
        Self { places, noise, seed }
    }

    /// The contents of an entry.
    fn entry(&self, number: usize) -> &[u8] {
        let from = mix(number as u64) as usize % ENTRY_MAX as usize;
        &self.noise[from..from + self.places[number].1 as usize]
    }

    fn write(&self, store: &Betree, run: &Run<'_>) -> Result<()> {
        const PIECE: usize = 1 << 20;
        let objects = store.objects("bench").map_err(failed("open an object store"))?;
        let objects = objects.with_durability(Durability::Deferred);
        let object = objects.create(ARCHIVE).map_err(failed("create an object"))?;
        let mut at = 0;
        let mut piece = Vec::with_capacity(2 * PIECE);
        for (offset, len) in &self.places {
            piece.extend_from_slice(&offset.to_le_bytes());
            piece.extend_from_slice(&len.to_le_bytes());
        }
        for number in 0..=self.places.len() {
            if piece.len() >= PIECE || number == self.places.len() {
                run.go_on()?;
                object.write_at(at, &piece).map_err(failed("write"))?;
                at += piece.len() as u64;
                piece.clear();
            }
            if number < self.places.len() {
                piece.extend_from_slice(self.entry(number));
            }
        }
        objects.sync().map_err(failed("sync"))
    }

    /// Lets threads fetch entries.
    fn fetched(
        &self,
        object: &Object,
        workers: usize,
        time: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Vec<Sample>> {
        let start = Instant::now();
        let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
            let work = |worker: usize| {
                let random = Rng::with_seed(mix(self.seed) ^ mix(worker as u64));
                scope.spawn(move || self.fetch(object, random, start + time, interrupted))
            };
            let threads: Vec<_> = (0..workers).map(work).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        let took = start.elapsed();
        let fetched: u64 = counts.into_iter().sum::<Result<u64>>()?;
        let ns = took.as_nanos() as f64 / fetched.max(1) as f64;
        Ok(vec![Sample::throughput(fetched, took), Sample::new("time", "ns", ns)])
    }

    fn fetch(
        &self,
        object: &Object,
        mut random: Rng,
        deadline: Instant,
        interrupted: &AtomicBool,
    ) -> Result<u64> {
        let mut buffer = vec![0; ENTRY_MAX as usize];
        let mut count = 0;
        // A thread that begins late fetches one entry all the same.
        while count == 0 || Instant::now() < deadline {
            if interrupted.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            let number = random.usize(..self.places.len());
            let mut place = [0; PLACE];
            let at = (number * PLACE) as u64;
            object.read_at(at, &mut place).map_err(failed("read the directory"))?;
            let expected = self.places[number];
            let word =
                |at: usize| u64::from_le_bytes(place[at..at + 8].try_into().unwrap_or_default());
            let found = (word(0), word(8));
            let entry = &mut buffer[..expected.1 as usize];
            let read = object.read_at(expected.0, entry).map_err(failed("read an entry"))?;
            if found != expected || read != entry.len() || entry != self.entry(number) {
                let why = format!("entry {number} is not what was written");
                return Err(Error::WrongAnswer { store: BETREE.to_owned(), why });
            }
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_large_as_those_of_the_papers_archive() {
        let archive = Archive::new(64 << 20, 1);
        let sizes: Vec<u64> = archive.places.iter().map(|place| place.1).collect();
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        assert!((11_000.0..14_000.0).contains(&mean), "{mean}");
        let mut sorted = sizes.clone();
        sorted.sort_unstable();
        assert!((3_500..4_700).contains(&sorted[sorted.len() / 2]));
        assert_eq!(archive.places[0].0, (sizes.len() * PLACE) as u64);
    }
}
