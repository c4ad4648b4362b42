//! placeholder
/// placeholder
#[derive(Debug, thiserror::Error)]
#[error("placeholder")]
pub struct Error;
