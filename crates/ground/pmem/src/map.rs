//! The mapping of a file, or of memory, into an address range that is reserved once.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{self, fadvise};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap,
};

use crate::UNIT;
use halite_sim::{Call, Kernel};

/// The page size wanted for the mapped file or memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// As large as there are: memory needs fewer translations and faults then.
    Large,
    /// The smallest. Of an ordinary file the kernel writes a page as a whole once a byte of it has changed, and where
    /// a file system has large folios, such a page is up to 2 MiB long.
    Small,
}

/// A reserved address range, aligned to [`UNIT`], whose beginning maps a file or memory.
pub(crate) struct Mapping {
    reserved: NonNull<u8>,
    reserved_len: usize,
    base: NonNull<u8>,
    sync: bool,
    pages: Pages,
    /// A mapping failed after the kernel had removed the reservation there, so that memory of another owner
    /// may be in the range by now.
    holed: AtomicBool,
}

// SAFETY: a mapping is an address range; its owners are responsible for every access to the memory.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `capacity` bytes, a multiple of [`UNIT`], and maps nothing.
    pub(crate) fn reserve(capacity: u64) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let reserved_len = capacity
            .checked_add(UNIT)
            .and_then(|len| usize::try_from(len).ok())
            .ok_or_else(too_large)?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing.
        let reserved = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                reserved_len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let reserved = NonNull::new(reserved.cast::<u8>()).ok_or_else(too_large)?;
        let skip = reserved.as_ptr().align_offset(UNIT as usize);
        // SAFETY: `skip < UNIT`, and the reservation is longer than `UNIT`.
        let base = unsafe { reserved.add(skip) };
        let (sync, pages, holed) = (false, Pages::Large, AtomicBool::new(false));
        Ok(Self { reserved, reserved_len, base, sync, pages, holed })
    }

    /// Finds out whether a file maps with `MAP_SYNC`, that is: whether it is persistent memory; it is
    /// mapped so from now on. Tried beside the reserved range: some file systems refuse only after the
    /// kernel has removed the earlier mapping at a fixed address.
    ///
    /// # Errors
    /// A refusal that does not tell the kind of the file. If memory is short for the attempt, for
    /// example, persistent memory must not be taken for an ordinary file.
    pub(crate) fn try_sync(&mut self, kernel: &Kernel, file: &File) -> io::Result<()> {
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        // SAFETY: a new mapping at an address of the kernel's choice, unmapped before anyone sees it.
        let tried = kernel.ask(Call::Map, || unsafe {
            let beside = mmap(ptr::null_mut(), UNIT as usize, ProtFlags::READ, flags, file, 0)?;
            munmap(beside, UNIT as usize)
        });
        self.sync = match tried {
            Ok(()) => true,
            // The file system, or a kernel that does not know the flag, refuses it.
            Err(Errno::OPNOTSUPP | Errno::INVAL) => false,
            Err(errno) => return Err(errno.into()),
        };
        Ok(())
    }

    /// Whether the file is persistent memory.
    pub(crate) fn maps_sync(&self) -> bool {
        self.sync
    }

    /// Asks the kernel from now on to keep the mapped part of `file`, an ordinary one, in the smallest
    /// pages. Pages that the kernel already caches keep their size ([`Mapping::forget_pages`]), as do pages
    /// that another process reads later.
    ///
    /// Two causes make them large: a request for large pages, and readahead, whose folios grow as long as
    /// it guesses right. So the kernel is told not to guess: ranges about to be read in order are asked for
    /// ([`Mapping::read_ahead`]), which brings small pages.
    pub(crate) fn keep_pages_small(&mut self, file: &File) {
        self.pages = Pages::Small;
        // A file system without such advice has no large folios either.
        let _ = fadvise(file, 0, None, fs::Advice::Random);
    }

    /// Has the kernel forget its cached pages of `file`, an ordinary one of which no page is mapped: a
    /// process that copied or read it may have left large folios there. Dirty pages stay, so the caller
    /// syncs the file just before.
    pub(crate) fn forget_pages(file: &File) {
        // A kernel that ignores this only makes writes slower.
        let _ = fadvise(file, 0, None, fs::Advice::DontNeed);
    }

    /// Maps memory without a file, all zero, to `start..end` of the reserved range.
    pub(crate) fn map_memory(&self, kernel: &Kernel, start: u64, end: u64) -> io::Result<()> {
        self.check_whole()?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let len = (end - start) as usize;
        let (address, access) = (self.address(start), ProtFlags::READ | ProtFlags::WRITE);
        // Beside the reserved range first, as in [`Mapping::map`].
        // SAFETY: a new mapping at an address of the kernel's choice, unmapped before anyone sees it.
        kernel.ask(Call::Map, || unsafe {
            let beside = mmap_anonymous(ptr::null_mut(), len, access, flags)?;
            munmap(beside, len)
        })?;
        let flags = flags | MapFlags::FIXED;
        // SAFETY: `start..end` is inside the reserved range, which is whole, and nothing was mapped
        // there before.
        self.replace(kernel, || unsafe { mmap_anonymous(address.cast(), len, access, flags) })?;
        self.advise_pages(start, end);
        Ok(())
    }

    /// Maps `start..end` of `file`, which has these bytes, at `start` of the reserved range.
    pub(crate) fn map(&self, kernel: &Kernel, file: &File, start: u64, end: u64) -> io::Result<()> {
        self.check_whole()?;
        let flags =
            if self.sync { MapFlags::SHARED_VALIDATE | MapFlags::SYNC } else { MapFlags::SHARED };
        let len = (end - start) as usize;
        // Beside the reserved range first: a kernel without memory for the mapping fails there, where no
        // mapping is lost.
        // SAFETY: a new mapping at an address of the kernel's choice, unmapped before anyone sees it.
        kernel.ask(Call::Map, || unsafe {
            let beside = mmap(ptr::null_mut(), len, ProtFlags::READ, flags, file, start)?;
            munmap(beside, len)
        })?;
        let (address, access) = (self.address(start), ProtFlags::READ | ProtFlags::WRITE);
        let flags = flags | MapFlags::FIXED;
        // SAFETY: `start..end` is inside the reserved range (the pool checks its capacity), which is whole,
        // and no region uses the memory mapped there.
        self.replace(kernel, || unsafe { mmap(address.cast(), len, access, flags, file, start) })?;
        self.advise_pages(start, end);
        Ok(())
    }

    /// Maps memory in place of the reservation. Where the kernel fails at that, it may have removed the
    /// reservation.
    fn replace(
        &self,
        kernel: &Kernel,
        map: impl Fn() -> rustix::io::Result<*mut c_void>,
    ) -> io::Result<()> {
        kernel.ask(Call::Map, || {
            map().inspect_err(|_| self.holed.store(true, Ordering::Release)).map(drop)
        })?;
        Ok(())
    }

    fn check_whole(&self) -> io::Result<()> {
        if self.holed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier attempt to map it failed"));
        }
        Ok(())
    }

    /// Asks for the wanted pages in `start..end`, which is mapped.
    fn advise_pages(&self, start: u64, end: u64) {
        let (address, len) = (self.address(start), (end - start) as usize);
        let advice = match self.pages {
            Pages::Large => Advice::LinuxHugepage,
            Pages::Small => Advice::Random,
        };
        // SAFETY: the range is mapped, and the advice does not change its bytes. A kernel that does not
        // know the advice leaves the pages unchanged.
        unsafe {
            let _ = madvise(address.cast(), len, advice);
        }
    }

    /// Has the kernel read the pages of `start..end`, which is mapped, and does not wait for them.
    pub(crate) fn read_ahead(&self, start: u64, end: u64) {
        let start = start / page_size() * page_size();
        // SAFETY: as in `advise_pages`.
        unsafe {
            let _ = madvise(self.address(start).cast(), (end - start) as usize, Advice::WillNeed);
        }
    }

    /// Makes the pages of `start..end` present, so that the first stores to them do not fault.
    pub(crate) fn populate(&self, start: u64, end: u64) {
        let address = self.address(start);
        // SAFETY: `start..end` is mapped, and populating pages does not change their bytes. It is
        // an optimisation: where the kernel cannot, the pages fault one by one.
        unsafe {
            let _ = madvise(address.cast(), (end - start) as usize, Advice::LinuxPopulateWrite);
        }
    }

    /// Replaces the pages of `start..end`, which is mapped, by large ones: whole units, each of which has a
    /// page already.
    pub(crate) fn collapse(&self, start: u64, end: u64) {
        const MADV_COLLAPSE: c_int = 25;
        // `rustix` does not know this advice yet.
        unsafe extern "C" {
            fn madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int;
        }
        // SAFETY: the range is mapped, and the advice does not change its bytes. It is an optimisation: a
        // kernel that cannot follow it leaves the pages unchanged.
        unsafe { madvise(self.address(start).cast(), (end - start) as usize, MADV_COLLAPSE) };
    }

    /// Waits until the kernel has made the pages of `start..end` durable.
    pub(crate) fn sync_range(&self, start: u64, end: u64) -> io::Result<()> {
        let start = start / page_size() * page_size();
        let address = self.address(start);
        // SAFETY: the pages are mapped, and a sync does not change their bytes.
        unsafe { msync(address.cast(), (end - start) as usize, MsyncFlags::SYNC) }?;
        Ok(())
    }

    pub(crate) fn base(&self) -> Base {
        Base(self.base)
    }

    fn address(&self, offset: u64) -> *mut u8 {
        self.base().address(offset)
    }
}

/// The length of the smallest page in bytes.
pub(crate) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// The beginning of a mapping; valid as long as the mapping is.
#[derive(Clone, Copy)]
pub(crate) struct Base(NonNull<u8>);

// SAFETY: an address; its owners are responsible for every access to the memory.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

impl Base {
    /// The address of an offset.
    #[inline]
    pub(crate) fn address(self, offset: u64) -> *mut u8 {
        self.0.as_ptr().wrapping_add(offset as usize)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.holed.load(Ordering::Acquire) {
            // The memory in the hole may belong to another owner, so the whole reservation is leaked.
            return;
        }
        // SAFETY: the whole reservation belongs to this mapping, and the pool that holds it is
        // gone, so no region can reach it.
        unsafe {
            let _ = munmap(self.reserved.as_ptr().cast(), self.reserved_len);
        }
    }
}
