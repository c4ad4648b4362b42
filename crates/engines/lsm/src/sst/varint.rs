//! Numbers in as few bytes as they need, seven bits a byte, and a reader of what is encoded so.

use super::Parsed;

/// Appends a number: the low seven bits first, the high bit set in all bytes but the last.
pub(crate) fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends bytes and, before them, how many they are.
pub(crate) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// Reads from the front of bytes that are not checked yet.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("it ends in the middle")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("it ends in the middle")?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Parsed<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Parsed<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Parsed<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Parsed<u128> {
        self.array().map(u128::from_le_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Parsed<u64> {
        let mut number = 0;
        for (at, &byte) in self.0.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 {
                return Err("a number has more than 64 bits");
            }
            number |= bits << (7 * at);
            if byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err("a number does not end")
    }

    pub(crate) fn varint_u32(&mut self) -> Parsed<u32> {
        u32::try_from(self.varint()?).map_err(|_| "a number has more than 32 bits")
    }

    pub(crate) fn bytes(&mut self) -> Parsed<&'a [u8]> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| "it ends in the middle")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
