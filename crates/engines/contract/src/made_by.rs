//! Which engine a pool belongs to.

use halite_alloc::Segments;

use crate::Error;

/// The beginning of the name of a root that ends with the name of the engine that made the pool.
pub const ENGINE_ROOT: &str = "engine:";

/// The engine that made a pool, if one did.
#[must_use]
pub fn made_by(segments: &Segments) -> Option<String> {
    let names = segments.root_names();
    names.iter().find_map(|name| name.strip_prefix(ENGINE_ROOT)).map(str::to_owned)
}

/// Returns the error of a pool that is not of the engine that was to open it.
#[must_use]
pub fn other_engine(wanted: &str, segments: &Segments) -> Error {
    let found = made_by(segments).unwrap_or_else(|| "none that is known".into());
    Error::OtherEngine { wanted: wanted.into(), found }
}
