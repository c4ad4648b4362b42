//! Patterns of keys and of channels.

use crate::glob;

/// Kinds of access to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl Access {
    pub(super) const ALL: Self = Self { reads: true, writes: true };

    /// Whether it includes another one.
    fn includes(self, other: Self) -> bool {
        (self.reads || !other.reads) && (self.writes || !other.writes)
    }
}

/// A pattern of keys, and the access that it gives to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub(super) pattern: Box<[u8]>,
    pub(super) access: Access,
}

impl KeyPattern {
    /// Whether it gives access to a key.
    pub(super) fn gives(&self, key: &[u8], access: Access, go_on: impl Fn() -> bool) -> bool {
        self.access.includes(access) && glob::matches(&self.pattern, key, go_on)
    }

    /// Whether it gives access to every key.
    pub(super) fn gives_all(&self, access: Access) -> bool {
        self.access.includes(access) && &*self.pattern == b"*"
    }

    /// Appends the rule that makes it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start: &[u8] = match self.access {
            // By itself `~*` would be all keys, behind which no pattern may follow.
            Access { reads: true, writes: true } if &*self.pattern == b"*" => b"%RW~",
            Access { reads: true, writes: true } => b"~",
            Access { reads: true, .. } => b"%R~",
            _ => b"%W~",
        };
        out.extend_from_slice(start);
        out.extend_from_slice(&self.pattern);
    }
}

/// A channel that a client names, and whether it is a pattern, which has to be allowed by the letter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channel<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) is_pattern: bool,
}

impl Channel<'_> {
    /// Whether a pattern of a user allows it.
    pub(super) fn is_in(self, pattern: &[u8], go_on: impl Fn() -> bool) -> bool {
        if self.is_pattern {
            pattern == self.name
        } else {
            glob::matches(pattern, self.name, go_on)
        }
    }
}
