//! The space of a partition: its blocks, the map that says durably what they hold, and the slots that some are split
//! into.

pub(crate) mod allocations;
pub(crate) mod block_map;
pub(crate) mod blocks;
pub(crate) mod limbo;
pub(crate) mod reserves;
pub(crate) mod split;
pub(crate) mod victims;
