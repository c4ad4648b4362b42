//! The media of the experiments.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A medium that stores are measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Persistent memory: the run's folder.
    Pmem,
    /// A disk: the folder of `--disk`.
    Disk,
}

impl Medium {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Pmem, Self::Disk];

    /// The name in params and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pmem => "pmem",
            Self::Disk => "disk",
        }
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Medium {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|medium| medium.name() == name);
        found.ok_or_else(|| Error::unknown("medium", name, Self::ALL.map(Self::name)))
    }
}
