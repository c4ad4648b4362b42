//! Comparison of an engine with the model.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::data::show;
use super::{Check, ensure};
use crate::{Bytes, Direction, Engine, KeyRange, KeySpaceId, Scan, Snapshot};

/// Compares all that two engines hold in all their key spaces.
///
/// # Errors
/// The first difference.
pub fn engines(engine: &dyn Engine, model: &dyn Engine) -> Check {
    let found: BTreeMap<_, _> = engine.key_spaces()?.into_iter().collect();
    let expected: BTreeMap<_, _> = model.key_spaces()?.into_iter().collect();
    ensure!(
        found.keys().eq(expected.keys()),
        "the key spaces are {:?}, should be {:?}",
        found.keys(),
        expected.keys(),
    );
    for (name, model_space) in expected {
        key_space(engine, found[&name], model, model_space).map_err(|why| why.inside(&name))?;
    }
    Ok(())
}

/// Compares all that two key spaces hold: number, scans both ways, every key alone, and samples.
///
/// # Errors
/// The first difference.
pub fn key_space(
    engine: &dyn Engine,
    space: KeySpaceId,
    model: &dyn Engine,
    model_space: KeySpaceId,
) -> Check {
    let (len, expected_len) = (engine.len(space)?, model.len(model_space)?);
    ensure!(len == expected_len, "len is {len}, should be {expected_len}");
    ranges(engine, space, model, model_space, &KeyRange::all())?;
    for pair in model.scan(model_space, KeyRange::all(), Direction::Forward)? {
        let (key, value) = pair?;
        key_value(engine, space, &key, Some(&value))?;
        let above = [&key[..], b"\0"].concat();
        key_value(engine, space, &above, model.get(model_space, &above)?.as_deref())?;
    }
    let mut random = Rng::with_seed(expected_len);
    for _ in 0..4 {
        match engine.sample(space, random.u64(..))? {
            None => ensure!(expected_len == 0, "sample found nothing among {expected_len} keys"),
            Some(key) => ensure!(
                model.get(model_space, &key)?.is_some(),
                "sample found {}, which is not there",
                show(&key)
            ),
        }
    }
    Ok(())
}

/// Compares all that a snapshot holds with a model in the state of that time.
///
/// # Errors
/// The first difference.
pub fn snapshot(snapshot: &dyn Snapshot, model: &dyn Engine) -> Check {
    let found: BTreeMap<_, _> = snapshot.key_spaces().into_iter().collect();
    let expected: BTreeMap<_, _> = model.key_spaces()?.into_iter().collect();
    ensure!(
        found.keys().eq(expected.keys()),
        "the snapshot's key spaces are {:?}, should be {:?}",
        found.keys(),
        expected.keys(),
    );
    for (name, model_space) in expected {
        let space = found[&name];
        let (len, expected_len) = (snapshot.len(space)?, model.len(model_space)?);
        ensure!(len == expected_len, "{name}: len is {len}, should be {expected_len}");
        for direction in [Direction::Forward, Direction::Reverse] {
            let found = snapshot.scan(space, KeyRange::all(), direction)?;
            let expected = model.scan(model_space, KeyRange::all(), direction)?;
            let place = |why: super::Failure| {
                why.inside(format!("{name}, {direction:?} scan of a snapshot"))
            };
            scans(found, expected).map_err(place)?;
        }
        for pair in model.scan(model_space, KeyRange::all(), Direction::Forward)? {
            let (key, value) = pair?;
            let found = snapshot.get(space, &key)?;
            ensure!(
                found.as_ref() == Some(&value),
                "{name}: in the snapshot {} is {}, should be {}",
                show(&key),
                found.as_deref().map_or("nothing".to_owned(), show),
                show(&value),
            );
            let above = [&key[..], b"\0"].concat();
            let (found, expected) = (snapshot.get(space, &above)?, model.get(model_space, &above)?);
            ensure!(found == expected, "{name}: the snapshot has {}", show(&above));
        }
    }
    Ok(())
}

/// Compares one key's value.
///
/// # Errors
/// The difference.
pub fn key_value(
    engine: &dyn Engine,
    space: KeySpaceId,
    key: &[u8],
    expected: Option<&[u8]>,
) -> Check {
    let found = engine.get(space, key)?;
    ensure!(
        found.as_deref() == expected,
        "get of {} is {}, should be {}",
        show(key),
        found.as_deref().map_or("nothing".to_owned(), show),
        expected.map_or("nothing".to_owned(), show),
    );
    Ok(())
}

/// Compares the scans of one range in both directions.
///
/// # Errors
/// The first difference.
pub fn ranges(
    engine: &dyn Engine,
    space: KeySpaceId,
    model: &dyn Engine,
    model_space: KeySpaceId,
    range: &KeyRange,
) -> Check {
    for direction in [Direction::Forward, Direction::Reverse] {
        let found = engine.scan(space, range.clone(), direction)?;
        let expected = model.scan(model_space, range.clone(), direction)?;
        scans(found, expected).map_err(|why| {
            let end = range.end().map_or("the end".to_owned(), show);
            why.inside(format!("{direction:?} scan of {} to {end}", show(range.start())))
        })?;
    }
    Ok(())
}

/// Compares two scans pair by pair.
///
/// # Errors
/// The first difference.
pub fn scans(mut found: Scan, mut expected: Scan) -> Check {
    for nth in 0.. {
        let found = found.next().transpose()?;
        let expected = expected.next().transpose()?;
        ensure!(
            found == expected,
            "pair {nth} is {}, should be {}",
            show_pair(found.as_ref()),
            show_pair(expected.as_ref()),
        );
        if expected.is_none() {
            break;
        }
    }
    Ok(())
}

fn show_pair(pair: Option<&(Bytes, Bytes)>) -> String {
    pair.map_or("missing".to_owned(), |(key, value)| format!("{} = {}", show(key), show(value)))
}
