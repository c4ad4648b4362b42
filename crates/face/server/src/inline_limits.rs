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

/// The most bytes of a packed list whose elements are limited in number.
const COUNTED_LIST_BYTES: usize = 8 << 10;

impl InlineLimits {
    /// Whether a list of so many elements, which take so many bytes in a listpack, may be one record.
    pub(crate) fn takes_list(&self, len: usize, bytes: usize) -> bool {
        match self.list_size {
            0.. => bytes <= COUNTED_LIST_BYTES && len <= self.list_len_max(),
            _ => bytes <= self.list_bytes_max(),
        }
    }

    /// Whether a list that has become so small goes back into one record.
    pub(crate) fn takes_list_back(&self, len: usize, bytes: usize) -> bool {
        match self.list_size {
            0.. => bytes <= COUNTED_LIST_BYTES && len <= self.list_len_max() / 2,
            _ => bytes <= self.list_bytes_max() / 2,
        }
    }

    /// The most elements of a packed list.
    pub(crate) fn list_len_max(&self) -> usize {
        // No element takes fewer than two bytes.
        let most = self.list_bytes_max() / 2;
        usize::try_from(self.list_size).map_or(most, |len| len.max(1))
    }

    fn list_bytes_max(&self) -> usize {
        match self.list_size {
            0.. => COUNTED_LIST_BYTES,
            size => 2048 << size.unsigned_abs().min(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_packed_up_to_a_size_or_a_number() {
        let limits = |list_size| InlineLimits { list_size, ..InlineLimits::default() };
        assert!(limits(-2).takes_list(4000, 8192) && !limits(-2).takes_list(1, 8193));
        assert!(limits(-1).takes_list(1, 4096) && !limits(-1).takes_list(1, 4097));
        assert!(limits(-9).takes_list(1, 65536) && !limits(-9).takes_list(1, 65537));
        assert!(limits(3).takes_list(3, 100) && !limits(3).takes_list(4, 100));
        assert!(limits(0).takes_list(1, 100) && !limits(0).takes_list(2, 100));
        assert!(!limits(i64::MAX).takes_list(1, 8193));
        assert!(limits(6).takes_list_back(3, 100) && !limits(6).takes_list_back(4, 100));
        assert!(limits(-2).takes_list_back(9, 4096) && !limits(-2).takes_list_back(9, 4097));
        assert!(!limits(1).takes_list_back(1, 100));
    }
}
