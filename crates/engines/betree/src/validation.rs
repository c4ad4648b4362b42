//! Validation of a commit: no key or range that a transaction relies on has changed since its snapshot.
//!
//! A commit is validated in its turn, with all earlier commits in memtables, visible or not. Changes since the
//! snapshot are in the first memtable that had something invisible then, and in those behind it; no tree is read.

use halite_contract::{Error, Expectation, Result};

use crate::catalogue::Catalogue;
use crate::record::{end_of, full_key};
use crate::snapshot::StoreSnapshot;
use crate::store::Store;
use crate::store::recent::any_since;

/// Refuses if a key or range changed since the snapshot of the expectation. In a turn.
///
/// # Errors
/// [`Error::Conflict`]; [`Error::ForeignSnapshot`]; [`Error::NoSuchKeySpace`].
pub(crate) fn validate(
    store: &Store,
    catalogue: &Catalogue,
    expected: &Expectation<'_>,
) -> Result<()> {
    let snapshot = expected.snapshot.downcast_ref::<StoreSnapshot>();
    let snapshot = snapshot.filter(|snapshot| snapshot.is_of(store));
    let snapshot = snapshot.ok_or(Error::ForeignSnapshot)?;
    let then = snapshot.at;
    // Commits that were not visible then may be in memtables before the active one.
    let hidden = snapshot.view.frozen.iter().rev().find(|memtable| memtable.last() > then);
    let from = hidden.unwrap_or(&snapshot.view.active);
    for &(space, key) in expected.keys {
        catalogue.check(space)?;
        let full = full_key(space.0, key);
        if any_since(from, |memtable| memtable.has_changed(&full, then)) {
            return Err(Error::Conflict { space, at: key.to_vec() });
        }
    }
    for (space, range) in expected.ranges {
        catalogue.check(*space)?;
        let start = full_key(space.0, range.start());
        let end =
            range.end().map_or_else(|| end_of(space.0).to_vec(), |end| full_key(space.0, end));
        if any_since(from, |memtable| memtable.has_range_changed(&start, &end, then)) {
            return Err(Error::Conflict { space: *space, at: range.start().to_vec() });
        }
    }
    Ok(())
}
