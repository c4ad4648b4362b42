//! A repair of a store's log and levels comes back from every power cut, too, and so does a store that goes on behind
//! the hole that one left.

use std::env;

use halite_contract::{
    Direction, Durability, Engine, EngineOptions, Error, KeyRange, KeySpaceId, Op, Partitioning,
    SpaceManagement,
};
use halite_disk::{Disk, DiskModel};
use halite_lab::{Action, Digest, Effort, Explorer, Random, Refusal, Rules, Subject, World};
use halite_lsm::{Durable, Lsm, LsmOptions};
use halite_pmem::Medium;

/// Histories under each set of rules; `HALITE_LAB_SEEDS` sets others.
const HISTORIES: u64 = 3;

const CAPACITY: u64 = 32 << 20;

const MEMTABLE: u64 = 1 << 10;

const TREES: Partitioning = Partitioning::Hash(2);

/// A file that says that damage was done, and not repaired yet.
const DAMAGED: &str = "damaged-by-test";

#[derive(Clone, Debug)]
enum Step {
    /// A key is written to a tree.
    Put { tree: u8, seed: u8 },
    /// A tree's memtable is filled, and goes to the levels without the write that filled it.
    Flush { tree: u8, seed: u8 },
    /// The store is closed, damaged, repaired, and opened again.
    Damage(Damage),
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    /// The first file of the log is emptied: nothing of the log can be read.
    FirstLog,
    /// The last batch of the log is torn.
    LastBatch,
    /// `CURRENT` is emptied: the levels are merged anew.
    Current,
    /// The manifest is emptied, too.
    Manifest,
}

impl Step {
    fn draw(random: &mut Random) -> Self {
        let (tree, seed) = (random.below(2) as u8, random.next() as u8);
        match random.below(3) {
            0 => Self::Flush { tree, seed },
            _ => Self::Put { tree, seed },
        }
    }
}

/// The name of the next key of a tree, behind all that there are: `a000001p`, or with an `f` if it fills
/// a memtable, and a letter with which it is the tree's.
fn next_name<'a>(names: impl Iterator<Item = &'a [u8]>, tree: u8, kind: char) -> String {
    let next = names.map(number_of).max().unwrap_or(0) + 1;
    let name = |last| format!("{}{next:06}{kind}{last}", char::from(b'a' + tree));
    let is_there = |name: &String| TREES.partition_of(name.as_bytes()) == usize::from(tree);
    ('a'..='z').map(name).find(is_there).expect("one of them is")
}

fn number_of(name: &[u8]) -> u32 {
    std::str::from_utf8(&name[1..7]).expect("digits").parse().expect("a number")
}

fn fills(name: &[u8]) -> bool {
    name[7] == b'f'
}

fn value(step: &Step) -> Vec<u8> {
    match step {
        Step::Put { seed, .. } => vec![*seed; 20],
        Step::Flush { seed, .. } => vec![*seed; MEMTABLE as usize],
        Step::Damage(_) => vec![0; 20],
    }
}

/// The keys that the levels have. When a memtable was filled last, all that were full went there.
fn flushed(world: &World) -> World {
    let moment = world.keys().filter(|name| fills(name)).map(|name| number_of(name)).max();
    let mut flushed = World::new();
    for tree in [b'a', b'b'] {
        let then = |name: &&Vec<u8>| name[0] == tree && Some(number_of(name)) <= moment;
        let names: Vec<_> = world.keys().filter(then).collect();
        // The one that fills a memtable is in the next; the one behind it begins another.
        let end = names
            .iter()
            .rposition(|name| fills(name))
            .map_or(0, |at| at + usize::from(at + 1 < names.len()));
        flushed.extend(names[..end].iter().map(|name| (name.to_vec(), world[*name])));
    }
    flushed
}

struct RepairedStore;

struct Open {
    engine: Option<Lsm>,
    options: EngineOptions,
}

impl Open {
    fn engine(&self) -> &Lsm {
        self.engine.as_ref().expect("open")
    }

    fn space(&self) -> Result<KeySpaceId, Error> {
        self.engine().key_space("space")
    }

    fn names(&self) -> Result<Vec<Vec<u8>>, Error> {
        let scan = self.engine().scan(self.space()?, KeyRange::all(), Direction::Forward)?;
        scan.map(|pair| pair.map(|(name, _)| name.to_vec())).collect()
    }

    fn put(&self, step: &Step, tree: u8, kind: char) -> Result<(), Error> {
        let names = self.names()?;
        let key = next_name(names.iter().map(Vec::as_slice), tree, kind);
        let put = Op::Put { space: self.space()?, key: key.as_bytes(), value: &value(step) };
        self.engine().write(&[put], Durability::Immediate).map(drop)
    }

    fn damage(&mut self, step: &Step, damage: Damage) -> Result<(), Error> {
        self.put(step, 0, 'p')?;
        self.engine = None;
        let disk = self.options.disk.clone().expect("a model");
        do_damage(&disk, damage).map_err(std::sync::Arc::new)?;
        self.engine = Some(open(&self.options)?);
        Ok(())
    }
}

fn do_damage(disk: &Disk, damage: Damage) -> halite_disk::Result<()> {
    disk.create(DAMAGED)?.sync()?;
    disk.sync()?;
    let list = disk.list()?;
    let cut = |prefix: &str, is_last: bool, len: &dyn Fn(u64) -> u64| {
        let mut found = list.iter().filter(|(name, _)| name.starts_with(prefix));
        let found = if is_last { found.next_back() } else { found.next() };
        let (name, file_len) = found.expect("it is there");
        disk.append(name, len(*file_len))?.sync()
    };
    let (empty, torn) = (|_| 0, |len| len - 1);
    match damage {
        Damage::FirstLog => cut("LOG-", false, &empty),
        // The batch that was put last.
        Damage::LastBatch => cut("LOG-", true, &torn),
        Damage::Current => cut("CURRENT", true, &empty),
        Damage::Manifest => {
            cut("CURRENT", true, &empty)?;
            cut("MANIFEST-", true, &empty)
        }
    }
}

/// Opens a store; if it was damaged, by a repair.
fn open(options: &EngineOptions) -> Result<Lsm, Error> {
    let disk = options.disk.clone().expect("a model");
    let files = disk.list().map_err(std::sync::Arc::new)?;
    if files.iter().any(|(name, _)| name == DAMAGED) {
        Lsm::repair(options)?;
        disk.remove(DAMAGED).and_then(|()| disk.sync()).map_err(std::sync::Arc::new)?;
    }
    Lsm::open(options)
}

fn refusal(error: &Error) -> Refusal {
    match error.damage() {
        Some(_) => Refusal::Named(error.to_string()),
        None => Refusal::Failed(error.to_string()),
    }
}

impl Subject for RepairedStore {
    type Step = Step;
    type Open = Open;

    fn name(&self) -> &str {
        "repairs"
    }

    fn capacity(&self) -> u64 {
        CAPACITY
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
        let mut actions: Vec<_> = (0..2 + random.below(5))
            .map(|_| match random.below(100) {
                0..10 => Action::Reopen,
                10..20 => Action::Kill,
                _ => Action::Step(Step::draw(random)),
            })
            .collect();
        let kinds = [Damage::FirstLog, Damage::LastBatch, Damage::Current, Damage::Manifest];
        let damage = Step::Damage(kinds[random.index(kinds.len())]);
        actions.push(match random.percent(30) {
            true => Action::KillWithin(Some(damage), random.below(80) as u32),
            false => Action::Step(damage),
        });
        actions.extend((0..random.below(3)).map(|_| Action::Step(Step::draw(random))));
        actions
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Step> {
        (0..random.below(3)).map(|_| Step::draw(random)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Open, Refusal> {
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        let lsm = LsmOptions {
            durable: Durable::Log,
            memtable_bytes: Some(MEMTABLE),
            ..LsmOptions::default()
        };
        let partitioning = Some(TREES);
        let mut options = EngineOptions {
            disk: Some(disk),
            own: lsm.into(),
            partitioning,
            ..EngineOptions::new("pool")
        };
        options.pool_options.size_max = CAPACITY;
        options.pool_options.medium = Some(medium.clone());
        let engine = open(&options).map_err(|error| refusal(&error))?;
        Ok(Open { engine: Some(engine), options })
    }

    fn apply(&self, open: &mut Open, step: &Step) -> Result<(), String> {
        let applied = match step {
            Step::Put { tree, .. } => open.put(step, *tree, 'p'),
            Step::Flush { tree, .. } => open.put(step, *tree, 'f').and_then(|()| {
                for tree in 0..2 {
                    while open.engine().collect_ahead(tree)? {}
                }
                Ok(())
            }),
            Step::Damage(damage) => open.damage(step, *damage),
        };
        applied.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        let mut put = |tree, kind| {
            let name = next_name(world.keys().map(Vec::as_slice), tree, kind);
            world.insert(name.into_bytes(), Digest::of(&value(step)));
        };
        match step {
            Step::Put { tree, .. } => put(*tree, 'p'),
            Step::Flush { tree, .. } => put(*tree, 'f'),
            Step::Damage(Damage::FirstLog) => *world = flushed(world),
            Step::Damage(Damage::LastBatch) => {}
            Step::Damage(Damage::Current | Damage::Manifest) => put(0, 'p'),
        }
        true
    }

    fn worlds_within(&self, world: &World, step: &Step) -> Vec<World> {
        let mut with_last = world.clone();
        self.model(&mut with_last, &Step::Damage(Damage::Current));
        match step {
            Step::Damage(_) => vec![with_last],
            _ => Vec::new(),
        }
    }

    fn world(&self, open: &mut Open) -> Result<World, Refusal> {
        let pairs = || {
            let all = KeyRange::all();
            open.engine()
                .scan(open.space()?, all, Direction::Forward)?
                .collect::<Result<Vec<_>, _>>()
        };
        let pairs = pairs().map_err(|error: Error| refusal(&error))?;
        Ok(pairs.iter().map(|(key, value)| (key.to_vec(), Digest::of(value))).collect())
    }

    fn look_up(&self, open: &mut Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        let found = open.space().and_then(|space| open.engine().get(space, name));
        let found = found.map_err(|error| refusal(&error))?;
        Ok(found.map(|value| Digest::of(&value)))
    }

    fn verify(&self, open: &mut Open) -> Result<(), Refusal> {
        let report = open.engine().verify(&mut |_, _| std::ops::ControlFlow::Continue(()));
        let report = report.map_err(|error| refusal(&error))?;
        match report.damage.first() {
            Some(damage) => Err(Refusal::Named(format!("{damage:?}"))),
            None => Ok(()),
        }
    }
}

#[test]
fn repairs_come_back_from_every_power_cut() {
    let histories = env::var("HALITE_LAB_SEEDS").ok().and_then(|text| text.parse().ok());
    let histories: u64 = histories.unwrap_or(HISTORIES);
    for rules in [Rules::Memory, Rules::PageCache] {
        let mut explorer = Explorer::new(&RepairedStore, rules, Effort::default());
        for seed in 0..histories {
            if let Some(violation) = explorer.explore(seed) {
                let (story, _) = explorer.replay(&violation.case);
                panic!("{}: {}\n{}", violation.case, violation.what, story.join("\n"));
            }
        }
        let tally = &explorer.tally;
        println!(
            "{}: {} crash points, {} images, {} distinct, {} nested",
            rules.name(),
            tally.crash_points,
            tally.images,
            tally.distinct.len(),
            tally.nested
        );
        assert!(tally.crash_points > 30 * histories, "{}", tally.crash_points);
    }
}
