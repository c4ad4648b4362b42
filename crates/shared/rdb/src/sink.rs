//! The output: lengths, strings and numbers in the forms that `source` reads.

use std::io::{self, Write};

use crate::codes::strings;
use crate::crc64::crc64;
use crate::{decimal, lzf};

/// The longest text that is looked at for an integer, in bytes: that of an integer of four.
const INTEGER_LEN_MAX: usize = 11;
/// Strings up to this length are not compressed.
const PLAIN_LEN_MAX: usize = 20;
/// How many bytes shorter a compressed string is, at least.
const GAIN_MIN: usize = 4;

/// An output with the checksum of what was written.
pub(crate) struct Sink<W> {
    output: W,
    crc: u64,
}

impl<W: Write> Sink<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output, crc: 0 }
    }

    /// The checksum of the bytes that were written.
    pub(crate) fn checksum(&self) -> u64 {
        self.crc
    }

    pub(crate) fn into_inner(self) -> W {
        self.output
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc = crc64(self.crc, bytes);
        self.output.write_all(bytes)
    }

    pub(crate) fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.bytes(&[byte])
    }

    /// A number in the form of a length.
    pub(crate) fn length(&mut self, len: u64) -> io::Result<()> {
        match len {
            0..0x40 => self.byte(len as u8),
            0x40..0x4000 => self.bytes(&(len as u16 | 0x4000).to_be_bytes()),
            0x4000..=0xffff_ffff => {
                self.byte(0x80)?;
                self.bytes(&(len as u32).to_be_bytes())
            }
            _ => {
                self.byte(0x81)?;
                self.bytes(&len.to_be_bytes())
            }
        }
    }

    /// A string, in the shortest form.
    pub(crate) fn string(&mut self, string: &[u8]) -> io::Result<()> {
        if let Some(form) = integer_form(string) {
            return self.bytes(&form);
        }
        if string.len() > PLAIN_LEN_MAX
            && let Some(packed) = lzf::compress(string, string.len() - GAIN_MIN)
        {
            self.byte(0xc0 | strings::LZF)?;
            self.length(packed.len() as u64)?;
            self.length(string.len() as u64)?;
            return self.bytes(&packed);
        }
        self.length(string.len() as u64)?;
        self.bytes(string)
    }
}

/// The form of a string that is the text of an integer of four bytes or less.
fn integer_form(string: &[u8]) -> Option<Vec<u8>> {
    if string.len() > INTEGER_LEN_MAX {
        return None;
    }
    let number = i32::try_from(decimal::parse_i64(string)?).ok()?;
    let (form, len) = match number {
        -0x80..0x80 => (strings::INT8, 1),
        -0x8000..0x8000 => (strings::INT16, 2),
        _ => (strings::INT32, 4),
    };
    Some([&[0xc0 | form], &number.to_le_bytes()[..len]].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Limits;
    use crate::source::Source;

    fn written(string: &[u8]) -> Vec<u8> {
        let mut sink = Sink::new(Vec::new());
        sink.string(string).unwrap();
        sink.into_inner()
    }

    #[test]
    fn strings_have_the_shortest_form() {
        assert_eq!(written(b"abc"), b"\x03abc");
        assert_eq!(written(b"-128"), b"\xc0\x80");
        assert_eq!(written(b"128"), b"\xc1\x80\0");
        assert_eq!(written(b"-2147483648"), b"\xc2\0\0\0\x80");
        assert_eq!(written(b"2147483648"), b"\x0a2147483648");
        assert_eq!(written(b"007"), b"\x03007");
        assert_eq!(written(&[b'a'; 20]).len(), 21);
        assert_eq!(written(&[b'a'; 21])[0], 0xc3);
    }

    proptest! {
        #[test]
        fn lengths_and_strings_come_back(len: u64, shift in 0..64, string: Vec<u8>, times in 0..9usize) {
            let (len, string) = (len >> shift, string.repeat(times));
            let mut sink = Sink::new(Vec::new());
            sink.length(len).unwrap();
            sink.string(&string).unwrap();
            let crc = sink.checksum();
            let bytes = sink.into_inner();
            let mut source = Source::new(&bytes[..], Limits::default());
            prop_assert_eq!(source.length("a length").unwrap(), len);
            prop_assert_eq!(source.string("a string").unwrap(), string);
            prop_assert_eq!(source.checksum(), crc);
            prop_assert_eq!(source.offset(), bytes.len() as u64);
        }
    }
}
