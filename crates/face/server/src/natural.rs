//! Natural numbers of any size: as much as it takes to read and write a long number exactly.

use std::cmp::Ordering;

/// A natural number: 32 bits a limb, the lowest first, no zero limb at the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Natural(Vec<u32>);

impl Natural {
    pub(crate) fn zero() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn power_of_ten(exponent: u32) -> Self {
        let mut power = Self(vec![1]);
        for _ in 0..exponent / 9 {
            power.multiply_add(1_000_000_000, 0);
        }
        power.multiply_add(10u32.pow(exponent % 9), 0);
        power
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of bits, without leading zeros.
    pub(crate) fn bits(&self) -> usize {
        let top = self.0.last().map_or(0, |limb| 32 - limb.leading_zeros() as usize);
        self.0.len().saturating_sub(1) * 32 + top
    }

    pub(crate) fn bit(&self, index: usize) -> bool {
        self.0.get(index / 32).is_some_and(|limb| limb >> (index % 32) & 1 == 1)
    }

    /// Whether one of the `count` lowest bits is set.
    pub(crate) fn any_bit_below(&self, count: usize) -> bool {
        (0..count).any(|index| self.bit(index))
    }

    /// The 64 bits from bit `index` on.
    pub(crate) fn bits_from(&self, index: usize) -> u64 {
        (0..64).filter(|offset| self.bit(index + offset)).map(|offset| 1 << offset).sum()
    }

    /// `self * factor + term`.
    pub(crate) fn multiply_add(&mut self, factor: u32, term: u32) {
        let mut carry = u64::from(term);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    pub(crate) fn multiply(&mut self, other: &Self) {
        let mut product = vec![0u32; self.0.len() + other.0.len()];
        for (shift, &limb) in self.0.iter().enumerate() {
            let mut carry = 0u64;
            for (index, digit) in product[shift..].iter_mut().enumerate() {
                let factor = other.0.get(index).copied().unwrap_or(0);
                carry += u64::from(*digit) + u64::from(limb) * u64::from(factor);
                *digit = carry as u32;
                carry >>= 32;
            }
        }
        self.0 = product;
        self.trim();
    }

    pub(crate) fn shift_left(&mut self, bits: usize) {
        self.multiply_add(1 << (bits % 32), 0);
        if !self.is_zero() {
            self.0.splice(0..0, std::iter::repeat_n(0, bits / 32));
        }
    }

    /// The quotient, and whether there is a remainder. Costs a pass for each bit of the quotient.
    pub(crate) fn divide(&self, divisor: &Self) -> (Self, bool) {
        let steps = (self.bits() + 1).saturating_sub(divisor.bits());
        let mut rest = self.clone();
        let mut quotient = Self(vec![0; steps.div_ceil(32)]);
        for step in (0..steps).rev() {
            let mut shifted = divisor.clone();
            shifted.shift_left(step);
            if rest.compare(&shifted) != Ordering::Less {
                rest.subtract(&shifted);
                quotient.0[step / 32] |= 1 << (step % 32);
            }
        }
        quotient.trim();
        (quotient, !rest.is_zero())
    }

    pub(crate) fn to_decimal(&self) -> String {
        let mut groups = Vec::new();
        let mut rest = self.clone();
        while !rest.is_zero() {
            let mut remainder = 0u64;
            for limb in rest.0.iter_mut().rev() {
                remainder = remainder << 32 | u64::from(*limb);
                *limb = (remainder / 1_000_000_000) as u32;
                remainder %= 1_000_000_000;
            }
            rest.trim();
            groups.push(remainder);
        }
        let mut text = groups.pop().unwrap_or(0).to_string();
        for group in groups.iter().rev() {
            text.push_str(&format!("{group:09}"));
        }
        text
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_len = self.0.len().cmp(&other.0.len());
        by_len.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// `self - other`, which is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let term = other.0.get(index).copied().unwrap_or(0);
            let (less, under) = limb.overflowing_sub(term);
            let (less, under_too) = less.overflowing_sub(u32::from(borrow));
            (*limb, borrow) = (less, under || under_too);
        }
        debug_assert!(!borrow, "the difference of natural numbers is one");
        self.trim();
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

impl From<u128> for Natural {
    fn from(number: u128) -> Self {
        let mut natural = Self((0..4).map(|limb| (number >> (32 * limb)) as u32).collect());
        natural.trim();
        natural
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arithmetic_agrees_with_128_bits(a: u64, b in 1u64.., shift in 0..64usize) {
            let (wide_a, wide_b) = (u128::from(a), u128::from(b));
            let mut product = Natural::from(wide_a);
            product.multiply(&Natural::from(wide_b));
            prop_assert_eq!(&product, &Natural::from(wide_a * wide_b));
            prop_assert_eq!(product.to_decimal(), (wide_a * wide_b).to_string());
            let mut shifted = Natural::from(wide_a);
            shifted.shift_left(shift);
            prop_assert_eq!(&shifted, &Natural::from(wide_a << shift));
            let (quotient, inexact) = shifted.divide(&Natural::from(wide_b));
            prop_assert_eq!(quotient, Natural::from((wide_a << shift) / wide_b));
            prop_assert_eq!(inexact, (wide_a << shift) % wide_b != 0);
        }
    }

    #[test]
    fn powers_of_ten_are_a_one_and_zeros() {
        assert_eq!(Natural::power_of_ten(40).to_decimal(), format!("1{}", "0".repeat(40)));
    }
}
