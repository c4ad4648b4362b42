//! The state of a larger collection that DRAM has: it is made at the first use, and changed with the collection.

use crate::counted_tree::{CountedTree, Numbers, Scored};
use crate::order_ends::OrderEnds;
use crate::stream_state::StreamState;

/// The state of a collection.
#[derive(Debug)]
pub(crate) enum Resident {
    /// The number of elements, of a hash or a set.
    Count(u64),
    /// The positions of a list's elements.
    Positions(CountedTree<Numbers>),
    /// The members of a sorted set, by their scores.
    Scores(CountedTree<Scored>),
    /// The ends of a sorted set's stored order.
    Ends(OrderEnds),
    /// The ends and the groups of a stream.
    Stream(Box<StreamState>),
}

impl Resident {
    /// The number of fields of a hash, a set or a sorted set, if it is known.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(*count),
            Self::Scores(scores) => Some(scores.len() as u64),
            Self::Ends(ends) => ends.count,
            Self::Positions(_) | Self::Stream(_) => None,
        }
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let own = match self {
            Self::Count(_) => 0,
            Self::Positions(positions) => positions.bytes(),
            Self::Scores(scores) => scores.bytes(),
            Self::Ends(ends) => ends.bytes(),
            Self::Stream(state) => state.bytes(),
        };
        size_of::<Self>() + own
    }
}
