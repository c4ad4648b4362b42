//! A log on a pool comes back from every power cut with what was acknowledged, and each of its requests is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_lab::{
    Action, Budget, Digest, Effort, Ending, Exploration, Explorer, FaultKind, Job, Media, Plan,
    Random, Refusal, Rules, Subject, Unseen, World, mutate, place,
};
use halite_pmem::{Medium, Pool, PoolOptions};
use halite_wal::pool_log::{Place, PoolFound, PoolKnown, PoolLog, PoolShape};
use halite_wal::{Identity, Stopped};

const RULES: [Rules; 3] = [Rules::Memory, Rules::PageCache, Rules::Platform];

/// Histories under each set of rules; `HALITE_LAB_SEEDS` sets others.
const HISTORIES: u64 = 12;

/// Histories in which a mutant may hide.
const HISTORIES_MAX: u64 = 800;

/// Where the requests are that are left out.
const SOURCES: &str = "crates/shared/wal/src/pool_log/";

/// Short segments: batches fill them, and lie in several.
const SHAPE: PoolShape = PoolShape { segment_bytes: 512, spare: 1, kept: 2 };

const POOL: &str = "pool";
const CHECKPOINT: &str = "checkpoint";
const END: &str = "end";
const DEVICE: u16 = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    Append {
        seed: u64,
        waits: bool,
    },
    Sync,
    /// All batches are noted as not needed any more, and the log is trimmed.
    Checkpoint,
}

impl Logs {
    fn draw(&self, random: &mut Random) -> Step {
        match random.below(12) {
            0 => Step::Sync,
            1 => Step::Checkpoint,
            // There are few seeds, so batches share lines.
            at => Step::Append { seed: random.below(6), waits: at < 7 || !self.defers },
        }
    }
}

/// The records and the payload of a batch of this seed.
fn batch(seed: u64) -> (u32, Vec<u8>) {
    let mut random = Random::new(seed);
    let len = [20, 90, 300, 430, 350, 1100][seed as usize % 6];
    let word = |random: &mut Random| match seed % 3 {
        0 => [0; 8],
        _ => random.next().to_le_bytes(),
    };
    let mut bytes: Vec<u8> = (0..200).flat_map(|_| word(&mut random)).collect();
    bytes.truncate(len);
    (1 + (seed % 2) as u32, bytes)
}

fn batch_name(sequence: u64) -> Vec<u8> {
    format!("batch {sequence:06}").into_bytes()
}

fn next_name(sequence: u64) -> Vec<u8> {
    format!("next {sequence:06}").into_bytes()
}

fn next_of(world: &World) -> u64 {
    let last = world.keys().find_map(|name| name.strip_prefix(b"next "));
    last.map_or(1, |text| String::from_utf8_lossy(text).parse().expect("a number"))
}

/// A log; without deferred batches, each fence makes one durable.
struct Logs {
    defers: bool,
}

/// Dropping it closes it.
struct Open {
    segments: Arc<Segments>,
    log: PoolLog,
    /// The batches behind the last checkpoint.
    batches: BTreeMap<u64, Place>,
    next: u64,
}

fn refusal_of_pool(error: &halite_alloc::Error) -> Refusal {
    use halite_alloc::Error::{Damaged, Foreign, FutureVersion, Pool, Truncated};
    match error {
        Damaged { .. }
        | Foreign { .. }
        | FutureVersion { .. }
        | Truncated { .. }
        | Pool(halite_pmem::Error::TooShort { .. }) => Refusal::Named(error.to_string()),
        _ => Refusal::Failed(error.to_string()),
    }
}

fn refusal(error: &halite_wal::Error) -> Refusal {
    match error {
        halite_wal::Error::Damaged { .. } | halite_wal::Error::Missing { .. } => {
            Refusal::Named(error.to_string())
        }
        halite_wal::Error::Pool(error) => refusal_of_pool(error),
        _ => Refusal::Failed(error.to_string()),
    }
}

impl Open {
    /// Notes where the log ends, when all of it is durable.
    fn note_end(&self) -> halite_wal::Result<()> {
        let (number, at) = self.log.end();
        Ok(self.segments.set_root(END, u64::from(number) << 32 | at)?)
    }

    fn append(&mut self, seed: u64, waits: bool) -> halite_wal::Result<()> {
        let (records, bytes) = batch(seed);
        self.log.grow(bytes.len(), 0)?;
        let append = |to: &mut Vec<u8>| to.extend_from_slice(&bytes);
        let place = self.log.append(self.next, records, waits, append)?;
        self.batches.insert(self.next, place);
        self.next += u64::from(records);
        Ok(())
    }

    fn checkpoint(&mut self) -> halite_wal::Result<()> {
        self.log.sync()?;
        let (first, _) = self.log.end();
        self.segments.set_root(CHECKPOINT, u64::from(first) << 32 | self.next)?;
        self.note_end()?;
        self.batches.clear();
        self.log.release(first)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // A medium without power does not let it.
        let _ = self.log.close().and_then(|_| self.note_end());
    }
}

impl Subject for Logs {
    type Step = Step;
    type Open = Open;

    fn name(&self) -> &str {
        "pool-log"
    }

    fn capacity(&self) -> u64 {
        80 << 20
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..18 => Action::Kill,
            18..24 => Action::KillWithin(None, random.below(12) as u32),
            24..40 => Action::KillWithin(Some(self.draw(random)), random.below(10) as u32),
            _ => Action::Step(self.draw(random)),
        };
        (0..1 + random.below(10)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Step> {
        (0..random.below(4)).map(|_| self.draw(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Open, Refusal> {
        let mut options = PoolOptions::default();
        options.size_max = self.capacity();
        options.medium = Some(medium.clone());
        let path = Path::new(POOL);
        let segments = if Pool::exists(path, &options) {
            Segments::open(path, &options)
        } else {
            Segments::create(path, &options).and_then(|segments| {
                segments.install()?;
                Ok(segments)
            })
        };
        let segments = segments.map_err(|error| refusal_of_pool(&error))?;
        let root = segments.root(CHECKPOINT).unwrap_or(1);
        let (first, sequence) = ((root >> 32) as u32, root & u64::from(u32::MAX));
        let end = segments.root(END).unwrap_or(0);
        let end = ((end >> 32) as u32, end & u64::from(u32::MAX));
        let known = PoolKnown { first, sequence, end };
        let identity = Identity { store_id: 3, sequence_max: 1 << 30 };
        let mut batches = BTreeMap::new();
        let found = PoolFound::read(&segments.device(DEVICE), identity, known, SHAPE, |batch| {
            if batch.sequence >= sequence {
                batches.insert(batch.sequence, batch.place);
            }
            Ok::<(), ()>(())
        });
        let found = match found {
            Ok(found) => found,
            Err(Stopped::Log(error)) => return Err(refusal(&error)),
            Err(Stopped::Replay(())) => unreachable!("the replay has no errors"),
        };
        let next = found.next();
        let log = PoolLog::open(found).map_err(|error| refusal(&error))?;
        let open = Open { segments, log, batches, next };
        open.note_end().map_err(|error| refusal(&error))?;
        Ok(open)
    }

    fn apply(&self, open: &mut Open, step: &Step) -> Result<(), String> {
        let applied = match *step {
            Step::Append { seed, waits } => open.append(seed, waits),
            Step::Sync => open.log.sync(),
            Step::Checkpoint => open.checkpoint(),
        };
        applied.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        let next = next_of(world);
        match *step {
            Step::Append { seed, waits } => {
                let (records, bytes) = batch(seed);
                world.insert(batch_name(next), Digest::of(&bytes));
                world.remove(&next_name(next));
                world.insert(next_name(next + u64::from(records)), Digest::of(b""));
                waits
            }
            Step::Sync => true,
            Step::Checkpoint => {
                let is_begun = world.contains_key(&next_name(next));
                world.clear();
                if is_begun {
                    world.insert(next_name(next), Digest::of(b""));
                }
                true
            }
        }
    }

    fn world(&self, open: &mut Open) -> Result<World, Refusal> {
        let mut world = World::new();
        for (sequence, place) in &open.batches {
            let bytes = open.log.read(*place);
            let bytes = bytes.ok_or_else(|| Refusal::Failed("a batch is released".to_owned()))?;
            world.insert(batch_name(*sequence), Digest::of(&bytes));
        }
        if open.next > 1 {
            world.insert(next_name(open.next), Digest::of(b""));
        }
        Ok(world)
    }

    fn look_up(&self, open: &mut Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(self.world(open)?.remove(name))
    }

    fn verify(&self, open: &mut Open) -> Result<(), Refusal> {
        let (used, ready) = open.log.bytes();
        let held = open.segments.device(DEVICE).logical_segments().len() as u64;
        match (used + ready) / SHAPE.segment_bytes == held {
            true => Ok(()),
            false => Err(Refusal::Failed(format!("{used} and {ready} bytes, and {held} segments"))),
        }
    }
}

#[test]
fn a_log_comes_back_from_every_power_cut() {
    let histories = env::var("HALITE_LAB_SEEDS").ok().and_then(|text| text.parse().ok());
    let histories: u64 = histories.unwrap_or(HISTORIES);
    for rules in RULES {
        let mut explorer = Explorer::new(&Logs { defers: true }, rules, Effort::default());
        for seed in 0..histories {
            if let Some(violation) = explorer.explore(seed) {
                let (story, _) = explorer.replay(&violation.case);
                panic!("{}: {}\n{}", violation.case, violation.what, story.join("\n"));
            }
        }
        let tally = &explorer.tally;
        println!(
            "{}: {} crash points, {} of them complete, {} images, {} distinct, {} nested",
            rules.name(),
            tally.crash_points,
            tally.complete_points,
            tally.images,
            tally.distinct.len(),
            tally.nested
        );
        // A lab that looks at no crash points would find nothing.
        assert!(tally.crash_points > 10 * histories, "{}", tally.crash_points);
    }
}

#[test]
fn every_request_of_the_log_is_missed_if_it_is_left_out() {
    let jobs: Vec<Arc<dyn Job>> = RULES
        .map(|rules| Arc::new(Exploration::new(Logs { defers: true }, rules, 1)) as Arc<dyn Job>)
        .to_vec();
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES_MAX)) };
    let is_ours = |site| place(site).starts_with(SOURCES);
    let score = mutate(&plan, &jobs, &is_ours, &|_| ());
    assert!(score.findings.is_empty(), "{:#?}", score.findings.first());
    let mut survivors = Vec::new();
    for verdict in &score.verdicts {
        let caught = verdict.caught.as_ref().map_or("SURVIVES", |finding| &finding.case);
        println!("{}: {caught}, {} histories", verdict.mutant, verdict.histories);
        if verdict.caught.is_none() {
            survivors.push(verdict.mutant.to_string());
        }
    }
    assert!(survivors.is_empty(), "nothing needs {survivors:?}");
    let judged: BTreeSet<_> =
        score.verdicts.iter().map(|verdict| place(verdict.mutant.site)).collect();
    println!("{} places", judged.len());
    assert!(judged.len() >= 8, "{judged:?}");
}

/// A header is durable with the first frame behind it: without it, and with nothing later, the segment looks unused.
const UNSEEN: [Unseen; 2] = [
    Unseen::BY_SPACE[0],
    Unseen {
        kinds: &FaultKind::ALL,
        file: "wal/src/pool_log/ready.rs",
        endings: &[Ending::Killed],
    },
];

/// Damage to the batches of the last fence cannot be told from a power cut: here that is one batch at the most.
#[test]
fn a_log_on_a_faulty_medium_names_damage_or_gives_back_what_was_appended() {
    let subject = Logs { defers: false };
    let mut media = Media::new(&subject).without(&UNSEEN);
    for seed in 0..300 {
        if let Some(violation) = media.strike(seed) {
            let (story, _) = media.replay(&violation.case);
            panic!("{}: {}\n{}", violation.case, violation.what, story.join("\n"));
        }
    }
    let strikes = &media.tally.strikes;
    assert!(strikes.named_errors() > 0 && strikes.right > 0);
}
