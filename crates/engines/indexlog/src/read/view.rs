//! The view that readers see: where the keys of each key space point to.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_contract::{Error, KeySpaceId, Result};

use crate::entry::Entry;
use crate::index::{Form, Index};
use crate::key_spaces::is_internal;
use crate::read::pieces::Pieces;
use crate::read::pinned::PinnedRecord;
use crate::read::readable::{Readable, ReadableBlocks, missing};

/// The state that readers see. Writers change it under its lock, after their records are durable
/// (or, deferred, written).
#[derive(Default)]
pub(crate) struct View {
    pub(crate) spaces: BTreeMap<u32, KeySpace>,
    pub(crate) blocks: ReadableBlocks,
    pub(crate) pieces: Pieces,
    /// How indexes are made.
    pub(crate) form: Form,
    /// The number behind the last operation that the view shows.
    pub(crate) position: u64,
    /// Counts the changes of where indexes point to (`scans`).
    pub(crate) epoch: u64,
}

/// A key space.
#[derive(Clone)]
pub(crate) struct KeySpace {
    pub(crate) name: Arc<str>,
    pub(crate) index: Index,
}

impl View {
    /// A view without blocks and key spaces.
    pub(crate) fn new(form: Form) -> Self {
        // Space that is there already was filled in an earlier epoch.
        Self { form, epoch: 1, ..Self::default() }
    }

    /// Ends a change of the indexes: scans that begin from now on see the space that it showed, not the space that it
    /// hid.
    pub(crate) fn end_change(&mut self) {
        self.epoch += 1;
    }

    /// A key space, made without a name if there is none.
    pub(crate) fn space_mut(&mut self, space: u32) -> &mut KeySpace {
        let form = self.form;
        let make = || KeySpace { name: "".into(), index: form.empty() };
        self.spaces.entry(space).or_insert_with(make)
    }

    /// A key space that callers may use.
    pub(crate) fn user_space(&self, space: KeySpaceId) -> Result<&KeySpace> {
        let of_users = self.spaces.get(&space.0).filter(|_| !is_internal(space.0));
        of_users.ok_or(Error::NoSuchKeySpace)
    }

    /// The entry of a live key.
    pub(crate) fn live(&self, space: u32, key: &[u8]) -> Result<Option<Entry>> {
        let Some(space) = self.spaces.get(&space) else { return Ok(None) };
        Ok(space.index.get(key, &self.blocks)?.map(Entry::from_bits))
    }

    /// Brings the index's lines of a key into the cache.
    pub(crate) fn prepare(&self, space: u32, key: &[u8]) {
        if let Some(space) = self.spaces.get(&space) {
            space.index.prepare(key);
        }
    }

    /// Brings the index's lines of a key, and the key's current record, into the cache.
    pub(crate) fn prepare_update(&self, space: u32, key: &[u8]) {
        self.prepare(space, key);
        self.prepare_compare(space, key);
    }

    /// Brings the current record of a key into the cache, once the index has been prepared.
    pub(crate) fn prepare_compare(&self, space: u32, key: &[u8]) {
        if let Some(space) = self.spaces.get(&space) {
            space.index.prepare_compare(key, &self.blocks);
        }
    }

    /// The blocks of records.
    pub(crate) fn record_blocks(&self) -> Vec<u32> {
        self.blocks.of_records().collect()
    }

    pub(crate) fn block(&self, block: u32) -> Option<&Readable> {
        self.blocks.get(block)
    }

    pub(crate) fn set_block(&mut self, block: u32, readable: Readable) {
        self.blocks.set(block, readable);
    }

    pub(crate) fn take_block(&mut self, block: u32) -> Option<Readable> {
        self.blocks.take(block)
    }

    /// Pins the record of an entry, and the pieces of its value if it is not inline: they may be
    /// reused as soon as the view is unlocked.
    pub(crate) fn pin(&self, entry: Entry) -> Result<PinnedRecord> {
        let mut pinned = self.pin_record(entry)?;
        if entry.has_overflow() {
            let record = pinned.read()?;
            pinned.pieces = record.pieces().iter().map(|piece| self.pieces.pin(piece)).collect();
        }
        Ok(pinned)
    }

    /// Pins the record of an entry.
    pub(crate) fn pin_record(&self, entry: Entry) -> Result<PinnedRecord> {
        let end = entry.offset() + entry.footprint();
        let pinned = self
            .block(entry.block())
            .and_then(|block| Some((block.published.pin(entry.offset()..end)?, block.seed?)));
        let (bytes, seed) = pinned.ok_or_else(|| missing(entry))?;
        Ok(PinnedRecord { bytes, seed, entry, pieces: Vec::new() })
    }
}
