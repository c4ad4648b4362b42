//! Features that only some engines have, and for which nothing else can stand in.

use std::fmt;

/// A feature that an engine's row in the registry names, so that the refusal of an engine without it can say which one
/// has it. Of an open store, [`Engine::capabilities`](crate::Engine::capabilities) has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// [`ObjectStores`](crate::ObjectStores).
    Objects,
    /// [`Pooled`](crate::Pooled).
    Pool,
    /// [`Datasets`](crate::Datasets).
    Datasets,
    /// [`Transfers`](crate::Transfers).
    Transfers,
    /// [`Tiered`](crate::Tiered).
    Tiers,
    /// [`Trees`](crate::Trees).
    Trees,
}

impl fmt::Display for Feature {
    /// The feature, to stand behind `has no`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Objects => "object stores",
            Self::Pool => "pool of devices",
            Self::Datasets => {
                "snapshots that are kept, clones, copied ranges and renamed key spaces"
            }
            Self::Transfers => "snapshots that are sent",
            Self::Tiers => "storage classes",
            Self::Trees => "trees",
        })
    }
}
