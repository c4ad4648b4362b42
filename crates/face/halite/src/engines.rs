//! The engines, by name.

use std::sync::Arc;

use halite_contract::{Engine, EngineOptions, Error, RepairReport};
use halite_indexlog::IndexLog;
use halite_lsm::Lsm;

use crate::Result;

/// The engines by the names that [`Builder::engine`](crate::Builder::engine) and `--engine` take; the
/// first is the default.
pub const ENGINES: &[&str] = &[IndexLog::NAME, Lsm::NAME];

/// Opens a store by the name of its engine, below the [`Database`](crate::Database): for tools that
/// say themselves where the pool is, such as the crash lab.
///
/// # Errors
/// [`Error::UnknownEngine`] if `name` is not one of [`ENGINES`]; else why the store does not open.
pub fn open_engine(name: &str, options: &EngineOptions) -> Result<Arc<dyn Engine>> {
    match name {
        IndexLog::NAME => Ok(Arc::new(IndexLog::open(options)?)),
        Lsm::NAME => Ok(Arc::new(Lsm::open(options)?)),
        _ => Err(Error::UnknownEngine { name: name.to_owned(), known: ENGINES.join(", ") }),
    }
}

/// Repairs a store with the engine that made it, or only reports the repairs unless `for_good`.
pub(crate) fn repair_any(
    name: Option<&str>,
    options: &EngineOptions,
    for_good: bool,
) -> Result<RepairReport> {
    let no_repair = |engine: &str| Err(Error::NoRepair { engine: engine.to_owned() });
    let repaired = match name {
        None | Some(Lsm::NAME) if for_good => Lsm::repair(options),
        None | Some(Lsm::NAME) => Lsm::examine(options),
        Some(IndexLog::NAME) => return no_repair(IndexLog::NAME),
        Some(name) => {
            let known = ENGINES.join(", ");
            return Err(Error::UnknownEngine { name: name.to_owned(), known });
        }
    };
    match repaired {
        Err(Error::OtherEngine { found, .. }) if name.is_none() => no_repair(&found),
        other => other,
    }
}

/// Removes the levels, in a folder that was named, of a store that is being discarded, whichever engine made it.
pub(crate) fn discard_levels(options: &EngineOptions) -> Result<()> {
    match Lsm::discard_levels(options) {
        Err(Error::OtherEngine { .. }) => Ok(()),
        other => other,
    }
}

/// Opens a store by the engine that made it, or makes one of the first.
pub(crate) fn open_any(options: &EngineOptions) -> Result<Arc<dyn Engine>> {
    match open_engine(ENGINES[0], options) {
        Err(Error::OtherEngine { found, .. }) if ENGINES.contains(&&*found) => {
            open_engine(&found, options)
        }
        other => other,
    }
}
