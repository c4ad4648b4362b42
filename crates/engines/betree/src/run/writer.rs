//! Writes a run: messages fill parts, parts fill extents, and each full extent is written at once.
//!
//! Costs: one copy of a message into its part, one into the extent's buffer or through the compressor, one checksum of
//! the stored bytes, one hash of the key for the filter. Memory: a part, an extent (1 MiB), and for each message 8
//! bytes until the filter is built, which takes 15 more for a moment. Writers hand it on ([`Scratch`]), because fresh
//! memory of that size costs more than what is written to it.

use halite_codec::BlockCompressor;
use halite_sst::{Filter, hash_key};

use super::deleted_ranges::{DeletedRange, push_joined};
use super::directory::{DirectoryBuilder, PartPlace, separator};
use super::extent_writer::{ExtentWriter, Written};
use super::part::PartBuilder;
use super::pointer::RunPointer;
use super::writer_options::{RunOptions, RunPlace};
use crate::Result;
use crate::message::Message;
use crate::storage::{EXTENT_BYTES_MAX, Extent, Extents};

/// The longest key and payload together, in bytes, so that each entry has room in a part, and the part in an extent.
/// The engine stores longer values in extents of their own, and resolves a message that merging has made longer.
pub(crate) const ENTRY_BYTES_MAX: usize = EXTENT_BYTES_MAX / 2;

/// The memory of a writer, for the next one.
#[derive(Default)]
pub(crate) struct Scratch {
    part: PartBuilder,
    /// The bytes of the part that is full.
    plain: Vec<u8>,
    /// The bytes of the extent that is being filled.
    pending: Vec<u8>,
    compressor: Option<BlockCompressor>,
    key_hashes: Vec<u64>,
    last_key: Vec<u8>,
}

/// Writes one run.
pub(crate) struct RunWriter<'a> {
    extents: ExtentWriter<'a>,
    options: RunOptions,
    part: PartBuilder,
    plain: Vec<u8>,
    compressor: BlockCompressor,
    directory: DirectoryBuilder,
    key_hashes: Vec<u64>,
    ranges: Vec<DeletedRange>,
    last_key: Vec<u8>,
    /// Where the memory goes back to.
    scratch: &'a mut Scratch,
    messages: u64,
    bytes: u64,
    large_bytes: u64,
}

impl<'a> RunWriter<'a> {
    /// A writer of an empty run. Each extent that it gets is appended to `written`: if a later step fails, no pointer
    /// refers to them, and the caller frees them.
    pub(crate) fn new(
        extents: &'a dyn Extents,
        written: &'a mut Vec<Extent>,
        options: &RunOptions,
        placement: RunPlace,
        scratch: &'a mut Scratch,
    ) -> Self {
        assert!(options.part_bytes <= ENTRY_BYTES_MAX, "a part fits into an extent");
        // The remains of a writer that failed are of no use.
        let Scratch { mut part, plain, mut pending, compressor, mut key_hashes, mut last_key } =
            std::mem::take(scratch);
        part.clear();
        pending.clear();
        key_hashes.clear();
        last_key.clear();
        Self {
            extents: ExtentWriter::new(extents, written, options, placement, pending),
            options: *options,
            part,
            plain,
            compressor: compressor.unwrap_or_else(BlockCompressor::new),
            directory: DirectoryBuilder::default(),
            key_hashes,
            ranges: Vec::new(),
            last_key,
            scratch,
            messages: 0,
            bytes: 0,
            large_bytes: 0,
        }
    }

    /// Lets what is not yet written go to a class, and the run to another one if it is small.
    pub(crate) fn prefer(&mut self, class: u8, of_small: u8) {
        self.extents.prefer(class, of_small);
    }

    /// Lets extents be shorter.
    #[cfg(test)]
    pub(super) fn with_extents_of(mut self, blocks: usize) -> Self {
        self.extents.limit(blocks);
        self
    }

    /// Adds a deleted range, which begins behind the ones that were added, or at the end of the last one.
    pub(crate) fn delete_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        let follows = self.ranges.last().is_none_or(|last| last.is_before(start));
        assert!(follows && end.is_none_or(|end| start < end), "deleted ranges are in order");
        push_joined(
            &mut self.ranges,
            DeletedRange { start: start.into(), end: end.map(Into::into) },
        );
    }

    /// Adds a message, whose key is above all keys that were added.
    ///
    /// # Errors
    /// An error of the storage: the run cannot be finished then.
    pub(crate) fn add(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        assert!(self.messages == 0 || *self.last_key < *key, "keys are in order");
        self.append(key, message)
    }

    /// Adds a message as a forger would.
    #[cfg(test)]
    pub(super) fn add_in_any_order(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        self.append(key, message)
    }

    fn append(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        let len = key.len() + message.payload.len();
        assert!(len <= ENTRY_BYTES_MAX, "a message of {len} bytes");
        if !self.part.is_empty() && self.part.len_with(key, message) > self.options.part_bytes {
            let (last, mut scratch) = (std::mem::take(&mut self.last_key), Vec::new());
            self.finish_part(separator(&last, key, &mut scratch))?;
            self.last_key = last;
        }
        self.part.add(key, message);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        if self.options.has_filter {
            self.key_hashes.push(hash_key(key));
        }
        self.messages += 1;
        self.bytes += len as u64;
        // A reference with a defect is reported by its readers.
        self.large_bytes += message.large().ok().flatten().map_or(0, |large| large.len);
        Ok(())
    }

    /// Bytes of keys and payloads so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes what is left. `None`, and nothing was written, if there is no message and no range.
    ///
    /// # Errors
    /// See [`RunWriter::add`].
    pub(crate) fn finish(mut self) -> Result<Option<RunPointer>> {
        if self.messages == 0 && self.ranges.is_empty() {
            return Ok(None);
        }
        if !self.part.is_empty() {
            let last = std::mem::take(&mut self.last_key);
            self.finish_part(&last)?;
            self.last_key = last;
        }
        let filter = match self.options.has_filter && self.messages > 0 {
            true => Filter::build(&mut self.key_hashes).unwrap_or_default(),
            false => Vec::new(),
        };
        let directory = std::mem::take(&mut self.directory).finish(&self.ranges, &filter);
        let (directory_extent, directory_at, directory_checksums) = self.extents.end(&directory)?;
        let Written { extents, base, pending } = self.extents.finish();
        *self.scratch = Scratch {
            part: self.part,
            plain: self.plain,
            pending,
            compressor: Some(self.compressor),
            key_hashes: self.key_hashes,
            last_key: self.last_key,
        };
        Ok(Some(RunPointer {
            extents,
            base,
            directory_extent,
            directory_at,
            directory_len: directory.len() as u64,
            directory_checksums,
            birth: self.options.birth,
            entered: self.options.birth,
            messages: self.messages,
            deleted_ranges: u32::try_from(self.ranges.len()).expect("fewer than 2^32 ranges"),
            bytes: self.bytes,
            large_bytes: self.large_bytes,
        }))
    }

    /// Appends the part to the extent, or to the next one.
    fn finish_part(&mut self, separator: &[u8]) -> Result<()> {
        let entries = self.part.len() as u32;
        self.part.finish(&mut self.plain);
        let wanted = self.options.compression;
        let (stored, compression) = self.compressor.pack(&self.plain, wanted);
        let (extent, at, checksum) = self.extents.append(stored)?;
        let (stored_len, plain_len) = (stored.len() as u32, self.plain.len() as u32);
        let place = PartPlace { extent, at, stored_len, plain_len, compression, entries, checksum };
        self.directory.add(separator, &place);
        Ok(())
    }
}
