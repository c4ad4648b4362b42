//! A key that is looked for, or put in.

/// Bytes of a key that a node keeps: those before its level.
pub(super) const WINDOW: usize = 16;

/// A key, with its beginning where it can be compared at once.
pub(super) struct Sought<'k> {
    pub(super) key: &'k [u8],
    /// The first bytes, then zeros; little-endian.
    head: u128,
}

impl<'k> Sought<'k> {
    #[inline]
    pub(super) fn new(key: &'k [u8]) -> Self {
        let head = match key.first_chunk::<WINDOW>() {
            Some(head) => u128::from_le_bytes(*head),
            None => short(key),
        };
        Self { key, head }
    }

    /// The bytes before `level`, as many as a node keeps; zeros where the key has none.
    #[inline]
    pub(super) fn window(&self, level: usize) -> u128 {
        if level <= WINDOW {
            let unused = 8 * (WINDOW - level) as u32;
            // At level 0 no byte is left.
            return self.head.checked_shl(unused).map_or(0, |head| head >> unused);
        }
        let start = level - WINDOW;
        match self.key.get(start..level) {
            Some(bytes) => bytes.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes)),
            None => short(self.key.get(start..).unwrap_or_default()),
        }
    }

    /// The byte behind which a node at `level` has this key; none if the key ends there.
    #[inline]
    pub(super) fn byte(&self, level: usize) -> Option<u8> {
        self.key.get(level).copied()
    }
}

/// Fewer bytes than a node keeps, and zeros. Read as overlapping words: a load of memory that was just
/// stored byte by byte has to wait for these stores.
#[inline]
fn short(bytes: &[u8]) -> u128 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u128::from(u64::from_le_bytes(*last));
        return u128::from(u64::from_le_bytes(*first)) | last << (8 * (bytes.len() - 8));
    }
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u128::from(byte))
}

/// How many bytes two keys have in common from their start on.
pub(super) fn common_len(one: &[u8], other: &[u8]) -> usize {
    let words = one.chunks_exact(8).zip(other.chunks_exact(8));
    let equal = 8 * words.take_while(|(one, other)| one == other).count();
    let rest = one[equal..].iter().zip(&other[equal..]);
    equal + rest.take_while(|(one, other)| one == other).count()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_the_bytes_before_a_level() {
        let key: Vec<u8> = (1..=40).collect();
        for len in 0..=key.len() {
            let sought = Sought::new(&key[..len]);
            for level in 0..=key.len() {
                let expected: Vec<u8> = (level.saturating_sub(WINDOW)..level)
                    .map(|at| if at < len { key[at] } else { 0 })
                    .chain([0; WINDOW])
                    .take(WINDOW)
                    .collect();
                assert_eq!(sought.window(level).to_le_bytes()[..], expected, "{level} of {len}");
            }
        }
    }

    #[test]
    fn common_bytes_are_counted_exactly() {
        let key = [7; 40];
        for len in 0..=40 {
            assert_eq!(common_len(&key, &key[..len]), len);
            for other in 0..len {
                let mut changed = key;
                changed[other] = 8;
                assert_eq!(common_len(&key[..len], &changed), other);
            }
        }
    }
}
