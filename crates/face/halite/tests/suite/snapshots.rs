//! Named snapshots through the public face.

use halite::{Database, Error, Partitioning};

#[test]
fn named_snapshots_keep_their_time_until_they_are_dropped_or_the_store_closes() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::builder().partitioning(Partitioning::Hash(2)).open(folder.path());
    let db = open().unwrap();
    let space = db.key_space("fruit").unwrap();
    space.put("apple", "green").unwrap();
    let before = db.create_snapshot("before").unwrap();
    space.put("apple", "red").unwrap();
    space.put("pear", "green").unwrap();
    db.create_snapshot("middle").unwrap();
    db.drop_key_space(&space).unwrap();

    assert_eq!(db.snapshots(), ["before", "middle"]);
    let fruit = |name: &str| db.snapshot(name).unwrap().find_key_space("fruit").unwrap();
    assert_eq!(fruit("before").get("apple").unwrap().as_deref(), Some(&b"green"[..]));
    assert_eq!(fruit("before").len().unwrap(), 1);
    let pairs = fruit("middle").iter_rev().unwrap().map(|pair| {
        let (key, value) = pair.unwrap();
        (key.to_vec(), value.to_vec())
    });
    let expected = [("pear", "green"), ("apple", "red")];
    assert!(pairs.eq(expected.map(|(key, value)| (key.into(), value.into()))));
    assert!(db.take_snapshot().unwrap().find_key_space("fruit").is_none());

    assert!(matches!(db.create_snapshot("before"), Err(Error::SnapshotExists { .. })));
    db.drop_snapshot("before").unwrap();
    assert!(matches!(db.snapshot("before"), Err(Error::NoSuchSnapshot { .. })));
    assert!(matches!(db.drop_snapshot("before"), Err(Error::NoSuchSnapshot { .. })));
    let apple = before.find_key_space("fruit").unwrap().get("apple").unwrap();
    assert_eq!(apple.as_deref(), Some(&b"green"[..]), "who has it keeps it");

    drop((apple, before, space, db));
    let db = open().unwrap();
    assert!(db.snapshots().is_empty(), "snapshots are volatile");
}
