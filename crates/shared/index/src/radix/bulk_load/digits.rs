//! Numbers for heads of keys.

/// Numbers heads by their first bits in which they differ: in order, and evenly, if the heads are.
pub(super) struct Digits {
    low: u128,
    shift: u32,
    last: u128,
}

impl Digits {
    /// Creates at least as many digits as `count`, if heads from `low` to `high` are as many.
    pub(super) fn new(low: u128, high: u128, count: usize) -> Self {
        let span = high - low;
        let bits = usize::BITS - count.leading_zeros();
        let shift = (u128::BITS - span.leading_zeros()).saturating_sub(bits);
        Self { low, shift, last: span >> shift }
    }

    pub(super) fn len(&self) -> usize {
        self.last as usize + 1
    }

    /// Returns the digit of a head; heads below and above all have the first and the last.
    #[inline]
    pub(super) fn of(&self, head: u128) -> usize {
        (head.saturating_sub(self.low) >> self.shift).min(self.last) as usize
    }
}

/// Counts made the places at which each number begins.
pub(super) fn begins(counts: &mut [usize]) {
    let mut begin = 0;
    counts.iter_mut().for_each(|count| begin += std::mem::replace(count, begin));
}
