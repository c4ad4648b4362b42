//! libpmemobj: cells in the root object, updated in place by transactions.
//!
//! A transaction copies the cell to an undo log, which is made durable; then the cell is changed, and
//! the commit makes it durable and the log void. That is the log-based update of van Renen's
//! section 3.4.2, with undo in place of redo.

use std::path::{Path, PathBuf};
use std::time::Instant;

use fastrand::Rng;
use halite_bench::{Contender, Result, RunOptions, Sample};

use super::contents::{Contents, last_writes};
use super::sys::Object;
use super::{PoolFile, expect, named};

/// The subject.
const NAME: &str = "libpmemobj";

/// Lanes, heap headers and the heap's rounding, generously.
const SPARE_BYTES: u64 = 64 << 20;

/// Which cells are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The one behind the last.
    Sequential,
    /// Any of them.
    Random,
}

/// Updates by libpmemobj.
struct Updates {
    folder: PathBuf,
    cell_bytes: u64,
    /// Bytes of all cells, each of which begins on a line.
    array_bytes: u64,
    updates: u64,
    pattern: Pattern,
    contents: Contents,
    random: Rng,
    /// Where the sequence goes on.
    next: u64,
    array: Option<Array>,
}

/// The cells; made by the first measurement and kept for the next.
struct Array {
    object: Object,
    _file: PoolFile,
}

/// The contender that makes `updates` of cells of `cell_bytes`.
pub(super) fn contender(
    options: &RunOptions,
    cell_bytes: u64,
    array_bytes: u64,
    updates: u64,
    pattern: Pattern,
) -> Contender<'static> {
    let mut workload = Updates {
        folder: options.folder.clone(),
        cell_bytes,
        array_bytes,
        updates,
        pattern,
        contents: Contents::new(options.seed, cell_bytes),
        random: Rng::with_seed(options.seed),
        next: 0,
        array: None,
    };
    Contender::new(NAME, move || workload.measure())
}

impl Array {
    /// The library writes the zeros of the object, so all pages are mapped.
    fn new(folder: &Path, bytes: u64) -> Result<Self> {
        let file = PoolFile::new(folder);
        let object = Object::create(&file.0, bytes as usize, (bytes + SPARE_BYTES) as usize);
        Ok(Self { object: named(NAME, "create", object)?, _file: file })
    }
}

impl Updates {
    fn measure(&mut self) -> Result<Vec<Sample>> {
        let stride = self.cell_bytes.next_multiple_of(64);
        let places = self.places(self.array_bytes / stride);
        let array = match &mut self.array {
            Some(array) => array,
            none => none.insert(Array::new(&self.folder, self.array_bytes)?),
        };
        let start = Instant::now();
        for (number, &place) in (0..).zip(&places) {
            let offset = (place * stride) as usize;
            named(NAME, "update", array.object.update(offset, self.contents.of(number)))?;
        }
        let time = start.elapsed();

        for (place, number) in last_writes(&places) {
            let cell = &array.object.bytes()[(place * stride) as usize..];
            let right = cell.starts_with(self.contents.of(number));
            expect(NAME, right, || format!("cell {place} has not what was written last"))?;
        }
        Ok(vec![Sample::throughput(self.updates, time)])
    }

    fn places(&mut self, count: u64) -> Vec<u64> {
        let next = |_| match self.pattern {
            Pattern::Random => self.random.u64(..count),
            Pattern::Sequential => {
                self.next = (self.next + 1) % count;
                self.next
            }
        };
        (0..self.updates).map(next).collect()
    }
}
