//! Writes that depend on earlier reads.

use crate::{Durability, Expectation, Op, Result, Snapshots};

/// An engine that transactions can be built on.
pub trait Transactional: Snapshots {
    /// [`Engine::write`](crate::Engine::write), if no expected key or range has changed; no other write comes in
    /// between. Without operations, it only checks whether one has changed.
    ///
    /// The expected state is durable no later than the operations are: after a crash, they are not there
    /// without it. The call returns `Ok` if it is given neither operations nor expectations.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) if an expected key or range changed,
    /// [`Error::NoSuchKeySpace`](crate::Error::NoSuchKeySpace) also for an expected key space that was dropped,
    /// [`Error::ForeignSnapshot`](crate::Error::ForeignSnapshot), and the errors of
    /// [`Engine::write`](crate::Engine::write). No operation is applied then.
    fn write_if(
        &self,
        ops: &[Op<'_>],
        durability: Durability,
        expected: &[Expectation<'_>],
    ) -> Result<()>;
}
