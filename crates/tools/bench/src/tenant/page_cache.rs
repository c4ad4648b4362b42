//! Keeping files out of the kernel's page cache.
//!
//! The paper's stores read and write past it (direct I/O); not all stores here can. So that each store has only the
//! memory that it was given, and reads a larger database from the disk, the kernel is asked again and again to drop the
//! pages of the stores' files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

/// How long a page may stay.
const PERIOD: Duration = Duration::from_millis(50);

/// A thread that has the files of a folder dropped from the page cache, until this is dropped.
pub(crate) struct NoPageCache {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NoPageCache {
    pub(crate) fn of(folder: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (folder, stopped) = (folder.to_owned(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !stopped.load(Relaxed) {
                drop_pages(&folder);
                thread::park_timeout(PERIOD);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for NoPageCache {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread is ignored.
            let _ = thread.join();
        }
    }
}

/// Drops clean pages, and begins to write dirty ones back. A file that cannot be opened, as it was removed meanwhile,
/// has no pages.
pub(crate) fn drop_pages(folder: &Path) {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    if let Ok(file) = File::open(entry.path()) {
                        let _ = fadvise(&file, 0, None, Advice::DontNeed);
                    }
                }
                _ => {}
            }
        }
    }
}
