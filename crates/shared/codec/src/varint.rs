//! Numbers in as few bytes as they need, seven bits a byte, and byte strings with their lengths before them.

/// Appends a number: the low seven bits first, the high bit set in all bytes but the last.
#[inline]
pub fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends bytes and, before them, how many they are.
#[inline]
pub fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    #[test]
    fn numbers_of_any_length_are_read_as_they_were_written() {
        for number in (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, u64::MAX >> bit]) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let mut reader = Reader(&bytes);
            assert_eq!((reader.varint(), reader.is_empty()), (Ok(number), true));
            assert!(Reader(&bytes[..bytes.len() - 1]).varint().is_err());
        }
        assert!(Reader(&[0xff; 10]).varint().is_err());
    }
}
