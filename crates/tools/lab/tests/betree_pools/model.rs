//! The world that each step leads to.

use halite_lab::{Digest, Random, World};

use super::steps::{Change, Step};

/// The names of the dataset and its clone.
pub(crate) const SPACES: [&str; 2] = ["data", "copy"];

/// The digest of a name that says everything.
fn there() -> Digest {
    Digest::of(b"")
}

pub(crate) fn key(number: u8) -> Vec<u8> {
    let mut key = format!("key {number:02}").into_bytes();
    if number % 4 == 3 {
        key.resize(90, b'+');
    }
    key
}

pub(crate) fn value(key: u8, len: u16, fill: u8) -> Vec<u8> {
    let mut random = Random::of(&[key.into(), len.into(), fill.into()]);
    let mut value = Vec::new();
    while value.len() < usize::from(len) {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value.truncate(len.into());
    value
}

/// The name of a dataset or a snapshot in a world, and the prefix of its pairs'.
pub(crate) fn marker(name: &str) -> Vec<u8> {
    format!("{name}/").into_bytes()
}

pub(crate) fn snapshot_name(number: u8) -> String {
    format!("snap{number}")
}

/// Adds a dataset or a snapshot to a world.
pub(crate) fn insert_marker(world: &mut World, name: &str) {
    world.insert(marker(name), there());
}

fn of_prefix(world: &World, prefix: &[u8]) -> Option<Vec<u8>> {
    let name = world.keys().find(|name| name.starts_with(prefix))?;
    Some(name[prefix.len()..].to_vec())
}

const ORDER: &[u8] = b"snapshots:";
const ORIGIN: &[u8] = b"origin:";
const OBJECT: &[u8] = b"object:";

/// The snapshots, the oldest first.
fn snapshots(world: &World) -> Vec<u8> {
    of_prefix(world, ORDER).unwrap_or_default()
}

pub(crate) fn set_snapshots(world: &mut World, numbers: &[u8]) {
    world.retain(|name, _| !name.starts_with(ORDER));
    if !numbers.is_empty() {
        world.insert([ORDER, numbers].concat(), there());
    }
}

pub(crate) fn set_origin(world: &mut World, snapshot: u8) {
    world.insert([ORIGIN, &[snapshot]].concat(), there());
}

fn drop_all(world: &mut World, name: &str) {
    let marker = marker(name);
    world.retain(|name, _| !name.starts_with(&marker));
}

/// Makes the pairs of `to` those of `from`.
fn copy(world: &mut World, from: &str, to: &str) {
    drop_all(world, to);
    let (from, to) = (marker(from), marker(to));
    let all: Vec<_> = world
        .iter()
        .filter_map(|(name, digest)| Some(([&to, name.strip_prefix(&from[..])?].concat(), *digest)))
        .collect();
    world.extend(all);
}

/// The name of an object with its bytes.
pub(crate) fn object_name(name: u8, bytes: &[u8]) -> Vec<u8> {
    let mut to = [OBJECT, &[name]].concat();
    for run in bytes.chunk_by(|a, b| a == b) {
        to.extend_from_slice(&(run.len() as u32).to_le_bytes());
        to.push(run[0]);
    }
    to
}

/// The bytes of an object.
fn object(world: &World, name: u8) -> Option<Vec<u8>> {
    let runs = of_prefix(world, &[OBJECT, &[name]].concat())?;
    let run = |run: &[u8]| {
        let len = u32::from_le_bytes(run[..4].try_into().expect("4 bytes"));
        std::iter::repeat_n(run[4], len as usize).collect::<Vec<u8>>()
    };
    Some(runs.chunks_exact(5).flat_map(run).collect())
}

fn set_object(world: &mut World, name: u8, bytes: Option<&[u8]>) {
    let prefix = [OBJECT, &[name]].concat();
    world.retain(|name, _| !name.starts_with(&prefix));
    if let Some(bytes) = bytes {
        world.insert(object_name(name, bytes), there());
    }
}

pub(crate) fn insert_object(world: &mut World, name: u8, bytes: &[u8]) {
    set_object(world, name, Some(bytes));
}

/// The world that a crash within a step may leave besides the whole step and none of it.
pub(crate) fn within(world: &World, step: &Step) -> Option<World> {
    let Step::WriteObject { name, .. } = step else { return None };
    let mut within = world.clone();
    object(world, *name).is_none().then(|| set_object(&mut within, *name, Some(&[])))?;
    Some(within)
}

fn change(world: &mut World, change: Change) -> bool {
    let (Change::Put { space, .. }
    | Change::Delete { space, .. }
    | Change::DeleteRange { space, .. }) = change;
    let marker = marker(SPACES[usize::from(space)]);
    if !world.contains_key(&marker) {
        return false;
    }
    let name = |number: u8| [&marker[..], &key(number)].concat();
    match change {
        Change::Put { key, len, fill, .. } => {
            world.insert(name(key), Digest::of(&value(key, len, fill)));
        }
        Change::Delete { key, .. } => drop(world.remove(&name(key))),
        Change::DeleteRange { from, to, .. } => {
            let (from, to) = (name(from), name(to));
            world.retain(|found, _| found < &from[..] || found >= &to[..]);
        }
    }
    true
}

/// Applies a step. Returns whether all steps so far are durable when it has returned.
pub(crate) fn apply(world: &mut World, step: &Step) -> bool {
    let order = snapshots(world);
    let at = |number: &u8| order.iter().position(|other| other == number);
    let origin = of_prefix(world, ORIGIN).map(|name| name[0]);
    match step {
        Step::Create => {
            let is_new = !world.contains_key(&marker("data"));
            insert_marker(world, "data");
            is_new
        }
        Step::Write { changes, deferred } => {
            let applied: Vec<_> = changes.iter().map(|one| change(world, *one)).collect();
            applied.contains(&true) && !deferred
        }
        Step::Sync => true,
        Step::Work | Step::Away(_) | Step::Back | Step::Resilver | Step::Scrub => false,
        Step::Snapshot(number) => {
            if at(number).is_some() || !world.contains_key(&marker("data")) {
                return false;
            }
            copy(world, "data", &snapshot_name(*number));
            set_snapshots(world, &[&order[..], &[*number]].concat());
            true
        }
        Step::DeleteSnapshot(number) => {
            let Some(at) = at(number).filter(|_| origin != Some(*number)) else { return false };
            drop_all(world, &snapshot_name(*number));
            set_snapshots(world, &[&order[..at], &order[at + 1..]].concat());
            true
        }
        Step::Rollback(number) => {
            let Some(at) = at(number) else { return false };
            let newer = &order[at + 1..];
            if origin.is_some_and(|origin| newer.contains(&origin)) {
                return false;
            }
            newer.iter().for_each(|newer| drop_all(world, &snapshot_name(*newer)));
            copy(world, &snapshot_name(*number), "data");
            set_snapshots(world, &order[..=at]);
            true
        }
        Step::Clone(number) => {
            if at(number).is_none() || origin.is_some() {
                return false;
            }
            copy(world, &snapshot_name(*number), "copy");
            set_origin(world, *number);
            true
        }
        Step::DropClone => {
            drop_all(world, "copy");
            world.retain(|name, _| !name.starts_with(ORIGIN));
            origin.is_some()
        }
        Step::WriteObject { name, offset, len, fill } => {
            let mut bytes = object(world, *name).unwrap_or_default();
            let (start, end) = (*offset as usize, (offset + len) as usize);
            bytes.resize(bytes.len().max(end), 0);
            bytes[start..end].fill(*fill);
            set_object(world, *name, Some(&bytes));
            true
        }
        Step::Truncate { name, size } => {
            let Some(mut bytes) = object(world, *name) else { return false };
            bytes.resize(*size as usize, 0);
            set_object(world, *name, Some(&bytes));
            true
        }
        Step::DeleteObject(name) => {
            let is_there = object(world, *name).is_some();
            set_object(world, *name, None);
            is_there
        }
        Step::RenameObject(old, new) => {
            let Some(bytes) = object(world, *old).filter(|_| old != new) else { return false };
            set_object(world, *old, None);
            set_object(world, *new, Some(&bytes));
            true
        }
    }
}
