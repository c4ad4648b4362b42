//! The server's databases as a subject of the lab: hashes with fields that expire, lists, sets, sorted sets, streams with
//! groups, and libraries of functions, on any engine.
//!
//! A step is what a turn of the server is: requests, and their durability. The limits of packed collections are so low that
//! collections grow beyond them and shrink again. Besides what clients see, each reading counts the records of elements
//! ([`halite_server::census`]): none may be without a collection, or a note that it goes.
//!
//! `halite load` puts values there while no server runs ([`Deed::Import`]). One of the servers has a limit of memory, and evicts
//! keys that come and go beside those of the histories ([`cache`]).

mod cache;
#[path = "../../../../face/server/tests/collections_model/mod.rs"]
mod collections_model;
mod deed;
mod worlds;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use halite::{Database, Engine, Partitioning, find_engine, open_engine};
use halite_contract::EngineOptions;
use halite_disk::{Disk, DiskModel};
use halite_lab::{Action, Digest, Random, Refusal, Subject, World, refusal};
use halite_pmem::{Medium, Pool};
use halite_resp_client::{Limits, Reply, read_reply};
use halite_server::in_process::InProcess;
use halite_server::{Config, census};

use collections_model::Chance;
use collections_model::commands::{Draw, ON_PURPOSE, Step, script};
use collections_model::seen::{everything, number, texts};
use deed::Deed;
use worlds::{model_of, world_of};

/// The seed of a server that opens a database, by its records: a run can be repeated, and a server does not draw the
/// numbers again that one before it gave to collections. A number is new if it has no elements, and an empty stream has none.
fn seed_of(db: &Database) -> u64 {
    let mut hasher = DefaultHasher::new();
    for space in db.key_spaces().into_iter().flatten() {
        let records = space.iter().into_iter().flatten().flatten();
        records.for_each(|(key, value)| (&key[..], &value[..]).hash(&mut hasher));
    }
    hasher.finish()
}

/// The key that has the time, in a database of its own.
const CLOCK: &str = "clock";
const CLOCK_DB: &str = "2";

/// How many collections are packed into one record, and how large they may be.
const LIMITS: [[&str; 2]; 5] = [
    ["hash-max-listpack-entries", "4"],
    ["set-max-listpack-entries", "4"],
    ["set-max-intset-entries", "4"],
    ["zset-max-listpack-entries", "4"],
    ["list-max-listpack-size", "4"],
];

/// A server on an engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collections {
    pub(crate) name: &'static str,
    engine: &'static str,
    /// How the names begin of the engine's variants for the lab of which it has the options.
    variants: &'static str,
    /// The number of partitions when the store is made, and when it is opened again.
    partitions: [usize; 2],
    /// It has a limit of memory, and evicts keys that are no part of the model.
    evicts: bool,
}

/// The servers that are explored.
pub(crate) const SERVERS: [Collections; 8] = [
    Collections::new("server-indexlog", "indexlog", [1, 1]),
    Collections::new("server-lsm", "lsm", [1, 1]),
    Collections { variants: "lsm-log-trees-", ..Collections::new("server-lsm-log", "lsm", [2, 2]) },
    Collections::new("server-betree", "betree", [1, 1]),
    Collections { evicts: true, ..Collections::new("server-evicting", "lsm", [1, 1]) },
    Collections::new("server-partitions", "indexlog", [2, 2]),
    Collections::new("server-rehoming", "indexlog", [1, 3]),
    Collections::new("server-rehoming-back", "indexlog", [3, 2]),
];

/// An open database, and its server, unless that could not begin again.
pub(crate) struct Open {
    server: Option<InProcess>,
    db: Database,
    engine: Arc<dyn Engine>,
}

impl Collections {
    const fn new(name: &'static str, engine: &'static str, partitions: [usize; 2]) -> Self {
        Self { name, engine, variants: engine, partitions, evicts: false }
    }

    /// The server of a name.
    #[allow(dead_code, reason = "not every test asks for one")]
    pub(crate) fn of(name: &str) -> Self {
        *SERVERS.iter().find(|server| server.name == name).expect("there is such a server")
    }

    fn draw<'a>(&self, random: &'a mut Random) -> Draw<'a, Random> {
        let has_many = !self.evicts && random.percent(12);
        let pipelines = self.partitions == [1, 1];
        Draw { random, pipelines, has_many, has_functions: true, now: 0 }
    }

    fn options(&self, medium: &Medium) -> EngineOptions {
        // Those of the engine's own histories: full soon, and without threads.
        let engine = find_engine(self.engine).expect("there is such an engine");
        let mut variants = (engine.crash_variants)().into_iter();
        let variant = variants.find(|variant| variant.name.starts_with(self.variants));
        let mut options = variant.expect("the engine has such variants").options;
        options.pool = "pool".into();
        options.pool_options.medium = Some(medium.clone());
        options.pool_options.size_max = self.capacity();
        options.disk = Some(Disk::model(&DiskModel::of(medium.machine())));
        let is_there = Pool::exists(&options.pool, &options.pool_options);
        let partitions = self.partitions[usize::from(is_there)];
        options.partitioning = Some(Partitioning::Hash(partitions));
        options
    }
}

fn refused(error: &halite::Error) -> Refusal {
    match error {
        halite::Error::Engine(error) => refusal(error),
        other => Refusal::Failed(other.to_string()),
    }
}

fn not_served(error: &halite_server::Error) -> Refusal {
    match error {
        halite_server::Error::Database(error) => refused(error),
        other => Refusal::Failed(other.to_string()),
    }
}

/// Errors that histories cause: the request is refused, and changes nothing.
const EXPECTED: [&str; 7] = [
    "WRONGTYPE",
    "ERR no such key",
    "BUSYGROUP",
    "NOGROUP",
    "ERR The ID specified in XADD",
    "ERR index out of range",
    "ERR Library not found",
];

/// Refuses a reply that no history causes.
fn check(reply: &Reply, is_script: bool) -> Result<(), String> {
    match reply {
        Reply::Error(text) => {
            let begins = EXPECTED.iter().any(|expected| text.starts_with(expected));
            let is_own = is_script
                && (text.contains(ON_PURPOSE)
                    || EXPECTED.iter().any(|expected| text.contains(expected)));
            if begins || is_own || text.contains("source and destination objects are the same") {
                Ok(())
            } else {
                Err(text.clone())
            }
        }
        Reply::Array(all) => all.iter().try_for_each(|one| check(one, is_script)),
        _ => Ok(()),
    }
}

/// The reply to a request.
fn ask(server: &mut Option<InProcess>, words: &[&str]) -> Result<Reply, String> {
    let server = server.as_mut().ok_or("there is no server")?;
    let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
    let out = server.request(&words);
    read_reply(&mut &out[..], &Limits::default()).map_err(|error| format!("no reply: {error}"))
}

impl Chance for Random {
    fn below(&mut self, bound: u64) -> u64 {
        Random::below(self, bound)
    }
}

impl Open {
    fn request(&mut self, words: &[String], is_script: bool) -> Result<(), String> {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let reply = ask(&mut self.server, &words)?;
        check(&reply, is_script).map_err(|text| format!("{}: {text}", words[0]))
    }

    fn request_text(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
        self.request(&words, false)
    }

    /// The time that the store has kept.
    fn clock(&mut self) -> Result<u64, String> {
        let ask = &mut |words: &[&str]| ask(&mut self.server, words);
        texts(ask, &["SELECT", CLOCK_DB])?;
        texts(ask, &["GET", CLOCK])?.first().map_or(Ok(0), |text| number(text))
    }

    fn settle(&mut self) -> Result<(), String> {
        self.with_server(InProcess::settle)?.map_err(|error| error.to_string())
    }

    fn with_server<T>(&mut self, ask: impl FnOnce(&mut InProcess) -> T) -> Result<T, String> {
        self.server.as_mut().map(ask).ok_or_else(|| "there is no server".to_owned())
    }

    /// Begins to serve.
    fn serve(&mut self, evicts: bool) -> Result<(), Refusal> {
        let mut config = Config::default();
        config.databases = 3;
        config.keys_expire = false;
        let seed = seed_of(&self.db);
        let server = InProcess::open(self.db.clone(), &config, seed);
        self.server = Some(server.map_err(|error| not_served(&error))?);
        for [name, value] in LIMITS {
            self.request_text(&format!("CONFIG SET {name} {value}")).map_err(Refusal::Failed)?;
        }
        if evicts {
            self.request_text(cache::LIMIT).map_err(Refusal::Failed)?;
            self.with_server(InProcess::count_bytes).map_err(Refusal::Failed)?;
        }
        let now = self.clock().map_err(Refusal::Failed)?;
        self.with_server(|server| server.set_time(now)).map_err(Refusal::Failed)
    }

    /// Takes a step.
    fn take(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Run { db, commands } => {
                self.request_text(&format!("SELECT {db}"))?;
                commands.iter().try_for_each(|words| self.request(words, false))?;
            }
            Step::Multi { db, commands } => {
                self.request_text(&format!("SELECT {db}"))?;
                self.request_text("MULTI")?;
                commands.iter().try_for_each(|words| self.request(words, false))?;
                self.request_text("EXEC")?;
            }
            Step::Script { db, commands, fails } => {
                self.request_text(&format!("SELECT {db}"))?;
                let words = ["EVAL".to_owned(), script(commands, *fails), "0".to_owned()];
                self.request(&words, true)?;
            }
            Step::Later(ms) => {
                let now = self.clock()? + ms;
                self.request_text(&format!("SET {CLOCK} {now}"))?;
                self.settle()?;
                self.with_server(|server| {
                    server.set_time(now);
                    server.remove_expired();
                })?;
            }
            Step::Reclaim => drop(self.with_server(InProcess::reclaim)?),
            Step::Collect => drop(self.with_server(InProcess::collect)?),
        }
        Ok(())
    }

    /// Counts the records of elements.
    fn count(&self) -> Result<halite_server::Census, Refusal> {
        let census = census(&self.db).map_err(|error| refused(&error))?;
        match census.faults.first() {
            None => Ok(census),
            Some(fault) => Err(Refusal::Failed(fault.clone())),
        }
    }
}

impl Subject for Collections {
    type Step = Deed;
    type Open = Open;

    fn name(&self) -> &str {
        self.name
    }

    fn capacity(&self) -> u64 {
        32 << 20
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Deed>> {
        let mut draw = self.draw(random);
        let mut actions = Vec::new();
        if draw.has_many {
            actions.push(Action::Step(draw.many().into()));
        }
        if self.partitions[0] != self.partitions[1] && draw.percent(40) {
            actions.extend(deed::streams_without_entries().map(Action::Step));
        }
        for _ in 0..4 + draw.below(10) {
            actions.push(match draw.below(100) {
                0..8 => Action::Reopen,
                8..11 => Action::Kill,
                11..15 => Action::KillWithin(None, draw.below(40) as u32),
                15..22 => {
                    let deed = match draw.percent(15) {
                        true if !self.evicts => Deed::import(&mut draw),
                        _ => Deed::draw(&mut draw, self.evicts),
                    };
                    Action::KillWithin(Some(deed), draw.below(30) as u32)
                }
                _ => Action::Step(Deed::draw(&mut draw, self.evicts)),
            });
        }
        actions
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Deed> {
        let mut draw = self.draw(random);
        (0..1 + draw.below(3)).map(|_| Deed::draw(&mut draw, self.evicts)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Open, Refusal> {
        let options = self.options(medium);
        let engine = open_engine(self.engine, &options).map_err(|error| refused(&error))?;
        let db = Database::with_engine(Arc::clone(&engine), "pool");
        let mut open = Open { server: None, db, engine };
        open.serve(self.evicts)?;
        Ok(open)
    }

    fn apply(&self, open: &mut Open, deed: &Deed) -> Result<(), String> {
        match deed {
            Deed::Step(step) => open.take(step)?,
            Deed::Cache(first) => {
                open.request_text("SELECT 0")?;
                cache::fill(*first).try_for_each(|words| open.request(&words, false))?;
            }
            Deed::Import { db, first } => {
                // As a command that opens the database by itself.
                open.server = None;
                let imported = deed::import(&open.db, *db, *first);
                open.serve(self.evicts).map_err(|error| format!("{error:?}"))?;
                imported?;
            }
        }
        open.settle()
    }

    fn model(&self, world: &mut World, deed: &Deed) -> bool {
        let mut model = model_of(world);
        match deed {
            Deed::Step(Step::Run { db, commands } | Step::Multi { db, commands }) => {
                // A command that is refused changes nothing, and the others do.
                commands.iter().for_each(|words| drop(model.run(*db, words)));
            }
            Deed::Step(Step::Script { db, commands, fails: false }) => {
                drop(model.run_all(*db, commands));
            }
            Deed::Step(Step::Later(ms)) => model.wait_until(model.now + ms),
            Deed::Import { db, first } => {
                let keys = deed::imported(*first);
                keys.iter().flatten().for_each(|words| drop(model.run(*db, words)));
            }
            Deed::Step(_) | Deed::Cache(_) => {}
        }
        *world = world_of(&model);
        true
    }

    fn worlds_within(&self, world: &World, deed: &Deed) -> Vec<World> {
        let mut model = model_of(world);
        match deed {
            Deed::Step(Step::Run { db, commands }) => {
                let within = commands[..commands.len() - 1].iter().map(|words| {
                    drop(model.run(*db, words));
                    world_of(&model)
                });
                within.collect()
            }
            Deed::Import { db, first } => {
                let keys = deed::imported(*first);
                let within = keys[..keys.len() - 1].iter().map(|commands| {
                    commands.iter().for_each(|words| drop(model.run(*db, words)));
                    world_of(&model)
                });
                within.collect()
            }
            _ => Vec::new(),
        }
    }

    /// Elements are reclaimed, and what has expired is removed, behind the reply.
    fn tells_failures_later(&self) -> bool {
        true
    }

    fn world(&self, open: &mut Open) -> Result<World, Refusal> {
        open.count()?;
        let now = open.clock().map_err(Refusal::Failed)?;
        let ask = &mut |words: &[&str]| ask(&mut open.server, words);
        let mut model = everything(ask, [0, 1]).map_err(Refusal::Failed)?;
        if self.evicts {
            cache::take_out(&mut model).map_err(Refusal::Failed)?;
        }
        // A hash of which all fields have expired is there until it is looked at.
        model.wait_until(now);
        Ok(world_of(&model))
    }

    fn look_up(&self, open: &mut Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(self.world(open)?.get(name).copied())
    }

    fn verify(&self, open: &mut Open) -> Result<(), Refusal> {
        while open.with_server(InProcess::reclaim).map_err(Refusal::Failed)? {}
        open.settle().map_err(Refusal::Failed)?;
        let census = open.count()?;
        if census.dropped + census.leaving > 0 {
            return Err(Refusal::Failed(format!("what was dropped does not go: {census:?}")));
        }
        let go_on = &mut |_, _| ControlFlow::Continue(());
        let report = open.engine.verify(go_on).map_err(|error| refusal(&error))?;
        match report.damage.into_iter().next() {
            None => Ok(()),
            Some(damage) => Err(refusal(&damage.into())),
        }
    }
}
