//! The promises of mirrors and parity, with faults on their leaves.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;

use crate::faulty::Faulty;
use crate::{Arrangement, BLOCK, Error, Extent, Leaf, LeafState, ScrubMemory, Vdev};

/// Bytes that tell an extent from others.
fn contents(extent: Extent, version: u8) -> Vec<u8> {
    let byte = |at: usize| (at as u64 * 31 + at as u64 / 251 + extent.block * 7) as u8 ^ version;
    (0..extent.byte_len()).map(byte).collect()
}

fn read(vdev: &Vdev, extent: Extent, version: u8) -> crate::Result<Vec<u8>> {
    let (mut to, right) = (vec![0; extent.byte_len()], contents(extent, version));
    vdev.read(extent, 0, &mut to, &|bytes| bytes == right).map(|()| to)
}

const ALL: [(Arrangement, usize); 7] = [
    (Arrangement::Single, 1),
    (Arrangement::Mirror, 2),
    (Arrangement::Mirror, 3),
    (Arrangement::Parity(1), 3),
    (Arrangement::Parity(1), 5),
    (Arrangement::Parity(2), 5),
    (Arrangement::Parity(3), 7),
];

fn redundancy(arrangement: Arrangement, leaves: usize) -> usize {
    match arrangement {
        Arrangement::Single => 0,
        Arrangement::Mirror => leaves - 1,
        Arrangement::Parity(parity) => parity.into(),
    }
}

/// Extents that fill the address space without a hole, of all lengths.
fn extents(vdev: &Vdev, seed: u64) -> Vec<Extent> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut extents, mut block) = (Vec::new(), 0);
    while block < vdev.blocks().min(2048) {
        let most = if random.u8(..) < 200 { 16 } else { vdev.data_blocks_max() };
        let blocks = random.u32(1..=most);
        let taken = u64::from(vdev.actual_blocks(blocks));
        if block / 512 == (block + taken - 1) / 512 {
            extents.push(Extent { block, blocks });
            block += taken;
        } else {
            block = (block / 512 + 1) * 512;
        }
    }
    extents
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn every_extent_reads_with_any_leaves_lost_that_may_be(which in 0..ALL.len(), seed in any::<u64>()) {
        let (arrangement, count) = ALL[which];
        let (leaves, vdev) = Faulty::vdev(arrangement, count, 1500);
        let extents = extents(&vdev, seed);
        for &extent in &extents {
            vdev.write(extent, &contents(extent, 0)).unwrap();
        }
        vdev.sync().unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let lost = random.choose_multiple(0..count, redundancy(arrangement, count));
        for &lost in &lost {
            leaves[lost].fails_reads.store(true, Relaxed);
        }
        for &extent in &extents {
            prop_assert!(read(&vdev, extent, 0).is_ok());
            let at = random.usize(..extent.byte_len());
            let len = random.usize(1..=extent.byte_len() - at);
            let (mut to, right) = (vec![0; len], contents(extent, 0));
            vdev.read(extent, at, &mut to, &|bytes| *bytes == right[at..at + len]).unwrap();
            prop_assert!(to == right[at..at + len]);
        }
    }

    #[test]
    fn damage_that_no_leaf_admits_is_found_and_repaired(which in 1..ALL.len(), seed in any::<u64>()) {
        let (arrangement, count) = ALL[which];
        let (leaves, vdev) = Faulty::vdev(arrangement, count, 1500);
        let extents = extents(&vdev, seed);
        for &extent in &extents {
            vdev.write(extent, &contents(extent, 0)).unwrap();
        }
        let before: Vec<Vec<Vec<u8>>> = leaves
            .iter()
            .map(|leaf| (0..leaf.blocks()).map(|block| leaf.block(block)).collect())
            .collect();
        let mut random = fastrand::Rng::with_seed(seed);
        let damaged = random.choose_multiple(0..count, redundancy(arrangement, count));
        for &leaf in &damaged {
            (0..leaves[leaf].blocks()).for_each(|block| leaves[leaf].damage(block));
        }
        for &extent in &extents {
            // Reads of parts are right, and change nothing that was right before.
            let at = random.usize(..extent.byte_len());
            let len = random.usize(1..=extent.byte_len() - at);
            let (mut to, right) = (vec![0; len], contents(extent, 0));
            vdev.read(extent, at, &mut to, &|bytes| *bytes == right[at..at + len]).unwrap();
            prop_assert!(to == right[at..at + len]);
        }
        for (leaf, before) in leaves.iter().zip(&before) {
            for (block, before) in (0..).zip(before) {
                let now = leaf.block(block);
                let wrong = |(now, before): (&u8, &u8)| now != before && *now != before.wrapping_add(101);
                prop_assert!(!now.iter().zip(before).any(wrong), "a repair wrote bytes that were never there");
            }
        }
        for &extent in &extents {
            vdev.scrub(extent, &|bytes| bytes == contents(extent, 0), &mut ScrubMemory::default()).unwrap();
        }
        for &extent in &extents {
            let clean = vdev.scrub(extent, &|bytes| bytes == contents(extent, 0), &mut ScrubMemory::default()).unwrap();
            prop_assert!(clean.damaged.is_empty());
        }
        prop_assert!(vdev.leaves().iter().map(|leaf| leaf.stats.repaired).sum::<u64>() > 0);
    }

    #[test]
    fn a_leaf_that_missed_writes_is_resilvered(which in 1..ALL.len(), seed in any::<u64>(), replaces in any::<bool>()) {
        let (arrangement, count) = ALL[which];
        let (leaves, vdev) = Faulty::vdev(arrangement, count, 1500);
        let extents = extents(&vdev, seed);
        for &extent in &extents {
            vdev.write(extent, &contents(extent, 0)).unwrap();
        }
        let mut random = fastrand::Rng::with_seed(seed);
        let missed = random.usize(..count);
        vdev.set_offline(missed).unwrap();
        let versions: Vec<u8> = extents.iter().map(|_| random.u8(..2)).collect();
        for (&extent, &version) in extents.iter().zip(&versions) {
            if version > 0 {
                vdev.write(extent, &contents(extent, version)).unwrap();
            }
        }
        vdev.sync().unwrap();
        if replaces {
            vdev.replace_leaf(missed, Faulty::new("new", 1 << 20)).unwrap();
        } else {
            vdev.set_online(missed).unwrap();
        }
        for (&extent, &version) in extents.iter().zip(&versions) {
            prop_assert!(read(&vdev, extent, version).is_ok());
            vdev.resilver(extent, &|bytes| bytes == contents(extent, version), &mut ScrubMemory::default()).unwrap();
        }
        vdev.sync().unwrap();
        vdev.set_current(missed).unwrap();
        prop_assert!(!vdev.is_degraded());
        // Now any others may be lost.
        let others: Vec<_> = (0..count).filter(|&leaf| leaf != missed).collect();
        for lost in random.choose_multiple(others, redundancy(arrangement, count)) {
            leaves[lost].fails_reads.store(true, Relaxed);
        }
        for (&extent, &version) in extents.iter().zip(&versions) {
            prop_assert!(read(&vdev, extent, version).is_ok());
        }
    }
}

#[test]
fn a_resilver_writes_what_a_stale_leaf_seems_to_have() {
    let extent = Extent { block: 3, blocks: 40 };
    let right = |bytes: &[u8]| bytes == contents(extent, 0);
    for (arrangement, count) in ALL.into_iter().skip(1) {
        let (_, vdev) = Faulty::vdev(arrangement, count, 500);
        vdev.write(extent, &contents(extent, 0)).unwrap();
        let repaired = |leaf: usize| vdev.leaves()[leaf].stats.repaired;
        for leaf in 0..count {
            // As a leaf whose sync failed: its bytes can be read, and may be gone behind a power cut.
            vdev.set_stale(leaf).unwrap();
            let before = repaired(leaf);
            let memory = &mut ScrubMemory::default();
            assert!(vdev.scrub(extent, &right, memory).unwrap().damaged.is_empty());
            assert_eq!(repaired(leaf), before, "{arrangement} {leaf}");
            let was_needed = vdev.resilver(extent, &right, memory).unwrap();
            assert_eq!(was_needed, repaired(leaf) > before, "{arrangement} {leaf}");
            assert!(was_needed || arrangement != Arrangement::Mirror);
            vdev.set_current(leaf).unwrap();
        }
        assert!((0..count).any(|leaf| repaired(leaf) > 0), "{arrangement}");
    }
}

#[test]
fn a_write_succeeds_while_the_redundancy_allows_and_says_what_it_missed() {
    let extent = Extent { block: 3, blocks: 40 };
    for (arrangement, count) in ALL {
        let (leaves, vdev) = Faulty::vdev(arrangement, count, 500);
        let redundancy = redundancy(arrangement, count);
        for (lost, leaf) in leaves.iter().enumerate().take(redundancy + 1) {
            leaf.fails_writes.store(true, Relaxed);
            let written = vdev.write(extent, &contents(extent, lost as u8));
            assert_eq!(written.is_ok(), lost < redundancy, "{vdev}, {lost}");
            let states: Vec<_> =
                vdev.leaves().iter().map(|leaf| (leaf.state, leaf.is_stale)).collect();
            let faulted =
                states.iter().filter(|state| **state == (LeafState::Faulted, true)).count();
            assert_eq!(faulted, redundancy.min(lost + 1), "a write that fails changes no state");
            if lost < redundancy {
                assert_eq!(read(&vdev, extent, lost as u8).unwrap(), contents(extent, lost as u8));
            }
        }
    }
}

#[test]
fn a_sync_succeeds_while_the_redundancy_allows() {
    for (arrangement, count) in ALL {
        let (leaves, vdev) = Faulty::vdev(arrangement, count, 500);
        let redundancy = redundancy(arrangement, count);
        for (lost, leaf) in leaves.iter().enumerate().take(redundancy + 1) {
            leaf.fails_syncs.store(true, Relaxed);
            assert_eq!(vdev.sync().is_ok(), lost < redundancy);
        }
    }
}

#[test]
fn an_extent_that_is_lost_is_named_with_what_each_leaf_gave() {
    let extent = Extent { block: 0, blocks: 4 };
    for (arrangement, count) in ALL {
        let (leaves, vdev) = Faulty::vdev(arrangement, count, 500);
        vdev.write(extent, &contents(extent, 0)).unwrap();
        for leaf in &leaves {
            (0..4).for_each(|block| leaf.damage(block));
        }
        leaves[0].fails_reads.store(true, Relaxed);
        let Err(Error::Damaged { found, .. }) = read(&vdev, extent, 0) else {
            panic!("it is lost")
        };
        assert!(found[0].contains("as planned") || found.len() > 1, "{found:?}");
        assert!(vdev.scrub(extent, &|_| false, &mut ScrubMemory::default()).is_err());
    }
}

#[test]
fn a_wrong_pointer_is_named_and_read_as_no_bytes() {
    for (arrangement, count) in ALL {
        let (_, vdev) = Faulty::vdev(arrangement, count, 1024);
        for (block, blocks) in [
            (u64::MAX, 1),
            (u64::MAX - 300, 256),
            (0, 0),
            (0, 257),
            (0, u32::MAX),
            (511, 2),
            (vdev.blocks(), 1),
        ] {
            let extent = Extent { block, blocks };
            let read = vdev.read(extent, 0, &mut [], &|_| true);
            assert!(matches!(read, Err(Error::OutOfBounds { .. })), "{vdev}: {extent:?}");
            assert!(vdev.free(extent));
        }
    }
}

#[test]
fn a_block_that_cannot_be_read_is_repaired_from_the_others() {
    let extent = Extent { block: 0, blocks: 16 };
    for (arrangement, count) in ALL.into_iter().skip(1) {
        let (leaves, vdev) = Faulty::vdev(arrangement, count, 500);
        vdev.write(extent, &contents(extent, 0)).unwrap();
        for leaf in &leaves {
            let right = leaf.block(1);
            leaf.damage(1);
            leaf.unreadable.store(1, Relaxed);
            vdev.scrub(extent, &|bytes| bytes == contents(extent, 0), &mut ScrubMemory::default())
                .unwrap();
            assert_eq!(leaf.block(1), right, "{vdev}");
            leaf.unreadable.store(u64::MAX, Relaxed);
        }
    }
}

#[test]
fn a_leaf_that_fails_to_grow_is_faulted_and_is_not_taken_for_a_full_one() {
    for (arrangement, count) in ALL {
        let (leaves, vdev) = Faulty::vdev(arrangement, count, 500);
        let spare = redundancy(arrangement, count);
        leaves[..spare].iter().for_each(|leaf| leaf.fails_writes.store(true, Relaxed));
        vdev.grow_to(5000).unwrap();
        assert!(vdev.blocks() >= 5000);
        assert_eq!(vdev.leaves().iter().filter(|leaf| leaf.is_stale).count(), spare, "{vdev}");
        leaves[spare].fails_writes.store(true, Relaxed);
        let error = vdev.grow_to(9000).unwrap_err();
        assert!(!matches!(error, Error::NoSpace { .. }), "{vdev}: {error}");
    }
}

#[test]
fn no_leaf_is_taken_away_that_is_needed() {
    let (_, vdev) = Faulty::vdev(Arrangement::Mirror, 2, 500);
    vdev.set_offline(0).unwrap();
    assert!(matches!(vdev.set_offline(1), Err(Error::Needed { .. })));
    assert!(matches!(vdev.replace_leaf(1, Faulty::new("new", 1 << 20)), Err(Error::Needed { .. })));
    assert!(matches!(vdev.set_offline(2), Err(Error::NoLeaf { leaf: 2 })));
    vdev.write(Extent { block: 0, blocks: 1 }, &[1; BLOCK]).unwrap();
    assert!(matches!(vdev.replace_leaf(0, Faulty::new("small", 100)), Err(Error::NoSpace { .. })));
    vdev.set_online(0).unwrap();
    assert!(vdev.leaves()[0].is_stale);
    // It missed a write, so the other one is still the only one with all data.
    assert!(matches!(vdev.set_offline(1), Err(Error::Needed { .. })));
}

#[test]
fn a_vdev_opens_without_the_leaves_that_it_can_spare() {
    for (arrangement, count) in ALL {
        for missing in 0..=count {
            let leaf = |number: usize| {
                (number >= missing).then(|| Faulty::new("leaf", 1 << 20) as Arc<dyn Leaf>)
            };
            let vdev = Vdev::new(arrangement, (0..count).map(leaf).collect());
            assert_eq!(vdev.is_ok(), missing <= redundancy(arrangement, count));
            let Ok(vdev) = vdev else { continue };
            vdev.grow_to(100).unwrap();
            let extent = Extent { block: 5, blocks: 9 };
            vdev.write(extent, &contents(extent, 0)).unwrap();
            assert!(read(&vdev, extent, 0).is_ok());
        }
    }
}

#[test]
fn a_mirror_spreads_its_reads() {
    let (_, vdev) = Faulty::vdev(Arrangement::Mirror, 3, 500);
    let extent = Extent { block: 0, blocks: 1 };
    vdev.write(extent, &contents(extent, 0)).unwrap();
    (0..30).for_each(|_| drop(read(&vdev, extent, 0).unwrap()));
    assert!(vdev.leaves().iter().all(|leaf| leaf.stats.reads.requests == 10));
}
