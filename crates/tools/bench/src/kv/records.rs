//! The records of a workload: numbers turned into keys and values, and values into proof.
//!
//! A value begins with a hash of its key and a version; the rest is random bytes that follow from these 8. So a reader
//! of a value can tell whether it was written for this key, whether it is whole, and by which write.

use std::sync::Arc;

use fastrand::Rng;

use crate::mix::mix;

/// The least bytes of a value: the hash and the version.
pub(crate) const VALUE_LEN_MIN: usize = 8;

/// Versions are below this.
pub(crate) const VERSIONS: u64 = 1 << 24;

/// How keys are made of record numbers. Numbers in order give keys in no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// YCSB's hashed order of inserts: `user` and the decimal digits of the number's FNV hash.
    User,
    /// The hash with zeros in front up to 20 digits, so that all keys have 24 bytes.
    Padded,
    /// `PiBench`'s: the number times an odd constant (Knuth's multiplicative hash), big-endian,
    /// behind a prefix that fills it up to `len` bytes.
    Multiplicative {
        /// Bytes of a key, at least 8.
        len: usize,
    },
    /// Bits of the number and the seed, mixed, in the first 16 bytes; then a filling.
    Mixed {
        /// Bytes of a key, at least 8.
        len: usize,
    },
}

impl KeyForm {
    /// Bytes of the longest key.
    pub(crate) fn len_max(self) -> usize {
        match self {
            Self::User => "user".len() + 19,
            Self::Padded => "user".len() + DIGITS,
            Self::Multiplicative { len } | Self::Mixed { len } => len,
        }
    }
}

/// Turns a record's number into its key and values, with the same few instructions for every store.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    form: KeyForm,
    key: Vec<u8>,
    value: Vec<u8>,
    seed: u64,
    /// Random bytes; the rest of a value is a window of them.
    noise: Arc<[u8]>,
}

const NOISE: usize = 64 << 10;

/// Digits of a padded key.
const DIGITS: usize = 20;

/// Knuth's multiplier: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Records {
    pub(crate) fn new(form: KeyForm, value_len: usize, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let words = (NOISE + value_len).div_ceil(8);
        let noise = (0..words).flat_map(|_| random.u64(..).to_le_bytes()).collect();
        let key = match form {
            KeyForm::User => b"user".to_vec(),
            KeyForm::Padded => [b"user".as_slice(), &[b'0'; DIGITS]].concat(),
            KeyForm::Multiplicative { len } | KeyForm::Mixed { len } => vec![b'k'; len],
        };
        Self { form, key, value: vec![0; value_len], seed, noise }
    }

    /// The key of a record; different numbers, different keys.
    pub(crate) fn key(&mut self, number: u64) -> &[u8] {
        match self.form {
            KeyForm::User => {
                self.key.truncate("user".len());
                push_decimal(&mut self.key, fnv_hash(number));
            }
            KeyForm::Padded => {
                let mut rest = fnv_hash(number);
                for digit in self.key["user".len()..].iter_mut().rev() {
                    *digit = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
            }
            KeyForm::Multiplicative { len } => {
                self.key[len - 8..].copy_from_slice(&number.wrapping_mul(GOLDEN).to_be_bytes());
            }
            KeyForm::Mixed { .. } => {
                let mixed = mix(number ^ mix(self.seed));
                self.key[..8].copy_from_slice(&mixed.to_be_bytes());
                if let Some(second) = self.key.get_mut(8..16) {
                    second.copy_from_slice(&mix(mixed).to_be_bytes());
                }
            }
        }
        &self.key
    }

    /// The key of the last call.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.key
    }

    /// The key and the value of a record's `version`.
    pub(crate) fn pair(&mut self, number: u64, version: u64) -> (&[u8], &[u8]) {
        self.key(number);
        let tag = key_tag(&self.key) | (version % VERSIONS);
        let (head, rest) = self.value.split_at_mut(VALUE_LEN_MIN);
        head.copy_from_slice(&tag.to_le_bytes());
        rest.copy_from_slice(window(&self.noise, tag, rest.len()));
        (&self.key, &self.value)
    }

    /// The version of a value that was written for this key; `None` if it was not.
    pub(crate) fn version(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        if value.len() != self.value.len() {
            return None;
        }
        let (head, rest) = value.split_at(VALUE_LEN_MIN);
        let tag = u64::from_le_bytes(head.try_into().ok()?);
        let whole =
            tag & !(VERSIONS - 1) == key_tag(key) && rest == window(&self.noise, tag, rest.len());
        whole.then_some(tag % VERSIONS)
    }
}

/// A hash of the key, with room for a version.
fn key_tag(key: &[u8]) -> u64 {
    let mut hash = key.len() as u64;
    let mut words = key.chunks_exact(8);
    for word in &mut words {
        hash = mix(hash ^ u64::from_le_bytes(word.try_into().unwrap_or_default()));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    mix(hash ^ u64::from_le_bytes(last)) & !(VERSIONS - 1)
}

fn window(noise: &[u8], tag: u64, len: usize) -> &[u8] {
    let start = mix(tag) as usize % NOISE;
    &noise[start..start + len]
}

/// YCSB's hash of a record number (its `fnvhash64`): FNV-1a over the 8 bytes, the lowest first, and
/// then the magnitude of that as a signed number.
pub(crate) fn fnv_hash(number: u64) -> u64 {
    let hash = number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash.cast_signed().unsigned_abs()
}

/// Appends the digits of a number.
pub(crate) fn push_decimal(to: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    to.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const FORMS: [KeyForm; 5] = [
        KeyForm::User,
        KeyForm::Padded,
        KeyForm::Multiplicative { len: 8 },
        KeyForm::Multiplicative { len: 21 },
        KeyForm::Mixed { len: 16 },
    ];

    #[test]
    fn keys_are_those_of_ycsb() {
        let mut records = Records::new(KeyForm::User, 100, 1);
        assert_eq!(records.key(0), b"user6284781860667377211");
        assert_eq!(records.key(1), b"user8517097267634966620");
        assert_eq!(records.key(2), b"user1820151046732198393");
        let mut padded = Records::new(KeyForm::Padded, 100, 1);
        assert_eq!(padded.key(0), b"user06284781860667377211");
        assert!((0..10_000).all(|number| padded.key(number).len() == 24));
    }

    #[test]
    fn keys_are_distinct_and_no_longer_than_they_may_be() {
        for form in FORMS {
            let mut records = Records::new(form, 8, 1);
            let keys: BTreeSet<_> =
                (0..10_000).map(|number| records.key(number).to_vec()).collect();
            assert_eq!(keys.len(), 10_000);
            assert!(keys.iter().all(|key| key.len() <= form.len_max()));
        }
    }

    #[test]
    fn a_value_proves_its_key_and_its_version() {
        for (form, value_len) in FORMS.into_iter().zip([1000, 100, 8, 9, 100]) {
            let mut records = Records::new(form, value_len, 7);
            let (key, value) = records.pair(77, 5);
            let (key, value) = (key.to_vec(), value.to_vec());
            assert_eq!(records.version(&key, &value), Some(5));
            let other = records.key(78).to_vec();
            assert_eq!(records.version(&other, &value), None);
            assert_eq!(records.version(&key, &value[1..]), None);
            for bit in [40, 8 * value_len - 1] {
                let mut torn = value.clone();
                torn[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(records.version(&key, &torn), None, "{form:?} {bit}");
            }
            let mut again = Records::new(form, value_len, 7);
            assert_eq!(again.pair(77, 5), (&key[..], &value[..]));
        }
    }
}
