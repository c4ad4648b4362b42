//! Interleaved leaves as a subject of the lab: groups of inserts, one at a time, by coroutines and by
//! state machines.
//!
//! Of an interrupted group, each insert is there whole or not at all, in any subset.

use std::path::Path;
use std::sync::Arc;

use halite_blocks::interleave::{
    Group, LEAF_LEN, Leaves, Overlap, insert_all, interleave, look_up_all,
};
use halite_blocks::{Error, Result};
use halite_pmem::{LINE, Medium, Pool, PoolOptions, UNIT};

use crate::subject::{Action, Refusal, Subject};
use crate::world::{Digest, World};
use crate::{Exploration, Job, Random, Rules};

/// The jobs of the leaves.
#[must_use]
pub fn jobs(rules: &[Rules]) -> Vec<Arc<dyn Job>> {
    let known = rules.iter().filter(|rules| **rules != Rules::FailedPlatform);
    known.map(|rules| Arc::new(Exploration::new(InterleavedLeaves, *rules, 2)) as _).collect()
}

/// A few leaves in a pool of their own.
pub struct InterleavedLeaves;

/// A step of the leaves.
#[derive(Debug, Clone)]
pub enum LeavesStep {
    /// Inserts pairs that are not there yet.
    Insert {
        /// How the inserts wait for each other.
        way: Way,
        /// Leaf, key and value of each. One key of one leaf has one value here.
        pairs: Vec<(u64, u64, u64)>,
    },
    /// Formats the leaves anew.
    Clear,
}

/// How inserts are run.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// One after the other.
    Alone,
    /// As coroutines, so many at a time.
    Coroutines(usize, Overlap),
    /// By state machines, so many at a time.
    Machine(usize),
}

/// The open leaves.
pub struct OpenLeaves {
    pool: Pool,
    /// `None` while they are formatted.
    leaves: Option<Leaves>,
}

const POOL: &str = "pool";
/// Where the leaves begin: at a line, but at no block of the medium.
const OFFSET: u64 = 3 * LINE;
const LEAVES: u64 = 3;
const LEN: u64 = LINE + LEAVES * LEAF_LEN;
const KEYS: u64 = 12;
/// Pairs of a step; each subset of them is a world.
const PAIRS_MAX: u64 = 4;

fn name(leaf: u64, key: u64) -> Vec<u8> {
    format!("leaf {leaf} key {key}").into_bytes()
}

fn refusal(error: &Error) -> Refusal {
    let what = error.to_string();
    match error {
        Error::Foreign { .. } | Error::Damaged { .. } => Refusal::Named(what),
        _ => Refusal::Failed(what),
    }
}

fn way(random: &mut Random) -> Way {
    let size = 1 + random.index(PAIRS_MAX as usize);
    match random.below(8) {
        0 | 1 => Way::Alone,
        2 => Way::Coroutines(size, Overlap::Reads),
        3 => Way::Coroutines(size, Overlap::Writes),
        4 | 5 => Way::Coroutines(size, Overlap::Both),
        _ => Way::Machine(size),
    }
}

fn step(random: &mut Random) -> LeavesStep {
    if random.percent(10) {
        return LeavesStep::Clear;
    }
    let way = way(random);
    let count = 1 + random.below(PAIRS_MAX);
    let salt = random.next();
    let pairs = (0..count).map(|_| {
        let (leaf, key) = (random.below(LEAVES), random.below(KEYS));
        (leaf, key, Random::of(&[salt, leaf, key]).next())
    });
    LeavesStep::Insert { way, pairs: pairs.collect() }
}

fn insert(leaves: &mut Leaves, way: Way, pairs: &[(u64, u64, u64)]) -> Result<()> {
    let mut failed = None;
    let mut note = |outcome| match outcome {
        Ok(()) | Err(Error::KeyExists { .. }) => {}
        Err(error) => failed = Some(error),
    };
    let all = pairs.iter().copied();
    match way {
        Way::Alone => {
            all.for_each(|(leaf, key, value)| note(leaves.insert_alone(leaf, key, value)))
        }
        Way::Coroutines(size, overlap) => {
            let group = Group::overlapping(leaves.pool(), size, overlap);
            let run = |(leaf, key, value)| leaves.insert(&group, leaf, key, value);
            interleave(&group, all, run, note);
        }
        Way::Machine(size) => insert_all(leaves, size, all, note)?,
    }
    failed.map_or(Ok(()), Err)
}

impl OpenLeaves {
    fn get(&mut self) -> std::result::Result<&mut Leaves, Refusal> {
        self.leaves.as_mut().ok_or_else(|| Refusal::Failed("formatting them failed".into()))
    }

    fn format(&mut self) -> Result<()> {
        self.leaves = None;
        self.leaves = Some(Leaves::format(self.pool.claim(OFFSET, LEN)?)?);
        Ok(())
    }
}

fn open(medium: &Medium) -> Result<OpenLeaves> {
    let mut options = PoolOptions::default();
    options.size_max = UNIT;
    options.medium = Some(medium.clone());
    let path = Path::new(POOL);
    let pool = if Pool::exists(path, &options) {
        Pool::open(path, &options)?
    } else {
        let pool = Pool::create(path, &options)?;
        pool.install()?;
        pool
    };
    match Leaves::open(pool.claim(OFFSET, LEN)?) {
        // Formatting was interrupted, or never began.
        Err(Error::Foreign { .. }) => {
            let mut opened = OpenLeaves { pool, leaves: None };
            opened.format()?;
            Ok(opened)
        }
        leaves => Ok(OpenLeaves { pool, leaves: Some(leaves?) }),
    }
}

fn world(leaves: &Leaves) -> Result<World> {
    let mut world = World::new();
    for leaf in 0..leaves.leaves() {
        for (key, value) in leaves.pairs(leaf)? {
            world.insert(name(leaf, key), Digest::of(&value.to_le_bytes()));
        }
    }
    Ok(world)
}

/// Looks all entries up in all ways, and compares the results with the leaves' own list.
fn verify(leaves: &Leaves) -> Result<Option<String>> {
    leaves.verify()?;
    let keys = (0..LEAVES).flat_map(|leaf| (0..KEYS).map(move |key| (leaf, key)));
    let listed: usize = (0..LEAVES).map(|leaf| Ok(leaves.pairs(leaf)?.len())).sum::<Result<_>>()?;
    let mut alone = Vec::new();
    for (leaf, key) in keys.clone() {
        alone.extend(leaves.look_up_alone(leaf, key)?);
    }
    let (mut by_coroutines, mut by_machines, mut failed) = (Vec::new(), Vec::new(), None);
    let group = Group::new(leaves.pool(), 5);
    let run = |(leaf, key)| leaves.look_up(&group, leaf, key);
    interleave(&group, keys.clone(), run, |found| match found {
        Ok(value) => by_coroutines.extend(value),
        Err(error) => failed = Some(error),
    });
    look_up_all(leaves, 5, keys, |found| match found {
        Ok(value) => by_machines.extend(value),
        Err(error) => failed = Some(error),
    });
    if let Some(error) = failed {
        return Err(error);
    }
    for found in [&mut alone, &mut by_coroutines, &mut by_machines] {
        found.sort_unstable();
    }
    let agree = alone.len() == listed && by_coroutines == alone && by_machines == alone;
    Ok((!agree).then(|| "lookups and the list of pairs disagree".to_owned()))
}

impl Subject for InterleavedLeaves {
    type Step = LeavesStep;
    type Open = OpenLeaves;

    fn name(&self) -> &str {
        "blocks-leaves"
    }

    fn capacity(&self) -> u64 {
        UNIT
    }

    fn history(&self, random: &mut Random) -> Vec<Action<LeavesStep>> {
        let steps = 1 + random.below(7);
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..12 => Action::Kill,
            12..16 => Action::KillWithin(None, random.below(12) as u32),
            16..36 => Action::KillWithin(Some(step(random)), random.below(30) as u32),
            _ => Action::Step(step(random)),
        };
        (0..steps).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<LeavesStep> {
        (0..random.below(3)).map(|_| step(random)).collect()
    }

    fn open(&self, medium: &Medium) -> std::result::Result<OpenLeaves, Refusal> {
        open(medium).map_err(|error| refusal(&error))
    }

    fn apply(&self, open: &mut OpenLeaves, step: &LeavesStep) -> std::result::Result<(), String> {
        let done = match step {
            LeavesStep::Insert { way, pairs } => {
                insert(open.get().map_err(|refusal| refusal.to_string())?, *way, pairs)
            }
            LeavesStep::Clear => open.format(),
        };
        done.map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &LeavesStep) -> bool {
        match step {
            LeavesStep::Insert { pairs, .. } => {
                for &(leaf, key, value) in pairs {
                    let digest = Digest::of(&value.to_le_bytes());
                    world.insert_new(name(leaf, key), digest);
                }
            }
            LeavesStep::Clear => world.clear(),
        }
        true
    }

    fn worlds_within(&self, world: &World, step: &LeavesStep) -> Vec<World> {
        let LeavesStep::Insert { way, pairs } = step else { return Vec::new() };
        // Of inserts one after the other, only the first ones can be there.
        let subset = |number: u32| match way {
            Way::Alone => pairs[..number as usize].to_vec(),
            _ => {
                let is_in = |place: &usize| number >> place & 1 == 1;
                (0..pairs.len()).filter(is_in).map(|place| pairs[place]).collect()
            }
        };
        let subsets = match way {
            Way::Alone => 1..pairs.len() as u32,
            _ => 1..(1 << pairs.len()) - 1,
        };
        let within = subsets.map(|number| {
            let mut within = world.clone();
            let step = LeavesStep::Insert { way: *way, pairs: subset(number) };
            self.model(&mut within, &step);
            within
        });
        within.collect()
    }

    fn world(&self, open: &mut OpenLeaves) -> std::result::Result<World, Refusal> {
        world(open.get()?).map_err(|error| refusal(&error))
    }

    fn look_up(
        &self,
        open: &mut OpenLeaves,
        name: &[u8],
    ) -> std::result::Result<Option<Digest>, Refusal> {
        Ok(self.world(open)?.remove(name))
    }

    fn verify(&self, open: &mut OpenLeaves) -> std::result::Result<(), Refusal> {
        match verify(open.get()?).map_err(|error| refusal(&error))? {
            None => Ok(()),
            Some(wrong) => Err(Refusal::Failed(wrong)),
        }
    }

    fn ends_unproven(&self) -> bool {
        false
    }
}
