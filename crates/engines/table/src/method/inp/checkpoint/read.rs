//! A checkpoint that is read, block by block. Its bytes are untrusted: every defect is an error.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use flate2::bufread::GzDecoder;
use halite_codec::{HEAD, Head, Reader, Seed};
use halite_disk::{Disk, File};

use super::block::{self, BEGIN, END, ROWS, read_position};
use super::files;
use crate::method::inp::seed;
use crate::method::redo_log::Position;
use crate::{Catalog, Error, Result, Row, Table, TableId};

pub(crate) struct CheckpointReader {
    /// The file, for messages.
    what: String,
    gzip: GzDecoder<BufReader<Bytes>>,
    seed: Seed,
    blocks: u64,
    begin: Position,
    catalog: Catalog,
    rows: u64,
    /// The position at the end, once it is read.
    end: Option<Position>,
}

/// Rows of a table.
pub(crate) struct RowsBlock {
    pub(crate) table: Arc<Table>,
    payload: Vec<u8>,
    /// Where the rows begin.
    at: usize,
}

impl RowsBlock {
    /// The rows, with their primary keys.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Result<(Row, Vec<u8>)>> {
        let schema = self.table.schema();
        self.images().map(|image| {
            let row = Row::from_bytes(schema, image?.to_vec())?;
            let key = row.view(schema)?.primary_key()?;
            Ok((row, key))
        })
    }

    fn images(&self) -> impl Iterator<Item = Result<&[u8]>> {
        let mut reader = Reader(&self.payload[self.at..]);
        std::iter::from_fn(move || {
            let image = (!reader.is_empty()).then(|| reader.bytes())?;
            Some(image.map_err(|_| {
                reader = Reader(&[]);
                Error::damaged("a checkpoint", "a row is longer than its block")
            }))
        })
    }
}

impl CheckpointReader {
    /// Opens the file of a store's checkpoint.
    pub(crate) fn open(disk: &Disk, store_id: u128, name: &str, number: u64) -> Result<Self> {
        let file = disk.open(name)?;
        let what = file.path().display().to_string();
        let mut header =
            vec![0; files::HEADER.min(usize::try_from(file.len()).unwrap_or(usize::MAX))];
        file.read_at(0, &mut header)?;
        files::check_header(&header, &what, store_id, number)?;
        let bytes = Bytes { file, at: files::HEADER as u64 };
        let nothing = Position { sequence: 0, file: 0, len: 0 };
        let mut reader = Self {
            what,
            gzip: GzDecoder::new(BufReader::with_capacity(64 << 10, bytes)),
            seed: Seed::of_file(store_id, number),
            blocks: 0,
            begin: nothing,
            catalog: Catalog::new(),
            rows: 0,
            end: None,
        };
        let payload = reader.block()?;
        let mut begin = Reader(&payload);
        if begin.u8() != Ok(BEGIN) {
            return Err(reader.damaged("it does not begin with a position of the log"));
        }
        reader.begin =
            read_position(&mut begin).map_err(|_| reader.damaged("its begin is too short"))?;
        reader.catalog = Catalog::decode(begin.0, seed(store_id))?;
        Ok(reader)
    }

    /// The position from which the log is redone.
    pub(crate) fn begin(&self) -> Position {
        self.begin
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The position to which the log has to reach.
    ///
    /// # Panics
    /// If the end was not read.
    pub(crate) fn end(&self) -> Position {
        self.end.expect("the checkpoint was read to its end")
    }

    pub(crate) fn damaged(&self, why: &str) -> Error {
        Error::damaged(self.what.as_str(), why)
    }

    /// The next rows; nothing, when all were read and the file is whole.
    pub(crate) fn next(&mut self) -> Result<Option<RowsBlock>> {
        if self.end.is_some() {
            return Ok(None);
        }
        let payload = self.block()?;
        let mut block = Reader(&payload);
        match block.u8() {
            Ok(ROWS) => {
                let id = block.varint_u32().map_err(|_| self.damaged("a block has no table"))?;
                let table = self.catalog.table_by_id(TableId(id));
                let table = Arc::clone(table.map_err(|error| self.damaged(&error.to_string()))?);
                let at = payload.len() - block.0.len();
                let rows = RowsBlock { table, at, payload };
                let count = rows.images().try_fold(0, |count, image| image.map(|_| count + 1));
                self.rows += count?;
                Ok(Some(rows))
            }
            Ok(END) => {
                let end = read_position(&mut block).map_err(|_| self.damaged("its end is cut"))?;
                if block.u64() != Ok(self.rows) || !block.is_empty() {
                    return Err(self.damaged("it does not have its rows"));
                }
                if end.sequence < self.begin.sequence {
                    return Err(self.damaged("it ends before it begins"));
                }
                self.check_nothing_follows()?;
                self.end = Some(end);
                Ok(None)
            }
            _ => Err(self.damaged("a block is of no kind")),
        }
    }

    /// The payload of the next block.
    fn block(&mut self) -> Result<Vec<u8>> {
        let mut head = [0; HEAD];
        let read = self.gzip.read_exact(&mut head);
        self.expanded(read)?;
        let head = Head::of_bytes(&head);
        let Some(len) = block::len_of(head, self.seed, self.blocks) else {
            return Err(self.damaged("a block does not have the check of its length"));
        };
        let mut payload = Vec::new();
        let read = self.gzip.by_ref().take(len).read_to_end(&mut payload);
        self.expanded(read)?;
        if payload.len() as u64 != len || block::head(&payload, self.seed, self.blocks) != head {
            return Err(self.damaged("a block does not have its check"));
        }
        self.blocks += 1;
        Ok(payload)
    }

    /// Checks that the stream ends here, whole, and the file with it.
    fn check_nothing_follows(&mut self) -> Result<()> {
        let read = self.gzip.read(&mut [0]);
        if self.expanded(read)? > 0 {
            return Err(self.damaged("there are bytes behind its end"));
        }
        let rest = self.gzip.get_mut().fill_buf().map(<[u8]>::is_empty);
        match self.expanded(rest)? {
            true => Ok(()),
            false => Err(self.damaged("there are bytes behind its stream")),
        }
    }

    /// The result of expanding some bytes: an error of the disk, or of the stream.
    fn expanded<T>(&self, read: io::Result<T>) -> Result<T> {
        read.map_err(|error| match error.downcast::<halite_disk::Error>() {
            Ok(error) => error.into(),
            Err(error) => self.damaged(&error.to_string()),
        })
    }
}

/// The compressed bytes of a file.
struct Bytes {
    file: File,
    at: u64,
}

impl Read for Bytes {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = (self.file.len() - self.at).min(to.len() as u64) as usize;
        self.file.read_at(self.at, &mut to[..len]).map_err(io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}
