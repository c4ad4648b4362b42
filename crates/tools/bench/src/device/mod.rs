//! The device under measurement: its latencies and bandwidths, which limit all other figures.
//!
//! Each experiment redraws a figure of van Renen's paper (§2), on the medium that the run's folder lies on and, where
//! the paper has it, on DRAM beside it. The loops are those of [`halite_pmem::probe`]; [`profile`] checks with them the
//! costs of an emulation profile, and [`limits`] reports the best figures in the end.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use fastrand::Rng;
use halite_pmem::LINE;
use serde_json::json;

use crate::{Params, Summary};

pub mod bandwidth;
pub mod interference;
pub mod limits;
pub mod persist;
pub mod profile;
pub mod read;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The median of slices of a measurement, each of some microseconds: so a few slices in which the processor was taken
/// away do not count.
fn median_of(slices: u64, slice: impl FnMut() -> f64) -> f64 {
    let figures: Vec<f64> = std::iter::repeat_with(slice).take(slices as usize).collect();
    Summary::of(&figures).map_or(f64::NAN, |summary| summary.median)
}

/// Nanoseconds of each of so many operations.
fn ns_each(time: Duration, operations: usize) -> f64 {
    time.as_nanos() as f64 / operations as f64
}

fn params<const N: usize>(pairs: [(&str, serde_json::Value); N]) -> Params {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The places that operations go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Same,
    Sequential,
    Random,
    /// Each once before one comes again, never two of one block of the medium in turn.
    Scattered,
}

impl Pattern {
    fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Sequential => "sequential",
            Self::Random => "random",
            Self::Scattered => "scattered",
        }
    }

    fn json(self) -> serde_json::Value {
        json!(self.name())
    }
}

/// Offsets of blocks in a range, as a pattern has them.
struct Offsets {
    pattern: Pattern,
    block: u64,
    blocks: u64,
    next: u64,
    random: Rng,
}

impl Offsets {
    /// Blocks of `block` bytes in `bytes`, at least one; a power of two, if they are scattered.
    fn new(pattern: Pattern, block: u64, bytes: u64, seed: u64) -> Self {
        Self { pattern, block, blocks: bytes / block, next: 0, random: Rng::with_seed(seed) }
    }

    /// The next so many.
    fn take(&mut self, count: u64) -> Vec<u64> {
        let next = |_| {
            let block = match self.pattern {
                Pattern::Same => 0,
                Pattern::Sequential => {
                    self.next += 1;
                    (self.next - 1) % self.blocks
                }
                Pattern::Random => self.random.u64(..self.blocks),
                Pattern::Scattered => {
                    // Has no factor in common with a power of two.
                    const STEP: u64 = 0x9e37_79b1;
                    self.next += 1;
                    self.next.wrapping_mul(STEP) % self.blocks
                }
            };
            block * self.block
        };
        (0..count).map(next).collect()
    }
}

/// Memory that does not persist, to compare with.
struct Dram(Vec<u64>);

impl Dram {
    /// Memory of this many bytes, with all pages present.
    fn new(bytes: u64) -> Self {
        // Zeros would all be one page, shared and cached.
        Self(vec![1; (bytes / 8) as usize])
    }

    /// Room for this many bytes, without any page present.
    fn with_room(bytes: u64) -> Self {
        Self(Vec::with_capacity((bytes / 8) as usize))
    }

    /// Makes the next bytes present, up to the end of a range.
    fn extend(&mut self, bytes: Range<u64>) {
        self.0.resize((bytes.end / 8) as usize, 1);
    }

    /// Measures as [`halite_pmem::probe::read_dependent`].
    fn read_dependent(&self, offsets: &[u64]) -> Duration {
        let nothing = black_box(0);
        let mut word = 0;
        let start = Instant::now();
        for at in offsets {
            word = self.0[((at + (word & nothing)) / 8) as usize];
        }
        black_box(word);
        start.elapsed()
    }

    /// Measures as [`halite_pmem::probe::read`].
    fn read(&self, offsets: &[u64], len: u64) -> Duration {
        let start = Instant::now();
        let mut sum = 0;
        for at in offsets {
            let words = &self.0[(at / 8) as usize..((at + len) / 8) as usize];
            sum = words.iter().fold(sum, |sum, word| sum ^ word);
        }
        black_box(sum);
        start.elapsed()
    }

    /// Measures as [`halite_pmem::probe::write`], through the cache.
    fn write(&mut self, offsets: &[u64], len: u64) -> Duration {
        let start = Instant::now();
        for at in offsets {
            let words = &mut self.0[(at / 8) as usize..((at + len) / 8) as usize];
            words.fill(black_box(5));
        }
        start.elapsed()
    }
}

/// Threads of a measurement: powers of two up to the machine's cores, and those.
fn thread_counts() -> Vec<u64> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut counts: Vec<u64> = std::iter::successors(Some(1), |count| Some(count * 2))
        .take_while(|c| *c < cores)
        .collect();
    counts.push(cores);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_blocks_inside() {
        for pattern in [Pattern::Same, Pattern::Sequential, Pattern::Random, Pattern::Scattered] {
            let mut offsets = Offsets::new(pattern, 256, 16 * 256 + 100, 7);
            let taken = [offsets.take(15), offsets.take(15)].concat();
            assert!(taken.iter().all(|at| at % 256 == 0 && at + 256 <= 16 * 256));
            let distinct: std::collections::BTreeSet<_> = taken.iter().collect();
            match pattern {
                Pattern::Same => assert_eq!(distinct.len(), 1),
                Pattern::Sequential => assert_eq!(taken[14..18], [14 * 256, 15 * 256, 0, 256]),
                Pattern::Scattered => assert_eq!(distinct.len(), 16),
                Pattern::Random => assert!(distinct.len() > 5),
            }
        }
    }

    #[test]
    fn a_slice_that_was_interrupted_does_not_count() {
        let mut slices = [10.0, 11.0, 500.0].into_iter();
        assert!((median_of(3, || slices.next().unwrap()) - 11.0).abs() < 1e-9);
    }
}
