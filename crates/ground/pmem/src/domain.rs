//! Persistence domains: the guarantees of a fence.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FsWord;

/// The failures that fenced bytes survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Domain {
    /// The platform saves its caches at a power cut (eADR, CXL GPF): a fence suffices.
    Platform,
    /// Persistent memory mapped with `MAP_SYNC`: write-back and fence survive a power cut.
    Memory,
    /// An ordinary file: stored bytes survive the process; a fence calls the kernel's sync, and the bytes
    /// that it covers survive a power cut. The kernel writes whole pages, so the pool keeps them small, and
    /// has the kernel read ahead only on request ([`crate::Fresh::read_ahead`]).
    PageCache,
    /// tmpfs: all stored bytes survive the process and none survives a power cut. Write-backs and fences
    /// run as for [`Domain::Memory`], so that measurements on tmpfs include the costs of persistent
    /// memory's instructions.
    #[default]
    Process,
    /// Memory of the process ([`crate::PoolOptions::in_memory`]): no byte survives its end. Write-backs and
    /// fences do nothing.
    Volatile,
}

impl Domain {
    /// The name: `platform`, `memory`, `page-cache`, `process` or `volatile`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Memory => "memory",
            Self::PageCache => "page-cache",
            Self::Process => "process",
            Self::Volatile => "volatile",
        }
    }

    /// One sentence for users: which failures an acknowledged write survives.
    #[must_use]
    pub fn guarantee(self) -> &'static str {
        match self {
            Self::Platform => {
                "persistent caches: an acknowledged write survives a crash and a power cut"
            }
            Self::Memory => {
                "persistent memory: an acknowledged write survives a crash and a power cut"
            }
            Self::PageCache => {
                "ordinary file: an acknowledged write survives a crash, \
                 and a power cut once it is synced"
            }
            Self::Process => {
                "volatile memory (tmpfs): an acknowledged write survives a crash of the process, \
                 not a power cut or a reboot"
            }
            Self::Volatile => {
                "memory of the process: nothing survives its end, not even acknowledged writes"
            }
        }
    }

    /// Whether the stores to a line persist in the order of the program. Caches write back whole lines. The kernel
    /// writes back a page while stores to it go on, and what reaches the disk is no snapshot: of that, only aligned
    /// words of 8 bytes are never torn.
    #[must_use]
    pub fn orders_lines(self) -> bool {
        self != Self::PageCache
    }

    /// Whether fenced bytes survive a power cut.
    #[must_use]
    pub fn survives_power_cut(self) -> bool {
        !matches!(self, Self::Process | Self::Volatile)
    }

    /// The domain of a file, given whether it maps with `MAP_SYNC`.
    pub(crate) fn detect(file: &File, maps_sync: bool) -> Self {
        if maps_sync {
            // Caches are trusted only where the device would tell that they were lost.
            let platform = caches_persist(file) && unsafe_shutdowns(file).is_some();
            return if platform { Self::Platform } else { Self::Memory };
        }
        match rustix::fs::fstatfs(file).map(|stat| stat.f_type) {
            Ok(TMPFS_MAGIC | RAMFS_MAGIC | HUGETLBFS_MAGIC) => Self::Process,
            _ => Self::PageCache,
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const TMPFS_MAGIC: FsWord = 0x0102_1994;
const RAMFS_MAGIC: FsWord = 0x8584_58f6_u32 as FsWord;
const HUGETLBFS_MAGIC: FsWord = 0x9584_58f6_u32 as FsWord;

/// How often the memory below the file's device lost bytes that it should have saved, if its driver counts
/// that: `dirty_shutdown` of every DIMM or CXL memory of the region.
pub(crate) fn unsafe_shutdowns(file: &File) -> Option<u64> {
    sysfs_of(file).and_then(|device| counted_shutdowns(&device))
}

fn sysfs_of(file: &File) -> Option<PathBuf> {
    let device = file.metadata().ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// The sum over the region's memories. A region names them in `mapping0`, `mapping1`, ... as
/// `name,start,length,position`; they lie beside it on the bus.
fn counted_shutdowns(device: &Path) -> Option<u64> {
    let region = device.ancestors().find(|folder| folder.join("mappings").exists())?;
    let count: usize = fs::read_to_string(region.join("mappings")).ok()?.trim().parse().ok()?;
    (0..count)
        .map(|number| {
            let mapping = fs::read_to_string(region.join(format!("mapping{number}"))).ok()?;
            let memory = region.parent()?.join(mapping.split(',').next()?);
            let of =
                |driver: &str| fs::read_to_string(memory.join(driver).join("dirty_shutdown")).ok();
            of("nfit").or_else(|| of("cxl"))?.trim().parse::<u64>().ok()
        })
        .try_fold(0_u64, |sum, count| Some(sum.wrapping_add(count?)))
        .filter(|_| count > 0)
}

/// Whether the nvdimm or CXL region below the file's device says that its domain starts at the CPU
/// cache (`persistence_domain` of the region in sysfs).
fn caches_persist(file: &File) -> bool {
    sysfs_of(file).is_some_and(|device| region_says_cpu_cache(&device))
}

fn region_says_cpu_cache(device: &Path) -> bool {
    device
        .ancestors()
        .find_map(|folder| fs::read_to_string(folder.join("persistence_domain")).ok())
        .is_some_and(|domain| domain.trim() == "cpu_cache")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_names_its_domain_above_the_device() {
        let sys = tempfile::tempdir().unwrap();
        let device = sys.path().join("region0/namespace0.0/block/pmem0");
        fs::create_dir_all(&device).unwrap();
        assert!(!region_says_cpu_cache(&device));
        let says = sys.path().join("region0/persistence_domain");
        fs::write(&says, "memory_controller\n").unwrap();
        assert!(!region_says_cpu_cache(&device));
        fs::write(&says, "cpu_cache\n").unwrap();
        assert!(region_says_cpu_cache(&device));
    }

    #[test]
    fn a_region_sums_what_its_memories_count() {
        let sys = tempfile::tempdir().unwrap();
        let device = sys.path().join("bus/region0/namespace0.0/block/pmem0");
        fs::create_dir_all(&device).unwrap();
        assert_eq!(counted_shutdowns(&device), None);
        let region = sys.path().join("bus/region0");
        fs::write(region.join("mappings"), "2\n").unwrap();
        for (number, driver, count) in [(0, "nfit", "3\n"), (1, "cxl", "4\n")] {
            let mapping = format!("nmem{number},0,536870912,0\n");
            fs::write(region.join(format!("mapping{number}")), mapping).unwrap();
            let memory = sys.path().join(format!("bus/nmem{number}/{driver}"));
            fs::create_dir_all(&memory).unwrap();
            if number == 1 {
                assert_eq!(counted_shutdowns(&device), None, "one of them does not count");
            }
            fs::write(memory.join("dirty_shutdown"), count).unwrap();
        }
        assert_eq!(counted_shutdowns(&device), Some(7));
    }

    #[test]
    fn tmpfs_keeps_bytes_for_the_process_only() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        assert_eq!(Domain::detect(&file, false), Domain::Process);
    }
}
