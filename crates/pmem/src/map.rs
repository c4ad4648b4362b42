//! The mapping of a file, or of memory, into an address range that is reserved once.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{
    Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap,
};

use crate::UNIT;

/// A reserved address range, aligned to [`UNIT`], whose beginning maps a file or memory.
pub(crate) struct Mapping {
    reserved: NonNull<u8>,
    reserved_len: usize,
    base: NonNull<u8>,
    sync: bool,
    /// A mapping failed after the kernel had removed what was reserved there, so that somebody
    /// else's memory may be in the range by now.
    holed: AtomicBool,
}

// SAFETY: a mapping is an address range; what is done with the memory is up to those who own it.
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
        Ok(Self { reserved, reserved_len, base, sync: false, holed: AtomicBool::new(false) })
    }

    /// Finds out whether a file maps with `MAP_SYNC`, that is: whether it is persistent memory; it is
    /// mapped so from now on. Tried beside the reserved range: some file systems refuse too late, when
    /// what was mapped at a fixed address is gone.
    pub(crate) fn try_sync(&mut self, file: &File) {
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        // SAFETY: a new mapping at an address of the kernel's choice, unmapped before anyone sees it.
        self.sync = unsafe {
            let tried = mmap(ptr::null_mut(), UNIT as usize, ProtFlags::READ, flags, file, 0);
            tried.is_ok_and(|address| munmap(address, UNIT as usize).is_ok())
        };
    }

    /// Whether the file is persistent memory.
    pub(crate) fn maps_sync(&self) -> bool {
        self.sync
    }

    /// Maps memory without a file, all zero, to `start..end` of the reserved range.
    pub(crate) fn map_memory(&self, start: u64, end: u64) -> io::Result<()> {
        self.check_whole()?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let len = (end - start) as usize;
        let (address, access) = (self.address(start), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: `start..end` is inside the reserved range, which is whole, and nothing was mapped
        // there before.
        let mapped = unsafe { mmap_anonymous(address.cast(), len, access, flags) };
        self.holed.store(mapped.is_err(), Ordering::Release);
        mapped?;
        self.advise_large_pages(start, end);
        Ok(())
    }

    /// Maps `start..end` of `file`, which has these bytes, at `start` of the reserved range.
    pub(crate) fn map(&self, file: &File, start: u64, end: u64) -> io::Result<()> {
        self.check_whole()?;
        let flags =
            if self.sync { MapFlags::SHARED_VALIDATE | MapFlags::SYNC } else { MapFlags::SHARED };
        let len = (end - start) as usize;
        let (address, access) = (self.address(start), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: `start..end` is inside the reserved range (the pool checks its capacity), which is
        // whole, and nobody uses what is mapped there.
        let mapped =
            unsafe { mmap(address.cast(), len, access, flags | MapFlags::FIXED, file, start) };
        if let Err(errno) = mapped {
            self.holed.store(true, Ordering::Release);
            return Err(errno.into());
        }
        self.advise_large_pages(start, end);
        Ok(())
    }

    fn check_whole(&self) -> io::Result<()> {
        if self.holed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier attempt to map it failed"));
        }
        Ok(())
    }

    /// Asks for large pages in `start..end`, which is mapped.
    fn advise_large_pages(&self, start: u64, end: u64) {
        let (address, len) = (self.address(start), (end - start) as usize);
        // SAFETY: the range is mapped. Where there are no large pages, this changes nothing.
        unsafe {
            let _ = madvise(address.cast(), len, Advice::LinuxHugepage);
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

    /// Has large pages take the place of those of `start..end`, which is mapped: whole units, in each of which
    /// there is one.
    pub(crate) fn collapse(&self, start: u64, end: u64) {
        const MADV_COLLAPSE: c_int = 25;
        // `rustix` does not know this advice yet.
        unsafe extern "C" {
            fn madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int;
        }
        // SAFETY: the range is mapped, and the advice does not change its bytes. It is an optimisation: where the
        // kernel cannot, pages stay as they are.
        unsafe { madvise(self.address(start).cast(), (end - start) as usize, MADV_COLLAPSE) };
    }

    /// Waits until the kernel has made the pages of `start..end` durable.
    pub(crate) fn sync_range(&self, start: u64, end: u64) -> io::Result<()> {
        let page = rustix::param::page_size() as u64;
        let start = start / page * page;
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

/// Where a mapping begins; good as long as it lives.
#[derive(Clone, Copy)]
pub(crate) struct Base(NonNull<u8>);

// SAFETY: an address; what is done with the memory is up to those who own it.
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
            // What is in the hole is not known to be ours; the addresses are given up.
            return;
        }
        // SAFETY: the whole reservation belongs to this mapping, and the pool that holds it is
        // gone, so no region can reach it.
        unsafe {
            let _ = munmap(self.reserved.as_ptr().cast(), self.reserved_len);
        }
    }
}
