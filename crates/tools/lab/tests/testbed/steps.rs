//! Steps of a testbed's user, and what they do to a world.
//!
//! The names of a world begin with the number of their partition, and are followed by digests of the amounts.

use halite_lab::{Digest, Random, World};
use halite_table::Kind;

use super::PARTITIONS;

const KEYS: u64 = 6;

/// The secondary index that comes and goes.
pub(super) const INDEX: &str = "by_amount";

/// A step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Moves amounts between keys of both partitions, or of one of them. What changes one is durable if it `syncs`.
    Transaction { seed: u64, commits: bool, syncs: bool },
    /// The same by a stored procedure, durably.
    Call { seed: u64 },
    /// The same where there is little room left: it may be refused, or fail, and happens after all when there is room again.
    Squeezed { seed: u64, room: u64 },
    /// Gives a row a name that only one row may have, or is refused. Names are no part of the world.
    Name { number: i32 },
    /// Takes a view of each partition in place of those that are there, after a sync.
    View,
    /// Creates or drops a secondary index in both partitions.
    Index { is_there: bool },
    /// Removes all rows of both partitions by a statement.
    Truncate,
    /// Gives the space of dropped things back.
    Reclaim,
    /// Shortens the recovery.
    Checkpoint,
}

/// Adds an amount to a key of a partition; a key without an amount has no row.
pub(super) struct Add {
    pub(super) partition: usize,
    pub(super) key: i32,
    pub(super) amount: i32,
}

/// Draws a step of a user of some method, in a medium that may be small.
pub(super) fn draw(random: &mut Random, kind: Kind, is_small: bool) -> Step {
    let seed = random.next();
    match random.below(20) {
        0 => Step::Index { is_there: random.below(2) == 0 },
        1 => Step::Truncate,
        2 => Step::Reclaim,
        3 if kind.has_files() => Step::Checkpoint,
        4..6 if kind.has_files() || is_small => {
            Step::Squeezed { seed, room: [0, 60, 600, 6_000][random.below(4) as usize] }
        }
        6 => Step::Call { seed },
        7 => Step::Name { number: (seed % 3) as i32 },
        8 if matches!(kind, Kind::Cow | Kind::NvmCow) => Step::View,
        _ => {
            let (commits, syncs) = (random.below(6) > 0, random.below(3) > 0);
            Step::Transaction { seed, commits, syncs }
        }
    }
}

/// The changes of a transaction, of one partition or of both.
pub(super) fn adds(seed: u64) -> Vec<Add> {
    let mut random = Random::new(seed);
    let home = random.below(PARTITIONS as u64) as usize;
    let other = if random.below(3) == 0 { home } else { 1 - home };
    let mut all = Vec::new();
    for _ in 0..1 + random.below(4) {
        let amount = 1 + random.below(3) as i32;
        let mut key = || random.below(KEYS) as i32;
        all.push(Add { partition: home, key: key(), amount: -amount });
        all.push(Add { partition: other, key: key(), amount });
    }
    all
}

/// The partitions that a transaction changes.
pub(super) fn partitions_of(seed: u64) -> Vec<usize> {
    let mut partitions: Vec<_> = adds(seed).iter().map(|add| add.partition).collect();
    partitions.sort_unstable();
    partitions.dedup();
    partitions
}

pub(super) fn amount_of(partition: usize, key: i32) -> Vec<u8> {
    format!("{partition} amount of {key:03}").into_bytes()
}

pub(super) fn index_of(partition: usize) -> Vec<u8> {
    format!("{partition} {INDEX}").into_bytes()
}

pub(super) fn part_of(name: &[u8]) -> usize {
    usize::from(name[0] - b'0')
}

pub(super) fn digest(amount: i32) -> Digest {
    Digest::of(&amount.to_le_bytes())
}

fn add(world: &mut World, Add { partition, key, amount }: Add) {
    let name = amount_of(partition, key);
    // A digest tells an amount among the few that there can be.
    let before = world.get(&name).map_or(0, |found| {
        (-500..500).find(|&amount| digest(amount) == *found).expect("it is small")
    });
    match before + amount {
        0 => drop(world.remove(&name)),
        now => drop(world.insert(name, digest(now))),
    }
}

/// Applies a step to a world. Returns whether all steps so far are durable when it has returned.
pub(super) fn model(world: &mut World, step: &Step) -> bool {
    match *step {
        Step::Transaction { commits: false, .. } => return false,
        Step::Transaction { seed, syncs, .. } => {
            adds(seed).into_iter().for_each(|change| add(world, change));
            // Several are durable with their decision.
            return syncs || partitions_of(seed).len() > 1;
        }
        Step::Call { seed } | Step::Squeezed { seed, .. } => {
            adds(seed).into_iter().for_each(|change| add(world, change));
        }
        Step::Index { is_there } => {
            for name in (0..PARTITIONS).map(index_of) {
                match is_there {
                    true => drop(world.insert(name, Digest::of(&[]))),
                    false => drop(world.remove(&name)),
                }
            }
        }
        Step::Truncate => {
            let indexes: Vec<_> = (0..PARTITIONS).map(index_of).collect();
            world.retain(|name, _| indexes.iter().any(|index| name == index));
        }
        Step::Name { .. } | Step::View | Step::Reclaim | Step::Checkpoint => {}
    }
    true
}
