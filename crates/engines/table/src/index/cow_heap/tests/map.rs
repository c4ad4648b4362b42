//! Random transactions, snapshots and reopenings, compared with maps.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Put(u32, Vec<u8>, u64),
    /// Adds many keys: inner nodes of several levels.
    PutRun(u32, u64, u16),
    Remove(u32, usize),
    /// Removes every so many keys.
    RemoveEach(usize),
    Finish,
    Undo,
    Sync,
    Snapshot,
    DropSnapshot(usize),
    Reclaim,
    /// Opens the store again without a sync.
    Kill,
}

/// Keys with long beginnings in common, and some of which are too long for nodes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let part = proptest::collection::vec(0..3_u8, 0..6);
    (part, 0..4_usize, 0..4_u8).prop_map(|(part, repeats, last)| {
        let mut key = part.repeat(1 + repeats * repeats * 5);
        key.push(last);
        key
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (16..19_u32, key(), any::<u64>()).prop_map(|(tree, key, word)| Step::Put(tree, key, word)),
        4 => (16..19_u32, any::<u64>(), 1..400_u16).prop_map(|(tree, from, count)| Step::PutRun(tree, from, count)),
        12 => (16..19_u32, any::<usize>()).prop_map(|(tree, place)| Step::Remove(tree, place)),
        2 => (1..5_usize).prop_map(Step::RemoveEach),
        8 => Just(Step::Finish),
        3 => Just(Step::Undo),
        6 => Just(Step::Sync),
        3 => Just(Step::Snapshot),
        3 => any::<usize>().prop_map(Step::DropSnapshot),
        2 => Just(Step::Reclaim),
        2 => Just(Step::Kill),
    ]
}

fn compare(store: &CowHeap, model: &Model) {
    for tree in 16..19 {
        let expected = of_tree(model, tree);
        assert_eq!(all(store.scan(tree, ALL, Direction::Forward)), expected);
        let mut backward = all(store.scan(tree, ALL, Direction::Reverse));
        backward.reverse();
        assert_eq!(backward, expected);
    }
}

fn run(steps: &[Step], node_len: usize) {
    let segments = pool(64 << 20);
    let mut store = open(&segments, node_len);
    // What is durable, what is committed, and what the transaction has.
    let (mut durable, mut committed, mut model) = (Model::new(), Model::new(), Model::new());
    let mut snapshots: Vec<(HeapSnapshot, Model)> = Vec::new();
    for step in steps {
        match step {
            Step::Put(tree, key, word) => {
                let before = store.put(*tree, key, *word).unwrap();
                assert_eq!(before, model.insert((*tree, key.clone()), *word));
            }
            Step::PutRun(tree, from, count) => {
                for number in 0..u64::from(*count) {
                    let key = key_of(from.wrapping_add(number) % 3000);
                    let before = store.put(*tree, &key, number).unwrap();
                    assert_eq!(before, model.insert((*tree, key), number));
                }
            }
            Step::Remove(tree, place) => {
                let keys = of_tree(&model, *tree);
                if keys.is_empty() {
                    assert_eq!(store.remove(*tree, b"none").unwrap(), None);
                    continue;
                }
                let (key, word) = &keys[place % keys.len()];
                assert_eq!(store.remove(*tree, key).unwrap(), Some(*word));
                model.remove(&(*tree, key.clone()));
            }
            Step::RemoveEach(each) => {
                let keys: Vec<_> = model.keys().step_by(*each).cloned().collect();
                for (tree, key) in keys {
                    assert_eq!(store.remove(tree, &key).unwrap(), model.remove(&(tree, key)));
                }
            }
            Step::Finish => {
                store.finish().unwrap();
                committed = model.clone();
            }
            Step::Undo => {
                store.undo().unwrap();
                model = committed.clone();
                compare(&store, &model);
            }
            Step::Sync => {
                store.undo().unwrap();
                store.sync().unwrap();
                model = committed.clone();
                durable = committed.clone();
                verify(&store);
            }
            Step::Snapshot => snapshots.push((store.snapshot(), durable.clone())),
            Step::DropSnapshot(place) => {
                if !snapshots.is_empty() {
                    snapshots.swap_remove(place % snapshots.len());
                }
            }
            Step::Reclaim => drop(store.reclaim().unwrap()),
            Step::Kill => {
                snapshots.clear();
                drop(store);
                store = open(&segments, node_len);
                (model, committed) = (durable.clone(), durable.clone());
                verify(&store);
            }
        }
        for (snapshot, model) in &snapshots {
            for tree in 16..19 {
                let found = all(snapshot.scan(tree, ALL, Direction::Forward));
                assert_eq!(found, of_tree(model, tree));
            }
        }
    }
    compare(&store, &model);
    for ((tree, key), word) in &model {
        assert_eq!(store.get(*tree, key).unwrap(), Some(*word));
    }
    store.finish().unwrap();
    store.sync().unwrap();
    drop(snapshots);
    while store.reclaim().unwrap() != Reclaimed::All {}
    let reached = verify(&store);
    drop(store);
    let store = open(&segments, node_len);
    compare(&store, &model);
    assert_eq!(verify(&store), reached);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn trees_are_maps_and_snapshots_stay(
        steps in proptest::collection::vec(step(), 1..120),
        node_len in prop_oneof![Just(256_usize), Just(512)],
    ) {
        run(&steps, node_len);
    }
}

#[test]
fn a_snapshot_across_two_swaps_is_not_reached_by_what_is_written_next() {
    let segments = pool(64 << 20);
    let mut store = open(&segments, 256);
    for number in 0..5_000 {
        store.put(16, &key_of(number), number).unwrap();
    }
    store.finish().unwrap();
    store.sync().unwrap();
    let snapshot = store.snapshot();
    let before = all(snapshot.scan(16, ALL, Direction::Forward));
    for round in 1..=2 {
        // Every node is replaced, and as many are taken for others.
        for number in 0..5_000 {
            store.put(16, &key_of(number), number + round).unwrap();
            store.put(17, &key_of(number * round), 7).unwrap();
        }
        store.finish().unwrap();
        store.sync().unwrap();
        assert_eq!(all(snapshot.scan(16, ALL, Direction::Forward)), before, "round {round}");
        assert_eq!(snapshot.get(17, &key_of(1)).unwrap(), None);
    }
    assert_eq!(store.reclaim().unwrap(), Reclaimed::Waits);
    let waiting = verify(&store);
    // A reader of a later state does not hold back what the first one needed.
    let later = store.snapshot();
    drop(snapshot);
    while store.reclaim().unwrap() == Reclaimed::Some {}
    assert!(verify(&store) < waiting * 2 / 3, "{waiting} slots while they waited");
    assert_eq!(later.get(16, &key_of(1)).unwrap(), Some(3));
    assert_eq!(store.reclaim().unwrap(), Reclaimed::All);
}

#[test]
fn garbage_outlives_its_process_and_is_freed_by_the_next() {
    let segments = pool(64 << 20);
    let mut store = open(&segments, 256);
    let mut snapshots = Vec::new();
    for round in 0..4 {
        for number in 0..2_000 {
            store.put(16, &key_of(number), round).unwrap();
        }
        store.finish().unwrap();
        store.sync().unwrap();
        snapshots.push(store.snapshot());
    }
    let with_garbage = verify(&store);
    drop((store, snapshots));
    let mut store = open(&segments, 256);
    assert_eq!(verify(&store), with_garbage);
    // Each sync frees some of it.
    for round in 4..8 {
        store.put(16, &key_of(round), round).unwrap();
        store.finish().unwrap();
        store.sync().unwrap();
    }
    assert_eq!(store.reclaim().unwrap(), Reclaimed::All);
    assert!(verify(&store) < with_garbage / 3, "{with_garbage} slots with garbage");
}

/// Does a part of a sync: some stages of it.
fn stages(store: &mut CowHeap, count: usize) {
    let shared = Arc::clone(&store.shared);
    let heap = &mut shared.heap.write();
    store.batch.write_nodes(heap, &shared).unwrap();
    for _ in 0..count {
        assert!(store.batch.new.len() > garbage::STEP);
        store.stage(heap).unwrap();
    }
}

#[test]
fn a_sync_that_is_interrupted_between_stages_leaks_nothing_and_can_go_on() {
    for (has_garbage, goes_on) in [(false, false), (false, true), (true, false), (true, true)] {
        let segments = pool(128 << 20);
        let mut store = open(&segments, 256);
        let mut model = Model::new();
        let mut put = |store: &mut CowHeap, number: u64, word| {
            store.put(16, &key_of(number), word).unwrap();
            model.insert((16, key_of(number)), word);
        };
        (0..1_000).for_each(|number| put(&mut store, number, 1));
        store.finish().unwrap();
        store.sync().unwrap();
        let snapshot = has_garbage.then(|| store.snapshot());
        if has_garbage {
            put(&mut store, 0, 2);
            store.finish().unwrap();
            store.sync().unwrap();
        }
        let synced = all(store.snapshot().scan(16, ALL, Direction::Forward));
        (0..50_000).for_each(|number| put(&mut store, number, 3));
        store.finish().unwrap();
        stages(&mut store, 2);
        if goes_on {
            // Copies that are staged are copied again, and others are taken back.
            (0..50_000).step_by(3).for_each(|number| put(&mut store, number, 4));
            store.finish().unwrap();
            for number in 0..40 {
                store.remove(16, &key_of(number)).unwrap();
            }
            store.undo().unwrap();
            assert_eq!(all(store.scan(16, ALL, Direction::Forward)), of_tree(&model, 16));
            stages(&mut store, 1);
            store.sync().unwrap();
            verify(&store);
        }
        drop((snapshot, store));
        let mut store = open(&segments, 256);
        let expected = if goes_on { of_tree(&model, 16) } else { synced };
        assert_eq!(all(store.scan(16, ALL, Direction::Forward)), expected);
        verify(&store);
        while store.reclaim().unwrap() != Reclaimed::All {}
        let nodes = verify(&store);
        assert!(goes_on || nodes < 200, "{nodes} slots");
        assert_eq!(all(store.scan(16, ALL, Direction::Forward)), expected);
    }
}

#[test]
fn a_reader_on_another_thread_sees_one_state() {
    let segments = pool(64 << 20);
    let mut store = open(&segments, 512);
    for number in 0..500 {
        store.put(16, &key_of(number), 0).unwrap();
    }
    store.finish().unwrap();
    store.sync().unwrap();
    for round in 1..20 {
        let snapshot = store.snapshot();
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let words = all(snapshot.scan(16, ALL, Direction::Forward));
                assert_eq!(words.len(), 500);
                assert!(words.iter().all(|(_, word)| *word == round - 1));
            });
            for number in 0..500 {
                store.put(16, &key_of(number), round).unwrap();
            }
            store.finish().unwrap();
            store.sync().unwrap();
            reader.join().unwrap();
        });
    }
    verify(&store);
}
