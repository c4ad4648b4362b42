//! Features that not every engine has: the registry names those that do, and the others refuse.

use std::ops::ControlFlow;

use halite::{
    Arrangement, Database, Durability, Error, Feature, LeafState, Position, TreePart, engine_with,
    engines,
};

const ALL: [Feature; 6] = [
    Feature::Objects,
    Feature::Pool,
    Feature::Datasets,
    Feature::Transfers,
    Feature::Tiers,
    Feature::Trees,
];

/// The error of a call of a feature, if there is one.
fn call(db: &Database, feature: Feature) -> Option<Error> {
    let space = db.key_space("fruit").unwrap();
    match feature {
        Feature::Objects => db.object_stores().err(),
        Feature::Pool => db.pool_status().err(),
        Feature::Datasets => space.kept_snapshots().err(),
        Feature::Transfers => db.receive_token("fruit").err(),
        Feature::Tiers => space.preference().err(),
        Feature::Trees => space.visit_tree(None, &mut |_| ControlFlow::Continue(())).err(),
    }
}

#[test]
fn an_engine_has_the_features_that_its_row_in_the_registry_names() {
    for engine in engines() {
        let db = Database::builder().engine(engine.name).max_size(64 << 20).in_memory().unwrap();
        assert_eq!(
            engine.devices.is_some(),
            engine.offers.contains(&Feature::Pool),
            "{}",
            engine.name
        );
        for feature in ALL {
            match call(&db, feature) {
                None => assert!(engine.offers.contains(&feature), "{}: {feature}", engine.name),
                Some(Error::Lacks { engine: name, feature: lacks, having }) => {
                    assert_eq!((name, lacks), (engine.name, feature));
                    assert!(!engine.offers.contains(&feature), "{name}: {feature}");
                    assert_eq!(
                        having.first().copied(),
                        engine_with(feature).map(|engine| engine.name)
                    );
                }
                Some(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_new_database_is_made_by_an_engine_that_has_what_it_needs() {
    for feature in ALL {
        let db = Database::builder().needs(feature).max_size(64 << 20).in_memory().unwrap();
        assert!(call(&db, feature).is_none(), "{feature}");
    }
}

#[test]
fn objects_and_snapshots_are_there_when_the_database_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let open = || Database::builder().needs(Feature::Objects).open(&path).unwrap();
    let object = {
        let db = open();
        let store = db.objects("photos").unwrap();
        let object = store.with_durability(Durability::Deferred).create("a").unwrap();
        object.write_at(3, b"bytes").unwrap();
        object.set_metadata("key", "value").unwrap();
        store.sync().unwrap();
        let fruit = db.key_space("fruit").unwrap();
        fruit.put("apple", "green").unwrap();
        fruit.keep_snapshot("s").unwrap();
        fruit.delete("apple").unwrap();
        object
    };
    // A handle keeps the database open.
    assert_eq!(object.info().unwrap().size, 8);
    drop(object);
    let db = open();
    assert_eq!(db.object_stores().unwrap(), ["photos"]);
    assert!(db.find_objects("other").unwrap().is_none());
    let store = db.find_objects("photos").unwrap().unwrap();
    let object = store.open("a").unwrap();
    let mut read = [9; 10];
    assert_eq!(object.read_at(0, &mut read).unwrap(), 8);
    assert_eq!(read, *b"\0\0\0bytes\x09\x09");
    assert_eq!(object.list_metadata().unwrap()[0].0, b"key");
    let fruit = db.key_space("fruit").unwrap();
    let kept = fruit.kept_snapshot("s").unwrap();
    assert_eq!((kept.len().unwrap(), fruit.len().unwrap()), (1, 0));
    db.drop_objects("photos").unwrap();
    assert!(db.objects("photos").unwrap().iter("").unwrap().next().is_none());
}

#[test]
fn a_database_lies_on_the_devices_of_its_topology() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a", "b", "c"].map(|name| folder.path().join(name).display().to_string());
    let topology = format!("parity1 {}", files.join(" "));
    let builder = Database::builder().topology(topology.parse().unwrap());
    let db = builder.open(folder.path().join("data")).unwrap();
    let at = Position { class: 0, vdev: 0, leaf: 2 };
    db.set_offline(at).unwrap();
    let fruit = db.key_space("fruit").unwrap();
    fruit.put("apple", "green").unwrap();
    let vdev = &db.pool_status().unwrap().classes[0].vdevs[0];
    assert_eq!((vdev.arrangement, vdev.is_degraded), (Arrangement::Parity(1), true));
    assert_eq!(vdev.leaves[2].status.state, LeafState::Offline);
    assert!(db.set_offline(Position { leaf: 9, ..at }).is_err());
    let mut nodes = 0;
    fruit
        .visit_tree(None, &mut |part| {
            nodes += usize::from(matches!(part, TreePart::Node { .. }));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(nodes, 1);
}
