//! Durable writes of small chunks: the persistent heap and a file ("NVM-aware Memory Allocator", figures a and b).
//!
//! `allocator` stores a chunk in its place in allocated memory, a persisted slot, and makes it durable with a write-back of
//! its lines and a fence. `file` writes it to its place in a file with one call, and makes it durable with another one,
//! fdatasync. Both are of one length and in the run's folder, and all of their pages are there before. On tmpfs the second
//! call has nothing to do; on a disk it waits for the disk. The limit is that of the pool below the heap: the same store,
//! write-back and fence without an allocator's checks.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use halite_alloc::Segments;
use halite_alloc::heap::{Heap, NvPtr, Owner, Publication, Tag, Tagged};
use serde_json::json;

use super::setting::Setting;
use crate::scratch::Home;
use crate::{Contender, Error, LIMIT, Result, Run, Sample, Scratch};

pub(super) const NAME: &str = "arulraj.interface";

/// Bytes of a chunk.
const CHUNKS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Bytes of a slot.
const SLOT: u64 = 1 << 20;

/// Chunks between two looks at whether the user asked to stop.
const LOOK: u64 = 1024;

/// The order in which chunks are written.
const ORDERS: [&str; 2] = ["sequential", "random"];

/// The slots that are written to.
enum Bytes {}

impl Tagged for Bytes {
    const TAG: Tag = Tag::new(1);
}

/// Bytes of each of the two, and chunks of a measurement of the heap and of the file.
fn sizes(setting: &Setting<'_>) -> (u64, [u64; 2]) {
    setting.sized((16 << 20, [400_000, 100_000]), (2 << 20, [2_000, 500]))
}

pub(super) fn plan(_: &Setting<'_>, run: &Run<'_>) -> u64 {
    (CHUNKS.len() * ORDERS.len() * 3) as u64 * u64::from(run.options.repeats)
}

pub(super) fn run(setting: &Setting<'_>, run: &mut Run<'_>) -> Result<()> {
    let (bytes, counts) = sizes(setting);
    let home = Home::new(&run.options.folder)?;
    let mut memory = Memory::new(&home, bytes, run)?;
    let scratch = Scratch::new(&run.options, bytes)?;
    let mut bare = scratch.pool().claim(0, bytes)?;
    drop(bare.zero(0..bytes));
    let file = File::options().write(true).create_new(true).open(home.path().join("file"));
    let file = file.map_err(failed("create its file"))?;
    file.write_all_at(&vec![1; bytes as usize], 0).map_err(failed("write"))?;
    file.sync_all().map_err(failed("sync"))?;
    let seed = run.options.seed;
    let run_of =
        |order| move |chunk| Places { order, chunk, bytes, random: fastrand::Rng::with_seed(seed) };
    for (order, places) in ORDERS.map(|order| (order, run_of(order))) {
        for chunk in CHUNKS {
            let params =
                [("order", json!(order)), ("chunk", json!(chunk)), ("bytes", json!(bytes))];
            let params = params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let content = vec![7; chunk as usize];
            let source = source(order, chunk);
            let interrupted = run.interrupted();
            let go_on = || match interrupted.load(std::sync::atomic::Ordering::Relaxed) {
                true => Err(Error::Interrupted),
                false => Ok(()),
            };
            let (memory, content, file) = (&mut memory, &content, &file);
            let (bare, pool) = (&mut bare, scratch.pool());
            let to_heap = || {
                let write = |at| memory.write(at, content);
                bandwidth(places(chunk), counts[0], write, go_on)
            };
            let to_file = || {
                let write = |at| {
                    file.write_all_at(content, at).map_err(failed("write"))?;
                    file.sync_data().map_err(failed("sync"))
                };
                bandwidth(places(chunk), counts[1], write, go_on)
            };
            let to_pool = || {
                let write = |at| {
                    bare.write(at, content);
                    pool.fence([bare.flush(at..at + chunk)])?;
                    Ok(())
                };
                bandwidth(places(chunk), counts[0], write, go_on)
            };
            let mut contenders = [
                Contender::new("allocator", to_heap)
                    .with_source("bandwidth", source.map(|of| of[0])),
                Contender::new(LIMIT, to_pool),
                Contender::new("file", to_file).with_source("bandwidth", source.map(|of| of[1])),
            ];
            run.compare(NAME, &params, &mut contenders)?;
        }
    }
    Ok(())
}

/// Writes so many chunks, each durably.
fn bandwidth(
    mut places: Places,
    count: u64,
    mut write: impl FnMut(u64) -> Result<()>,
    go_on: impl Fn() -> Result<()>,
) -> Result<Vec<Sample>> {
    let began = Instant::now();
    for number in 0..count {
        if number % LOOK == 0 {
            go_on()?;
        }
        write(places.next(number))?;
    }
    let seconds = began.elapsed().as_secs_f64().max(1e-9);
    Ok(vec![Sample::new("bandwidth", "B/s", (count * places.chunk) as f64 / seconds)])
}

/// The places of chunks, none over the end of a slot.
struct Places {
    order: &'static str,
    chunk: u64,
    bytes: u64,
    random: fastrand::Rng,
}

impl Places {
    fn next(&mut self, number: u64) -> u64 {
        let chunks = self.bytes / self.chunk;
        let place = match self.order {
            "random" => self.random.u64(..chunks),
            _ => number % chunks,
        };
        place * self.chunk
    }
}

/// Allocated memory.
struct Memory {
    heap: Heap,
    slots: Vec<NvPtr<Bytes>>,
}

impl Memory {
    fn new(home: &Home, bytes: u64, run: &Run<'_>) -> Result<Self> {
        let mut options = run.options.pool();
        options.size_max = 2 * bytes + (64 << 20);
        let segments = Segments::create(&home.path().join("pool"), &options)?;
        segments.install()?;
        let mut heap = Heap::open(&segments.device(1))?;
        let mut slots = Vec::new();
        for number in 0..bytes / SLOT {
            let owner = Owner::new(16).expect("it is a number of an owner");
            let slot = heap.reserve::<Bytes>(owner, SLOT)?;
            heap.write(slot, 0, &vec![1; SLOT as usize])?;
            let mut publication = Publication::new();
            publication.activate(slot);
            publication.set_root(&format!("slot {number}"), slot.word());
            heap.publish(&mut publication)?;
            slots.push(slot);
        }
        Ok(Self { heap, slots })
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.heap.write(self.slots[(at / SLOT) as usize], at % SLOT, bytes)?;
        Ok(self.heap.fence()?)
    }
}

fn failed(action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::Store { store: "file".to_owned(), action, source: error.into() }
}

/// The source's bandwidths of the allocator and of the file system in B/s.
fn source(order: &str, chunk: u64) -> Option<[f64; 2]> {
    let of = match (order, chunk) {
        ("sequential", 1) => [14.3, 1.07],
        ("sequential", 64) => [857.7, 81.2],
        ("sequential", 256) => [2_889.0, 276.0],
        ("random", 1) => [12.3, 1.16],
        ("random", 256) => [2_652.0, 243.0],
        _ => return None,
    };
    Some(of.map(|megabytes| megabytes * 1e6))
}
