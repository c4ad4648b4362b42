//! Page propagation (van Renen §3.2.4, Fig. 7): how many pages a second a technique flushes.
//!
//! Each technique has a store of 256 MiB a run, half of it for each of two threads, larger than the
//! caches near a processor. Pages are flushed in random order, from one buffer a thread, which stays in
//! the first-level cache as a page does that was changed just now; which lines are dirty is random, too,
//! and drawn before. The limit is that of a copy: the raw loop, which streams a buffer to a random page
//! and fences once. A run asks three questions: what the number of dirty lines does, what the number of
//! threads does, and what the size of the pages does.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

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
/// What pools and stores report, [`Error::WrongAnswer`] if a page is not what was flushed, and
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
    /// Of all pages of a technique.
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
    let team = |is_partial| Team { shape, size, threads, is_partial, seed };
    let (whole, partial) = (team(false), team(true));
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
            Contender::new(LIMIT, || raw.measure()),
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

/// A pool with a space for each thread.
fn spaces(options: &RunOptions, len: u64, threads: usize) -> Result<(Scratch, Vec<Fresh>)> {
    let len = len.next_multiple_of(UNIT);
    let scratch = Scratch::new(options, len * threads as u64)?;
    let pool = scratch.pool();
    let claim = |thread| pool.claim(thread as u64 * len, len);
    let spaces = (0..threads).map(claim).collect::<halite_pmem::Result<_>>()?;
    Ok((scratch, spaces))
}

/// What is done to the stores of a technique.
struct Team {
    shape: Shape,
    size: Size,
    threads: usize,
    is_partial: bool,
    seed: u64,
}

/// A store for each thread, and the pool that they are in.
struct Stores<S> {
    stores: Vec<S>,
    rounds: u64,
    scratch: Scratch,
}

impl Team {
    /// Stores of which every page was flushed.
    fn stores<S: PageStore + Send>(&self, options: &RunOptions) -> Result<Stores<S>> {
        let (scratch, spaces) = spaces(options, S::space_len(self.shape), self.threads)?;
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
        let seed = self.seed ^ stores.rounds << 32;
        let pool: &Pool = stores.scratch.pool();
        let before = pool.traffic();
        let round = |thread: usize, store: &mut S, start: &Barrier| {
            self.flush(store, dirty, seed ^ thread as u64, start)
        };
        let time = in_threads(&mut stores.stores, round)?;
        let traffic = pool.traffic() - before;
        let flushes = (self.size.flushes * self.threads) as u64;
        let of_each = |count: u64| count as f64 / flushes as f64;
        Ok(vec![
            Sample::throughput(flushes, time),
            Sample::new("lines", "1/op", of_each(traffic.lines)),
            Sample::new("fences", "1/op", of_each(traffic.fences)),
        ])
    }

    /// The flushes of one thread; then one page is looked at.
    fn flush<S: PageStore>(
        &self,
        store: &mut S,
        dirty: u32,
        seed: u64,
        start: &Barrier,
    ) -> Result<Duration> {
        let page_size = self.shape.page_size;
        let fill = (seed >> 32) as u8 ^ seed as u8;
        let mut random = Random(seed);
        let order = random.order(self.shape.pages, self.size.flushes);
        let sets: Vec<_> = (0..64).map(|_| random.lines(dirty, page_size)).collect();
        let mut buffer =
            if self.is_partial { PageBuffer::partial(page_size) } else { PageBuffer::new(page_size) };
        buffer.mark(&DirtyLines::all(page_size));
        buffer.write(0, &vec![fill; page_size.bytes() as usize]);
        store.flush(order[0], &mut buffer)?;
        start.wait();
        let begun = Instant::now();
        for (&page, lines) in order.iter().zip(sets.iter().cycle()) {
            buffer.mark(lines);
            store.flush(page, &mut buffer)?;
        }
        let time = begun.elapsed();
        let (last, lines) = (order.len() - 1, &sets[(order.len() - 1) % sets.len()]);
        let mut found = PageBuffer::new(page_size);
        store.read(order[last], &mut found)?;
        let is_there = |line: u32| {
            let bytes = line as usize * 64..(line as usize + 1) * 64;
            found.bytes()[bytes].iter().all(|byte| *byte == fill)
        };
        if !lines.runs().flatten().all(is_there) {
            let why = format!("page {} is not what was flushed", order[last]);
            return Err(Error::WrongAnswer { store: EXPERIMENT.to_owned(), why });
        }
        Ok(time)
    }
}

/// Does the same to each of some things, with a thread for each that begins with the others. Returns
/// the longest time.
fn in_threads<T: Send>(
    things: &mut [T],
    work: impl Fn(usize, &mut T, &Barrier) -> Result<Duration> + Sync,
) -> Result<Duration> {
    let start = Barrier::new(things.len());
    let (work, start) = (&work, &start);
    let times: Result<Vec<Duration>> = thread::scope(|scope| {
        let threads: Vec<_> = things
            .iter_mut()
            .enumerate()
            .map(|(number, thing)| scope.spawn(move || work(number, thing, start)))
            .collect();
        let times = threads.into_iter().map(|thread| thread.join());
        times.map(|time| time.expect("a flush does not panic")).collect()
    });
    Ok(times?.into_iter().max().unwrap_or_default())
}

/// The raw loop.
struct Raw {
    spaces: Vec<Fresh>,
    bytes: Vec<u8>,
    pages: u32,
    flushes: usize,
    random: Random,
    _scratch: Scratch,
}

impl Raw {
    fn new(options: &RunOptions, team: &Team) -> Result<Self> {
        let page_len = team.shape.page_size.bytes();
        let len = u64::from(team.shape.pages) * page_len;
        let (scratch, spaces) = spaces(options, len, team.threads)?;
        Ok(Self {
            spaces,
            bytes: vec![1; page_len as usize],
            pages: team.shape.pages,
            flushes: team.size.flushes,
            random: Random(team.seed),
            _scratch: scratch,
        })
    }

    fn measure(&mut self) -> Result<Vec<Sample>> {
        let order = self.random.order(self.pages, self.flushes);
        let page_len = self.bytes.len() as u64;
        let offsets: Vec<_> = order.into_iter().map(|page| u64::from(page) * page_len).collect();
        let bytes = &self.bytes;
        let time = in_threads(&mut self.spaces, |_, space, start| {
            start.wait();
            Ok(probe::persist_stream(space, bytes, &offsets))
        })?;
        let flushes = (self.flushes * self.spaces.len()) as u64;
        Ok(vec![Sample::throughput(flushes, time)])
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % u64::from(bound)) as u32
    }

    fn order(&mut self, pages: u32, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(pages)).collect()
    }

    /// So many of a page's lines, each as likely as the others.
    fn lines(&mut self, dirty: u32, page_size: PageSize) -> DirtyLines {
        let (mut lines, mut left) = (DirtyLines::default(), dirty);
        for line in 0..page_size.lines() {
            if self.below(page_size.lines() - line) < left {
                lines.insert(line);
                left -= 1;
            }
        }
        lines
    }
}
