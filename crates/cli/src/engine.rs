//! Which engine keeps a database, and the options that only one engine has.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use halite::{Builder, Database, Domain, EngineError, LsmOptions, engines};
use halite_table::Kind;

use crate::folder::{check_folder, open_with};
use crate::{Error, Result};

/// The engine that has levels.
const WITH_LEVELS: &str = "lsm";

/// The engine that has a choice of indexes, and change logs.
const WITH_INDEXES: &str = "indexlog";

/// The engine of a new database, or the one that an existing database has to have.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    #[arg(
        long,
        help = help(),
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(engines().into_iter().map(|engine| engine.name)),
    )]
    engine: Option<String>,

    /// Keep the sorted tables of the engine lsm in DIR, on an SSD; by default in the folder `levels` of PATH
    #[arg(long, value_name = "DIR")]
    levels: Option<PathBuf>,
}

/// The text of `--help` about the engines.
fn help() -> String {
    let engines = engines().into_iter().map(|engine| format!("{}, {}", engine.name, engine.about));
    format!(
        "The engine that keeps the data: {}. By default the one that the database was made by. A new database gets the \
         engine that an option needs (--levels lsm; --index and --change-log indexlog), or {}",
        engines.collect::<Vec<_>>().join("; "),
        "lsm on an ordinary file and indexlog in memory, on tmpfs or DAX",
    )
}

impl EngineArgs {
    /// Whether `--engine` names one.
    pub(crate) fn is_named(&self) -> bool {
        self.engine.is_some()
    }

    /// The recovery method of the testbed that `--engine` names, if it does.
    pub(crate) fn method(&self) -> Option<Kind> {
        let engine = self.engine.as_deref()?;
        Kind::ALL.iter().copied().find(|kind| kind.engine() == engine)
    }

    /// Opens the database in `path`, or creates it, as `builder` says. `asked` is an option that was given and that
    /// only the engine with indexes has.
    pub(crate) fn open_or_create(
        &self,
        builder: Builder,
        path: &Path,
        asked: Option<&str>,
    ) -> Result<Database> {
        check_folder(path)?;
        if self.engine.is_some() || !Database::exists(path) {
            return open_with(self.for_new(builder, asked)?, path);
        }
        let builder = self.with_levels(builder);
        let (engine, option) = match (&self.levels, asked) {
            (None, None) => return open_with(builder, path),
            (Some(_), None) => (WITH_LEVELS, "--levels"),
            (None, Some(asked)) => (WITH_INDEXES, asked),
            (Some(_), Some(asked)) => return Err(no_engine_has_both(asked)),
        };
        open_with(builder.engine(engine), path).map_err(|error| match error {
            Error::Database {
                source: halite::Error::Engine(EngineError::OtherEngine { found, .. }),
                ..
            } => Error::Usage(format!(
                "{option}: {} was made by the engine {found}, which has no use for it; leave it out",
                path.display()
            )),
            other => other,
        })
    }

    /// Refuses `--levels` for a store that an engine without levels keeps.
    pub(crate) fn check_levels(&self, engine: &str) -> Result<()> {
        match &self.levels {
            Some(_) if engine != WITH_LEVELS => Err(useless("--levels", engine, WITH_LEVELS)),
            _ => Ok(()),
        }
    }

    /// `builder`, for a new database.
    pub(crate) fn for_new(&self, builder: Builder, asked: Option<&str>) -> Result<Builder> {
        let engine = match (self.engine.as_deref(), &self.levels, asked) {
            (_, Some(_), Some(asked)) => return Err(no_engine_has_both(asked)),
            (Some(engine), Some(_), _) if engine != WITH_LEVELS => {
                return Err(useless("--levels", engine, WITH_LEVELS));
            }
            (Some(engine), _, Some(asked)) if engine != WITH_INDEXES => {
                return Err(useless(asked, engine, WITH_INDEXES));
            }
            (Some(engine), ..) => engine,
            (None, Some(_), None) => WITH_LEVELS,
            (None, None, Some(_)) => WITH_INDEXES,
            (None, None, None) => return Ok(builder),
        };
        Ok(self.with_levels(builder.engine(engine)))
    }

    /// Why a database is kept by its engine: for a message to people.
    pub(crate) fn reason(&self, is_new: bool, asked: Option<&str>, domain: Domain) -> String {
        match (&self.engine, &self.levels, asked) {
            _ if !is_new => "which it was made by".into(),
            (Some(_), ..) => "by --engine".into(),
            (None, Some(_), _) => "which --levels needs".into(),
            (None, None, Some(asked)) => format!("which {asked} needs"),
            (None, None, None) => format!("the default on {domain} (--engine names another)"),
        }
    }

    fn with_levels(&self, builder: Builder) -> Builder {
        match &self.levels {
            Some(levels) => {
                builder.lsm(LsmOptions { levels: Some(levels.clone()), ..LsmOptions::default() })
            }
            None => builder,
        }
    }
}

fn useless(option: &str, engine: &str, with: &str) -> Error {
    Error::Usage(format!(
        "{option}: the engine {engine} has no use for it; leave it out, or give --engine {with}"
    ))
}

fn no_engine_has_both(asked: &str) -> Error {
    Error::Usage(format!("no engine has a use for both --levels and {asked}; leave one out"))
}
