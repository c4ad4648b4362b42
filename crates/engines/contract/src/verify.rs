//! Verification of a store.

use std::ops::ControlFlow;

/// Called with (bytes done, bytes in all); breaking ends the work early.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// The findings of a verification.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// Records whose checksum was compared.
    pub records: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// The damaged parts.
    pub damage: Vec<Damage>,
    /// Whether everything was read.
    pub complete: bool,
}

/// The actions of a repair, done or planned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The lost parts, with all their contents.
    pub lost: Vec<Damage>,
    /// The names that files which are set aside get, in the same folder: their own, and `.damaged` behind it, or
    /// `.2.damaged` and so on if an earlier repair has left one.
    pub set_aside: Vec<String>,
    /// Tables that can be read, and stay or, with [`RepairReport::is_rebuilt`], are merged.
    pub tables: u64,
    /// Entries in them.
    pub entries: u64,
    /// Whether the list of the store's tables is lost, so that all readable tables are merged. Keys that
    /// were removed may then be seen again.
    pub is_rebuilt: bool,
}

impl RepairReport {
    /// Whether there is nothing to repair.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost.is_empty() && !self.is_rebuilt
    }
}

/// One damaged part of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which part.
    pub what: String,
    /// A description of the damage.
    pub why: String,
}

impl From<Damage> for crate::Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged { what: damage.what, why: damage.why }
    }
}
