//! The server's memory over the time of a soak: it is to be flat, over all of its lives.

use std::time::Duration;

/// Between two samples.
const EVERY: Duration = Duration::from_millis(200);

/// By how much the second half may exceed the first, and by how many bytes in any case: a young server's structures are
/// not full yet, and an allocator keeps some memory.
const GROWTH_MAX: f64 = 1.25;
const BYTES_MAX: u64 = 32 << 20;

/// Samples of memory that belongs to no file.
#[derive(Debug, Default)]
pub(super) struct Memory(Vec<(Duration, u64)>);

impl Memory {
    /// Takes a sample if it is due; a server that is not running has none.
    pub(super) fn sample(&mut self, at: Duration, bytes: u64) {
        let is_due = self.0.last().is_none_or(|(last, _)| at >= *last + EVERY);
        if is_due && bytes > 0 {
            self.0.push((at, bytes));
        }
    }

    pub(super) fn most(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// The most of the first half of the samples and of the second, without the first tenth, in which the
    /// store fills.
    fn halves(&self) -> (u64, u64) {
        let settled = &self.0[self.0.len() / 10..];
        let (first, second) = settled.split_at(settled.len() / 2);
        let most = |samples: &[(Duration, u64)]| samples.iter().map(|(_, bytes)| *bytes).max();
        (most(first).unwrap_or(0), most(second).unwrap_or(0))
    }

    /// How many times the most of the first half the second one takes.
    pub(super) fn growth(&self) -> f64 {
        let (first, second) = self.halves();
        if first == 0 { 1.0 } else { second as f64 / first as f64 }
    }

    pub(super) fn verdict(&self) -> Result<(), String> {
        let (first, second) = self.halves();
        if self.growth() <= GROWTH_MAX || second - first <= BYTES_MAX {
            return Ok(());
        }
        Err(format!(
            "the server's memory grew: {first} bytes in the first half, {second} in the second"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: impl Fn(u64) -> u64) -> Memory {
        let mut memory = Memory::default();
        (0..1000)
            .for_each(|tick| memory.sample(Duration::from_millis(100 * tick), bytes(tick) << 20));
        assert_eq!(memory.0.len(), 500);
        memory
    }

    #[test]
    fn what_grows_is_told_from_what_is_flat() {
        assert!(of(|tick| 100 + tick % 20).verdict().is_ok());
        assert!(of(|tick| 10 + tick.min(90)).verdict().is_ok(), "it fills at first");
        assert!(of(|tick| 100 + tick / 5).verdict().is_err());
        assert!(of(|tick| if tick < 900 { 100 } else { 200 }).verdict().is_err());
        assert!(Memory::default().verdict().is_ok());
    }
}
