//! Tests that look into the store: whether reports are exact, and what a leaf that fails does.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_contract::{Durability, Engine, EngineOptions, KeySpaceId, Op};
use halite_disk::{Access, Disk};
use halite_pmem::Pinned;
use halite_vdev::{BLOCK, LABEL_AREA, Leaf, LeafState, MemoryLeaf, Position};

use crate::storage::Extent;
use crate::tree::walk::{Part, large_values, walk};
use crate::{Betree, BetreeOptions};

fn options(folder: &std::path::Path, disk: &Disk, topology: &str) -> EngineOptions {
    let own = BetreeOptions {
        topology: Some(topology.parse().unwrap()),
        memtable_bytes: Some(32 << 10),
        buffer_bytes: Some(16 << 10),
        leaf_bytes: Some(16 << 10),
        part_bytes: Some(4 << 10),
        fanout: Some(4),
        large_value_bytes: Some(8 << 10),
        checkpoint_bytes: Some(128 << 10),
        ..BetreeOptions::default()
    };
    let mut options = EngineOptions::new(folder.join("pool"));
    (options.disk, options.own) = (Some(disk.clone()), own.into());
    options
}

fn value(number: u32) -> Vec<u8> {
    let len = if number.is_multiple_of(11) { 12_000 } else { 700 };
    (0..len).map(|at| (number * 31 + at * 7) as u8).collect()
}

fn fill(engine: &Betree, numbers: std::ops::Range<u32>) -> KeySpaceId {
    let space = engine.key_space("data").unwrap();
    for number in numbers {
        let put = Op::Put { space, key: &number.to_be_bytes(), value: &value(number) };
        engine.write(&[put], Durability::Deferred).unwrap();
    }
    engine.sync().unwrap();
    space
}

fn check(engine: &Betree, space: KeySpaceId, numbers: std::ops::Range<u32>) {
    for number in numbers {
        assert_eq!(
            engine.get(space, &number.to_be_bytes()).unwrap().as_deref(),
            Some(&value(number)[..])
        );
    }
}

/// All extents that a pass has to visit.
fn extents(engine: &Betree) -> BTreeSet<Extent> {
    let store = &engine.store;
    let checkpoints = store.checkpoints.lock();
    let mut all: BTreeSet<Extent> = checkpoints.root.extents().collect();
    all.extend(checkpoints.bitmaps.values().map(|bitmap| bitmap.extent));
    let view = store.view();
    for tree in view.trees.values().chain([&checkpoints.root_tree]) {
        walk(&store.trees, tree, &mut |part| {
            match part {
                Part::Node(pointer) => {
                    all.insert(pointer.extent);
                }
                Part::Run(run) => {
                    all.extend(run.pointer().extents.iter().copied());
                    let values = large_values(run)?;
                    all.extend(
                        values.iter().flat_map(|value| &value.pieces).map(|piece| piece.extent),
                    );
                }
            }
            Ok(true)
        })
        .unwrap();
    }
    all
}

/// Goes on to the end.
fn on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn what_only_a_snapshot_has_is_resilvered_too() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::in_memory();
    let options = options(folder.path(), &disk, "mirror file:a@256M file:b@256M");
    let engine = Betree::open(&options).unwrap();
    fill(&engine, 0..100);
    let at = |leaf| Position { class: 0, vdev: 0, leaf };
    engine.set_offline(at(1)).unwrap();
    let space = fill(&engine, 0..500);
    engine.create_snapshot(space, "then").unwrap();
    engine
        .write(&[Op::DeleteRange { space, start: &[], end: None }], Durability::Immediate)
        .unwrap();
    engine.set_online(at(1)).unwrap();
    let report = engine.resilver(&mut on).unwrap();
    assert!(report.is_complete && report.repaired > 20, "{report:?}");
    engine.set_offline(at(0)).unwrap();
    drop(engine);
    disk.remove("a").unwrap();
    let engine = Betree::open(&options).unwrap();
    engine.rollback(space, "then", true).unwrap();
    check(&engine, space, 0..500);
    let verified = engine.verify(&mut on).unwrap();
    assert!(verified.damage.is_empty(), "{:?}", verified.damage);
}

#[test]
fn a_scrub_reports_exactly_the_extents_that_were_damaged_and_visits_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::in_memory();
    let options = options(folder.path(), &disk, "mirror file:a@256M file:b@256M");
    let engine = Betree::open(&options).unwrap();
    let space = fill(&engine, 0..1500);
    drop(engine);
    let engine = Betree::open(&options).unwrap();
    let all = extents(&engine);
    // A few of the blocks in use, and of the others.
    let file = disk.open_positioned("a", Access::Direct).unwrap();
    let blocks_of =
        |extent: &Extent| extent.address.block()..extent.address.block() + u64::from(extent.blocks);
    let last = all.iter().flat_map(blocks_of).max().unwrap();
    let damaged: BTreeSet<u64> = (3..=last).step_by(23).collect();
    for block in &damaged {
        let mut bytes = vec![0; BLOCK];
        let at = LABEL_AREA as u64 + block * BLOCK as u64;
        file.read_at(at, &mut bytes).unwrap();
        // Also zeros behind an extent's last bytes are not what they were.
        bytes[BLOCK - 1] ^= 1;
        file.write_at(at, &bytes).unwrap();
    }
    let is_hit = |extent: &&Extent| {
        let first = extent.address.block();
        damaged.range(first..first + u64::from(extent.blocks)).next().is_some()
    };
    let expected = all.iter().filter(is_hit).count() as u64;
    assert!(expected > 3);
    let report = engine.scrub(&mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.extents, all.len() as u64);
    assert!(report.repaired == report.damaged && report.lost == 0);
    assert_eq!(report.damaged, expected);
    check(&engine, space, 0..1500);
    let again = engine.scrub(&mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!((again.is_complete, again.damaged), (true, 0));
}

/// A leaf in memory whose writes and syncs fail when that is asked for.
struct Failing {
    inner: MemoryLeaf,
    fails_writes: AtomicBool,
    fails_syncs: AtomicBool,
}

impl Failing {
    fn fail(&self, switch: &AtomicBool) -> halite_vdev::Result<()> {
        match switch.load(Ordering::Relaxed) {
            true => Err(halite_vdev::Error::BadLeaf {
                leaf: "failing".into(),
                why: "as planned".into(),
            }),
            false => Ok(()),
        }
    }
}

impl Leaf for Failing {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn is_memory(&self) -> bool {
        true
    }
    fn blocks(&self) -> u64 {
        self.inner.blocks()
    }
    fn blocks_max(&self) -> u64 {
        self.inner.blocks_max()
    }
    fn grow_to(&self, blocks: u64) -> halite_vdev::Result<()> {
        self.inner.grow_to(blocks)
    }
    fn write(&self, run: halite_vdev::Extent, bytes: &[u8]) -> halite_vdev::Result<()> {
        self.fail(&self.fails_writes)?;
        self.inner.write(run, bytes)
    }
    fn read(&self, run: halite_vdev::Extent, at: usize, to: &mut [u8]) -> halite_vdev::Result<()> {
        self.inner.read(run, at, to)
    }
    fn patch(
        &self,
        run: halite_vdev::Extent,
        at: usize,
        bytes: &[u8],
    ) -> halite_vdev::Result<bool> {
        self.fail(&self.fails_writes)?;
        self.inner.patch(run, at, bytes)
    }
    fn adopt(&self, _: halite_vdev::Extent) -> halite_vdev::Result<()> {
        Ok(())
    }
    fn free(&self, _: halite_vdev::Extent) -> bool {
        true
    }
    fn pin(
        &self,
        _: halite_vdev::Extent,
        _: usize,
        _: usize,
    ) -> halite_vdev::Result<Option<Pinned>> {
        Ok(None)
    }
    fn sync(&self, _: halite_sim::Site) -> halite_vdev::Result<()> {
        self.fail(&self.fails_syncs)
    }
    fn read_label(&self, at: usize, to: &mut [u8]) -> halite_vdev::Result<()> {
        self.inner.read_label(at, to)
    }
    fn write_label(&self, at: usize, bytes: &[u8]) -> halite_vdev::Result<()> {
        self.fail(&self.fails_writes)?;
        self.inner.write_label(at, bytes)
    }
}

#[test]
fn a_leaf_that_fails_is_faulted_and_stale_in_the_next_superblock_and_good_again_behind_a_resilver()
{
    for (topology, leaves) in
        [("mirror file:a@64M file:b@64M", 2), ("parity1 file:a@64M file:b@64M file:c@64M", 3)]
    {
        for fails_syncs in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let disk = Disk::in_memory();
            let options = options(folder.path(), &disk, topology);
            let engine = Betree::open(&options).unwrap();
            let at = Position { class: 0, vdev: 0, leaf: 1 };
            let leaf = Arc::new(Failing {
                inner: MemoryLeaf::new("failing", (64 << 20) / BLOCK as u64),
                fails_writes: AtomicBool::new(false),
                fails_syncs: AtomicBool::new(false),
            });
            let vdev = &engine.store.trees.storage.classes()[0][0];
            vdev.replace_leaf(1, Arc::clone(&leaf) as Arc<dyn Leaf>).unwrap();
            engine.store.leaf_returned();
            let space = fill(&engine, 0..300);
            assert!(engine.resilver(&mut |_, _| ControlFlow::Continue(())).unwrap().is_complete);
            assert!(!vdev.is_degraded());
            let switch = if fails_syncs { &leaf.fails_syncs } else { &leaf.fails_writes };
            switch.store(true, Ordering::Relaxed);
            fill(&engine, 200..900);
            assert_eq!(vdev.leaves()[1].state, LeafState::Faulted);
            let record = engine.store.labels.record();
            assert!(record.leaves().any(|(position, leaf)| position == at && leaf.is_stale));
            check(&engine, space, 0..900);
            switch.store(false, Ordering::Relaxed);
            engine.set_online(at).unwrap();
            // The report of a resilver says that the leaf failed meanwhile.
            let mut fail = |_, _| {
                switch.store(true, Ordering::Relaxed);
                ControlFlow::Continue(())
            };
            let report = engine.resilver(&mut fail).unwrap();
            assert!(!report.is_complete && vdev.is_degraded(), "{report:?}");
            switch.store(false, Ordering::Relaxed);
            engine.set_online(at).unwrap();
            assert!(engine.resilver(&mut |_, _| ControlFlow::Continue(())).unwrap().is_complete);
            engine
                .set_offline(Position { leaf: leaves as u16 - 1 - u16::from(leaves == 2), ..at })
                .unwrap();
            check(&engine, space, 0..900);
        }
    }
}
