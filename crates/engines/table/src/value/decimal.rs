//! Exact numbers of at most 38 digits: money.
//!
//! A decimal is an integer, its mantissa, and a scale: how many of its digits stand behind the point. Sums, differences
//! and products are exact, or an error; only [`Decimal::rescale`] rounds, and only half away from zero, as SQL does.

use std::{cmp::Ordering, fmt, str::FromStr};

use crate::{Error, Result};

/// Digits that a decimal has at most: those of every mantissa of 38 digits fit into an `i128`.
pub const DIGITS_MAX: u8 = 38;

/// An exact number: mantissa / 10^scale, the mantissa with at most 38 digits, the scale from 0 to 38.
///
/// Decimals are equal, and ordered, by what they are worth: 1.5 equals 1.50.
#[derive(Clone, Copy)]
pub struct Decimal {
    /// The mantissa in two halves: an `i128` would be aligned so that every value takes half as much space again.
    high: i64,
    low: u64,
    scale: u8,
}

/// 10^exponent, of an exponent up to 38.
const fn power(exponent: u8) -> i128 {
    10_i128.pow(exponent as u32)
}

/// Whether a mantissa has at most this many digits.
pub(super) const fn fits(mantissa: i128, digits: u8) -> bool {
    mantissa.unsigned_abs() < power(digits).unsigned_abs()
}

#[cold]
fn overflow(operation: &'static str) -> Error {
    Error::DecimalOverflow { operation }
}

impl Decimal {
    /// Zero.
    pub const ZERO: Self = Self::unchecked(0, 0);

    /// A mantissa with `scale` of its digits behind the point: `new(12345, 2)` is 123.45.
    ///
    /// # Errors
    /// [`Error::DecimalOverflow`], if the mantissa or the scale is beyond 38 digits.
    #[inline]
    pub fn new(mantissa: i128, scale: u8) -> Result<Self> {
        match scale <= DIGITS_MAX && fits(mantissa, DIGITS_MAX) {
            true => Ok(Self::unchecked(mantissa, scale)),
            false => Err(overflow("the making of a number")),
        }
    }

    const fn unchecked(mantissa: i128, scale: u8) -> Self {
        Self { high: (mantissa >> 64) as i64, low: mantissa as u64, scale }
    }

    /// All digits, with the sign, as an integer.
    #[must_use]
    #[inline]
    pub const fn mantissa(self) -> i128 {
        (self.high as i128) << 64 | self.low as i128
    }

    /// The number of digits behind the point.
    #[must_use]
    #[inline]
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// Whether the mantissa has at most `digits` digits.
    #[must_use]
    #[inline]
    pub const fn has_at_most(self, digits: u8) -> bool {
        digits >= DIGITS_MAX || fits(self.mantissa(), digits)
    }

    /// The same number with more digits behind the point, or with fewer, if those that go are zeros.
    #[must_use]
    #[inline]
    pub fn exactly(self, scale: u8) -> Option<Self> {
        let mantissa = match scale.cmp(&self.scale) {
            Ordering::Equal => return Some(self),
            Ordering::Greater if scale > DIGITS_MAX => return None,
            Ordering::Greater => self.mantissa().checked_mul(power(scale - self.scale))?,
            Ordering::Less => {
                let divisor = power(self.scale - scale);
                (self.mantissa() % divisor == 0).then_some(self.mantissa() / divisor)?
            }
        };
        Self::new(mantissa, scale).ok()
    }

    /// The number with `scale` digits behind the point, rounded half away from zero: 2.5 to 3, and −2.5 to −3.
    ///
    /// # Errors
    /// [`Error::DecimalOverflow`].
    pub fn rescale(self, scale: u8) -> Result<Self> {
        if scale >= self.scale {
            return self.exactly(scale).ok_or_else(|| overflow("a change of scale"));
        }
        let divisor = power(self.scale - scale);
        let (whole, rest) = (self.mantissa() / divisor, self.mantissa() % divisor);
        // `rest` is below 10^38, so that its double does not overflow.
        let up = rest.unsigned_abs() * 2 >= divisor.unsigned_abs();
        Self::new(whole + i128::from(up) * rest.signum(), scale)
    }

    /// Both mantissas at the greater of both scales.
    fn aligned(self, other: Self, operation: &'static str) -> Result<(i128, i128, u8)> {
        let scale = self.scale.max(other.scale);
        match (self.exactly(scale), other.exactly(scale)) {
            (Some(one), Some(two)) => Ok((one.mantissa(), two.mantissa(), scale)),
            _ => Err(overflow(operation)),
        }
    }

    /// The sum, with the greater of both scales.
    ///
    /// # Errors
    /// [`Error::DecimalOverflow`], if the sum or a summand has more than 38 digits at that scale.
    pub fn try_add(self, other: Self) -> Result<Self> {
        let (one, two, scale) = self.aligned(other, "a sum")?;
        // Both are below 10^38 < 2^127 / 1.7: the sum may be beyond 127 bits.
        let sum = one.checked_add(two).filter(|&sum| fits(sum, DIGITS_MAX));
        sum.map(|sum| Self::unchecked(sum, scale)).ok_or_else(|| overflow("a sum"))
    }

    /// The difference, with the greater of both scales.
    ///
    /// # Errors
    /// See [`Decimal::try_add`].
    pub fn try_sub(self, other: Self) -> Result<Self> {
        self.try_add(other.negated())
    }

    /// The product, with the sum of both scales.
    ///
    /// # Errors
    /// [`Error::DecimalOverflow`], if the product has more than 38 digits, or more than 38 behind the point.
    pub fn try_mul(self, other: Self) -> Result<Self> {
        let product = self.mantissa().checked_mul(other.mantissa());
        match product.filter(|&product| fits(product, DIGITS_MAX)) {
            Some(product) if self.scale + other.scale <= DIGITS_MAX => {
                Ok(Self::unchecked(product, self.scale + other.scale))
            }
            _ => Err(overflow("a product")),
        }
    }

    /// The number with the other sign.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self::unchecked(-self.mantissa(), self.scale)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.scale == other.scale {
            return self.mantissa().cmp(&other.mantissa());
        }
        // Parts before and behind the point, the latter of 38 digits each: neither overflows.
        let parts = |number: &Self| {
            let one = power(number.scale);
            let behind = number.mantissa() % one * power(DIGITS_MAX - number.scale);
            (number.mantissa() / one, behind)
        };
        parts(self).cmp(&parts(other))
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal {}

macro_rules! from_integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Decimal {
            #[inline]
            fn from(integer: $integer) -> Self {
                Self::unchecked(i128::from(integer), 0)
            }
        }
    )*};
}

from_integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// All digits of the scale are written: `1.50` has the scale 2.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mantissa, scale) = (self.mantissa(), usize::from(self.scale));
        let digits = format!("{:0width$}", mantissa.unsigned_abs(), width = scale + 1);
        let (before, behind) = digits.split_at(digits.len() - scale);
        let point = if scale == 0 { "" } else { "." };
        f.pad_integral(mantissa >= 0, "", &format!("{before}{point}{behind}"))
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn parse(text: &str) -> Option<Decimal> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (before, behind) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut mantissa = 0_i128;
    for digit in before.bytes().chain(behind.bytes()) {
        let digit = digit.is_ascii_digit().then_some(digit - b'0')?;
        mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(digit))?;
    }
    let some = !before.is_empty() || !behind.is_empty();
    let scale = u8::try_from(behind.len()).ok().filter(|_| some)?;
    let mantissa = if text.starts_with('-') { -mantissa } else { mantissa };
    Decimal::new(mantissa, scale).ok()
}

/// Digits with at most one point and a sign before them; the scale is the number of digits behind the point.
impl FromStr for Decimal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| {
            Error::not_a("DECIMAL", text, "write at most 38 digits with one point, such as -12.50")
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        for (from, scale, to) in [
            ("2.5", 0, "3"),
            ("-2.5", 0, "-3"),
            ("2.49", 0, "2"),
            ("-2.49", 0, "-2"),
            ("1.005", 2, "1.01"),
            ("0.4", 0, "0"),
            ("1.5", 3, "1.500"),
            ("99.95", 1, "100.0"),
        ] {
            let to = decimal(to);
            let rescaled = decimal(from).rescale(scale).unwrap();
            assert_eq!(
                (rescaled.mantissa(), rescaled.scale()),
                (to.mantissa(), to.scale()),
                "{from}"
            );
        }
        let nines = Decimal::new(power(38) - 1, 38).unwrap();
        assert_eq!(nines.rescale(0).unwrap(), Decimal::from(1));
    }

    #[test]
    fn more_than_38_digits_are_an_error() {
        let most = Decimal::new(power(38) - 1, 0).unwrap();
        assert!(Decimal::new(power(38), 0).is_err());
        assert!(Decimal::new(1, 39).is_err());
        assert!(most.try_add(Decimal::from(1)).is_err());
        assert!(most.negated().try_sub(Decimal::from(1)).is_err());
        assert!(most.try_add(most).is_err());
        assert!(most.try_add(decimal("0.1")).is_err());
        assert!(most.try_mul(Decimal::from(2)).is_err());
        assert!(most.try_mul(most).is_err());
        assert!(most.rescale(1).is_err());
        assert!(decimal("0.1").rescale(200).is_err());
        assert!(Decimal::new(1, 20).unwrap().try_mul(Decimal::new(1, 19).unwrap()).is_err());
        assert_eq!(most.try_sub(most).unwrap(), Decimal::ZERO);
        assert_eq!(most.exactly(0).unwrap(), most);
    }

    #[test]
    fn text_that_is_no_number_is_refused() {
        let long = "9".repeat(39);
        for text in ["", "-", ".", "+.", "1.2.3", "1e5", "--1", "1 ", "٣", long.as_str()] {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
        assert_eq!(decimal("-.5"), decimal("-0.50"));
        assert_eq!(decimal("+7."), Decimal::from(7));
    }

    /// Numbers of few digits at scales up to 6: `i128` at the scale 12 has all their sums and products.
    fn small() -> impl Strategy<Value = (i64, u8)> {
        (prop_oneof![-1000..1000_i64, any::<i32>().prop_map(i64::from)], 0..=6_u8)
    }

    /// Mantissas near every power of ten, and any.
    fn any_decimal() -> impl Strategy<Value = Decimal> {
        let near = (0..=37_u8, -2..=2_i128).prop_map(|(exponent, by)| power(exponent) + by);
        let every = any::<i128>().prop_map(|bits| bits % power(38));
        (prop_oneof![near, every], any::<bool>(), 0..=38_u8).prop_map(
            |(mantissa, negative, scale)| {
                Decimal::new(if negative { -mantissa } else { mantissa }, scale).unwrap()
            },
        )
    }

    /// The digits before and behind the point, each 38 of them, for a comparison by text.
    fn digits(number: Decimal) -> String {
        let text = format!("{:0>80}", number.mantissa().unsigned_abs());
        let (before, behind) = text.split_at(80 - usize::from(number.scale()));
        format!("{before:0>80}{behind:0<38}")
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_integers_at_a_common_scale((a, x) in small(), (b, y) in small()) {
            let (one, two) = (Decimal::new(a.into(), x).unwrap(), Decimal::new(b.into(), y).unwrap());
            let at = |number: Decimal, scale| number.exactly(scale).unwrap().mantissa();
            let (a, b) = (i128::from(a), i128::from(b));
            let (wide_a, wide_b) = (a * power(12 - x), b * power(12 - y));
            prop_assert_eq!(at(one.try_add(two).unwrap(), 12), wide_a + wide_b);
            prop_assert_eq!(at(one.try_sub(two).unwrap(), 12), wide_a - wide_b);
            prop_assert_eq!(at(one.try_mul(two).unwrap(), 12), a * b * power(12 - x - y));
            prop_assert_eq!(one.cmp(&two), wide_a.cmp(&wide_b));
        }

        #[test]
        fn comparison_is_that_of_all_digits(one in any_decimal(), two in any_decimal()) {
            let signed = |number: Decimal| (number.mantissa().signum(), digits(number));
            let ((sign, a), (other, b)) = (signed(one), signed(two));
            let magnitude = if sign < 0 { b.cmp(&a) } else { a.cmp(&b) };
            prop_assert_eq!(one.cmp(&two), sign.cmp(&other).then(magnitude));
        }

        #[test]
        fn a_number_is_read_from_its_text_with_its_scale(number in any_decimal()) {
            let read: Decimal = number.to_string().parse().unwrap();
            prop_assert_eq!((read.mantissa(), read.scale()), (number.mantissa(), number.scale()));
        }

        #[test]
        fn a_rounded_number_is_the_nearest(number in any_decimal(), scale in 0..=38_u8) {
            let Ok(rounded) = number.rescale(scale) else {
                prop_assert!(number.exactly(scale).is_none());
                return Ok(());
            };
            prop_assert_eq!(rounded.scale(), scale);
            if let Ok(error) = rounded.try_sub(number) {
                let half = Decimal::new(5, scale.saturating_add(1).min(38)).unwrap();
                let error = if error.mantissa() < 0 { error.negated() } else { error };
                prop_assert!(error <= half, "{number} to {rounded}");
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,45}") {
            let _ = text.parse::<Decimal>();
        }
    }
}
