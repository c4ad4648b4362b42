//! The log of a partition: its tail, appending, and the values that lie beside it.

pub(crate) mod append;
pub(crate) mod overflow;
pub(crate) mod tail;
