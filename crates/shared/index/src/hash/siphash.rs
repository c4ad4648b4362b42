//! SipHash-1-3 (Aumasson and Bernstein): a hash with a key, so that a user who chooses the hashed bytes and
//! does not know the key cannot choose collisions.

/// The hash of `bytes` under the key `seed`.
#[inline]
pub(crate) fn siphash(seed: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = [
        seed[0] ^ 0x736f_6d65_7073_6575,
        seed[1] ^ 0x646f_7261_6e64_6f6d,
        seed[0] ^ 0x6c79_6765_6e65_7261,
        seed[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        absorb(&mut state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    absorb(&mut state, u64::from_le_bytes(last));
    state[2] ^= 0xff;
    (0..3).for_each(|_| round(&mut state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline]
fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline]
fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::hash::{DefaultHasher, Hasher};

    use super::*;

    #[test]
    fn the_standard_library_computes_the_same() {
        let bytes: Vec<u8> = (0..300_u32).map(|n| (n * 7) as u8).collect();
        for len in 0..bytes.len() {
            // Which is SipHash-1-3 under a key of zeros.
            let mut standard = DefaultHasher::new();
            standard.write(&bytes[..len]);
            assert_eq!(siphash([0, 0], &bytes[..len]), standard.finish(), "{len} bytes");
        }
    }

    #[test]
    fn each_half_of_the_key_matters() {
        let hashes = [[0, 0], [1, 0], [0, 1]].map(|seed| siphash(seed, b"key"));
        assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2] && hashes[1] != hashes[2]);
    }
}
