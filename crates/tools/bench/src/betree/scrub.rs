//! Redundancy: a mirror of two files, filled with records of 16 + 1000 bytes in no order.
//!
//! | experiment | measured |
//! |---|---|
//! | `betree.scrub` | bytes a second that a scrub reads and checks, of both copies |
//! | `betree.damage` | wrong answers, and what is repaired, with one block in a hundred of one copy damaged |
//! | `betree.resilver` | bytes read to bring a copy up to date that was away while records were written |
//!
//! The limit of a scrub is a file of the medium that one thread reads in sequence. Wrong answers have to be none. Behind a
//! resilver stand the bytes in use, and those of the devices.

use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use halite_betree::{Betree, BetreeOptions, Position};
use halite_contract::{Durability, Engine, KeySpaceId, Op};
use serde_json::json;

use super::Medium;
use super::engine::{failed, file, open, topology};
use super::raw::{Aligned, RawFile};
use super::setting::{BETREE, KEY_LEN, Setting, mixed};
use crate::kv::records::Records;
use crate::scratch::Home;
use crate::{Contender, Error, LIMIT, Result, Run, RunOptions, Sample};

const VALUE_LEN: usize = 1000;

const RECORD: u64 = (KEY_LEN + VALUE_LEN) as u64;

/// Records of a commit.
const BATCH: u64 = 256;

/// Bytes before the data of a device, and of a block of it.
const LABELS: u64 = 256 << 10;
const BLOCK: u64 = 4096;

/// One block in so many is damaged.
const DAMAGED: u64 = 100;

/// The files of the mirror.
const SIDES: [&str; 2] = ["side-0", "side-1"];

pub(super) fn plan_scrub(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    setting.media_count() * 2 * u64::from(run.options.repeats)
}

pub(super) fn plan_one(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    setting.media_count() * u64::from(run.options.repeats)
}

/// A mirror with records, closed or open.
struct Mirror<'a> {
    home: Home,
    options: &'a RunOptions,
    values: Records,
    records: u64,
}

impl<'a> Mirror<'a> {
    /// Fills a new one.
    fn new(medium: Medium, setting: &Setting<'_>, run: &'a RunOptions) -> Result<(Self, Betree)> {
        let home = Home::new(&setting.folder(medium, run))?;
        let values = mixed(VALUE_LEN, run.seed);
        let records = setting.object_bytes / RECORD;
        let mut mirror = Self { home, options: run, values, records };
        let store = mirror.open()?;
        mirror.put(&store, 0..records, 0)?;
        Ok((mirror, store))
    }

    fn open(&self) -> Result<Betree> {
        let [one, other] = SIDES.map(|side| file(&self.side(side)));
        let topology = Some(topology(&format!("mirror {one} {other}"))?);
        let own = BetreeOptions { topology, cache_bytes: 16 << 20, ..BetreeOptions::default() };
        open(self.home.path(), own, self.options)
    }

    fn side(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join(name)
    }

    fn put(&mut self, store: &Betree, numbers: std::ops::Range<u64>, version: u64) -> Result<()> {
        let space = space(store)?;
        let mut pairs = Vec::new();
        let end = numbers.end;
        for number in numbers {
            let (key, value) = self.values.pair(number, version);
            pairs.push((key.to_vec(), value.to_vec()));
            if pairs.len() as u64 == BATCH || number + 1 == end {
                let ops: Vec<_> = pairs
                    .iter()
                    .map(|(key, value): &(Vec<u8>, Vec<u8>)| Op::Put { space, key, value })
                    .collect();
                store.write(&ops, Durability::Deferred).map_err(failed("load"))?;
                pairs.clear();
            }
        }
        store.sync().map_err(failed("sync"))
    }

    /// Reads all records. Returns how many were wrong, or could not be read.
    fn wrong(&mut self, store: &Betree, run: &std::sync::atomic::AtomicBool) -> Result<u64> {
        let space = space(store)?;
        let mut wrong = 0;
        for number in 0..self.records {
            if run.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            self.values.key(number);
            let found = store.get(space, self.values.last_key());
            let is_right = found.is_ok_and(|value| {
                let key = self.values.last_key();
                value.is_some_and(|value| self.values.version(key, &value).is_some())
            });
            wrong += u64::from(!is_right);
        }
        Ok(wrong)
    }
}

fn space(store: &Betree) -> Result<KeySpaceId> {
    store.key_space("bench").map_err(failed("make a key space"))
}

/// Bytes in use, and bytes that the devices have.
fn used(store: &Betree) -> (u64, u64) {
    let classes = store.pool_status().classes;
    (classes.iter().map(|class| class.used).sum(), classes.iter().map(|class| class.capacity).sum())
}

/// Bytes that the devices have read. The report of a pass has an extent of a mirror once, and its copies are all read.
fn bytes_read(store: &Betree) -> u64 {
    let classes = store.pool_status().classes;
    let leaves = classes.iter().flat_map(|class| &class.vdevs).flat_map(|vdev| &vdev.leaves);
    leaves.map(|leaf| leaf.status.stats.reads.bytes).sum()
}

pub(super) fn run_scrub(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    for medium in setting.media() {
        run.step("betree.scrub the mirror is filled")?;
        let (mirror, store) = Mirror::new(medium, setting, &options)?;
        drop(store);
        let params = params(setting, medium, &mirror);
        let raw = || {
            let home = Home::new(&setting.folder(medium, &options))?;
            read_in_sequence(home.path(), setting.object_bytes)
        };
        let scrub = || {
            let store = mirror.open()?;
            let (start, before) = (Instant::now(), bytes_read(&store));
            let mut progress = |_, _| match interrupted.load(Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let report = store.scrub(&mut progress).map_err(failed("scrub"))?;
            let took = start.elapsed();
            match (report.is_complete, report.damaged) {
                (false, _) => Err(Error::Interrupted),
                (true, 0) => Ok(vec![Sample::new(
                    "read",
                    "B/s",
                    (bytes_read(&store) - before) as f64 / took.as_secs_f64().max(1e-9),
                )]),
                (true, damaged) => {
                    let why = format!("a scrub found {damaged} damages where there are none");
                    Err(Error::WrongAnswer { store: BETREE.to_owned(), why })
                }
            }
        };
        let mut contenders = [Contender::new(LIMIT, raw), Contender::new(BETREE, scrub)];
        run.compare("betree.scrub", &params, &mut contenders)?;
    }
    Ok(())
}

fn read_in_sequence(folder: &Path, bytes: u64) -> Result<Vec<Sample>> {
    const PIECE: u64 = 1 << 20;
    let file = RawFile::create(&folder.join("raw"))?;
    let mut piece = Aligned::new(PIECE as usize);
    let places = || (0..bytes / PIECE).map(|number| number * PIECE);
    places().try_for_each(|at| file.write_at(at, piece.get()))?;
    file.sync()?;
    let start = Instant::now();
    places().try_for_each(|at| file.read_at(at, piece.get_mut()))?;
    let all = (bytes / PIECE * PIECE) as f64;
    Ok(vec![Sample::new("read", "B/s", all / start.elapsed().as_secs_f64().max(1e-9))])
}

fn params(setting: &Setting<'_>, medium: Medium, mirror: &Mirror<'_>) -> crate::Params {
    setting.params(medium, [("records", json!(mirror.records)), ("value-len", json!(VALUE_LEN))])
}

pub(super) fn run_damage(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    for medium in setting.media() {
        run.step("betree.damage the mirror is filled")?;
        let (mut mirror, store) = Mirror::new(medium, setting, &options)?;
        drop(store);
        let params = params(setting, medium, &mirror);
        let mut repeat = 0;
        let damaged = || {
            repeat += 1;
            let blocks = damage(&mirror.side(SIDES[0]), options.seed + repeat)?;
            let store = mirror.open()?;
            let wrong = mirror.wrong(&store, interrupted)?;
            let on = &mut |_, _| ControlFlow::Continue(());
            let report = store.scrub(on).map_err(failed("scrub"))?;
            let again = store.scrub(on).map_err(failed("scrub"))?;
            let repaired = match report.damaged {
                0 => 1.0,
                damaged => report.repaired as f64 / damaged as f64,
            };
            Ok(vec![
                Sample::new("damaged-blocks", "block", blocks as f64),
                Sample::new("wrong", "record", wrong as f64),
                Sample::new("repaired", "%", 100.0 * repaired),
                Sample::new("left", "extent", (again.damaged + again.lost) as f64),
            ])
        };
        run.compare("betree.damage", &params, &mut [Contender::new(BETREE, damaged)])?;
    }
    Ok(())
}

/// Damages blocks of a device behind its labels. Returns how many.
fn damage(side: &Path, seed: u64) -> Result<u64> {
    let failed = |error: std::io::Error| Error::of_store(BETREE, "damage a file")(error.into());
    let file = OpenOptions::new().read(true).write(true).open(side).map_err(failed)?;
    let blocks = (file.metadata().map_err(failed)?.len() - LABELS) / BLOCK;
    let mut random = fastrand::Rng::with_seed(seed);
    let count = (blocks / DAMAGED).max(1);
    for _ in 0..count {
        let at = LABELS + random.u64(..blocks) * BLOCK;
        let mut bytes = [0; BLOCK as usize];
        file.read_exact_at(&mut bytes, at).map_err(failed)?;
        bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(71));
        file.write_all_at(&bytes, at).map_err(failed)?;
    }
    file.sync_data().map_err(failed)?;
    Ok(count)
}

pub(super) fn run_resilver(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let options = run.options.clone();
    for medium in setting.media() {
        run.step("betree.resilver the mirror is filled")?;
        let (mut mirror, store) = Mirror::new(medium, setting, &options)?;
        let params = params(setting, medium, &mirror);
        let mut version = 0;
        let resilvered = || {
            let at = Position { class: 0, vdev: 0, leaf: 1 };
            store.set_offline(at).map_err(failed("take a copy away"))?;
            version += 1;
            // A tenth of the records, while one side is away.
            let records = mirror.records / 10;
            mirror.put(&store, 0..records, version)?;
            store.set_online(at).map_err(failed("bring a copy back"))?;
            let start = Instant::now();
            let on = &mut |_, _| ControlFlow::Continue(());
            let report = store.resilver(on).map_err(failed("resilver"))?;
            let took = start.elapsed();
            if !report.is_complete || report.lost > 0 {
                let why = format!("a resilver lost {} extents", report.lost);
                return Err(Error::WrongAnswer { store: BETREE.to_owned(), why });
            }
            let (used, capacity) = used(&store);
            Ok(vec![
                Sample::new("resilver", "B/s", report.bytes as f64 / took.as_secs_f64().max(1e-9)),
                Sample::new("read", "B", report.bytes as f64),
                Sample::new("used", "B", used as f64),
                Sample::new("capacity", "B", capacity as f64),
            ])
        };
        run.compare("betree.resilver", &params, &mut [Contender::new(BETREE, resilvered)])?;
    }
    Ok(())
}
