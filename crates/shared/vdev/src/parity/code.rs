//! The code: up to three parity columns P, Q and R over data columns D0, D1, ..., as in RAID-Z.
//!
//! ```text
//! P = D0 +   D1 +    D2 + ...        parity 0
//! Q = D0 + 2 D1 +  4 D2 + ...        parity 1: the powers of 2
//! R = D0 + 4 D1 + 16 D2 + ...        parity 2: the powers of 4
//! ```
//!
//! So parity j has the factor (2^i)^j at Di. Any k parity columns determine any k data columns: the factors of k data
//! columns in k parity columns are a Vandermonde matrix for {P, Q, R}, {P, Q}, and, as squaring is a bijection, {P, R}
//! and, times a factor for each column, {Q, R}.
//!
//! Data columns may be shorter than the parity; their missing bytes count as zeros.

use super::field::{add_product_to, add_to, double_and_add, invert, mul, power_of_two};

/// The factor of data column `data` in a parity column.
fn factor(parity: usize, data: usize) -> u8 {
    power_of_two(parity * data)
}

/// The parity column `parity`, of `len` bytes.
pub(crate) fn encode(data: &[&[u8]], parity: usize, len: usize) -> Vec<u8> {
    // Horner's rule, from the last column on.
    let mut sum = vec![0; len];
    for column in data.iter().rev() {
        match parity {
            0 => add_to(&mut sum, column),
            1 => double_and_add::<1>(&mut sum, column),
            _ => double_and_add::<2>(&mut sum, column),
        }
    }
    sum
}

/// Finds the data columns that are `lost`, ascending, from the others and as many parity columns: pairs of a column's
/// number and its bytes. The contents of the lost ones in `data` do not matter; their lengths do.
pub(crate) fn reconstruct(
    data: &[&[u8]],
    lost: &[usize],
    parity: &[(usize, &[u8])],
) -> Vec<Vec<u8>> {
    assert_eq!(lost.len(), parity.len(), "as many equations as unknowns");
    // The parts that the lost columns add to each parity column.
    let rests: Vec<Vec<u8>> = parity
        .iter()
        .map(|&(number, bytes)| {
            let others: Vec<&[u8]> = (0..data.len())
                .map(|at| if lost.contains(&at) { &[][..] } else { data[at] })
                .collect();
            let mut rest = encode(&others, number, bytes.len());
            add_to(&mut rest, bytes);
            rest
        })
        .collect();
    let matrix = parity
        .iter()
        .map(|&(number, _)| lost.iter().map(|&lost| factor(number, lost)).collect())
        .collect();
    let inverse = inverse(matrix);
    lost.iter()
        .zip(&inverse)
        .map(|(&lost, factors)| {
            let mut column = vec![0; data[lost].len()];
            for (&factor, rest) in factors.iter().zip(&rests) {
                add_product_to(&mut column, factor, rest);
            }
            column
        })
        .collect()
}

/// The inverse of a matrix that has one, by elimination.
fn inverse(mut matrix: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let size = matrix.len();
    let mut inverse: Vec<Vec<u8>> =
        (0..size).map(|row| (0..size).map(|column| u8::from(row == column)).collect()).collect();
    for step in 0..size {
        let pivot = (step..size).find(|&row| matrix[row][step] != 0);
        let pivot = pivot.expect("the factors of lost columns are independent");
        matrix.swap(step, pivot);
        inverse.swap(step, pivot);
        let scale = invert(matrix[step][step]);
        for rows in [&mut matrix, &mut inverse] {
            rows[step].iter_mut().for_each(|element| *element = mul(*element, scale));
        }
        for row in (0..size).filter(|&row| row != step) {
            let times = matrix[row][step];
            for rows in [&mut matrix, &mut inverse] {
                let pivot = rows[step].clone();
                for (element, pivot) in rows[row].iter_mut().zip(pivot) {
                    *element ^= mul(times, pivot);
                }
            }
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parity_is_the_sum_of_its_definition() {
        let data: Vec<Vec<u8>> = (0..40_usize)
            .map(|at| (0..64 - at).map(|byte| (at * 31 + byte * 7) as u8).collect())
            .collect();
        let columns: Vec<&[u8]> = data.iter().map(|column| &column[..]).collect();
        for parity in 0..3 {
            let encoded = encode(&columns, parity, 64);
            for (byte, encoded) in encoded.iter().enumerate() {
                let term = |(at, column): (usize, &Vec<u8>)| {
                    let factor = (0..at * parity).fold(1, |factor, _| mul(factor, 2));
                    mul(factor, column.get(byte).copied().unwrap_or(0))
                };
                assert_eq!(
                    *encoded,
                    data.iter().enumerate().map(term).fold(0, |sum, term| sum ^ term)
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_columns_up_to_the_parity_are_found_again(
            columns in 1_usize..30, seed in any::<u64>(), len in 1_usize..40, count in 1_usize..4,
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let short = random.usize(0..columns);
            let data: Vec<Vec<u8>> = (0..columns)
                .map(|at| (0..len - usize::from(at > short)).map(|_| random.u8(..)).collect())
                .collect();
            let columns: Vec<&[u8]> = data.iter().map(|column| &column[..]).collect();
            let parity: Vec<_> = (0..3).map(|number| encode(&columns, number, len)).collect();
            let mut lost: Vec<_> = random.choose_multiple(0..columns.len(), count);
            lost.sort_unstable();
            let mut with = random.choose_multiple(0..3_usize, lost.len());
            random.shuffle(&mut with);
            let with: Vec<_> = with.into_iter().map(|number| (number, &parity[number][..])).collect();
            let mut garbled = data.clone();
            lost.iter().for_each(|&lost| garbled[lost].fill(0x5a));
            let garbled: Vec<&[u8]> = garbled.iter().map(|column| &column[..]).collect();
            let found = reconstruct(&garbled, &lost, &with);
            for (lost, found) in lost.iter().zip(found) {
                prop_assert_eq!(&found, &data[*lost]);
            }
        }
    }
}
