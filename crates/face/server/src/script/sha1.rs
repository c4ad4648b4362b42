//! The digests by which scripts are known.

use sha1::{Digest as _, Sha1};

/// The SHA-1 of some bytes, as 40 hexadecimal digits.
pub(crate) type Digest = [u8; 40];

/// The digest of some bytes.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 40];
    for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(Sha1::digest(bytes)) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
    hex
}

/// The digest that a client names, in upper or lower case.
pub(crate) fn parse(word: &[u8]) -> Option<Digest> {
    let mut digest: Digest = word.try_into().ok()?;
    digest.make_ascii_lowercase();
    Some(digest)
}

/// A digest as text.
pub(crate) fn text(digest: &Digest) -> &str {
    std::str::from_utf8(digest).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_in_lower_case() {
        assert_eq!(text(&digest(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(parse(&digest(b"x").to_ascii_uppercase()), Some(digest(b"x")));
        assert_eq!(parse(b"short"), None);
    }
}
