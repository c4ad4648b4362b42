//! A pool or a folder for one measurement.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use halite_pmem::Pool;

use crate::{Error, Result, Run, RunOptions, child};

/// A new pool whose file goes away when this is dropped.
pub struct Scratch {
    pool: Pool,
    path: PathBuf,
}

impl Scratch {
    /// A pool of `len` bytes, all of them present, in the run's folder.
    ///
    /// # Errors
    /// The errors of creating a pool.
    pub fn new(options: &RunOptions, len: u64) -> Result<Self> {
        Self::begin(options, len, len)
    }

    /// Creates such a pool for a run, of any length: it grows to that in parts.
    ///
    /// # Errors
    /// The errors of creating a pool, and [`Error::Interrupted`].
    pub(crate) fn large(run: &Run<'_>, len: u64) -> Result<Self> {
        const PART: u64 = 256 << 20;
        let scratch = Self::begin(&run.options, len.min(PART), len)?;
        while scratch.pool.len() < len {
            run.go_on()?;
            scratch.pool.grow(PART.min(len - scratch.pool.len()))?;
        }
        Ok(scratch)
    }

    fn begin(options: &RunOptions, len: u64, len_max: u64) -> Result<Self> {
        let path = name(&options.folder);
        let mut pool_options = options.pool();
        (pool_options.size_initial, pool_options.size_max) = (len, len_max);
        let pool = Pool::create(&path, &pool_options)?;
        let scratch = Self { pool, path };
        scratch.pool.install()?;
        Ok(scratch)
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The rest is in a temporary folder, and an error cannot be reported here.
        let _ = std::fs::remove_file(&self.path);
        forget(&self.path);
    }
}

/// A new folder that goes away when this is dropped.
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let path = name(folder);
        std::fs::create_dir(&path)
            .map_err(|source| Error::Folder { path: path.clone(), source })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Leaves it where it is.
    pub(crate) fn keep(self) -> PathBuf {
        let path = std::mem::ManuallyDrop::new(self).0.clone();
        forget(&path);
        path
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // The rest is in a temporary folder, and an error cannot be reported here.
        let _ = std::fs::remove_dir_all(&self.0);
        forget(&self.0);
    }
}

/// A name that no other run uses.
fn name(folder: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("halite-bench-{}-{number}", std::process::id()));
    known().push(path.clone());
    path
}

/// The scratch files and folders that exist, or may exist.
static KNOWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<PathBuf>> {
    KNOWN.lock().unwrap_or_else(|held| held.into_inner())
}

fn forget(path: &Path) {
    known().retain(|known| known != path);
}

/// Removes all pools and folders of measurements, and kills the processes that use them, for a process that is about to
/// end with some under way.
pub fn remove_scratch() {
    child::kill_all();
    for path in known().drain(..) {
        // The rest is in a temporary folder, and an error cannot be reported here.
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
    }
}
