//! A checkpoint that is being written.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use halite_codec::{Seed, put_bytes, put_varint};
use halite_disk::{Disk, Error as DiskError, Writer};
use halite_sim::planted;

use super::block::{self, BEGIN, END, ROWS, put_position};
use super::files;
use crate::index::Direction;
use crate::method::Rows;
use crate::method::inp::{seed, tables::Tables};
use crate::method::redo_log::Position;
use crate::{Catalog, KeyRange, Result};

/// The compressor writes to memory.
const MEMORY: &str = "memory takes all bytes";

pub(super) struct CheckpointCopy {
    writer: Writer,
    gzip: GzEncoder<Vec<u8>>,
    seed: Seed,
    /// Blocks that are written.
    blocks: u64,
    /// Rows that are copied.
    rows: u64,
    /// The next table, by its place in the catalog, and its next key.
    table: usize,
    from: Vec<u8>,
}

impl CheckpointCopy {
    /// Begins a checkpoint where the log is at a position.
    pub(super) fn begin(
        disk: &Disk,
        store_id: u128,
        number: u64,
        position: Position,
        catalog: &Catalog,
    ) -> Result<Self> {
        let name = files::unfinished_name_of(number);
        match disk.remove(&name) {
            Ok(()) | Err(DiskError::Missing { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let mut copy = Self {
            writer: disk.create(&name)?,
            gzip: GzEncoder::new(Vec::new(), Compression::fast()),
            seed: Seed::of_file(store_id, number),
            blocks: 0,
            rows: 0,
            table: 0,
            from: Vec::new(),
        };
        copy.writer.write(&files::header(store_id, number))?;
        let mut begin = vec![BEGIN];
        put_position(&mut begin, position);
        begin.extend_from_slice(&catalog.encode(seed(store_id)));
        copy.put(&begin)?;
        Ok(copy)
    }

    /// Copies the next rows of a table, about so many bytes of them. Returns whether there are no more.
    pub(super) fn step(&mut self, tables: &Tables, bytes: usize) -> Result<bool> {
        let Some(table) = tables.catalog().tables().get(self.table) else { return Ok(true) };
        let mut payload = vec![ROWS];
        put_varint(&mut payload, table.id().0.into());
        let before = self.rows;
        let range = KeyRange { from: std::mem::take(&mut self.from), to: None };
        let mut scan = tables.scan(table, None, &range, Direction::Forward)?;
        loop {
            let Some((key, row)) = scan.next()? else {
                self.table += 1;
                break;
            };
            put_bytes(&mut payload, row.bytes());
            self.rows += 1;
            if payload.len() >= bytes {
                self.from = key;
                self.from.push(0);
                break;
            }
        }
        if self.rows > before {
            self.put(&payload)?;
        }
        Ok(self.table == tables.catalog().tables().len())
    }

    /// Ends the checkpoint where the log is at a position, and makes its bytes durable.
    pub(super) fn end(&mut self, position: Position) -> Result<()> {
        let mut end = vec![END];
        put_position(&mut end, position);
        end.extend_from_slice(&self.rows.to_le_bytes());
        self.put(&end)?;
        self.gzip.try_finish().expect(MEMORY);
        self.hand_over()?;
        planted!("table.inp-checkpoint-not-synced", self.writer.flush(), self.writer.sync())?;
        Ok(())
    }

    fn put(&mut self, payload: &[u8]) -> Result<()> {
        let head = block::head(payload, self.seed, self.blocks);
        self.gzip.write_all(&head.bytes()).expect(MEMORY);
        self.gzip.write_all(payload).expect(MEMORY);
        self.blocks += 1;
        self.hand_over()
    }

    fn hand_over(&mut self) -> Result<()> {
        let compressed = self.gzip.get_mut();
        self.writer.write(compressed)?;
        compressed.clear();
        Ok(())
    }
}
