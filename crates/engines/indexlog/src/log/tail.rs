//! Appending: to the log, and to the block that collection fills.

use std::sync::Arc;

use halite_blocks::log::frame;
use halite_contract::Result;
use halite_pmem::{Appender, Fenced, Flushed};

use crate::ALIGN;
use crate::durability::pending::Pending;
use crate::entry::Entry;
use crate::read::readable::Readable;
use crate::record::{self, BATCH_ALIGN};
use crate::space::carving::Carving;

/// The block that is being appended to, and the records that are about to be appended.
#[derive(Default)]
pub(crate) struct Tail {
    current: Option<Current>,
    /// Encoded records that go behind the block's tail together.
    chunk: Vec<u8>,
    /// The proof of the block's last fence, if all of its records are durable by that.
    proof: Option<Fenced>,
}

struct Current {
    block: u32,
    seed: u64,
    appender: Appender,
}

/// A block of records that is no longer appended to.
pub(crate) struct Closed {
    pub(crate) block: u32,
    /// Bytes of records.
    pub(crate) used: u64,
    /// The proof of its last fence, if all of it is fenced.
    pub(crate) proof: Option<Fenced>,
}

impl Tail {
    /// The block that is being appended to.
    pub(crate) fn block(&self) -> Option<u32> {
        self.current.as_ref().map(|current| current.block)
    }

    /// Where the next byte that is written goes, in the current block.
    pub(crate) fn written(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.appender.tail())
    }

    /// The proof of the block's last fence, if all of its records are durable by that.
    pub(crate) fn proof(&self) -> Option<&Fenced> {
        self.proof.as_ref()
    }

    /// Notes that all records of the block are durable, as `proof` proves.
    pub(crate) fn prove(&mut self, proof: Fenced) {
        self.proof = Some(proof);
    }

    /// Bytes that still fit behind the chunk.
    pub(crate) fn remaining(&self) -> u64 {
        let remaining = self.current.as_ref().map_or(0, |current| current.appender.remaining());
        remaining - self.chunk.len() as u64
    }

    /// Leaves the current block, all of whose chunks are written.
    pub(crate) fn close(&mut self) -> Option<Closed> {
        debug_assert!(self.chunk.is_empty());
        let current = self.current.take()?;
        let (block, used) = (current.block, current.appender.tail());
        Some(Closed { block, used, proof: self.proof.take() })
    }

    /// Goes on in a block just taken.
    pub(crate) fn enter(
        &mut self,
        carving: &Carving,
        block: u32,
        incarnation: u32,
        salt: u64,
    ) -> Result<Readable> {
        debug_assert!(self.current.is_none());
        let fresh = carving.block(block)?;
        let appender = fresh.into_appender(0);
        let seed = record::seed(salt, block, incarnation);
        let readable = Readable { published: Arc::clone(appender.published()), seed: Some(seed) };
        self.current = Some(Current { block, seed, appender });
        self.proof = None;
        Ok(readable)
    }

    /// Adds a record to the chunk and returns where it will lie. `encode` gets the block's seed.
    ///
    /// # Panics
    /// If there is no block, or the record does not fit.
    pub(crate) fn push(&mut self, overflow: bool, encode: impl FnOnce(&mut Vec<u8>, u64)) -> Entry {
        let current = self.current.as_ref().expect("a block was entered");
        let at = current.appender.tail() + self.chunk.len() as u64;
        let start = self.chunk.len();
        encode(&mut self.chunk, frame::place(current.seed, at));
        self.chunk.resize(self.chunk.len().next_multiple_of(ALIGN as usize), 0);
        Entry::new(current.block, at, (self.chunk.len() - start) as u64, overflow)
    }

    /// Pads the chunk to where a batch may start; returns the last record's entry, which the padding
    /// belongs to.
    pub(crate) fn end_batch(&mut self, last: Entry) -> Entry {
        let before = self.chunk.len();
        self.chunk.resize(before.next_multiple_of(BATCH_ALIGN as usize), 0);
        let footprint = last.footprint() + (self.chunk.len() - before) as u64;
        Entry::new(last.block(), last.offset(), footprint, last.has_overflow())
    }

    /// Writes the chunk past the cache. [`Tail::publish`] shows it once it is fenced.
    pub(crate) fn stream(&mut self) -> Option<Flushed> {
        let current = self.current.as_mut()?;
        let flushed = current.appender.write_stream(&self.chunk);
        self.chunk.clear();
        Some(flushed)
    }

    /// Shows the streamed chunk.
    pub(crate) fn publish(&mut self, proof: Fenced) {
        if let Some(current) = self.current.as_mut() {
            current.appender.publish(&proof);
        }
        self.proof = Some(proof);
    }

    /// Writes the chunk through the cache and shows it; it is to be flushed and fenced.
    pub(crate) fn write(&mut self) -> Option<Pending> {
        let current = self.current.as_mut().filter(|_| !self.chunk.is_empty())?;
        let range = current.appender.write(&self.chunk);
        self.chunk.clear();
        current.appender.reveal();
        self.proof = None;
        Some(Pending::new(Arc::clone(current.appender.published()), range))
    }
}
