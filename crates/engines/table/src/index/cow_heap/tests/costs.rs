//! Fences and copies.

use tempfile::TempDir;

use super::*;

/// A pool in a file, whose traffic is counted.
fn pool_in_file() -> (Arc<Segments>, TempDir) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut options = PoolOptions::default();
    options.size_max = 64 << 20;
    let segments = Segments::create(&folder.path().join("pool"), &options).unwrap();
    segments.install().unwrap();
    (segments, folder)
}

/// Puts a key, finishes the transaction, syncs, and returns the fences of the sync.
fn fences(segments: &Segments, store: &mut CowHeap, puts: impl Iterator<Item = (u64, u64)>) -> u64 {
    for (number, word) in puts {
        store.put(16, &key_of(number), word).unwrap();
        store.finish().unwrap();
    }
    let before = segments.pool().traffic();
    store.sync().unwrap();
    (segments.pool().traffic() - before).fences
}

#[test]
fn a_sync_is_one_fence_and_one_more_for_garbage() {
    let (segments, _folder) = pool_in_file();
    let mut store = open(&segments, 512);
    fences(&segments, &mut store, (0..3_000).map(|number| (number, 0)));
    // The slots of a few syncs are there from then on.
    for number in 0..10 {
        fences(&segments, &mut store, (0..300).map(|other| (other, number)));
    }
    for group in [1, 2, 10, 100] {
        for round in 0..5 {
            let puts = (0..group).map(|number| (number * 7 + round, round));
            assert_eq!(fences(&segments, &mut store, puts), 1, "a group of {group}");
        }
    }
    let before = segments.pool().traffic();
    store.sync().unwrap();
    assert_eq!((segments.pool().traffic() - before).fences, 0, "nothing has changed");
    let snapshot = store.snapshot();
    let waits: Vec<_> =
        (0..8).map(|round| fences(&segments, &mut store, [(round, 9)].into_iter())).collect();
    // Slabs of garbage, of nodes and of directories are made at first.
    assert_eq!(waits.iter().min(), Some(&1), "{waits:?}");
    drop(snapshot);
    assert_eq!(fences(&segments, &mut store, [(1, 10)].into_iter()), 2);
}

#[test]
fn a_group_copies_each_node_once() {
    let segments = pool(64 << 20);
    let mut store = open(&segments, 512);
    fences(&segments, &mut store, (0..3_000).map(|number| (number, 0)));
    store.put(16, &key_of(1), 1).unwrap();
    store.finish().unwrap();
    let path = store.batch.new.len();
    assert!((3..=4).contains(&path), "{path} nodes from the root to a leaf");
    for word in 2..50 {
        store.put(16, &key_of(1), word).unwrap();
        store.finish().unwrap();
    }
    assert_eq!((store.batch.new.len(), store.batch.freed.len()), (path, path));
    // Slots that the group itself has reserved are given up at once.
    store.put(17, b"key", 1).unwrap();
    store.finish().unwrap();
    assert_eq!(store.batch.new.len(), path + 1);
    store.remove(17, b"key").unwrap();
    store.finish().unwrap();
    assert_eq!((store.batch.new.len(), store.batch.freed.len()), (path, path));
}

#[test]
fn a_transaction_of_many_records_is_synced_in_stages() {
    let segments = pool(128 << 20);
    let mut store = open(&segments, 256);
    let rest = |store: &mut CowHeap| while store.reclaim().unwrap() == Reclaimed::Some {};
    for is_read in [false, true] {
        let snapshot = is_read.then(|| store.snapshot());
        for number in 0..40_000 {
            store.put(16, &key_of(number), number).unwrap();
        }
        store.finish().unwrap();
        let changes = store.changes();
        assert!(changes > 3 * garbage::STEP, "{changes} slots");
        store.sync().unwrap();
        verify(&store);
        assert_eq!(all(store.scan(16, ALL, Direction::Forward)).len(), 40_000);
        assert_eq!(store.snapshot().get(16, &key_of(39_999)).unwrap(), Some(39_999));
        drop(snapshot);
        rest(&mut store);
        for number in 0..40_000 {
            assert_eq!(store.remove(16, &key_of(number)).unwrap(), Some(number));
        }
        store.finish().unwrap();
        store.sync().unwrap();
        // More slots were replaced than a record takes: they wait, and are freed step by step.
        assert!(verify(&store) > garbage::STEP);
        rest(&mut store);
        assert_eq!(verify(&store), 1, "the directory");
    }
}

#[test]
fn an_update_writes_more_lines_with_longer_nodes_and_fewer_in_a_group() {
    let mut last = 0.0;
    for node_len in [256, 512, 1024, 4096] {
        let (segments, _folder) = pool_in_file();
        let mut store = open(&segments, node_len);
        fences(&segments, &mut store, (0..20_000).map(|number| (number, 0)));
        let level = store.batch.roots[&16].level;
        let mut lines = |group: u64| {
            let before = segments.pool().traffic();
            for round in 0..40 {
                let puts = (0..group).map(|number| ((round * 499 + number * 31) % 20_000, round));
                fences(&segments, &mut store, puts);
            }
            let cost = segments.pool().traffic() - before;
            cost.lines as f64 / (40 * group) as f64
        };
        let (alone, grouped) = (lines(1), lines(100));
        println!(
            "nodes of {node_len} B, {level} levels above leaves: {alone:.1}, {grouped:.1} lines"
        );
        assert!(grouped < alone && grouped > last, "{grouped} lines, {last} with shorter nodes");
        last = grouped;
    }
}

#[test]
fn opening_reads_the_directory_only() {
    let segments = pool(64 << 20);
    let mut store = open(&segments, 256);
    let puts = (0..10_000).map(|number| (number, number));
    fences(&segments, &mut store, puts);
    drop(store);
    let store = open(&segments, 256);
    let looked_at = store.shared().heap().looked_at();
    assert!(looked_at.chunks <= 4, "{looked_at:?}");
    assert_eq!(store.get(16, &key_of(5)).unwrap(), Some(5));
}
