//! Readers that keep space which is otherwise garbage.

use std::fmt;
use std::time::Duration;

/// The kind of a reader of a past state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reader {
    /// A scan: an iterator that has not come to its end, or was not dropped.
    #[default]
    Scan,
    /// A snapshot.
    Snapshot,
    /// A transaction.
    Transaction,
    /// A backup.
    Backup,
}

impl Reader {
    /// The name: `scan`, `snapshot`, `transaction` or `backup`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Snapshot => "snapshot",
            Self::Transaction => "transaction",
            Self::Backup => "backup",
        }
    }
}

/// The oldest reader of a past state: the space of records that were replaced since is kept for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its kind.
    pub reader: Reader,
    /// The time since it began.
    pub age: Duration,
}

impl Holder {
    /// The older one.
    #[must_use]
    pub fn or_older(self, other: Option<Self>) -> Self {
        other.filter(|other| other.age > self.age).unwrap_or(self)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} that began {:.1} s ago", self.reader.name(), self.age.as_secs_f64())
    }
}
