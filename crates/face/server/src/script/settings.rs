//! The settings of scripts.

use std::time::Duration;

/// The settings of scripts.
#[derive(Debug, Clone)]
pub(crate) struct ScriptSettings {
    /// How long a script runs before other clients are told that it does; zero: they wait.
    pub(crate) busy_threshold: Duration,
    /// How long a script may run; zero: it may for ever.
    pub(crate) time_max: Duration,
    /// Bytes that a Lua state may take.
    pub(crate) memory_max: usize,
    /// Whether an error of a script undoes its changes.
    pub(crate) rolls_back: bool,
}

impl Default for ScriptSettings {
    fn default() -> Self {
        Self {
            busy_threshold: Duration::from_millis(5000),
            time_max: Duration::ZERO,
            memory_max: 256 << 20,
            rolls_back: true,
        }
    }
}
