//! Reading: the view that readers see, the records and values that it leads to, scans and snapshots.

pub(crate) mod pieces;
pub(crate) mod pinned;
pub(crate) mod readable;
pub(crate) mod scan;
pub(crate) mod scans;
pub(crate) mod snapshot;
pub(crate) mod verify;
pub(crate) mod view;
