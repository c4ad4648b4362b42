//! A pseudorandom permutation of the numbers below a limit, in constant memory.
//!
//! A Feistel network of four rounds permutes the numbers of an even number of bits; a number that it takes beyond the
//! limit is permuted again until it is below it. The network's domain is less than four times the limit.

/// A permutation of the numbers below a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    limit: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// The permutation with this seed of the numbers below `limit`, which is between 1 and 2^60.
    pub(crate) fn new(limit: u64, seed: u64) -> Self {
        assert!((1..=1 << 60).contains(&limit), "a permutation of {limit} numbers");
        let bits = 64 - (limit - 1).leading_zeros();
        Self { limit, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// The image of a number below the limit.
    pub(crate) fn of(&self, number: u64) -> u64 {
        assert!(number < self.limit, "{number} is not below {}", self.limit);
        let mut image = self.round_trip(number);
        while image >= self.limit {
            image = self.round_trip(image);
        }
        image
    }

    fn round_trip(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..4 {
            let mixed = mix(right ^ self.seed.rotate_left(16 * round) ^ u64::from(round) << 60);
            (left, right) = (right, left ^ mixed & mask);
        }
        left << self.half_bits | right
    }
}

/// A hash of 64 bits (the finalizer of SplitMix64).
fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_the_image_of_one() {
        for limit in [1, 2, 3, 10, 64, 65, 1000] {
            let permutation = Permutation::new(limit, 7);
            let mut images: Vec<_> = (0..limit).map(|number| permutation.of(number)).collect();
            images.sort_unstable();
            assert!(images.into_iter().eq(0..limit));
        }
    }

    #[test]
    fn neighbours_are_spread_and_seeds_differ() {
        let permutations = [1, 2].map(|seed| Permutation::new(10_000, seed));
        let images =
            permutations.map(|of| (0..2000).map(|number| of.of(number)).collect::<Vec<_>>());
        assert_ne!(images[0], images[1]);
        for images in images {
            let adjacent = images.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
            assert!(adjacent < 20, "{adjacent} of 2,000 neighbours stay neighbours");
            let low = images.iter().filter(|image| **image < 5000).count();
            assert!(low.abs_diff(1000) < 150, "{low} of 2,000 are in the lower half");
        }
    }
}
