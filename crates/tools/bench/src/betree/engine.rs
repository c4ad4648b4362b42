//! The engine itself, for what is no key-value store: objects, snapshots, devices.

use std::path::Path;

use halite_betree::{Betree, BetreeOptions, Topology};
use halite_contract::EngineOptions;

use super::setting::BETREE;
use crate::{Error, Result, RunOptions};

/// The pool in a folder.
const POOL: &str = "pool";

/// Opens a store in a folder, or creates it.
pub(super) fn open(folder: &Path, options: BetreeOptions, run: &RunOptions) -> Result<Betree> {
    let pool_options = run.pool();
    let options = EngineOptions {
        pool_options,
        own: options.into(),
        ..EngineOptions::new(folder.join(POOL))
    };
    Betree::open(&options).map_err(failed("open"))
}

/// Turns an error of the engine into one that names the action.
pub(super) fn failed(action: &'static str) -> impl FnOnce(halite_contract::Error) -> Error {
    move |error| Error::of_store(BETREE, action)(error.into())
}

/// Devices as the engine describes them.
pub(super) fn topology(text: &str) -> Result<Topology> {
    let described = text.parse::<Topology>();
    described.map_err(|error| Error::of_store(BETREE, "describe its devices")(error.into()))
}

/// A file in the words of a topology.
pub(super) fn file(path: &Path) -> String {
    let path = path.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    format!("file:\"{path}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_characters_is_one_word_of_a_topology() {
        let path = Path::new("/a folder/with; \"all\" @ \\kinds");
        let found = topology(&format!("pmem: ; {}", file(path))).unwrap();
        let place = &found.classes()[1].vdevs[0].leaves[0];
        assert_eq!(place.path(), path.to_str());
    }
}
