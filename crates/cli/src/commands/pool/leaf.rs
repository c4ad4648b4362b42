//! `halite pool replace`, `offline` and `online`.

use std::path::Path;

use clap::Args;
use halite::{Database, LeafPlace, LeafState, PoolLeaf, PoolStatus, Position, Topology};

use super::PoolPlace;
use super::status::name_of;
use crate::folder::in_database;
use crate::{Error, Result, output};

const REPLACE_EXAMPLES: &str = "\
Examples:
  halite pool replace ./data 0/0/1 file:/ssd3/a && halite pool resilver ./data
  halite pool replace ./data file:/ssd2/a file:/ssd3/a@64G

The new device is written as in a topology, see `halite pool init --help`, and must not exist. Until it is resilvered, its
mirror, or the others of its parity, have to stay.";

const OFFLINE_EXAMPLES: &str = "\
Examples:
  halite pool offline ./data 0/0/1
  halite pool offline ./data /ssd2/a

It is neither read nor written until `halite pool online`. The others have to have all data.";

const ONLINE_EXAMPLES: &str = "\
Examples:
  halite pool online ./data 0/0/1 && halite pool resilver ./data

For a device that was offline, failed, or was missing and is back. Until it is resilvered, it is read only where the others
do not have the bytes.";

/// Put a new device in the place of one
#[derive(Debug, Args)]
#[command(after_help = REPLACE_EXAMPLES)]
pub(crate) struct Replace {
    #[command(flatten)]
    of: Of,

    /// The new device, as file:PATH or pmem:PATH
    #[arg(value_name = "NEW", value_parser = parse)]
    new: LeafPlace,
}

/// Take a device away for a while
#[derive(Debug, Args)]
#[command(after_help = OFFLINE_EXAMPLES)]
pub(crate) struct Offline {
    #[command(flatten)]
    of: Of,
}

/// Let a device take part again
#[derive(Debug, Args)]
#[command(after_help = ONLINE_EXAMPLES)]
pub(crate) struct Online {
    #[command(flatten)]
    of: Of,
}

/// A device of a pool.
#[derive(Debug, Args)]
struct Of {
    #[command(flatten)]
    place: PoolPlace,

    /// The device: class/vdev/leaf, as in 0/0/1, or its path
    leaf: String,
}

/// A device as in a topology of it alone.
fn parse(text: &str) -> std::result::Result<LeafPlace, String> {
    let topology: Topology = text.parse().map_err(|error| format!("{error}"))?;
    let mut vdevs = topology.classes().iter().flat_map(|class| &class.vdevs);
    let places = vdevs.next().map(|vdev| &vdev.leaves[..]);
    match (places, vdevs.next()) {
        (Some([place]), None) => Ok(place.clone()),
        _ => Err("name one device".to_owned()),
    }
}

impl Of {
    fn change(&self, change: impl FnOnce(&Database, Position) -> halite::Result<()>) -> Result<()> {
        let (db, status) = self.place.open()?;
        let at = find(&self.place.path, &status, &self.leaf)?;
        change(&db, at).map_err(|error| in_database(&self.place.path, error))?;
        let status = db.pool_status().map_err(|error| in_database(&self.place.path, error))?;
        let lacks_data =
            |leaf: &PoolLeaf| leaf.status.is_stale && leaf.status.state == LeafState::Online;
        if leaves(&status).any(|leaf| leaf.position == at && lacks_data(leaf)) {
            output::message(format_args!(
                "{}: {} lacks data; `halite pool resilver` brings it",
                self.place.path.display(),
                name_of(at)
            ));
        }
        Ok(())
    }
}

fn leaves(status: &PoolStatus) -> impl Iterator<Item = &PoolLeaf> {
    let vdevs = status.classes.iter().flat_map(|class| &class.vdevs);
    vdevs.flat_map(|vdev| &vdev.leaves)
}

/// The position of a leaf that there is, by its name or its path.
fn find(path: &Path, status: &PoolStatus, name: &str) -> Result<Position> {
    let found = leaves(status).find(|leaf| {
        let place = &leaf.place;
        let has_path = place.path().is_some_and(|path| !path.is_empty() && path == name);
        name_of(leaf.position) == name || has_path || place.to_string() == name
    });
    found.map(|leaf| leaf.position).ok_or_else(|| {
        let known: Vec<_> = leaves(status)
            .map(|leaf| format!("{} ({})", name_of(leaf.position), leaf.place))
            .collect();
        let why = format!("there is no device `{name}`; there is {}", known.join(", "));
        Error::input(path.display(), why)
    })
}

impl Replace {
    pub(crate) fn run(&self) -> Result<()> {
        self.of.change(|db, at| db.replace(at, &self.new))
    }
}

impl Offline {
    pub(crate) fn run(&self) -> Result<()> {
        self.of.change(Database::set_offline)
    }
}

impl Online {
    pub(crate) fn run(&self) -> Result<()> {
        self.of.change(Database::set_online)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_device_is_one() {
        let file = |path: &str, size| LeafPlace::File { path: path.into(), size };
        assert_eq!(parse("file:/a@64K"), Ok(file("/a", Some(64 << 10))));
        assert_eq!(parse("/a"), Ok(file("/a", None)));
        for text in ["", "a", "/a /b", "/a ; /b", "mirror /a /b", "file:", "/a@0", "/a@-1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
