//! Validation of a commit: no key or range that a transaction relies on has changed since its snapshot.
//!
//! A batch with expectations is validated in its turn of the ring, when all earlier batches are committed and no later one
//! is granted anything: no change can come between validation and commit. A key costs a look-up of its newest version, a
//! range a scan that ends at the first newer one.

use std::sync::Arc;

use halite_contract::{Error, Expectation, Partitioning, Result};

use crate::read::At;
use crate::scan::bounds;
use crate::snapshot::StoreSnapshot;
use crate::store::Store;

/// Refuses if a key or range changed since the snapshot of the expectation. In a turn, with everything committed.
///
/// # Errors
/// [`Error::Conflict`]; [`Error::ForeignSnapshot`]; [`Error::Damaged`].
pub(crate) fn validate(
    store: &Arc<Store>,
    partitioning: &Partitioning,
    expected: &Expectation<'_>,
) -> Result<()> {
    let snapshot = expected.snapshot.downcast_ref::<StoreSnapshot>();
    let snapshot = snapshot.filter(|snapshot| Arc::ptr_eq(&snapshot.at.store, store));
    let then = snapshot.ok_or(Error::ForeignSnapshot)?.at.sequence;
    let present = At::Sequence(store.commits.granted());
    for &(space, key) in expected.keys {
        let full = [&space.0.to_be_bytes(), key].concat();
        let newest = store.newest(partitioning.partition_of(key), &full, present)?;
        if newest.is_some_and(|sequence| sequence > then) {
            return Err(Error::Conflict { space, at: key.to_vec() });
        }
    }
    for (space, range) in expected.ranges {
        let (start, end) = bounds(*space, range);
        for tree in partitioning.partitions_of(range.start(), range.end()) {
            if store.changed_since(tree, &start, &end, then)? {
                return Err(Error::Conflict { space: *space, at: range.start().to_vec() });
            }
        }
    }
    Ok(())
}
