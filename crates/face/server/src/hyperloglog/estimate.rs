//! The number of elements that ranks tell: Ertl's improved raw estimator ("New cardinality estimation algorithms for
//! HyperLogLog sketches", 2017, algorithm 6). It needs no correction tables, and is as exact for few elements as for
//! many. Its sums are done in the order in which Redis does them, so that both round alike.

use super::{RANK_BITS, RANK_MAX, REGISTERS};

/// 1 / (2 ln 2).
const ALPHA: f64 = 0.5 / std::f64::consts::LN_2;

/// Estimates the number of elements from how many registers have each rank.
pub(super) fn estimate(histogram: &[u32; 64]) -> u64 {
    let registers = REGISTERS as f64;
    let share = |count: u32| f64::from(count) / registers;
    let full = (registers - f64::from(histogram[RANK_MAX])) / registers;
    let mut z = registers * tau(full);
    for rank in (1..=RANK_BITS as usize).rev() {
        z = (z + f64::from(histogram[rank])) * 0.5;
    }
    z += registers * sigma(share(histogram[0]));
    (ALPHA * registers * registers / z).round() as u64
}

/// x + the sum of x^(2^k) 2^(k-1) over all k from 1 on.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut sum, mut factor) = (x, 1.0);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// A third of 1 - x - the sum of (1 - x^(2^-k))^2 2^-k over all k from 1 on.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut sum, mut factor) = (1.0 - x, 1.0);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_full_registers_have_an_estimate() {
        let with = |rank: usize| {
            let mut histogram = [0; 64];
            histogram[rank] = REGISTERS as u32;
            estimate(&histogram)
        };
        assert_eq!(with(0), 0);
        assert_eq!(with(RANK_MAX), u64::MAX);
        assert!(with(1) < with(2) && with(2) < with(RANK_MAX - 1));
    }
}
