//! Updates in place: figure 10 of van Renen (§3.4.4).
//!
//! Each technique has a flat array of cells, aligned to lines and much larger than the caches of a
//! core. An operation takes the next cell or a random one. The limit of writes persists once as many
//! lines as a cell of failure-atomic memory has, in the same pattern: past the cache, or through it
//! like the cells, which must fetch them; whichever is faster. A dependent read learns from the value
//! which cell is next.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fastrand::Rng;
use halite_blocks::cell::{Cells, Cow, Fam, Form, Logged, Packing, Shape};
use halite_pmem::{Fresh, LINE, probe};
use serde_json::Value;

use crate::{Contender, Error, LIMIT, Params, Result, Run, RunOptions, Sample, Scratch};

/// Bytes of a value.
const LENGTHS: [u64; 6] = [16, 32, 48, 64, 96, 128];

/// An operation on a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Write,
    Read,
    DependentRead,
}

const OPS: [(Op, &str); 3] =
    [(Op::Write, "write"), (Op::Read, "read"), (Op::DependentRead, "dependent-read")];

/// Which cell is next.
#[derive(Debug, Clone, Copy)]
enum Pattern {
    Sequential,
    Random,
}

const PATTERNS: [(Pattern, &str); 2] =
    [(Pattern::Sequential, "sequential"), (Pattern::Random, "random")];

/// How large and how long.
struct Effort {
    /// Bytes of an array.
    array_len: u64,
    /// Bytes of a log behind it; all lengths are whole units of a pool.
    log_len: u64,
    /// Operations of a measurement.
    writes: usize,
    reads: usize,
}

impl Effort {
    fn of(options: &RunOptions) -> Self {
        if options.quick {
            Self { array_len: 16 << 20, log_len: 2 << 20, writes: 4_000, reads: 20_000 }
        } else {
            Self { array_len: 512 << 20, log_len: 64 << 20, writes: 400_000, reads: 1_000_000 }
        }
    }

    fn operations(&self, op: Op) -> usize {
        if op == Op::Write { self.writes } else { self.reads }
    }
}

fn forms() -> impl Iterator<Item = Form> {
    Form::ALL.into_iter().filter(|form| form.is_available())
}

/// Measurements that [`run`] makes.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    // Copy-on-write, the log, the forms, the form chosen at run time; of writes, the limit.
    let readers = forms().count() + 3;
    let of_a_pattern: usize =
        OPS.iter().map(|(op, _)| readers + usize::from(*op == Op::Write)).sum();
    (LENGTHS.len() * PATTERNS.len() * of_a_pattern) as u64 * u64::from(options.repeats)
}

/// Experiment `blocks.cell`.
///
/// # Errors
/// [`Error::Interrupted`]; the errors of a pool or of the cells; [`Error::WrongAnswer`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let effort = Effort::of(&run.options);
    for len in LENGTHS {
        let arrays = Arrays::new(&run.options, &effort, len)?;
        for (op, op_name) in OPS {
            for (pattern, pattern_name) in PATTERNS {
                let mut params = Params::new();
                params.insert("op".into(), op_name.into());
                params.insert("pattern".into(), pattern_name.into());
                params.insert("bytes".into(), Value::from(len));
                let seed = run.options.seed;
                let mut contenders = arrays.contenders(op, pattern, &effort, seed);
                run.compare("blocks.cell", &params, &mut contenders)?;
            }
        }
    }
    Ok(())
}

/// An array of each technique, and the pools that they lie in.
struct Arrays {
    len: u64,
    cow: RefCell<Cow>,
    logged: RefCell<Logged>,
    fam: RefCell<Fam>,
    raw: RefCell<Fresh>,
    /// Goes last: the arrays give their space back to it.
    _scratch: Vec<Scratch>,
}

impl Arrays {
    fn new(options: &RunOptions, effort: &Effort, len: u64) -> Result<Self> {
        let mut scratch = Vec::new();
        let mut space = |len| -> Result<Fresh> {
            let pool = Scratch::new(options, len)?;
            let space = pool.pool().claim(0, len)?;
            scratch.push(pool);
            Ok(space)
        };
        let array_len = effort.array_len;
        let cow = RefCell::new(format(space(array_len)?, len, array_len)?);
        let logged = RefCell::new(format(space(array_len + effort.log_len)?, len, array_len)?);
        let fam = RefCell::new(format(space(array_len)?, len, array_len)?);
        let mut raw = space(array_len)?;
        let zeroed = raw.zero(0..effort.array_len);
        raw.pool().fence([zeroed])?;
        Ok(Self { len, cow, logged, fam, raw: RefCell::new(raw), _scratch: scratch })
    }

    fn contenders(
        &self,
        op: Op,
        pattern: Pattern,
        effort: &Effort,
        seed: u64,
    ) -> Vec<Contender<'_>> {
        let mut random = Rng::with_seed(seed);
        // Each begins elsewhere: the forms share an array, and shall not warm it for each other.
        let mut order = || Order {
            pattern,
            next: random.u64(..),
            random: Rng::with_seed(random.u64(..)),
            operations: effort.operations(op),
        };
        let mut contenders = vec![
            contender("cow", op, order(), &self.cow, |_| ()),
            contender("log", op, order(), &self.logged, |_| ()),
        ];
        for form in forms() {
            let name = format!("fam-{}", form.name());
            let choose = move |cells: &mut Fam| cells.set_form(form);
            contenders.push(contender(&name, op, order(), &self.fam, choose));
        }
        let choose = |cells: &mut Fam| cells.set_form(Form::best());
        contenders.push(contender("fam", op, order(), &self.fam, choose));
        if op == Op::Write {
            contenders.push(self.limit(order()));
        }
        contenders
    }

    /// Lines alone, the faster way.
    fn limit(&self, mut order: Order) -> Contender<'_> {
        let stride = stride::<Fam>(self.len);
        Contender::new(LIMIT, move || {
            let raw = &mut *self.raw.borrow_mut();
            let bytes = vec![7; stride as usize];
            // Each has lines of its own, which the other has not warmed.
            let mut offsets = || -> Vec<u64> {
                let cells = order.take(raw.len() / stride);
                cells.into_iter().map(|cell| cell * stride).collect()
            };
            let (past, through) = (offsets(), offsets());
            let streamed = probe::persist_stream(raw, &bytes, &past);
            let time = streamed.min(persist_cached(raw, &bytes, &through)?);
            let lines = stride as f64 / LINE as f64;
            let mut samples = vec![Sample::throughput(past.len() as u64, time)];
            samples.extend(traffic(1.0, lines));
            Ok(samples)
        })
    }
}

/// Stores `bytes` through the cache at each offset in turn, each time with one fence.
fn persist_cached(raw: &mut Fresh, bytes: &[u8], offsets: &[u64]) -> Result<Duration> {
    let start = Instant::now();
    for &at in offsets {
        raw.write(at, bytes);
        let flushed = raw.flush(at..at + bytes.len() as u64);
        raw.pool().fence([flushed]).map_err(halite_blocks::Error::from)?;
    }
    Ok(start.elapsed())
}

/// Returns the bytes from one cell to the next.
fn stride<C: Cells>(len: u64) -> u64 {
    let array = |count| C::space_len(Shape { cell_len: len, count, packing: Packing::Lines });
    array(2) - array(1)
}

/// Formats as many cells as fit into `array_len` bytes, all of value zero; the space may be longer.
fn format<C: Cells>(space: Fresh, len: u64, array_len: u64) -> Result<C> {
    let empty = C::space_len(Shape { cell_len: len, count: 0, packing: Packing::Lines });
    let count = (array_len - empty) / stride::<C>(len);
    Ok(C::format(space, Shape { cell_len: len, count, packing: Packing::Lines })?)
}

fn contender<'a, C: Cells>(
    name: &str,
    op: Op,
    mut order: Order,
    cells: &'a RefCell<C>,
    prepare: impl Fn(&mut C) + 'a,
) -> Contender<'a> {
    let subject = name.to_owned();
    Contender::new(name, move || {
        let cells = &mut *cells.borrow_mut();
        prepare(cells);
        let order = order.take(cells.shape().count);
        match op {
            Op::Write => write(&subject, cells, &order),
            Op::Read => Ok(read(cells, &order, false)),
            Op::DependentRead => Ok(read(cells, &order, true)),
        }
    })
}

/// The cells that operations take.
struct Order {
    pattern: Pattern,
    /// The place where the sequence goes on.
    next: u64,
    random: Rng,
    operations: usize,
}

impl Order {
    /// The next ones, of `count` cells.
    fn take(&mut self, count: u64) -> Vec<u64> {
        let next = |_| match self.pattern {
            Pattern::Sequential => {
                self.next = (self.next % count + 1) % count;
                self.next
            }
            Pattern::Random => self.random.u64(..count),
        };
        (0..self.operations).map(next).collect()
    }
}

/// The second word of values: zero, so that dependent reads can add it to a place.
const NOTHING: u64 = 0;

fn write<C: Cells>(subject: &str, cells: &mut C, order: &[u64]) -> Result<Vec<Sample>> {
    let mut value = vec![0; cells.shape().cell_len as usize];
    value[8..16].copy_from_slice(&NOTHING.to_le_bytes());
    let before = cells.space().pool().traffic();
    let start = Instant::now();
    for (number, &cell) in (0_u64..).zip(order) {
        value[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        cells.write(cell, &value)?;
    }
    let time = start.elapsed();
    let cost = cells.space().pool().traffic() - before;
    if let Some(&last) = order.last() {
        let mut found = vec![0; value.len()];
        cells.read(last, &mut found);
        if found != value {
            let why = format!("cell {last} has not the value that was written last");
            return Err(Error::WrongAnswer { store: subject.to_owned(), why });
        }
    }
    let operations = order.len() as f64;
    let mut samples = vec![Sample::throughput(order.len() as u64, time)];
    samples.extend(traffic(cost.fences as f64 / operations, cost.lines as f64 / operations));
    Ok(samples)
}

fn traffic(fences: f64, lines: f64) -> [Sample; 2] {
    [Sample::new("fences", "1/op", fences), Sample::new("lines", "1/op", lines)]
}

fn read<C: Cells>(cells: &C, order: &[u64], dependent: bool) -> Vec<Sample> {
    let mut value = vec![0; cells.shape().cell_len as usize];
    let mut learnt = NOTHING;
    let start = Instant::now();
    for &cell in order {
        cells.read(cell + learnt, &mut value);
        if dependent {
            learnt = u64::from_le_bytes(*value[8..].first_chunk().expect("two words at least"));
        }
        black_box(&value);
    }
    vec![Sample::throughput(order.len() as u64, start.elapsed())]
}
