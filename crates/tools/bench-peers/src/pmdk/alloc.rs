//! libpmemobj: objects of one size, allocated and freed one after the other by its atomic interface.
//!
//! An allocation is durable when it returns: pmemobj_alloc(3) logs its changes of the heap and of the
//! place that is to refer to the object, and makes both durable. Nothing is written to the object.

use std::path::PathBuf;
use std::time::Instant;

use halite_bench::{Contender, Result, RunOptions, Sample};

use super::sys::Heap;
use super::{PoolFile, expect, named};

/// The subject.
const NAME: &str = "libpmemobj";

/// Lanes, heap headers and the heap's rounding, generously.
const SPARE_BYTES: u64 = 64 << 20;

/// Allocations by libpmemobj.
struct Allocations {
    folder: PathBuf,
    bytes: u64,
    count: u64,
}

/// The contender that makes `count` allocations of `bytes`.
pub(super) fn contender(options: &RunOptions, bytes: u64, count: u64) -> Contender<'static> {
    let workload = Allocations { folder: options.folder.clone(), bytes, count };
    Contender::new(NAME, move || workload.measure())
}

impl Allocations {
    fn measure(&self) -> Result<Vec<Sample>> {
        let file = PoolFile::new(&self.folder);
        // An object has a header of 16 bytes, and is of whole units of its size class.
        let room = self.count * (self.bytes + 64) * 5 / 4 + SPARE_BYTES;
        let mut heap = named(NAME, "create", Heap::create(&file.0, room as usize))?;
        let each = |time: std::time::Duration| time.as_nanos() as f64 / self.count as f64;

        let mut objects = Vec::with_capacity(self.count as usize);
        let start = Instant::now();
        for _ in 0..self.count {
            objects.push(named(NAME, "allocate", heap.allocate(self.bytes as usize))?);
        }
        let allocated = start.elapsed();
        let found = heap.count() as u64;
        let right = found == self.count;
        expect(NAME, right, || format!("of {} allocations {found} are there", self.count))?;

        let start = Instant::now();
        for object in objects {
            heap.free(object);
        }
        let freed = start.elapsed();
        expect(NAME, heap.count() == 0, || "something is left after all was freed".to_owned())?;
        Ok(vec![
            Sample::new("latency", "ns", each(allocated)),
            Sample::new("release-latency", "ns", each(freed)),
        ])
    }
}
