//! Devices at other places than before, of other pools, and of other histories.

use std::fs;
use std::path::Path;

use halite_betree::{Betree, BetreeOptions, LeafState, Topology};
use halite_contract::{Durability, Engine, EngineOptions, Op};

use super::bench::{Bench, is_whole, name, resilver, space, states, vdev};

#[test]
fn swapped_files_are_told_apart_by_their_labels() {
    for (arrangement, leaves) in [("mirror", 2), ("parity1", 3)] {
        let mut bench = Bench::new(&vdev(arrangement, leaves));
        let engine = bench.open();
        bench.write(&engine, 500);
        drop(engine);
        let (a, b) = (bench.take(&name(0)), bench.take(&name(1)));
        bench.put(&name(0), &b);
        bench.put(&name(1), &a);
        let engine = bench.open();
        bench.check(&engine);
        assert!(is_whole(&engine));
        bench.write(&engine, 100);
        let report = engine.scrub(&mut super::bench::on).unwrap();
        assert_eq!((report.damaged, report.lost), (0, 0));
        drop(engine);
        bench.check(&bench.open());
    }
}

#[test]
fn a_device_of_another_pool_is_not_used_and_not_changed() {
    let mut other = Bench::new(&vdev("mirror", 2));
    let engine = other.open();
    other.write(&engine, 100);
    drop(engine);
    let foreign = other.bytes(&name(0));
    let mut bench = Bench::new(&vdev("mirror", 2));
    let engine = bench.open();
    bench.write(&engine, 100);
    drop(engine);
    bench.put(&name(1), &foreign);
    let engine = bench.open();
    assert!(
        engine.stats().recovery.damage.iter().any(|damage| damage.why.contains("another store"))
    );
    assert_eq!(states(&engine)[1].0, LeafState::Missing);
    bench.write(&engine, 100);
    bench.check(&engine);
    assert!(engine.set_online(super::bench::position(1)).is_err());
    drop(engine);
    assert!(bench.bytes(&name(1)) == foreign);
    let only_foreign = Bench::new(&vdev("mirror", 2));
    drop(only_foreign.open());
    [0, 1].into_iter().for_each(|leaf| only_foreign.put(&name(leaf), &foreign));
    assert!(only_foreign.try_open().is_err());
}

#[test]
fn a_mirror_that_went_its_own_way_is_not_used() {
    let mut bench = Bench::new(&vdev("mirror", 2));
    let engine = bench.open();
    bench.write(&engine, 300);
    drop(engine);
    // The other world has a copy of everything, and only leaf 1.
    let mut twin = Bench::new(&vdev("mirror", 2));
    for (name, _) in bench.disk.list().unwrap() {
        twin.put(&name, &bench.bytes(&name));
    }
    fs::copy(bench.folder.path().join("pool"), twin.folder.path().join("pool")).unwrap();
    twin.model.clone_from(&bench.model);
    twin.take(&name(0));
    let engine = twin.open();
    (0..3).for_each(|_| twin.write(&engine, 200));
    drop(engine);
    let returned = bench.take(&name(1));
    let engine = bench.open();
    bench.write(&engine, 50);
    drop(engine);
    bench.put(&name(1), &twin.bytes(&name(1)));
    // It is newer, and yet the other one has what was written with this pool.
    let engine = bench.open();
    bench.check(&engine);
    assert_eq!(states(&engine)[1].0, LeafState::Missing);
    let damage = engine.stats().recovery.damage;
    assert!(damage.iter().any(|damage| damage.why.contains("without the others")), "{damage:?}");
    drop(engine);
    bench.put(&name(1), &returned);
    let engine = bench.open();
    resilver(&engine);
    bench.check(&engine);
}

/// Options of a store with devices in folders.
fn options(folder: &Path, topology: Option<Topology>, search: &[&str]) -> EngineOptions {
    let mut options = EngineOptions::new(folder.join("pool"));
    let search = search.iter().map(|name| folder.join(name)).collect();
    options.own = BetreeOptions { topology, search, ..BetreeOptions::default() }.into();
    options
}

#[test]
fn moved_devices_are_found_by_their_labels_in_the_folders_that_are_searched() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    ["one", "two", "three"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    let topology =
        format!("mirror {0}/one/a@64M {0}/two/a@64M", folder.path().display()).parse().unwrap();
    let engine = Betree::open(&options(folder.path(), Some(topology), &[])).unwrap();
    let data = space(&engine);
    engine
        .write(&[Op::Put { space: data, key: b"k", value: &[1; 100_000] }], Durability::Immediate)
        .unwrap();
    drop(engine);
    // It opens without being told where its devices are, and from anywhere.
    drop(Betree::open(&options(folder.path(), None, &[])).unwrap());
    fs::rename(at("one/a"), at("three/b")).unwrap();
    fs::rename(at("two/a"), at("three/c")).unwrap();
    fs::write(at("three/stranger"), vec![7; 1 << 20]).unwrap();
    assert!(Betree::open(&options(folder.path(), None, &[])).is_err());
    let engine = Betree::open(&options(folder.path(), None, &["three"])).unwrap();
    assert!(is_whole(&engine));
    drop(engine);
    assert_eq!(fs::read(at("three/stranger")).unwrap(), vec![7; 1 << 20]);
    // The new places are known.
    let engine = Betree::open(&options(folder.path(), None, &[])).unwrap();
    assert!(is_whole(&engine));
    assert_eq!(engine.get(data, b"k").unwrap().unwrap()[..], [1; 100_000]);
}

#[test]
fn pools_are_devices_too() {
    let folder = tempfile::tempdir().unwrap();
    let topology = format!("mirror pmem:{0}/leaf file:f ; pmem:", folder.path().display());
    let mut options = options(folder.path(), Some(topology.parse().unwrap()), &[]);
    options.pool_options.size_max = 64 << 20;
    let engine = Betree::open(&options).unwrap();
    let data = space(&engine);
    engine
        .write(&[Op::Put { space: data, key: b"k", value: &[1; 100_000] }], Durability::Immediate)
        .unwrap();
    drop(engine);
    let engine = Betree::open(&options).unwrap();
    assert!(is_whole(&engine));
    assert_eq!(engine.get(data, b"k").unwrap().unwrap()[..], [1; 100_000]);
    drop(engine);
    fs::remove_file(folder.path().join("leaf")).unwrap();
    let engine = Betree::open(&options).unwrap();
    assert!(!is_whole(&engine));
    assert_eq!(engine.get(data, b"k").unwrap().unwrap()[..], [1; 100_000]);
}

#[test]
fn a_shorter_device_is_not_believed() {
    let mut bench = Bench::new(&vdev("mirror", 2));
    let engine = bench.open();
    bench.write(&engine, 1500);
    drop(engine);
    let bytes = bench.take(&name(1));
    bench.put(&name(1), &bytes[..super::bench::LABELS as usize + 40 * 4096]);
    let engine = bench.open();
    assert_eq!(states(&engine)[1], (LeafState::Online, true));
    assert!(engine.stats().recovery.damage[0].why.contains("fewer"));
    bench.check(&engine);
    resilver(&engine);
    drop(engine);
    bench.take(&name(0));
    bench.check(&bench.open());

    let mut single = Bench::new("file:leaf-0@256M");
    let engine = single.open();
    single.write(&engine, 500);
    drop(engine);
    let bytes = single.take(&name(0));
    single.put(&name(0), &bytes[..super::bench::LABELS as usize + 4096]);
    let error = single.try_open().err().unwrap().to_string();
    assert!(error.contains("fewer"), "{error}");
}

#[test]
fn devices_that_cannot_be_are_refused_before_there_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let topology = |text: &str| Some(text.parse().unwrap());
    let refused = |text: &str, why: &str| {
        let error =
            Betree::open(&options(folder.path(), topology(text), &[])).err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
        assert!(!folder.path().join("pool").exists());
    };
    refused("memory:64M", "does not outlive");
    fs::write(folder.path().join("there"), b"precious").unwrap();
    refused(
        &format!("mirror file:a {}/there", folder.path().display()),
        "there is something already",
    );
    refused(&format!("mirror file:a {}/no/such/folder", folder.path().display()), "cannot be used");
    assert_eq!(fs::read(folder.path().join("there")).unwrap(), b"precious");
    let mut in_memory = options(folder.path(), topology("mirror memory:64M memory:64M"), &[]);
    in_memory.pool_options.in_memory = true;
    let engine = Betree::open(&in_memory).unwrap();
    let data = space(&engine);
    engine
        .write(&[Op::Put { space: data, key: b"k", value: b"v" }], Durability::Immediate)
        .unwrap();
    assert!(is_whole(&engine));
}
