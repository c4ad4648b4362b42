//! Stores past the cache.

use crate::Pool;

/// How this processor stores lines past the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_arch = "x86_64", not(halite_portable))),
    expect(dead_code, reason = "only the tuned architecture has these")
)]
pub(crate) enum Stream {
    /// 64 bytes at a time.
    Avx512,
    /// 32 bytes at a time.
    Avx2,
    /// 16 bytes at a time.
    Sse2,
    /// Through the cache, for processors and domains where streaming has no advantage.
    Cached,
}

/// Copies `bytes` to `address` and starts their write-back: whole lines past the cache, the partial lines
/// at both ends through it. Other threads may see them only after this one has fenced: such stores are not
/// in order with the stores that follow.
///
/// # Safety
/// `address..address + bytes.len()` is inside one region of the pool, that the caller may write.
pub(crate) unsafe fn copy(pool: &Pool, address: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { pool.stream().copy(pool, address, bytes) };
}

/// Stores the words of a line, little-endian, as [`copy`] does. They need not be in memory before.
///
/// # Safety
/// As for [`copy`]; and `address` is that of a line.
#[inline]
pub(crate) unsafe fn line(pool: &Pool, address: *mut u8, words: &[u64; 8]) {
    // SAFETY: the caller's promise.
    unsafe { pool.stream().line(pool, address, words) };
}

#[cfg(all(target_arch = "x86_64", not(halite_portable)))]
mod x86_64 {
    use std::arch::x86_64::{
        __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_stream_si64, _mm_stream_si128,
        _mm256_loadu_si256, _mm256_stream_si256, _mm512_loadu_si512, _mm512_stream_si512,
    };

    use super::Stream;
    use crate::{LINE, Pool};

    const LINE_LEN: usize = LINE as usize;

    impl Stream {
        /// The widest that this processor has.
        pub(crate) fn detect() -> Self {
            if is_x86_feature_detected!("avx512f") {
                Self::Avx512
            } else if is_x86_feature_detected!("avx2") {
                Self::Avx2
            } else {
                Self::Sse2
            }
        }

        /// # Safety
        /// See [`super::copy`]; and the processor has the instructions.
        pub(crate) unsafe fn copy(self, pool: &Pool, address: *mut u8, bytes: &[u8]) {
            let head = address.align_offset(LINE_LEN).min(bytes.len());
            let lines = if self == Self::Cached { 0 } else { (bytes.len() - head) / LINE_LEN };
            let tail = head + lines * LINE_LEN;
            // SAFETY: head, lines and tail together are `bytes`, and `address` is good for as many;
            // `address + head` is aligned to a line.
            unsafe {
                cached(pool, address, &bytes[..head]);
                let (to, from) = (address.add(head), bytes[head..tail].as_ptr());
                match self {
                    Self::Avx512 => avx512(to, from, lines),
                    Self::Avx2 => avx2(to, from, lines),
                    Self::Sse2 => sse2(to, from, lines),
                    Self::Cached => {}
                }
                cached(pool, address.add(tail), &bytes[tail..]);
            }
        }

        /// # Safety
        /// See [`super::line`].
        #[inline]
        pub(crate) unsafe fn line(self, pool: &Pool, address: *mut u8, words: &[u64; 8]) {
            if self == Self::Cached {
                let bytes = words.map(u64::to_le_bytes);
                // SAFETY: the caller's promise.
                return unsafe { cached(pool, address, bytes.as_flattened()) };
            }
            for (number, word) in words.iter().enumerate() {
                // SAFETY: `address` is good for eight words, and aligned; every x86-64 processor has
                // SSE2.
                unsafe { _mm_stream_si64(address.cast::<i64>().add(number), *word as i64) };
            }
        }
    }

    unsafe fn cached(pool: &Pool, address: *mut u8, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len());
            pool.write_back_instruction().lines(address, bytes.len() as u64);
        }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn avx512(to: *mut u8, from: *const u8, lines: usize) {
        for line in 0..lines {
            // SAFETY: both are good for `lines` lines, and `to` is aligned to them.
            unsafe {
                let bytes = _mm512_loadu_si512(from.add(line * LINE_LEN).cast::<__m512i>());
                _mm512_stream_si512(to.add(line * LINE_LEN).cast::<__m512i>(), bytes);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn avx2(to: *mut u8, from: *const u8, lines: usize) {
        for part in 0..lines * 2 {
            // SAFETY: both are good for `lines` lines, and `to` is aligned to them.
            unsafe {
                let bytes = _mm256_loadu_si256(from.add(part * 32).cast::<__m256i>());
                _mm256_stream_si256(to.add(part * 32).cast::<__m256i>(), bytes);
            }
        }
    }

    unsafe fn sse2(to: *mut u8, from: *const u8, lines: usize) {
        for part in 0..lines * 4 {
            // SAFETY: both are good for `lines` lines, and `to` is aligned to them; every x86-64
            // processor has SSE2.
            unsafe {
                let bytes = _mm_loadu_si128(from.add(part * 16).cast::<__m128i>());
                _mm_stream_si128(to.add(part * 16).cast::<__m128i>(), bytes);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::{PoolOptions, UNIT};

        #[test]
        fn every_width_copies_every_byte_and_no_other() {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let pool = Pool::create(&folder.path().join("p"), &PoolOptions::default()).unwrap();
            let mut fresh = pool.claim(0, UNIT).unwrap();
            let bytes: Vec<u8> = (0..1000).map(|i| (i % 251) as u8 + 1).collect();
            for stream in [Stream::Avx512, Stream::Avx2, Stream::Sse2, Stream::Cached] {
                if stream == Stream::Avx512 && !is_x86_feature_detected!("avx512f")
                    || stream == Stream::Avx2 && !is_x86_feature_detected!("avx2")
                {
                    continue;
                }
                for at in [0_usize, 1, 63, 64] {
                    for len in [0, 1, 63, 64, 65, 128, 1000] {
                        fresh.write(0, &[0; 2048]);
                        let address = pool.address(at as u64);
                        // SAFETY: the range is inside `fresh`, of which no slice is borrowed.
                        unsafe { stream.copy(&pool, address, &bytes[..len]) };
                        crate::writeback::fence();
                        let now = fresh.bytes();
                        assert!(now[..at].iter().all(|&byte| byte == 0));
                        assert_eq!(now[at..at + len], bytes[..len], "{stream:?} {at} {len}");
                        assert!(now[at + len..2048].iter().all(|&byte| byte == 0));
                    }
                }
                let words: [u64; 8] = std::array::from_fn(|number| !(number as u64));
                fresh.write(0, &[0; 192]);
                // SAFETY: as above.
                unsafe { stream.line(&pool, pool.address(64), &words) };
                crate::writeback::fence();
                let expected = [
                    [0; 64],
                    words.map(u64::to_le_bytes).concat()[..].try_into().unwrap(),
                    [0; 64],
                ];
                assert_eq!(fresh.bytes()[..192], *expected.as_flattened(), "{stream:?}");
            }
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(halite_portable))))]
impl Stream {
    pub(crate) fn detect() -> Self {
        Self::Cached
    }

    /// # Safety
    /// See [`copy`].
    pub(crate) unsafe fn copy(self, _: &Pool, address: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, bytes.len()) };
    }

    /// # Safety
    /// See [`line`].
    pub(crate) unsafe fn line(self, pool: &Pool, address: *mut u8, words: &[u64; 8]) {
        let bytes = words.map(u64::to_le_bytes);
        // SAFETY: the caller's promise.
        unsafe { self.copy(pool, address, bytes.as_flattened()) };
    }
}
