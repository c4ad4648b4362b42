//! A pool or a folder for one measurement.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use halite_pmem::Pool;

use crate::{Error, Result, RunOptions};

/// A new pool whose file goes away when this is dropped.
pub struct Scratch {
    pool: Pool,
    path: PathBuf,
}

impl Scratch {
    /// A pool of `len` bytes, all of them present, in the run's folder.
    ///
    /// # Errors
    /// What creating a pool reports.
    pub fn new(options: &RunOptions, len: u64) -> Result<Self> {
        let path = name(&options.folder);
        let mut pool_options = options.pool();
        (pool_options.size_initial, pool_options.size_max) = (len, len);
        let pool = Pool::create(&path, &pool_options)?;
        pool.install()?;
        Ok(Self { pool, path })
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is in a folder for temporary things; there is no one to tell.
        let _ = std::fs::remove_file(&self.path);
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
        std::mem::ManuallyDrop::new(self).0.clone()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What is left is in a folder for temporary things; there is no one to tell.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A name that no other run uses.
fn name(folder: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("halite-bench-{}-{number}", std::process::id()))
}
