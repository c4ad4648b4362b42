//! The raw loop: each put writes 4 KiB over written blocks, and calls `fdatasync`. Its rate is the limit of every store
//! that syncs each put. The loop is no store: its records are in memory alone.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use halite_bench::kv::{Session, Store, StoreResult};
use rustix::fs::OFlags;

const PAGE: usize = 4096;
/// Pages of the file, which are written one after the other, again and again.
const PAGES: u64 = 16 << 10;

/// Pages of one file.
pub(crate) struct Raw {
    is_direct: bool,
    open: Option<File>,
    next: AtomicU64,
    records: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Raw {
    pub(crate) fn new(is_direct: bool) -> Self {
        Self { is_direct, open: None, next: AtomicU64::new(0), records: Mutex::default() }
    }
}

impl Store for Raw {
    fn name(&self) -> &str {
        if self.is_direct { "raw-direct" } else { "raw-buffered" }
    }

    fn durability(&self) -> String {
        let how = if self.is_direct { "past the page cache" } else { "through the page cache" };
        format!("4 KiB over written blocks of one file for each put, {how}, and fdatasync")
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join("raw");
        let zeros = vec![0; PAGE << 8];
        let file = File::create(&path)?;
        for at in (0..PAGES * PAGE as u64).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        let flags = if self.is_direct { OFlags::DIRECT.bits() as i32 } else { 0 };
        self.open = Some(OpenOptions::new().write(true).custom_flags(flags).open(path)?);
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        self.open = None;
        self.records = Mutex::default();
        Ok(())
    }

    fn session(&self) -> StoreResult<Box<dyn Session + '_>> {
        let file = self.open.as_ref().ok_or("the store is closed")?;
        Ok(Box::new(RawSession { raw: self, file, buffer: vec![0; 2 * PAGE] }))
    }
}

struct RawSession<'a> {
    raw: &'a Raw,
    file: &'a File,
    /// A page of it is aligned.
    buffer: Vec<u8>,
}

impl Session for RawSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        if key.len() + value.len() > PAGE {
            return Err("the raw loop has records of a page at most".into());
        }
        let start = self.buffer.as_ptr().align_offset(PAGE);
        let page = &mut self.buffer[start..start + PAGE];
        page[..key.len()].copy_from_slice(key);
        page[key.len()..key.len() + value.len()].copy_from_slice(value);
        let number = self.raw.next.fetch_add(1, Relaxed) % PAGES;
        self.file.write_all_at(page, number * PAGE as u64)?;
        self.file.sync_data()?;
        let mut records = self.raw.records.lock().map_err(|_| "a thread panicked")?;
        records.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        let records = self.raw.records.lock().map_err(|_| "a thread panicked")?;
        records.get(key).into_iter().for_each(|value| read(value));
        Ok(())
    }

    fn delete(&mut self, _: &[u8]) -> StoreResult<()> {
        Err("the raw loop has puts alone: `--workload load`".into())
    }

    fn scan(&mut self, _: &[u8], _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> StoreResult<()> {
        Err("the raw loop has puts alone: `--workload load`".into())
    }
}
