//! The Redis encodings of values from whose bytes they do not follow.
//!
//! A value is its bytes here, and OBJECT ENCODING derives from them Redis's choice. Some commands leave another
//! encoding behind: APPEND, SETRANGE and INCRBYFLOAT. That is noted in DRAM, for keys with short values, until the key
//! is written again. As with Redis, it does not survive a restart.

use std::collections::HashMap;

/// An encoding that does not follow from a value's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// A short text that is no integer's, though it may look like it.
    Embedded,
    /// A text that was changed in place.
    Raw,
}

/// Bytes that notes take, of one database in one partition; then they begin anew.
const BYTES_MAX: usize = 256 << 10;
/// Bytes that a note takes beside its key, about.
const NOTE: usize = 32;

/// The encodings of a database's keys.
#[derive(Debug, Default)]
pub(super) struct Encodings {
    by_key: HashMap<Box<[u8]>, Encoding>,
    /// The memory of the entries, in bytes.
    bytes: usize,
}

impl Encodings {
    pub(super) fn get(&self, key: &[u8]) -> Option<Encoding> {
        self.by_key.get(key).copied()
    }

    pub(super) fn note(&mut self, key: &[u8], encoding: Encoding) {
        self.forget(key);
        if self.bytes + key.len() + NOTE > BYTES_MAX {
            self.clear();
        }
        self.bytes += key.len() + NOTE;
        self.by_key.insert(key.into(), encoding);
    }

    /// The key is written anew, or removed.
    #[inline]
    pub(super) fn forget(&mut self, key: &[u8]) {
        if !self.by_key.is_empty() && self.by_key.remove(key).is_some() {
            self.bytes -= key.len() + NOTE;
        }
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_take_a_bounded_amount_of_memory() {
        let mut encodings = Encodings::default();
        for number in 0..20_000u32 {
            let key = number.to_be_bytes();
            encodings.note(&key, Encoding::Raw);
            encodings.note(&key, Encoding::Embedded);
            assert_eq!(encodings.get(&key), Some(Encoding::Embedded));
            if number.is_multiple_of(1000) {
                let bytes: usize = encodings.by_key.keys().map(|key| key.len() + NOTE).sum();
                assert!(bytes == encodings.bytes && bytes <= BYTES_MAX, "{bytes}");
            }
        }
        let last = 19_999u32.to_be_bytes();
        encodings.forget(&last);
        encodings.forget(&last);
        assert_eq!(encodings.get(&last), None);
        encodings.clear();
        assert_eq!((encodings.by_key.len(), encodings.bytes), (0, 0));
    }
}
