//! The cost of a flush by either technique.
//!
//! ```text
//! copy-on-write    copy_ns, or partial_copy_ns if only the dirty lines are in DRAM
//! micro log        log_ns of the number of dirty lines, linear between those where it was measured
//! ```
//!
//! A copy costs about the same for any number of dirty lines: loading the others is overlapped by the
//! stores, and finding the lines to load is not. The log's cost is not linear: the more lines of a page are
//! dirty, the more are neighbours. The threads of a device share its bandwidth and not its latency, so the
//! constants are those of a page size, a device and a number of threads: [`CostModel::measure`] is given as
//! many spaces as threads will flush at once, and flushes in all of them at the same time.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use halite_pmem::Fresh;

use super::{DirtyLines, Hybrid, PageBuffer, PageSize, PageStore, Shape};
use crate::{Error, Result};

/// Dirty lines for which the log is measured: a line, and these parts of a page.
const PARTS: [u32; 6] = [u32::MAX, 16, 8, 4, 2, 1];

/// Constants of a page size, a device and a number of threads, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    page_size: PageSize,
    /// A copy of a page.
    pub copy_ns: f64,
    /// A copy of a page of which only the dirty lines are in DRAM.
    pub partial_copy_ns: f64,
    /// A log entry of one line, and of a 16th, an 8th, a 4th, half and all of the page's.
    pub log_ns: [f64; PARTS.len()],
}

impl CostModel {
    /// A model that was not measured: of DRAM behind one thread, about.
    #[must_use]
    pub fn typical(page_size: PageSize) -> Self {
        let lines = f64::from(page_size.lines());
        let log_ns = PARTS.map(|part| 350.0 + 24.0 * f64::from(lines_of(page_size, part)));
        let (copy_ns, partial_copy_ns) = (450.0 + 4.0 * lines, 450.0 + 14.0 * lines);
        Self { page_size, copy_ns, partial_copy_ns, log_ns }
    }

    /// Always picks the copy, or always the log.
    fn always(page_size: PageSize, logs: bool) -> Self {
        let copy_ns = if logs { f64::INFINITY } else { 0.0 };
        Self { page_size, copy_ns, partial_copy_ns: copy_ns, log_ns: [1.0; PARTS.len()] }
    }

    /// The cost of a log entry of so many lines, in nanoseconds.
    #[must_use]
    pub fn log_ns(&self, dirty: u32) -> f64 {
        let places = PARTS.map(|part| lines_of(self.page_size, part));
        let above = places.iter().position(|place| dirty <= *place).unwrap_or(PARTS.len() - 1);
        let below = above.saturating_sub(1);
        let (from, to) = (places[below], places[above]);
        let share = f64::from(dirty.saturating_sub(from)) / f64::from((to - from).max(1));
        self.log_ns[below] + share * (self.log_ns[above] - self.log_ns[below])
    }

    /// The cost of a copy, in nanoseconds.
    #[must_use]
    pub fn copy_ns(&self, is_whole: bool) -> f64 {
        if is_whole { self.copy_ns } else { self.partial_copy_ns }
    }

    /// Whether the micro log costs less for so many dirty lines of a page.
    #[inline]
    #[must_use]
    pub fn prefers_log(&self, dirty: u32, is_whole: bool) -> bool {
        self.log_ns(dirty) < self.copy_ns(is_whole)
    }

    /// Measures the device that spaces are on, with a thread for each space. Their contents are lost. Each
    /// should be larger than the caches, or as large as the store that the model is for.
    ///
    /// # Errors
    /// As [`PageStore::create`]; each space has to have room for 16 pages.
    pub fn measure(spaces: Vec<Fresh>, page_size: PageSize) -> Result<Self> {
        let stores: Result<Vec<_>> =
            spaces.into_iter().map(|space| Probe::new(space, page_size)).collect();
        let mut stores = stores?;
        let mut measure = |logs, dirty, is_whole| {
            let model = Self::always(page_size, logs);
            stores.iter_mut().for_each(|probe| probe.prepare(model, dirty, is_whole));
            least_ns(&mut stores)
        };
        let lines = page_size.lines();
        let copy_ns = measure(false, lines / 8, true)?;
        let partial_copy_ns = measure(false, lines / 8, false)?;
        let mut log_ns = [0.0; PARTS.len()];
        for (ns, part) in log_ns.iter_mut().zip(PARTS) {
            *ns = measure(true, lines_of(page_size, part), true)?;
        }
        Ok(Self { page_size, copy_ns, partial_copy_ns, log_ns })
    }
}

/// Returns the lines of one of `part` parts of a page, one at least.
fn lines_of(page_size: PageSize, part: u32) -> u32 {
    (page_size.lines() / part).max(1)
}

/// Flushes of a thread between two looks at the clock.
const FLUSHES: u32 = 200;

/// How often each figure is measured; disturbances can only lengthen a round.
const ROUNDS: u32 = 15;

/// Flushes with all probes at once. Returns the time of a flush, in nanoseconds: the least of the rounds.
fn least_ns(probes: &mut [Probe]) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Barrier::new(probes.len());
        let round = |probe: &mut Probe| {
            start.wait();
            let begun = Instant::now();
            (0..FLUSHES).try_for_each(|_| probe.flush())?;
            Ok(begun.elapsed().as_nanos() as f64 / f64::from(FLUSHES))
        };
        let times: Result<Vec<f64>> = thread::scope(|scope| {
            let threads: Vec<_> =
                probes.iter_mut().map(|probe| scope.spawn(|| round(probe))).collect();
            let times = threads.into_iter().map(|thread| thread.join());
            times.map(|time| time.expect("a flush does not panic")).collect()
        });
        let times = times?;
        least = least.min(times.iter().sum::<f64>() / times.len() as f64);
    }
    Ok(least)
}

/// A store that is flushed at random.
struct Probe {
    store: Hybrid,
    buffer: PageBuffer,
    /// The dirty lines of one flush after the other.
    sets: Vec<DirtyLines>,
    next: usize,
    random: u64,
}

impl Probe {
    fn new(space: Fresh, page_size: PageSize) -> Result<Self> {
        let len = space.len();
        let shape_of = |pages| Shape { page_size, pages };
        let most = (len / page_size.bytes()).min(u32::MAX.into()) as u32;
        let fits = |pages: &u32| Hybrid::space_len(shape_of(*pages)) <= len;
        let pages = (PAGES_MIN..=most).rev().find(fits).ok_or_else(|| {
            let needed = Hybrid::space_len(shape_of(PAGES_MIN));
            Error::DoesNotFit { what: "pages", needed, len }
        })?;
        let mut store = Hybrid::create(space, shape_of(pages))?;
        let mut buffer = PageBuffer::new(page_size);
        for page in 0..pages {
            buffer.mark(&DirtyLines::all(page_size));
            store.flush(page, &mut buffer)?;
        }
        Ok(Self { store, buffer, sets: Vec::new(), next: 0, random: 1 })
    }

    /// Flushes are by this model from now on, with random dirty lines.
    fn prepare(&mut self, model: CostModel, dirty: u32, is_whole: bool) {
        self.store.set_model(model);
        let page_size = self.store.shape().page_size;
        let new = if is_whole { PageBuffer::new } else { PageBuffer::partial };
        self.buffer = new(page_size);
        self.sets = (0..SETS).map(|_| self.some(dirty, page_size.lines())).collect();
    }

    /// A random choice of so many of the lines, each as likely as the others.
    fn some(&mut self, dirty: u32, lines: u32) -> DirtyLines {
        let mut set = DirtyLines::default();
        let mut left = dirty;
        for line in 0..lines {
            if self.below(lines - line) < left {
                set.insert(line);
                left -= 1;
            }
        }
        set
    }

    fn flush(&mut self) -> Result<()> {
        let page = self.below(self.store.shape().pages);
        self.next = (self.next + 1) % SETS;
        self.buffer.mark(&self.sets[self.next]);
        self.store.flush(page, &mut self.buffer)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % u64::from(bound)) as u32
    }
}

/// Pages that a space has to have room for.
const PAGES_MIN: u32 = 16;

/// Sets of dirty lines that take turns.
const SETS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_linear_between_its_points() {
        let page_size = PageSize::new(16_384).unwrap();
        let log_ns = [100.0, 200.0, 300.0, 500.0, 900.0, 1000.0];
        let model = CostModel { page_size, copy_ns: 600.0, partial_copy_ns: 800.0, log_ns };
        let points =
            [(1, 100.0), (16, 200.0), (32, 300.0), (48, 400.0), (64, 500.0), (256, 1000.0)];
        for (dirty, ns) in points {
            assert_eq!(model.log_ns(dirty), ns, "{dirty}");
        }
        assert!(model.prefers_log(64, true) && !model.prefers_log(128, true));
        assert!(model.prefers_log(100, false) && !model.prefers_log(128, false));
    }

    #[test]
    fn a_model_of_a_page_size_always_has_an_answer() {
        for bytes in [4096, 8192, 16_384, 32_768, 65_536] {
            let page_size = PageSize::new(bytes).unwrap();
            let model = CostModel::typical(page_size);
            assert!(model.prefers_log(1, true) && !model.prefers_log(page_size.lines(), true));
            for dirty in 1..page_size.lines() {
                assert!(model.log_ns(dirty) <= model.log_ns(dirty + 1));
                assert!(!CostModel::always(page_size, false).prefers_log(dirty, true));
                assert!(CostModel::always(page_size, true).prefers_log(dirty, true));
            }
        }
    }
}
