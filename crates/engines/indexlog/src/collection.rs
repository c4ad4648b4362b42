//! Collection: how space comes back, and how a write finds room.

pub(crate) mod collect;
pub(crate) mod compact;
pub(crate) mod liveness;
pub(crate) mod room;
pub(crate) mod under_scans;
