//! Figures that only some engines have.

/// A figure of one engine's own, with the words that programs print beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Its name, which ends in its unit: `log_bytes`. Programs print it under this name.
    pub name: &'static str,
    /// The meaning, in a sentence.
    pub help: &'static str,
    /// Its value now.
    pub value: u64,
    /// Whether it matters only to tests and to engineers of this engine: INFO and the metrics leave it out.
    pub is_detail: bool,
}

impl Figure {
    /// A figure for operators.
    #[must_use]
    pub fn new(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, value, is_detail: false }
    }

    /// A figure for tests, and for engineers of the engine.
    #[must_use]
    pub fn detail(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { is_detail: true, ..Self::new(name, help, value) }
    }
}
