//! FLOAT64 with one order and one form of each value.
//!
//! A stored float has the canonical form: one NaN, and no negative zero. Equal values therefore have equal bytes, and
//! the order of their bits, with the sign turned, is the order of the values, with NaN above all numbers.

/// The sign of a number of 64 bits.
const SIGN: u64 = 1 << 63;

/// The canonical form of a float.
#[inline]
pub(crate) fn canonical(float: f64) -> f64 {
    match float {
        _ if float.is_nan() => f64::NAN,
        _ if float == 0.0 => 0.0,
        _ => float,
    }
}

/// Bits whose order as unsigned numbers is that of the floats.
#[inline]
pub(crate) fn ordered_bits(float: f64) -> u64 {
    // A constant NaN: its sign and payload may differ by platform, and keys are stored.
    let bits = match float {
        _ if float.is_nan() => 0x7ff8_0000_0000_0000,
        _ => canonical(float).to_bits(),
    };
    match bits & SIGN {
        0 => bits | SIGN,
        _ => !bits,
    }
}

/// The float of which [`ordered_bits`] made these bits.
#[inline]
pub(crate) fn unordered_bits(bits: u64) -> f64 {
    f64::from_bits(match bits & SIGN {
        0 => !bits,
        _ => bits & !SIGN,
    })
}
