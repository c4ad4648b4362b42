//! Blocks that stay free, so that a full store can be emptied.

/// Blocks that stay free for collection: one for the records that it moves, and spare ones, because a crash that
/// interrupts it leaves a block and its copy.
pub(crate) const RESERVE_COLLECT: u32 = 3;

/// Blocks that stay free for collection and deletes, so that a full store can be emptied.
pub(crate) const RESERVE_DELETE: u32 = RESERVE_COLLECT + 3;

/// Blocks that puts leave to collection, deletes and bookkeeping (such as noting when a key expires), which goes on
/// where puts are refused.
pub(crate) const RESERVE_BOOKKEEPING: u32 = RESERVE_DELETE + 3;
