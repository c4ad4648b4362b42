//! Which versions of a key a reader may still see.
//!
//! Snapshots divide all sequence numbers into *stripes*: two versions of a key in one stripe are seen by the same
//! snapshots, so all of those see the newer one, and none the older.

use halite_sst::{DELETE, Entry, RangeDelete, RangeDeletes, SEQUENCE_MAX};

/// Decides, entry by entry in their order, whether a compaction keeps it.
pub(crate) struct Retention<'a, F> {
    /// Sequence numbers of snapshots, ascending.
    snapshots: &'a [u64],
    /// The range deletes of all sources of the compaction.
    range_deletes: &'a RangeDeletes,
    /// Whether there may be older versions of a key elsewhere.
    is_below: F,
    last_key: Vec<u8>,
    /// The stripe of the last version of that key.
    last_stripe: Option<usize>,
}

/// The stripe of a sequence number: how many snapshots do not see it.
fn stripe(snapshots: &[u64], sequence: u64) -> usize {
    snapshots.partition_point(|snapshot| *snapshot < sequence)
}

impl<'a, F: Fn(&[u8]) -> bool> Retention<'a, F> {
    pub(crate) fn new(snapshots: &'a [u64], range_deletes: &'a RangeDeletes, is_below: F) -> Self {
        Self { snapshots, range_deletes, is_below, last_key: Vec::new(), last_stripe: None }
    }

    /// Whether an entry is to be kept.
    pub(crate) fn keeps(&mut self, entry: Entry<'_>) -> bool {
        if self.last_stripe.is_none() || self.last_key != entry.key {
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
            self.last_stripe = None;
        }
        let stripe = stripe(self.snapshots, entry.sequence);
        if self.last_stripe.replace(stripe) == Some(stripe) {
            return false;
        }
        let newest_seen = self.snapshots.get(stripe).copied().unwrap_or(SEQUENCE_MAX);
        let covering = self.range_deletes.covering(entry.key, newest_seen);
        if covering.is_some_and(|delete| delete > entry.sequence) {
            return false;
        }
        // In the first stripe no snapshot sees anything older, and so no reader needs to know that it is deleted.
        !(entry.kind == DELETE && stripe == 0 && !(self.is_below)(entry.key))
    }
}

/// The range deletes that are to be kept: the newest of each stripe, and in the first one those that have
/// anything below them.
pub(crate) fn range_deletes_kept(
    deletes: &RangeDeletes,
    snapshots: &[u64],
    is_below: impl Fn(&RangeDelete) -> bool,
) -> RangeDeletes {
    let mut kept = deletes.clone();
    let mut last: Option<(Box<[u8]>, usize)> = None;
    kept.retain(|delete| {
        let stripe = stripe(snapshots, delete.sequence);
        let this = Some((delete.start.clone(), stripe));
        let is_shadowed = last == this;
        last = this;
        !is_shadowed && (stripe > 0 || is_below(delete))
    });
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_sst::PUT;

    fn kept(snapshots: &[u64], versions: &[(u64, u8)], below: bool) -> Vec<u64> {
        let range_deletes = RangeDeletes::fragments(vec![RangeDelete {
            start: (*b"a").into(),
            end: (*b"z").into(),
            sequence: 20,
        }]);
        let mut retention = Retention::new(snapshots, &range_deletes, |_| below);
        let keeps = versions.iter().filter(|(sequence, kind)| {
            retention.keeps(Entry { key: b"key", sequence: *sequence, kind: *kind, value: &[] })
        });
        keeps.map(|(sequence, _)| *sequence).collect()
    }

    #[test]
    fn of_each_stripe_the_newest_version_is_kept_if_it_says_anything() {
        let puts = [(40, PUT), (39, PUT), (30, PUT), (29, PUT), (19, PUT)];
        assert_eq!(kept(&[], &puts, true), [40]);
        assert_eq!(kept(&[29, 35], &puts, true), [40, 30, 29]);
        assert_eq!(kept(&[40], &puts, true), [40]);
        assert_eq!(kept(&[], &[(19, PUT)], true), [0; 0], "the range delete covers it");
        assert_eq!(kept(&[19], &[(19, PUT)], true), [19], "a snapshot sees what is below it");
        assert_eq!(kept(&[], &[(30, DELETE), (29, PUT)], true), [30]);
        assert_eq!(kept(&[], &[(30, DELETE), (29, PUT)], false), [0; 0]);
        assert_eq!(kept(&[29], &[(30, DELETE), (29, PUT)], false), [30, 29]);
    }
}
