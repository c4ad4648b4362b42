//! Verification of a store.

use std::ops::ControlFlow;

/// Called with (bytes done, bytes in all); breaking ends the work early.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// What a verification found.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// Records whose checksum was compared.
    pub records: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// Whether everything was read.
    pub complete: bool,
}

/// One damaged part of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which part.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
}

impl From<Damage> for crate::Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged { what: damage.what, why: damage.why }
    }
}
