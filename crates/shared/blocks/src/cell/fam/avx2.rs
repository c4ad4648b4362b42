//! The update and the read of a cell, four units at a time.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_and_si128, _mm_castsi128_ps, _mm_loadu_si128, _mm_movemask_ps,
    _mm_or_si128, _mm_set1_epi32, _mm_setr_epi32, _mm_sllv_epi32, _mm_storeu_si128,
    _mm256_add_epi64, _mm256_and_si256, _mm256_castsi256_si128, _mm256_cvtepu32_epi64,
    _mm256_loadu_si256, _mm256_or_si256, _mm256_permutevar8x32_epi32, _mm256_set1_epi64x,
    _mm256_setr_epi32, _mm256_slli_epi64, _mm256_storeu_si256,
};

use super::block::{BITS, NEW, OLD, VERSION, VERSION_STEP};
use super::{Blocks, high, store_high};

/// Fills `blocks` with the blocks of `stored` after an update to `value`.
#[target_feature(enable = "avx2")]
pub(super) fn update(stored: &[u8], value: &[u8], blocks: &mut Blocks) {
    let (values, _) = value.as_chunks::<16>();
    let (stored_fours, _) = stored.as_chunks::<32>();
    let (fours, _) = blocks.as_chunks_mut::<4>();
    let mut high = 0;
    for (number, ((value, stored), to)) in values.iter().zip(stored_fours).zip(fours).enumerate() {
        high |= update_four(stored, value, to) << (4 * number);
    }
    let (words, _) = stored.as_chunks::<8>();
    store_high(words, value.len() / 4, high, blocks);
}

/// Updates the blocks of four units, and returns the units' highest bits.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn update_four(stored: &[u8; 32], value: &[u8; 16], blocks: &mut [u64; 4]) -> u32 {
    // SAFETY: each pointer is good for as many bytes as its array has.
    let (units, stored) = unsafe {
        (
            _mm_loadu_si128(value.as_ptr().cast::<__m128i>()),
            _mm256_loadu_si256(stored.as_ptr().cast::<__m256i>()),
        )
    };
    let low = _mm256_cvtepu32_epi64(_mm_and_si128(units, _mm_set1_epi32(NEW as i32)));
    let next = _mm256_add_epi64(stored, _mm256_set1_epi64x(VERSION_STEP as i64));
    let version = _mm256_and_si256(next, _mm256_set1_epi64x(VERSION as i64));
    let shifted = _mm256_slli_epi64::<{ BITS as i32 }>(stored);
    let old = _mm256_and_si256(shifted, _mm256_set1_epi64x(OLD as i64));
    let updated = _mm256_or_si256(_mm256_or_si256(version, old), low);
    // SAFETY: as above.
    unsafe { _mm256_storeu_si256(blocks.as_mut_ptr().cast::<__m256i>(), updated) };
    _mm_movemask_ps(_mm_castsi128_ps(units)) as u32
}

/// Takes the value out of `stored`.
#[target_feature(enable = "avx2")]
pub(super) fn read(stored: &[u8], value: &mut [u8]) {
    let (words, _) = stored.as_chunks::<8>();
    let high = high(words, value.len() / 4);
    let (stored_fours, _) = stored.as_chunks::<32>();
    let (values, _) = value.as_chunks_mut::<16>();
    for (number, (value, stored)) in values.iter_mut().zip(stored_fours).enumerate() {
        read_four(stored, high >> (4 * number), value);
    }
}

/// Takes four units out of their blocks; their highest bits are the lowest of `high`.
#[inline]
#[target_feature(enable = "avx2")]
fn read_four(stored: &[u8; 32], high: u32, value: &mut [u8; 16]) {
    // SAFETY: the pointer is good for as many bytes as its array has.
    let stored = unsafe { _mm256_loadu_si256(stored.as_ptr().cast::<__m256i>()) };
    let lower_halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    let low = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(stored, lower_halves));
    let low = _mm_and_si128(low, _mm_set1_epi32(NEW as i32));
    let high = _mm_sllv_epi32(_mm_set1_epi32(high as i32), _mm_setr_epi32(31, 30, 29, 28));
    let high = _mm_and_si128(high, _mm_set1_epi32(!(NEW as i32)));
    // SAFETY: as above.
    unsafe { _mm_storeu_si128(value.as_mut_ptr().cast::<__m128i>(), _mm_or_si128(low, high)) };
}
