//! Faults of every block of the leaves that may fail: flipped bits, zeros, lost writes, and blocks that changed places. So
//! each kind of extent is struck on every set of replicas: nodes, directories, filters and parts of runs, large
//! values, bitmaps, root records; and the newest superblock. `HALITE_LAB_FAULTS=all` has every fault meet every set, which
//! takes many minutes.

use halite_contract::Error;

use super::bench::{BLOCK, Bench, LABELS, name, on, subsets, vdev};

/// A fault of a leaf.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// A bit of each block.
    Flipped,
    Zeroed,
    /// The blocks are those of an earlier state.
    Stale,
    /// The whole leaf is that of an earlier state, with its superblocks.
    Older,
    /// Neighbours changed places.
    Swapped,
}

const FAULTS: [Fault; 5] =
    [Fault::Flipped, Fault::Zeroed, Fault::Stale, Fault::Older, Fault::Swapped];

impl Fault {
    /// The bytes of a leaf, of which `earlier` are older ones.
    fn strike(self, bytes: &[u8], earlier: &[u8]) -> Vec<u8> {
        let labels = LABELS as usize;
        let mut struck = bytes.to_vec();
        let data = &mut struck[labels..];
        match self {
            Self::Flipped => {
                for (number, block) in data.chunks_mut(BLOCK).enumerate() {
                    let at = number * 997 % block.len();
                    block[at] ^= 1 << (number % 8);
                }
                spoil_newest_label(&mut struck);
            }
            Self::Zeroed => data.fill(0),
            Self::Stale => {
                let len = earlier.len().min(struck.len());
                struck[labels..len].copy_from_slice(&earlier[labels..len]);
            }
            Self::Older => {
                struck[..earlier.len()].copy_from_slice(earlier);
            }
            Self::Swapped => {
                for pair in data.chunks_exact_mut(2 * BLOCK) {
                    let (one, other) = pair.split_at_mut(BLOCK);
                    one.swap_with_slice(other);
                }
            }
        }
        struck
    }
}

/// Flips a bit of the newest superblock.
fn spoil_newest_label(bytes: &mut [u8]) {
    const SLOT: usize = 8192;
    let generation =
        |at: usize| u64::from_le_bytes(bytes[at * SLOT + 64..at * SLOT + 72].try_into().unwrap());
    let newest = (0..32).max_by_key(|at| generation(*at)).unwrap();
    bytes[newest * SLOT + 100] ^= 1;
}

/// A pool of some extents of each kind, and what its leaves had before the last writes.
fn pool(arrangement: &str, leaves: usize) -> (Bench, Vec<Vec<u8>>) {
    let mut bench = Bench::new(&vdev(arrangement, leaves));
    let engine = bench.open();
    bench.write(&engine, 300);
    drop(engine);
    let earlier = (0..leaves).map(|leaf| bench.bytes(&name(leaf))).collect();
    let engine = bench.open();
    bench.write(&engine, 300);
    drop(engine);
    (bench, earlier)
}

/// Strikes leaves.
fn strike(bench: &Bench, fault: Fault, leaves: &[usize], earlier: &[Vec<u8>]) {
    for &leaf in leaves {
        let bytes = fault.strike(&bench.bytes(&name(leaf)), &earlier[leaf]);
        bench.put(&name(leaf), &bytes);
    }
}

/// Whether every fault meets every set of leaves.
fn has_all() -> bool {
    std::env::var_os("HALITE_LAB_FAULTS").is_some_and(|wanted| wanted == "all")
}

/// The arrangements: leaves, and how many of them may be lost.
fn arrangements() -> Vec<(&'static str, usize, usize)> {
    let mut all = vec![("mirror", 2, 1), ("mirror", 3, 2), ("parity1", 3, 1), ("parity2", 4, 2)];
    all.push(("parity3", 5, 3));
    if has_all() {
        all.extend([("parity1", 4, 1), ("parity1", 5, 1), ("parity1", 6, 1), ("parity2", 5, 2)]);
        all.extend([("parity2", 6, 2), ("parity3", 6, 3)]);
    }
    all
}

#[test]
fn faults_of_as_many_leaves_as_may_fail_are_never_read_and_all_repaired() {
    for (arrangement, leaves, redundancy) in arrangements() {
        let (bench, earlier) = pool(arrangement, leaves);
        let whole = bench.image();
        let sets = subsets(leaves, redundancy);
        for (number, struck) in sets.iter().enumerate() {
            for (which, fault) in FAULTS.into_iter().enumerate() {
                // Every set meets some faults, and every fault some sets.
                if !has_all() && (number + which) % 5 != 0 {
                    continue;
                }
                strike(&bench, fault, struck, &earlier);
                let engine = bench.open();
                bench.check(&engine);
                let report = engine.scrub(&mut on).unwrap();
                let told = format!("{arrangement}, {leaves} leaves, {fault:?} of {struck:?}");
                assert!(report.is_complete && report.lost == 0, "{told}: {report:?}");
                assert_eq!(report.damaged, report.repaired, "{told}");
                let again = engine.scrub(&mut on).unwrap();
                assert_eq!((again.damaged, again.lost), (0, 0), "{told}");
                drop(engine);
                // The leaves that were struck have everything again.
                let others = (0..leaves).filter(|leaf| !struck.contains(leaf));
                let kept = struck.iter().copied().chain(others);
                kept.skip(leaves - redundancy).for_each(|leaf| drop(bench.take(&name(leaf))));
                bench.check(&bench.open());
                bench.restore(&whole);
            }
        }
    }
}

#[test]
fn faults_of_one_leaf_more_are_told_by_name() {
    for (arrangement, leaves, redundancy) in arrangements() {
        let (bench, earlier) = pool(arrangement, leaves);
        let whole = bench.image();
        for fault in [Fault::Flipped, Fault::Zeroed, Fault::Stale, Fault::Swapped] {
            let struck: Vec<usize> = (0..=redundancy).collect();
            strike(&bench, fault, &struck, &earlier);
            match bench.try_open() {
                Ok(engine) => {
                    let lost = bench.unreadable(&engine);
                    assert!(!lost.is_empty(), "{arrangement}, {fault:?}");
                }
                Err(Error::Damaged { .. } | Error::Own(_)) => {}
                Err(error) => panic!("{arrangement}, {fault:?}: {error}"),
            }
            bench.restore(&whole);
        }
    }
}
