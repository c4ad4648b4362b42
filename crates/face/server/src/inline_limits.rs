//! How large collections may be whose value is one record: as Redis' settings say up to which size a collection is packed
//! into one piece of memory.

/// The limits, by the names of Redis' settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InlineLimits {
    pub(crate) hash_entries: usize,
    pub(crate) hash_value: usize,
    /// Of sets whose members are all integers.
    pub(crate) intset_entries: usize,
    pub(crate) set_entries: usize,
    pub(crate) set_value: usize,
    pub(crate) sorted_set_entries: usize,
    pub(crate) sorted_set_value: usize,
    /// Of lists: entries, or, if it is negative, a size from 4 KiB (-1) to 64 KiB (-5).
    pub(crate) list_size: i64,
}

impl Default for InlineLimits {
    fn default() -> Self {
        Self {
            hash_entries: 512,
            hash_value: 64,
            intset_entries: 512,
            set_entries: 128,
            set_value: 64,
            sorted_set_entries: 128,
            sorted_set_value: 64,
            list_size: -2,
        }
    }
}

impl InlineLimits {
    /// Whether a list of so many elements, of so many bytes together, may be one record.
    pub(crate) fn takes_list(&self, len: usize, bytes: usize) -> bool {
        match self.list_size {
            entries @ 0.. => len as i64 <= entries.max(1),
            size => bytes <= 2048 << size.unsigned_abs().min(5),
        }
    }
}
