//! Arithmetic in GF(2^8), modulo x^8 + x^4 + x^3 + x^2 + 1, in which 2 generates all 255 elements but zero.
//!
//! Addition is exclusive or. The loops over bytes take eight at a time, without a branch or an index that depends on
//! data, so the compiler makes vector instructions of them; single elements are multiplied through tables of
//! logarithms.

/// The polynomial without its highest term.
const POLYNOMIAL: u8 = 0x1d;

/// Nonzero elements.
const ORDER: usize = 255;

/// The powers of 2, twice, so that a sum of two logarithms needs no reduction.
const POWERS: [u8; 2 * ORDER] = {
    let (mut powers, mut power, mut exponent) = ([0; 2 * ORDER], 1_u8, 0);
    while exponent < 2 * ORDER {
        powers[exponent] = power;
        power = double(power);
        exponent += 1;
    }
    powers
};

/// The logarithms to the base 2. That of zero is not used.
const LOGARITHMS: [u8; 256] = {
    let (mut logarithms, mut exponent) = ([0; 256], 0);
    while exponent < ORDER {
        logarithms[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    logarithms
};

/// Twice an element.
const fn double(a: u8) -> u8 {
    // The mask is all ones where the highest term is there.
    (a << 1) ^ (((a as i8) >> 7) as u8 & POLYNOMIAL)
}

/// The product.
pub(crate) fn mul(a: u8, b: u8) -> u8 {
    match (a, b) {
        (0, _) | (_, 0) => 0,
        _ => POWERS[LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize],
    }
}

/// The inverse of an element that is not zero.
pub(crate) fn invert(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    POWERS[ORDER - LOGARITHMS[a as usize] as usize]
}

/// The power of 2 with this exponent.
pub(crate) fn power_of_two(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

/// Adds `b` to the front of `a`, byte by byte.
pub(crate) fn add_to(a: &mut [u8], b: &[u8]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a ^= b;
    }
}

/// Eight elements, a byte each.
type Word = u64;

const WORD: usize = size_of::<Word>();

/// A byte in every place of a word.
const fn everywhere(byte: u8) -> Word {
    Word::from_ne_bytes([byte; WORD])
}

/// Twice each of eight elements.
fn double_word(a: Word) -> Word {
    let carries = (a >> 7) & everywhere(1);
    // All ones in the bytes whose highest term is there.
    let masks = (carries << 8).wrapping_sub(carries);
    ((a & everywhere(0x7f)) << 1) ^ (masks & everywhere(POLYNOMIAL))
}

/// Replaces every byte of `a` by `step` of it and the byte of `b`, eight at a time.
#[inline]
fn combine(a: &mut [u8], b: &[u8], step: impl Fn(Word, Word) -> Word) {
    let len = a.len().min(b.len());
    let (mut words, others) = (a[..len].chunks_exact_mut(WORD), b[..len].chunks_exact(WORD));
    let rest = others.remainder();
    for (a, b) in words.by_ref().zip(others) {
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, Word::from_ne_bytes);
        a.copy_from_slice(&step(word(a), word(b)).to_ne_bytes());
    }
    for (a, b) in words.into_remainder().iter_mut().zip(rest) {
        // The same in every place.
        [*a, ..] = step(everywhere(*a), everywhere(*b)).to_ne_bytes();
    }
}

/// Doubles every byte of `a` `TIMES` times, and adds `b` to the front of it.
pub(crate) fn double_and_add<const TIMES: usize>(a: &mut [u8], b: &[u8]) {
    let doubled = |a: Word| (0..TIMES).fold(a, |a, _| double_word(a));
    let (front, behind) = a.split_at_mut(b.len().min(a.len()));
    combine(front, b, |a, b| doubled(a) ^ b);
    for a in behind {
        *a = (0..TIMES).fold(*a, |a, _| double(a));
    }
}

/// Adds `factor` times `b` to the front of `a`, byte by byte.
pub(crate) fn add_product_to(a: &mut [u8], factor: u8, b: &[u8]) {
    // One mask a term of the factor.
    let masks: [Word; 8] =
        std::array::from_fn(|term| if factor >> term & 1 == 1 { Word::MAX } else { 0 });
    combine(a, b, |mut a, mut b| {
        for mask in masks {
            a ^= b & mask;
            b = double_word(b);
        }
        a
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product by its definition: of polynomials over GF(2), reduced.
    fn by_definition(a: u8, b: u8) -> u8 {
        let mut product = (0..8)
            .filter(|term| b >> term & 1 == 1)
            .fold(0, |sum, term| sum ^ (u16::from(a) << term));
        for term in (8..16).rev() {
            if product >> term & 1 == 1 {
                product ^= 0x11d << (term - 8);
            }
        }
        product as u8
    }

    #[test]
    fn all_products_and_inverses_are_those_of_the_definition() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), by_definition(a, b));
            }
            assert_eq!(double(a), by_definition(a, 2));
            if a > 0 {
                assert_eq!(by_definition(a, invert(a)), 1);
            }
        }
    }

    #[test]
    fn two_generates_the_field() {
        let powers: std::collections::BTreeSet<_> = (0..255).map(power_of_two).collect();
        assert_eq!((powers.len(), power_of_two(255)), (255, 1));
    }

    #[test]
    fn the_loops_do_the_same_as_single_elements() {
        let b: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for factor in 0..=255 {
            let mut a: Vec<u8> = b.iter().map(|b| b.wrapping_mul(7)).collect();
            let expected: Vec<u8> =
                a.iter().zip(&b).map(|(a, b)| a ^ by_definition(factor, *b)).collect();
            add_product_to(&mut a, factor, &b);
            assert_eq!(a, expected);
        }
        for len in (0..40).chain([997, 1000]) {
            let mut sum = b.clone();
            double_and_add::<2>(&mut sum, &b[..len]);
            let added = |at: usize| if at < len { b[at] } else { 0 };
            let right = |(at, sum): (usize, &u8)| *sum == by_definition(b[at], 4) ^ added(at);
            assert!(sum.iter().enumerate().all(right));
        }
        let mut sum = b.clone();
        add_to(&mut sum, &b[..900]);
        assert!(sum[..900].iter().all(|sum| *sum == 0) && sum[900..] == b[900..]);
    }
}
