//! What a write relies on: the read side of an optimistic transaction.

use crate::{KeyRange, KeySpaceId, Snapshot};

/// What a write relies on: that none of this changed since a snapshot was taken
/// ([`crate::Engine::write_if`]).
///
/// A key changed if it was put since, also with the value that it had, or if it was there at some time since
/// and was deleted; so one that is absent, as it was, may have changed. A range changed if a scan of it finds
/// another key, lacks one, or finds one that changed. Keys of a range that came and went since do not show in
/// a scan: an engine may count them or not.
///
/// An engine never misses a change. Where it cannot tell cheaply, it may report one that was none.
///
/// In a key space that the snapshot does not have, there was nothing.
#[derive(Clone, Copy)]
pub struct Expectation<'a> {
    /// The state that was read. It is one of the engine that is written to.
    pub snapshot: &'a (dyn Snapshot + 'static),
    /// The keys that are as they were, be it absent.
    pub keys: &'a [(KeySpaceId, &'a [u8])],
    /// The ranges that have the keys that they had, unchanged, and no others.
    pub ranges: &'a [(KeySpaceId, KeyRange)],
}
