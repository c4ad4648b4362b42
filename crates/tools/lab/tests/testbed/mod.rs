//! A testbed of two partitions as a subject of the lab: no power cut, failed sync or lack of room leaves a transaction or a
//! statement in one partition and not in the other.
//!
//! The coordinator's decisions are in the pool. Partitions under InP, CoW and Log have their files in folders of their own
//! on the modelled disk, and the others are in the pool, too. Histories leave transactions over one partition for a later
//! sync, call a stored procedure, and hold views across everything that follows, under methods that have them.

mod open;
mod squeeze;
mod steps;

use halite_lab::{Action, Digest, Random, Refusal, Subject, World};
use halite_pmem::Medium;
use halite_table::Kind;

use self::open::Open;
use self::steps::{Step, draw, model, part_of, partitions_of};
use crate::methods::refusal;

const PARTITIONS: usize = 2;

/// The subject: two partitions under a method.
pub(crate) struct Partitions {
    name: &'static str,
    kind: Kind,
    capacity: u64,
}

impl Partitions {
    /// Partitions in a pool with much room. What is on the modelled disk may be short of room all the same.
    pub(crate) fn of(kind: Kind) -> Self {
        let name = match kind {
            Kind::InP => "table:partitions-inp",
            Kind::Cow => "table:partitions-cow",
            Kind::NvmCow => "table:partitions-nvm-cow",
            Kind::Log => "table:partitions-log",
            Kind::NvmLog => "table:partitions-nvm-log",
            _ => "table:partitions",
        };
        Self { name, kind, capacity: if kind.has_files() { 16 << 20 } else { 64 << 20 } }
    }

    /// Partitions in a pool that rows of one of them fill now and then.
    pub(crate) const SMALL: Self =
        Self { name: "table:partitions-small", kind: Kind::NvmInP, capacity: 14 << 20 };

    fn draw(&self, random: &mut Random) -> Step {
        draw(random, self.kind, self.is_small())
    }

    fn is_small(&self) -> bool {
        self.capacity == Self::SMALL.capacity
    }
}

impl Subject for Partitions {
    type Step = Step;
    type Open = Open;

    fn name(&self) -> &str {
        self.name
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
        let draw = |random: &mut Random| self.draw(random);
        let action = |random: &mut Random| match random.below(100) {
            0..8 => Action::Reopen,
            8..14 => Action::Kill,
            14..20 => Action::KillWithin(None, random.below(20) as u32),
            20..40 => Action::KillWithin(Some(draw(random)), random.below(60) as u32),
            _ => Action::Step(draw(random)),
        };
        (0..1 + random.below(8)).map(|_| action(random)).collect()
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Step> {
        // To fill the pool behind each of many crashes would take long.
        (0..random.below(3)).map(|_| draw(random, self.kind, false)).collect()
    }

    fn open(&self, medium: &Medium) -> Result<Open, Refusal> {
        Open::new(self.kind, (self.capacity, self.is_small()), medium)
            .map_err(|error| refusal(&error))
    }

    fn apply(&self, open: &mut Open, step: &Step) -> Result<(), String> {
        open.apply(step)
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        model(world, step)
    }

    fn part_of(&self, name: &[u8]) -> usize {
        part_of(name)
    }

    fn parts_of(&self, _: &World, step: &Step) -> Option<(Vec<usize>, bool)> {
        match *step {
            Step::Transaction { seed, commits: true, syncs } => {
                // What one partition has not made durable stays so while another one commits.
                let partitions = partitions_of(seed);
                let durable = syncs || partitions.len() > 1;
                Some((partitions, durable))
            }
            Step::Call { seed } => Some((partitions_of(seed), true)),
            // It makes nothing durable.
            Step::Transaction { commits: false, .. } => Some((Vec::new(), false)),
            _ => None,
        }
    }

    fn world(&self, open: &mut Open) -> Result<World, Refusal> {
        open.world()
    }

    fn look_up(&self, open: &mut Open, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        self.world(open).map(|mut world| world.remove(name))
    }

    fn verify(&self, open: &mut Open) -> Result<(), Refusal> {
        open.verify()
    }
}
