//! Trees that can be looked at, part by part.

use std::ops::ControlFlow;

use crate::{Engine, KeySpaceId, Result, TreePart};

/// An engine that keeps each key space in a tree, and can show the tree's parts.
pub trait Trees: Engine {
    /// Visits the parts of the tree of a key space, or of a snapshot of it, until `visit` breaks. Writes of before are in
    /// the tree, if it has room for them.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`](crate::Error::NoSuchKeySpace); there is no such snapshot;
    /// [`Error::Damaged`](crate::Error::Damaged), behind the parts that were visited before.
    fn visit_tree(
        &self,
        space: KeySpaceId,
        snapshot: Option<&str>,
        visit: &mut dyn FnMut(TreePart) -> ControlFlow<()>,
    ) -> Result<()>;
}
