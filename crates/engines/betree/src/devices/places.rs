//! Leaves at their places: a file of any folder, a pool of persistent memory, the store's own pool.
//!
//! A file without a folder before its name is one of the store's folder. Where a disk was given in place of a folder, it has
//! all files, by their names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::EngineOptions;
use halite_disk::Disk;
use halite_pmem::PoolOptions;
use halite_sim::locks::Mutex;
use halite_vdev::{
    Arrangement, BLOCK, FileLeaf, LABEL_AREA, Leaf, LeafLabels, LeafPlace, MemoryLeaf, PmemLeaf,
    Topology, read_labels,
};

use crate::{Error, Result};

/// The device of a pool that has a leaf.
const LEAF_DEVICE: u16 = 0;

/// The root of a pool that is a leaf of a store: its value is the version of the format.
const LEAF_ROOT: &str = "betree:leaf";

const LEAF_VERSION: u64 = 1;

/// Blocks that a file grows by at most: 64 MiB; where a test has the medium, a few.
const STEP: u64 = (64 << 20) / BLOCK as u64;
const STEP_OF_MODEL: u64 = 64;

/// A file grows by a part of what it may have, so that a small one is not all taken at once.
const STEPS: u64 = 16;

/// Blocks that a file has at most: 1 PiB.
const BLOCKS_MAX: u64 = 1 << 38;

/// Segments of a leaf's pool that are not for data: its own, and labels.
const OTHER_SEGMENTS: u64 = 2;

/// Where leaves are.
pub(crate) struct Places {
    home: Arc<Segments>,
    disk: Disk,
    /// Whether the disk has all files.
    names_only: bool,
    pool_options: PoolOptions,
    /// The folders that were opened, by their paths.
    folders: Mutex<BTreeMap<PathBuf, Disk>>,
    /// The leaves in memory, which there are once.
    memory: Mutex<Vec<(LeafPlace, Arc<dyn Leaf>)>>,
}

/// A leaf that was found at a place, and may be another pool's.
pub(crate) struct Seen {
    pub(crate) place: LeafPlace,
    pub(crate) labels: LeafLabels,
    /// The device at the place.
    device: Device,
}

enum Device {
    /// A file, of which nothing was changed yet.
    File {
        disk: Disk,
        name: String,
    },
    Open(Arc<dyn Leaf>),
}

fn unusable(place: &LeafPlace, why: impl ToString) -> Error {
    Error::Device { device: place.to_string(), why: why.to_string() }
}

/// A place that does not depend on the folder that the process is in.
pub(super) fn absolute(place: &LeafPlace, disk: &Disk, names_only: bool) -> Result<LeafPlace> {
    let Some(path) = place.path() else { return Ok(place.clone()) };
    let whole = |path: PathBuf| match path.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(_) => Err(unusable(place, "its path is no text; move it to one that is")),
    };
    let absolute = |path: &str| {
        let found = std::path::absolute(path);
        whole(found.map_err(|error| unusable(place, error))?)
    };
    let name = || Path::new(path).file_name().and_then(|name| name.to_str()).map(str::to_owned);
    Ok(match place {
        LeafPlace::Pmem { size, .. } if path.is_empty() => {
            LeafPlace::Pmem { path: String::new(), size: *size }
        }
        LeafPlace::Pmem { size, .. } => LeafPlace::Pmem { path: absolute(path)?, size: *size },
        LeafPlace::File { size, .. } => {
            let name = name().ok_or_else(|| unusable(place, "its path has no name of a file"))?;
            let is_own =
                names_only || !path.contains('/') || Path::new(path).parent() == Some(disk.path());
            LeafPlace::File { path: if is_own { name } else { absolute(path)? }, size: *size }
        }
        LeafPlace::Memory { size } => LeafPlace::Memory { size: *size },
    })
}

impl Places {
    pub(crate) fn new(home: &Arc<Segments>, disk: &Disk, options: &EngineOptions) -> Self {
        let names_only = options.disk.is_some() || options.pool_options.in_memory;
        Self {
            home: Arc::clone(home),
            disk: disk.clone(),
            names_only,
            pool_options: options.pool_options.clone(),
            folders: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    /// The disk of a file, and its name there.
    fn file(&self, place: &LeafPlace, path: &str) -> Result<(Disk, String)> {
        let path = Path::new(path);
        let name = path.file_name().and_then(|name| name.to_str());
        let name =
            name.ok_or_else(|| unusable(place, "its path has no name of a file"))?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match parent.filter(|_| !self.names_only) {
            None => Ok((self.disk.clone(), name)),
            Some(folder) => {
                Ok((self.folder(folder).map_err(|error| unusable(place, error))?, name))
            }
        }
    }

    /// A folder, which is locked once.
    fn folder(&self, folder: &Path) -> halite_disk::Result<Disk> {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        if self.disk.path().canonicalize().is_ok_and(|own| own == real) {
            return Ok(self.disk.clone());
        }
        let mut folders = self.folders.lock();
        if let Some(disk) = folders.get(&real) {
            return Ok(disk.clone());
        }
        let disk = Disk::failing_folder(&real, false, self.pool_options.failures.clone())?;
        folders.insert(real, disk.clone());
        Ok(disk)
    }

    /// A place that does not depend on the folder that the process is in.
    pub(crate) fn absolute(&self, place: &LeafPlace) -> Result<LeafPlace> {
        absolute(place, &self.disk, self.names_only)
    }

    /// Removes what was made at a place, if that can be.
    pub(crate) fn remove(&self, place: &LeafPlace) {
        match place {
            LeafPlace::File { path, .. } => {
                let _ = self.file(place, path).map(|(disk, name)| disk.remove(&name));
            }
            LeafPlace::Pmem { path, .. } if !path.is_empty() => {
                let _ = std::fs::remove_file(path);
            }
            LeafPlace::Pmem { .. } | LeafPlace::Memory { .. } => {}
        }
    }

    /// Refuses devices that a store cannot have.
    pub(crate) fn check_kinds(&self, topology: &Topology) -> Result<()> {
        super::leaf_places(topology).iter().try_for_each(|place| self.check_kind(place))
    }

    fn check_kind(&self, place: &LeafPlace) -> Result<()> {
        match place {
            LeafPlace::Memory { .. } if !self.pool_options.in_memory => {
                let why = "memory does not outlive the process, and the store is to; name a file";
                Err(unusable(place, why))
            }
            LeafPlace::Pmem { path, .. }
                if !path.is_empty() && self.pool_options.medium.is_some() =>
            {
                Err(unusable(place, "a modelled medium has one pool"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses devices of a new store where there is something already.
    pub(super) fn check_new(&self, topology: &Topology) -> Result<()> {
        self.check_kinds(topology)?;
        for place in super::leaf_places(topology) {
            self.check_free(&place)?;
        }
        Ok(())
    }

    fn check_free(&self, place: &LeafPlace) -> Result<()> {
        let is_there = match place {
            LeafPlace::File { path, .. } => {
                let (disk, name) = self.file(place, path)?;
                let names = disk.list().map_err(|error| unusable(place, error))?;
                names.iter().any(|(other, _)| *other == name)
            }
            LeafPlace::Pmem { path, .. } => !path.is_empty() && Path::new(path).exists(),
            LeafPlace::Memory { .. } => false,
        };
        match is_there {
            true => Err(unusable(
                place,
                "there is something already; move it away, or name another place",
            )),
            false => Ok(()),
        }
    }

    /// Makes a leaf. With `again`, the remains of an interrupted attempt, which have no data, are replaced.
    pub(crate) fn create(&self, place: &LeafPlace, again: bool) -> Result<Arc<dyn Leaf>> {
        self.check_kind(place)?;
        Ok(match place {
            LeafPlace::File { path, .. } => {
                let (disk, name) = self.file(place, path)?;
                let names = disk.list().map_err(|error| unusable(place, error))?;
                let left = names.iter().find(|(other, _)| *other == name);
                if again && left.is_some_and(|(_, len)| *len <= LABEL_AREA as u64) {
                    disk.remove(&name).map_err(|error| unusable(place, error))?;
                }
                let (blocks, step) = self.shape(place);
                let leaf = FileLeaf::create(&disk, &name, blocks, step);
                Arc::new(leaf.map_err(|error| unusable(place, error))?)
            }
            LeafPlace::Pmem { path, .. } if path.is_empty() => self.open_pool(place, &self.home)?,
            LeafPlace::Pmem { path, .. } => {
                let path = Path::new(path);
                if again && self.is_leaf_pool(path) {
                    std::fs::remove_file(path).map_err(|error| unusable(place, error))?;
                }
                let make = || {
                    let pool = Segments::create(path, &self.pool_options)?;
                    pool.set_root(LEAF_ROOT, LEAF_VERSION)?;
                    pool.install()?;
                    halite_alloc::Result::Ok(pool)
                };
                let pool = make().map_err(|error| unusable(place, error))?;
                self.open_pool(place, &pool)?
            }
            LeafPlace::Memory { size } => {
                let mut memory = self.memory.lock();
                let leaf: Arc<dyn Leaf> =
                    Arc::new(MemoryLeaf::new(&memory.len().to_string(), size / BLOCK as u64));
                memory.push((place.clone(), Arc::clone(&leaf)));
                leaf
            }
        })
    }

    /// Whether a pool is a leaf's.
    fn is_leaf_pool(&self, path: &Path) -> bool {
        let pool = Segments::open(path, &self.pool_options);
        pool.is_ok_and(|pool| pool.root(LEAF_ROOT) == Some(LEAF_VERSION))
    }

    /// The leaf in a pool.
    fn open_pool(&self, place: &LeafPlace, pool: &Arc<Segments>) -> Result<Arc<dyn Leaf>> {
        let device = pool.device(LEAF_DEVICE);
        let segments = pool.pool().len_max() / halite_alloc::SEGMENT;
        let is_home = Arc::ptr_eq(pool, &self.home);
        let others = if is_home { super::others(segments) } else { OTHER_SEGMENTS };
        // An opening with other limits does not take away what the leaf has.
        let there = (device.logical_segments().len() as u64).saturating_sub(1);
        let room = segments.saturating_sub(others).max(there) * halite_vdev::SEGMENT_BLOCKS;
        let blocks = place.size().map_or(room, |size| room.min(size / BLOCK as u64));
        Ok(Arc::new(PmemLeaf::open(pool.pool().path(), device, blocks)?))
    }

    /// The most blocks of a file, and by how many it grows.
    fn shape(&self, place: &LeafPlace) -> (u64, u64) {
        let blocks = place.size().map_or(BLOCKS_MAX, |size| size / BLOCK as u64);
        let step = if self.pool_options.medium.is_some() { STEP_OF_MODEL } else { STEP };
        (blocks, (blocks / STEPS).clamp(STEP_OF_MODEL, step))
    }

    /// Looks at a place. Nothing is changed there, but for a pool, which is recovered. `None`: there is nothing.
    pub(crate) fn look(&self, place: &LeafPlace) -> Result<Option<Seen>> {
        let place = place.clone();
        match &place {
            LeafPlace::File { path, .. } => {
                let (disk, name) = match self.file(&place, path) {
                    Ok(file) => file,
                    // The folder may be on a device that is not there.
                    Err(_) if !Path::new(path).exists() => return Ok(None),
                    Err(error) => return Err(error),
                };
                match FileLeaf::peek(&disk, &name) {
                    Ok(labels) => {
                        Ok(Some(Seen { place, labels, device: Device::File { disk, name } }))
                    }
                    Err(halite_vdev::Error::Disk(halite_disk::Error::Missing { .. })) => Ok(None),
                    Err(error) => Err(unusable(&place, error)),
                }
            }
            LeafPlace::Pmem { path, .. } if path.is_empty() => {
                let leaf = self.open_pool(&place, &self.home)?;
                Ok(Some(Seen { labels: read_labels(&*leaf), device: Device::Open(leaf), place }))
            }
            LeafPlace::Pmem { path, .. } if !Path::new(path).exists() => Ok(None),
            LeafPlace::Pmem { path, .. } => {
                self.check_kind(&place)?;
                let pool = Segments::open(Path::new(path), &self.pool_options);
                let pool = pool.map_err(|error| unusable(&place, error))?;
                if pool.root(LEAF_ROOT) != Some(LEAF_VERSION) {
                    return Err(unusable(&place, "it is a pool, but no device of a store"));
                }
                let leaf = self.open_pool(&place, &pool)?;
                Ok(Some(Seen { labels: read_labels(&*leaf), device: Device::Open(leaf), place }))
            }
            LeafPlace::Memory { .. } => Ok(None),
        }
    }

    /// The leaves in memory.
    pub(crate) fn in_memory(&self) -> Vec<Seen> {
        let memory = self.memory.lock();
        let seen = |(place, leaf): &(LeafPlace, Arc<dyn Leaf>)| Seen {
            place: place.clone(),
            labels: read_labels(&**leaf),
            device: Device::Open(Arc::clone(leaf)),
        };
        memory.iter().map(seen).collect()
    }

    /// Opens a leaf that was seen, and is this pool's.
    pub(crate) fn open(&self, seen: &Seen) -> Result<Arc<dyn Leaf>> {
        match &seen.device {
            Device::File { disk, name } => {
                let (blocks, step) = self.shape(&seen.place);
                let leaf = FileLeaf::open(disk, name, blocks, step);
                Ok(Arc::new(leaf.map_err(|error| unusable(&seen.place, error))?))
            }
            Device::Open(leaf) => Ok(Arc::clone(leaf)),
        }
    }

    /// The files of a folder that are long enough to be leaves.
    pub(crate) fn files_of(&self, folder: &Path) -> Result<Vec<LeafPlace>> {
        let place = |path: String| LeafPlace::File { path, size: None };
        let of_folder = place(folder.display().to_string());
        let disk = match self.names_only {
            true => Ok(self.disk.clone()),
            false => self.folder(folder),
        };
        let names =
            disk.and_then(|disk| disk.list()).map_err(|error| unusable(&of_folder, error))?;
        let long = names.into_iter().filter(|(_, len)| *len >= LABEL_AREA as u64);
        let path = |name: &str| folder.join(name).to_str().map(str::to_owned);
        Ok(long.filter_map(|(name, _)| Some(place(path(&name)?))).collect())
    }
}

/// Blocks of a vdev's address space for each block of a leaf.
pub(crate) fn width(arrangement: Arrangement, leaves: usize) -> u64 {
    match arrangement {
        Arrangement::Single | Arrangement::Mirror => 1,
        Arrangement::Parity(_) => leaves as u64,
    }
}
