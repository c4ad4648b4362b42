//! Writes a table, block by block, as its entries come.

use halite_codec::{BlockCompressor, Compression, Seed, TRAILER, seal};
use halite_disk::Writer;
use halite_sim::planted;

use crate::block_builder::BlockBuilder;
use crate::entry::{DELETE, Entry, PUT_FILE, RANGE_DELETE, SEQUENCE_MAX, order};
use crate::error::{Error, Result};
use crate::filter::{Filter, hash_key};
use crate::footer::Footer;
use crate::index::{Handle, IndexBuilder, Partition, separator};
use crate::properties::{Properties, Roots, Span};
use crate::table::TableId;
use crate::value_ref::ValueRef;
use halite_index::RangeDelete;

/// How tables are written.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// How long a data block may be, with its trailer, before it is compressed, in bytes. An entry that is longer has
    /// a block of its own.
    pub block_bytes: usize,
    /// How long a partition of the index gets, in bytes.
    pub partition_bytes: usize,
    /// How blocks are compressed.
    pub compression: Compression,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4 << 10,
            partition_bytes: 16 << 10,
            compression: Compression::default(),
        }
    }
}

/// Every so many entries of a data block can a search begin. Each such place costs a whole key, and 4 bytes; with
/// half as many, gets and reverse scans read twice as many entries that they do not want.
const RESTART_INTERVAL: usize = 8;

/// Writes one table.
pub struct TableBuilder {
    writer: Writer,
    id: TableId,
    options: TableOptions,
    seed: Seed,
    compressor: BlockCompressor,
    block: BlockBuilder,
    /// The last block that was written, for which there is no separator before the next key is known.
    written: Option<Handle>,
    index: IndexBuilder,
    /// Of the keys of the partition.
    key_hashes: Vec<u64>,
    last_key: Vec<u8>,
    last_sequence: u64,
    range_deletes: BlockBuilder,
    properties: Properties,
    /// Whether the properties' span is one.
    has_span: bool,
}

impl TableBuilder {
    /// A table of a tree that is to be written by a writer of an empty file.
    #[must_use]
    pub fn new(writer: Writer, id: TableId, tree: u32, options: TableOptions) -> Self {
        let properties = Properties {
            tree,
            entries: 0,
            deletes: 0,
            range_deletes: 0,
            key_bytes: 0,
            value_bytes: 0,
            data_blocks: 0,
            sequence_min: SEQUENCE_MAX,
            sequence_max: 0,
            span: Span { first: Box::default(), last: Box::default(), is_open: false },
            values: Vec::new(),
        };
        Self {
            writer,
            id,
            options,
            seed: Seed::of_file(id.store_id, id.number),
            compressor: BlockCompressor::new(),
            block: BlockBuilder::new(RESTART_INTERVAL),
            written: None,
            index: IndexBuilder::new(),
            key_hashes: Vec::new(),
            last_key: Vec::new(),
            last_sequence: 0,
            range_deletes: BlockBuilder::new(1),
            properties,
            has_span: false,
        }
    }

    /// Adds an entry behind those that were added.
    ///
    /// # Errors
    /// An error of the disk: then the table is lost. [`Error::Damaged`], if the entry is not behind them: it came from
    /// a table that is not in order, though its checks are right.
    ///
    /// # Panics
    /// If its sequence number is above [`SEQUENCE_MAX`].
    pub fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        let Entry { key, sequence, .. } = entry;
        assert!(sequence <= SEQUENCE_MAX, "sequence {sequence}");
        let is_first = self.properties.entries == 0;
        let is_new_key = is_first || self.last_key != key;
        if !is_first && order((&self.last_key, self.last_sequence), (key, sequence)).is_ge() {
            let last = format!("{}@{}", self.last_key.escape_ascii(), self.last_sequence);
            let why = format!("{}@{sequence} is not behind {last}", key.escape_ascii());
            return Err(Error::damaged("a table", "the order of what is merged", why));
        }
        if entry.kind == PUT_FILE {
            let value = ValueRef::of_bytes(entry.value)
                .map_err(|why| Error::damaged("a table", "an entry of what is merged", why))?;
            self.properties.values.push(value);
        }
        if self.block.len_with(entry) + TRAILER > self.options.block_bytes {
            self.cut_block()?;
        }
        if let Some(block) = self.written.take() {
            let last = (&self.last_key[..], self.last_sequence);
            let (separator, at) = separator(last, key);
            self.index.add((separator, at), block);
            if self.index.partition_len() >= self.options.partition_bytes {
                let separator = separator.to_vec();
                self.cut_partition(&separator, at)?;
            }
        }
        self.block.add(entry);
        if is_new_key || self.key_hashes.is_empty() {
            self.key_hashes.push(hash_key(key));
        }
        if is_new_key {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.last_sequence = sequence;
        self.count(entry, is_first);
        Ok(())
    }

    fn count(&mut self, entry: Entry<'_>, is_first: bool) {
        if is_first {
            self.cover(entry.key, entry.key, false);
        }
        let properties = &mut self.properties;
        properties.entries += 1;
        properties.deletes += u64::from(entry.kind == DELETE);
        properties.key_bytes += entry.key.len() as u64;
        properties.value_bytes += entry.value.len() as u64;
        properties.sequence_min = properties.sequence_min.min(entry.sequence);
        properties.sequence_max = properties.sequence_max.max(entry.sequence);
    }

    fn cover(&mut self, first: &[u8], last: &[u8], is_open: bool) {
        let span = Span { first: first.into(), last: last.into(), is_open };
        match self.has_span {
            true => self.properties.span.extend(&span),
            false => self.properties.span = span,
        }
        self.has_span = true;
    }

    /// Adds a fragment of range deletes behind those that were added.
    pub fn add_range_delete(&mut self, delete: &RangeDelete) {
        let RangeDelete { start, end, sequence } = delete;
        let entry = Entry { key: start, sequence: *sequence, kind: RANGE_DELETE, value: end };
        self.range_deletes.add(entry);
        self.cover(start, end, true);
        let properties = &mut self.properties;
        properties.range_deletes += 1;
        properties.sequence_min = properties.sequence_min.min(*sequence);
        properties.sequence_max = properties.sequence_max.max(*sequence);
    }

    /// Whether it has neither entries nor range deletes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_span
    }

    /// The key of the last entry.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// How long the file is at least, in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.writer.len() + self.block.len() as u64
    }

    /// Writes the remaining blocks, and makes the file durable; its name is the caller's.
    ///
    /// # Errors
    /// An error of the disk: then the table is lost.
    ///
    /// # Panics
    /// If it is empty.
    pub fn finish(mut self) -> Result<(Properties, u64)> {
        assert!(!self.is_empty(), "a table of nothing");
        self.cut_block()?;
        if let Some(block) = self.written.take() {
            let last_key = std::mem::take(&mut self.last_key);
            self.index.add((&last_key, 0), block);
            self.cut_partition(&last_key, 0)?;
            self.last_key = last_key;
        }
        if self.properties.entries > 0 {
            let last = std::mem::take(&mut self.last_key);
            self.cover(&last, &last, false);
        }
        let mut roots = Roots { index: Handle::default(), range_deletes: Handle::default() };
        let compression = self.options.compression;
        if !self.range_deletes.is_empty() {
            roots.range_deletes = self.write(Part::RangeDeletes, compression)?;
        }
        roots.index = self.write(Part::Root, compression)?;
        let properties = self.write(Part::Properties(roots), Compression::None)?;
        let TableId { store_id, number } = self.id;
        self.writer.write(&Footer { store_id, number, properties }.bytes())?;
        let len = self.writer.len();
        planted!("sst.table-named-before-synced", drop(self.writer.finish()?), self.writer.sync()?);
        Ok((self.properties, len))
    }

    /// Writes the block of entries, if it has any.
    fn cut_block(&mut self) -> Result<()> {
        if !self.block.is_empty() {
            self.written = Some(self.write(Part::Data, self.options.compression)?);
            self.block.clear();
            self.properties.data_blocks += 1;
        }
        Ok(())
    }

    /// Writes the partition of the index and its filter.
    fn cut_partition(&mut self, separator: &[u8], at: u64) -> Result<()> {
        let index = self.write(Part::Partition, self.options.compression)?;
        let mut filter = Handle::default();
        if let Some(bytes) = Filter::build(&mut self.key_hashes) {
            filter = self.write(Part::Filter(&bytes), Compression::None)?;
        }
        self.key_hashes.clear();
        self.index.add_partition((separator, at), Partition { index, filter });
        Ok(())
    }

    fn write(&mut self, part: Part<'_>, compression: Compression) -> Result<Handle> {
        let properties;
        let plain = match part {
            Part::Data => self.block.finish(),
            Part::Partition => self.index.finish_partition(),
            Part::Root => self.index.finish(),
            Part::RangeDeletes => self.range_deletes.finish(),
            Part::Filter(bytes) => bytes,
            Part::Properties(roots) => {
                properties = self.properties.bytes(roots);
                &properties
            }
        };
        let offset = self.writer.len();
        let (stored, trailer) = seal(plain, compression, &mut self.compressor, self.seed, offset);
        self.writer.write(stored)?;
        self.writer.write(&trailer)?;
        debug_assert_eq!(self.writer.len(), offset + (stored.len() + TRAILER) as u64);
        Ok(Handle { offset, len: stored.len() as u32 })
    }
}

/// The part that is written next.
enum Part<'a> {
    Data,
    Partition,
    Filter(&'a [u8]),
    RangeDeletes,
    Root,
    Properties(Roots),
}
