//! Making and opening a store: its pool, its folder, and the storage of each partition.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use halite_alloc::Segments;
use halite_contract::{ENGINE_ROOT, EngineOptions, Partitioning, made_by};
use halite_disk::Disk;
use halite_pmem::Pool;
use halite_sim::locks::{Mutex, RwLock};
use halite_sync::Group;

use super::coordinator::Coordinator;
use super::{Shared, Testbed};
use crate::index::cow_file;
use crate::method::cow::Cow;
use crate::method::inp::{self, InP};
use crate::method::log_structured::{self, LogStructured};
use crate::method::nvm_cow::{self, NvmCow};
use crate::method::nvm_inp::{self, NvmInP};
use crate::method::nvm_log::{self, NvmLog};
use crate::method::nvm_wbl::{self, NvmWbl};
use crate::method::{Kind, Method};
use crate::{Error, Partition, Result};

/// The most partitions of a store.
pub const PARTITIONS_MAX: usize = 1024;

/// The beginning of an engine's name that is a method of the testbed.
pub(crate) const PREFIX: &str = "table:";

/// The folder beside the pool.
pub(crate) const FOLDER: &str = "tables";

/// The root that has the number of partitions.
pub(crate) const PARTITIONS: &str = "table:partitions";

/// The root that says whether all partitions were made.
const MADE: &str = "table:made";

/// The version of the layout.
const VERSION: u64 = 1;

/// The device of the coordinator's heap. Those of partitions follow.
const COORDINATOR: u16 = 1;

/// The file of a partition under CoW.
const COW_FILE: &str = "partition";

/// Options of the methods. Each one that is not said to be changeable is for stores that are made.
#[derive(Debug, Clone, Default)]
pub struct TableOptions {
    /// Of InP. All may change.
    pub inp: inp::Options,
    /// Of NVM-InP.
    pub nvm_inp: nvm_inp::Options,
    /// Of CoW. The bytes of the cache may change.
    pub cow: cow_file::Options,
    /// Of NVM-CoW.
    pub nvm_cow: nvm_cow::Options,
    /// Of Log. All may change.
    pub log: log_structured::Options,
    /// Of NVM-Log. All but the size of nodes may change.
    pub nvm_log: nvm_log::Options,
    /// Of NVM-WBL. The changes of a step may change.
    pub nvm_wbl: nvm_wbl::Options,
}

impl Testbed {
    /// Opens the store in the pool that the options name, or makes one by the method. Without a method it opens a store
    /// of any of them. The options' partitioning may have a number of partitions ([`Partitioning::Hash`]); a new store has
    /// one without it.
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::OtherMethod`], [`Error::OtherPartitions`], [`Error::Partitions`]; those of the pool, the
    /// folder and the method.
    pub fn open(kind: Option<Kind>, options: &EngineOptions) -> Result<Self> {
        let asked = asked_partitions(options)?;
        let path = options.pool.display().to_string();
        let exists = Pool::exists(&options.pool, &options.pool_options);
        let segments = match (exists, kind) {
            (true, _) => Segments::open(&options.pool, &options.pool_options)?,
            (false, Some(kind)) if options.create => create(kind, asked.unwrap_or(1), options)?,
            (false, _) => return Err(Error::NoStore { path: path.into() }),
        };
        let found = made_by(&segments).unwrap_or_else(|| "none that is known".to_owned());
        let of_testbed = found.strip_prefix(PREFIX).and_then(|name| name.parse::<Kind>().ok());
        let kind = match (of_testbed, kind) {
            (Some(found), None) => found,
            (Some(found), Some(kind)) if found == kind => found,
            (_, kind) => {
                let wanted = match kind {
                    Some(kind) => format!("{PREFIX}{kind}"),
                    None => "a method of the testbed".to_owned(),
                };
                let (wanted, found, path) = (wanted.into(), found.into(), path.into());
                return Err(Error::OtherMethod { path, wanted, found });
            }
        };
        let version = segments.root(&format!("{ENGINE_ROOT}{PREFIX}{kind}"));
        if version != Some(VERSION) {
            let why = format!("its version is {version:?}, and this program knows {VERSION}");
            return Err(Error::damaged(format!("the store in {path}"), why));
        }
        let count = segments.root(PARTITIONS).unwrap_or(0);
        if count == 0 || count > PARTITIONS_MAX as u64 {
            let why = format!("it has {count} partitions");
            return Err(Error::damaged(format!("the store in {path}"), why));
        }
        if let Some(asked) = asked.filter(|&asked| asked as u64 != count) {
            return Err(Error::OtherPartitions { found: count, asked: asked as u64 });
        }
        Self::open_parts(kind, segments, count as usize, options)
    }

    fn open_parts(
        kind: Kind,
        segments: Arc<Segments>,
        count: usize,
        options: &EngineOptions,
    ) -> Result<Self> {
        let failed = Arc::new(OnceLock::new());
        let coordinator = Coordinator::open(&segments.device(COORDINATOR), failed.clone())?;
        let is_made = segments.root(MADE) == Some(1);
        let place = Place { kind, segments: &segments, options, is_made };
        let files = if kind.has_files() { count } else { 0 };
        let disks = (0..files).map(|number| place.disk(number)).collect::<Result<Vec<_>>>()?;
        let partitions = (0..count).map(|number| {
            let partition = Mutex::new(Partition::new(place.open(number, disks.get(number))?)?);
            Ok(Shared { partition, syncs: Group::default() })
        });
        let partitions = partitions.collect::<Result<Vec<_>>>()?;
        if !is_made {
            segments.set_root(MADE, 1)?;
        }
        let next = coordinator.next_timestamp();
        let mut opened = Self {
            kind,
            segments,
            partitions,
            disks,
            coordinator: Mutex::new(coordinator),
            timestamp: AtomicU64::new(next),
            procedures: RwLock::default(),
            failed,
        };
        opened.finish()?;
        opened.coordinator.get_mut().reserve_timestamps(next)?;
        Ok(opened)
    }
}

/// The number of partitions that is asked for.
fn asked_partitions(options: &EngineOptions) -> Result<Option<usize>> {
    let max = PARTITIONS_MAX as u64;
    match &options.partitioning {
        None => Ok(None),
        Some(Partitioning::Hash(asked)) if (1..=PARTITIONS_MAX).contains(asked) => Ok(Some(*asked)),
        Some(other) => Err(Error::Partitions { asked: other.count() as u64, max }),
    }
}

/// Makes the pool of a store. Its partitions are made when it is opened.
fn create(kind: Kind, partitions: usize, options: &EngineOptions) -> Result<Arc<Segments>> {
    // A store makes its pool first: files without one are of a store that has lost it, and are not to be overwritten.
    let folder = folder(options);
    let has_files = options.disk.is_none() && !options.pool_options.in_memory;
    if has_files && folder.read_dir().is_ok_and(|mut all| all.next().is_some()) {
        let name = folder.display().to_string().into();
        return Err(Error::Exists { what: "store without its pool in", name });
    }
    let segments = Segments::create(&options.pool, &options.pool_options)?;
    segments.set_root(&format!("{ENGINE_ROOT}{PREFIX}{kind}"), VERSION)?;
    segments.set_root(PARTITIONS, partitions as u64)?;
    segments.set_root(MADE, 0)?;
    segments.install()?;
    Ok(segments)
}

/// Where the partitions of a store are.
struct Place<'a> {
    kind: Kind,
    segments: &'a Arc<Segments>,
    options: &'a EngineOptions,
    /// All partitions were made.
    is_made: bool,
}

impl Place<'_> {
    /// Opens the storage of a partition, whose files are on a disk, if its method has some.
    fn open(&self, number: usize, disk: Option<&Disk>) -> Result<Box<dyn Method + Send>> {
        let own: TableOptions = self.options.own.get();
        let disk = || disk.expect("the method has files");
        let (device, id) = (self.device(number), self.id(number));
        Ok(match self.kind {
            Kind::InP if self.is_made => Box::new(InP::open(disk(), id, own.inp)?),
            Kind::InP => Box::new(InP::create(disk(), id, own.inp)?),
            Kind::NvmInP => Box::new(NvmInP::open(&device, own.nvm_inp)?),
            Kind::Cow if self.is_made => Box::new(Cow::open(disk(), COW_FILE, id, own.cow)?),
            Kind::Cow => Box::new(Cow::create(disk(), COW_FILE, id, own.cow)?),
            Kind::NvmCow => Box::new(NvmCow::open(&device, own.nvm_cow)?),
            Kind::Log if self.is_made => Box::new(LogStructured::open(disk(), id, own.log)?),
            Kind::Log => Box::new(LogStructured::create(disk(), id, own.log)?),
            Kind::NvmLog => Box::new(NvmLog::open(&device, own.nvm_log)?),
            Kind::NvmWbl => Box::new(NvmWbl::open(&device, own.nvm_wbl)?),
        })
    }

    fn device(&self, number: usize) -> halite_alloc::Device {
        self.segments.device(COORDINATOR + 1 + number as u16)
    }

    /// The id of a partition, which its files have.
    fn id(&self, number: usize) -> u128 {
        u128::from_le_bytes(self.segments.uuid()) ^ number as u128
    }

    /// The files of a partition. Those that a crash left of one that was being made are removed.
    fn disk(&self, number: usize) -> Result<Disk> {
        let options = self.options;
        let disk = if let Some(disk) = &options.disk {
            disk.subfolder(&number.to_string(), !self.is_made)?
        } else if options.pool_options.in_memory || options.pool_options.medium.is_some() {
            Disk::in_memory_up_to(options.pool_options.size_max)
        } else {
            let folder = folder(options);
            // The folder of all has to be durable before one in it is.
            let failures = || options.pool_options.failures.clone();
            Disk::failing_folder(&folder, !self.is_made, failures())?;
            Disk::failing_folder(&folder.join(number.to_string()), !self.is_made, failures())?
        };
        if !self.is_made {
            for (name, _) in disk.list()? {
                disk.remove(&name)?;
            }
        }
        Ok(disk)
    }
}

/// The folder of the files of all partitions.
pub(crate) fn folder(options: &EngineOptions) -> PathBuf {
    let parent = options.pool.parent();
    parent.map_or_else(|| PathBuf::from(FOLDER), |parent| parent.join(FOLDER))
}
