//! Which lines of a range that many threads append to may be read.
//!
//! Each thread is granted lines of its own, and finishes them at its own time. A finished line has its bit
//! set, and may be read before the lines in front of it are finished. The [`Frontier`] stands at the end of
//! a prefix of lines that are all finished, so for most ranges one comparison suffices. A thread that
//! finishes lines then moves the frontier as far as bits are set.
//!
//! No set bit is missed there: a thread that stops at an unfinished line has looked at its word by a
//! read-modify-write. The read-modify-writes of one word have an order, so the thread that sets that bit
//! comes later, sees every bit that the stopped thread had set, and goes on from there.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
use std::ops::Range;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use crate::LINE;
use crate::frontier::Frontier;

/// Lines that a word has bits for.
const WORD_LINES: u64 = 64;

/// A bit for each line of a range: 1/512 of its bytes.
pub(crate) struct Finished {
    words: Box<[AtomicU64]>,
}

/// A word, with the value that this thread's last read-modify-write of it left.
#[derive(Clone, Copy)]
struct Seen {
    number: u64,
    bits: u64,
}

impl Finished {
    /// Creates the marks of a range of so many bytes, none of whose lines is finished.
    pub(crate) fn new(len: u64) -> Self {
        let words = (len / LINE).div_ceil(WORD_LINES);
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether all lines of `range` are finished. Their writes then happened before.
    pub(crate) fn covers(&self, range: Range<u64>) -> bool {
        masks(&range).all(|(number, mask)| {
            let word = self.words.get(number as usize);
            word.is_some_and(|word| word.load(Ordering::Acquire) & mask == mask)
        })
    }

    /// Lets `range` be read. Called by the range's writer, for whole lines, once for each line.
    pub(crate) fn finish(&self, range: &Range<u64>, frontier: &Frontier) {
        let mut seen = None;
        for (number, mask) in masks(range) {
            // The bits are zero, so adding sets them, which takes one instruction.
            let before = self.words[number as usize].fetch_add(mask, Ordering::AcqRel);
            seen = Some(Seen { number, bits: before | mask });
        }
        let mut from = frontier.load();
        loop {
            let to = self.end_of_finished(from, seen);
            if to == from {
                return;
            }
            match frontier.advance_from(from, to) {
                Ok(()) => return,
                Err(now) => from = now,
            }
        }
    }

    /// Returns where the finished lines from `from` on end.
    fn end_of_finished(&self, from: u64, seen: Option<Seen>) -> u64 {
        let mut line = from / LINE;
        while let Some(word) = self.words.get((line / WORD_LINES) as usize) {
            let bit = line % WORD_LINES;
            let seen = seen.filter(|seen| seen.number == line / WORD_LINES);
            let bits = seen.map_or_else(|| word.load(Ordering::Acquire), |seen| seen.bits);
            let mut finished = u64::from((bits >> bit).trailing_ones());
            if bit + finished < WORD_LINES && seen.is_none() {
                // Releases the bits that this thread has set to the thread that will set this bit. (Loom
                // would not catch its absence: loom's read-modify-writes see the newest value of each word
                // anyway.)
                let bits = word.fetch_add(0, Ordering::AcqRel);
                finished = u64::from((bits >> bit).trailing_ones());
            }
            line += finished;
            if bit + finished < WORD_LINES {
                break;
            }
        }
        line * LINE
    }
}

/// The words that have the bits of `range`, and which bits these are.
fn masks(range: &Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let (first, end) = (range.start / LINE, range.end.div_ceil(LINE));
    (first / WORD_LINES..end.div_ceil(WORD_LINES)).map(move |number| {
        let start = number * WORD_LINES;
        let from = first.saturating_sub(start);
        let to = (end - start).min(WORD_LINES);
        let below = |bit| if bit == WORD_LINES { u64::MAX } else { (1_u64 << bit) - 1 };
        (number, below(to) & !below(from))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_passes_what_is_finished_without_a_gap() {
        let finished = Finished::new(300 * LINE);
        let frontier = Frontier::new(3 * LINE);
        let lines = |range: Range<u64>| range.start * LINE..range.end * LINE;
        finished.finish(&lines(4..200), &frontier);
        assert_eq!(frontier.load(), 3 * LINE);
        assert!(finished.covers(lines(4..200)) && finished.covers(5 * LINE + 1..5 * LINE + 2));
        assert!(!finished.covers(lines(3..200)) && !finished.covers(lines(64..201)));
        assert!(!finished.covers(4 * LINE - 1..4 * LINE + 1));
        finished.finish(&lines(3..4), &frontier);
        assert_eq!(frontier.load(), 200 * LINE);
        finished.finish(&lines(256..300), &frontier);
        assert_eq!(frontier.load(), 200 * LINE);
        finished.finish(&lines(200..256), &frontier);
        assert_eq!(frontier.load(), 300 * LINE);
        assert!(!finished.covers(lines(299..400)), "beyond the end is nothing");
    }

    #[test]
    fn every_order_of_finishing_ends_with_all_readable() {
        // Lines on both sides of a word's end.
        let grants = [62..63, 63..65, 65..66, 66..130];
        for order in 0..256_usize {
            let order: Vec<_> = (0..4).map(|place| order >> (2 * place) & 3).collect();
            if (0..4).any(|number| !order.contains(&number)) {
                continue;
            }
            let (finished, frontier) = (Finished::new(130 * LINE), Frontier::new(62 * LINE));
            let mut done = vec![];
            for number in order {
                let grant = &grants[number];
                finished.finish(&(grant.start * LINE..grant.end * LINE), &frontier);
                done.push(number);
                let prefix = (0..4).find(|number| !done.contains(number)).unwrap_or(4);
                let end = grants.get(prefix).map_or(130, |grant| grant.start);
                assert_eq!(frontier.load(), end * LINE, "{done:?}");
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::model::Builder;
    use loom::sync::Arc;
    use loom::thread::spawn;

    use super::*;

    /// The first line that is granted: the last one of a word.
    const FIRST: u64 = WORD_LINES - 1;

    /// Lines behind a frontier. Loom fails a test that writes one of them beside a read of it.
    struct Lines {
        frontier: Frontier,
        finished: Finished,
        lines: [UnsafeCell<u8>; 3],
    }

    impl Lines {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                frontier: Frontier::new(FIRST * LINE),
                finished: Finished::new((FIRST + 3) * LINE),
                lines: [0; 3].map(UnsafeCell::new),
            })
        }

        /// Writes and finishes a granted line.
        fn append(&self, line: u64) {
            // SAFETY: a granted line has one writer until it is finished, which loom checks.
            self.lines[line as usize].with_mut(|place| unsafe { *place = 1 });
            let range = (FIRST + line) * LINE..(FIRST + line + 1) * LINE;
            self.finished.finish(&range, &self.frontier);
        }

        /// Reads lines as readers do, if they may be read.
        fn read(&self, lines: Range<u64>) {
            let end = self.frontier.load();
            let range = (FIRST + lines.start) * LINE..(FIRST + lines.end) * LINE;
            if range.end > end && !self.finished.covers(range.start.max(end)..range.end) {
                return;
            }
            for place in &self.lines[lines.start as usize..lines.end as usize] {
                // SAFETY: finished lines do not change, which loom checks.
                assert_eq!(place.with(|place| unsafe { *place }), 1);
            }
        }
    }

    /// Runs a test in every order in which threads are interrupted at most so often.
    fn model(interruptions: usize, test: impl Fn() + Sync + Send + 'static) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(interruptions);
        builder.check(test);
    }

    #[test]
    fn what_is_finished_was_written_before() {
        model(3, || {
            let lines = Lines::new();
            let writer = spawn({
                let lines = Arc::clone(&lines);
                move || lines.append(1)
            });
            let reader = spawn({
                let lines = Arc::clone(&lines);
                move || lines.read(0..2)
            });
            lines.append(0);
            lines.read(1..2);
            writer.join().unwrap();
            reader.join().unwrap();
        });
    }

    #[test]
    fn the_frontier_passes_on_what_others_wrote() {
        model(3, || {
            let lines = Lines::new();
            lines.append(0);
            let writer = spawn({
                let lines = Arc::clone(&lines);
                move || lines.append(1)
            });
            let reader = spawn({
                let lines = Arc::clone(&lines);
                move || {
                    if lines.frontier.load() == (FIRST + 3) * LINE {
                        lines.read(0..3);
                    }
                }
            });
            lines.append(2);
            writer.join().unwrap();
            reader.join().unwrap();
        });
    }

    #[test]
    fn two_who_finish_at_once_leave_no_line_behind() {
        model(6, || {
            let lines = Lines::new();
            let writer = spawn({
                let lines = Arc::clone(&lines);
                move || lines.append(1)
            });
            lines.append(0);
            writer.join().unwrap();
            assert_eq!(lines.frontier.load(), (FIRST + 2) * LINE);
            lines.read(0..2);
        });
    }

    #[test]
    fn three_who_finish_at_once_leave_no_line_behind() {
        model(2, || {
            let lines = Lines::new();
            let writers = [2, 1].map(|line| {
                let lines = Arc::clone(&lines);
                spawn(move || lines.append(line))
            });
            lines.append(0);
            for writer in writers {
                writer.join().unwrap();
            }
            assert_eq!(lines.frontier.load(), (FIRST + 3) * LINE);
            lines.read(0..3);
        });
    }
}
