//! Bits of long values, eight bytes at a time.

/// The number of bits that are set from `start` to before `end`, which lie in the value.
pub(super) fn count_ones(value: &[u8], start: u64, end: u64) -> u64 {
    if start >= end {
        return 0;
    }
    let (first, last) = ((start >> 3) as usize, ((end - 1) >> 3) as usize);
    let (before, behind) = (before(start), !before_end(end));
    if first == last {
        return u64::from((value[first] & !before & !behind).count_ones());
    }
    let ends = (value[first] & !before).count_ones() + (value[last] & !behind).count_ones();
    u64::from(ends) + count_all(&value[first + 1..last])
}

/// The bits of its byte that lie before a bit.
fn before(bit: u64) -> u8 {
    !(0xff >> (bit & 7))
}

/// The bits of the last byte of a range that lie in it, given the bit behind it.
fn before_end(end: u64) -> u8 {
    match end & 7 {
        0 => 0xff,
        bits => !(0xff >> bits),
    }
}

fn count_all(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words: u64 = words.iter().map(|word| u64::from(ones(*word))).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

fn ones(word: [u8; 8]) -> u32 {
    u64::from_ne_bytes(word).count_ones()
}

/// The first bit from `start` to before `end`, which lie in the value, that is `wanted`.
pub(super) fn find(value: &[u8], wanted: bool, start: u64, end: u64) -> Option<u64> {
    if start >= end {
        return None;
    }
    let (first, last) = ((start >> 3) as usize, ((end - 1) >> 3) as usize);
    let unwanted = if wanted { 0 } else { 0xff };
    // A byte whose set bits are the wanted ones.
    let seek = |byte: u8| byte ^ unwanted;
    let in_byte = |at: usize, byte: u8| at as u64 * 8 + u64::from(byte.leading_zeros());
    let head = seek(value[first]) & !before(start);
    let found = if head != 0 {
        in_byte(first, head)
    } else {
        let at = first + 1 + skip(value.get(first + 1..=last)?, unwanted);
        in_byte(at, seek(*value.get(at).filter(|_| at <= last)?))
    };
    Some(found).filter(|&found| found < end)
}

/// The number of bytes before the first one that is not `unwanted`.
fn skip(bytes: &[u8], unwanted: u8) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let same = words.iter().take_while(|word| **word == [unwanted; 8]).count() * 8;
    same + bytes[same..].iter().take_while(|byte| **byte == unwanted).count()
}

/// Combines each byte of `result` with that of `other` at its place, or with zero behind its end.
pub(super) fn combine(result: &mut [u8], other: &[u8], word: impl Fn(u64, u64) -> u64) {
    let common = result.len().min(other.len());
    let (result, alone) = result.split_at_mut(common);
    let (left, left_rest) = result.as_chunks_mut::<8>();
    let (right, right_rest) = other[..common].as_chunks::<8>();
    for (left, right) in left.iter_mut().zip(right) {
        *left = word(u64::from_ne_bytes(*left), u64::from_ne_bytes(*right)).to_ne_bytes();
    }
    let byte = |left: u8, right: u8| word(u64::from(left), u64::from(right)) as u8;
    left_rest.iter_mut().zip(right_rest).for_each(|(left, right)| *left = byte(*left, *right));
    let (left, left_rest) = alone.as_chunks_mut::<8>();
    left.iter_mut().for_each(|left| *left = word(u64::from_ne_bytes(*left), 0).to_ne_bytes());
    left_rest.iter_mut().for_each(|left| *left = byte(*left, 0));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bit(value: &[u8], at: u64) -> bool {
        value[(at >> 3) as usize] >> (7 - (at & 7)) & 1 == 1
    }

    /// Bytes with long runs of the same bits.
    fn value() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 0..40)
            .prop_map(|bytes| bytes.iter().flat_map(|byte| [*byte; 3]).collect())
    }

    proptest! {
        #[test]
        fn words_count_and_find_what_bits_do(value in value(), a: u64, b: u64, wanted: bool) {
            let len = value.len() as u64 * 8;
            let (a, b) = (a % (len + 1), b % (len + 1));
            let (start, end) = (a.min(b), a.max(b));
            let ones = (start..end).filter(|&at| bit(&value, at)).count() as u64;
            prop_assert_eq!(count_ones(&value, start, end), ones);
            let first = (start..end).find(|&at| bit(&value, at) == wanted);
            prop_assert_eq!(find(&value, wanted, start, end), first);
        }

        #[test]
        fn words_combine_as_bytes_do(left in value(), right in value()) {
            let mut result = left.clone();
            combine(&mut result, &right, |a, b| a & !b | b & 0x5555_5555_5555_5555);
            for (at, byte) in result.iter().enumerate() {
                let other = right.get(at).copied().unwrap_or(0);
                prop_assert_eq!(*byte, left[at] & !other | other & 0x55);
            }
        }
    }
}
