//! The blocks of records that can be read, by number, and the keys that the indexes compare.

use std::sync::Arc;

use halite_blocks::log::frame;
use halite_contract::{Error, Result};
use halite_index::FullKeys;
use halite_pmem::Published;

use crate::entry::Entry;
use crate::record::{self, Record};

/// A block of records that can be read.
#[derive(Clone)]
pub(crate) struct Readable {
    pub(crate) published: Arc<Published>,
    /// The seed of its records' checksums.
    pub(crate) seed: Option<u64>,
}

/// Bytes of a record that are prefetched.
const PREFETCHED_MAX: u64 = 256;

/// Blocks of records, by number.
#[derive(Default)]
pub(crate) struct ReadableBlocks(Vec<Option<Readable>>);

impl ReadableBlocks {
    /// A block that can be read.
    pub(crate) fn get(&self, block: u32) -> Option<&Readable> {
        self.0.get(block as usize)?.as_ref()
    }

    pub(super) fn set(&mut self, block: u32, readable: Readable) {
        let at = block as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(readable);
    }

    pub(super) fn take(&mut self, block: u32) -> Option<Readable> {
        self.0.get_mut(block as usize)?.take()
    }

    /// The blocks of records.
    pub(super) fn of_records(&self) -> impl Iterator<Item = u32> {
        let of_records = |(block, readable): (u32, &Option<Readable>)| {
            readable.as_ref()?.seed.is_some().then_some(block)
        };
        (0..).zip(&self.0).filter_map(of_records)
    }

    /// Reads the record of an entry where it lies, checked.
    pub(crate) fn with_record<R>(
        &self,
        entry: Entry,
        read: impl FnOnce(&Record<'_>) -> R,
    ) -> Result<R> {
        let end = entry.offset() + entry.footprint();
        let found = self
            .get(entry.block())
            .and_then(|block| Some((block.published.read(entry.offset()..end)?, block.seed?)));
        let (bytes, seed) = found.ok_or_else(|| missing(entry))?;
        let record = Record::read(bytes, frame::place(seed, entry.offset()))
            .map_err(|why| record::damage(bytes, entry.block(), entry.offset(), why))?;
        Ok(read(&record))
    }

    /// Prefetches a record's first lines; the processor follows with the others by itself.
    pub(crate) fn prefetch_record(&self, entry: Entry) {
        if let Some(block) = self.get(entry.block()) {
            let end = entry.offset() + entry.footprint().min(PREFETCHED_MAX);
            let lines = (entry.offset()..end).step_by(halite_pmem::LINE as usize);
            lines.for_each(|at| block.published.prefetch(at));
        }
    }
}

/// The keys that an index does not keep whole are read from the records, checked.
impl FullKeys for ReadableBlocks {
    type Error = Error;

    fn with_key<R>(&self, entry: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.with_record(Entry::from_bits(entry), |record| read(record.key))
    }

    fn prefetch(&self, entry: u64) {
        let entry = Entry::from_bits(entry);
        if let Some(block) = self.get(entry.block()) {
            block.published.prefetch(entry.offset());
        }
    }
}

/// The error of an entry without a record.
pub(super) fn missing(entry: Entry) -> Error {
    Error::Damaged {
        what: format!("record at block {}, offset {}", entry.block(), entry.offset()),
        why: "the index leads to it, but it is not there".into(),
    }
}
