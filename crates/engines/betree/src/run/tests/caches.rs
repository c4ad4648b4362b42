//! The caches of parts and directories stay within their bytes, and no eviction changes an answer.

use std::sync::Arc;

use halite_cache::BlockCache;
use halite_codec::Compression;
use proptest::prelude::*;

use super::super::directories::Keeper;
use super::super::test_storage::MemoryExtents;
use super::super::{Directories, Reads, Run, RunCursor, RunStore, hash_key};
use super::model::{Model, SEED, Shape, models, view};
use crate::message::Kind;
use crate::shares::Shares;

const SHAPE: Shape =
    Shape { part_bytes: 512, blocks: 4, compression: Compression::None, has_filter: true };

fn store(extents: &Arc<MemoryExtents>, bytes: u64) -> Arc<RunStore> {
    let cache = Arc::new(BlockCache::new(bytes, SHAPE.part_bytes));
    let directories = Directories::new(Arc::new(Shares::new(Arc::clone(&cache), bytes)));
    Arc::new(RunStore {
        extents: Arc::clone(extents) as _,
        cache,
        directories,
        seed: SEED,
        heat: None,
    })
}

fn used(store: &RunStore) -> u64 {
    store.directories.used_bytes() + store.cache.used_bytes()
}

/// A run of so many messages, whose keys begin with a number.
fn many(number: u8, messages: u32) -> Model {
    let message =
        |n: u32| (key(number, n), (Kind::Insert, [&[number; 40][..], &n.to_be_bytes()].concat()));
    Model { messages: (0..messages).map(message).collect(), ranges: Vec::new() }
}

fn key(number: u8, n: u32) -> Vec<u8> {
    [&[number][..], &n.to_be_bytes()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lookups_and_walks_have_the_same_answers_whatever_is_evicted(
        models in prop::collection::vec(models(), 1..6),
        bytes in prop_oneof![Just(0_u64), 1..3000_u64, 3000..30_000_u64],
        is_in_place in any::<bool>(),
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_u8..8), 1..60),
    ) {
        let extents = Arc::new(if is_in_place { MemoryExtents::in_place() } else { MemoryExtents::default() });
        let store = store(&extents, bytes);
        let open = |pointer| Run::open(Arc::clone(&store), pointer);
        let mut runs: Vec<_> = models
            .iter()
            .filter_map(|model| Some((model, open(model.write(&extents, SHAPE, 3)?))))
            .collect();
        prop_assume!(!runs.is_empty());
        let mut cursors: Vec<(&Model, RunCursor)> = Vec::new();
        for (run, at, step) in steps {
            let number = run.index(runs.len());
            let (model, run) = &mut runs[number];
            match step {
                0..5 => {
                    let keys: Vec<_> = model.messages.keys().cloned().chain([b"none".to_vec()]).collect();
                    let key = at.get(&keys);
                    let found = run.get(key, hash_key(key)).unwrap();
                    let found = found.as_ref().map(|message| message.message());
                    prop_assert_eq!(found, model.messages.get(key).map(view));
                    prop_assert_eq!(run.covers(key).unwrap(), model.covers(key));
                }
                5 => {
                    let cursor = RunCursor::new(Arc::clone(run), b"", None, Reads::Cached).unwrap();
                    cursors.push((model, cursor));
                }
                6 => *run = open(run.pointer().clone()),
                _ => {
                    if !cursors.is_empty() {
                        let (model, mut cursor) = cursors.swap_remove(at.index(cursors.len()));
                        let found = super::moves::all(&mut cursor, at.index(2) == 0).unwrap();
                        prop_assert_eq!(found.len(), model.messages.len());
                    }
                }
            }
            prop_assert!(used(&store) <= bytes, "{} of {bytes} bytes", used(&store));
        }
        drop((runs, cursors));
        prop_assert_eq!(store.directories.used_bytes(), 0);
    }
}

#[test]
fn a_directory_outlives_parts_and_the_directories_of_runs_that_are_used_once() {
    let extents = Arc::new(MemoryExtents::default());
    let models: Vec<Model> = (0..40).map(|number| many(number, 1000)).collect();
    let pointers = models.iter().map(|model| model.write(&extents, SHAPE, 3).unwrap());
    let pointers: Vec<_> = pointers.collect();
    // 2 MB of runs, whose directories take about 250 KB.
    let store = store(&extents, 200_000);
    let runs: Vec<_> =
        pointers.into_iter().map(|pointer| Run::open(Arc::clone(&store), pointer)).collect();
    let get = |number: u8, n: u32| {
        let key = key(number, n);
        let found = runs[usize::from(number)].get(&key, hash_key(&key)).unwrap();
        assert_eq!(found.unwrap().message(), view(&models[usize::from(number)].messages[&key]));
    };
    for n in 0..1000 {
        get(0, n);
    }
    let kept = || runs[0].kept().get().expect("it was used last").share();
    let (first, before, parts) = (kept(), extents.reads(), store.cache.reads());
    let mut random = fastrand::Rng::with_seed(4);
    for n in 0..1000 {
        // Others come and go between the uses of the first run.
        get(random.u8(1..40), n);
        get(0, n * 7 % 1000);
    }
    assert!(Arc::ptr_eq(&first, &kept()), "the directory that is always used is never evicted");
    let of_directories = extents.reads() - before - (store.cache.reads() - parts);
    // Those of the 39 other runs do not all have room.
    assert!((50..900).contains(&of_directories), "{of_directories} directories were read");
    assert!(used(&store) <= 200_000);
}

#[test]
fn threads_that_evict_each_others_directories_read_what_was_written() {
    let extents = Arc::new(MemoryExtents::default());
    let models: Vec<Model> = (0..16).map(|number| many(number, 300)).collect();
    let store = store(&extents, 30_000);
    let runs: Vec<_> = models
        .iter()
        .map(|model| Run::open(Arc::clone(&store), model.write(&extents, SHAPE, 3).unwrap()))
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (models, runs, store) = (&models, &runs, &store);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..5000 {
                    let (number, n) = (random.u8(0..16), random.u32(0..300));
                    let key = key(number, n);
                    let found = runs[usize::from(number)].get(&key, hash_key(&key)).unwrap();
                    let expected = view(&models[usize::from(number)].messages[&key]);
                    assert_eq!(found.unwrap().message(), expected);
                    assert!(store.directories.used_bytes() <= 30_000);
                }
            });
        }
    });
    assert!(used(&store) <= 30_000);
    drop(runs);
    assert_eq!(store.directories.used_bytes(), 0);
}
