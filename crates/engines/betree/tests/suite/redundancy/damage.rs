//! Damaged bytes: of one replica, which are repaired, and of all, which is told.

use std::collections::BTreeSet;

use halite_contract::Engine;

use super::bench::{ARRANGEMENTS, BLOCK, Bench, LABELS, name, on, space, vdev};

#[test]
fn damage_of_one_leaf_is_never_read_and_is_repaired() {
    for (arrangement, leaves, redundancy) in ARRANGEMENTS {
        for scrub_first in [false, true] {
            let mut bench = Bench::new(&vdev(arrangement, leaves));
            let engine = bench.open();
            bench.write(&engine, 2000);
            drop(engine);
            let mut random = fastrand::Rng::with_seed(11);
            let before = bench.bytes(&name(0));
            let blocks = bench.blocks(&name(0));
            let damaged: BTreeSet<u64> = (0..blocks / 50).map(|_| random.u64(0..blocks)).collect();
            damaged.iter().for_each(|block| bench.damage(&name(0), *block));
            let engine = bench.open();
            if !scrub_first {
                bench.check(&engine);
            }
            let report = engine.scrub(&mut on).unwrap();
            assert!(report.is_complete && report.lost == 0, "{report:?}");
            assert_eq!(report.damaged, report.repaired);
            assert!(!scrub_first || report.repaired > 0, "{} blocks were damaged", damaged.len());
            bench.check(&engine);
            let again = engine.scrub(&mut on).unwrap();
            assert_eq!((again.damaged, again.lost), (0, 0));
            let status = engine.pool_status();
            let leaf = |leaf: usize| status.classes[0].vdevs[0].leaves[leaf].status.stats;
            assert!(!scrub_first || leaf(0).repaired >= report.repaired);
            assert!((1..leaves).all(|other| leaf(other).repaired == 0));
            drop(engine);
            // Blocks that were in use are as they were, unless they were written since; and the other leaves can be lost.
            let after = bench.bytes(&name(0));
            let restored = damaged.iter().filter(|block| {
                let at = (LABELS + *block * BLOCK as u64) as usize;
                after[at..at + BLOCK] == before[at..at + BLOCK]
            });
            assert!(restored.count() > 0);
            (1..=redundancy).for_each(|leaf| drop(bench.take(&name(leaf))));
            bench.check(&bench.open());
        }
    }
}

/// The blocks of a leaf in which bytes end: also those of earlier copies, in space that is free now.
fn blocks_of(bench: &Bench, leaf: &str, bytes: &[u8]) -> BTreeSet<u64> {
    let all = bench.bytes(leaf);
    let windows = all[LABELS as usize..].windows(bytes.len()).enumerate();
    let found = windows.filter(|(_, window)| *window == bytes);
    found.map(|(at, _)| (at + bytes.len() - 1) as u64 / BLOCK as u64).collect()
}

#[test]
fn damage_of_both_sides_is_an_error_of_exactly_the_keys_that_it_has_and_the_report_names_them() {
    let mut bench = Bench::new(&vdev("mirror", 2));
    let engine = bench.open();
    bench.write(&engine, 2500);
    drop(engine);
    let large = bench.model.iter().find(|(_, value)| value.len() > 20_000).unwrap();
    let small = bench
        .model
        .iter()
        .filter(|(_, value)| value.len() > 500 && value.len() < 5000)
        .nth(40)
        .unwrap();
    let (large, small) = ((large.0.clone(), large.1.clone()), (small.0.clone(), small.1.clone()));
    for (key, value) in [&large, &small] {
        let blocks = blocks_of(&bench, &name(0), &value[value.len() - 200..]);
        let saved = bench.image();
        for leaf in [0, 1] {
            blocks.iter().for_each(|block| bench.damage(&name(leaf), *block));
        }
        let engine = bench.open();
        let lost = bench.unreadable(&engine);
        assert!(lost.contains(key) && lost.len() < 60, "{} keys", lost.len());
        assert!(value.len() < 20_000 || lost.len() == 1);
        let report = engine.scrub(&mut on).unwrap();
        assert!(report.is_complete && report.damaged == 0 && report.lost > 0, "{report:?}");
        for error in &report.errors {
            assert_eq!(error.dataset.as_deref(), Some("data"));
        }
        let is_told = |key: &Vec<u8>| {
            let mut errors = report.errors.iter();
            errors.any(|error| error.keys.as_ref().is_some_and(|keys| keys.contains(key)))
        };
        assert!(lost.iter().all(is_told), "{report:?}");
        let space = space(&engine);
        assert!(engine.get(space, key).is_err());
        assert_eq!(engine.pool_status().scrub.unwrap().errors, report.errors);
        drop(engine);
        bench.restore(&saved);
    }
}

#[test]
fn devices_that_are_all_older_than_the_pool_are_refused() {
    let mut bench = Bench::new(&vdev("mirror", 2));
    let engine = bench.open();
    bench.write(&engine, 100);
    drop(engine);
    let saved = [bench.bytes(&name(0)), bench.bytes(&name(1))];
    let engine = bench.open();
    bench.write(&engine, 100);
    drop(engine);
    saved.iter().enumerate().for_each(|(leaf, bytes)| bench.put(&name(leaf), bytes));
    let error = bench.try_open().err().unwrap().to_string();
    assert!(error.contains("generation"), "{error}");
}

#[test]
fn a_damaged_superblock_of_one_leaf_is_made_good_by_the_other_and_of_both_is_told() {
    let slot = 8192;
    let newest = |bytes: &[u8]| {
        let generation = |slot: &[u8]| u64::from_le_bytes(slot[64..72].try_into().unwrap());
        (0..32).max_by_key(|at| generation(&bytes[at * slot..][..slot])).unwrap()
    };
    let mut bench = Bench::new(&vdev("mirror", 2));
    let engine = bench.open();
    bench.write(&engine, 500);
    drop(engine);
    let spoil = |bench: &Bench, leaf: usize, slots: &[usize]| {
        let mut bytes = bench.bytes(&name(leaf));
        slots.iter().for_each(|at| bytes[at * slot + 100] ^= 1);
        bench.put(&name(leaf), &bytes);
    };
    let at = newest(&bench.bytes(&name(0)));
    spoil(&bench, 0, &[at]);
    let engine = bench.open();
    bench.check(&engine);
    assert!(super::bench::is_whole(&engine));
    bench.write(&engine, 50);
    drop(engine);
    // All slots of one leaf: it is not believed to be the leaf.
    let whole = bench.bytes(&name(1));
    spoil(&bench, 1, &(0..32).collect::<Vec<_>>());
    let engine = bench.open();
    bench.check(&engine);
    assert!(!super::bench::is_whole(&engine));
    drop(engine);
    bench.put(&name(1), &whole);
    let engine = bench.open();
    super::bench::resilver(&engine);
    drop(engine);
    let at = newest(&bench.bytes(&name(0)));
    [0, 1].into_iter().for_each(|leaf| spoil(&bench, leaf, &[at]));
    let error = bench.try_open().err().unwrap().to_string();
    assert!(error.contains("generation"), "{error}");
}

#[test]
fn a_single_device_is_scrubbed_too_and_what_is_lost_is_told() {
    let mut bench = Bench::new("file:leaf-0@256M");
    let engine = bench.open();
    bench.write(&engine, 1500);
    let report = engine.scrub(&mut on).unwrap();
    assert!(report.is_complete && report.damaged == 0 && report.extents > 20);
    drop(engine);
    let (key, value) = bench.model.iter().find(|(_, value)| value.len() > 20_000).unwrap();
    for block in blocks_of(&bench, "leaf-0", &value[value.len() - 200..]) {
        bench.damage("leaf-0", block);
    }
    let engine = bench.open();
    assert_eq!(bench.unreadable(&engine), std::slice::from_ref(key));
    let report = engine.scrub(&mut on).unwrap();
    assert_eq!((report.is_complete, report.lost, report.errors.len()), (true, 1, 1));
}
