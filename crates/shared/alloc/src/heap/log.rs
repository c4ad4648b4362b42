//! The publications that opening would apply again, and the places that their records are about.
//!
//! Those are the newest one, and the one before, whose words may not be durable in their places while the newest one's
//! record already is. Any other change at one of these places, or of the bytes that the newest one published, has to wait
//! until they are *settled*: opening would undo the change, or take the newest publication for one that was interrupted.

use super::ranges::Ranges;
use super::record::Entry;

/// The records since the last barrier.
#[derive(Default)]
pub(super) struct Log {
    /// Of the newest record.
    sequence: u64,
    /// The places that opening would store to, and those of the newest publication's bytes.
    newest: Ranges,
    newest_stores: Vec<(u64, u64)>,
    before: Ranges,
    is_live: bool,
}

impl Log {
    /// The log behind a barrier with a sequence number.
    pub(super) fn behind(sequence: u64) -> Self {
        Self { sequence, ..Self::default() }
    }

    /// The sequence number of the newest record.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether opening would apply a record.
    pub(super) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Counts a record, which is durable and published these ranges.
    pub(super) fn push(&mut self, entries: &[Entry], published: Vec<(u64, u64)>) {
        self.sequence += 1;
        self.is_live = true;
        let stores = entries.iter().filter_map(|entry| entry.stores());
        let stores: Vec<_> = stores.map(|(place, len)| (place, place + len)).collect();
        self.before = Ranges::of(std::mem::replace(&mut self.newest_stores, stores.clone()));
        self.newest = Ranges::of([stores, published].concat());
    }

    /// Whether a change of these bytes has to wait.
    pub(super) fn touches(&self, place: u64, len: u64) -> bool {
        self.newest.touch(place, len) || self.before.touch(place, len)
    }
}
