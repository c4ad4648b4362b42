//! Page propagation (van Renen §3.2.4, Fig. 7): how many pages a second a technique flushes.
//!
//! Each technique has a store of 256 MiB a run, half of it for each of two threads, larger than the caches near a
//! processor. Pages are flushed in random order, from one buffer a thread, which stays in the first-level cache like a
//! page that was just changed. The dirty lines are random, too, and drawn before. The limit is that of a copy: the raw
//! loop, which streams a buffer to a random page and fences once. All contenders have the same buffers, and spaces of
//! which every byte was written. A run varies the number of dirty lines, the number of threads, and the size of the
//! pages.

use std::cell::RefCell;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use halite_blocks::page::{
    ChecksummedPages, CopyOnWrite, CostModel, DirtyLines, Hybrid, MicroLog, PageBuffer, PageSize,
    PageStore, SealedMicroLog, Shape,
};
use halite_pmem::{Fresh, Pool, UNIT, probe};
use serde_json::json;

use crate::{Contender, Error, LIMIT, Params, Result, Run, RunOptions, Sample, Scratch};

const EXPERIMENT: &str = "blocks.page";
const DIRTY: [u32; 13] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256];
const THREADS: [usize; 2] = [1, 2];
const PAGE_BYTES: u64 = 16 << 10;
/// Other sizes, with the dirty lines of the comparison: few enough for a log, and for all sizes.
const OTHER_PAGE_BYTES: [u64; 4] = [4 << 10, 8 << 10, 32 << 10, 64 << 10];
const DIRTY_OF_ANY_SIZE: u32 = 16;

/// Pages a second with one thread, copied, as the paper's text says; 4.9 GB/s.
const COPIES_OF_THE_PAPER: f64 = 300e3;

/// All contenders of a comparison.
const CONTENDERS: u64 = 9;

/// How many measurements [`run`] makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    let comparisons = THREADS.len() * (DIRTY.len() + OTHER_PAGE_BYTES.len());
    comparisons as u64 * CONTENDERS * u64::from(options.repeats)
}

/// Measures.
///
/// # Errors
/// The errors of pools and stores; [`Error::WrongAnswer`] if a page differs from the one that was flushed;
/// [`Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    for threads in THREADS {
        compare(run, PAGE_BYTES, threads, &DIRTY)?;
        for bytes in OTHER_PAGE_BYTES {
            compare(run, bytes, threads, &[DIRTY_OF_ANY_SIZE])?;
        }
    }
    Ok(())
}

/// How much is measured.
#[derive(Clone, Copy)]
struct Size {
    /// The bytes of all pages of a technique.
    bytes: u64,
    /// Flushes of a thread in one measurement.
    flushes: usize,
}

impl Size {
    fn of(options: &RunOptions) -> Self {
        let (bytes, flushes) = if options.quick { (16 << 20, 150) } else { (256 << 20, 6000) };
        Self { bytes, flushes }
    }
}

fn compare(run: &mut Run<'_>, page_bytes: u64, threads: usize, dirty: &[u32]) -> Result<()> {
    let size = Size::of(&run.options);
    let page_size = PageSize::new(page_bytes)?;
    let pages = (size.bytes / page_bytes / threads as u64) as u32;
    let shape = Shape { page_size, pages };
    let seed = run.options.seed;
    run.step(&format!("{EXPERIMENT}: stores for pages of {page_bytes} bytes"))?;
    let options = run.options.clone();
    let model = model(&options, shape, threads)?;
    let team = |buffer: fn(PageSize) -> PageBuffer| {
        let buffers = RefCell::new((0..threads).map(|_| buffer(page_size)).collect());
        Team { shape, size, buffers, seed }
    };
    let (whole, partial) = (team(PageBuffer::new), team(PageBuffer::partial));
    let mut copies = whole.stores::<CopyOnWrite>(&options)?;
    let mut partial_copies = partial.stores::<CopyOnWrite>(&options)?;
    let mut logs = whole.stores::<MicroLog>(&options)?;
    let mut sealed_logs = whole.stores::<SealedMicroLog>(&options)?;
    let mut checksums = whole.stores::<ChecksummedPages>(&options)?;
    let mut hybrids = whole.stores::<Hybrid>(&options)?;
    let mut partial_hybrids = partial.stores::<Hybrid>(&options)?;
    let mut partial_sealed_logs = partial.stores::<SealedMicroLog>(&options)?;
    for store in hybrids.stores.iter_mut().chain(&mut partial_hybrids.stores) {
        store.set_model(model);
    }
    let mut raw = Raw::new(&options, &whole)?;
    for &dirty in dirty {
        let mut params = Params::new();
        params.insert("page".into(), json!(page_bytes));
        params.insert("dirty".into(), json!(dirty));
        params.insert("threads".into(), json!(threads));
        let of_paper = (page_bytes == PAGE_BYTES && threads == 1).then_some(COPIES_OF_THE_PAPER);
        let mut contenders = [
            Contender::new(LIMIT, || raw.measure(&whole)),
            Contender::new("cow", || whole.measure(&mut copies, dirty))
                .with_source("throughput", of_paper),
            Contender::new("cow-partial", || partial.measure(&mut partial_copies, dirty)),
            Contender::new("micro-log", || whole.measure(&mut logs, dirty)),
            Contender::new("micro-log-sealed", || whole.measure(&mut sealed_logs, dirty)),
            Contender::new("micro-log-sealed-partial", || {
                partial.measure(&mut partial_sealed_logs, dirty)
            }),
            Contender::new("checksum", || whole.measure(&mut checksums, dirty)),
            Contender::new("hybrid", || whole.measure(&mut hybrids, dirty)),
            Contender::new("hybrid-partial", || partial.measure(&mut partial_hybrids, dirty)),
        ];
        debug_assert_eq!(contenders.len() as u64, CONTENDERS);
        run.compare(EXPERIMENT, &params, &mut contenders)?;
    }
    Ok(())
}

/// The cost model of this device and so many threads.
fn model(options: &RunOptions, shape: Shape, threads: usize) -> Result<CostModel> {
    let (scratch, spaces) = spaces(options, Hybrid::space_len(shape), threads)?;
    let model = CostModel::measure(spaces, shape.page_size)?;
    drop(scratch);
    Ok(model)
}

/// A pool with a space for each thread, of which every byte was written.
fn spaces(options: &RunOptions, len: u64, threads: usize) -> Result<(Scratch, Vec<Fresh>)> {
    let len = len.next_multiple_of(UNIT);
    let scratch = Scratch::new(options, len * threads as u64)?;
    let pool = scratch.pool();
    let claim = |thread| {
        let mut space = pool.claim(thread as u64 * len, len)?;
        let _ = space.zero(0..len);
        Ok(space)
    };
    let spaces = (0..threads).map(claim).collect::<halite_pmem::Result<_>>()?;
    Ok((scratch, spaces))
}

/// The operations on the stores of a technique.
struct Team {
    shape: Shape,
    size: Size,
    /// One for each thread.
    buffers: RefCell<Vec<PageBuffer>>,
    seed: u64,
}

/// A store for each thread, and the pool that they are in.
struct Stores<S> {
    stores: Vec<S>,
    rounds: u64,
    scratch: Scratch,
}

impl Team {
    fn threads(&self) -> usize {
        self.buffers.borrow().len()
    }

    /// Stores of which every page was flushed.
    fn stores<S: PageStore + Send>(&self, options: &RunOptions) -> Result<Stores<S>> {
        let (scratch, spaces) = spaces(options, S::space_len(self.shape), self.threads())?;
        let fill = |space| {
            let mut store = S::create(space, self.shape)?;
            let mut buffer = PageBuffer::new(self.shape.page_size);
            for page in 0..self.shape.pages {
                buffer.mark(&DirtyLines::all(self.shape.page_size));
                store.flush(page, &mut buffer)?;
            }
            Ok(store)
        };
        let stores = spaces.into_iter().map(fill).collect::<halite_blocks::Result<_>>()?;
        Ok(Stores { stores, rounds: 0, scratch })
    }

    /// Flushes in all threads at once.
    fn measure<S: PageStore + Send>(
        &self,
        stores: &mut Stores<S>,
        dirty: u32,
    ) -> Result<Vec<Sample>> {
        stores.rounds += 1;
        let mut random = Rng::with_seed(self.seed ^ stores.rounds << 32);
        let fill = stores.rounds as u8;
        let mut buffers = self.buffers.borrow_mut();
        let mut turns = Vec::new();
        for (store, buffer) in stores.stores.iter_mut().zip(&mut *buffers) {
            let order = order(&mut random, self.shape.pages, self.size.flushes);
            let sets = (0..64).map(|_| lines(&mut random, dirty, self.shape.page_size)).collect();
            buffer.write(0, &vec![fill; self.shape.page_size.bytes() as usize]);
            store.flush(order[0], buffer)?;
            turns.push(Turn { store, buffer, order, sets, fill });
        }
        let pool: &Pool = stores.scratch.pool();
        let before = pool.traffic();
        let flushes = (self.size.flushes * turns.len()) as u64;
        let time = in_threads(&mut turns, Turn::flush)?;
        let traffic = pool.traffic() - before;
        turns.iter().try_for_each(Turn::check)?;
        let of_each = |count: u64| count as f64 / flushes as f64;
        Ok(vec![
            Sample::throughput(flushes, time),
            Sample::new("lines", "1/op", of_each(traffic.lines)),
            Sample::new("fences", "1/op", of_each(traffic.fences)),
        ])
    }
}

/// The flushes of one thread in one measurement.
struct Turn<'a, S> {
    store: &'a mut S,
    /// Full of `fill`, and clean.
    buffer: &'a mut PageBuffer,
    order: Vec<u32>,
    /// The dirty lines of one flush after the other, again and again.
    sets: Vec<DirtyLines>,
    fill: u8,
}

impl<S: PageStore> Turn<'_, S> {
    fn flush(&mut self) -> Result<()> {
        for (&page, lines) in self.order.iter().zip(self.sets.iter().cycle()) {
            self.buffer.mark(lines);
            self.store.flush(page, self.buffer)?;
        }
        Ok(())
    }

    /// Checks that the last page has the bytes that were flushed.
    fn check(&self) -> Result<()> {
        let last = self.order.len() - 1;
        let (page, lines) = (self.order[last], &self.sets[last % self.sets.len()]);
        let mut found = PageBuffer::new(self.buffer.page_size());
        self.store.read(page, &mut found)?;
        let is_there = |line: u32| {
            let bytes = line as usize * 64..(line as usize + 1) * 64;
            found.bytes()[bytes].iter().all(|byte| *byte == self.fill)
        };
        if !lines.runs().flatten().all(is_there) {
            let why = format!("page {page} is not what was flushed");
            return Err(Error::WrongAnswer { store: EXPERIMENT.to_owned(), why });
        }
        Ok(())
    }
}

/// Does the same to each of some things, with a thread for each that begins with the others. Returns
/// the time from the begin of the first to the end of the last.
fn in_threads<T: Send>(
    things: &mut [T],
    work: impl Fn(&mut T) -> Result<()> + Sync,
) -> Result<Duration> {
    let (work, start) = (&work, &Barrier::new(things.len()));
    let times: Result<Vec<(Instant, Instant)>> = thread::scope(|scope| {
        let threads: Vec<_> = things
            .iter_mut()
            .map(|thing| {
                scope.spawn(move || {
                    start.wait();
                    let begun = Instant::now();
                    work(thing)?;
                    Ok((begun, Instant::now()))
                })
            })
            .collect();
        let times = threads.into_iter().map(|thread| thread.join());
        times.map(|time| time.expect("a flush does not panic")).collect()
    });
    let times = times?;
    let first = times.iter().map(|(begun, _)| *begun).min();
    let last = times.iter().map(|(_, ended)| *ended).max();
    Ok(last.zip(first).map(|(last, first)| last - first).unwrap_or_default())
}

/// The raw loop.
struct Raw {
    spaces: Vec<Fresh>,
    random: Rng,
    _scratch: Scratch,
}

impl Raw {
    fn new(options: &RunOptions, team: &Team) -> Result<Self> {
        let len = u64::from(team.shape.pages) * team.shape.page_size.bytes();
        let (scratch, spaces) = spaces(options, len, team.threads())?;
        Ok(Self { spaces, random: Rng::with_seed(team.seed), _scratch: scratch })
    }

    fn measure(&mut self, team: &Team) -> Result<Vec<Sample>> {
        let Shape { page_size, pages } = team.shape;
        let buffers = team.buffers.borrow();
        let mut turns = Vec::new();
        for (space, buffer) in self.spaces.iter_mut().zip(&*buffers) {
            let order = order(&mut self.random, pages, team.size.flushes).into_iter();
            let offsets: Vec<_> = order.map(|page| u64::from(page) * page_size.bytes()).collect();
            turns.push((space, buffer, offsets));
        }
        let flushes = (team.size.flushes * turns.len()) as u64;
        let time = in_threads(&mut turns, |(space, buffer, offsets)| {
            probe::persist_stream(space, buffer.bytes(), offsets);
            Ok(())
        })?;
        Ok(vec![Sample::throughput(flushes, time)])
    }
}

fn order(random: &mut Rng, pages: u32, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.u32(..pages)).collect()
}

/// So many of a page's lines, each as likely as the others.
fn lines(random: &mut Rng, dirty: u32, page_size: PageSize) -> DirtyLines {
    let (mut lines, mut left) = (DirtyLines::default(), dirty);
    for line in 0..page_size.lines() {
        if random.u64(..u64::from(page_size.lines() - line)) < u64::from(left) {
            lines.insert(line);
            left -= 1;
        }
    }
    lines
}
