//! The random numbers of scripts: the sequence of `lrand48`, so that a seed has the numbers that it has in Redis.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// The seed is the upper 32 bits of the state, and this the rest.
const LOW: u64 = 0x330E;

/// The state of a seed.
pub(super) fn seeded(seed: i32) -> u64 {
    (u64::from(seed as u32) << 16) | LOW
}

/// The next state, and its number below 2^31.
pub(super) fn next(state: u64) -> (u64, u32) {
    let state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
    (state, (state >> 17) as u32)
}

/// A number below 1.
pub(super) fn unit(number: u32) -> f64 {
    const MAX: u32 = i32::MAX as u32;
    f64::from(number % MAX) / f64::from(MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_lrand48() {
        let (state, first) = next(seeded(0));
        let (_, second) = next(state);
        assert_eq!((first, second), (366_850_414, 1_610_402_240));
    }
}
