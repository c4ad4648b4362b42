//! The soak: one server under mixed load for long, ended at random moments, and every answer compared.
//!
//! [`soak`] starts Halite's server on a pool of limited size, filled so far that its collector works, and clients that
//! write, read, scan, disconnect and connect again. Each client knows its acknowledged writes (`known`), so it can
//! check each answer; its transactions are on keys of several partitions, and other clients check that they are whole.
//! Every few seconds the server is killed (`kill -9`), or asked to end, and started again; then every client first
//! compares all of its keys. At the end, after one more kill, all keys are compared once more and `halite check`
//! verifies every checksum. The server's memory is sampled meanwhile (`memory`): it must not grow.
//!
//! The engine betree is soaked on its pool and a mirror of two files, and looked after between two of its server's lives:
//! snapshots, clones, scrubs, a file that goes and comes back (`administration`).

mod administration;
mod client;
mod known;
mod memory;
mod values;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::json;

use crate::child::Child;
use crate::mix::mix;
use crate::rstore::RstoreOptions;
use crate::rstore::server::{Launch, Server, find};
use crate::{Error, Params, Repeats, Result, Row, Run, Sample, Scratch};
use administration::{Administration, TOPOLOGY};
use client::{Client, Done};
use memory::Memory;
use values::{RECORD_BYTES, TWINS, Values};

/// The experiment's name in rows.
pub const NAME: &str = "soak";

const SUBJECT: &str = "halite";

/// The engine that is looked after between the lives of its server.
const WITH_POOL: &str = "betree";

/// The part of the pool, in percent, that is live if every key has a value.
const FILL: u64 = 60;

/// A key in so many is one of a group.
const GROUPED: u64 = 8;

/// The server lives so many times at least, on average, but not shorter and not longer than this.
const LIVES: u32 = 30;
const LIFE_MIN: Duration = Duration::from_secs(1);
const LIFE_MAX: Duration = Duration::from_secs(20);

/// In so many percent of its ends the server is killed; in the others it is asked to end.
const KILLED: u64 = 80;

/// How often the server is checked.
const TICK: Duration = Duration::from_millis(20);

/// Bytes of a pool that detects the folder's domain.
const PROBE_BYTES: u64 = 1 << 20;

/// The length, the sizes and the program of a soak.
#[derive(Debug, Clone)]
pub struct SoakOptions {
    /// How long clients work, recoveries included.
    pub time: Duration,
    /// Clients, each a thread with one connection.
    pub clients: u64,
    /// Threads of the server.
    pub server_threads: usize,
    /// Bytes of its pool.
    pub pool_bytes: u64,
    /// The engine, if not the default of the medium.
    pub engine: Option<String>,
    /// The program `halite`, if it is not this one or beside it.
    pub halite_bin: Option<PathBuf>,
}

impl Default for SoakOptions {
    /// Half an hour, eight clients, two threads, 128 MiB, the engine of the medium.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30 * 60),
            clients: 8,
            server_threads: 2,
            pool_bytes: 128 << 20,
            engine: None,
            halite_bin: None,
        }
    }
}

impl SoakOptions {
    /// # Errors
    /// [`Error::Wrong`] for an invalid value.
    pub fn check(&self) -> Result<()> {
        for (option, value, least, most) in [
            ("--clients", self.clients, 1, 1000),
            ("--server-threads", self.server_threads as u64, 1, 64),
            ("--pool-size", self.pool_bytes, 64 << 20, 1 << 40),
        ] {
            if !(least..=most).contains(&value) {
                let why = format!("{value} is not between {least} and {most}");
                return Err(Error::Wrong { option, why });
            }
        }
        match &self.engine {
            Some(engine) if !halite::ENGINES.contains(&&engine[..]) => {
                let why =
                    format!("there is no `{engine}`; there is {}", halite::ENGINES.join(", "));
                Err(Error::Wrong { option: "--engine", why })
            }
            _ => Ok(()),
        }
    }
}

/// The current task of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Working,
    /// Compare everything once more.
    Checked,
}

/// The present process of the server.
struct Place {
    /// Its lives so far.
    life: u64,
    /// `None`: the server has been ended, or is not running yet.
    addr: Option<std::net::SocketAddr>,
    stage: Stage,
}

/// The state that the clients share with the thread that ends the server.
struct Shared {
    seed: u64,
    clients: u64,
    /// The keys of each client.
    keys: u64,
    groups: u64,
    place: Mutex<Place>,
    failed: AtomicBool,
}

impl Shared {
    fn place(&self) -> Option<(u64, std::net::SocketAddr, Stage)> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.addr.map(|addr| (place.life, addr, place.stage))
    }

    fn is_working(&self, life: u64) -> bool {
        !self.has_failed()
            && self.place().is_some_and(|(now, _, stage)| (now, stage) == (life, Stage::Working))
    }

    /// Whether the server of that life is ended, or about to be.
    fn is_ending(&self, life: u64) -> bool {
        self.place().is_none_or(|(now, ..)| now != life)
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The server is about to end.
    fn ends(&self) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).addr = None;
    }

    /// Publishes the address of a server that answers.
    fn serves(&self, addr: std::net::SocketAddr, stage: Stage) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Place { life: place.life + 1, addr: Some(addr), stage };
    }
}

/// The server's lives and their ends.
#[derive(Default)]
struct Lives {
    kills: u64,
    stops: u64,
    recoveries: Vec<Duration>,
    collected_blocks: f64,
    memory: Memory,
    /// The administration of devices and snapshots, of an engine that has these.
    administration: Option<Administration>,
    /// The first fault between two lives.
    wrong: Option<String>,
}

/// Soaks a server, and adds rows of the work done.
///
/// # Errors
/// [`Error::Soak`] with the first wrong answer, the finding of `halite check`, or memory that grew; the server's folder
/// is then kept. [`Error::Server`], [`Error::Interrupted`].
pub fn soak(options: &SoakOptions, run: &mut Run<'_>) -> Result<()> {
    options.check()?;
    let domain = Scratch::new(&run.options, PROBE_BYTES)?.pool().domain();
    let found = RstoreOptions { halite_bin: options.halite_bin.clone(), ..Default::default() };
    let subject = find(SUBJECT, &found, domain)
        .map_err(|absent| Error::Server { server: SUBJECT.to_owned(), why: absent.why })?;
    let records = options.pool_bytes * FILL / 100 / RECORD_BYTES / options.clients;
    let groups = (records / GROUPED / TWINS).max(1);
    let shared = Shared {
        seed: run.options.seed,
        clients: options.clients,
        keys: records.saturating_sub(groups * TWINS).max(1),
        groups,
        place: Mutex::new(Place { life: 0, addr: None, stage: Stage::Working }),
        failed: AtomicBool::new(false),
    };
    let has_pool = options.engine.as_deref() == Some(WITH_POOL);
    let launch = Launch {
        threads: options.server_threads,
        size_max: Some(options.pool_bytes),
        data_bytes: options.pool_bytes,
        index: None,
        engine: options.engine.clone(),
        topology: has_pool.then_some(TOPOLOGY),
    };
    let folder = run.options.folder.clone();
    let mut server = Server::start(&subject, &launch, &folder, run.interrupted())?;
    let values = Values::new(run.options.seed);
    run.plan(options.time.as_secs().max(1));
    let begin = Instant::now();
    let (outcome, mut lives, done) = thread::scope(|scope| {
        let shared = &shared;
        let clients: Vec<_> = (0..options.clients)
            .map(|number| {
                let client = Client::new(shared, number, values.clone());
                scope.spawn(move || {
                    let ended = client.run();
                    shared.failed.fetch_or(ended.is_err(), Ordering::Relaxed);
                    ended
                })
            })
            .collect();
        let administration = has_pool.then(|| Administration::of(&server, run.options.seed));
        let mut lives = Lives { administration, ..Lives::default() };
        let outcome = live(&mut server, shared, options, run, &mut lives);
        let is_over = outcome.is_err() || lives.wrong.is_some();
        shared.failed.fetch_or(is_over, Ordering::Relaxed);
        let panicked = |_| Err("a client panicked".to_owned());
        let done: Vec<_> =
            clients.into_iter().map(|client| client.join().unwrap_or_else(panicked)).collect();
        (outcome, lives, done)
    });
    let time = begin.elapsed();
    let wrong = done.iter().find_map(|ended| ended.as_ref().err().cloned()).or(lives.wrong.take());
    let done = Done::sum(done.into_iter().flatten());
    let mut params = Params::new();
    params.insert("clients".to_owned(), json!(options.clients));
    params.insert("server-threads".to_owned(), json!(options.server_threads));
    if let Some(engine) = &options.engine {
        params.insert("engine".to_owned(), json!(engine));
    }
    params.insert("pool-bytes".to_owned(), json!(options.pool_bytes));
    params.insert("keys".to_owned(), json!((shared.keys + TWINS * groups) * options.clients));
    params.insert("durability".to_owned(), json!(subject.durability));
    let verdict = match wrong {
        Some(wrong) => Err(wrong),
        None if outcome.is_ok() => finish(&mut server, &done, &mut lives),
        None => Ok(()),
    };
    // The last checks count, too: a short run on a busy machine may have had no other.
    add_rows(run, &params, &done, &lives, time, verdict.is_err());
    outcome?;
    verdict.map_err(|why| {
        let kept = server.keep();
        Error::Soak { why: format!("{why}; seed {}, {} is kept", shared.seed, kept.display()) }
    })
}

/// Starts and ends the server until the time is over or a client found a violation.
fn live(
    server: &mut Server,
    shared: &Shared,
    options: &SoakOptions,
    run: &mut Run<'_>,
    lives: &mut Lives,
) -> Result<()> {
    let begin = Instant::now();
    let mean = (options.time / LIVES).clamp(LIFE_MIN, LIFE_MAX).as_secs_f64();
    let mut random = Rng::with_seed(mix(shared.seed));
    shared.serves(server.target.addr, Stage::Working);
    let mut seconds = 0;
    loop {
        // Exponential: now and then the server ends while it recovers or is checked.
        let life = Duration::from_secs_f64(-mean * (1.0 - random.f64()).ln());
        let born = Instant::now();
        while born.elapsed() < life && begin.elapsed() < options.time && !shared.has_failed() {
            thread::sleep(TICK);
            lives.memory.sample(begin.elapsed(), born.elapsed(), server.dram_bytes());
            let now = begin.elapsed().as_secs();
            run.done(now - seconds);
            seconds = now;
            run.step(&format!("{NAME}: {} kills, {} stops", lives.kills, lives.stops))?;
            server.check()?;
        }
        if shared.has_failed() {
            return Ok(());
        }
        let info = server.info()?;
        lives.collected_blocks += info.get("collected_blocks").copied().unwrap_or(0.0);
        let is_last = begin.elapsed() >= options.time;
        let is_killed = is_last || random.u64(..100) < KILLED;
        shared.ends();
        server.end(is_killed)?;
        if is_killed {
            lives.kills += 1
        } else {
            lives.stops += 1
        }
        if let Some(administration) = &mut lives.administration
            && let Err(why) = administration.turn()
        {
            lives.wrong = Some(why);
            return Ok(());
        }
        let started = server.start_again()?;
        server.wait_until_ready(run.interrupted())?;
        lives.recoveries.push(started.elapsed());
        shared.serves(server.target.addr, if is_last { Stage::Checked } else { Stage::Working });
        if is_last {
            return Ok(());
        }
    }
}

/// Checks the last server's data, its memory and its medium.
fn finish(server: &mut Server, done: &Done, lives: &mut Lives) -> std::result::Result<(), String> {
    let size = server.talk().and_then(|mut talk| {
        talk.text(&["DBSIZE"]).map_err(|source| server.network("count its records", source))
    });
    let size = size.map_err(|error| error.to_string())?;
    if size != done.present.to_string() {
        return Err(format!("the server has {size} keys, the clients know of {}", done.present));
    }
    server.end(false).map_err(|error| error.to_string())?;
    if let Some(administration) = &mut lives.administration {
        administration.finish()?;
    }
    let (program, folder) = server.database();
    let mut check = Command::new(program);
    check.arg("check").arg(folder).stdin(Stdio::null());
    let (status, said) = Child::run(check).map_err(|error| format!("halite check: {error}"))?;
    if !status.success() {
        return Err(format!("halite check: {}", said.trim()));
    }
    lives.memory.verdict()
}

fn add_rows(
    run: &mut Run<'_>,
    params: &Params,
    done: &Done,
    lives: &Lives,
    time: Duration,
    is_wrong: bool,
) {
    let longest = lives.recoveries.iter().max().copied().unwrap_or_default();
    let count = |metric: &str, count: u64| Sample::new(metric, "op", count as f64);
    let samples = [
        count("acknowledged", done.acknowledged),
        count("compared", done.compared),
        count("scans", done.scans),
        count("checks", done.checks),
        count("kills", lives.kills),
        count("stops", lives.stops),
        Sample::new("wrong", "bool", f64::from(u8::from(is_wrong))),
        Sample::new("time", "ns", time.as_nanos() as f64),
        Sample::new("recovery-max", "ns", longest.as_nanos() as f64),
        Sample::new("collected-blocks", "op", lives.collected_blocks),
        Sample::new("dram-max", "B", lives.memory.most() as f64),
        Sample::new("dram-growth", "x", lives.memory.growth()),
    ];
    let administration = lives.administration.as_ref().map(Administration::counts);
    let administration = administration.into_iter().flatten().map(|(name, n)| count(name, n));
    for sample in samples.into_iter().chain(administration) {
        let Sample { metric, unit, value } = sample;
        let repeats = Repeats { metric, unit, values: vec![value] };
        if let Some(row) = Row::of(NAME, SUBJECT, params, &repeats) {
            run.push(row);
        }
    }
}

impl Done {
    fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            acknowledged: sum.acknowledged + one.acknowledged,
            compared: sum.compared + one.compared,
            checks: sum.checks + one.checks,
            scans: sum.scans + one.scans,
            present: sum.present + one.present,
        })
    }
}
