//! The rows of the registry: an engine for each recovery method.
//!
//! None of them is the default on any medium: the testbed is there to compare methods.

use std::sync::Arc;

use halite_contract::lab::{Kind as History, Variant};
use halite_contract::{Beside, EngineOptions, Registration};

use crate::engine::TableEngine;
use crate::testbed::FOLDER;
use crate::{Kind, files};

/// Makes the engines: their rows, and their names.
macro_rules! engines {
    ($($kind:ident, $about:literal;)+) => {
        /// The engines of the testbed, one for each recovery method.
        pub static REGISTRATIONS: [Registration; Kind::ALL.len()] = [$(Registration {
            name: Kind::$kind.engine(),
            about: $about,
            default_on: &[],
            is_asked_for: |_| false,
            open: |options| Ok(Arc::new(TableEngine::open(Kind::$kind, options)?)),
            beside: beside(
                Kind::$kind,
                |options, for_good| files::repair(Kind::$kind, options, for_good),
                |options| files::discard(Kind::$kind, options),
            ),
            offers: &[],
            devices: None,
            crash_variants: || crash_variants(Kind::$kind.engine()),
            media_variants: Vec::new,
        }),+];

        /// The names of the engines.
        pub const ENGINES: [&str; Kind::ALL.len()] = [$(Kind::$kind.engine()),+];
    };
}

engines! {
    InP, "the testbed's updates in place in memory, with a log and checkpoints in files";
    NvmInP, "the testbed's updates in place, in a heap in the pool";
    Cow, "the testbed's copy-on-write trees in a file";
    NvmCow, "the testbed's copy-on-write trees in a heap in the pool";
    Log, "the testbed's memtable, with a log and sorted runs in files";
    NvmLog, "the testbed's memtables in a heap in the pool";
    NvmWbl, "the testbed's versions in a heap in the pool, with a log that is written behind them";
}

type Repair = fn(&EngineOptions, bool) -> halite_contract::Result<halite_contract::RepairReport>;
type Discard = fn(&EngineOptions) -> halite_contract::Result<()>;

/// The folder beside the pool of a method that has files.
const fn beside(kind: Kind, repair: Repair, discard: Discard) -> Option<Beside> {
    match kind.has_files() {
        true => Some(Beside { folder: FOLDER, elsewhere: None, repair, discard }),
        false => None,
    }
}

/// A few short writes, and more of all sorts: the lab explores the methods themselves by transactions over tables.
fn crash_variants(name: &str) -> Vec<Variant> {
    // The name of a case ends at its first colon.
    let name = name.replace(':', "-");
    let variant = |kind, kinds| Variant {
        kinds,
        ..Variant::new(format!("{name}-{kind}"), EngineOptions::new("pool"))
    };
    vec![variant("few", &[History::Few]), variant("mixed", &[History::Mixed])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_called_as_its_method_is() {
        for (kind, engine) in Kind::ALL.iter().zip(&REGISTRATIONS) {
            assert_eq!(engine.name, format!("table:{kind}"));
            assert_eq!((engine.name, engine.beside.is_some()), (kind.engine(), kind.has_files()));
        }
        assert!(REGISTRATIONS.iter().map(|engine| engine.name).eq(ENGINES));
    }
}
