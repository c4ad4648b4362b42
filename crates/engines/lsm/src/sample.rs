//! A random key.

use std::sync::Arc;

use fastrand::Rng;
use halite_contract::{Bytes, Direction, KeyRange, KeySpaceId, Result, sample_by_descent};

use crate::scan::{ReadAt, TreeScan, bounds};

/// A key of a key space in a state, chosen by `random`; `None` if there is none.
///
/// One of the trees that have keys is chosen, and one of its keys by a descent ([`sample_by_descent`]).
pub(crate) fn sample(
    at: &Arc<ReadAt>,
    trees: usize,
    space: KeySpaceId,
    random: u64,
) -> Result<Option<Bytes>> {
    let mut random = Rng::with_seed(random);
    let mut trees: Vec<usize> = (0..trees).collect();
    while !trees.is_empty() {
        let tree = trees.swap_remove(random.usize(..trees.len()));
        let seek = |range: &KeyRange, direction: Direction| {
            let (start, end) = bounds(space, range);
            let mut scan = TreeScan::new(at, tree, &start, &end, direction)?;
            Ok(scan.next_pair(false).transpose()?.map(|(key, _)| key))
        };
        let key = sample_by_descent(&seek, random.u64(..))?;
        if key.is_some() {
            return Ok(key);
        }
    }
    Ok(None)
}
