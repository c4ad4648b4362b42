//! The recovery methods by name.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A recovery method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// In place in memory, with a log and checkpoints in files.
    InP,
    /// In place in a persistent heap, with an undo log of pointers.
    NvmInP,
    /// Copy-on-write trees in a file.
    Cow,
    /// Copy-on-write trees in a persistent heap.
    NvmCow,
    /// A memtable, with a log and sorted runs in files.
    Log,
    /// Memtables in a persistent heap.
    NvmLog,
    /// Versions in a persistent heap, with a log that is written behind them.
    NvmWbl,
}

impl Kind {
    /// All of them, each traditional one before its counterpart for persistent memory; the last one is beyond the source.
    pub const ALL: &'static [Self] =
        &[Self::InP, Self::NvmInP, Self::Cow, Self::NvmCow, Self::Log, Self::NvmLog, Self::NvmWbl];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InP => "inp",
            Self::NvmInP => "nvm-inp",
            Self::Cow => "cow",
            Self::NvmCow => "nvm-cow",
            Self::Log => "log",
            Self::NvmLog => "nvm-log",
            Self::NvmWbl => "nvm-wbl",
        }
    }

    /// The name of its engine.
    #[must_use]
    pub const fn engine(self) -> &'static str {
        match self {
            Self::InP => "table:inp",
            Self::NvmInP => "table:nvm-inp",
            Self::Cow => "table:cow",
            Self::NvmCow => "table:nvm-cow",
            Self::Log => "table:log",
            Self::NvmLog => "table:nvm-log",
            Self::NvmWbl => "table:nvm-wbl",
        }
    }

    /// Whether its partitions have files beside the pool.
    #[must_use]
    pub const fn has_files(self) -> bool {
        matches!(self, Self::InP | Self::Cow | Self::Log)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|kind| kind.name() == name);
        found.copied().ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            Error::UnknownMethod { name: name.into(), known: known.join(", ").into() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_that_leads_back_to_it() {
        for &kind in Kind::ALL {
            assert_eq!(kind.name().parse::<Kind>().unwrap(), kind);
        }
        let refused = "wal".parse::<Kind>().unwrap_err().to_string();
        assert!(refused.contains("\"wal\"") && refused.contains("nvm-inp"), "{refused}");
    }
}
