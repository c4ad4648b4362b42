//! The purposes of batches.

use halite_contract::Op;

/// The purpose of a batch, by which a full store refuses it, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It puts keys.
    Put,
    /// It has small values that have to be written where puts are refused.
    Bookkeeping,
    /// It only removes.
    Removal,
}

impl Purpose {
    /// The purpose of operations that are no mere removal.
    pub(crate) fn of(ops: &[Op<'_>], otherwise: Self) -> Self {
        let removes = |op: &Op<'_>| matches!(op, Op::Delete { .. } | Op::DeleteRange { .. });
        if ops.iter().all(removes) { Self::Removal } else { otherwise }
    }
}
