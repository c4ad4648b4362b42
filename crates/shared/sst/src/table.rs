//! Reads a table.

use std::sync::Arc;

use halite_cache::{BlockCache, Place};
use halite_codec::{Plain, Seed, TRAILER, unseal, unseal_copy};
use halite_disk::{Disk, File};

use crate::block::{Block, BlockCursor};
use crate::entry::{Found, order};
use crate::filter::{Filter, hash_key};
use crate::footer::{FOOTER, Footer};
use crate::index::{Handle, Partition};
use crate::properties::{Properties, Roots};
use crate::range_deletes::RangeDeletes;
use crate::read_ahead::{ReadAhead, Step};
use crate::table_cursor::{Reads, TableCursor};
use crate::{Error, Parsed, Result};

/// Which table it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableId {
    /// The store's.
    pub store_id: u128,
    /// The table's number, which no other table of the store has, ever.
    pub number: u64,
}

impl TableId {
    /// Which table a file says that it is, by its footer alone.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Format`], or what the disk says.
    pub fn of_file(file: &File, name: &str) -> Result<Self> {
        let Footer { store_id, number, .. } = read_footer(file, name)?;
        Ok(Self { store_id, number })
    }
}

/// An open table. Cloning makes another handle.
#[derive(Clone)]
pub struct Table(Arc<Inner>);

struct Inner {
    name: String,
    file: File,
    number: u64,
    seed: Seed,
    cache: Arc<BlockCache>,
    properties: Properties,
    root: Block,
    range_deletes: RangeDeletes,
}

/// The counts of a check of a whole table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Entries.
    pub entries: u64,
    /// Data blocks.
    pub blocks: u64,
}

impl Table {
    /// Opens the file `name`, which has to be the table `id`.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Damaged`], [`Error::Foreign`], [`Error::Misnamed`], [`Error::Format`], or what the
    /// disk says.
    pub fn open(disk: &Disk, name: &str, id: TableId, cache: &Arc<BlockCache>) -> Result<Self> {
        let file = disk.open_shared(name).map_err(|error| match error {
            halite_disk::Error::Missing { .. } => Error::Missing { file: name.to_owned() },
            error => Error::of_reading(name, "file", error),
        })?;
        file.expect_random_reads();
        let footer = read_footer(&file, name)?;
        if footer.store_id != id.store_id {
            let (file, found) = (name.to_owned(), footer.store_id);
            return Err(Error::Foreign { file, found, wanted: id.store_id });
        }
        if footer.number != id.number {
            return Err(Error::Misnamed { file: name.to_owned(), found: footer.number });
        }
        let seed = Seed::of_file(id.store_id, id.number);
        let reader = BlockReader { name, file: &file, seed };
        let bytes = reader.read("properties", footer.properties)?;
        let (properties, Roots { index, range_deletes }) = Properties::of_bytes(&bytes)
            .map_err(|why| reader.damaged("properties", footer.properties, why))?;
        let root = reader.block("root", index)?;
        let mut deletes = RangeDeletes::default();
        if range_deletes.len > 0 {
            deletes = RangeDeletes::read(reader.block("range deletes", range_deletes)?)
                .map_err(|why| reader.damaged("range deletes", range_deletes, why))?;
        }
        Ok(Self(Arc::new(Inner {
            name: name.to_owned(),
            number: id.number,
            seed,
            cache: Arc::clone(cache),
            properties,
            root,
            range_deletes: deletes,
            file,
        })))
    }

    /// The file's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The file's length in bytes.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.0.file.len()
    }

    /// Its properties.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    /// All range deletes.
    #[must_use]
    pub fn range_deletes(&self) -> &RangeDeletes {
        &self.0.range_deletes
    }

    /// The newest version of a key that is not above a sequence number. Range deletes are not looked at.
    ///
    /// # Errors
    /// [`Error::Damaged`], or an error of the disk.
    pub fn get(&self, key: &[u8], at: u64) -> Result<Option<Found>> {
        self.get_hashed(key, hash_key(key), at)
    }

    /// [`Table::get`] of a key whose hash is known ([`hash_key`]), for callers that ask several tables.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get_hashed(&self, key: &[u8], key_hash: u64, at: u64) -> Result<Option<Found>> {
        let inner = &*self.0;
        let mut cursor = BlockCursor::new(inner.root.clone());
        cursor.seek(key, at).map_err(|why| self.damaged("root", why))?;
        let Some(entry) = cursor.entry() else { return Ok(None) };
        let partition =
            Partition::of_value(entry.value).map_err(|why| self.damaged("root", why))?;
        if let Some(filter) = self.filter(partition.filter)?
            && !filter.may_have(key_hash)
        {
            return Ok(None);
        }
        let damaged = |handle| move |why| self.reader().damaged("block", handle, why);
        cursor.enter(self.block("index", partition.index)?);
        cursor.seek(key, at).map_err(damaged(partition.index))?;
        let Some(entry) = cursor.entry() else { return Ok(None) };
        let handle = Handle::of_value(entry.value).map_err(damaged(partition.index))?;
        cursor.enter(self.block("block", handle)?);
        cursor.seek(key, at).map_err(damaged(handle))?;
        Ok(cursor.entry().filter(|entry| entry.key == key).map(|entry| Found {
            sequence: entry.sequence,
            kind: entry.kind,
            value: cursor.value(),
        }))
    }

    /// A cursor over all versions of all keys.
    #[must_use]
    pub fn cursor(&self, reads: Reads) -> TableCursor {
        TableCursor::new(self.clone(), reads)
    }

    pub(crate) fn file(&self) -> &File {
        &self.0.file
    }

    pub(crate) fn root(&self) -> &Block {
        &self.0.root
    }

    pub(crate) fn reader(&self) -> BlockReader<'_> {
        BlockReader { name: &self.0.name, file: &self.0.file, seed: self.0.seed }
    }

    /// A block, through the cache.
    pub(crate) fn block(&self, what: &str, handle: Handle) -> Result<Block> {
        let reader = self.reader();
        let bytes = self.cached(handle, || reader.read(what, handle))?;
        Block::new(bytes).map_err(|why| reader.damaged(what, handle, why))
    }

    /// The bytes of a block, of the cache if it has them.
    pub(crate) fn cached(
        &self,
        handle: Handle,
        read: impl FnOnce() -> Result<Plain>,
    ) -> Result<Plain> {
        let Inner { cache, number, .. } = &*self.0;
        cache.get(Place { file: *number, offset: handle.offset }, read)
    }

    /// The filter of a partition, if it has one.
    fn filter(&self, handle: Handle) -> Result<Option<Filter>> {
        if handle.len == 0 {
            return Ok(None);
        }
        let filter = self.cached(handle, || self.reader().read("filter", handle))?;
        Filter::new(filter).map(Some).map_err(|why| self.reader().damaged("filter", handle, why))
    }

    pub(crate) fn damaged(&self, what: &str, why: &str) -> Error {
        Error::damaged(&self.0.name, what, why)
    }

    /// Reads all of it from the file: all checksums, the order of all entries, the separators, filters and
    /// counts.
    ///
    /// # Errors
    /// The first [`Error::Damaged`], or an error of the disk.
    pub fn check(&self) -> Result<Check> {
        let Inner { properties, root, .. } = &*self.0;
        let mut walk = Walk {
            table: self,
            ahead: ReadAhead::full(),
            check: Check::default(),
            last: None,
            hashes: Vec::new(),
        };
        let mut root = BlockCursor::new(root.clone());
        let in_root = |why| self.damaged("root", why);
        root.first().map_err(in_root)?;
        while let Some(entry) = root.entry() {
            let partition = Partition::of_value(entry.value).map_err(in_root)?;
            walk.partition(partition)?;
            walk.is_separator((entry.key, entry.sequence))?;
            root.forward().map_err(in_root)?;
        }
        let Walk { check, last, .. } = walk;
        if (check.entries, check.blocks) != (properties.entries, properties.data_blocks) {
            return Err(self.damaged("properties", "the counts are wrong"));
        }
        if last.is_some_and(|(key, _)| !properties.span.contains(&key)) {
            return Err(self.damaged("properties", "the last key is wrong"));
        }
        Ok(check)
    }
}

/// A check on its way through a table.
struct Walk<'a> {
    table: &'a Table,
    ahead: ReadAhead,
    check: Check,
    last: Option<(Vec<u8>, u64)>,
    /// Of the keys of the partition.
    hashes: Vec<u64>,
}

impl Walk<'_> {
    fn partition(&mut self, partition: Partition) -> Result<()> {
        let table = self.table;
        let damaged = |why| table.reader().damaged("index", partition.index, why);
        let mut index = BlockCursor::new(table.reader().block("index", partition.index)?);
        self.hashes.clear();
        index.first().map_err(damaged)?;
        while let Some(entry) = index.entry() {
            self.block(Handle::of_value(entry.value).map_err(damaged)?)?;
            self.is_separator((entry.key, entry.sequence))?;
            index.forward().map_err(damaged)?;
        }
        if partition.filter.len > 0 {
            let damaged = |why| table.reader().damaged("filter", partition.filter, why);
            let filter = Filter::new(table.reader().read("filter", partition.filter)?);
            let filter = filter.map_err(damaged)?;
            if !self.hashes.iter().all(|hash| filter.may_have(*hash)) {
                return Err(damaged("a key does not pass"));
            }
        }
        Ok(())
    }

    fn block(&mut self, handle: Handle) -> Result<()> {
        let (table, reader, ahead) = (self.table, self.table.reader(), &mut self.ahead);
        let damaged = |why| reader.damaged("block", handle, why);
        let bytes = ahead.block(table, handle, Step::Forward, table.file_len())?;
        let mut cursor = BlockCursor::new(Block::new(bytes).map_err(damaged)?);
        cursor.first().map_err(damaged)?;
        self.check.blocks += 1;
        while let Some(entry) = cursor.entry() {
            let is_behind = match &self.last {
                None => {
                    *entry.key == *table.properties().span.first
                        || table.properties().span.contains(entry.key)
                }
                Some((key, sequence)) => entry.order(key, *sequence).is_gt(),
            };
            if !is_behind {
                return Err(damaged("an entry is not behind the one before"));
            }
            self.check.entries += 1;
            self.hashes.push(hash_key(entry.key));
            let (key, sequence) = self.last.get_or_insert_default();
            key.clear();
            key.extend_from_slice(entry.key);
            *sequence = entry.sequence;
            cursor.forward().map_err(damaged)?;
        }
        Ok(())
    }

    fn is_separator(&self, (key, sequence): (&[u8], u64)) -> Result<()> {
        match &self.last {
            Some((last, at)) if order((last, *at), (key, sequence)).is_le() => Ok(()),
            _ => Err(self.table.damaged("index", "a separator is before what it stands for")),
        }
    }
}

/// Reads the footer of a file.
fn read_footer(file: &File, name: &str) -> Result<Footer> {
    let mut footer = [0; FOOTER];
    let at = file.len().checked_sub(FOOTER as u64);
    let at = at.ok_or_else(|| Error::damaged(name, "footer", "the file is too short for one"))?;
    file.read_at(at, &mut footer).map_err(|error| Error::of_reading(name, "footer", error))?;
    Footer::of_bytes(&footer, name)
}

/// Reads the blocks of a file.
#[derive(Clone, Copy)]
pub(crate) struct BlockReader<'a> {
    name: &'a str,
    file: &'a File,
    seed: Seed,
}

impl BlockReader<'_> {
    pub(crate) fn damaged(&self, what: &str, handle: Handle, why: &str) -> Error {
        Error::damaged(self.name, format!("{what} at {}", handle.offset), why)
    }

    fn unopened(&self, what: &str, handle: Handle, why: halite_codec::Error) -> Error {
        match why {
            halite_codec::Error::NotBuiltIn => Error::NotBuiltIn { file: self.name.to_owned() },
            why => self.damaged(what, handle, why.reason()),
        }
    }

    /// Reads and checks a block of entries.
    pub(crate) fn block(&self, what: &str, handle: Handle) -> Result<Block> {
        Block::new(self.read(what, handle)?).map_err(|why| self.damaged(what, handle, why))
    }

    /// Reads and checks a block.
    pub(crate) fn read(&self, what: &str, handle: Handle) -> Result<Plain> {
        let Handle { offset, len } = handle;
        self.fits(handle).map_err(|why| self.damaged(what, handle, why))?;
        let unopened = |why| self.unopened(what, handle, why);
        let fill = |to: &mut [u8]| {
            let read = self.file.read_at(offset, to);
            read.map_err(|error| Error::of_reading(self.name, what, error))
        };
        unseal(len as usize, self.seed, offset, fill, unopened)
    }

    /// Checks a block of entries whose bytes, the trailer among them, are here.
    pub(crate) fn of_bytes(&self, handle: Handle, bytes: &[u8]) -> Result<Plain> {
        let plain = unseal_copy(bytes, self.seed, handle.offset);
        plain.map_err(|why| self.unopened("block", handle, why))
    }

    /// Whether a block lies within the file.
    pub(crate) fn fits(&self, handle: Handle) -> Parsed<()> {
        let end = handle.offset.checked_add(u64::from(handle.len) + TRAILER as u64);
        match end.is_some_and(|end| end <= self.file.len()) {
            true => Ok(()),
            false => Err("it lies behind the file's end"),
        }
    }
}
