//! The engines, by name: the registry, and a database's use of the row of its engine.

use std::fs::DirEntry;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use halite_contract::{
    Beside, Engine, EngineOptions, Error as EngineError, Feature, Registration, RepairReport,
};

use halite_pmem::{Domain, Medium, Pool, PoolOptions};

use crate::{Error, Result};

/// The engines that there are without [`register_engine`], before those of the testbed.
static BUILT_IN: [Registration; 3] =
    [halite_indexlog::REGISTRATION, halite_lsm::REGISTRATION, halite_betree::REGISTRATION];

fn built_in() -> impl Iterator<Item = &'static Registration> {
    BUILT_IN.iter().chain(&halite_table::REGISTRATIONS)
}

/// Bytes of an engine's name: a pool names its engine in a root, behind a few bytes.
const NAME_LEN_MAX: usize = 17;

static REGISTERED: RwLock<Vec<&Registration>> = RwLock::new(Vec::new());

/// The engines by the names that [`Builder::engine`](crate::Builder::engine) and `--engine` take. More may be
/// [registered](register_engine).
/// The last ones, from [`TESTBED`] on, are recovery methods of the testbed.
pub const ENGINES: &[&str] = &names();

/// The place in [`ENGINES`] of the first engine that is a recovery method of the testbed, made to compare methods.
pub const TESTBED: usize = 3;

const fn names() -> [&'static str; TESTBED + halite_table::ENGINES.len()] {
    let mut names = [""; TESTBED + halite_table::ENGINES.len()];
    names[0] = halite_indexlog::REGISTRATION.name;
    names[1] = halite_lsm::REGISTRATION.name;
    names[2] = halite_betree::REGISTRATION.name;
    let mut at = TESTBED;
    while at < names.len() {
        names[at] = halite_table::ENGINES[at - TESTBED];
        at += 1;
    }
    names
}

/// Adds an engine of one's own: databases, servers, backups and tools find it by its name from then on.
///
/// # Panics
/// If there is an engine of this name, or the name is too long for a root of a pool.
pub fn register_engine(engine: &'static Registration) {
    assert!(engine.name.len() <= NAME_LEN_MAX, "the name `{}` is too long", engine.name);
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let mut known = built_in().chain(registered.iter().copied());
    assert!(known.all(|of| of.name != engine.name), "there is an engine `{}` already", engine.name);
    registered.push(engine);
}

/// All engines, the built-in ones first.
#[must_use]
pub fn engines() -> Vec<&'static Registration> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    built_in().chain(registered.iter().copied()).collect()
}

fn find(name: &str) -> Option<&'static Registration> {
    engines().into_iter().find(|engine| engine.name == name)
}

/// The engine of a name.
///
/// # Errors
/// [`Error::UnknownEngine`].
pub fn find_engine(name: &str) -> Result<&'static Registration> {
    find(name).ok_or_else(|| {
        let names: Vec<_> = engines().iter().map(|engine| engine.name).collect();
        Error::UnknownEngine { name: name.to_owned(), known: names.join(", ") }
    })
}

/// The first engine that has a feature: that of a new database which is to have it.
#[must_use]
pub fn engine_with(feature: Feature) -> Option<&'static Registration> {
    engines().into_iter().find(|engine| engine.offers.contains(&feature))
}

/// Refuses an engine by its name, if it lacks a feature.
pub(crate) fn check_offer(name: &str, feature: Feature) -> Result<()> {
    let engine = find_engine(name)?;
    match engine.offers.contains(&feature) {
        true => Ok(()),
        false => Err(lacks(engine.name, feature)),
    }
}

/// The error of an engine without a feature, which names those that have it.
fn lacks(engine: &'static str, feature: Feature) -> Error {
    let having = engines().into_iter().filter(|engine| engine.offers.contains(&feature));
    Error::Lacks { engine, feature, having: having.map(|engine| engine.name).collect() }
}

/// The capability of an open store's engine that is a feature, or the refusal.
pub(crate) fn offered<T>(engine: &dyn Engine, found: Option<T>, feature: Feature) -> Result<T> {
    found.ok_or_else(|| lacks(engine.name(), feature))
}

/// Opens a store by the name of its engine, below the [`Database`](crate::Database): for tools that
/// say themselves where the pool is, such as the crash lab.
///
/// # Errors
/// [`Error::UnknownEngine`] if there is no engine `name`; else why the store does not open.
pub fn open_engine(name: &str, options: &EngineOptions) -> Result<Arc<dyn Engine>> {
    let engine = find_engine(name)?;
    if is_to_be_made(options) {
        check_alone(options)?;
    }
    Ok((engine.open)(options)?)
}

/// The engine that a new store is made by: the first that the options ask for, or the default of the medium.
fn engine_for(options: &EngineOptions) -> Result<&'static Registration> {
    let engines = engines();
    if let Some(asked) = engines.iter().find(|engine| (engine.is_asked_for)(options)) {
        return Ok(asked);
    }
    let domain = domain_of(options)?;
    let default = engines.into_iter().find(|engine| engine.default_on.contains(&domain));
    Ok(default.unwrap_or(&BUILT_IN[0]))
}

/// The domain that a new store's pool will have.
fn domain_of(options: &EngineOptions) -> Result<Domain> {
    let PoolOptions { medium, in_memory, assume_domain, .. } = &options.pool_options;
    let known = assume_domain.or(medium.as_ref().map(Medium::domain));
    if let Some(domain) = known.or(in_memory.then_some(Domain::Volatile)) {
        return Ok(domain);
    }
    // A pool that is not installed leaves nothing behind.
    let mut probe = options.pool_options.clone();
    probe.size_initial = 0;
    let pool = Pool::create(&options.pool, &probe).map_err(EngineError::from)?;
    Ok(pool.domain())
}

/// Whether an opening makes the store, as there is none.
fn is_to_be_made(options: &EngineOptions) -> bool {
    options.create && !Pool::exists(&options.pool, &options.pool_options)
}

/// Refuses to make a pool where an engine's files lie beside the place: a database was there, and has lost its pool.
fn check_alone(options: &EngineOptions) -> Result<()> {
    let folder = options.pool.parent().filter(|_| !options.pool_options.in_memory);
    for beside in folders_beside() {
        let beside = folder.map(|folder| folder.join(beside));
        // A file system that is mounted there has a folder of its own.
        let is_of_database = |entry: io::Result<DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name() != "lost+found")
        };
        let has_files =
            |folder: &PathBuf| folder.read_dir().is_ok_and(|mut all| all.any(is_of_database));
        if let Some(beside) = beside.filter(has_files) {
            return Err(EngineError::Damaged {
                what: options.pool.display().to_string(),
                why: format!(
                    "it is missing, and {} has files of a database: bring the pool back, or move that folder away",
                    beside.display()
                ),
            }
            .into());
        }
    }
    Ok(())
}

/// Opens a store by the engine that made it, or makes one.
pub(crate) fn open_any(options: &EngineOptions, needs: Option<Feature>) -> Result<Arc<dyn Engine>> {
    if is_to_be_made(options) {
        check_alone(options)?;
        let engine = match needs.and_then(engine_with) {
            Some(engine) => engine,
            None => engine_for(options)?,
        };
        return Ok((engine.open)(options)?);
    }
    match (BUILT_IN[0].open)(options) {
        Err(EngineError::OtherEngine { found, .. }) if find(&found).is_some() => {
            open_engine(&found, options)
        }
        other => Ok(other?),
    }
}

/// Repairs a store with the engine that made it, or only reports the repairs unless `for_good`.
pub(crate) fn repair_any(
    name: Option<&str>,
    options: &EngineOptions,
    for_good: bool,
) -> Result<RepairReport> {
    let Some(name) = name else {
        // Each engine that can repair says by which engine the store was made, if it was another one.
        let repaired = besides().into_iter().map(|beside| (beside.repair)(options, for_good));
        let other = |report: &std::result::Result<_, EngineError>| {
            matches!(report, Err(EngineError::OtherEngine { .. }))
        };
        let mut refused = None;
        for report in repaired {
            if !other(&report) {
                return Ok(report?);
            }
            refused = refused.or(report.err());
        }
        return match refused {
            Some(EngineError::OtherEngine { found, .. }) if find(&found).is_some() => {
                Err(Error::NoRepair { engine: found })
            }
            Some(other) => Err(other.into()),
            _ => Err(Error::NoRepair { engine: "unknown".into() }),
        };
    };
    match &find_engine(name)?.beside {
        Some(beside) => Ok((beside.repair)(options, for_good)?),
        None => Err(Error::NoRepair { engine: name.to_owned() }),
    }
}

/// The folders that engines keep beside their pools, with their repairs.
fn besides() -> Vec<&'static Beside> {
    engines().into_iter().filter_map(|engine| engine.beside.as_ref()).collect()
}

/// The names of the folders that engines have beside their pools.
pub(crate) fn folders_beside() -> Vec<&'static str> {
    let mut folders: Vec<_> = besides().into_iter().map(|beside| beside.folder).collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// Removes the files beside the pool of a store that is being discarded, whichever engine made it.
pub(crate) fn discard_beside(options: &EngineOptions) -> Result<()> {
    for beside in besides() {
        match (beside.discard)(options) {
            Err(EngineError::OtherEngine { .. }) => {}
            other => return Ok(other?),
        }
    }
    Ok(())
}

/// Replaces the folders elsewhere that options name for files beside the pool: `place` is given the folder's name
/// beside the pool, and the one elsewhere.
pub(crate) fn place_beside<E>(
    options: &mut EngineOptions,
    place: impl Fn(&str, PathBuf) -> std::result::Result<Option<PathBuf>, E>,
) -> std::result::Result<(), E> {
    for beside in besides() {
        let Some(elsewhere) = beside.elsewhere.map(|elsewhere| elsewhere(options)) else {
            continue;
        };
        if let Some(named) = elsewhere.take() {
            *elsewhere = place(beside.folder, named)?;
        }
    }
    Ok(())
}
