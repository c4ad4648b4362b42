//! Objects written and read in sequence (Haura §4.2, Fig. 3): five objects, one after the other, by one thread.
//!
//! The writes are made durable together at the end, which is in their time; then the store is closed and opened, so
//! that nothing is cached, and the objects are read. The limit is a file of as many bytes on the same medium, written
//! and read in the same pieces. `betree.objects-over-time` has the throughput in every half second of the last repeat.
//! The paper found persistent memory fastest in writes, and behind an NVMe SSD in reads.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use fastrand::Rng;
use halite_betree::BetreeOptions;
use halite_contract::Durability;
use serde_json::json;

use super::engine::{failed, open};
use super::raw::{Aligned, RawFile};
use super::setting::{BETREE, Setting};
use crate::scratch::Home;
use crate::{Contender, Error, LIMIT, Repeats, Result, Row, Run, Sample};

pub(super) const NAME: &str = "betree.objects";

const OBJECTS: u64 = 5;

/// Bytes of a read and of a write.
const PIECE: usize = 1 << 20;

/// How often the throughput is sampled, as in the paper.
const SAMPLED: Duration = Duration::from_millis(500);

pub(super) fn plan(setting: &Setting<'_>, run: &Run<'_>) -> u64 {
    setting.media_count() * 2 * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (options, interrupted) = (run.options.clone(), run.interrupted());
    let bytes = setting.object_bytes / PIECE as u64 * PIECE as u64;
    let pieces = Pieces::new(bytes, options.seed);
    for medium in setting.media() {
        let folder = setting.folder(medium, &options);
        let params = setting.params(
            medium,
            [("objects", json!(OBJECTS)), ("object-bytes", json!(bytes)), ("piece", json!(PIECE))],
        );
        let access = RawFile::create(&Home::new(&folder)?.path().join("raw"))?.access();
        let over_time = RefCell::new(Vec::new());
        let raw = || {
            let home = Home::new(&folder)?;
            let file = RawFile::create(&home.path().join("raw"))?;
            let mut piece = Aligned::new(PIECE);
            let mut clock = Clock::begin(interrupted);
            for object in 0..OBJECTS {
                for number in 0..pieces.count {
                    piece.get_mut().copy_from_slice(pieces.of(object, number));
                    file.write_at((object * pieces.count + number) * PIECE as u64, piece.get())?;
                    clock.tick(PIECE)?;
                }
            }
            file.sync()?;
            let written = clock.end();
            let mut clock = Clock::begin(interrupted);
            for number in 0..OBJECTS * pieces.count {
                file.read_at(number * PIECE as u64, piece.get_mut())?;
                clock.tick(PIECE)?;
            }
            Ok(samples(&written, &clock.end()))
        };
        let betree = || {
            let home = Home::new(&folder)?;
            let store = open(home.path(), BetreeOptions::default(), &options)?;
            let objects = store.objects("bench").map_err(failed("open an object store"))?;
            let objects = objects.with_durability(Durability::Deferred);
            let mut clock = Clock::begin(interrupted);
            for number in 0..OBJECTS {
                let object = objects.create(&name(number)).map_err(failed("create an object"))?;
                for piece in 0..pieces.count {
                    let (at, bytes) = (piece * PIECE as u64, pieces.of(number, piece));
                    object.write_at(at, bytes).map_err(failed("write"))?;
                    clock.tick(PIECE)?;
                }
            }
            objects.sync().map_err(failed("sync"))?;
            let written = clock.end();
            drop((objects, store));
            let store = open(home.path(), BetreeOptions::default(), &options)?;
            let objects = store.objects("bench").map_err(failed("open an object store"))?;
            let mut buffer = vec![0; PIECE];
            let mut clock = Clock::begin(interrupted);
            for number in 0..OBJECTS {
                let object = objects.open(&name(number)).map_err(failed("open an object"))?;
                for piece in 0..pieces.count {
                    let at = piece * PIECE as u64;
                    let read = object.read_at(at, &mut buffer).map_err(failed("read"))?;
                    pieces.check(number, piece, &buffer[..read])?;
                    clock.tick(PIECE)?;
                }
            }
            let read = clock.end();
            let samples = samples(&written, &read);
            *over_time.borrow_mut() = vec![("write", written.parts), ("read", read.parts)];
            Ok(samples)
        };
        let mut contenders = [
            Contender::new(LIMIT, raw).with_param("access", access.into()),
            Contender::new(BETREE, betree)
                .with_param("durability", "all writes together, at the end".into()),
        ];
        run.compare(NAME, &params, &mut contenders)?;
        drop(contenders);
        for (op, parts) in over_time.into_inner() {
            for (place, value) in parts.into_iter().enumerate() {
                let mut params = params.clone();
                params.insert("op".to_owned(), json!(op));
                params.insert("second".to_owned(), json!(SAMPLED.as_secs_f64() * place as f64));
                let repeats = Repeats {
                    metric: "throughput".to_owned(),
                    unit: "B/s".to_owned(),
                    values: vec![value],
                };
                if let Some(row) = Row::of(&format!("{NAME}-over-time"), BETREE, &params, &repeats)
                {
                    run.push(row);
                }
            }
        }
    }
    Ok(())
}

fn name(object: u64) -> Vec<u8> {
    format!("object {object}").into_bytes()
}

fn samples(written: &Timed, read: &Timed) -> Vec<Sample> {
    vec![
        Sample::new("write", "B/s", written.throughput),
        Sample::new("read", "B/s", read.throughput),
    ]
}

/// The contents of objects: each piece is a window of random bytes.
struct Pieces {
    noise: Vec<u8>,
    /// Pieces of an object.
    count: u64,
}

impl Pieces {
    fn new(object_bytes: u64, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let words = 2 * PIECE / 8;
        let noise = (0..words).flat_map(|_| random.u64(..).to_le_bytes()).collect();
        Self { noise, count: object_bytes / PIECE as u64 }
    }

    fn of(&self, object: u64, piece: u64) -> &[u8] {
        let from = (object * 7919 + piece * 104_729) as usize % PIECE;
        &self.noise[from..from + PIECE]
    }

    /// Compares a part of each page with the bytes that were written: all of them would take as long as the reading.
    fn check(&self, object: u64, piece: u64, read: &[u8]) -> Result<()> {
        const PAGE: usize = 4096;
        let expected = self.of(object, piece);
        let is_right = |at: usize| read.get(at..at + 8) == expected.get(at..at + 8);
        match read.len() == PIECE && (0..PIECE).step_by(PAGE).all(is_right) {
            true => Ok(()),
            false => {
                let why = format!("piece {piece} of object {object} is not what was written");
                Err(Error::WrongAnswer { store: BETREE.to_owned(), why })
            }
        }
    }
}

/// A throughput, and its course.
struct Timed {
    throughput: f64,
    /// In each [`SAMPLED`].
    parts: Vec<f64>,
}

/// Measures a phase.
struct Clock<'a> {
    start: Instant,
    last: Instant,
    bytes: u64,
    bytes_at_last: u64,
    parts: Vec<f64>,
    interrupted: &'a AtomicBool,
}

impl<'a> Clock<'a> {
    fn begin(interrupted: &'a AtomicBool) -> Self {
        let start = Instant::now();
        Self { start, last: start, bytes: 0, bytes_at_last: 0, parts: Vec::new(), interrupted }
    }

    fn tick(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes as u64;
        let now = Instant::now();
        if now - self.last >= SAMPLED {
            self.part(now);
        }
        match self.interrupted.load(Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    fn part(&mut self, now: Instant) {
        let bytes = (self.bytes - self.bytes_at_last) as f64;
        self.parts.push(bytes / (now - self.last).as_secs_f64().max(1e-9));
        (self.last, self.bytes_at_last) = (now, self.bytes);
    }

    fn end(mut self) -> Timed {
        let now = Instant::now();
        self.part(now);
        let throughput = self.bytes as f64 / (now - self.start).as_secs_f64().max(1e-9);
        Timed { throughput, parts: self.parts }
    }
}
