//! How Redis would encode values whose bytes do not tell.
//!
//! A value is its bytes here, and OBJECT ENCODING derives from them what Redis would choose. Some commands leave another
//! encoding behind: APPEND, SETRANGE and INCRBYFLOAT. That is noted in DRAM, for keys with short values, until the key is
//! written again. As with Redis, it does not survive a restart.

use std::collections::HashMap;

/// An encoding that does not follow from a value's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// A short text that is no integer's, though it may look like it.
    Embedded,
    /// A text that was changed in place.
    Raw,
}

/// Keys that are noted, of one database in one partition; then the notes begin anew.
const KEYS_MAX: usize = 10_000;

/// The encodings of a database's keys.
#[derive(Debug, Default)]
pub(super) struct Encodings(HashMap<Box<[u8]>, Encoding>);

impl Encodings {
    pub(super) fn get(&self, key: &[u8]) -> Option<Encoding> {
        self.0.get(key).copied()
    }

    pub(super) fn note(&mut self, key: &[u8], encoding: Encoding) {
        if self.0.len() >= KEYS_MAX {
            self.0.clear();
        }
        self.0.insert(key.into(), encoding);
    }

    /// The key is written anew, or removed.
    #[inline]
    pub(super) fn forget(&mut self, key: &[u8]) {
        if !self.0.is_empty() {
            self.0.remove(key);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
