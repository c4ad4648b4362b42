//! Many threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::data::{key, value};
use super::{AMPLE, Check, Factory, Failure, Store, compare, ensure};
use crate::{Direction, Durability, Engine, KeyRange, KeySpaceId, Model, Op, WriteBatch};

/// One thread writes batches that keep an invariant; readers never see it broken: two counters are
/// equal, and exactly one of many keys holds the token.
///
/// # Errors
/// The state that a reader should not have seen.
pub fn readers_see_whole_batches_only(factory: &dyn Factory) -> Check {
    const BATCHES: u64 = 4_000;
    const PLACES: u64 = 50;
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("invariant")?;
    let write = |number: u64| -> Check {
        let mut batch = WriteBatch::new();
        batch.put(space, b"a counter", &number.to_be_bytes());
        batch.delete_prefix(space, &token(number.wrapping_sub(1) % PLACES));
        batch.put(space, &token(number % PLACES), &value(number, 100));
        batch.put(space, b"z counter", &number.to_be_bytes());
        let durable =
            if number.is_multiple_of(2) { Durability::Immediate } else { Durability::Deferred };
        Ok(engine.write(&batch.ops(), durable)?)
    };
    // The first place before this one is the last of all, as BATCHES is a multiple of PLACES.
    write(PLACES)?;
    let done = AtomicBool::new(false);
    let read = || -> Check {
        loop {
            let last = done.load(Ordering::Acquire);
            for direction in [Direction::Forward, Direction::Reverse] {
                whole(engine, space, direction)?;
            }
            let before = counter(engine.get(space, b"a counter")?.as_deref());
            let after = counter(engine.get(space, b"z counter")?.as_deref());
            ensure!(before <= after, "a read of {before:?} was followed by one of {after:?}");
            if last {
                return Ok(());
            }
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let written = (PLACES + 1..=BATCHES).try_for_each(write);
        done.store(true, Ordering::Release);
        readers.into_iter().try_for_each(joined).and(written)
    })
}

fn token(place: u64) -> Vec<u8> {
    [&b"token "[..], &key(place)].concat()
}

fn counter(value: Option<&[u8]>) -> Option<u64> {
    value.and_then(|value| value.try_into().ok()).map(u64::from_be_bytes)
}

fn whole(engine: &dyn Engine, space: KeySpaceId, direction: Direction) -> Check {
    let mut counters = Vec::new();
    let mut tokens = Vec::new();
    for pair in engine.scan(space, KeyRange::all(), direction)? {
        let (key, bytes) = pair?;
        if key.starts_with(b"token") {
            tokens.push(bytes.to_vec());
        } else {
            counters.push(counter(Some(&bytes)));
        }
    }
    ensure!(tokens.len() == 1, "a {direction:?} scan saw {} tokens at once", tokens.len());
    let equal = counters.len() == 2 && counters[0].is_some() && counters[0] == counters[1];
    ensure!(equal, "a {direction:?} scan saw the counters {counters:?} at once");
    let number = counters[0].unwrap_or_default();
    ensure!(tokens[0] == value(number, 100), "the token is not of batch {number}");
    Ok(())
}

/// Threads that write keys of their own, into one key space and into several, lose no write.
///
/// # Errors
/// The first difference from their writes.
pub fn writers_in_parallel_lose_nothing(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    write_in_parallel(store.engine())?;
    compare::engines(store.engine(), &written_in_parallel()?)
}

const WRITERS: u64 = 4;

/// Four threads at once; [`written_in_parallel`] is the model of their writes.
pub(super) fn write_in_parallel(engine: &dyn Engine) -> Check {
    let ready = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|writer| {
            let ready = &ready;
            scope.spawn(move || {
                ready.fetch_add(1, Ordering::AcqRel);
                while ready.load(Ordering::Acquire) < WRITERS as usize {
                    std::hint::spin_loop();
                }
                write_as(engine, writer)
            })
        });
        threads.into_iter().try_for_each(joined)
    })?;
    Ok(engine.sync()?)
}

/// The model of the writes of [`write_in_parallel`].
pub(super) fn written_in_parallel() -> Check<Model> {
    let model = Model::new();
    (0..WRITERS).try_for_each(|writer| write_as(&model, writer))?;
    Ok(model)
}

fn write_as(engine: &dyn Engine, writer: u64) -> Check {
    let shared = engine.key_space("shared")?;
    let own = engine.key_space(&format!("writer {writer}"))?;
    for number in 0..2_000 {
        let key = key(number * WRITERS + writer);
        let bytes = value(number, (number % 300) as usize);
        let durable = if number % 3 == 0 { Durability::Immediate } else { Durability::Deferred };
        for space in [shared, own] {
            engine.write(&[Op::Put { space, key: &key, value: &bytes }], durable)?;
        }
        match number % 5 {
            0 => engine.write(&[Op::Delete { space: own, key: &key }], durable)?,
            1 => {
                let mut batch = WriteBatch::new();
                batch.delete(shared, &key);
                batch.put(own, &key, b"moved");
                engine.write(&batch.ops(), durable)?;
            }
            _ => {}
        }
        if number == 1_000 {
            let start = super::data::key(500);
            let op = Op::DeleteRange { space: own, start: &start, end: None };
            engine.write(&[op], Durability::Immediate)?;
        }
    }
    Ok(())
}

fn joined(thread: std::thread::ScopedJoinHandle<'_, Check>) -> Check {
    thread.join().unwrap_or_else(|_| Err(Failure("a thread panicked".to_owned())))
}
