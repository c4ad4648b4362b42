//! The errors of commands, and the exit code of each.

use std::io;
use std::path::{Path, PathBuf};

use halite::BackupError;
use halite_rdb::Why;
use halite_server::stored::Unreadable;

/// A result of a command.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The exit code after a SIGINT or a SIGTERM.
pub(crate) const INTERRUPTED: u8 = 130;

/// An error of a command: the thing, the reason, the way out, on one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "{}: there is no database here; \
         create one with `halite put`, `halite load`, `halite serve` or `halite pool init`", path.display()
    )]
    NoDatabase { path: PathBuf },

    #[error("{}: not a folder; a database is a folder, name another path", path.display())]
    NotAFolder { path: PathBuf },

    #[error("{}", with_path(path, source))]
    Database { path: PathBuf, source: halite::Error },

    #[error("{}", with_path(path, source))]
    Tables { path: PathBuf, source: halite_table::Error },

    #[error("{}: {source}", path.display())]
    Backup { path: PathBuf, source: BackupError },

    #[error("{}: there is no key space `{space}`; there is {existing}", path.display())]
    NoKeySpace { path: PathBuf, space: String, existing: String },

    #[error("{key}: there is no such key in key space `{space}` of {}", path.display())]
    NoKey { path: PathBuf, space: String, key: String },

    #[error("{}: there is no object store `{store}`; there is {existing}", path.display())]
    NoObjectStore { path: PathBuf, store: String, existing: String },

    #[error("{name}: there is no such object in object store `{store}` of {}", path.display())]
    NoObject { path: PathBuf, store: String, name: String },

    #[error("{key}: the object `{name}` has no such metadata")]
    NoMetadata { key: String, name: String },

    #[error(
        "{}: no stream for the key space `{space}` was interrupted; send the snapshot from its beginning",
        path.display()
    )]
    NoToken { path: PathBuf, space: String },

    #[error("{}: {parts} damaged; restore a backup, or see `halite repair --help`", path.display())]
    DamageFound { path: PathBuf, parts: String },

    #[error("{}: {parts} lost; `halite repair` goes on without, a backup brings it back", path.display())]
    RepairNeeded { path: PathBuf, parts: String },

    #[error("{}: {source}", path.display())]
    Form { path: PathBuf, source: halite_server::Error },

    #[error("{}: the value of `{key}` in key space `{space}`: {source}", path.display())]
    Value { path: PathBuf, space: String, key: String, source: Unreadable },

    #[error("{thing}: {source}")]
    Rdb { thing: String, source: halite_rdb::Error },

    /// Standard output has no reader any more.
    #[error("standard output was closed")]
    OutputClosed,

    #[error("{thing}: {source}")]
    Io { thing: String, source: io::Error },

    #[error("{thing}: {why}")]
    Input { thing: String, why: String },

    #[error("{0}")]
    Usage(String),

    #[error("{source}; {records} before it loaded and kept")]
    LoadFailed { source: Box<Error>, records: String },

    #[error("interrupted; {records} loaded and kept, the rest is not read")]
    Interrupted { records: String },

    #[error("interrupted; {left}")]
    Stopped { left: &'static str },

    #[error("{source}; go on with --from {from}")]
    Ended { source: Box<Error>, from: String },

    #[error("{found}")]
    LabFound { found: String },

    #[error("interrupted; the summary is of what was looked at until then")]
    LabInterrupted,

    #[error("interrupted; the rows are of what was measured until then")]
    BenchInterrupted,

    #[error(transparent)]
    Server(#[from] halite_server::Error),
}

impl Error {
    pub(crate) fn io(thing: impl ToString, source: io::Error) -> Self {
        Self::Io { thing: thing.to_string(), source }
    }

    pub(crate) fn input(thing: impl ToString, why: impl ToString) -> Self {
        Self::Input { thing: thing.to_string(), why: why.to_string() }
    }

    /// The codes that `halite --help` documents.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::NoKey { .. }
            | Self::NoObject { .. }
            | Self::NoMetadata { .. }
            | Self::NoToken { .. } => 3,
            Self::DamageFound { .. } | Self::RepairNeeded { .. } => 4,
            Self::Database { source, .. } if source.damage().is_some() => 4,
            Self::Database { source: halite::Error::Engine(source), .. }
                if source.is_damaged_input() =>
            {
                4
            }
            Self::Tables { source, .. } if source.is_damage() => 4,
            Self::Backup {
                source: BackupError::Damaged { .. } | BackupError::Truncated { .. },
                ..
            } => 4,
            Self::Rdb { source, .. } if matches!(source.why, Why::Checksum { .. }) => 4,
            Self::LoadFailed { source, .. } | Self::Ended { source, .. } => source.exit_code(),
            Self::LabFound { .. } => 5,
            Self::Interrupted { .. }
            | Self::Stopped { .. }
            | Self::LabInterrupted
            | Self::BenchInterrupted => INTERRUPTED,
            _ => 1,
        }
    }
}

/// Errors of the pool name its file already; the others are about the whole database.
fn with_path(path: &Path, source: &impl ToString) -> String {
    let (path, text) = (path.display().to_string(), source.to_string());
    if text.starts_with(&path) { text } else { format!("{path}: {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_has_its_exit_code_wherever_it_is_met() {
        let (what, why) = ("record 7".into(), "checksum".into());
        let damaged = halite::EngineError::Damaged { what, why };
        let met = Error::Database { path: "data".into(), source: damaged.into() };
        assert_eq!(met.exit_code(), 4);
        assert!(met.to_string().starts_with("data: damaged: record 7"));
        assert_eq!(
            Error::LoadFailed { source: Box::new(met), records: String::new() }.exit_code(),
            4
        );
        assert_eq!(Error::input("x", "y").exit_code(), 1);
    }
}
