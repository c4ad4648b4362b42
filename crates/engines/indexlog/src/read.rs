//! The view that readers see, and the reading of a record.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_blocks::log::frame;
use halite_contract::{Bytes, Error, KeySpaceId, Result};
use halite_index::FullKeys;
use halite_pmem::{Pinned, Published};

use crate::entry::Entry;
use crate::index::{Form, Index};
use crate::pieces::Pieces;
use crate::record::{self, Record};
use crate::scans::Shown;
use crate::write::{CATALOGUE, INTERNAL};

/// The state that readers see. Writers change it under its lock, after their records are durable
/// (or, deferred, written).
#[derive(Default)]
pub(crate) struct View {
    pub(crate) spaces: BTreeMap<u32, Space>,
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
pub(crate) struct Space {
    pub(crate) name: Arc<str>,
    pub(crate) index: Index,
}

/// A block of records that can be read.
#[derive(Clone)]
pub(crate) struct Readable {
    pub(crate) published: Arc<Published>,
    /// The seed of its records' checksums.
    pub(crate) seed: Option<u64>,
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
    pub(crate) fn space_mut(&mut self, space: u32) -> &mut Space {
        let form = self.form;
        let make = || Space { name: "".into(), index: form.empty() };
        self.spaces.entry(space).or_insert_with(make)
    }

    /// A key space that callers may use.
    pub(crate) fn user_space(&self, space: KeySpaceId) -> Result<&Space> {
        let is_internal = space.0 == CATALOGUE || space.0 == INTERNAL;
        self.spaces.get(&space.0).filter(|_| !is_internal).ok_or(Error::NoSuchKeySpace)
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

    /// The same, and the current record of the key.
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
        let of_records = |(block, readable): (u32, &Option<Readable>)| {
            readable.as_ref()?.seed.is_some().then_some(block)
        };
        (0..).zip(&self.blocks.0).filter_map(of_records).collect()
    }

    pub(crate) fn block(&self, block: u32) -> Option<&Readable> {
        self.blocks.get(block)
    }

    pub(crate) fn set_block(&mut self, block: u32, readable: Readable) {
        let (at, blocks) = (block as usize, &mut self.blocks.0);
        if blocks.len() <= at {
            blocks.resize(at + 1, None);
        }
        blocks[at] = Some(readable);
    }

    pub(crate) fn take_block(&mut self, block: u32) -> Option<Readable> {
        self.blocks.0.get_mut(block as usize)?.take()
    }

    /// The epochs that show a piece which the change under way hides.
    pub(crate) fn piece_shown(&self, piece: &record::Piece) -> Shown {
        Shown { born: self.pieces.born(piece.place.get()), hidden: self.epoch }
    }

    /// Pins the record of an entry, and the pieces of its value if it is not inline: they may be
    /// reused as soon as the view is unlocked.
    pub(crate) fn pin(&self, entry: Entry) -> Result<PinnedRecord> {
        let mut pinned = self.pin_record(entry)?;
        if entry.has_overflow() {
            let record = pinned.read()?;
            let pieces = record.pieces().iter().map(|piece| {
                let published = self.pieces.get(piece.place.get())?;
                if piece.len.get() >= READ_AHEAD_FROM {
                    published.read_ahead(0);
                }
                published.pin(0..u64::from(piece.len.get()))
            });
            pinned.pieces = pieces.collect();
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

fn missing(entry: Entry) -> Error {
    Error::Damaged {
        what: format!("record at block {}, offset {}", entry.block(), entry.offset()),
        why: "the index leads to it, but it is not there".into(),
    }
}

/// Pieces of at least this many bytes are read ahead: the request takes as long as copying a page or two.
const READ_AHEAD_FROM: u32 = 16 << 10;

/// Bytes of a record that are prefetched.
const PREFETCHED_MAX: u64 = 256;

/// Blocks of records, by number.
#[derive(Default)]
pub(crate) struct ReadableBlocks(Vec<Option<Readable>>);

impl ReadableBlocks {
    fn get(&self, block: u32) -> Option<&Readable> {
        self.0.get(block as usize)?.as_ref()
    }
}

impl ReadableBlocks {
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

/// A record, pinned and not yet checked.
pub(crate) struct PinnedRecord {
    bytes: Pinned,
    seed: u64,
    entry: Entry,
    /// The pieces of a value that is not inline; `None` for a piece that is not there to be pinned.
    pieces: Vec<Option<Pinned>>,
}

impl PinnedRecord {
    /// The record, checked.
    pub(crate) fn read(&self) -> Result<Record<'_>> {
        let seed = frame::place(self.seed, self.entry.offset());
        Record::read(&self.bytes, seed).map_err(|why| {
            record::damage(&self.bytes, self.entry.block(), self.entry.offset(), why).into()
        })
    }

    /// The pieces of its value, if all of them are pinned and have their checksums.
    pub(crate) fn whole_pieces(&self, record: &Record<'_>, salt: u64) -> Option<Vec<&[u8]>> {
        let pieces = record.pieces().iter().zip(&self.pieces);
        let read = |(piece, pinned): (&record::Piece, &Option<Pinned>)| {
            pinned.as_ref().filter(|bytes| piece.matches(bytes, salt, record.seq())).map(|_| ())
        };
        pieces.map(read).collect::<Option<()>>()?;
        Some(self.pieces.iter().flatten().map(|pinned| &**pinned).collect())
    }

    /// The key.
    pub(crate) fn key(&self) -> Result<Bytes> {
        let record = self.read()?;
        let range = record.value_at() - record.key.len()..record.value_at();
        Ok(Bytes::from(self.bytes.clone().slice(range)))
    }

    /// The value, if the record's key is `key`.
    pub(crate) fn value_of(mut self, key: &[u8], salt: u64) -> Result<Option<Bytes>> {
        let pieces = std::mem::take(&mut self.pieces);
        let record = self.read()?;
        if record.key != key {
            return Ok(None);
        }
        if record.has_overflow() {
            return overflowed(&record, pieces, salt).map(Some);
        }
        let range = record.value_at()..record.value_at() + record.value_len();
        Ok(Some(Bytes::from(self.bytes.slice(range))))
    }

    /// The key and the value.
    pub(crate) fn pair(mut self, salt: u64) -> Result<(Bytes, Bytes)> {
        let pieces = std::mem::take(&mut self.pieces);
        let record = self.read()?;
        let value_at = record.value_at();
        let key = Bytes::from(self.bytes.clone().slice(value_at - record.key.len()..value_at));
        if record.has_overflow() {
            return Ok((key, overflowed(&record, pieces, salt)?));
        }
        let range = value_at..value_at + record.value_len();
        Ok((key, Bytes::from(self.bytes.slice(range))))
    }
}

/// A value from its pieces: pinned if there is one, else copied together.
fn overflowed(record: &Record<'_>, pinned: Vec<Option<Pinned>>, salt: u64) -> Result<Bytes> {
    let mut copied = Vec::new();
    for (piece, pinned) in record.pieces().iter().zip(pinned) {
        let bytes = pinned
            .filter(|bytes| piece.matches(bytes, salt, record.seq()))
            .ok_or_else(|| piece_damage(record, piece))?;
        if bytes.len() == record.value_len() {
            return Ok(Bytes::from(bytes));
        }
        copied.reserve_exact(record.value_len().saturating_sub(copied.len()));
        copied.extend_from_slice(&bytes);
    }
    if copied.len() != record.value_len() {
        return Err(Error::Damaged {
            what: format!("value of key `{}`", record.key.escape_ascii()),
            why: "its pieces are not as long as it is".into(),
        });
    }
    Ok(Bytes::from(copied))
}

/// Names a damaged piece of a value.
pub(crate) fn piece_damage(record: &Record<'_>, piece: &record::Piece) -> Error {
    Error::Damaged {
        what: format!(
            "value of key `{}`, {} bytes at block {}",
            record.key[..record.key.len().min(64)].escape_ascii(),
            piece.len.get(),
            piece.block()
        ),
        why: "it does not have its checksum".into(),
    }
}
