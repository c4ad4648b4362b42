//! A reader of encoded bytes that come from a stranger.

use crate::{Error, Result};

/// Reads from the front of bytes that are not checked yet: all lengths and numbers in them are compared with what is
/// there.
///
/// The bytes that are left are its field, for readers with a shorter way for what is frequent.
#[derive(Clone, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Whether everything was read.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`], and nothing is taken; so for numbers of a fixed length.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// The next byte.
    ///
    /// # Errors
    /// See [`Reader::take`].
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next number of 2 bytes, little-endian like all of them.
    ///
    /// # Errors
    /// See [`Reader::take`].
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next number of 4 bytes.
    ///
    /// # Errors
    /// See [`Reader::take`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next number of 8 bytes.
    ///
    /// # Errors
    /// See [`Reader::take`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next number of 16 bytes.
    ///
    /// # Errors
    /// See [`Reader::take`].
    #[inline]
    pub fn u128(&mut self) -> Result<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// The next varint ([`put_varint`](crate::put_varint)).
    ///
    /// # Errors
    /// [`Error::UnendedNumber`], [`Error::NumberOver64Bits`].
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        let mut number = 0;
        for (at, &byte) in self.0.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 {
                return Err(Error::NumberOver64Bits);
            }
            number |= bits << (7 * at);
            if byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(Error::UnendedNumber)
    }

    /// The next varint, which has at most 32 bits.
    ///
    /// # Errors
    /// [`Error::NumberOver32Bits`], and those of [`Reader::varint`].
    #[inline]
    pub fn varint_u32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| Error::NumberOver32Bits)
    }

    /// The next byte string, with its length before it as a varint ([`put_bytes`](crate::put_bytes)).
    ///
    /// # Errors
    /// [`Error::Truncated`], and those of [`Reader::varint`].
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| Error::Truncated)?)
    }

    /// The next byte string, with its length before it as a number of 4 bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    #[inline]
    pub fn sized(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_all_there_is_not_read() {
        let bytes: Vec<u8> = (1..=40).collect();
        let mut reader = Reader(&bytes);
        assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Ok(1), Ok(0x302), Ok(0x706_0504)));
        assert_eq!(reader.u64(), Ok(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(reader.u128().map(|number| number as u8), Ok(16));
        assert_eq!(reader.take(10), Err(Error::Truncated));
        assert_eq!((reader.u128(), reader.take(8)), (Err(Error::Truncated), Ok(&bytes[31..39])));
        assert_eq!((reader.u8(), reader.u8()), (Ok(40), Err(Error::Truncated)));
        assert_eq!(Reader(&[3, 7, 8]).bytes(), Err(Error::Truncated));
        assert_eq!(Reader(&[2, 7, 8, 9]).bytes(), Ok(&[7, 8][..]));
        assert_eq!(Reader(&[2, 0, 0, 0, 7]).sized(), Err(Error::Truncated));
        assert_eq!(Reader(&[1, 0, 0, 0, 7]).sized(), Ok(&[7][..]));
        assert_eq!(Reader(&[0xff; 10]).varint(), Err(Error::NumberOver64Bits));
        assert_eq!(Reader(&[0xff; 9]).varint(), Err(Error::UnendedNumber));
        assert_eq!(
            Reader(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint_u32(),
            Err(Error::NumberOver32Bits)
        );
    }
}
