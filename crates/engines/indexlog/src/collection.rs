//! Collection: how space comes back, and how a write finds room.

pub(crate) mod collector;
pub(crate) mod compact;
mod moving;
mod room;
mod under_scans;
