//! Crashes between the steps of a group: the pool is copied as it is then.

use super::*;

/// Links the group's versions, all but those of the last step, and copies the pool.
fn crash_in_a_sync(folder: &Folder, mut partition: Partition<NvmWbl>) -> Folder {
    let method = partition.method_mut();
    let (shared, mut step) = (Arc::clone(&method.shared), Step::default());
    method.fill(&mut shared.state.write(), &mut step, usize::MAX).unwrap();
    let copy = Folder::new();
    std::fs::copy(folder.pool(), copy.pool()).unwrap();
    // The other one ends without another look at it.
    method.failed = Some("it has crashed".into());
    copy
}

/// How many rows have a version that a crash has left.
fn left(partition: &Partition<NvmWbl>) -> usize {
    let (method, table) = (partition.method(), table(partition));
    let state = method.shared.state.read();
    let tree = method.tree(table.primary()).unwrap();
    let range = KeyRange::all();
    let mut scan = tree.scan(&state.heap, range.bounds(), Direction::Forward).unwrap();
    let mut count = 0;
    while let Some((_, word)) = scan.next().unwrap() {
        let versions = head::Versions::read(&state.heap, NvPtr::from_word(word)).unwrap();
        count += usize::from(versions.0.iter().any(|it| method.commits.is_lost(it.timestamp)));
    }
    count
}

fn rows(partition: &Partition<NvmWbl>) -> Vec<(i64, String)> {
    let table = table(partition);
    let rows = partition.method().scan(&table, Some(0), &KeyRange::all(), Direction::Forward);
    let mut rows = texts(&table, rows.unwrap());
    rows.sort_unstable();
    rows
}

/// A transaction that changes, removes and adds rows.
fn change(partition: &mut Partition<NvmWbl>, table: &Table, added: i32) {
    partition.begin().unwrap();
    for id in 0..30 {
        let change = [Change::new(2, "rock"), Change::new(1, -i64::from(id) - 1)];
        partition.update(table, &key(table, id), &change).unwrap();
        partition.delete(table, &key(table, 30 + id)).unwrap();
        partition.insert(table, &row(table, added + id, None, "new")).unwrap();
    }
    partition.commit().unwrap();
}

#[test]
fn versions_of_a_gap_are_not_seen_and_go() {
    let (folder, segments, mut partition, table) = create(64 << 20, 8);
    insert(&mut partition, &table, 0..60, "salt").unwrap();
    partition.sync().unwrap();
    let expected: Vec<_> = (0..60).map(|id| (id, "salt".to_owned())).collect();
    change(&mut partition, &table, 100);
    let folder = crash_in_a_sync(&folder, partition);
    drop(segments);
    let (segments, mut partition) = open(&folder.pool(), 8);
    assert_eq!(partition.method().commits.gaps.len(), 1);
    assert!(left(&partition) > 80, "{}", left(&partition));
    assert_eq!((rows(&partition), partition.verify().unwrap()), (expected.clone(), 60));
    assert!(partition.get(&table, &key(&table, 101)).unwrap().is_none());
    // Rows of the gap are added again, others are changed and removed, and a crash follows.
    insert(&mut partition, &table, 110..115, "salt").unwrap();
    (0..5).for_each(|id| delete(&mut partition, &table, id));
    (5..10).for_each(|id| update(&mut partition, &table, id, Change::new(1, -500 - i64::from(id))));
    partition.sync().unwrap();
    let expected: Vec<_> = (5..60).chain(110..115).map(|id| (id, "salt".to_owned())).collect();
    change(&mut partition, &table, 200);
    let folder = crash_in_a_sync(&folder, partition);
    drop(segments);
    let (_segments, mut partition) = open(&folder.pool(), 8);
    assert_eq!(partition.method().commits.gaps.len(), 2);
    assert_eq!(rows(&partition), expected);
    assert_eq!(partition.verify().unwrap(), 60);
    while !partition.reclaim().unwrap() {}
    assert_eq!((left(&partition), partition.method().commits.gaps.len()), (0, 0));
    assert_eq!((rows(&partition), partition.verify().unwrap()), (expected, 60));
    // Only rows have heads, and only they have entries.
    let method = partition.method();
    for tree in method.trees.values() {
        let entries = tree.check(&method.shared.state.read().heap, |_| ()).unwrap();
        assert_eq!(entries, 60);
    }
}

#[test]
fn any_number_of_crashes_leaves_a_record_with_room() {
    let (mut folder, mut segments, mut partition, table) = create(64 << 20, 8);
    insert(&mut partition, &table, 0..60, "salt").unwrap();
    partition.sync().unwrap();
    let mut most = 0;
    for number in 0..40 {
        change(&mut partition, &table, 100);
        folder = crash_in_a_sync(&folder, partition);
        drop(segments);
        (segments, partition) = open(&folder.pool(), 8);
        most = most.max(partition.method().commits.gaps.len());
        assert_eq!(partition.verify().unwrap(), 60);
        // What is covered divides one gap from the next.
        update(&mut partition, &table, 59, Change::new(2, &*format!("{number}")));
        partition.sync().unwrap();
    }
    assert_eq!(most, record::GAPS_MAX);
    assert_eq!(partition.verify().unwrap(), 60);
}

#[test]
fn commits_clean_up_by_themselves() {
    let (folder, segments, mut partition, table) = create(64 << 20, 8);
    insert(&mut partition, &table, 0..60, "salt").unwrap();
    partition.sync().unwrap();
    change(&mut partition, &table, 100);
    let folder = crash_in_a_sync(&folder, partition);
    drop(segments);
    let (_segments, mut partition) = open(&folder.pool(), 8);
    for round in 0..100 {
        update(&mut partition, &table, 59, Change::new(2, &*format!("{round}")));
        partition.sync().unwrap();
    }
    assert_eq!((left(&partition), partition.method().commits.gaps.len()), (0, 0));
    assert_eq!(partition.verify().unwrap(), 60);
}

#[test]
fn a_damaged_record_or_head_is_named() {
    let (_folder, _segments, mut partition, table) = create(64 << 20, 1200);
    insert(&mut partition, &table, 0..5, "salt").unwrap();
    partition.sync().unwrap();
    let method = partition.method_mut();
    let word = {
        let state = method.shared.state.read();
        let tree = method.tree(table.primary()).unwrap();
        tree.get(&state.heap, &key(&table, 3)).unwrap().unwrap()
    };
    let head = NvPtr::<head::Head>::from_word(word);
    for at in 0..head::LEN {
        let mut state = method.shared.state.write();
        let before = state.heap.read_at(head, at, 1).unwrap()[0];
        state.heap.write(head, at, &[before ^ 4]).unwrap();
        assert!(head::Versions::read(&state.heap, head).is_err(), "{at}");
        state.heap.write(head, at, &[before]).unwrap();
    }
    let found = method.get(&table, &key(&table, 3)).unwrap();
    assert_eq!(found, Some(row(&table, 3, Some(21), "salt")));
    assert!(record::Commits::damage_is_named(&mut method.shared.state.write().heap));
}
