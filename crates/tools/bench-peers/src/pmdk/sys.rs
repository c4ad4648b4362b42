//! The functions of PMDK 1.12 that are measured, declared by hand, and owners of its pools that make
//! them safe to call. The only place of this program with `unsafe`.
//!
//! A pool is created in a file that must not exist, and closed when its owner is dropped. The owners
//! hold raw pointers, so they are neither `Send` nor `Sync`, but for [`Blocks`].
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use halite_bench::kv::StoreResult;

#[repr(C)]
struct PmemLogPool {
    opaque: [u8; 0],
}

#[repr(C)]
struct PmemBlkPool {
    opaque: [u8; 0],
}

#[repr(C)]
struct PmemObjPool {
    opaque: [u8; 0],
}

/// `PMEMoid`: an object of a pool.
#[repr(C)]
#[derive(Clone, Copy)]
struct PmemOid {
    pool_uuid_lo: u64,
    off: u64,
}

/// `process_chunk` of pmemlog_walk(3): 1 to go on, 0 to stop.
type ProcessChunk = unsafe extern "C" fn(*const c_void, usize, *mut c_void) -> c_int;

#[link(name = "pmemlog")]
unsafe extern "C" {
    fn pmemlog_create(path: *const c_char, poolsize: usize, mode: c_uint) -> *mut PmemLogPool;
    fn pmemlog_close(plp: *mut PmemLogPool);
    fn pmemlog_nbyte(plp: *mut PmemLogPool) -> usize;
    fn pmemlog_append(plp: *mut PmemLogPool, buf: *const c_void, count: usize) -> c_int;
    fn pmemlog_rewind(plp: *mut PmemLogPool);
    fn pmemlog_walk(
        plp: *mut PmemLogPool,
        chunksize: usize,
        process_chunk: ProcessChunk,
        arg: *mut c_void,
    );
    fn pmemlog_errormsg() -> *const c_char;
}

#[link(name = "pmemblk")]
unsafe extern "C" {
    fn pmemblk_create(
        path: *const c_char,
        bsize: usize,
        poolsize: usize,
        mode: c_uint,
    ) -> *mut PmemBlkPool;
    fn pmemblk_close(pbp: *mut PmemBlkPool);
    fn pmemblk_nblock(pbp: *mut PmemBlkPool) -> usize;
    fn pmemblk_read(pbp: *mut PmemBlkPool, buf: *mut c_void, blockno: c_longlong) -> c_int;
    fn pmemblk_write(pbp: *mut PmemBlkPool, buf: *const c_void, blockno: c_longlong) -> c_int;
    fn pmemblk_errormsg() -> *const c_char;
}

/// `TX_PARAM_NONE`, which ends the parameters of pmemobj_tx_begin(3).
const TX_PARAM_NONE: c_int = 0;

#[link(name = "pmemobj")]
unsafe extern "C" {
    fn pmemobj_create(
        path: *const c_char,
        layout: *const c_char,
        poolsize: usize,
        mode: c_uint,
    ) -> *mut PmemObjPool;
    fn pmemobj_close(pop: *mut PmemObjPool);
    fn pmemobj_root(pop: *mut PmemObjPool, size: usize) -> PmemOid;
    fn pmemobj_direct(oid: PmemOid) -> *mut c_void;
    fn pmemobj_tx_begin(pop: *mut PmemObjPool, env: *mut c_void, ...) -> c_int;
    fn pmemobj_tx_add_range(oid: PmemOid, hoff: u64, size: usize) -> c_int;
    fn pmemobj_tx_commit();
    fn pmemobj_tx_end() -> c_int;
    fn pmemobj_alloc(
        pop: *mut PmemObjPool,
        oidp: *mut PmemOid,
        size: usize,
        type_num: u64,
        constructor: Option<Constructor>,
        arg: *mut c_void,
    ) -> c_int;
    fn pmemobj_free(oidp: *mut PmemOid);
    fn pmemobj_first(pop: *mut PmemObjPool) -> PmemOid;
    fn pmemobj_next(oid: PmemOid) -> PmemOid;
    fn pmemobj_errormsg() -> *const c_char;
}

/// `pmemobj_constr` of pmemobj_alloc(3): 0 if the object is made.
type Constructor = unsafe extern "C" fn(*mut PmemObjPool, *mut c_void, *mut c_void) -> c_int;

/// The files are for their owner.
const MODE: c_uint = 0o600;

fn c_path(path: &Path) -> StoreResult<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// The text of a library's last error.
fn said(errormsg: unsafe extern "C" fn() -> *const c_char) -> String {
    // SAFETY: the three functions that are passed take nothing and return this thread's buffer.
    let text = unsafe { errormsg() };
    if text.is_null() {
        return "no message".to_owned();
    }
    // SAFETY: it ends with a zero, and is not written before the next call into the library.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A pool of libpmemlog: one log.
pub(super) struct Log {
    pool: NonNull<PmemLogPool>,
}

impl Log {
    /// A log in a new file of `file_bytes`.
    pub(super) fn create(path: &Path, file_bytes: usize) -> StoreResult<Self> {
        let path = c_path(path)?;
        // SAFETY: the path ends with a zero and outlives the call.
        let pool = unsafe { pmemlog_create(path.as_ptr(), file_bytes, MODE) };
        let pool = NonNull::new(pool).ok_or_else(|| said(pmemlog_errormsg))?;
        Ok(Self { pool })
    }

    /// Bytes that fit in an empty log.
    pub(super) fn capacity(&self) -> usize {
        // SAFETY: the pool is open.
        unsafe { pmemlog_nbyte(self.pool.as_ptr()) }
    }

    /// Appends, durably and whole or not at all.
    pub(super) fn append(&mut self, entry: &[u8]) -> StoreResult<()> {
        // SAFETY: the pool is open, and as many bytes are read as the entry has.
        let failed =
            unsafe { pmemlog_append(self.pool.as_ptr(), entry.as_ptr().cast(), entry.len()) };
        if failed == 0 { Ok(()) } else { Err(said(pmemlog_errormsg).into()) }
    }

    /// Empties the log.
    pub(super) fn rewind(&mut self) {
        // SAFETY: the pool is open, and no walk reads it: a walk would borrow it.
        unsafe { pmemlog_rewind(self.pool.as_ptr()) }
    }

    /// Calls `read` with one chunk of `chunk_bytes` after the other until it returns false; the last
    /// one may be shorter.
    pub(super) fn walk(&self, chunk_bytes: usize, mut read: impl FnMut(&[u8]) -> bool) {
        let mut read: &mut dyn FnMut(&[u8]) -> bool = &mut read;
        // SAFETY: the pool is open, `pass_on` gets the closure that it expects, and the closure
        // outlives the call.
        unsafe {
            pmemlog_walk(self.pool.as_ptr(), chunk_bytes, pass_on, (&raw mut read).cast());
        }
    }
}

/// Passes a chunk on to the closure of [`Log::walk`]. A panic in there ends the process.
unsafe extern "C" fn pass_on(chunk: *const c_void, len: usize, read: *mut c_void) -> c_int {
    // SAFETY: `Log::walk` passes a pointer to a closure that no other code uses meanwhile.
    let read = unsafe { &mut *read.cast::<&mut dyn FnMut(&[u8]) -> bool>() };
    // SAFETY: the library passes bytes of the log, which no thread changes during a walk.
    let chunk = unsafe { slice::from_raw_parts(chunk.cast(), len) };
    read(chunk).into()
}

impl Drop for Log {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and this is its only owner.
        unsafe { pmemlog_close(self.pool.as_ptr()) }
    }
}

/// A pool of libpmemblk: an array of blocks of one size.
pub(super) struct Blocks {
    pool: NonNull<PmemBlkPool>,
    block_bytes: usize,
}

// SAFETY: nothing of a pool belongs to the thread that created it.
unsafe impl Send for Blocks {}
// SAFETY: the library locks the state that blocks share; any number of threads may read and write at once.
unsafe impl Sync for Blocks {}

impl Blocks {
    /// Blocks of `block_bytes` in a new file of `file_bytes`.
    pub(super) fn create(path: &Path, block_bytes: usize, file_bytes: usize) -> StoreResult<Self> {
        let path = c_path(path)?;
        // SAFETY: the path ends with a zero and outlives the call.
        let pool = unsafe { pmemblk_create(path.as_ptr(), block_bytes, file_bytes, MODE) };
        let pool = NonNull::new(pool).ok_or_else(|| said(pmemblk_errormsg))?;
        Ok(Self { pool, block_bytes })
    }

    /// How many blocks there are.
    pub(super) fn count(&self) -> usize {
        // SAFETY: the pool is open.
        unsafe { pmemblk_nblock(self.pool.as_ptr()) }
    }

    /// Replaces a block, durably and whole or not at all.
    ///
    /// # Panics
    /// If `bytes` are not as many as a block has.
    pub(super) fn write(&self, number: u64, bytes: &[u8]) -> StoreResult<()> {
        assert_eq!(bytes.len(), self.block_bytes, "a block is written whole");
        let number = c_longlong::try_from(number)?;
        // SAFETY: the pool is open; a block's bytes are read, and there are as many. The library
        // refuses a number that is too large.
        let failed = unsafe { pmemblk_write(self.pool.as_ptr(), bytes.as_ptr().cast(), number) };
        if failed == 0 { Ok(()) } else { Err(said(pmemblk_errormsg).into()) }
    }

    /// Reads a block.
    ///
    /// # Panics
    /// If `bytes` are not as many as a block has.
    pub(super) fn read(&self, number: u64, bytes: &mut [u8]) -> StoreResult<()> {
        assert_eq!(bytes.len(), self.block_bytes, "a block is read whole");
        let number = c_longlong::try_from(number)?;
        // SAFETY: the pool is open; a block's bytes are written, and there is room for as many. The
        // library refuses a number that is too large.
        let failed = unsafe { pmemblk_read(self.pool.as_ptr(), bytes.as_mut_ptr().cast(), number) };
        if failed == 0 { Ok(()) } else { Err(said(pmemblk_errormsg).into()) }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and this is its only owner.
        unsafe { pmemblk_close(self.pool.as_ptr()) }
    }
}

/// A pool of libpmemobj whose root object is an array of bytes.
pub(super) struct Object {
    pool: NonNull<PmemObjPool>,
    root: PmemOid,
    bytes: NonNull<u8>,
    len: usize,
}

impl Object {
    /// `len` zeros as the root object of a pool in a new file of `file_bytes`.
    pub(super) fn create(path: &Path, len: usize, file_bytes: usize) -> StoreResult<Self> {
        let path = c_path(path)?;
        // SAFETY: path and layout end with a zero and outlive the call.
        let pool = unsafe { pmemobj_create(path.as_ptr(), c"cells".as_ptr(), file_bytes, MODE) };
        let pool = NonNull::new(pool).ok_or_else(|| said(pmemobj_errormsg))?;
        // SAFETY: the pool is open. The library refuses a root that does not fit, with the null object.
        let root = unsafe { pmemobj_root(pool.as_ptr(), len) };
        // SAFETY: it is an object of an open pool, or the null object, which has no address.
        let bytes = NonNull::new(unsafe { pmemobj_direct(root) }.cast());
        let Some(bytes) = bytes else {
            let why = said(pmemobj_errormsg);
            // SAFETY: the pool is open, and has no owner yet.
            unsafe { pmemobj_close(pool.as_ptr()) };
            return Err(why.into());
        };
        Ok(Self { pool, root, bytes, len })
    }

    /// Replaces bytes from `offset` on in a transaction of their own: the library copies the present
    /// bytes to its undo log, the new ones are stored, and the commit writes them back. Durable, and
    /// whole or not at all.
    ///
    /// The macros of the manual wrap the same functions in setjmp(3), whose environment may be null:
    /// then the functions return an abort as an error.
    ///
    /// # Panics
    /// If the object ends before the bytes do.
    pub(super) fn update(&mut self, offset: usize, bytes: &[u8]) -> StoreResult<()> {
        let end = offset.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.len), "an update behind the object's end");
        // SAFETY: the pool is open and this thread is in no other transaction, as each ends below.
        // The range is in the object; it is borrowed mutably, so no other code looks at it.
        let failed = unsafe {
            let begun = pmemobj_tx_begin(self.pool.as_ptr(), ptr::null_mut(), TX_PARAM_NONE);
            if begun == 0 && pmemobj_tx_add_range(self.root, offset as u64, bytes.len()) == 0 {
                let place = self.bytes.as_ptr().add(offset);
                ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
                pmemobj_tx_commit();
            }
            pmemobj_tx_end()
        };
        if failed == 0 { Ok(()) } else { Err(said(pmemobj_errormsg).into()) }
    }

    /// The object.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the object has so many initialised bytes, and changes only through `update`.
        unsafe { slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and this is its only owner.
        unsafe { pmemobj_close(self.pool.as_ptr()) }
    }
}

/// A pool of libpmemobj as a heap.
pub(super) struct Heap {
    pool: NonNull<PmemObjPool>,
}

/// An object of a [`Heap`].
pub(super) struct Allocated(PmemOid);

impl Heap {
    /// An empty heap in a new file of `file_bytes`.
    pub(super) fn create(path: &Path, file_bytes: usize) -> StoreResult<Self> {
        let path = c_path(path)?;
        // SAFETY: path and layout end with a zero and outlive the call.
        let pool = unsafe { pmemobj_create(path.as_ptr(), c"heap".as_ptr(), file_bytes, MODE) };
        let pool = NonNull::new(pool).ok_or_else(|| said(pmemobj_errormsg))?;
        Ok(Self { pool })
    }

    /// Allocates an object of `bytes`, durably and whole or not at all.
    pub(super) fn allocate(&mut self, bytes: usize) -> StoreResult<Allocated> {
        let mut oid = PmemOid { pool_uuid_lo: 0, off: 0 };
        // SAFETY: the pool is open, and the place for the object is valid and this call's alone. It need not
        // be in the pool. There is no constructor.
        let failed = unsafe {
            pmemobj_alloc(self.pool.as_ptr(), &raw mut oid, bytes, 1, None, ptr::null_mut())
        };
        if failed == 0 { Ok(Allocated(oid)) } else { Err(said(pmemobj_errormsg).into()) }
    }

    /// Frees an object, durably.
    pub(super) fn free(&mut self, mut object: Allocated) {
        // SAFETY: the object is one of this heap's, which is open, and is freed once.
        unsafe { pmemobj_free(&raw mut object.0) }
    }

    /// How many objects there are.
    pub(super) fn count(&self) -> usize {
        // SAFETY: the pool is open.
        let mut object = unsafe { pmemobj_first(self.pool.as_ptr()) };
        let mut count = 0;
        while object.off != 0 {
            count += 1;
            // SAFETY: it is an object of an open pool.
            object = unsafe { pmemobj_next(object) };
        }
        count
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and this is its only owner.
        unsafe { pmemobj_close(self.pool.as_ptr()) }
    }
}
