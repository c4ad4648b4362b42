//! Passwords: only their digests are kept.

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a password.
#[derive(Clone, Copy)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn of(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }

    /// A digest from its 64 hexadecimal digits, which must be in lower case.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let text: &[u8; 64] = text.try_into().ok()?;
        let mut digest = [0; 32];
        for (byte, [high, low]) in digest.iter_mut().zip(text.as_chunks::<2>().0) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(digest))
    }

    /// The digest as hexadecimal digits.
    pub(crate) fn hex(&self) -> String {
        hex(&self.0)
    }
}

impl PartialEq for Digest {
    /// Compares in a time that depends on neither of the two.
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        pairs.fold(0, |difference, (one, other)| difference | std::hint::black_box(one ^ other))
            == 0
    }
}

impl Eq for Digest {}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digest(<not shown>)")
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_64_digits_in_lower_case() {
        let text = "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90";
        assert_eq!(Digest::of(b"alice").hex(), text);
        assert!(Digest::parse(text.as_bytes()) == Some(Digest::of(b"alice")));
        assert!(Digest::of(b"alice") != Digest::of(b"bob"));
        for wrong in ["", &text[1..], &text.to_uppercase(), &text.replace('2', "g")] {
            assert!(Digest::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(!format!("{:?}", Digest::of(b"alice")).contains("2bd8"));
    }
}
