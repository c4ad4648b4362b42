//! libpmemblk: an array of blocks that are replaced whole.
//!
//! A write goes to a free block, and the library's block translation table is pointed to it once it
//! is durable: copy-on-write, as in van Renen's section 3.2.2, with a redo entry for the table. So it
//! writes a block whole however few of its lines changed. It takes locks within the process; threads
//! share one pool here, each with blocks of its own.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use halite_bench::{Contender, Result, RunOptions, Sample};

use super::contents::{Contents, last_writes};
use super::sys::Blocks;
use super::{PoolFile, expect, named};

/// The subject.
const NAME: &str = "libpmemblk";

/// Free blocks and tables of the library, generously: it keeps 256 blocks free, and takes files of no
/// less than 16 MiB.
const SPARE_BLOCKS: u64 = 512;
const SPARE_BYTES: u64 = 32 << 20;

/// How much is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) page_bytes: u64,
    pub(super) threads: u64,
    /// Pages of a thread, which it writes in random order.
    pub(super) pages: u64,
    /// Writes of a thread in one measurement.
    pub(super) writes: u64,
}

/// Writes to libpmemblk.
struct Writes {
    folder: PathBuf,
    size: Size,
    random: Rng,
    array: Option<Array>,
}

/// The blocks; made by the first measurement and kept for the next.
struct Array {
    blocks: Blocks,
    _file: PoolFile,
}

/// The contender that writes so much.
pub(super) fn contender(options: &RunOptions, size: Size) -> Contender<'static> {
    let (folder, random) = (options.folder.clone(), Rng::with_seed(options.seed));
    let mut workload = Writes { folder, size, random, array: None };
    Contender::new(NAME, move || workload.measure())
}

impl Array {
    /// Blocks that were all written, so that all pages are mapped: each write goes to a block that
    /// was free.
    fn new(folder: &Path, size: Size) -> Result<Self> {
        let file = PoolFile::new(folder);
        let pages = size.pages * size.threads;
        let file_bytes = (pages + SPARE_BLOCKS) * size.page_bytes + SPARE_BYTES;
        let blocks = Blocks::create(&file.0, size.page_bytes as usize, file_bytes as usize);
        let blocks = named(NAME, "create", blocks)?;
        let count = blocks.count() as u64;
        expect(NAME, count >= pages, || format!("it has {count} of {pages} blocks"))?;
        let block = vec![0; size.page_bytes as usize];
        for number in 0..count {
            named(NAME, "write", blocks.write(number, &block))?;
        }
        Ok(Self { blocks, _file: file })
    }
}

impl Writes {
    fn measure(&mut self) -> Result<Vec<Sample>> {
        let size = self.size;
        let array = match &mut self.array {
            Some(array) => array,
            none => none.insert(Array::new(&self.folder, size)?),
        };
        let places = |thread: u64| -> Vec<u64> {
            let mut below = || thread * size.pages + self.random.u64(..size.pages);
            (0..size.writes).map(|_| below()).collect()
        };
        let places: Vec<Vec<u64>> = (0..size.threads).map(places).collect();
        let (blocks, start) = (&array.blocks, &Barrier::new(places.len()));
        let times: Result<Vec<Duration>> = thread::scope(|scope| {
            let threads = places
                .iter()
                .map(|places| scope.spawn(move || write(blocks, size.page_bytes, places, start)));
            let threads: Vec<_> = threads.collect();
            let times = threads.into_iter().map(|thread| thread.join());
            times.map(|time| time.expect("a write does not panic")).collect()
        });
        let time = times?.into_iter().max().unwrap_or_default();
        Ok(vec![Sample::throughput(size.writes * size.threads, time)])
    }
}

/// Times the writes of one thread, from one buffer; then compares each block with the bytes written to it
/// last.
fn write(blocks: &Blocks, bytes: u64, places: &[u64], start: &Barrier) -> Result<Duration> {
    let mut page = Contents::new(places[0], bytes).of(0).to_vec();
    start.wait();
    let begun = Instant::now();
    for (number, &place) in (0_u64..).zip(places) {
        page[..8].copy_from_slice(&number.to_le_bytes());
        named(NAME, "write", blocks.write(place, &page))?;
    }
    let time = begun.elapsed();
    let mut found = vec![0; page.len()];
    for (place, number) in last_writes(places) {
        page[..8].copy_from_slice(&number.to_le_bytes());
        named(NAME, "read", blocks.read(place, &mut found))?;
        expect(NAME, found == page, || format!("block {place} has not what was written last"))?;
    }
    Ok(time)
}
