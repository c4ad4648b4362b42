//! The changes of a partition, as a stream.

use std::fmt;

use crate::{Change, Result};

/// The changes of one partition, in the order in which they happened. The iterator ends at the durable end,
/// and may be asked again later: it goes on when there is more.
pub struct Changes(halite_contract::Changes);

impl Changes {
    pub(crate) fn new(changes: halite_contract::Changes) -> Self {
        Self(changes)
    }
}

impl Iterator for Changes {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map_err(Into::into))
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}
