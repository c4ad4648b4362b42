//! CLIENT TRACKING: what a client asked for, to know when its cache of keys is out of date.
//!
//! By default, the server remembers which keys a client reads (`store::readers`), and tells it once when one of them
//! changes, expires, or is removed. In the mode BCAST it remembers nothing, and tells the client of every change of
//! keys that begin with some prefixes. Both leave as [`Post`](crate::pubsub::Post)s, behind the replies to the client's
//! requests before: a value that it reads is never older than it believes.

use crate::commands::Command;
use crate::pubsub::{Kind, Subscriptions};

/// The keys that a client is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    /// All that it reads.
    #[default]
    Reads,
    /// Those that it reads right behind CLIENT CACHING YES.
    OptIn,
    /// All that it reads, but for those right behind CLIENT CACHING NO.
    OptOut,
    /// All that begin with some prefixes.
    Broadcast,
}

/// The way in which a client is told of changes.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    pub(crate) mode: Mode,
    /// It is not told of its own changes.
    pub(crate) no_loop: bool,
    /// The client that is told instead; 0: none.
    pub(crate) redirect: u64,
    /// That client was found to be gone.
    pub(crate) is_broken: bool,
    /// CLIENT CACHING was the last command.
    pub(crate) caching: bool,
    /// The prefixes, of the mode BCAST.
    pub(crate) prefixes: Subscriptions,
}

impl Tracking {
    /// Whether the keys of the next command are remembered, if it reads some.
    pub(crate) fn remembers_reads(&self) -> bool {
        match self.mode {
            Mode::Reads => true,
            Mode::OptIn => self.caching,
            Mode::OptOut => !self.caching,
            Mode::Broadcast => false,
        }
    }

    /// Whether the client itself is told of a change that client `by` made.
    pub(crate) fn tells(&self, id: u64, by: u64) -> bool {
        !(self.no_loop && by == id)
    }

    /// Notes that a command was executed outside of a transaction: CLIENT CACHING is about the next one that is not
    /// about clients.
    pub(crate) fn note(&mut self, command: Option<&Command>) {
        if !command.is_some_and(|command| command.full_name.starts_with("client|")) {
            self.caching = false;
        }
    }

    /// The prefixes that a client cannot have together, of those that it has and of new ones: one of each pair begins
    /// with the other.
    pub(crate) fn overlap<'a>(&self, new: &[&'a [u8]]) -> Option<Overlap<'a>> {
        let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
        for (index, prefix) in new.iter().enumerate() {
            let mut known = self.prefixes.names(Kind::Prefix).into_iter();
            if let Some(known) = known.find(|known| overlap(known, prefix)) {
                return Some(Overlap { prefix, other: known.to_vec(), is_known: true });
            }
            if let Some(other) = new[index + 1..].iter().find(|other| overlap(other, prefix)) {
                return Some(Overlap { prefix, other: other.to_vec(), is_known: false });
            }
        }
        None
    }
}

/// Two prefixes of which one begins with the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overlap<'a> {
    pub(crate) prefix: &'a [u8],
    pub(crate) other: Vec<u8>,
    /// The client has the other one already.
    pub(crate) is_known: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::find;

    #[test]
    fn each_mode_remembers_its_reads() {
        for (mode, caching, expected) in [
            (Mode::Reads, false, true),
            (Mode::OptIn, false, false),
            (Mode::OptIn, true, true),
            (Mode::OptOut, false, true),
            (Mode::OptOut, true, false),
            (Mode::Broadcast, false, false),
        ] {
            let tracking = Tracking { mode, caching, ..Tracking::default() };
            assert_eq!(tracking.remembers_reads(), expected, "{mode:?}");
        }
        let mut tracking = Tracking { mode: Mode::OptIn, caching: true, ..Tracking::default() };
        tracking.note(find(b"client").unwrap().subcommand(b"id"));
        assert!(tracking.caching);
        tracking.note(find(b"get"));
        assert!(!tracking.caching);
    }

    #[test]
    fn prefixes_of_which_one_begins_with_another_are_found() {
        let tracking = Tracking::default();
        assert_eq!(tracking.overlap(&[b"foo", b"bar"]), None);
        let overlap = tracking.overlap(&[b"x", b"ab", b"a"]).unwrap();
        assert_eq!(
            (overlap.prefix, &overlap.other[..], overlap.is_known),
            (&b"ab"[..], &b"a"[..], false)
        );
    }
}
