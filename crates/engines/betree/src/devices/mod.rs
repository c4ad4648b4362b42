//! The devices of a store: its pool, its folder, and the leaves of its vdevs, wherever they are.
//!
//! A store that is made without a topology has class 0 in its pool, if that is on persistent memory: all that fits there
//! lies there, and the rest in a file of the folder, class 1. On an ordinary file, where stores through a mapping are dear,
//! the pool has no data, and the file is class 0. With a topology, the store has the devices of that.
//!
//! | module | what lives there |
//! |---|---|
//! | `places` | leaves at their places: made, looked at, opened |
//! | `hint` | the file of the folder that says where to look for leaves |
//! | `assemble` | finding the leaves of a pool by their labels |

pub(crate) mod assemble;
mod hint;
mod places;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::{EngineOptions, Error, Result};
use halite_disk::Disk;
use halite_pmem::Domain;
use halite_vdev::{Arrangement, Class, Leaf, LeafPlace, Topology, Vdev, VdevTopology};

use crate::options::BetreeOptions;
use crate::{Betree, Error as BetreeError};

pub(crate) use hint::write as write_hint;
pub(crate) use places::Places;

/// The file that has the data of a store without a topology.
const DATA: &str = "data-0";

/// Segments of the pool that are not for data, but for the log, labels and the pool itself: a part of them, and not
/// more than so many.
const OTHERS_PART: u64 = 4;
const OTHERS_MAX: u64 = 256;

/// Creates the pool of a new store.
pub(crate) fn create_home(options: &EngineOptions, disk: &Disk) -> Result<Arc<Segments>> {
    let in_the_way = |name: &str| Error::DamagedFile {
        file: format!("{}/{name}", Betree::FOLDER),
        why: "it is of a store whose pool is not here; bring that back, or move the file away"
            .into(),
    };
    let names = disk.list().map_err(Arc::new)?;
    if let Some((name, _)) = names.iter().find(|(name, _)| name == DATA || name == hint::NAME) {
        return Err(in_the_way(name));
    }
    let home = Segments::create(&options.pool, &options.pool_options)?;
    let has_pool_class = home.pool().domain() != Domain::PageCache;
    // An obstacle to a device is told before there is a store.
    let topology = topology_of_new(options, disk, has_pool_class)?;
    Places::new(&home, disk, options).check_new(&topology)?;
    crate::home::claim(&home, has_pool_class)?;
    home.install()?;
    Ok(home)
}

/// The disk of the log and the data: a folder beside the pool, or one that was named.
pub(crate) fn disk(options: &EngineOptions) -> Result<Disk> {
    if let Some(disk) = &options.disk {
        return Ok(disk.clone());
    }
    if options.pool_options.in_memory || options.pool_options.medium.is_some() {
        return Ok(Disk::in_memory_up_to(options.pool_options.size_max));
    }
    let beside = options.pool.parent().map_or_else(PathBuf::new, |folder| folder.to_owned());
    let folder = BetreeOptions::of(options).folder.unwrap_or_else(|| beside.join(Betree::FOLDER));
    let failures = options.pool_options.failures.clone();
    Ok(Disk::failing_folder(&folder, options.create, failures).map_err(Arc::new)?)
}

/// Whether the pool has the log, and data, if the store was made without a topology.
pub(crate) fn has_pool_class(home: &Segments) -> bool {
    home.root(crate::home::CLASSES) == Some(1)
}

/// Segments of the pool that are not for data, out of so many.
fn others(segments: u64) -> u64 {
    (segments / OTHERS_PART).min(OTHERS_MAX)
}

/// Bytes that the log may take in the pool, if it is there.
pub(crate) fn log_bytes_max(home: &Segments) -> Option<u64> {
    /// Segments of labels, of the pool itself, and of the log beyond those that are needed.
    const FIXED: u64 = 4;
    let segments = others(home.pool().len_max() / halite_alloc::SEGMENT);
    let bytes = segments.saturating_sub(FIXED).max(1) * halite_alloc::SEGMENT;
    has_pool_class(home).then_some(bytes)
}

/// The devices of a store that is made without a topology.
fn default_topology(has_pool_class: bool) -> Topology {
    let class = |leaf| Class {
        preferred_access: None,
        vdevs: vec![VdevTopology { arrangement: Arrangement::Single, leaves: vec![leaf] }],
    };
    let mut classes = Vec::new();
    if has_pool_class {
        classes.push(class(LeafPlace::Pmem { path: String::new(), size: None }));
    }
    classes.push(class(LeafPlace::File { path: DATA.to_owned(), size: None }));
    Topology::new(classes).expect("two devices that differ")
}

/// The devices of a new store, with places that do not depend on the folder that the process is in.
fn topology_of_new(options: &EngineOptions, disk: &Disk, has_pool_class: bool) -> Result<Topology> {
    let Some(topology) = BetreeOptions::of(options).topology else {
        return Ok(default_topology(has_pool_class));
    };
    let names_only = options.disk.is_some() || options.pool_options.in_memory;
    let mut classes = topology.classes().to_vec();
    for leaf in
        classes.iter_mut().flat_map(|class| &mut class.vdevs).flat_map(|vdev| &mut vdev.leaves)
    {
        *leaf = places::absolute(leaf, disk, names_only)?;
    }
    Ok(Topology::new(classes).map_err(halite_vdev::Error::from).map_err(BetreeError::from)?)
}

/// Makes the devices of a new store; what an interrupted attempt has left is replaced.
pub(crate) fn make(
    home: &Arc<Segments>,
    disk: &Disk,
    places: &Places,
    options: &EngineOptions,
) -> Result<(Topology, Vec<Vec<Arc<Vdev>>>)> {
    let topology = topology_of_new(options, disk, has_pool_class(home))?;
    places.check_kinds(&topology)?;
    halite_wal::remove(disk).map_err(Arc::new)?;
    disk.sync().map_err(Arc::new)?;
    let mut classes = Vec::new();
    for class in topology.classes() {
        let mut vdevs = Vec::new();
        for VdevTopology { arrangement, leaves } in &class.vdevs {
            let leaf = |place| Ok(Some(places.create(place, true)?));
            let leaves =
                leaves.iter().map(leaf).collect::<crate::Result<Vec<Option<Arc<dyn Leaf>>>>>();
            let vdev = Vdev::new(*arrangement, leaves?).map_err(BetreeError::from)?;
            vdevs.push(Arc::new(vdev));
        }
        classes.push(vdevs);
    }
    if topology != default_topology(has_pool_class(home)) {
        hint::write(disk, &topology)?;
    }
    Ok((topology, classes))
}

/// Removes the files of a store.
pub(crate) fn remove(home: &Arc<Segments>, disk: &Disk, options: &EngineOptions) -> Result<()> {
    let places = Places::new(home, disk, options);
    likely_places(home, disk, options)?.iter().for_each(|place| places.remove(place));
    halite_wal::remove(disk).map_err(Arc::new)?;
    hint::remove(disk)?;
    Ok(disk.sync().map_err(Arc::new)?)
}

/// The places at which leaves of a store may be: those that its folder's hint has, and those that options name.
pub(crate) fn likely_places(
    home: &Segments,
    disk: &Disk,
    options: &EngineOptions,
) -> Result<Vec<LeafPlace>> {
    let hinted = hint::read(disk)?.unwrap_or_else(|| default_topology(has_pool_class(home)));
    let mut places = leaf_places(&hinted);
    if BetreeOptions::of(options).topology.is_some() {
        places.extend(leaf_places(&topology_of_new(options, disk, has_pool_class(home))?));
    }
    let mut seen = BTreeSet::new();
    places.retain(|place| seen.insert(place.to_string()));
    Ok(places)
}

fn leaf_places(topology: &Topology) -> Vec<LeafPlace> {
    let vdevs = topology.classes().iter().flat_map(|class| &class.vdevs);
    vdevs.flat_map(|vdev| vdev.leaves.iter().cloned()).collect()
}
