//! The epochs in which blocks were taken, so that the age of a scan can be measured in blocks.

use std::collections::VecDeque;

/// The epochs in which blocks were taken, one for each block, ascending.
#[derive(Default)]
pub(crate) struct Allocations(VecDeque<u64>);

impl Allocations {
    /// Notes that `count` blocks were taken in an epoch, which is no older than the epochs before. Keeps the last
    /// `kept` blocks.
    pub(crate) fn note(&mut self, epoch: u64, count: u32, kept: usize) {
        self.0.extend(std::iter::repeat_n(epoch, count as usize));
        self.0.drain(..self.0.len().saturating_sub(kept));
    }

    /// How many blocks were taken in an epoch and since.
    pub(crate) fn since(&self, epoch: u64) -> u32 {
        (self.0.len() - self.0.partition_point(|&taken| taken < epoch)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_as_old_as_blocks_were_taken_since() {
        let mut allocations = Allocations::default();
        assert_eq!(allocations.since(0), 0);
        [(3, 1), (5, 2), (9, 1)]
            .into_iter()
            .for_each(|(epoch, count)| allocations.note(epoch, count, 9));
        assert_eq!([0, 3, 4, 5, 6, 10].map(|epoch| allocations.since(epoch)), [4, 4, 3, 3, 1, 0]);
        allocations.note(10, 3, 4);
        assert_eq!([0, 9, 10].map(|epoch| allocations.since(epoch)), [4, 4, 3]);
    }
}
