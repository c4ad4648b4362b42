//! A run that is open: lookups of keys, and its parts.
//!
//! A lookup goes from the filter to the directory to one part. A part comes from the first of these:
//!
//! 1. persistent memory, where it lies, if it is not compressed: no copy. Its checksum is verified once for an open
//!    run, also if the run loses its directory meanwhile.
//! 2. the cache of blocks in DRAM.
//! 3. its extent. Bytes of a replica that do not pass their checksum are read from another one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use halite_cache::Place;
use halite_codec::{Compression, Plain, Seed, unpack};

use super::directories::{HeldDirectory, Keeper, Kept};
use super::directory::{Directory, PartPlace};
use super::part::Part;
use super::pointer::{RunPointer, seed_at};
use super::store::RunStore;
use crate::message::{Block, HeldMessage};
use crate::{Error, Result};

/// The word of a run on a key.
pub(crate) enum Found {
    /// A message. It is older than all messages of newer runs.
    Message {
        message: HeldMessage,
        /// Whether the run also says that the key had no value before the message. Only told of messages that are not
        /// complete: with others it makes no difference.
        was_deleted: bool,
    },
    /// The key has no value, and older runs do not matter.
    Deleted,
    /// Nothing: older runs have the answer.
    Nothing,
}

/// An open run.
pub(crate) struct Run {
    store: Arc<RunStore>,
    pointer: RunPointer,
    /// The run, for the ring of directories.
    this: Weak<Self>,
    kept: Kept,
    /// A bit for each part whose bytes were checked where they lie.
    checked: OnceLock<Box<[AtomicU64]>>,
}

impl Run {
    /// Opens a run, and reads nothing.
    pub(crate) fn open(store: Arc<RunStore>, pointer: RunPointer) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            store,
            pointer,
            this: Weak::clone(this),
            kept: Kept::empty(),
            checked: OnceLock::new(),
        })
    }

    /// The reference that it was opened by.
    pub(crate) fn pointer(&self) -> &RunPointer {
        &self.pointer
    }

    /// The directory, read if it is not in memory.
    #[inline]
    pub(crate) fn directory(&self) -> Result<HeldDirectory> {
        match self.kept.get() {
            Some(directory) => Ok(directory),
            None => self.read_directory(),
        }
    }

    #[cold]
    fn read_directory(&self) -> Result<HeldDirectory> {
        let mut bytes = vec![0; self.pointer.directory_len as usize];
        let mut rest = &mut bytes[..];
        for piece in self.pointer.directory_pieces() {
            let (to, behind) = rest.split_at_mut(piece.len);
            let seed = self.seed(piece.extent, piece.at);
            let check = |bytes: &[u8]| seed.checksum(bytes) == piece.checksum;
            let extent = self.pointer.extents[piece.extent];
            self.store.extents.read("directory of a run", extent, piece.at, to, &check)?;
            rest = behind;
        }
        let directory = Directory::decode(&bytes, &self.pointer).map_err(|why| {
            self.damaged("directory of a run", self.pointer.directory_extent, why)
        })?;
        let directory = Arc::new(directory);
        if let Some(this) = self.this.upgrade() {
            self.store.directories.keep(this, &directory);
        }
        Ok(HeldDirectory::of(directory))
    }

    /// The word of the run on a key, whose hash ([`halite_sst::hash_key`]) the caller computes once for all runs.
    pub(crate) fn find(&self, key: &[u8], key_hash: u64) -> Result<Found> {
        match self.get(key, key_hash)? {
            Some(message) if message.kind.is_complete() => {
                Ok(Found::Message { message, was_deleted: false })
            }
            Some(message) => Ok(Found::Message { message, was_deleted: self.covers(key)? }),
            None if self.covers(key)? => Ok(Found::Deleted),
            None => Ok(Found::Nothing),
        }
    }

    /// The message of a key.
    pub(crate) fn get(&self, key: &[u8], key_hash: u64) -> Result<Option<HeldMessage>> {
        let directory = self.directory()?;
        if !directory.may_have(key_hash) {
            return Ok(None);
        }
        let Some(number) = directory.part_of(key) else { return Ok(None) };
        let place = &directory.parts[number];
        let part = self.part((number, place), || self.read_part(place))?;
        let sought = part.search(key).and_then(|(at, is_there)| match is_there {
            true => part.entry(at).map(|entry| Some(part.held(&entry))),
            false => Ok(None),
        });
        sought.map_err(|why| self.damaged_part(Some(place), why))
    }

    /// Whether a deleted range covers a key.
    pub(crate) fn covers(&self, key: &[u8]) -> Result<bool> {
        // Most runs have none.
        Ok(self.pointer.deleted_ranges > 0 && self.directory()?.ranges.covering(key).is_some())
    }

    /// A part, by its number and its place: in place, from the cache, or else what `read` reads.
    pub(super) fn part(
        &self,
        (number, place): (usize, &PartPlace),
        read: impl FnOnce() -> Result<Plain>,
    ) -> Result<Part> {
        let block = match self.in_place(number, place) {
            Some(block) => {
                self.note_use();
                block
            }
            None => {
                let read = || {
                    self.note_use();
                    read()
                };
                Block::Cached(self.store.cache.get(self.cached_at(number), read)?)
            }
        };
        self.parse(place, block)
    }

    /// The name of the run, also where it was moved.
    pub(crate) fn id(&self) -> u64 {
        self.pointer.directory_checksums[0]
    }

    /// Whether a part is in the cache.
    pub(super) fn is_cached(&self, number: usize) -> bool {
        self.store.cache.has(self.cached_at(number))
    }

    /// Counts a read of a part that the cache does not have.
    #[inline]
    fn note_use(&self) {
        if let Some(heat) = &self.store.heat {
            heat.note(self.id());
        }
    }

    /// A part that is in place, or else what `read` reads: past the cache.
    pub(super) fn part_once(
        &self,
        (number, place): (usize, &PartPlace),
        read: impl FnOnce() -> Result<Plain>,
    ) -> Result<Part> {
        let block = match self.in_place(number, place) {
            Some(block) => block,
            None => Block::Cached(read()?),
        };
        self.parse(place, block)
    }

    fn parse(&self, place: &PartPlace, block: Block) -> Result<Part> {
        Part::new(block).map_err(|why| self.damaged_part(Some(place), why))
    }

    /// The name of a part in the cache. A place may be written again in the same epoch, but not with the same directory:
    /// that has the checksums of all parts.
    fn cached_at(&self, number: usize) -> Place {
        let file = self.pointer.directory_checksums[0];
        Place { file, offset: self.pointer.birth << 32 | number as u64 }
    }

    /// The bytes of a part where they lie in persistent memory, if they are as they were written.
    fn in_place(&self, number: usize, place: &PartPlace) -> Option<Block> {
        if place.compression != Compression::None {
            return None;
        }
        let extent = self.pointer.extents[place.extent as usize];
        let (at, len) = (place.at as usize, place.stored_len as usize);
        let bytes = self.store.extents.pin(extent, at, len)?;
        let (word, bit) = (number / 64, 1 << (number % 64));
        let checked = self.checked.get().and_then(|checked| checked.get(word));
        if checked.is_none_or(|word| word.load(Ordering::Relaxed) & bit == 0) {
            if !self.is_whole(place, &bytes) {
                return None;
            }
            self.set_checked(word, bit);
        }
        Some(Block::InPlace(bytes))
    }

    #[cold]
    fn set_checked(&self, word: usize, bit: u64) {
        let Ok(directory) = self.directory() else { return };
        let words = directory.parts.len().div_ceil(64);
        let checked = self.checked.get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        checked[word].fetch_or(bit, Ordering::Relaxed);
    }

    /// Whether stored bytes of a part are as they were written.
    pub(super) fn is_whole(&self, place: &PartPlace, stored: &[u8]) -> bool {
        let seed = self.seed(place.extent as usize, place.at as usize);
        seed.checksum(stored) == place.checksum
    }

    /// Reads a part alone.
    pub(super) fn read_part(&self, place: &PartPlace) -> Result<Plain> {
        let check = |bytes: &[u8]| self.is_whole(place, bytes);
        let extent = self.pointer.extents[place.extent as usize];
        let (at, len) = (place.at as usize, place.stored_len as usize);
        let read = |to: &mut [u8]| self.store.extents.read("part of a run", extent, at, to, &check);
        if place.compression == Compression::None {
            return Plain::filled(len, read);
        }
        let mut stored = vec![0; len];
        read(&mut stored)?;
        self.unpack(place, &stored)
    }

    /// A part of checked stored bytes.
    pub(super) fn unpack(&self, place: &PartPlace, stored: &[u8]) -> Result<Plain> {
        unpack(stored, place.plain_len as usize, place.compression)
            .map_err(|error| self.damaged_part(Some(place), error.reason()))
    }

    pub(super) fn store(&self) -> &RunStore {
        &self.store
    }

    pub(super) fn seed(&self, extent: usize, at: usize) -> Seed {
        seed_at(self.store.seed, self.pointer.birth, extent, at)
    }

    /// The error of a part with a defect.
    pub(super) fn damaged_part(&self, place: Option<&PartPlace>, why: &str) -> Error {
        self.damaged("part of a run", place.map_or(0, |place| place.extent), why)
    }

    fn damaged(&self, what: &'static str, extent: u32, why: &str) -> Error {
        let address = self.pointer.extents[extent as usize].address;
        Error::Damaged { what, address, why: why.to_owned() }
    }
}

impl Keeper for Run {
    fn kept(&self) -> &Kept {
        &self.kept
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.store.directories.take_back(&self.kept);
    }
}
