//! Extents that a tree does not need any more.

use crate::message::{LargeValue, NOT_ENTERED};
use crate::run::RunPointer;
use crate::storage::Extent;

/// An extent that a tree does not need any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) extent: Extent,
    /// The epoch in which a tree came to lead to it; `u64::MAX` if none ever did.
    pub(crate) birth: u64,
    /// Whether something durable may lead to it though no checkpoint has seen it: the log, to a large value.
    is_logged: bool,
}

impl Dropped {
    /// An extent to which only trees have led.
    pub(crate) fn new(extent: Extent, birth: u64) -> Self {
        Self { extent, birth, is_logged: false }
    }

    /// An extent to which the log may lead.
    pub(crate) fn logged(extent: Extent, birth: u64) -> Self {
        Self { extent, birth, is_logged: true }
    }

    /// The extents of a run that are its own. Another one's goes with that: a buffer drops a run not before the newer ones.
    pub(crate) fn of_run(run: &RunPointer) -> impl Iterator<Item = Self> + '_ {
        run.own_extents().iter().map(|&extent| Self::new(extent, run.entered))
    }

    /// The extents of a large value.
    pub(crate) fn of_value(value: LargeValue) -> impl Iterator<Item = Self> {
        let birth = if value.entered == NOT_ENTERED { u64::MAX } else { value.entered };
        value.pieces.into_iter().map(move |piece| Self::logged(piece.extent, birth))
    }

    /// Whether the last durable state may lead to it, behind which the epoch `since` began.
    pub(crate) fn is_seen(&self, since: u64) -> bool {
        self.is_logged || self.birth < since
    }
}
