//! Limits of what is read.

/// Limits on lengths in the input. Beyond one, the input is refused before memory is taken for it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Limits {
    /// The longest string, in bytes, decompressed; also the longest packed collection. By default 512 MiB, as in
    /// Redis.
    pub string_len_max: usize,
    /// The memory of one value and its key, in bytes: its strings, and [`Limits::ELEMENT_BYTES`] for each of them. By
    /// default 16 GiB.
    pub value_bytes_max: u64,
}

impl Limits {
    /// The bytes that each element counts beside its own.
    pub const ELEMENT_BYTES: u64 = 32;

    /// These limits with another longest string, in bytes.
    #[must_use]
    pub fn string_len_max(self, string_len_max: usize) -> Self {
        Self { string_len_max, ..self }
    }

    /// These limits with another size of a value, in bytes.
    #[must_use]
    pub fn value_bytes_max(self, value_bytes_max: u64) -> Self {
        Self { value_bytes_max, ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { string_len_max: 512 << 20, value_bytes_max: 16 << 30 }
    }
}
