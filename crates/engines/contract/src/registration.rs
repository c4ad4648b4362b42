//! An engine as the face knows it: one row of its registry.

use std::path::PathBuf;
use std::sync::Arc;

use halite_pmem::Domain;
use halite_vdev::Topology;

use crate::lab::Variant;
use crate::{Engine, EngineOptions, Feature, RepairReport, Result};

/// An engine, for the registry by which databases, the server, the command line, backups and the crash lab find it.
#[derive(Debug)]
pub struct Registration {
    /// The name by which `--engine` and a pool's root know the engine, of 17 bytes at most.
    pub name: &'static str,
    /// A description of a few words, to stand behind the name: for `--help`.
    pub about: &'static str,
    /// The media on which a new database is made by this engine, if neither a name nor an option says by which.
    pub default_on: &'static [Domain],
    /// Whether options ask for what this engine alone has: then a new database is made by it.
    pub is_asked_for: fn(&EngineOptions) -> bool,
    /// Opens the store in the pool that the options name, or creates it.
    pub open: fn(&EngineOptions) -> Result<Arc<dyn Engine>>,
    /// The folder that the engine keeps beside the pool; `None` of an engine that keeps everything in the pool.
    pub beside: Option<Beside>,
    /// The features of its stores that not every engine has.
    pub offers: &'static [Feature],
    /// The options for the devices of an engine that offers a [pool](Feature::Pool) of them.
    pub devices: Option<Devices>,
    /// The variants of the engine that the crash lab explores under power cuts, the cheap ones first.
    pub crash_variants: fn() -> Vec<Variant>,
    /// The variants of the engine that the crash lab strikes with faults of the medium.
    pub media_variants: fn() -> Vec<Variant>,
}

/// The options of an engine for its devices.
#[derive(Debug)]
pub struct Devices {
    /// The devices of a store that is made, to be set.
    pub topology: fn(&mut EngineOptions) -> &mut Option<Topology>,
    /// The folders in which devices are looked for that are not where they were.
    pub search: fn(&mut EngineOptions) -> &mut Vec<PathBuf>,
}

/// The folder of files that an engine keeps beside the pool.
#[derive(Debug)]
pub struct Beside {
    /// The folder's name in the folder of the pool; it may be a link to a folder elsewhere.
    pub folder: &'static str,
    /// The folder elsewhere that options name, if they name one, to be replaced; `None` of an engine whose options
    /// cannot name one.
    pub elsewhere: Option<fn(&mut EngineOptions) -> &mut Option<PathBuf>>,
    /// Lets a store that is not open do without the files that are missing or cannot be read, which are set aside; or
    /// only reports that, if `for_good` is false.
    pub repair: fn(&EngineOptions, for_good: bool) -> Result<RepairReport>,
    /// Removes the files of a store that is given up and not open. The pool stays, and so do files that are not known
    /// to be this store's.
    pub discard: fn(&EngineOptions) -> Result<()>,
}
