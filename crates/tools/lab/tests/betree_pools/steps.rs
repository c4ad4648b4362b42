//! The steps of a pool, and the histories of them.

use halite_lab::{Action, Random};

use super::Pools;

/// A change of a dataset (0) or of its clone (1), which is skipped where there is none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Put { space: u8, key: u8, len: u16, fill: u8 },
    Delete { space: u8, key: u8 },
    DeleteRange { space: u8, from: u8, to: u8 },
}

/// A call. One that cannot be is skipped, in the model as well.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create,
    Write {
        changes: Vec<Change>,
        deferred: bool,
    },
    Sync,
    /// A flush of the oldest frozen memtable, or a checkpoint that is due.
    Work,
    Snapshot(u8),
    DeleteSnapshot(u8),
    Rollback(u8),
    Clone(u8),
    DropClone,
    WriteObject {
        name: u8,
        offset: u32,
        len: u32,
        fill: u8,
    },
    Truncate {
        name: u8,
        size: u32,
    },
    DeleteObject(u8),
    /// Gives an object another name; the object that had it goes.
    RenameObject(u8, u8),
    /// Takes a leaf away, if all are there and have everything.
    Away(u16),
    /// Lets the leaf that is away take part again.
    Back,
    Resilver,
    Scrub,
}

/// Keys of a dataset, snapshots and objects that there may be.
const KEYS: u64 = 7;
const SNAPSHOTS: u64 = 3;
const OBJECTS: u64 = 3;

/// Bytes of a chunk of an object.
const CHUNK: u64 = 128 << 10;

fn change(random: &mut Random) -> Change {
    let (space, key) = (u8::from(random.percent(20)), random.below(KEYS) as u8);
    match random.below(100) {
        0..76 => {
            let len = if random.percent(20) { 200 + random.below(400) } else { random.below(120) };
            Change::Put { space, key, len: len as u16, fill: random.next() as u8 }
        }
        76..90 => Change::Delete { space, key },
        _ => Change::DeleteRange { space, from: key, to: key + 1 + random.below(4) as u8 },
    }
}

fn write(random: &mut Random) -> Step {
    let count = if random.percent(25) { 2 + random.below(3) } else { 1 };
    let changes = (0..count).map(|_| change(random)).collect();
    Step::Write { changes, deferred: random.percent(30) }
}

fn object(random: &mut Random) -> Step {
    let name = random.below(OBJECTS) as u8;
    match random.below(100) {
        0..60 => {
            let near = if random.percent(30) { CHUNK - 40 } else { 0 };
            let offset = (near + random.below(80)) as u32;
            let len_max = if random.percent(20) { 900 } else { 60 };
            let len = 1 + random.below(len_max) as u32;
            Step::WriteObject { name, offset, len, fill: random.next() as u8 }
        }
        60..78 => {
            let near = if random.percent(30) { CHUNK - 20 } else { 0 };
            Step::Truncate { name, size: (near + random.below(60)) as u32 }
        }
        78..90 => Step::DeleteObject(name),
        _ => Step::RenameObject(name, random.below(OBJECTS) as u8),
    }
}

fn snapshot(random: &mut Random) -> Step {
    let number = random.below(SNAPSHOTS) as u8;
    match random.below(100) {
        0..45 => Step::Snapshot(number),
        45..65 => Step::DeleteSnapshot(number),
        65..80 => Step::Rollback(number),
        80..92 => Step::Clone(number),
        _ => Step::DropClone,
    }
}

fn device(pools: &Pools, random: &mut Random) -> Step {
    match random.below(100) {
        0..40 => Step::Away(random.below(pools.leaves().into()) as u16),
        40..65 => Step::Back,
        65..85 => Step::Resilver,
        _ => Step::Scrub,
    }
}

fn step(pools: &Pools, random: &mut Random) -> Step {
    match random.below(100) {
        0..10 if pools.leaves() > 1 => device(pools, random),
        10..30 if pools.has_objects => object(random),
        30..45 => snapshot(random),
        45..60 => Step::Work,
        60..64 => Step::Sync,
        _ => write(random),
    }
}

pub(crate) fn history(pools: &Pools, random: &mut Random) -> Vec<Action<Step>> {
    let mut actions = vec![Action::Step(Step::Create)];
    for _ in 0..8 + random.below(16) {
        actions.push(match random.below(100) {
            0..4 => Action::Reopen,
            4..7 => Action::Kill,
            7..10 => Action::KillWithin(None, random.below(30) as u32),
            10..18 => Action::KillWithin(Some(step(pools, random)), random.below(30) as u32),
            _ => Action::Step(step(pools, random)),
        });
    }
    actions
}

pub(crate) fn afterlife(pools: &Pools, random: &mut Random) -> Vec<Step> {
    let mut steps = vec![write(random)];
    if random.percent(40) {
        steps.push(step(pools, random));
        steps.push(Step::Work);
    }
    if pools.leaves() > 1 && random.percent(40) {
        // From here on, the other leaves alone have the bytes that are read.
        steps.push(Step::Away(random.below(pools.leaves().into()) as u16));
    }
    steps
}
