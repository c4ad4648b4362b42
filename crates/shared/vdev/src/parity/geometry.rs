//! Where the columns of an extent are.
//!
//! Block `b` of the address space is on leaf `b mod n`, in its row `b / n`. An extent of `d` data blocks with parity
//! `p` takes `d + p * ceil(d / (n - p))` blocks in a row; the blocks of it on one leaf are a column, which is a run
//! there. As in RAID-Z, an extent has parity of its own, so that a write touches no other extent: there is no write
//! hole.
//!
//! ```text
//! n = 4, p = 1: 5 data blocks at address 2       leaf 0   1   2   3
//!   P of rows, D data in the order of the extent  row 0  .   .   P0  D0
//!                                                 row 1  D2  D4  P1  D1
//!                                                 row 2  D3  .   .   .
//! ```
//!
//! Columns with as many blocks as the extent has rows of its own are *tall*; parity columns are. Which of the tall ones
//! they are rotates with the segment of the address space, so that leaves share the load of reads. Data fills the other
//! columns one after the other: a part of an extent is on few leaves.

use std::ops::Range;

use crate::{BLOCK, EXTENT_BLOCKS_MAX, Extent, SEGMENT_BLOCKS};

/// The leaves of a vdev with parity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) leaves: u64,
    pub(crate) parity: u64,
}

/// A column of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) leaf: usize,
    pub(crate) run: Extent,
    /// Where its bytes are in the extent's data. Of a parity column, 0.
    pub(crate) at: usize,
}

/// The columns of an extent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) parity: Vec<Column>,
    pub(crate) data: Vec<Column>,
}

impl Geometry {
    /// The blocks that an extent of so many data blocks takes.
    pub(crate) fn taken(self, data_blocks: u32) -> u32 {
        let rows = u64::from(data_blocks).div_ceil(self.leaves - self.parity);
        u32::try_from(u64::from(data_blocks) + self.parity * rows).unwrap_or(u32::MAX)
    }

    /// The most data blocks of an extent that fits between two multiples of [`SEGMENT_BLOCKS`].
    pub(crate) fn data_blocks_max(self) -> u32 {
        let fits = |&blocks: &u32| u64::from(self.taken(blocks)) <= SEGMENT_BLOCKS;
        (1..=EXTENT_BLOCKS_MAX).rev().find(fits).unwrap_or(1)
    }

    /// The columns of an extent that lies in the address space.
    pub(crate) fn columns(self, extent: Extent) -> Columns {
        let (taken, n) = (u64::from(self.taken(extent.blocks)), self.leaves);
        let height = |position: u64| (taken - position).div_ceil(n);
        let rows = height(0);
        let positions = n.min(taken);
        let tall = (0..positions).take_while(|&position| height(position) == rows).count() as u64;
        let rotated = extent.block / SEGMENT_BLOCKS % tall;
        let mut data_at = 0;
        let column = |number: u64| {
            let position = if number < tall { (number + rotated) % tall } else { number };
            let at = extent.block + position;
            let run = Extent { block: at / n, blocks: height(position) as u32 };
            Column { leaf: (at % n) as usize, run, at: 0 }
        };
        let parity = (0..self.parity).map(column).collect();
        let data = (self.parity..positions).map(column).map(|column| {
            let at = data_at;
            data_at += column.run.byte_len();
            Column { at, ..column }
        });
        Columns { parity, data: data.collect() }
    }
}

impl Column {
    /// The bytes of the extent's data that it holds.
    pub(crate) fn bytes(&self) -> Range<usize> {
        self.at..self.at + self.run.byte_len()
    }

    /// The part of it in a range of the extent's data, counted from its own start; empty if there is none.
    pub(crate) fn part(&self, range: &Range<usize>) -> Range<usize> {
        let Range { start, end } = self.bytes();
        let from = range.start.clamp(start, end) - start;
        from..(range.end.clamp(start, end) - start).max(from)
    }
}

impl Columns {
    /// Bytes of a parity column, the length of the longest data column.
    pub(crate) fn height(&self) -> usize {
        self.parity[0].run.blocks as usize * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn columns_are_the_blocks_of_their_extent_and_of_no_other(
            parity in 1_u64..4, more in 2_u64..12, segment in 0_u64..5, at in 0_u64..512, blocks in 1_u32..=256,
        ) {
            let geometry = Geometry { leaves: parity + more, parity };
            let blocks = blocks.min(geometry.data_blocks_max());
            let taken = geometry.taken(blocks);
            let block = segment * SEGMENT_BLOCKS + at.min(SEGMENT_BLOCKS - u64::from(taken));
            let columns = geometry.columns(Extent { block, blocks });
            prop_assert_eq!(columns.parity.len() as u64, parity);
            let mut seen = BTreeSet::new();
            for column in columns.parity.iter().chain(&columns.data) {
                prop_assert!(column.run.defect(column.run.blocks, u64::MAX).is_none());
                for row in column.run.block..column.run.block + u64::from(column.run.blocks) {
                    prop_assert!(seen.insert(row * geometry.leaves + column.leaf as u64));
                }
            }
            let expected: BTreeSet<u64> = (block..block + u64::from(taken)).collect();
            prop_assert_eq!(seen, expected);
            // No two columns are on one leaf, and the data is there once, in order.
            let leaves: BTreeSet<_> = columns.parity.iter().chain(&columns.data).map(|column| column.leaf).collect();
            prop_assert_eq!(leaves.len(), columns.parity.len() + columns.data.len());
            let mut at = 0;
            for column in &columns.data {
                prop_assert_eq!(column.at, at);
                prop_assert!(column.run.byte_len() <= columns.height());
                at = column.bytes().end;
            }
            prop_assert_eq!(at, blocks as usize * BLOCK);
            prop_assert!(columns.parity.iter().all(|column| column.run.byte_len() == columns.height()));
        }
    }

    #[test]
    fn an_extent_that_no_segment_holds_with_its_parity_is_shorter() {
        let data_blocks_max = |leaves, parity| Geometry { leaves, parity }.data_blocks_max();
        assert_eq!((data_blocks_max(3, 1), data_blocks_max(4, 2)), (256, 256));
        assert_eq!((data_blocks_max(5, 3), data_blocks_max(6, 3)), (204, 255));
    }

    #[test]
    fn the_columns_are_those_of_the_drawing() {
        let columns = Geometry { leaves: 4, parity: 1 }.columns(Extent { block: 2, blocks: 5 });
        let column = |leaf, block, blocks, at| Column {
            leaf,
            run: Extent { block, blocks },
            at: at * BLOCK,
        };
        assert_eq!(columns.parity, [column(2, 0, 2, 0)]);
        assert_eq!(columns.data, [column(3, 0, 2, 0), column(0, 1, 2, 2), column(1, 1, 1, 4)]);
    }
}
