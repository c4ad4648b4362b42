//! The update and the read of a cell, eight units at a time.

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_and_si128, _mm_mask_or_epi32, _mm_set1_epi32, _mm_storeu_si128,
    _mm256_and_si256, _mm256_cvtepi64_epi32, _mm256_loadu_si256, _mm256_mask_or_epi32,
    _mm256_movepi32_mask, _mm256_set1_epi32, _mm256_storeu_si256, _mm512_add_epi64,
    _mm512_cvtepi64_epi32, _mm512_cvtepu32_epi64, _mm512_loadu_si512, _mm512_or_si512,
    _mm512_set1_epi64, _mm512_slli_epi64, _mm512_storeu_si512, _mm512_ternarylogic_epi64,
};

use super::block::{BITS, NEW, VERSION, VERSION_STEP};
use super::{Blocks, avx2, high, store_high};

/// The truth table of a selection by three bits: the second where the first is 1, else the third.
const SELECT: i32 = 0b1100_1010;

/// Fills `blocks` with the blocks of `stored` after an update to `value`.
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
pub(super) fn update(stored: &[u8], value: &[u8], blocks: &mut Blocks) {
    let (values, last_value) = value.as_chunks::<32>();
    let (stored_eights, _) = stored.as_chunks::<64>();
    let (eights, _) = blocks.as_chunks_mut::<8>();
    let mut high = 0;
    for (number, ((value, stored), to)) in values.iter().zip(stored_eights).zip(eights).enumerate()
    {
        high |= update_eight(stored, value, to) << (8 * number);
    }
    if let Some(value) = last_value.first_chunk() {
        let unit = 8 * values.len();
        if let (Some(stored), Some(to)) =
            (stored[8 * unit..].first_chunk(), blocks[unit..].first_chunk_mut())
        {
            high |= avx2::update_four(stored, value, to) << unit;
        }
    }
    let (words, _) = stored.as_chunks::<8>();
    store_high(words, value.len() / 4, high, blocks);
}

/// Updates the blocks of eight units, and returns the units' highest bits.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
fn update_eight(stored: &[u8; 64], value: &[u8; 32], blocks: &mut [u64; 8]) -> u32 {
    // SAFETY: each pointer is good for as many bytes as its array has.
    let (units, stored) = unsafe {
        (
            _mm256_loadu_si256(value.as_ptr().cast::<__m256i>()),
            _mm512_loadu_si512(stored.as_ptr().cast::<__m512i>()),
        )
    };
    let low = _mm512_cvtepu32_epi64(_mm256_and_si256(units, _mm256_set1_epi32(NEW as i32)));
    let next = _mm512_add_epi64(stored, _mm512_set1_epi64(VERSION_STEP as i64));
    let shifted = _mm512_slli_epi64::<BITS>(stored);
    let versions = _mm512_set1_epi64(VERSION as i64);
    // The lowest bits of the shifted blocks are zero.
    let version_and_old = _mm512_ternarylogic_epi64::<SELECT>(versions, next, shifted);
    let updated = _mm512_or_si512(version_and_old, low);
    // SAFETY: as above.
    unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast::<__m512i>(), updated) };
    u32::from(_mm256_movepi32_mask(units))
}

/// Takes the value out of `stored`.
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
pub(super) fn read(stored: &[u8], value: &mut [u8]) {
    let (words, _) = stored.as_chunks::<8>();
    let high = high(words, value.len() / 4);
    let (values, last_value) = value.as_chunks_mut::<32>();
    let (stored_eights, _) = stored.as_chunks::<64>();
    for (number, (value, stored)) in values.iter_mut().zip(stored_eights).enumerate() {
        read_eight(stored, (high >> (8 * number)) as u8, value);
    }
    let unit = 8 * values.len();
    if let (Some(value), Some(stored)) =
        (last_value.first_chunk_mut(), stored[8 * unit..].first_chunk())
    {
        read_four(stored, (high >> unit) as u8, value);
    }
}

/// Takes eight units out of their blocks and their highest bits.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
fn read_eight(stored: &[u8; 64], high: u8, value: &mut [u8; 32]) {
    // SAFETY: the pointer is good for as many bytes as its array has.
    let stored = unsafe { _mm512_loadu_si512(stored.as_ptr().cast::<__m512i>()) };
    let low = _mm256_and_si256(_mm512_cvtepi64_epi32(stored), _mm256_set1_epi32(NEW as i32));
    let units = _mm256_mask_or_epi32(low, high, low, _mm256_set1_epi32(!(NEW as i32)));
    // SAFETY: as above.
    unsafe { _mm256_storeu_si256(value.as_mut_ptr().cast::<__m256i>(), units) };
}

/// Takes four units out of their blocks and their highest bits.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
fn read_four(stored: &[u8; 32], high: u8, value: &mut [u8; 16]) {
    // SAFETY: the pointer is good for as many bytes as its array has.
    let stored = unsafe { _mm256_loadu_si256(stored.as_ptr().cast::<__m256i>()) };
    let low = _mm_and_si128(_mm256_cvtepi64_epi32(stored), _mm_set1_epi32(NEW as i32));
    let units = _mm_mask_or_epi32(low, high, low, _mm_set1_epi32(!(NEW as i32)));
    // SAFETY: as above.
    unsafe { _mm_storeu_si128(value.as_mut_ptr().cast::<__m128i>(), units) };
}
