//! The guarantees of every technique for a cell.

use std::collections::BTreeSet;
use std::path::Path;

use halite_blocks::Error;
use halite_blocks::cell::{Cells, Cow, Fam, Form, Logged, Packing, Shape};
use halite_pmem::{Domain, Fresh, LINE, Medium, Pool, PoolOptions, UNIT};
use halite_sim::{Trace, What};
use proptest::prelude::*;

const SPACE_AT: u64 = 4096;
const SPACE_LEN: u64 = 8192;
const LENGTHS: [u64; 8] = [16, 32, 48, 64, 80, 96, 112, 128];

/// A pool in memory: these tests are about bytes, not about instructions.
fn pool() -> Pool {
    let mut options = PoolOptions::default();
    options.medium = Some(Medium::new(Domain::Memory, UNIT).unwrap());
    Pool::create(Path::new("cells"), &options).unwrap()
}

fn space(pool: &Pool) -> Fresh {
    pool.claim(SPACE_AT, SPACE_LEN).unwrap()
}

fn shape(cell_len: u64, packing: Packing) -> Shape {
    Shape { cell_len, count: 5, packing }
}

fn value_of<C: Cells>(cells: &C, index: u64) -> Vec<u8> {
    let mut value = vec![0; cells.shape().cell_len as usize];
    cells.read(index, &mut value);
    value
}

/// Bytes that differ by their seed in every bit.
fn bytes(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Write { index: u64, seed: u64 },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..5_u64, any::<u64>()).prop_map(|(index, seed)| Step::Write { index, seed });
    proptest::collection::vec(prop_oneof![9 => write, 1 => Just(Step::Reopen)], 0..60)
}

fn shapes() -> impl Strategy<Value = Shape> {
    let packing = prop_oneof![Just(Packing::Lines), Just(Packing::Dense)];
    (0..LENGTHS.len(), packing).prop_map(|(length, packing)| shape(LENGTHS[length], packing))
}

/// Applies steps to cells and to a plain array.
fn follow<C: Cells>(shape: Shape, steps: &[Step], mut prepare: impl FnMut(&mut C)) {
    let pool = pool();
    let mut cells = C::format(space(&pool), shape).unwrap();
    prepare(&mut cells);
    let mut model = vec![vec![0; shape.cell_len as usize]; shape.count as usize];
    for step in steps {
        match *step {
            Step::Write { index, seed } => {
                model[index as usize] = bytes(seed, shape.cell_len);
                cells.write(index, &model[index as usize]).unwrap();
            }
            Step::Reopen => {
                drop(cells);
                cells = C::open(space(&pool)).unwrap();
                prepare(&mut cells);
                assert_eq!(cells.shape(), shape);
            }
        }
        for (index, expected) in (0..).zip(&model) {
            assert_eq!(value_of(&cells, index), *expected, "cell {index} after {step:?}");
        }
    }
}

proptest! {
    #[test]
    fn cells_hold_what_was_written_last(shape in shapes(), steps in steps()) {
        follow::<Cow>(shape, &steps, |_| ());
        follow::<Logged>(shape, &steps, |_| ());
        follow::<Fam>(shape, &steps, |_| ());
    }

    #[test]
    fn forms_read_what_others_wrote(shape in shapes(), steps in steps()) {
        let mut forms = Form::ALL.into_iter().filter(|form| form.is_available()).cycle();
        follow::<Fam>(shape, &steps, |cells| cells.set_form(forms.next().unwrap()));
    }

    #[test]
    fn all_forms_store_the_same(shape in shapes(), stored in any::<u64>(), value in any::<u64>()) {
        let forms = Form::ALL.into_iter().filter(|form| form.is_available());
        let outcomes: Vec<_> = forms
            .map(|form| {
                let pool = pool();
                drop(Fam::format(space(&pool), shape).unwrap());
                let mut cells = Fam::open(space(&pool)).unwrap();
                cells.set_form(Form::Scalar);
                (0..stored % 7).for_each(|turn| {
                    cells.write(1, &bytes(stored + turn, shape.cell_len)).unwrap();
                });
                cells.set_form(form);
                cells.write(1, &bytes(value, shape.cell_len)).unwrap();
                (value_of(&cells, 1), cells.space().bytes().to_vec())
            })
            .collect();
        prop_assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
        prop_assert_eq!(&outcomes[0].0, &bytes(value, shape.cell_len));
    }

    #[test]
    fn bytes_of_anybody_are_opened_or_refused(
        shape in shapes(),
        garbage in proptest::collection::vec(any::<u8>(), 1..600),
        at in 0..900_u64,
    ) {
        survive::<Cow>(shape, &garbage, at);
        survive::<Logged>(shape, &garbage, at);
        survive::<Fam>(shape, &garbage, at);
    }
}

fn survive<C: Cells>(shape: Shape, garbage: &[u8], at: u64) {
    let pool = pool();
    let mut cells = C::format(space(&pool), shape).unwrap();
    cells.write(0, &bytes(1, shape.cell_len)).unwrap();
    drop(cells);
    space(&pool).write(at, garbage);
    if let Ok(mut cells) = C::open(space(&pool)) {
        for index in 0..cells.shape().count {
            value_of(&cells, index);
        }
        cells.write(0, &bytes(2, cells.shape().cell_len)).unwrap();
    }
}

/// The bytes of a cell's blocks before and after an update, and the value before.
fn interrupted(pool: &Pool, shape: Shape, updates: u64) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut cells = Fam::format(space(pool), shape).unwrap();
    for update in 0..updates {
        cells.write(2, &bytes(update, shape.cell_len)).unwrap();
    }
    let (before, value) = (cells.space().bytes().to_vec(), value_of(&cells, 2));
    cells.write(2, &bytes(updates, shape.cell_len)).unwrap();
    (before, cells.space().bytes().to_vec(), value)
}

#[test]
fn every_part_of_an_update_is_rolled_back_and_the_whole_stays() {
    let shape = shape(16, Packing::Lines);
    // Versions wrap after four updates.
    for updates in 1..6 {
        let pool = pool();
        let (before, after, value) = interrupted(&pool, shape, updates);
        let words = (0..before.len()).step_by(8);
        let changed: Vec<_> = words.filter(|&at| before[at..at + 8] != after[at..at + 8]).collect();
        assert_eq!(changed.len(), 5);
        for subset in 0..1_u32 << 5 {
            let mut torn = space(&pool);
            for (number, &at) in changed.iter().enumerate() {
                let from = if subset >> number & 1 == 1 { &after } else { &before };
                torn.write(at as u64, &from[at..at + 8]);
            }
            drop(torn);
            let mut cells = Fam::open(space(&pool)).unwrap();
            let is_whole = subset == 31;
            let expected = if is_whole { bytes(updates, 16) } else { value.clone() };
            assert_eq!(value_of(&cells, 2), expected, "subset {subset:b}");
            for again in 0..5 {
                cells.write(2, &bytes(100 + again, 16)).unwrap();
                assert_eq!(value_of(&cells, 2), bytes(100 + again, 16));
            }
        }
    }
}

#[test]
fn versions_that_no_crash_leaves_are_damage() {
    for (first, second) in [(0, 2), (1, 3)] {
        let pool = pool();
        drop(Fam::format(space(&pool), shape(16, Packing::Lines)).unwrap());
        let mut cells = space(&pool);
        cells.write_words(64, &[first << 62, second << 62]);
        drop(cells);
        let refused = Fam::open(space(&pool)).err().unwrap();
        assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("cell 0"), "{refused}");
    }
}

#[test]
fn bits_that_no_value_has_are_damage() {
    let pool = pool();
    drop(Fam::format(space(&pool), shape(128, Packing::Lines)).unwrap());
    space(&pool).write_words(64 + 33 * 8, &[0b10]);
    assert!(matches!(Fam::open(space(&pool)), Err(Error::Damaged { .. })));
}

#[test]
fn a_cell_with_a_third_version_is_damage() {
    let pool = pool();
    drop(Cow::format(space(&pool), shape(16, Packing::Lines)).unwrap());
    space(&pool).write_words(64 + 64, &[2]);
    let refused = Cow::open(space(&pool)).err().unwrap();
    assert!(refused.to_string().contains("cell 1 has version 0x2"), "{refused}");
}

#[test]
fn a_log_of_other_cells_is_damage() {
    let pool = pool();
    let shape = Shape { count: 6, ..shape(16, Packing::Dense) };
    let mut cells = Logged::format(space(&pool), shape).unwrap();
    cells.write(5, &bytes(1, 16)).unwrap();
    drop(cells);
    // A header that is whole says that there are fewer cells than the log knows.
    let fewer = Shape { count: 5, ..shape };
    let other = self::pool();
    let header = Logged::format(space(&other), fewer).unwrap().space().read(0, 64).to_vec();
    space(&pool).write(0, &header);
    let refused = Logged::open(space(&pool)).err().unwrap();
    assert!(refused.to_string().contains("an entry of no cell"), "{refused}");
}

#[test]
fn what_is_not_theirs_is_refused_by_name() {
    let pool = pool();
    let refused = |pool: &Pool| Fam::open(space(pool)).err().unwrap().to_string();
    assert!(refused(&pool).contains("something else"));
    drop(Cow::format(space(&pool), shape(16, Packing::Lines)).unwrap());
    assert!(refused(&pool).contains("copy-on-write"));
    space(&pool).write(8, &[9]);
    assert!(refused(&pool).contains("format 9"));
    space(&pool).write(8, &[1]);
    space(&pool).write(24, &[77]);
    assert!(matches!(Fam::open(space(&pool)), Err(Error::Damaged { .. })));
}

#[test]
fn lengths_and_spaces_that_do_not_do_are_refused() {
    let pool = pool();
    for cell_len in [0, 8, 24, 144, 1 << 40] {
        let shape = Shape { cell_len, count: 1, packing: Packing::Dense };
        assert!(matches!(Fam::format(space(&pool), shape), Err(Error::CellLen { .. })));
    }
    for count in [UNIT, u64::MAX] {
        let shape = Shape { cell_len: 16, count, packing: Packing::Dense };
        assert!(matches!(Cow::format(space(&pool), shape), Err(Error::DoesNotFit { .. })));
    }
}

/// Lines, flushes and fences of a write, and bytes of a dense cell.
fn costs<C: Cells>(cell_len: u64) -> (u64, u64, u64, u64) {
    let pool = pool();
    let mut cells = C::format(space(&pool), shape(cell_len, Packing::Lines)).unwrap();
    let before = pool.traffic();
    for _ in 0..10 {
        cells.write(3, &bytes(7, cell_len)).unwrap();
    }
    let cost = pool.traffic() - before;
    let one = |count| {
        let dense = Shape { cell_len, count, packing: Packing::Dense };
        C::space_len(dense)
    };
    // There are so many cells that rounding to lines does not matter.
    (cost.lines, cost.flushes, cost.fences, (one(64) - one(0)) / 64)
}

#[test]
fn a_write_costs_what_the_documentation_says() {
    for (cell_len, cow_lines, logged_lines, fam_lines, fam_bytes) in [
        (16, 2, 2, 1, 40),
        (32, 2, 2, 2, 72),
        (48, 2, 3, 2, 104),
        (64, 2, 3, 3, 136),
        (96, 3, 4, 4, 200),
        (128, 3, 5, 5, 272),
    ] {
        let logged = costs::<Logged>(cell_len);
        assert_eq!(logged, (10 * logged_lines, 20, 20, cell_len), "{cell_len} B");
        let cow = costs::<Cow>(cell_len);
        assert_eq!(cow, (10 * cow_lines, 20, 20, 2 * cell_len + 8), "{cell_len} B");
        assert_eq!(costs::<Fam>(cell_len), (10 * fam_lines, 10, 10, fam_bytes), "{cell_len} B");
        assert_eq!(fam_bytes, (8 * cell_len).div_ceil(31) * 8);
    }
}

/// Lines that a power cut may take back: stored, but not fenced before the process was killed, nor since.
#[derive(Default)]
struct Uncertain {
    stored: BTreeSet<u64>,
    flushed: BTreeSet<u64>,
}

impl Uncertain {
    fn follow(&mut self, trace: &Trace) {
        let lines = |at: u64, len: u64| at / LINE..(at + len).div_ceil(LINE);
        for event in &trace.events {
            match event.what {
                What::Store { at, len, streamed, .. } => {
                    for line in lines(at, u64::from(len)) {
                        self.stored.insert(line);
                        self.flushed.remove(&line);
                        if streamed {
                            self.flushed.insert(line);
                        }
                    }
                }
                What::Flush { at, len } => self.flushed.extend(lines(at, len)),
                What::Fence { .. } => {
                    let flushed = std::mem::take(&mut self.flushed);
                    self.stored.retain(|line| !flushed.contains(line));
                }
                What::Kill => self.flushed.clear(),
                _ => {}
            }
        }
    }
}

/// Kills the process after each of the first events of a format and of a write, and opens the cells.
fn killed_and_opened<C: Cells>() {
    let shape = shape(48, Packing::Lines);
    let mut opened_after_format = 0;
    for (formats, events) in [true, false].into_iter().flat_map(|f| (0..24).map(move |n| (f, n))) {
        let medium = Medium::new(Domain::Memory, UNIT).unwrap();
        let mut options = PoolOptions::default();
        options.medium = Some(medium.clone());
        let pool = Pool::create(Path::new("cells"), &options).unwrap();
        pool.install().unwrap();
        if formats {
            medium.machine().cut_power_after(events);
            drop(C::format(space(&pool), shape));
        } else {
            let mut cells = C::format(space(&pool), shape).unwrap();
            medium.machine().cut_power_after(events);
            let _ = cells.write(3, &bytes(9, 48));
        }
        drop(pool);
        medium.restore_power();
        let pool = Pool::open(Path::new("cells"), &options).unwrap();
        let cells = match C::open(space(&pool)) {
            Err(Error::Foreign { .. }) if formats => continue,
            opened => opened.unwrap(),
        };
        opened_after_format += u32::from(formats);
        let (mut trace, mut uncertain) = (Trace::default(), Uncertain::default());
        medium.machine().take_trace(&mut trace);
        uncertain.follow(&trace);
        let theirs = cells.space().offset() / LINE..;
        let len = cells.space().len() / LINE;
        uncertain.stored.retain(|line| theirs.contains(line) && *line < theirs.start + len);
        assert!(uncertain.stored.is_empty(), "event {events}: {:?}", uncertain.stored);
    }
    assert!(opened_after_format > 0);
}

#[test]
fn what_a_killed_process_left_is_durable_once_it_is_opened() {
    killed_and_opened::<Cow>();
    killed_and_opened::<Logged>();
    killed_and_opened::<Fam>();
}

fn refuses_writes_after_one_that_failed<C: Cells>() {
    let medium = Medium::new(Domain::Memory, UNIT).unwrap();
    let mut options = PoolOptions::default();
    options.medium = Some(medium.clone());
    let pool = Pool::create(Path::new("cells"), &options).unwrap();
    let mut cells = C::format(space(&pool), shape(16, Packing::Lines)).unwrap();
    medium.machine().cut_power();
    assert!(matches!(cells.write(0, &bytes(1, 16)), Err(Error::Pool(_))));
    for _ in 0..2 {
        assert!(matches!(cells.write(1, &bytes(2, 16)), Err(Error::CellsFailed { .. })));
    }
}

#[test]
fn a_write_after_one_that_failed_is_refused() {
    refuses_writes_after_one_that_failed::<Cow>();
    refuses_writes_after_one_that_failed::<Logged>();
    refuses_writes_after_one_that_failed::<Fam>();
}
