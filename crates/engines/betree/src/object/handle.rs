//! An open object.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::SystemTime;

use halite_contract::{
    Bytes, Durability, Error, KeyRange, KeySpaceId, Preference, Result, check_value,
};

use super::change::{Update, push_range};
use super::cursor::ObjectCursor;
use super::keys::{chunk_key, chunks_from, custom_key, custom_of, customs};
use super::limits::{ATOMIC_CHUNKS, CHUNK_LEN, check_metadata_key, end_of};
use super::metadata::{AccessPattern, Metadata, ObjectInfo, nanoseconds};
use super::pieces::{Change, Piece, Pieces, overwrite};
use super::reading::{info_of, read_range};
use super::shared::{Opened, no_such_object};
use crate::message::Kind;
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::store::written_large::{NumberedValue, WrittenLarge};

/// How a handle writes.
#[derive(Clone)]
pub(super) struct Writing {
    pub(super) durability: Durability,
    pub(super) clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Writing {
    pub(super) fn now(&self) -> u64 {
        nanoseconds((self.clock)())
    }
}

/// A handle of an object. It follows the object through renames. Once the object is deleted, all operations fail with
/// [`crate::Error::NoSuchObject`], also if there is another object of its name.
///
/// All methods fail with [`crate::Error::Closed`] once the engine is closed, and with the errors of the engine's reads and
/// writes.
#[derive(Clone)]
pub struct Object {
    opened: Opened,
    writing: Writing,
}

impl Object {
    pub(super) fn new(opened: Opened, writing: Writing) -> Self {
        Self { opened, writing }
    }

    /// The handle, with another durability of its writes.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.writing.durability = durability;
        self
    }

    /// The number that no other object of the object store ever gets.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.opened.state.id
    }

    /// The state of the object beside its bytes.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn info(&self) -> Result<ObjectInfo> {
        let shared = &self.opened.shared;
        info_of(&shared.reader()?, shared.metadata, self.id())?
            .ok_or_else(|| no_such_object(self.id()))
    }

    /// Bytes of the object.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn size(&self) -> Result<u64> {
        Ok(self.info()?.size)
    }

    /// The time of the last change of the bytes.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn mtime(&self) -> Result<SystemTime> {
        Ok(self.info()?.mtime)
    }

    /// Reads bytes from `offset` on. Returns how many there were: fewer than asked for only at the end of the object. They
    /// are of one state of the object.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        self.read_vectored_at(offset, &mut [IoSliceMut::new(to)])
    }

    /// [`Self::read_at`] to slices, one behind the other.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn read_vectored_at(&self, offset: u64, to: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let (shared, id) = (&self.opened.shared, self.id());
        let reader = shared.reader()?;
        let info = info_of(&reader, shared.metadata, id)?.ok_or_else(|| no_such_object(id))?;
        let mut read = 0;
        for slice in to {
            let at = offset.saturating_add(read as u64);
            let len = info.size.saturating_sub(at).min(slice.len() as u64) as usize;
            read_range(&reader, shared.chunks, id, at, &mut slice[..len])?;
            read += len;
        }
        Ok(read)
    }

    /// Writes bytes from `offset` on. Between the end of the object and there, it has zeros.
    ///
    /// A write of up to [`ATOMIC_LEN_MAX`](super::ATOMIC_LEN_MAX) bytes happens whole or not at all; a longer one is
    /// several of these, from the first to the last.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`]; [`crate::Error::ObjectTooLong`], before anything is written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_vectored_at(offset, &[IoSlice::new(bytes)])
    }

    /// [`Self::write_at`] of slices, one behind the other.
    ///
    /// # Errors
    /// Those of [`Self::write_at`].
    pub fn write_vectored_at(&self, offset: u64, slices: &[IoSlice<'_>]) -> Result<()> {
        let len = slices.iter().map(|slice| slice.len()).sum();
        end_of(offset, len)?;
        self.opened.state.metadata()?;
        let mut pieces = Pieces::new(offset, slices);
        loop {
            let some: Vec<Piece<'_>> = pieces.by_ref().take(ATOMIC_CHUNKS).collect();
            if some.is_empty() {
                return Ok(());
            }
            let written = self.write_pieces(&some, true);
            match written {
                // Another handle has written behind the piece meanwhile.
                Err(Error::Conflict { .. }) => self.write_pieces(&some, false)?,
                written => written?,
            }
        }
    }

    /// Writes pieces in one commit. If it may, it takes the last one for the end of the object by what it knows of that,
    /// and fails in its turn where that is wrong.
    fn write_pieces(&self, pieces: &[Piece<'_>], may_end: bool) -> Result<()> {
        let Opened { shared, state } = &self.opened;
        let store = shared.store()?;
        let now = self.writing.now();
        let end = pieces.last().map_or(0, Piece::end);
        let ends_object = may_end && state.metadata()?.size <= end;
        let is_last = |number: usize| number + 1 == pieces.len();
        let changes: Vec<Change<'_>> = pieces
            .iter()
            .enumerate()
            .map(|(number, piece)| piece.change(ends_object && is_last(number)))
            .collect();
        let (dataset, of_object) = (shared.chunks, state.id.to_be_bytes());
        let key = &of_object[..];
        let inserts = changes.iter().enumerate().filter_map(|(number, change)| match change {
            Change::Insert(value) => Some(NumberedValue { number, dataset, key, value }),
            Change::Upsert(_) => None,
        });
        let large = WrittenLarge::write(&store, inserts)?;
        let mut batch = Batch::default();
        for (number, (piece, change)) in pieces.iter().zip(&changes).enumerate() {
            let key = chunk_key(state.id, piece.chunk);
            let (kind, payload) = match (change, large.of(number)) {
                (_, Some(reference)) => (Kind::InsertLarge, reference),
                (Change::Insert(value), None) => (Kind::Insert, *value),
                (Change::Upsert(payload), None) => (Kind::Upsert, &payload[..]),
            };
            batch.push(shared.chunks, kind, &key, payload);
        }
        let last = pieces.last().filter(|last| ends_object && !last.is_whole());
        self.update(batch, Purpose::Put, |metadata, _| match last {
            Some(last) if metadata.size > end => Err(Error::Conflict {
                space: KeySpaceId(shared.chunks),
                at: chunk_key(state.id, last.chunk).to_vec(),
            }),
            _ => Ok(metadata.changed(metadata.size.max(end), now)),
        })?;
        large.keep();
        store.note_user_bytes(pieces.iter().map(|piece| piece.bytes.len() as u64).sum());
        Ok(())
    }

    /// Cuts the object, or appends zeros that take no room.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`]; [`crate::Error::ObjectTooLong`].
    pub fn truncate(&self, size: u64) -> Result<()> {
        end_of(size, 0)?;
        let Opened { shared, state } = &self.opened;
        let now = self.writing.now();
        let shrinks = size < state.metadata()?.size;
        let purpose = if shrinks { Purpose::Bookkeeping } else { Purpose::Put };
        self.update(Batch::default(), purpose, |metadata, batch| {
            if size < metadata.size {
                push_cut(batch, shared.chunks, state.id, size, metadata.size);
            }
            Ok(metadata.changed(size, now))
        })
    }

    /// Custom metadata, if there is any of that key.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`]; [`crate::Error::ObjectMetadataKey`].
    pub fn metadata(&self, key: &[u8]) -> Result<Option<Bytes>> {
        check_metadata_key(key)?;
        let (shared, id) = (&self.opened.shared, self.id());
        let reader = shared.reader()?;
        info_of(&reader, shared.metadata, id)?.ok_or_else(|| no_such_object(id))?;
        reader.get(shared.metadata, &custom_key(id, key))
    }

    /// All custom metadata, in the order of the keys.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn list_metadata(&self) -> Result<Vec<(Vec<u8>, Bytes)>> {
        let (shared, id) = (&self.opened.shared, self.id());
        let reader = shared.reader()?;
        info_of(&reader, shared.metadata, id)?.ok_or_else(|| no_such_object(id))?;
        let pairs = reader.scan(shared.metadata, &customs(id));
        pairs.map(|pair| pair.map(|(key, value)| (custom_of(&key).to_vec(), value))).collect()
    }

    /// Sets custom metadata. The time of the last change stays.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`]; [`crate::Error::ObjectMetadataKey`]; [`Error::ValueTooLong`].
    pub fn set_metadata(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check_metadata_key(key)?;
        check_value(value)?;
        let Opened { shared, state } = &self.opened;
        state.metadata()?;
        let (store, full_key) = (shared.store()?, custom_key(state.id, key));
        let of_key = NumberedValue { number: 0, dataset: shared.metadata, key: &full_key, value };
        let large = WrittenLarge::write(&store, std::iter::once(of_key))?;
        let (kind, payload) = match large.of(0) {
            Some(reference) => (Kind::InsertLarge, reference),
            None => (Kind::Insert, value),
        };
        let mut batch = Batch::default();
        batch.push(shared.metadata, kind, &full_key, payload);
        self.update(batch, Purpose::Put, |metadata, _| Ok(metadata))?;
        large.keep();
        Ok(())
    }

    /// Removes custom metadata, if there is any of that key.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`]; [`crate::Error::ObjectMetadataKey`].
    pub fn delete_metadata(&self, key: &[u8]) -> Result<()> {
        check_metadata_key(key)?;
        let mut batch = Batch::default();
        batch.push(self.opened.shared.metadata, Kind::Delete, &custom_key(self.id(), key), &[]);
        self.update(batch, Purpose::Removal, |metadata, _| Ok(metadata))
    }

    /// The storage class that the object is to lie in.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn preference(&self) -> Result<Preference> {
        Ok(self.info()?.preference)
    }

    /// Sets the storage class that the object is to lie in: its chunks go there when they are written from now on, and
    /// those in leaves when the leaf is written. Chunks that were written before stay, until
    /// [`Betree::migrate_object`](crate::Betree::migrate_object) moves them.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn set_preference(&self, preference: Preference) -> Result<()> {
        let Opened { shared, state } = &self.opened;
        let store = shared.store()?;
        let _changing = store.cataloguing.lock();
        let change = |metadata, _: &mut Batch| Ok(Metadata { preference, ..metadata });
        let update = Update::new(shared, state, Batch::default(), change);
        let (none, mut update) = (Batch::default(), update.preferring(preference));
        store.commit(&none, Purpose::Put, self.writing.durability, &mut update)
    }

    /// The way in which the object is used.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn access_pattern(&self) -> Result<AccessPattern> {
        Ok(self.info()?.access_pattern)
    }

    /// Sets the way in which the object is used. It is kept for programs; the store does not read or place it in another
    /// way: chunks are read whole, and scans read ahead as they go.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn set_access_pattern(&self, access_pattern: AccessPattern) -> Result<()> {
        let change = |metadata, _: &mut Batch| Ok(Metadata { access_pattern, ..metadata });
        self.update(Batch::default(), Purpose::Put, change)
    }

    /// A reader and writer with a position, which is the first byte.
    #[must_use]
    pub fn cursor(&self) -> ObjectCursor<'_> {
        ObjectCursor::new(self)
    }

    /// The dataset and the keys of its chunks.
    pub(crate) fn chunks(&self) -> (u32, KeyRange) {
        (self.opened.shared.chunks, chunks_from(self.id(), 0))
    }

    /// Makes every write durable that has returned, of this object and all others.
    ///
    /// # Errors
    /// Those of the log.
    pub fn sync(&self) -> Result<()> {
        self.opened.shared.store()?.sync()
    }

    /// Commits changes, and what `change` adds in the turn.
    fn update(
        &self,
        batch: Batch,
        purpose: Purpose,
        change: impl FnMut(Metadata, &mut Batch) -> Result<Metadata>,
    ) -> Result<()> {
        let Opened { shared, state } = &self.opened;
        let mut update = Update::new(shared, state, batch, change);
        let none = Batch::default();
        shared.store()?.commit(&none, purpose, self.writing.durability, &mut update)
    }
}

/// Adds the removal of what an object of size `before` has behind `size`: chunks go with their range, and the rest of the
/// last one becomes zeros, which later writes behind it leave visible.
fn push_cut(batch: &mut Batch, dataset: u32, id: u64, size: u64, before: u64) {
    const CHUNK: u64 = CHUNK_LEN as u64;
    let first_gone = size.div_ceil(CHUNK);
    if first_gone * CHUNK < before {
        push_range(batch, dataset, &chunks_from(id, first_gone as u32));
    }
    let (last, from) = (size / CHUNK, (size % CHUNK) as usize);
    if from > 0 {
        let end = (before - last * CHUNK).min(CHUNK) as usize;
        let zeros = overwrite(from, &vec![0; end - from]);
        batch.push(dataset, Kind::Upsert, &chunk_key(id, last as u32), &zeros);
    }
}
