//! The key spaces that callers do not see.

/// The key space that holds the names of the others: name → id. Only the first partition's has any.
pub(crate) const CATALOGUE: u32 = 0;

/// The key space of a partition's internal records.
pub(crate) const INTERNAL: u32 = u32::MAX;

/// Whether a key space is one that callers do not see.
pub(crate) fn is_internal(space: u32) -> bool {
    space == CATALOGUE || space == INTERNAL
}
