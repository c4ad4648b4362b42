//! A bijection that spreads numbers: keys and values are functions of a record's number.

/// SplitMix64's finalizer: a bijection, so distinct numbers stay distinct.
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
