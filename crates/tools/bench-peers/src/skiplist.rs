//! A skip list in DRAM (`crossbeam-skiplist`) as the memtable of an LSM-tree: keys with the sequence of their
//! put, the newest first, and values in the nodes.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_skiplist::SkipMap;
use halite_bench::kv::{Session, Store, StoreResult};

/// Bytes of a key and of a value that lie in a node, as those of Yan's figure 14.
const KEY_LEN: usize = 8;
const VALUE_LEN: usize = 32;

/// A key, and the age of its value: the newest sorts first.
type Versioned = ([u8; KEY_LEN], u64);

/// The memtable.
#[derive(Default)]
pub(crate) struct Skiplist {
    records: SkipMap<Versioned, [u8; VALUE_LEN]>,
    sequence: AtomicU64,
}

impl Store for Skiplist {
    fn name(&self) -> &str {
        "crossbeam-skiplist"
    }

    fn durability(&self) -> String {
        "nothing: it is in DRAM, without a log".to_owned()
    }

    fn open(&mut self, _: &Path) -> StoreResult<()> {
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        *self = Self::default();
        Ok(())
    }

    fn session(&self) -> StoreResult<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }
}

impl Session for &Skiplist {
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        let newness = u64::MAX - self.sequence.fetch_add(1, Relaxed);
        self.records.insert((key.try_into()?, newness), value.try_into()?);
        Ok(())
    }

    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()> {
        let key: [u8; KEY_LEN] = key.try_into()?;
        // A short scan, which begins with the newest.
        if let Some(newest) = self.records.lower_bound(std::ops::Bound::Included(&(key, 0)))
            && newest.key().0 == key
        {
            read(newest.value());
        }
        Ok(())
    }

    fn delete(&mut self, _: &[u8]) -> StoreResult<()> {
        Err("it has no deletes".into())
    }

    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()> {
        let (mut last, mut count) = (None, 0);
        for record in self.records.range((start.try_into()?, 0)..) {
            let key = record.key().0;
            if last != Some(key) {
                if count == limit {
                    break;
                }
                read(&key, record.value());
                (last, count) = (Some(key), count + 1);
            }
        }
        Ok(())
    }
}
