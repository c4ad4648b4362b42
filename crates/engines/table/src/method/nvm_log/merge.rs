//! Scans of several memtables at once.

use halite_alloc::heap::Heap;

use super::memtable::Memtable;
use crate::Result;
use crate::index::nonvolatile::NonVolatileScan;
use crate::index::{Direction, Range};

/// The keys of some memtables in order, each with the words that these have for it.
pub(super) struct MergeScan<'h> {
    /// One a memtable, the newest first.
    scans: Vec<Source<'h>>,
    direction: Direction,
}

/// The scan of one memtable, and its next entry.
struct Source<'h> {
    scan: NonVolatileScan<'h>,
    next: Option<(&'h [u8], u64)>,
}

impl<'h> MergeScan<'h> {
    /// The keys of a range; the memtables are the newest first.
    pub(super) fn new(
        heap: &'h Heap,
        memtables: &[Memtable],
        range: Range<'_>,
        direction: Direction,
    ) -> Result<Self> {
        let mut scans = Vec::with_capacity(memtables.len());
        for memtable in memtables {
            let mut scan = memtable.tree.scan(heap, range, direction)?;
            let next = scan.next()?;
            scans.push(Source { scan, next });
        }
        Ok(Self { scans, direction })
    }

    /// The next key, with its words, the newest first.
    pub(super) fn next(&mut self) -> Result<Option<(&'h [u8], Vec<u64>)>> {
        let keys = self.scans.iter().filter_map(|source| source.next.map(|(key, _)| key));
        let key = match self.direction {
            Direction::Forward => keys.min(),
            Direction::Reverse => keys.max(),
        };
        let Some(key) = key else { return Ok(None) };
        let mut words = Vec::new();
        for Source { scan, next } in &mut self.scans {
            if let Some((_, word)) = next.take_if(|(other, _)| *other == key) {
                words.push(word);
                *next = scan.next()?;
            }
        }
        Ok(Some((key, words)))
    }
}
