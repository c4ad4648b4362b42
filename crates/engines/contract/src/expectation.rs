//! The keys and ranges that a write relies on: the read set of an optimistic transaction.

use crate::{KeyRange, KeySpaceId, Snapshot};

/// The keys and ranges that a write relies on: the write goes ahead only if none of them changed since a
/// snapshot was taken ([`crate::Transactional::write_if`]).
///
/// A key changed if it was put since, even with its old value, or if it was there at some time since and
/// was deleted; so a key that is absent now and was absent then may have changed. A range changed if a scan
/// of it finds another key, lacks one, or finds one that changed. Keys of a range that were put and deleted
/// since do not show in a scan: an engine may count them or not.
///
/// An engine never misses a change. Where it cannot tell cheaply, it may report a change that did not
/// happen.
///
/// A key space that the snapshot does not have counts as empty then.
#[derive(Clone, Copy)]
pub struct Expectation<'a> {
    /// The state that was read, of the engine that is written to.
    pub snapshot: &'a (dyn Snapshot + 'static),
    /// The keys that must not have changed, present or absent.
    pub keys: &'a [(KeySpaceId, &'a [u8])],
    /// The ranges that have the keys that they had, unchanged, and no others.
    pub ranges: &'a [(KeySpaceId, KeyRange)],
}
