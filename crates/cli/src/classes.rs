//! Storage classes as the commands name them.

use std::path::Path;

use clap::ValueEnum;
use halite::{MigrationReport, Preference, Progress};
use serde_json::json;

use crate::folder::in_database;
use crate::interrupt::Interrupt;
use crate::size::human;
use crate::{Error, Result, output, progress};

/// The storage class that data is to lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Prefer {
    /// The first class
    Fastest,
    /// The second one
    Fast,
    /// The third one
    Slow,
    /// The last one
    Slowest,
    /// Where the database puts it
    None,
}

impl From<Prefer> for Preference {
    fn from(prefer: Prefer) -> Self {
        match prefer {
            Prefer::Fastest => Self::Fastest,
            Prefer::Fast => Self::Fast,
            Prefer::Slow => Self::Slow,
            Prefer::Slowest => Self::Slowest,
            Prefer::None => Self::None,
        }
    }
}

/// The name of a preference, as `--prefer` takes it.
pub(crate) fn name_of(preference: Preference) -> &'static str {
    match preference {
        Preference::None => "none",
        Preference::Fastest => "fastest",
        Preference::Fast => "fast",
        Preference::Slow => "slow",
        Preference::Slowest => "slowest",
    }
}

/// Runs a migration in the database in `path`, and prints its outcome.
pub(crate) fn migrate(
    path: &Path,
    as_json: bool,
    interrupt: &Interrupt,
    migration: impl FnOnce(Progress<'_>) -> halite::Result<MigrationReport>,
) -> Result<()> {
    let bar = progress::bytes("migrating", Some(0));
    let report = migration(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        interrupt.flow()
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| in_database(path, error))?;
    if !report.is_complete {
        let left = "moved data stays moved, and the next migration moves the rest";
        return Err(Error::Stopped { left });
    }
    let MigrationReport { moved_bytes, skipped_bytes, .. } = report;
    if as_json {
        return output::json(&json!({ "moved": moved_bytes, "skipped": skipped_bytes }));
    }
    let skipped = match skipped_bytes {
        0 => String::new(),
        bytes => format!(", {} were replaced by writes meanwhile", human(bytes)),
    };
    output::text(&format!("moved {}{skipped}\n", human(moved_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preference_is_printed_as_it_is_named() {
        for prefer in Prefer::value_variants() {
            let named = name_of((*prefer).into());
            assert_eq!(Prefer::from_str(named, false), Ok(*prefer));
        }
    }
}
