//! The calls of an engine that its steps are, and the world that it has.

use std::time::SystemTime;

use halite_betree::object::ObjectStore;
use halite_betree::{Betree, LeafState};
use halite_contract::{
    Direction, Durability, Engine, KeyRange, KeySpaceId, Op, Result, SpaceManagement,
};
use halite_lab::{Digest, World};

use super::model::{self, SPACES, key, snapshot_name, value};
use super::steps::{Change, Step};
use super::{on, position, states};

/// The name of the store of objects.
const SHELF: &str = "shelf";

fn find(engine: &Betree, name: &str) -> Result<Option<KeySpaceId>> {
    Ok(engine.key_spaces()?.into_iter().find_map(|(of, id)| (of == name).then_some(id)))
}

/// The numbers of the snapshots, the oldest first, and that of the clone's origin.
fn snapshots(engine: &Betree, space: KeySpaceId) -> Result<(Vec<u8>, Option<u8>)> {
    let number = |name: &str| name.as_bytes()[name.len() - 1] - b'0';
    let mut all = engine.snapshots_of(space)?;
    all.sort_by_key(|info| info.number);
    let origin = all.iter().find(|info| !info.clones.is_empty());
    let origin = origin.map(|info| number(&info.name));
    Ok((all.iter().map(|info| number(&info.name)).collect(), origin))
}

fn write(engine: &Betree, changes: &[Change], deferred: bool) -> Result<()> {
    let mut spaces = Vec::new();
    for name in SPACES {
        spaces.push(find(engine, name)?);
    }
    // A key, and a value or the end of a range.
    let bytes = |change: &Change| match *change {
        Change::Put { key: number, len, fill, .. } => (key(number), value(number, len, fill)),
        Change::Delete { key: number, .. } => (key(number), Vec::new()),
        Change::DeleteRange { from, to, .. } => (key(from), key(to)),
    };
    let all: Vec<_> = changes.iter().map(|change| (change, bytes(change))).collect();
    let mut ops = Vec::new();
    for (change, (key, other)) in &all {
        let (Change::Put { space, .. }
        | Change::Delete { space, .. }
        | Change::DeleteRange { space, .. }) = **change;
        let Some(space) = spaces[usize::from(space)] else { continue };
        ops.push(match change {
            Change::Put { .. } => Op::Put { space, key, value: other },
            Change::Delete { .. } => Op::Delete { space, key },
            Change::DeleteRange { .. } => Op::DeleteRange { space, start: key, end: Some(other) },
        });
    }
    let durability = if deferred { Durability::Deferred } else { Durability::Immediate };
    if ops.is_empty() { Ok(()) } else { engine.write(&ops, durability) }
}

fn shelf(engine: &Betree) -> Result<ObjectStore> {
    Ok(engine.objects(SHELF)?.with_clock(|| SystemTime::UNIX_EPOCH))
}

fn of_dataset(engine: &Betree, step: &Step, space: KeySpaceId) -> Result<()> {
    let (order, origin) = snapshots(engine, space)?;
    match step {
        Step::Snapshot(number) if !order.contains(number) => {
            engine.create_snapshot(space, &snapshot_name(*number))
        }
        Step::DeleteSnapshot(number) if order.contains(number) && origin != Some(*number) => {
            engine.delete_snapshot(space, &snapshot_name(*number))
        }
        Step::Rollback(number) => {
            let Some(at) = order.iter().position(|other| other == number) else { return Ok(()) };
            match origin.is_some_and(|origin| order[at + 1..].contains(&origin)) {
                true => Ok(()),
                false => engine.rollback(space, &snapshot_name(*number), true),
            }
        }
        Step::Clone(number) if order.contains(number) && origin.is_none() => {
            engine.clone_snapshot(space, &snapshot_name(*number), SPACES[1]).map(drop)
        }
        _ => Ok(()),
    }
}

pub(crate) fn apply(engine: &Betree, step: &Step, leaves: u16) -> Result<()> {
    match step {
        Step::Create => engine.key_space(SPACES[0]).map(drop),
        Step::Write { changes, deferred } => write(engine, changes, *deferred),
        Step::Sync => engine.sync(),
        Step::Work => engine.collect_ahead(0).map(drop),
        Step::Snapshot(_) | Step::DeleteSnapshot(_) | Step::Rollback(_) | Step::Clone(_) => {
            find(engine, SPACES[0])?.map_or(Ok(()), |space| of_dataset(engine, step, space))
        }
        Step::DropClone => {
            find(engine, SPACES[1])?.map_or(Ok(()), |space| engine.destroy_key_space(space))
        }
        Step::WriteObject { name, offset, len, fill } => {
            let object = shelf(engine)?.open_or_create(&[*name])?;
            object.write_at(u64::from(*offset), &vec![*fill; *len as usize])
        }
        Step::Truncate { name, size } => match shelf(engine)? {
            shelf if shelf.exists(&[*name])? => shelf.open(&[*name])?.truncate(u64::from(*size)),
            _ => Ok(()),
        },
        Step::DeleteObject(name) => match shelf(engine)? {
            shelf if shelf.exists(&[*name])? => shelf.delete(&[*name]),
            _ => Ok(()),
        },
        Step::RenameObject(old, new) => match shelf(engine)? {
            shelf if old != new && shelf.exists(&[*old])? => {
                shelf.rename_replacing(&[*old], &[*new])
            }
            _ => Ok(()),
        },
        Step::Away(leaf) => {
            let is_whole = states(engine).iter().all(|state| *state == (LeafState::Online, false));
            if is_whole && leaves > 1 { engine.set_offline(position(*leaf)) } else { Ok(()) }
        }
        Step::Back => {
            let away = states(engine).iter().position(|(state, _)| *state != LeafState::Online);
            away.map_or(Ok(()), |leaf| engine.set_online(position(leaf as u16)))
        }
        Step::Resilver => engine.resilver(&mut on).map(drop),
        Step::Scrub => engine.scrub(&mut on).map(drop),
    }
}

/// Adds the pairs of a scan, which are in order.
fn insert_all(world: &mut World, name: &str, pairs: halite_contract::Scan) -> Result<()> {
    model::insert_marker(world, name);
    let marker = model::marker(name);
    let mut last: Option<Vec<u8>> = None;
    for pair in pairs {
        let (key, value) = pair?;
        assert!(last.as_ref().is_none_or(|last| last[..] < *key), "`{name}` is out of order");
        last = Some(key.to_vec());
        world.insert([&marker[..], &key].concat(), Digest::of(&value));
    }
    Ok(())
}

/// All that the engine has.
pub(crate) fn world(engine: &Betree) -> Result<World> {
    let mut world = World::new();
    for name in SPACES {
        let Some(space) = find(engine, name)? else { continue };
        let pairs = engine.scan(space, KeyRange::all(), Direction::Forward)?;
        insert_all(&mut world, name, pairs)?;
        if name != SPACES[0] {
            continue;
        }
        let (order, origin) = snapshots(engine, space)?;
        for number in &order {
            let name = snapshot_name(*number);
            let snapshot = engine.open_snapshot(space, &name)?;
            let pairs = snapshot.scan(space, KeyRange::all(), Direction::Forward)?;
            insert_all(&mut world, &name, pairs)?;
        }
        model::set_snapshots(&mut world, &order);
        origin.into_iter().for_each(|origin| model::set_origin(&mut world, origin));
    }
    if engine.object_stores().iter().any(|name| name == SHELF) {
        let shelf = shelf(engine)?;
        for object in shelf.iter(b"")? {
            let (name, info) = object?;
            let mut bytes = vec![7; info.size as usize + 1];
            let read = shelf.open(&name)?.read_at(0, &mut bytes)?;
            assert_eq!(read as u64, info.size, "bytes of an object");
            model::insert_object(&mut world, name[0], &bytes[..read]);
        }
    }
    Ok(world)
}
