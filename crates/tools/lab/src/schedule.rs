//! Concurrent histories under a deterministic scheduler.
//!
//! Several threads call one engine. `shuttle` simulates them on one, and switches where a lock is taken or a modelled
//! medium is reached: at random, or with few preemptions at places drawn at random (PCT). The results of the calls and
//! the trace of the medium are one history, whose crashes are explored like those of any other; `linearize` computes
//! the states that each crash may leave.

use std::sync::{Arc, Mutex};

use halite_contract::{
    Direction, Durability, Engine, EngineOptions, Error, Expectation, KeyRange, KeySpaceId, Op,
};
use halite_disk::DiskModel;
use halite_pmem::{Medium, ModelFile};
use halite_sim::{Site, Trace, What, locks};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

use crate::case::Case;
use crate::explore::{Explorer, Violation};
use crate::linearize::{Call, ConcurrentHistory, Effect};
use crate::store::{CAPACITY, Store, named};
use crate::world::{Digest, World};
use crate::{Random, Rules};

/// A call of a thread.
#[derive(Debug, Clone)]
enum Request {
    Put(u8, u32),
    Delete(u8),
    /// Two keys at once.
    Pair(u8, u8, u32),
    Get(u8),
    Scan,
    /// Sets a key if another key, or, without one, every key is unchanged since it was read.
    Update(Option<u8>, u8, u32),
    /// A little background work of the engine, in each partition.
    Collect,
}

/// The calls of each thread, and those before the threads started.
#[derive(Debug, Clone)]
struct Plan {
    before: Vec<Request>,
    threads: Vec<Vec<Request>>,
}

const SPACE: &str = "space";

/// Keys that threads use.
const KEYS: u8 = 3;

/// The stack of a simulated thread, in bytes.
const STACK: usize = 256 << 10;

impl Request {
    fn draw(random: &mut Random, large: bool) -> Self {
        let (key, other) = (random.below(KEYS.into()) as u8, random.below(KEYS.into()) as u8);
        let len = match random.below(20) {
            0 if large => 40_000 + random.below(100_000),
            0..8 if large => 20_000 + random.below(10_000),
            _ => random.below(60),
        };
        match random.below(100) {
            0..38 => Self::Put(key, len as u32),
            38..48 => Self::Delete(key),
            48..60 if key != other => Self::Pair(key, other, len as u32),
            48..74 => Self::Get(key),
            74..82 => Self::Update(Some(other), key, len as u32),
            82..90 => Self::Update(None, key, len as u32),
            _ => Self::Scan,
        }
    }
}

impl Plan {
    fn story(&self) -> Vec<String> {
        let mut story = vec![format!("Before: {:?}", self.before)];
        let threads = self.threads.iter().enumerate();
        story.extend(threads.map(|(number, requests)| format!("Thread {number}: {requests:?}")));
        story
    }

    /// Draws calls with background work between them.
    fn draw_working(random: &mut Random) -> Self {
        let mut plan = Self::draw(random);
        for requests in &mut plan.threads {
            for at in (0..=requests.len()).rev() {
                if random.percent(25) {
                    requests.insert(at, Request::Collect);
                }
            }
        }
        plan
    }

    fn draw(random: &mut Random) -> Self {
        let large = random.percent(10);
        // The space is so full that it is collected while the threads run.
        let before = if large { 36 + random.below(14) } else { random.below(3) };
        let before = (0..before).map(|_| match large {
            true => Request::Put(random.below(KEYS.into()) as u8, 29_000),
            false => Request::draw(random, false),
        });
        let before = before.collect();
        let threads = (0..2 + random.below(2))
            .map(|_| (0..1 + random.below(3)).map(|_| Request::draw(random, large)).collect());
        Self { before, threads: threads.collect() }
    }
}

/// The result of one schedule.
struct Execution {
    trace: Trace,
    /// The events of files.
    model: DiskModel,
    history: ConcurrentHistory,
    /// The event at which the threads start.
    started: u32,
    failure: Option<String>,
}

fn key(number: u8) -> [u8; 1] {
    [b'a' + number]
}

fn value(len: u32, unique: u64) -> Vec<u8> {
    let mut value = vec![unique as u8; len as usize];
    value.extend_from_slice(&unique.to_le_bytes());
    value
}

/// Carries out a call; returns its effect.
fn carry_out(
    engine: &dyn Engine,
    space: KeySpaceId,
    request: &Request,
    unique: u64,
) -> halite_contract::Result<Effect> {
    let name = |number: u8| named(SPACE, &key(number));
    let write = |ops: &[Op<'_>]| engine.write(ops, Durability::Immediate);
    Ok(match *request {
        Request::Put(number, len) => {
            let value = value(len, unique);
            write(&[Op::Put { space, key: &key(number), value: &value }])?;
            Effect::Write(vec![(name(number), Some(Digest::of(&value)))])
        }
        Request::Delete(number) => {
            write(&[Op::Delete { space, key: &key(number) }])?;
            Effect::Write(vec![(name(number), None)])
        }
        Request::Pair(one, other, len) => {
            let value = value(len, unique);
            let put = |key| Op::Put { space, key, value: &value };
            write(&[put(&key(one)), put(&key(other))])?;
            let digest = Some(Digest::of(&value));
            Effect::Write(vec![(name(one), digest), (name(other), digest)])
        }
        Request::Collect => {
            for partition in 0..engine.partitions() {
                engine.collect_ahead(partition)?;
            }
            Effect::Write(Vec::new())
        }
        Request::Get(number) => {
            let found = engine.get(space, &key(number))?;
            Effect::Get(name(number), found.map(|found| Digest::of(&found)))
        }
        Request::Scan => {
            let mut world = World::from([(named(SPACE, b""), Digest::of(b""))]);
            for pair in engine.scan(space, KeyRange::all(), Direction::Forward)? {
                let (key, value) = pair?;
                // The others may go on between two pairs.
                locks::point();
                world.insert(named(SPACE, &key), Digest::of(&value));
            }
            Effect::Scan(world)
        }
        Request::Update(read, number, len) => {
            update(engine, space, read, (&key(number), &value(len, unique)))?
        }
    })
}

/// Reads a key, or all, and writes another if the keys read are unchanged. Returns the effect, which is at one moment.
fn update(
    engine: &dyn Engine,
    space: KeySpaceId,
    read: Option<u8>,
    (written, value): (&[u8], &[u8]),
) -> halite_contract::Result<Effect> {
    let snapshot = engine.snapshot()?;
    let mut found = Vec::new();
    for number in 0..KEYS {
        if read.is_none_or(|read| read == number) {
            locks::point();
            let digest = snapshot.get(space, &key(number))?.map(|found| Digest::of(&found));
            found.push((named(SPACE, &key(number)), digest));
        }
    }
    let (of_key, of_range) = (read.map(key), [(space, KeyRange::all())]);
    let keys: Vec<(KeySpaceId, &[u8])> = of_key.iter().map(|key| (space, &key[..])).collect();
    let ranges = if read.is_none() { &of_range[..] } else { &[] };
    let expected = Expectation { snapshot: &*snapshot, keys: &keys, ranges };
    let op = Op::Put { space, key: written, value };
    match engine.write_if(&[op], Durability::Immediate, &[expected]) {
        Ok(()) => Ok(Effect::Update(found, vec![(named(SPACE, written), Some(Digest::of(value)))])),
        // A refused update has read one state all the same.
        Err(Error::Conflict { .. }) => Ok(Effect::Update(found, Vec::new())),
        Err(error) => Err(error),
    }
}

/// Notes in a trace: the threads start; a call, by its number, begins or ends.
const STARTED: u64 = 0;
const BEGUN: u64 = 1;
const ENDED: u64 = 2;

fn note(what: u64, call: usize) -> u64 {
    what | (call as u64) << 2
}

/// The medium that a plan runs on.
#[derive(Clone, Copy)]
struct MediumPlan {
    rules: Rules,
    seed: u64,
    disregarded: Option<(Site, halite_sim::Request)>,
}

/// Runs a plan on a new medium, inside the simulation.
fn execute<F>(subject: &Store<F>, plan: &Plan, on: MediumPlan) -> Execution
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>> + Send + Sync + 'static,
{
    let medium = Medium::new(on.rules.domain(), CAPACITY).expect("room for a medium");
    let unsafe_shutdowns = on.rules.counts_failures().then_some(0);
    medium.restore(ModelFile { unsafe_shutdowns, ..ModelFile::default() }, []);
    medium.seed(on.seed);
    medium.machine().disregard(on.disregarded);
    let calls: usize = plan.threads.iter().map(Vec::len).sum();
    let effects = Arc::new(Mutex::new(vec![None; calls]));
    let lived = live(subject, plan, &medium, &effects);
    medium.machine().cut_power();
    let (before, failure) = match lived {
        Ok((engine, before)) => {
            drop(engine);
            (before, None)
        }
        Err(failure) => (World::new(), Some(failure)),
    };
    medium.restore_power();
    let mut trace = Trace::default();
    medium.machine().take_trace(&mut trace);
    let effects = std::mem::take(&mut *effects.lock().unwrap_or_else(|held| held.into_inner()));
    let mut calls: Vec<_> =
        effects.into_iter().map(|effect| Call { begun: u32::MAX, ended: None, effect }).collect();
    let mut started = 0;
    for (number, event) in (0..).zip(&trace.events) {
        let What::Mark(mark) = event.what else { continue };
        let call = (mark >> 2) as usize;
        match mark & 3 {
            BEGUN => calls[call].begun = number,
            ENDED => calls[call].ended = Some(number),
            _ => started = number,
        }
    }
    let history = ConcurrentHistory::new(before, calls);
    Execution { trace, model: DiskModel::of(medium.machine()), history, started, failure }
}

type Effects = Arc<Mutex<Vec<Option<Effect>>>>;

/// Opens an engine and lets the threads of a plan call it. Returns the engine's contents when they started.
fn live<F>(
    subject: &Store<F>,
    plan: &Plan,
    medium: &Medium,
    effects: &Effects,
) -> Result<(Arc<dyn Engine>, World), String>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>> + Send + Sync + 'static,
{
    let text = |error: halite_contract::Error| error.to_string();
    let engine = (subject.opener())(&subject.options(medium)).map_err(text)?;
    let space = engine.key_space(SPACE).map_err(text)?;
    let mut before = World::from([(named(SPACE, b""), Digest::of(b""))]);
    for (unique, request) in (1000..).zip(&plan.before) {
        let effect = carry_out(&*engine, space, request, unique).map_err(text)?;
        if let Effect::Write(changes) | Effect::Update(_, changes) = effect {
            for (name, digest) in changes {
                match digest {
                    Some(digest) => drop(before.insert(name, digest)),
                    None => drop(before.remove(&name)),
                }
            }
        }
    }
    medium.machine().mark(note(STARTED, 0));
    let mut first = 0;
    let mut threads = Vec::new();
    for requests in plan.threads.clone() {
        let (engine, medium, effects) = (Arc::clone(&engine), medium.clone(), Arc::clone(effects));
        let numbers = first..first + requests.len();
        first = numbers.end;
        threads.push(shuttle::thread::spawn(move || {
            for (number, request) in numbers.zip(&requests) {
                medium.machine().mark(note(BEGUN, number));
                let effect = carry_out(&*engine, space, request, number as u64);
                medium.machine().mark(note(ENDED, number));
                let effect = effect.map_err(|error| format!("{request:?} fails: {error}"))?;
                effects.lock().unwrap_or_else(|held| held.into_inner())[number] = Some(effect);
            }
            Ok::<_, String>(())
        }));
    }
    for thread in threads {
        thread.join().map_err(|_| "a thread panics".to_owned())??;
    }
    Ok((engine, before))
}

impl<F> Explorer<'_, Store<F>>
where
    F: Fn(&EngineOptions) -> halite_contract::Result<Arc<dyn Engine>> + Send + Sync + 'static,
{
    /// Runs the concurrent history of a seed under so many schedules, and explores the crashes of
    /// each. Returns the first violation.
    pub fn explore_schedules(&mut self, seed: u64, schedules: u32) -> Option<Violation> {
        crate::quiet::quietly(|| {
            let executions = self.execute_plan(seed, schedules);
            for (number, execution) in (0..).zip(executions) {
                if self.only_schedule().is_some_and(|only| only != number) {
                    continue;
                }
                let Execution { trace, model, history, started, failure } = execution;
                let recorded = (&trace, &model);
                let violation =
                    self.explore_trace((seed, number), recorded, &history, started, failure);
                if violation.is_some() {
                    return violation;
                }
            }
            None
        })
    }

    /// Looks at one case of [`Explorer::explore_schedules`] alone, as [`Explorer::replay`] does.
    pub fn replay_schedule(
        &mut self,
        case: &Case,
        schedules: u32,
    ) -> (Vec<String>, Option<String>) {
        let plan = self.plan(&mut Random::of(&[case.seed, 1]));
        self.replay_by(case, plan.story(), |explorer| {
            explorer.explore_schedules(case.seed, schedules)
        })
    }

    /// The calls of the threads.
    fn plan(&self, random: &mut Random) -> Plan {
        match self.subject().works_ahead() {
            true => Plan::draw_working(random),
            false => Plan::draw(random),
        }
    }

    fn execute_plan(&mut self, seed: u64, schedules: u32) -> Vec<Execution> {
        let mut random = Random::of(&[seed, 1]);
        let plan = self.plan(&mut random);
        let executions = Arc::new(Mutex::new(Vec::new()));
        let subject = self.subject().clone();
        let medium = MediumPlan {
            rules: self.rules(),
            seed: self.identity(),
            disregarded: self.disregarded(),
        };
        let effort = self.effort().clone();
        self.begin_schedule(seed, 0);
        let run = {
            let (executions, plan) = (Arc::clone(&executions), plan.clone());
            move || {
                effort.watch.sign();
                if effort.is_spent() {
                    return;
                }
                let execution = execute(&subject, &plan, medium);
                executions.lock().unwrap_or_else(|held| held.into_inner()).push(execution);
            }
        };
        let mut config = Config::new();
        config.stack_size = STACK;
        config.failure_persistence = shuttle::FailurePersistence::None;
        config.silence_warnings = true;
        let iterations = schedules as usize;
        let few_preemptions = random.percent(50);
        let simulation = std::panic::AssertUnwindSafe(|| {
            locks::scheduled(shuttle::thread::yield_now, || {
                if few_preemptions {
                    let depth = 1 + random.index(4);
                    let scheduler = PctScheduler::new_from_seed(seed, depth, iterations);
                    Runner::new(scheduler, config).run(run)
                } else {
                    Runner::new(RandomScheduler::new_from_seed(seed, iterations), config).run(run)
                }
            })
        });
        let simulated = std::panic::catch_unwind(simulation);
        let mut executions =
            std::mem::take(&mut *executions.lock().unwrap_or_else(|held| held.into_inner()));
        if let Err(panic) = simulated {
            let history = ConcurrentHistory::new(World::new(), Vec::new());
            let failure = Some(format!("it panics: {}", crate::quiet::message(&*panic)));
            let (trace, model) = (Trace::default(), self.model());
            executions.push(Execution { trace, model, history, started: 0, failure });
        }
        executions
    }
}
