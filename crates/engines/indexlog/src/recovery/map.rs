//! Reading the map of a partition.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::{Error, Result};

use crate::layout::salt_of;
use crate::space::Space;
use crate::space::block_map::{BlockMap, Life, State};
use crate::{BLOCKS_PER_SEGMENT, map_device};

/// The map of a partition.
pub(crate) fn open_map(
    segments: &Arc<Segments>,
    generation: u32,
    number: usize,
) -> Result<BlockMap> {
    let device = map_device(generation, number);
    BlockMap::open(segments, segments.device(device), salt_of(segments, device))
}

/// Reads the lives of all blocks and adds the segments that exist.
pub(super) fn read_map(space: &mut Space, segments: &Segments) -> Result<Vec<(u32, Life)>> {
    let mut in_use = Vec::new();
    let exists = space.device().logical_segments();
    // A pool never had more data segments than it has segments, and the lowest numbers are used.
    let segments_max = segments.pool().len() / halite_alloc::SEGMENT;
    let map_end = u64::from(space.map().len() / BLOCKS_PER_SEGMENT);
    for segment in 0..map_end.min(segments_max) as u32 {
        let blocks = segment * BLOCKS_PER_SEGMENT..(segment + 1) * BLOCKS_PER_SEGMENT;
        let exists = exists.binary_search(&segment).is_ok();
        let mut incarnations = Vec::new();
        for block in blocks {
            let life = space.map().get(block)?;
            let damaged = |why: &str| Error::Damaged {
                what: format!("block map, block {block}"),
                why: why.into(),
            };
            match life {
                None if exists => {
                    return Err(damaged("its segment is allocated, its word is lost"));
                }
                Some(Life { state: State::Open(_) | State::Sealed(_), .. }) if !exists => {
                    return Err(damaged("it has records, but its segment is not allocated"));
                }
                Some(life) if life.state != State::Free => {
                    in_use.push((block, life));
                    incarnations.push(life.incarnation);
                }
                life if exists => {
                    incarnations.push(life.unwrap_or(Life::NEVER_USED).incarnation);
                }
                _ => {}
            }
        }
        if exists {
            space.blocks_mut().add_segment(segment, incarnations.into_iter());
        }
    }
    let beyond = |segment: &u32| u64::from(*segment) >= map_end.min(segments_max);
    match exists.into_iter().find(beyond) {
        Some(segment) => Err(Error::Damaged {
            what: format!("data segment {segment}"),
            why: "the block map does not reach to it".into(),
        }),
        None => Ok(in_use),
    }
}
