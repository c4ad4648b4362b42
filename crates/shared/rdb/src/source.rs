//! The input: bytes, numbers, lengths and strings, one after the other.
//!
//! ```text
//! A length:   00llllll                 l
//!             01llllll llllllll        l
//!             0x80, 4 bytes            the highest byte first
//!             0x81, 8 bytes            the highest byte first
//!             11cccccc                 none: the string that follows has the form c
//!
//! A string:   its length and its bytes, or
//!             form 0, 1, 2             the decimal text of an integer of 1, 2 or 4 bytes, the lowest first
//!             form 3                   compressed: length, decompressed length, bytes (`lzf`)
//! ```

use std::io::{self, BufRead};

use crate::codes::strings;
use crate::crc64::crc64;
use crate::error::{Defect, Error, Result, Why};
use crate::{Limits, decimal, lzf};

/// Bytes for which memory is taken before they have arrived.
const STEP: usize = 64 << 10;

/// An input with its offset, its checksum, and the memory that the value being read may still take.
pub(crate) struct Source<R> {
    input: R,
    offset: u64,
    crc: u64,
    limits: Limits,
    value_bytes_left: u64,
}

/// A length, or the special form in its place.
enum Length {
    Bytes(u64),
    /// The form of a string that is not plain.
    Form(u8),
}

impl<R: BufRead> Source<R> {
    pub(crate) fn new(input: R, limits: Limits) -> Self {
        let value_bytes_left = limits.value_bytes_max;
        Self { input, offset: 0, crc: 0, limits, value_bytes_left }
    }

    /// The number of bytes that were read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The checksum of the bytes since [`Source::begin_checksum`].
    pub(crate) fn checksum(&self) -> u64 {
        self.crc
    }

    pub(crate) fn begin_checksum(&mut self) {
        self.crc = 0;
    }

    /// Begins a value, which may take memory up to the limit.
    pub(crate) fn begin_value(&mut self) {
        self.value_bytes_left = self.limits.value_bytes_max;
    }

    pub(crate) fn into_inner(self) -> R {
        self.input
    }

    /// The error of a part that begins at `offset`.
    pub(crate) fn refuse<T>(
        &self,
        part: &'static str,
        offset: u64,
        why: impl Into<Why>,
    ) -> Result<T> {
        Err(Error::new(offset, part, why))
    }

    /// The next byte, which is read again. `None` at the end of the input.
    pub(crate) fn peek(&mut self, part: &'static str) -> Result<Option<u8>> {
        let offset = self.offset;
        let buffered = fill(&mut self.input);
        buffered
            .map(|bytes| bytes.first().copied())
            .map_err(|error| Error::new(offset, part, error))
    }

    pub(crate) fn byte(&mut self, part: &'static str) -> Result<u8> {
        self.array(part).map(|[byte]: [u8; 1]| byte)
    }

    pub(crate) fn array<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N]> {
        let (mut bytes, mut filled, begin) = ([0; N], 0, self.offset);
        self.pieces(part, N as u64, begin, |piece| {
            bytes[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        })?;
        Ok(bytes)
    }

    /// Passes over bytes.
    pub(crate) fn skip(&mut self, part: &'static str, len: u64) -> Result<()> {
        self.pieces(part, len, self.offset, |_| ())
    }

    /// So many bytes, for which memory was not counted yet.
    pub(crate) fn bytes(&mut self, part: &'static str, len: u64) -> Result<Vec<u8>> {
        let begin = self.offset;
        let len = self.counted(part, len, begin)?;
        let mut bytes = Vec::with_capacity(len.min(STEP));
        self.pieces(part, len as u64, begin, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Counts the memory of a string, and returns its length.
    fn counted(&mut self, part: &'static str, len: u64, begin: u64) -> Result<usize> {
        let limit = self.limits.string_len_max as u64;
        if len > limit {
            return self.refuse(part, begin, Why::TooLong { len, limit });
        }
        self.count(part, len)?;
        Ok(len as usize)
    }

    /// Counts the memory of an element with `len` bytes.
    pub(crate) fn count(&mut self, part: &'static str, len: u64) -> Result<()> {
        let taken = len + Limits::ELEMENT_BYTES;
        match self.value_bytes_left.checked_sub(taken) {
            Some(left) => {
                self.value_bytes_left = left;
                Ok(())
            }
            None => {
                let limit = self.limits.value_bytes_max;
                let len = limit - self.value_bytes_left + taken;
                self.refuse(part, self.offset, Why::TooLong { len, limit })
            }
        }
    }

    /// Reads a line without its end, `\r\n`, of at most `N` bytes.
    pub(crate) fn line<const N: usize>(&mut self, part: &'static str) -> Result<Vec<u8>> {
        let begin = self.offset;
        let mut line = Vec::new();
        loop {
            match self.byte(part) {
                Ok(b'\n') => break,
                Ok(byte) if line.len() < N => line.push(byte),
                Ok(_) => return self.refuse(part, begin, Defect::new("its line has no end")),
                Err(error) => return Err(Error { offset: begin, ..error }),
            }
        }
        match line.pop() {
            Some(b'\r') => Ok(line),
            _ => self.refuse(part, begin, Defect::new("its line does not end with \\r\\n")),
        }
    }

    /// A number of things that follow, or a number in the form of a length.
    pub(crate) fn length(&mut self, part: &'static str) -> Result<u64> {
        let begin = self.offset;
        match self.length_or_form(part)? {
            Length::Bytes(len) => Ok(len),
            Length::Form(_) => {
                self.refuse(part, begin, Defect::new("it has a string in the place of a length"))
            }
        }
    }

    /// A string, decompressed; an integer in decimal.
    pub(crate) fn string(&mut self, part: &'static str) -> Result<Vec<u8>> {
        let begin = self.offset;
        let form = match self.length_or_form(part)? {
            Length::Bytes(len) => return self.bytes(part, len),
            Length::Form(form) => form,
        };
        let number = match form {
            strings::INT8 => i8::from_le_bytes(self.array(part)?).into(),
            strings::INT16 => i16::from_le_bytes(self.array(part)?).into(),
            strings::INT32 => i32::from_le_bytes(self.array(part)?).into(),
            strings::LZF => return self.compressed(part, begin),
            _ => {
                return self.refuse(
                    part,
                    begin,
                    Defect::new("its string is in no form that there is"),
                );
            }
        };
        let text = decimal::integer(number);
        self.count(part, text.len() as u64)?;
        Ok(text)
    }

    /// Passes over a string.
    pub(crate) fn skip_string(&mut self, part: &'static str) -> Result<()> {
        let begin = self.offset;
        let len = match self.length_or_form(part)? {
            Length::Bytes(len) => len,
            Length::Form(strings::INT8) => 1,
            Length::Form(strings::INT16) => 2,
            Length::Form(strings::INT32) => 4,
            Length::Form(strings::LZF) => {
                let len = self.length(part)?;
                self.length(part)?;
                len
            }
            Length::Form(_) => {
                return self.refuse(
                    part,
                    begin,
                    Defect::new("its string is in no form that there is"),
                );
            }
        };
        self.skip(part, len)
    }

    fn compressed(&mut self, part: &'static str, begin: u64) -> Result<Vec<u8>> {
        let packed_len = self.length(part)?;
        let len = self.length(part)?;
        if !lzf::is_possible(packed_len, len) {
            let why = Defect::from_text(format!(
                "{packed_len} compressed bytes cannot decompress to {len}"
            ));
            return self.refuse(part, begin, why);
        }
        let len = self.counted(part, len, begin)?;
        let left = self.value_bytes_left;
        let packed = self.bytes(part, packed_len)?;
        // The compressed bytes are dropped again.
        self.value_bytes_left = left;
        lzf::decompress(&packed, len).or_else(|why| self.refuse(part, begin, why))
    }

    fn length_or_form(&mut self, part: &'static str) -> Result<Length> {
        let begin = self.offset;
        let first = self.byte(part)?;
        let low = first & 0x3f;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Bytes(low.into()),
            (1, _) => Length::Bytes(u16::from_be_bytes([low, self.byte(part)?]).into()),
            (3, _) => Length::Form(low),
            (_, 0x80) => Length::Bytes(u32::from_be_bytes(self.array(part)?).into()),
            (_, 0x81) => Length::Bytes(u64::from_be_bytes(self.array(part)?)),
            _ => {
                return self.refuse(
                    part,
                    begin,
                    Defect::new("a length is in no form that there is"),
                );
            }
        })
    }

    /// Reads so many bytes, as they arrive.
    fn pieces(
        &mut self,
        part: &'static str,
        len: u64,
        begin: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let bytes = fill(&mut self.input).map_err(|error| Error::new(begin, part, error))?;
            if bytes.is_empty() {
                return Err(Error::new(begin, part, Why::Ended));
            }
            let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            let bytes = &bytes[..count];
            self.crc = crc64(self.crc, bytes);
            take(bytes);
            self.input.consume(count);
            left -= count as u64;
            self.offset += count as u64;
        }
        Ok(())
    }
}

/// The bytes that are at hand, at least one unless the input is at its end.
fn fill(input: &mut impl BufRead) -> io::Result<&[u8]> {
    // An interrupted call is repeated; the borrow checker wants it apart from the one whose bytes are returned.
    while let Err(error) = input.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    input.fill_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(bytes: &[u8]) -> Source<&[u8]> {
        Source::new(bytes, Limits::default().string_len_max(100).value_bytes_max(1000))
    }

    fn string(bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
        source(bytes).string("a string").map_err(|error| error.to_string())
    }

    #[test]
    fn strings_of_all_forms_are_read() {
        for (bytes, text) in [
            (&b"\x03abc"[..], &b"abc"[..]),
            (b"\x40\x03abc", b"abc"),
            (b"\x80\0\0\0\x03abc", b"abc"),
            (b"\x81\0\0\0\0\0\0\0\x03abc", b"abc"),
            (b"\xc0\x80", b"-128"),
            (b"\xc1\0\x80", b"-32768"),
            (b"\xc2\0\0\0\x80", b"-2147483648"),
            (b"\xc3\x05\x0d\x00a\xe0\x03\x00", b"aaaaaaaaaaaaa"),
            (b"\0", b""),
        ] {
            assert_eq!(string(bytes).unwrap(), text);
            let mut source = source(bytes);
            source.skip_string("a string").unwrap();
            assert_eq!(source.offset(), bytes.len() as u64);
        }
    }

    #[test]
    fn wrong_strings_are_refused_with_place_and_reason() {
        for (bytes, why) in [
            (&b""[..], "at byte 0, in a string: it ends too early"),
            (b"\x03ab", "at byte 1, in a string: it ends too early"),
            (b"\xc1\0", "at byte 1, in a string: it ends too early"),
            (b"\x82", "at byte 0, in a string: a length is in no form that there is"),
            (b"\xc4", "at byte 0, in a string: its string is in no form that there is"),
            (b"\x40\x65", "at byte 2, in a string: it has 101 bytes; the limit is 100"),
            (
                b"\x81\xff\xff\xff\xff\xff\xff\xff\xff",
                "at byte 9, in a string: it has 18446744073709551615 bytes; the limit is 100",
            ),
            (
                b"\xc3\x01\x40\x64a",
                "at byte 0, in a string: 1 compressed bytes cannot decompress to 100",
            ),
            (b"\xc3\x02\x02\x02a", "at byte 0, in a string: its compressed bytes end too early"),
            (b"\xc3\xc0", "at byte 1, in a string: it has a string in the place of a length"),
        ] {
            assert_eq!(string(bytes).unwrap_err(), why);
        }
    }

    #[test]
    fn the_memory_of_a_value_is_limited() {
        let bytes = b"\x03abc".repeat(40);
        let mut source = source(&bytes);
        let read = (0..40).filter(|_| source.string("a string").is_ok()).count();
        assert_eq!(read as u64, 1000 / (3 + Limits::ELEMENT_BYTES));
        source.begin_value();
        assert!(source.count("a string", 968).is_ok());
        let error = source.count("a string", 0).unwrap_err().to_string();
        assert!(error.ends_with("it has 1032 bytes; the limit is 1000"), "{error}");
    }

    #[test]
    fn lines_end_with_both_bytes() {
        assert_eq!(source(b"*3\r\n").line::<10>("a line").unwrap(), b"*3");
        for bytes in [&b"*3\n"[..], b"\n", b"12345678901\r\n", b"*3\r"] {
            assert!(source(bytes).line::<10>("a line").is_err());
        }
    }
}
