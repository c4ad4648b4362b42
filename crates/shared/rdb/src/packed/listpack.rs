//! Listpacks, since Redis 7.0 the form of all small collections but sets of integers, and of streams.
//!
//! ```text
//! bytes of all, 4 | items, 2 | item... | 0xff                  numbers with the lowest byte first
//!
//! An item is its head, its content, and the length of both:
//!   0xxxxxxx                     an integer of 7 bits, without a sign
//!   10llllll                     a string of l bytes
//!   110xxxxx xxxxxxxx            an integer of 13 bits, the highest first
//!   1110llll llllllll            a string of l bytes, the highest bits first
//!   0xf0, 4 bytes                a string; its length with the lowest byte first
//!   0xf1 to 0xf4                 an integer of 2, 3, 4 or 8 bytes, the lowest first
//! The length has 1 to 5 bytes of 7 bits, the highest first; all bytes but the first have their highest bit set, so
//! that it can be read from its end.
//! ```
//!
//! The number of items is 0xffff if there are as many or more.

use super::{Item, little_endian, split, split_array};
use crate::decimal;
use crate::error::{Defect, defect};

const HEAD_LEN: usize = 6;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;

/// The items of a listpack.
pub(crate) struct Listpack<'a> {
    /// The items that are to come, and the end. `None` after the end or a defect.
    rest: Option<&'a [u8]>,
    count: u16,
    seen: usize,
}

impl<'a> Listpack<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Defect> {
        let (len, rest) = split_array(bytes)?;
        let (count, rest) = split_array(rest)?;
        if u32::from_le_bytes(len) as usize != bytes.len() {
            return defect("it does not have as many bytes as it says");
        }
        Ok(Self { rest: Some(rest), count: u16::from_le_bytes(count), seen: 0 })
    }

    fn step(&mut self, rest: &'a [u8]) -> Result<Option<Item<'a>>, Defect> {
        match rest {
            [END] if self.count == COUNT_UNKNOWN || usize::from(self.count) == self.seen => {
                Ok(None)
            }
            [END] => defect("it does not have as many items as it says"),
            [END, ..] => defect("it goes on behind its end"),
            _ => {
                let (item, after) = item(rest)?;
                let (len, after) = split(after, back_len_of(rest.len() - after.len()).len())?;
                if len != back_len_of(rest.len() - after.len() - len.len()).as_slice() {
                    return defect("the length behind an item is not the item's");
                }
                self.rest = Some(after);
                self.seen += 1;
                Ok(Some(item))
            }
        }
    }
}

impl<'a> Iterator for Listpack<'a> {
    type Item = Result<Item<'a>, Defect>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        self.step(rest).transpose()
    }
}

/// The first item, without the length behind it.
fn item(bytes: &[u8]) -> Result<(Item<'_>, &[u8]), Defect> {
    let Some((&head, rest)) = bytes.split_first() else {
        return defect("it has no end");
    };
    let (string_len, rest) = match head {
        0..=0x7f => return Ok((Item::Integer(head.into()), rest)),
        0x80..=0xbf => (usize::from(head & 0x3f), rest),
        0xc0..=0xdf => {
            let ([low], rest) = split_array(rest)?;
            let number = i64::from(head & 0x1f) << 8 | i64::from(low);
            let number = if number >= 1 << 12 { number - (1 << 13) } else { number };
            return Ok((Item::Integer(number), rest));
        }
        0xe0..=0xef => {
            let ([low], rest) = split_array(rest)?;
            (usize::from(head & 0x0f) << 8 | usize::from(low), rest)
        }
        0xf0 => {
            let (len, rest) = split_array(rest)?;
            (u32::from_le_bytes(len) as usize, rest)
        }
        0xf1..=0xf4 => {
            let len = [2, 3, 4, 8][usize::from(head - 0xf1)];
            let (number, rest) = split(rest, len)?;
            return Ok((Item::Integer(little_endian(number)), rest));
        }
        _ => return defect("an item is of no kind that there is"),
    };
    let (string, rest) = split(rest, string_len)?;
    Ok((Item::Bytes(string), rest))
}

/// Up to five bytes.
struct BackLen {
    bytes: [u8; 5],
    len: usize,
}

impl BackLen {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[5 - self.len..]
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// The length behind an item of `len` bytes.
fn back_len_of(len: usize) -> BackLen {
    let mut back = BackLen { bytes: [0; 5], len: 0 };
    let mut left = len;
    // Redis gives the highest number of two, three and four bytes a byte more than it needs.
    let wanted = match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    while back.len < wanted {
        back.len += 1;
        let is_first = back.len == wanted;
        back.bytes[5 - back.len] = (left & 0x7f) as u8 | if is_first { 0 } else { 0x80 };
        left >>= 7;
    }
    back
}

/// Makes a listpack.
pub(crate) struct Builder {
    bytes: Vec<u8>,
    count: usize,
}

impl Builder {
    /// The bytes that an item takes at most beside its own.
    pub(crate) const ITEM_BYTES: usize = 10;

    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; HEAD_LEN], count: 0 }
    }

    /// Adds a string; one that is an integer's text as the integer.
    pub(crate) fn push(&mut self, string: &[u8]) {
        match decimal::parse_i64(string) {
            Some(number) => self.push_integer(number),
            None => self.push_string(string),
        }
    }

    pub(crate) fn push_integer(&mut self, number: i64) {
        let begin = self.bytes.len();
        let bytes = number.to_le_bytes();
        match number {
            0..0x80 => self.bytes.push(bytes[0]),
            -0x1000..0x1000 => self.bytes.extend([0xc0 | bytes[1] & 0x1f, bytes[0]]),
            -0x8000..0x8000 => self.put(0xf1, &bytes[..2]),
            -0x80_0000..0x80_0000 => self.put(0xf2, &bytes[..3]),
            -0x8000_0000..0x8000_0000 => self.put(0xf3, &bytes[..4]),
            _ => self.put(0xf4, &bytes),
        }
        self.end_item(begin);
    }

    fn push_string(&mut self, string: &[u8]) {
        let begin = self.bytes.len();
        let len = (string.len() as u32).to_le_bytes();
        match string.len() {
            0..0x40 => self.bytes.push(0x80 | len[0]),
            0x40..0x1000 => self.bytes.extend([0xe0 | len[1], len[0]]),
            _ => self.put(0xf0, &len),
        }
        self.bytes.extend_from_slice(string);
        self.end_item(begin);
    }

    fn put(&mut self, head: u8, bytes: &[u8]) {
        self.bytes.push(head);
        self.bytes.extend_from_slice(bytes);
    }

    fn end_item(&mut self, begin: usize) {
        self.bytes.extend_from_slice(back_len_of(self.bytes.len() - begin).as_slice());
        self.count += 1;
    }

    /// The number of items.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let len = self.bytes.len() as u32;
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN);
        self.bytes[..4].copy_from_slice(&len.to_le_bytes());
        self.bytes[4..HEAD_LEN].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn items(bytes: &[u8]) -> Result<Vec<Item<'_>>, Defect> {
        Listpack::new(bytes)?.collect()
    }

    fn why(bytes: &[u8]) -> String {
        items(bytes).unwrap_err().to_string()
    }

    proptest! {
        #[test]
        fn strings_come_back(strings in vec(vec(any::<u8>(), 0..200), 0..50)) {
            let mut builder = Builder::new();
            strings.iter().for_each(|string| builder.push(string));
            let bytes = builder.finish();
            let read: Vec<_> = items(&bytes).unwrap().into_iter().map(Item::into_vec).collect();
            prop_assert_eq!(read, strings);
        }

        #[test]
        fn integers_come_back(numbers in vec((any::<i64>(), 0..64u32), 0..50)) {
            let numbers: Vec<_> = numbers.iter().map(|(number, shift)| number >> shift).collect();
            let mut builder = Builder::new();
            numbers.iter().for_each(|number| builder.push_integer(*number));
            let bytes = builder.finish();
            let expected: Vec<_> = numbers.into_iter().map(Item::Integer).collect();
            prop_assert_eq!(items(&bytes).unwrap(), expected);
        }

        #[test]
        fn any_bytes_are_a_listpack_or_refused(mut bytes in vec(any::<u8>(), 6..100)) {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            bytes[4..6].fill(0xff);
            let _ = items(&bytes);
        }
    }

    #[test]
    fn items_of_all_kinds_are_read() {
        let long = [b'x'; 5000];
        let mut bytes = vec![0; 6];
        bytes.extend(b"\x7f\x01\x82ab\x03\xdf\xff\x02\xcf\xff\x02\xe0\x01z\x03\xf0\x01\0\0\0y\x06");
        bytes.extend(b"\xf1\0\x80\x03\xf2\0\0\x80\x04\xf3\0\0\0\x80\x05\xf4\0\0\0\0\0\0\0\x80\x09");
        bytes.extend([&b"\xf0\x88\x13\0\0"[..], &long, b"\x27\x8d\xff"].concat());
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4] = 11;
        let integer = Item::Integer;
        let expected = [
            integer(127),
            Item::Bytes(b"ab"),
            integer(-1),
            integer(4095),
            Item::Bytes(b"z"),
            Item::Bytes(b"y"),
            integer(-0x8000),
            integer(-0x80_0000),
            integer(-0x8000_0000),
            integer(i64::MIN),
            Item::Bytes(&long),
        ];
        assert_eq!(items(&bytes).unwrap(), expected);
    }

    #[test]
    fn lengths_behind_items_are_as_redis_writes_them() {
        for (len, bytes) in [
            (1, &[1][..]),
            (127, &[127]),
            (128, &[1, 0x80]),
            (16_382, &[127, 0xfe]),
            (16_383, &[0, 0xff, 0xff]),
            (2_097_151, &[0, 0xff, 0xff, 0xff]),
            (268_435_455, &[0, 0xff, 0xff, 0xff, 0xff]),
        ] {
            assert_eq!(back_len_of(len).as_slice(), bytes, "{len}");
        }
    }

    #[test]
    fn wrong_bytes_are_refused_with_the_reason() {
        assert_eq!(why(b"\x07\0\0"), "it ends in the middle of an item");
        assert_eq!(why(b"\x08\0\0\0\0\0\xff"), "it does not have as many bytes as it says");
        assert_eq!(why(b"\x07\0\0\0\x01\0\xff"), "it does not have as many items as it says");
        assert_eq!(why(b"\x08\0\0\0\0\0\xff\xff"), "it goes on behind its end");
        assert_eq!(why(b"\x06\0\0\0\0\0"), "it has no end");
        assert_eq!(why(b"\x08\0\0\0\x01\0\x05\x01"), "it has no end");
        let wrong_len = b"\x09\0\0\0\x01\0\x05\x02\xff";
        assert_eq!(why(wrong_len), "the length behind an item is not the item's");
        assert_eq!(why(b"\x08\0\0\0\x01\0\x83a"), "it ends in the middle of an item");
        assert_eq!(why(b"\x08\0\0\0\x01\0\xf5\xff"), "an item is of no kind that there is");
    }
}
