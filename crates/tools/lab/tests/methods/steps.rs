//! Steps of a partition's user, and what they do to a world.
//!
//! The names of a world begin with the number of their partition. Rows of table `t` have a name for their group, and one
//! for each of their long columns. The amounts of `left` and `right` are a part of their names, as the steps add to them.

use halite_lab::{Digest, Random, World};

/// A step of the user of one partition.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(super) partition: usize,
    pub(super) work: Work,
}

/// The work of a step.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A transaction, that commits or not, and then a sync or not.
    Transaction { seed: u64, commits: bool, syncs: bool },
    /// Creates or drops a secondary index.
    Index { is_there: bool },
    /// Removes all rows of `t` by a statement.
    Truncate,
    /// Gives the space of dropped things back.
    Reclaim,
    /// Shortens the recovery.
    Checkpoint,
    /// Creates the tables `left` and `right`, if they are not there.
    Accounts,
    /// Fills the medium with rows that are no part of the world.
    Fill,
}

/// A change of a row of `t`.
pub(super) enum Write {
    Put {
        key: i32,
        group: i16,
        long: Vec<u8>,
        more: Option<Vec<u8>>,
    },
    Group {
        key: i32,
        group: i16,
    },
    Long {
        key: i32,
        long: Vec<u8>,
    },
    More {
        key: i32,
        more: Option<Vec<u8>>,
    },
    /// Both long columns at once.
    Both {
        key: i32,
        long: Vec<u8>,
        more: Option<Vec<u8>>,
    },
    Remove {
        key: i32,
    },
}

/// An amount that goes from an account of `left` to one of `right`. An account without a row has nothing.
pub(super) struct Move {
    pub(super) from: i32,
    pub(super) to: i32,
    pub(super) amount: i64,
}

const KEYS: u64 = 24;
const ACCOUNTS: u64 = 6;

/// Bytes of the second long column at most.
pub(super) const MORE_MAX: usize = 33_000;

/// The secondary index that comes and goes.
pub(super) const INDEX: &str = "by_long";

/// The tables of accounts.
pub(super) const LEFT: &str = "left";
pub(super) const RIGHT: &str = "right";

/// Draws a step of one of some partitions.
pub(super) fn draw(random: &mut Random, partitions: usize) -> Step {
    let work = match random.below(20) {
        0 => Work::Index { is_there: random.below(2) == 0 },
        1 => Work::Truncate,
        2 => Work::Reclaim,
        3 => Work::Checkpoint,
        _ => Work::Transaction {
            seed: random.next(),
            commits: random.below(6) > 0,
            syncs: random.below(3) > 0,
        },
    };
    Step { partition: one_of(random, partitions), work }
}

/// Draws a step of a history: now and then one that the steps behind it build on, which takes longer than others.
pub(super) fn draw_first(random: &mut Random, partitions: usize, fills: bool) -> Step {
    let work = match random.below(20) {
        0..2 => Work::Accounts,
        2..6 if fills => Work::Fill,
        _ => return draw(random, partitions),
    };
    Step { partition: one_of(random, partitions), work }
}

fn one_of(random: &mut Random, partitions: usize) -> usize {
    if partitions == 1 { 0 } else { random.below(partitions as u64) as usize }
}

/// The changes of `t` by a transaction.
pub(super) fn writes(seed: u64) -> Vec<Write> {
    let mut random = Random::new(seed);
    let is_run = random.below(3) == 0;
    let from = random.below(KEYS);
    let removes = random.below(4) == 0;
    let count = 1 + random.below(if is_run { 14 } else { 5 });
    let write = |number: u64, random: &mut Random| {
        let key = if is_run { (from + number) % KEYS } else { random.below(KEYS) } as i32;
        let group = random.below(3) as i16;
        let len = [3, 30, 300, 3_000][random.below(4) as usize];
        let long = vec![random.below(200) as u8; len];
        let (more, changes) = more(seed.wrapping_add(number), key);
        match random.below(8) {
            _ if removes => Write::Remove { key },
            0 => Write::Remove { key },
            1 | 2 => Write::Group { key, group },
            3 => match changes {
                0 | 1 => Write::Long { key, long },
                2 => Write::More { key, more },
                _ => Write::Both { key, long, more },
            },
            _ => Write::Put { key, group, long, more },
        }
    };
    (0..count).map(|number| write(number, &mut random)).collect()
}

/// A value of the second long column, or none, and which of both columns a change is of. With the first it makes rows in one slot,
/// some with both columns in a tail, and some in which either has a slot of its own; one row may be too long for a tail.
fn more(seed: u64, key: i32) -> (Option<Vec<u8>>, u64) {
    let mut random = Random::new(seed.rotate_left(32));
    let len = match random.below(16) {
        0 if key == 0 => MORE_MAX,
        drawn => [3, 70, 600, 1_200][drawn as usize % 4],
    };
    let more = (random.below(8) > 0).then(|| vec![random.below(200) as u8; len]);
    (more, random.below(4))
}

/// The moves of a transaction, if the tables are there.
pub(super) fn moves(seed: u64) -> Vec<Move> {
    let mut random = Random::new(!seed);
    let count = random.below(4);
    let account = |random: &mut Random| random.below(ACCOUNTS) as i32;
    let mut draw = |_| {
        let (from, to) = (account(&mut random), account(&mut random));
        Move { from, to, amount: 1 + random.below(4) as i64 }
    };
    (0..count).map(&mut draw).collect()
}

pub(super) fn group_of(partition: usize, key: i32) -> Vec<u8> {
    format!("{partition} group of row {key:03}").into_bytes()
}

pub(super) fn long_of(partition: usize, key: i32) -> Vec<u8> {
    format!("{partition} long of row {key:03}").into_bytes()
}

pub(super) fn more_of(partition: usize, key: i32) -> Vec<u8> {
    format!("{partition} more of row {key:03}").into_bytes()
}

/// The name that says that the tables of accounts are there.
pub(super) fn accounts_of(partition: usize) -> Vec<u8> {
    format!("{partition} accounts").into_bytes()
}

pub(super) fn index_of(partition: usize) -> Vec<u8> {
    format!("{partition} {INDEX}").into_bytes()
}

fn account_of(partition: usize, table: &str, account: i32) -> String {
    format!("{partition} {table} {account:03} has ")
}

pub(super) fn amount_of(partition: usize, table: &str, account: i32, amount: i64) -> Vec<u8> {
    format!("{}{amount}", account_of(partition, table, account)).into_bytes()
}

pub(super) fn digest(group: i16) -> Digest {
    Digest::of(&group.to_le_bytes())
}

/// The digest of a column that may be NULL.
pub(super) fn digest_of(more: Option<&[u8]>) -> Digest {
    Digest::of(more.unwrap_or(b"NULL"))
}

/// Adds to the amount of an account.
fn add(world: &mut World, partition: usize, (table, account): (&str, i32), amount: i64) {
    let prefix = account_of(partition, table, account);
    let name = world.range(prefix.clone().into_bytes()..).next().map(|(name, _)| name.clone());
    let name = name.filter(|name| name.starts_with(prefix.as_bytes()));
    let before = name.as_deref().and_then(|name| str::from_utf8(&name[prefix.len()..]).ok());
    let amount = amount + before.map_or(0, |amount| amount.parse().expect("it is a number"));
    name.map(|name| world.remove(&name));
    if amount != 0 {
        world.insert(amount_of(partition, table, account, amount), Digest::of(&[]));
    }
}

/// Applies a step to a world. Returns whether it is durable when it has returned.
pub(super) fn model(world: &mut World, &Step { partition, ref work }: &Step) -> bool {
    let (group_of, long_of) = (|key| group_of(partition, key), |key| long_of(partition, key));
    let more_of = |key| more_of(partition, key);
    let remove = |world: &mut World, key| {
        for name in [group_of(key), long_of(key), more_of(key)] {
            world.remove(&name);
        }
    };
    match *work {
        Work::Transaction { commits: false, syncs, .. } => return syncs,
        Work::Transaction { seed, syncs, .. } => {
            for write in writes(seed) {
                let (Write::Put { key, .. }
                | Write::Group { key, .. }
                | Write::Long { key, .. }
                | Write::More { key, .. }
                | Write::Both { key, .. }
                | Write::Remove { key }) = write;
                let is_there = world.contains_key(&group_of(key));
                match write {
                    Write::Put { group, long, more, .. } => {
                        world.insert(group_of(key), digest(group));
                        world.insert(long_of(key), Digest::of(&long));
                        world.insert(more_of(key), digest_of(more.as_deref()));
                    }
                    Write::Remove { .. } => remove(world, key),
                    _ if !is_there => {}
                    Write::Group { group, .. } => {
                        world.insert(group_of(key), digest(group));
                    }
                    Write::Long { long, .. } => {
                        world.insert(long_of(key), Digest::of(&long));
                    }
                    Write::More { more, .. } => {
                        world.insert(more_of(key), digest_of(more.as_deref()));
                    }
                    Write::Both { long, more, .. } => {
                        world.insert(long_of(key), Digest::of(&long));
                        world.insert(more_of(key), digest_of(more.as_deref()));
                    }
                }
            }
            let has_accounts = world.contains_key(&accounts_of(partition));
            for Move { from, to, amount } in moves(seed).into_iter().filter(|_| has_accounts) {
                add(world, partition, (LEFT, from), -amount);
                add(world, partition, (RIGHT, to), amount);
            }
            return syncs;
        }
        Work::Index { is_there: true } => drop(world.insert(index_of(partition), Digest::of(&[]))),
        Work::Index { is_there: false } => drop(world.remove(&index_of(partition))),
        Work::Truncate => {
            (0..KEYS as i32).for_each(|key| remove(world, key));
        }
        Work::Accounts => drop(world.insert(accounts_of(partition), Digest::of(&[]))),
        Work::Fill => return false,
        Work::Reclaim | Work::Checkpoint => {}
    }
    true
}
