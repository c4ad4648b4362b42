//! Devices that are lost, before the pool is opened or while it is open, and come back.

use std::ops::ControlFlow;

use halite_betree::{Betree, BetreeOptions, LeafPlace, LeafState, Position};
use halite_contract::{Durability, Engine, EngineOptions, Op};
use halite_sim::Failures;

use super::bench::{
    ARRANGEMENTS, Bench, is_whole, name, on, position, resilver, space, states, subsets, vdev,
};

/// Extents that a pass reads ahead at most, with those of the runs among them.
const AHEAD: u64 = 100;

/// Other leaves than these, as many as may be lost.
fn others(lost: &[usize], leaves: usize, redundancy: usize) -> Vec<usize> {
    (0..leaves)
        .filter(|leaf| !lost.contains(leaf))
        .chain(lost.iter().copied())
        .take(redundancy)
        .collect()
}

#[test]
fn every_allowed_loss_before_opening_loses_nothing_and_a_resilver_makes_it_good() {
    for (arrangement, leaves, redundancy) in ARRANGEMENTS {
        for lost in subsets(leaves, redundancy) {
            let mut bench = Bench::new(&vdev(arrangement, leaves));
            let engine = bench.open();
            bench.write(&engine, 400);
            drop(engine);
            let taken: Vec<_> = lost.iter().map(|leaf| bench.take(&name(*leaf))).collect();

            let engine = bench.open();
            let damage = engine.stats().recovery.damage;
            assert_eq!(damage.len(), lost.len(), "{damage:?}");
            for leaf in &lost {
                assert!(damage.iter().any(|damage| damage.what.contains(&name(*leaf))));
                assert_eq!(states(&engine)[*leaf], (LeafState::Missing, true));
            }
            bench.check(&engine);
            bench.write(&engine, 400);
            drop(engine);
            for (leaf, bytes) in lost.iter().zip(&taken) {
                bench.put(&name(*leaf), bytes);
            }

            // They are not believed.
            let engine = bench.open();
            for leaf in &lost {
                assert_eq!(states(&engine)[*leaf], (LeafState::Online, true));
            }
            bench.check(&engine);
            bench.write(&engine, 100);
            assert!(resilver(&engine).repaired > 0);
            assert!(is_whole(&engine));
            drop(engine);

            let then = others(&lost, leaves, redundancy);
            then.iter().for_each(|leaf| drop(bench.take(&name(*leaf))));
            let engine = bench.open();
            bench.check(&engine);
        }
    }
}

#[test]
fn one_leaf_more_than_allowed_is_refused_by_name() {
    for (arrangement, leaves, redundancy) in ARRANGEMENTS {
        let mut bench = Bench::new(&vdev(arrangement, leaves));
        let engine = bench.open();
        bench.write(&engine, 50);
        drop(engine);
        let taken: Vec<_> = (0..=redundancy).map(|leaf| bench.take(&name(leaf))).collect();
        let error = bench.try_open().err().unwrap().to_string();
        assert!(error.contains(&name(redundancy)), "{error}");
        bench.put(&name(redundancy), &taken[redundancy]);
        bench.check(&bench.open());
    }
}

#[test]
fn every_allowed_loss_while_open_loses_nothing_and_a_resilver_makes_it_good() {
    for (arrangement, leaves, redundancy) in ARRANGEMENTS {
        for lost in subsets(leaves, redundancy) {
            let mut bench = Bench::new(&vdev(arrangement, leaves));
            let engine = bench.open();
            bench.write(&engine, 300);
            for leaf in &lost {
                engine.set_offline(position(*leaf)).unwrap();
            }
            bench.write(&engine, 300);
            bench.check(&engine);
            if lost.len() == redundancy {
                let one = others(&lost, leaves, redundancy)[0];
                assert!(engine.set_offline(position(one)).is_err(), "the others lack data");
            }
            drop(engine);
            // It is remembered.
            let engine = bench.open();
            for leaf in &lost {
                assert_eq!(states(&engine)[*leaf], (LeafState::Offline, true));
                engine.set_online(position(*leaf)).unwrap();
            }
            bench.write(&engine, 100);
            bench.check(&engine);
            resilver(&engine);
            for leaf in others(&lost, leaves, redundancy) {
                engine.set_offline(position(leaf)).unwrap();
            }
            bench.check(&engine);
        }
    }
}

#[test]
fn a_crash_before_a_checkpoint_does_not_make_a_leaf_trusted_that_missed_a_large_value() {
    let mut bench = Bench::new(&vdev("mirror", 2));
    let engine = bench.open();
    bench.write(&engine, 50);
    drop(engine);
    let engine = bench.open();
    engine.set_offline(position(1)).unwrap();
    let (key, value) = (b"large".to_vec(), vec![5; 50_000]);
    let put = Op::Put { space: space(&engine), key: &key, value: &value };
    engine.write(&[put], Durability::Immediate).unwrap();
    bench.model.insert(key, value);
    // The process is killed.
    let image = bench.image();
    drop(engine);
    bench.restore(&image);

    let engine = bench.open();
    assert_eq!(states(&engine)[1], (LeafState::Offline, true));
    engine.set_online(position(1)).unwrap();
    bench.check(&engine);
    resilver(&engine);
    engine.set_offline(position(0)).unwrap();
    bench.check(&engine);
}

#[test]
fn an_interrupted_resilver_goes_on_where_it_was_also_behind_a_reopening() {
    for (arrangement, leaves, _) in ARRANGEMENTS {
        let mut bench = Bench::new(&vdev(arrangement, leaves));
        let engine = bench.open();
        bench.write(&engine, 1500);
        engine.set_offline(position(0)).unwrap();
        bench.write(&engine, 1500);
        engine.set_online(position(0)).unwrap();
        let mut extents = 0;
        let part = engine.resilver(&mut |_, _| {
            extents += 1;
            if extents < 60 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let part = part.unwrap();
        // The extents that were read ahead are done.
        assert!(!part.is_complete && (60..60 + AHEAD).contains(&part.extents));
        assert_eq!(states(&engine)[0], (LeafState::Online, true));
        drop(engine);
        let engine = bench.open();
        assert_eq!(engine.pool_status().resilver.map(|last| last.extents), Some(part.extents));
        bench.write(&engine, 200);
        let mut more = 0;
        let whole = engine.resilver(&mut |done, all| {
            more += 1;
            assert!(done <= all);
            ControlFlow::Continue(())
        });
        let whole = whole.unwrap();
        assert!(whole.is_complete && whole.extents == part.extents + more);
        assert!(is_whole(&engine));
        // A scrub of all reads more than the rest was: something was not read again.
        let all = engine.scrub(&mut on).unwrap();
        assert!(all.is_complete && all.damaged == 0, "{all:?}");
        assert!(all.extents > more, "{} and {more}", all.extents);
        engine.set_offline(position(1)).unwrap();
        bench.check(&engine);
    }
}

#[test]
fn a_leaf_that_leaves_again_during_a_resilver_stays_stale() {
    let mut bench = Bench::new(&vdev("mirror", 2));
    let engine = bench.open();
    bench.write(&engine, 300);
    engine.set_offline(position(1)).unwrap();
    bench.write(&engine, 300);
    engine.set_online(position(1)).unwrap();
    let mut extents = 0;
    let report = engine.resilver(&mut |_, _| {
        extents += 1;
        if extents == 20 {
            engine.set_offline(position(1)).unwrap();
            bench.write(&engine, 100);
            engine.set_online(position(1)).unwrap();
        }
        ControlFlow::Continue(())
    });
    assert!(!report.unwrap().is_complete);
    assert_eq!(states(&engine)[1], (LeafState::Online, true));
    resilver(&engine);
    engine.set_offline(position(0)).unwrap();
    bench.check(&engine);
}

#[test]
fn a_replaced_leaf_has_everything_behind_a_resilver() {
    for (arrangement, leaves, redundancy) in ARRANGEMENTS {
        let mut bench = Bench::new(&vdev(arrangement, leaves));
        let engine = bench.open();
        bench.write(&engine, 500);
        drop(engine);
        bench.take(&name(0));
        let engine = bench.open();
        let new = LeafPlace::File { path: "new".into(), size: Some(256 << 20) };
        assert!(
            engine
                .replace(position(0), &LeafPlace::File { path: name(1), size: Some(256 << 20) })
                .is_err()
        );
        engine.replace(position(0), &new).unwrap();
        assert!(engine.replace(Position { leaf: 9, ..position(0) }, &new).is_err());
        bench.write(&engine, 100);
        drop(engine);
        // The new place is known.
        bench.topology = vdev(arrangement, leaves);
        let engine = bench.open();
        assert_eq!(engine.pool_status().classes[0].vdevs[0].leaves[0].place, new);
        resilver(&engine);
        assert!(is_whole(&engine));
        drop(engine);
        (1..=redundancy).for_each(|leaf| drop(bench.take(&name(leaf))));
        bench.check(&bench.open());
    }
}

/// Each call to the kernel fails once, in turn: of a leaf, that degrades the pool; of the log, that is an error. What
/// was acknowledged is there afterwards, with either leaf alone.
#[test]
fn a_call_that_fails_while_open_loses_nothing_that_was_acknowledged() {
    let mut degraded = 0;
    for after in (0..110).step_by(7) {
        // In memory, where a sync takes no time, and the log is in the pool.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let failures = Failures::default();
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.pool_options.failures = Some(failures.clone());
        options.own = BetreeOptions {
            topology: Some("mirror file:a@64M file:b@64M".parse().unwrap()),
            memtable_bytes: Some(4 << 10),
            large_value_bytes: Some(2 << 10),
            checkpoint_bytes: Some(16 << 10),
            ..BetreeOptions::default()
        }
        .into();
        let engine = Betree::open(&options).unwrap();
        let space = space(&engine);
        failures.fail(after, 1, 5);
        let mut model = std::collections::BTreeMap::new();
        for number in 0..24_u32 {
            let (key, len) =
                (number.to_be_bytes().to_vec(), if number % 5 == 0 { 500 } else { 3000 });
            let value = vec![number as u8; len];
            let put = Op::Put { space, key: &key, value: &value };
            if engine.write(&[put], Durability::Immediate).is_ok() {
                model.insert(key, value);
            }
        }
        let is_degraded = engine.pool_status().classes[0].vdevs[0].is_degraded;
        degraded += u32::from(is_degraded);
        drop(engine);
        failures.stop();
        let check = |engine: &Betree| {
            for (key, value) in &model {
                assert_eq!(
                    engine.get(space, key).unwrap().as_deref(),
                    Some(&value[..]),
                    "after {after}"
                );
            }
        };
        let engine = Betree::open(&options).unwrap();
        check(&engine);
        resilver(&engine);
        assert!(is_whole(&engine));
        for leaf in [0, 1] {
            engine.set_offline(position(leaf)).unwrap();
            check(&engine);
            engine.set_online(position(leaf)).unwrap();
            resilver(&engine);
        }
    }
    assert!(degraded > 2, "{degraded} failures were of a leaf");
}
