//! Partitions under each recovery method as subjects of the lab: no power cut leaves half of a transaction or of a
//! statement, an index that does not agree with its table, or a slot or page that nothing leads to.
//!
//! Some transactions move amounts between two tables, some need a longer log than there is, and some storages have
//! so small a medium that steps fill it. A subject may use more than one partition of a medium, in turns.

#![allow(dead_code, reason = "each test target has some of the subjects")]

mod open;
mod refusal;
mod steps;
mod storage;
mod watched;

use std::marker::PhantomData;

use halite_lab::{Action, Digest, Random, Refusal, Subject, World};
use halite_pmem::Medium;

use self::open::Open;
pub(crate) use self::refusal::{is_full, refusal};
use self::steps::{Step, Work, draw, draw_first, model};
pub(crate) use self::storage::*;

/// The subject of a method.
pub(crate) struct Methods<S> {
    name: &'static str,
    partitions: usize,
    /// Whether each history ends with a process that is killed while it maintains the partition.
    is_killed: bool,
    _storage: PhantomData<fn() -> S>,
}

impl<S: Storage> Methods<S> {
    /// One partition.
    pub(crate) const NEW: Self =
        Self { name: S::NAME, partitions: 1, is_killed: false, _storage: PhantomData };

    /// Some partitions of one medium, which take steps in turns. Each becomes durable by itself.
    pub(crate) const fn in_turns(name: &'static str, partitions: usize) -> Self {
        Self { name, partitions, is_killed: false, _storage: PhantomData }
    }

    /// One partition, whose process is killed while it maintains that.
    pub(crate) const fn killed(name: &'static str) -> Self {
        Self { name, partitions: 1, is_killed: true, _storage: PhantomData }
    }
}

impl<S: Storage> Subject for Methods<S> {
    type Step = Step;
    type Open = Open<S::Method>;

    fn name(&self) -> &str {
        self.name
    }

    fn capacity(&self) -> u64 {
        S::CAPACITY
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
        let draw = |random: &mut Random| draw_first(random, self.partitions, S::FILLS);
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..14 => Action::Kill,
            14..20 => Action::KillWithin(None, random.below(20) as u32),
            20..36 => Action::KillWithin(Some(draw(random)), random.below(60) as u32),
            _ => Action::Step(draw(random)),
        };
        if self.is_killed {
            let steps = (0..4 + random.below(8)).map(|_| Action::Step(draw(random)));
            let mut history: Vec<_> = steps.collect();
            let work = if random.below(2) == 0 { Work::Reclaim } else { Work::Checkpoint };
            let step = Step { partition: 0, work };
            history.push(Action::KillWithin(Some(step), random.below(40) as u32));
            return history;
        }
        if S::IS_LONG {
            let long = |random: &mut Random| match random.below(20) {
                0 => action(random),
                _ => Action::Step(draw(random)),
            };
            return (0..20 + random.below(20)).map(|_| long(random)).collect();
        }
        (0..1 + random.below(12)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Step> {
        (0..random.below(3)).map(|_| draw(random, self.partitions)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Self::Open, Refusal> {
        let methods = match self.partitions {
            1 => S::open(medium).map(|method| vec![method]),
            count => S::open_all(medium, count),
        };
        methods.and_then(Open::new).map_err(|error| refusal(&error))
    }

    fn apply(&self, open: &mut Self::Open, step: &Step) -> Result<(), String> {
        open.apply(step)
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        model(world, step)
    }

    fn part_of(&self, name: &[u8]) -> usize {
        usize::from(name[0] - b'0')
    }

    fn parts_of(&self, world: &World, step: &Step) -> Option<(Vec<usize>, bool)> {
        if self.partitions == 1 {
            return None;
        }
        Some((vec![step.partition], model(&mut World::clone(world), step)))
    }

    fn world(&self, open: &mut Self::Open) -> Result<World, Refusal> {
        open.world()
    }

    fn look_up(&self, open: &mut Self::Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        self.world(open).map(|mut world| world.remove(name))
    }

    fn verify(&self, open: &mut Self::Open) -> Result<(), Refusal> {
        open.verify()
    }
}
