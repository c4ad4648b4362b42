//! Levels come back from every power cut as they were, and each sync that they ask for is needed.

use std::collections::BTreeSet;
use std::env;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::common::{MemRun, Taken, scan, small_options, visible};
use halite_disk::{Disk, DiskModel};
use halite_lab::{
    Action, Budget, Digest, Effort, Exploration, Explorer, Job, Plan, Random, Refusal, Rules,
    Subject, World, mutate, place,
};
use halite_lsm::levels::{Change, Direction, Error, Levels, LevelsOptions};
use halite_pmem::{Medium, UNIT};
use halite_sst::{DELETE, PUT, SEQUENCE_MAX};

const RULES: [Rules; 2] = [Rules::PageCache, Rules::FailingSyncs];

/// Histories under each set of rules; `HALITE_LAB_SEEDS` sets others.
const HISTORIES: u64 = 8;

/// Histories in which a mutant may hide.
const HISTORIES_MAX: u64 = 300;

/// Where the requests are that are left out.
const SOURCES: [&str; 2] = ["crates/engines/lsm/src/levels/", "crates/shared/sst/src/"];

#[derive(Clone, Debug)]
enum Step {
    /// Some keys are written, some deleted, and that is added or merged.
    Run {
        seed: u64,
        merge: bool,
    },
    Compact,
}

impl Step {
    fn draw(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::Compact,
            n => Self::Run { seed: random.next(), merge: n == 1 },
        }
    }
}

/// The writes of a run with this seed: keys and values, or no value for keys that it deletes.
fn writes(seed: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut random = Random::new(seed);
    let writes = (0..1 + random.below(25)).map(|_| {
        let key = format!("key {:02}", random.below(40)).into_bytes();
        let value = vec![random.next() as u8; random.below(60) as usize];
        (key, (random.below(4) > 0).then_some(value))
    });
    writes.collect()
}

struct LevelsStore;

/// Dropping it closes it.
struct Open(Option<Levels>);

impl Open {
    fn levels(&self) -> &Levels {
        self.0.as_ref().expect("open")
    }

    fn runs(&self) -> u64 {
        self.levels().word("runs").unwrap_or(0)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // A medium without power does not let it.
        let _ = self.0.take().expect("open").close();
    }
}

fn run_name(number: u64) -> Vec<u8> {
    format!("run {number:06}").into_bytes()
}

fn refusal(error: &Error) -> Refusal {
    match error.file() {
        Some(_) => Refusal::Named(error.to_string()),
        None => Refusal::Failed(error.to_string()),
    }
}

impl Subject for LevelsStore {
    type Step = Step;
    type Open = Open;

    fn name(&self) -> &str {
        "levels"
    }

    fn capacity(&self) -> u64 {
        UNIT
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
        let action = |random: &mut Random| match random.below(100) {
            0..10 => Action::Reopen,
            10..18 => Action::Kill,
            18..26 => Action::KillWithin(None, random.below(12) as u32),
            26..44 => Action::KillWithin(Some(Step::draw(random)), random.below(30) as u32),
            _ => Action::Step(Step::draw(random)),
        };
        (0..1 + random.below(8)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Step> {
        (0..random.below(3)).map(|_| Step::draw(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Open, Refusal> {
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        // One thread makes a history the same each time.
        let options = LevelsOptions { threads: 1, manifest_bytes_max: 100, ..small_options() };
        let opened = Levels::open(&disk, 5, options, Taken::default().source());
        let (levels, report) = opened.map_err(|error| refusal(&error))?;
        match report.damaged.first() {
            Some(error) => Err(refusal(error)),
            None if report.foreign.is_empty() => Ok(Open(Some(levels))),
            None => Err(Refusal::Failed(format!("{report:?}"))),
        }
    }

    fn apply(&self, open: &mut Open, step: &Step) -> Result<(), String> {
        let levels = open.levels();
        let applied = match step {
            Step::Compact => levels.compact().map(|_| ()),
            Step::Run { seed, merge } => {
                let number = open.runs() + 1;
                let mut run = MemRun::default();
                for (at, (key, value)) in (0..).zip(writes(*seed)) {
                    let kind = if value.is_some() { PUT } else { DELETE };
                    run.add(&key, number * 100 + at, kind, &value.unwrap_or_default());
                }
                let words = vec![("runs".to_owned(), number)];
                let change = Change { memtables: Some(number), words };
                match merge {
                    true => levels.merge_run(0, &run, &change),
                    false => levels.add_run(0, &run, &change),
                }
            }
        };
        applied.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        if let Step::Run { seed, .. } = step {
            for (key, value) in writes(*seed) {
                match value {
                    Some(value) => world.insert(key, Digest::of(&value)),
                    None => world.remove(&key),
                };
            }
            let runs = world.keys().filter(|name| name.starts_with(b"run ")).count();
            world.insert(run_name(runs as u64), Digest::of(b""));
        }
        true
    }

    fn world(&self, open: &mut Open) -> Result<World, Refusal> {
        let levels = open.levels();
        let runs = (0..open.runs()).map(|number| (run_name(number), Digest::of(b"")));
        let mut world: World = runs.collect();
        for direction in [Direction::Forward, Direction::Reverse] {
            let pairs = scan(levels, 0, (None, None), direction, SEQUENCE_MAX);
            let pairs = pairs.map_err(|error| refusal(&error))?;
            world.extend(pairs.into_iter().map(|(key, (_, value))| (key, Digest::of(&value))));
        }
        if levels.memtables(0).unwrap_or(0) != open.runs() {
            return Err(Refusal::Failed("words and memtables are of one edit".to_owned()));
        }
        Ok(world)
    }

    fn look_up(&self, open: &mut Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        if let Some(number) = name.strip_prefix(b"run ") {
            let number: u64 = String::from_utf8_lossy(number).parse().expect("a number");
            return Ok((number < open.runs()).then(|| Digest::of(b"")));
        }
        let found = open.levels().get(0, name, SEQUENCE_MAX).map_err(|error| refusal(&error))?;
        Ok(visible(found).map(|(_, value)| Digest::of(&value)))
    }

    fn verify(&self, open: &mut Open) -> Result<(), Refusal> {
        match open.levels().check(&mut |_| ControlFlow::Continue(())).first() {
            Some(error) => Err(refusal(error)),
            None => Ok(()),
        }
    }
}

#[test]
fn levels_come_back_from_every_power_cut() {
    let histories = env::var("HALITE_LAB_SEEDS").ok().and_then(|text| text.parse().ok());
    let histories: u64 = histories.unwrap_or(HISTORIES);
    for rules in RULES {
        let mut explorer = Explorer::new(&LevelsStore, rules, Effort::default());
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
        assert!(tally.crash_points > 30 * histories, "{}", tally.crash_points);
    }
}

#[test]
fn every_sync_of_the_levels_is_missed_if_it_is_left_out() {
    let jobs: Vec<Arc<dyn Job>> =
        vec![Arc::new(Exploration::new(LevelsStore, Rules::PageCache, 1))];
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(HISTORIES_MAX)) };
    let is_ours = |site| SOURCES.iter().any(|source| place(site).starts_with(source));
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
    assert!(survivors.is_empty(), "nobody needs {survivors:?}");
    // Every request that a history reaches was judged.
    let judged: BTreeSet<_> =
        score.verdicts.iter().map(|verdict| place(verdict.mutant.site)).collect();
    assert!(judged.len() >= 8, "{judged:?}");
}
