//! Writes that depend on earlier reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;

use super::data::{key, value};
use super::{AMPLE, Check, Factory, Failure, Store, compare, ensure, ensure_err};
use crate::{
    Direction, Durability, Engine, Error, Expectation, KeyRange, KeySpaceId, Model, Op, Result,
    Snapshot,
};

/// The expectation of a test: keys and ranges since a snapshot.
struct Wanted {
    snapshot: Arc<dyn Snapshot>,
    keys: Vec<(KeySpaceId, Vec<u8>)>,
    ranges: Vec<(KeySpaceId, KeyRange)>,
}

impl Wanted {
    fn now(engine: &dyn Engine) -> Result<Self> {
        Ok(Self { snapshot: engine.snapshot()?, keys: Vec::new(), ranges: Vec::new() })
    }

    fn key(mut self, space: KeySpaceId, key: &[u8]) -> Self {
        self.keys.push((space, key.to_vec()));
        self
    }

    fn range(mut self, space: KeySpaceId, start: &[u8], end: Option<&[u8]>) -> Self {
        self.ranges.push((space, KeyRange::new(start, end.map(<[u8]>::to_vec))));
        self
    }

    fn write(&self, engine: &dyn Engine, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        write_if(engine, ops, durability, &[self])
    }
}

fn write_if(
    engine: &dyn Engine,
    ops: &[Op<'_>],
    durability: Durability,
    wanted: &[&Wanted],
) -> Result<()> {
    let keys: Vec<Vec<(KeySpaceId, &[u8])>> = wanted
        .iter()
        .map(|wanted| wanted.keys.iter().map(|(space, key)| (*space, &key[..])).collect())
        .collect();
    let expected: Vec<_> = wanted
        .iter()
        .zip(&keys)
        .map(|(wanted, keys)| Expectation {
            snapshot: &*wanted.snapshot,
            keys,
            ranges: &wanted.ranges,
        })
        .collect();
    engine.write_if(ops, durability, &expected)
}

fn put<'a>(space: KeySpaceId, key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::Put { space, key, value }
}

const IMMEDIATE: Durability = Durability::Immediate;

/// A write goes ahead if its expected keys and ranges have not changed, even if others did: other keys, the
/// keys at both ends of a range, and the same keys in another key space.
///
/// # Errors
/// The write that was refused, or had no effect.
pub fn a_write_goes_ahead_if_nothing_expected_changed(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let (space, other) = (engine.key_space("expected")?, engine.key_space("other")?);
    engine.write_if(&[], Durability::Deferred, &[])?;
    engine.write_if(&[put(space, b"b", b"1")], IMMEDIATE, &[])?;
    for key in [b"c", b"d", b"k", b"z"] {
        engine.write(&[put(space, key, b"1")], Durability::Deferred)?;
    }
    let wanted = Wanted::now(engine)?
        .key(space, b"b")
        .key(space, b"absent")
        .range(space, b"c", Some(b"k"))
        .range(space, b"l", Some(b"z"))
        .range(space, b"y", Some(b"x"))
        .range(other, b"m", None);
    let past = [
        put(space, b"a", b"2"),
        put(space, b"bb", b"2"),
        put(space, b"k", b"2"),
        Op::Delete { space, key: b"z" },
        put(other, b"b", b"2"),
        put(other, b"d", b"2"),
    ];
    engine.write(&past, IMMEDIATE)?;
    for op in past {
        engine.write(&[op], Durability::Deferred)?;
    }
    for durability in [Durability::Deferred, IMMEDIATE] {
        wanted.write(engine, &[], durability)?;
    }
    // A write may change its own expected keys, and this counts as a change from then on.
    let ops = [put(space, b"b", b"3"), put(space, b"zz", b"3"), put(other, b"z", b"3")];
    wanted.write(engine, &ops, IMMEDIATE)?;
    for (space, key) in [(space, &b"b"[..]), (space, b"zz"), (other, b"z")] {
        let found = engine.get(space, key)?;
        ensure!(found.as_deref() == Some(b"3"), "what went ahead is not there: {found:?}");
    }
    let again = wanted.write(engine, &ops, IMMEDIATE);
    ensure_err!(again, Error::Conflict { .. }, "a second write that expects the same");
    let bare = Wanted::now(engine)?;
    bare.write(engine, &[Op::DeleteRange { space, start: b"", end: None }], IMMEDIATE)?;
    ensure!(engine.len(space)? == 0, "a range that nothing was expected of is not deleted");
    Ok(())
}

/// Each way in which a key changes, or an absent one appears, or is put and deleted again, is a conflict
/// that names the key, and no operation of the write is applied, in any key space.
///
/// # Errors
/// The change that was overlooked.
pub fn a_changed_key_is_a_conflict(factory: &dyn Factory) -> Check {
    type Change = fn(KeySpaceId) -> Vec<Vec<Op<'static>>>;
    let changes: &[(&str, Change)] = &[
        ("another value", |space| vec![vec![put(space, b"there", b"2")]]),
        ("the same value", |space| vec![vec![put(space, b"there", b"1")]]),
        ("a delete", |space| vec![vec![Op::Delete { space, key: b"there" }]]),
        ("a delete and a put", |space| {
            vec![vec![Op::Delete { space, key: b"there" }], vec![put(space, b"there", b"1")]]
        }),
        ("the delete of a range", |space| {
            vec![vec![Op::DeleteRange { space, start: b"th", end: Some(b"ti") }]]
        }),
        ("a put where nothing was", |space| vec![vec![put(space, b"absent", b"")]]),
        ("a put and a delete", |space| {
            vec![vec![put(space, b"absent", b"1")], vec![Op::Delete { space, key: b"absent" }]]
        }),
        ("a put and the delete of a range", |space| {
            let delete = Op::DeleteRange { space, start: b"a", end: Some(b"b") };
            vec![vec![put(space, b"absent", b"1")], vec![delete]]
        }),
        ("a put, a delete, and the delete of a range", |space| {
            let delete = Op::DeleteRange { space, start: b"a", end: Some(b"b") };
            vec![
                vec![put(space, b"absent", b"1")],
                vec![Op::Delete { space, key: b"absent" }],
                vec![put(space, b"all", b"1")],
                vec![delete],
            ]
        }),
        ("a batch", |space| vec![vec![put(space, b"x", b"1"), put(space, b"there", b"2")]]),
    ];
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    for (nth, (what, change)) in changes.iter().enumerate() {
        let space = engine.key_space(&format!("space {nth}"))?;
        engine.write(&[put(space, b"there", b"1")], Durability::Deferred)?;
        let wanted = Wanted::now(engine)?.key(space, b"there").key(space, b"absent");
        for ops in change(space) {
            engine.write(&ops, IMMEDIATE)?;
        }
        let before: Vec<_> =
            engine.scan(space, KeyRange::all(), Direction::Forward)?.collect::<Result<_>>()?;
        let ops = [put(space, b"b", b"new"), put(space, b"there", b"new")];
        match wanted.write(engine, &ops, IMMEDIATE) {
            Err(Error::Conflict { space: of, at }) => {
                let names_it = at == b"there" || at == b"absent";
                ensure!(of == space && names_it, "{what}: the conflict names {at:?} of {of:?}");
            }
            other => return Err(Failure(format!("{what} was not seen: {other:?}"))),
        }
        let after: Vec<_> =
            engine.scan(space, KeyRange::all(), Direction::Forward)?.collect::<Result<_>>()?;
        ensure!(before == after, "{what}: a refused write left something");
    }
    Ok(())
}

/// A key that appears in a range, goes, or changes, is a conflict; at both ends of the range, too.
///
/// # Errors
/// The change that was overlooked.
pub fn a_changed_range_is_a_conflict(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("ranges")?;
    let ops: Vec<_> = (10..200).map(|number| (key(number), value(number, 20))).collect();
    let ops: Vec<_> = ops.iter().map(|(key, value)| put(space, key, value)).collect();
    engine.write(&ops, IMMEDIATE)?;
    let (start, end) = (key(50), key(150));
    let changes = [
        ("a new first key", true, start.clone()),
        ("the end of the range", false, end.clone()),
        ("the first key behind it", false, key(151)),
        ("the key before it", false, key(49)),
        ("its last key", true, key(149)),
        ("a new key in it", true, [&key(70)[..], b"+"].concat()),
        ("a new key at its end", true, [&key(149)[..], b"+"].concat()),
    ];
    for deletes in [false, true] {
        for (what, is_inside, changed) in &changes {
            let wanted = Wanted::now(engine)?.range(space, &start, Some(&end));
            let op = match deletes {
                true => Op::Delete { space, key: changed },
                false => put(space, changed, b"changed"),
            };
            engine.write(&[op], IMMEDIATE)?;
            let written = wanted.write(engine, &[put(space, b"written", b"")], IMMEDIATE);
            match (written, is_inside) {
                (Err(Error::Conflict { space: of, at }), true) => {
                    ensure!(of == space && at == start, "{what}: the conflict names {at:?}");
                }
                (Ok(()), false) => {
                    engine.write(&[Op::Delete { space, key: b"written" }], IMMEDIATE)?
                }
                (written, _) => return Err(Failure(format!("{what}: {written:?}"))),
            }
        }
    }
    ensure!(engine.get(space, b"written")?.is_none(), "a refused write left something");
    let empty = Wanted::now(engine)?.range(space, b"zz", None);
    engine.write(&[put(space, b"zzz", b"phantom")], IMMEDIATE)?;
    let written = empty.write(engine, &[put(space, b"written", b"")], IMMEDIATE);
    ensure_err!(written, Error::Conflict { .. }, "a phantom in a range that was empty");
    Ok(())
}

/// Of several expectations, each holds since its own snapshot.
///
/// # Errors
/// The write that had a wrong outcome.
pub fn expectations_hold_since_their_own_snapshots(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("several")?;
    let write = |key| engine.write(&[put(space, key, b"1")], IMMEDIATE);
    let first = Wanted::now(engine)?.key(space, b"a").range(space, b"m", Some(b"n"));
    write(b"b")?;
    let second = Wanted::now(engine)?.key(space, b"b");
    let ops = [put(space, b"c", b"1")];
    write_if(engine, &ops, IMMEDIATE, &[&first, &second])?;
    write(b"mm")?;
    let written = write_if(engine, &ops, IMMEDIATE, &[&second, &first]);
    ensure_err!(written, Error::Conflict { .. }, "the first of two changed");
    let third = Wanted::now(engine)?.range(space, b"m", Some(b"n"));
    write_if(engine, &ops, IMMEDIATE, &[&second, &third])?;
    write(b"b")?;
    let written = write_if(engine, &ops, IMMEDIATE, &[&second, &third]);
    ensure_err!(written, Error::Conflict { .. }, "the second of two changed");
    Ok(())
}

/// An expectation of a key space that was dropped since is refused; a key space that was made since counts
/// as empty before. A snapshot of another store is refused.
///
/// # Errors
/// The write that had a wrong outcome.
pub fn expectations_of_key_spaces_that_come_and_go(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let (space, dropped) = (engine.key_space("stays")?, engine.key_space("dropped")?);
    engine.write(&[put(dropped, b"a", b"1")], IMMEDIATE)?;
    let ops = [put(space, b"written", b"1")];
    let of_key = Wanted::now(engine)?.key(dropped, b"a");
    let of_range = Wanted::now(engine)?.range(dropped, b"x", None);
    engine.drop_key_space(dropped)?;
    for wanted in [&of_key, &of_range] {
        let written = wanted.write(engine, &ops, IMMEDIATE);
        ensure_err!(written, Error::NoSuchKeySpace, "a key space that is gone is expected");
    }
    let snapshot = Wanted::now(engine)?;
    let made = engine.key_space("dropped")?;
    let of_made = snapshot.key(made, b"a").range(made, b"b", None);
    of_made.write(engine, &ops, IMMEDIATE)?;
    engine.write(&[put(made, b"c", b"1")], IMMEDIATE)?;
    let written = of_made.write(engine, &ops, IMMEDIATE);
    ensure_err!(written, Error::Conflict { .. }, "a key in a range of a new key space");
    let of_made = Wanted { ranges: Vec::new(), ..of_made };
    of_made.write(engine, &ops, IMMEDIATE)?;
    engine.write(&[put(made, b"a", b"1")], IMMEDIATE)?;
    let written = of_made.write(engine, &ops, IMMEDIATE);
    ensure_err!(written, Error::Conflict { .. }, "a key of a new key space");
    let written = Wanted::now(engine)?.write(engine, &[put(dropped, b"a", b"")], IMMEDIATE);
    ensure_err!(written, Error::NoSuchKeySpace, "a write to a key space that is gone");

    let elsewhere = Store::new(factory, AMPLE)?;
    let foreign = Wanted::now(elsewhere.engine())?.key(space, b"a");
    let written = foreign.write(engine, &ops, IMMEDIATE);
    ensure_err!(written, Error::ForeignSnapshot, "a snapshot of another store");
    let written = Wanted::now(&Model::new())?.write(engine, &ops, IMMEDIATE);
    ensure_err!(written, Error::ForeignSnapshot, "a snapshot of another engine");
    Ok(())
}

/// Records that the engine moves to make room are not changed by that.
///
/// # Errors
/// The conflict that was none.
pub fn what_only_moves_has_not_changed(factory: &dyn Factory) -> Check {
    const POOL: u64 = 64 << 20;
    const KEYS: u64 = 8_000;
    let store = Store::new(factory, POOL)?;
    let engine = store.engine();
    let space = engine.key_space("moves")?;
    let fill = |round: u64, is_moved: fn(u64) -> bool| {
        (0..KEYS).filter(|number| is_moved(*number)).try_for_each(|number| {
            let (key, value) = (key(number), value(number + round * KEYS, 1_000));
            engine.write(&[put(space, &key, &value)], Durability::Deferred)
        })
    };
    fill(0, |_| true)?;
    // One of eight stays, so that it has to move out of the way of the others.
    let wanted = (0..KEYS).filter(|number| number % 8 == 3);
    let wanted = wanted.fold(Wanted::now(engine)?, |wanted, number| {
        let start = key(number);
        let end = [&start[..], b"\0"].concat();
        wanted.key(space, &start).range(space, &start, Some(&end))
    });
    let ops = [put(space, b"written", b"1")];
    for round in 1..6 {
        fill(round, |number| number % 8 != 3)?;
        wanted.write(engine, &ops, Durability::Deferred).map_err(|why| {
            let moved = engine.stats().collected_bytes_moved;
            Failure(format!("after round {round}, when {moved} bytes had moved: {why}"))
        })?;
    }
    engine.write(&[put(space, &key(3), b"changed")], Durability::Deferred)?;
    let written = wanted.write(engine, &ops, Durability::Deferred);
    ensure_err!(written, Error::Conflict { .. }, "a key that moved and changed");
    Ok(())
}

/// Many random writes with random expectations end as they must, after any writes, reads, deletes and
/// collection since; the store then equals the model.
///
/// # Errors
/// The write that ended otherwise, and the seed.
pub fn random_expectations_are_kept(factory: &dyn Factory) -> Check {
    for seed in 0..24 {
        follow(factory, seed).map_err(|why| why.inside(format!("seed {seed}")))?;
    }
    Ok(())
}

/// The last write that changed each key, and whether it put it. If an absent key is deleted again, an
/// engine need not know that this changed nothing.
type Versions = BTreeMap<Vec<u8>, Version>;

#[derive(Clone, Copy, PartialEq)]
struct Version {
    /// The last write that put the key, or removed it.
    changed: u64,
    /// The last write that would have removed it.
    deleted: u64,
    is_there: bool,
}

fn follow(factory: &dyn Factory, seed: u64) -> Check {
    const KEYS: u64 = 24;
    let store = Store::new(factory, AMPLE)?;
    let (engine, model) = (store.engine(), Model::new());
    let (space, of_model) = (engine.key_space("random")?, model.key_space("random")?);
    let mut random = Rng::with_seed(seed);
    let mut versions = Versions::new();
    let mut snapshots = vec![(engine.snapshot()?, versions.clone())];
    for number in 1..400 {
        let mut ops: Vec<Drawn> = Vec::new();
        for _ in 0..random.u64(..3) + u64::from(random.u64(..3) > 0) {
            let (a, b) = (random.u64(..KEYS), random.u64(..KEYS));
            let second = match random.u64(..4) {
                0 => key(a.max(b)),
                _ => value(
                    number,
                    random.u64(..40) as usize * (1 + 80 * (random.u64(..9) / 8) as usize),
                ),
            };
            ops.push((random.u64(..8), key(a.min(b)), second));
        }
        let of_space = |space| ops.iter().map(|drawn| op(space, drawn)).collect::<Vec<_>>();
        let nth = random.u64(..snapshots.len() as u64) as usize;
        let (snapshot, then) = &snapshots[nth];
        let mut wanted =
            Wanted { snapshot: Arc::clone(snapshot), keys: Vec::new(), ranges: Vec::new() };
        // Whether a conflict must be reported, and whether it may be.
        let (mut must, mut may) = (false, false);
        for _ in 0..random.u64(..3) {
            let key = key(random.u64(..KEYS));
            let (now, then) = (versions.get(&key), then.get(&key));
            let changed = |version: Option<&Version>| version.map_or(0, |version| version.changed);
            must |= changed(now) != changed(then);
            may |= now != then;
            wanted = wanted.key(space, &key);
        }
        for _ in 0..random.u64(..2) {
            let (start, end) = (random.u64(..KEYS), random.u64(..KEYS + 1));
            let (start, end) = (key(start.min(end)), key(start.max(end)));
            for at in 0..KEYS {
                let key = key(at);
                if key < start || key >= end {
                    continue;
                }
                let (now, then) = (versions.get(&key), then.get(&key));
                let is_there =
                    |version: Option<&Version>| version.is_some_and(|found| found.is_there);
                may |= now != then;
                must |= now.map(|now| now.changed) != then.map(|then| then.changed)
                    && (is_there(now) || is_there(then));
            }
            wanted = wanted.range(space, &start, Some(&end));
        }
        let durability =
            if random.u64(..2) == 0 { Durability::Deferred } else { Durability::Immediate };
        let written = wanted.write(engine, &of_space(space), durability);
        match written {
            Ok(()) if !must => {
                model.write(&of_space(of_model), durability)?;
                of_space(space).iter().for_each(|op| note(&mut versions, op, number, KEYS));
            }
            Err(Error::Conflict { .. }) if must || may => {}
            other => {
                let expected = if must { "a conflict" } else { "none" };
                return Err(Failure(format!("write {number}: {other:?}, not {expected}")));
            }
        }
        if random.u64(..12) == 0 {
            snapshots.push((engine.snapshot()?, versions.clone()));
        }
        if snapshots.len() > 4 {
            drop(snapshots.swap_remove(random.u64(..4) as usize));
        }
    }
    compare::engines(engine, &model)
}

/// An operation that was drawn: its kind, its key, and its value or the end of the range.
type Drawn = (u64, Vec<u8>, Vec<u8>);

fn op(space: KeySpaceId, (kind, key, second): &Drawn) -> Op<'_> {
    match kind {
        0 => Op::DeleteRange { space, start: key, end: Some(second) },
        1 | 2 => Op::Delete { space, key },
        _ => Op::Put { space, key, value: second },
    }
}

/// Notes an operation of write `number`.
fn note(versions: &mut Versions, op: &Op<'_>, number: u64, keys: u64) {
    let nothing = Version { changed: 0, deleted: 0, is_there: false };
    match *op {
        Op::Put { key, .. } => {
            let version = versions.entry(key.to_vec()).or_insert(nothing);
            *version = Version { changed: number, deleted: number, is_there: true };
        }
        Op::Delete { key, .. } => {
            let version = versions.entry(key.to_vec()).or_insert(nothing);
            version.deleted = number;
            if std::mem::take(&mut version.is_there) {
                version.changed = number;
            }
        }
        Op::DeleteRange { space, start, end } => {
            let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
            let inside = (0..keys).map(key).filter(|key| range.contains(key));
            inside.for_each(|key| note(versions, &Op::Delete { space, key: &key }, number, keys));
        }
    }
}

/// Threads that read, add one, and write if the key has not changed lose no addition. Threads that keep the
/// sum of many keys, each by reading all of them, keep it.
///
/// # Errors
/// The lost addition, or how the sum changed.
pub fn threads_that_expect_lose_no_update(factory: &dyn Factory) -> Check {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 150;
    const ACCOUNTS: u64 = 40;
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let (counters, accounts) = (engine.key_space("counters")?, engine.key_space("accounts")?);
    for account in 0..ACCOUNTS {
        engine.write(&[put(accounts, &key(account), &100_u64.to_be_bytes())], IMMEDIATE)?;
    }
    let number = |value: Option<&[u8]>| {
        value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_be_bytes)
    };
    let again = |attempt: &dyn Fn() -> Result<()>| -> Check {
        loop {
            match attempt() {
                Err(error) if error.is_retryable() => std::thread::yield_now(),
                other => return Ok(other?),
            }
        }
    };
    let work = |thread: u64| -> Check {
        let mut random = Rng::with_seed(thread);
        for round in 0..ROUNDS {
            let durability =
                if round % 2 == 0 { Durability::Immediate } else { Durability::Deferred };
            let keys = [key(0), key(1 + round % 3)];
            again(&|| {
                let wanted =
                    keys.iter().fold(Wanted::now(engine)?, |all, key| all.key(counters, key));
                let mut values = Vec::new();
                for key in &keys {
                    let found = wanted.snapshot.get(counters, key)?;
                    values.push((number(found.as_deref()) + 1).to_be_bytes());
                }
                let ops: Vec<_> = keys
                    .iter()
                    .zip(&values)
                    .map(|(key, value)| put(counters, key, value))
                    .collect();
                wanted.write(engine, &ops, durability)
            })?;
            let (from, to) = (random.u64(..ACCOUNTS), random.u64(..ACCOUNTS));
            again(&|| {
                let wanted = Wanted::now(engine)?.range(accounts, b"", None);
                let all = wanted.snapshot.scan(accounts, KeyRange::all(), Direction::Forward)?;
                let all: BTreeMap<_, _> = all
                    .map(|pair| pair.map(|(key, value)| (key.to_vec(), number(Some(&value)))))
                    .collect::<Result<_>>()?;
                // The other keys' values decide the amount, so a write of another thread in between would
                // show. Where one was lost, the sum may be anything.
                let (from, to) = (key(from), key(to));
                let Some(&has) = all.get(&from).filter(|_| from != to) else { return Ok(()) };
                let others = all.iter().filter(|(key, _)| **key != to).map(|(_, has)| *has);
                let others = others.fold(0, u64::wrapping_add);
                let moved = (100 * ACCOUNTS + 1).wrapping_sub(others).to_be_bytes();
                let left = has.wrapping_sub(1).to_be_bytes();
                let ops = match has {
                    1 => [Op::Delete { space: accounts, key: &from }, put(accounts, &to, &moved)],
                    _ => [put(accounts, &from, &left), put(accounts, &to, &moved)],
                };
                wanted.write(engine, &ops, durability)
            })?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
        })
    })?;
    let found = number(engine.get(counters, &key(0))?.as_deref());
    ensure!(found == THREADS * ROUNDS, "{found} of {} additions are there", THREADS * ROUNDS);
    let mut sum = 0_u64;
    for pair in engine.scan(accounts, KeyRange::all(), Direction::Forward)? {
        sum = sum.wrapping_add(number(Some(&pair?.1)));
    }
    ensure!(sum == 100 * ACCOUNTS, "the accounts had {} and have {sum}", 100 * ACCOUNTS);
    Ok(())
}
