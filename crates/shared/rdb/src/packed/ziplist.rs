//! Ziplists, which listpacks replaced.
//!
//! ```text
//! bytes of all, 4 | offset of the last item, 4 | items, 2 | item... | 0xff
//!                                                              numbers with the lowest byte first
//!
//! An item is the length of the one before it, its head, and its content:
//!   length                 1 byte if it is less than 254, else 0xfe and 4 bytes
//!   00llllll               a string of l bytes
//!   01llllll llllllll      a string of l bytes, the highest bits first
//!   0x80, 4 bytes          a string; its length with the highest byte first
//!   0xc0, 0xd0, 0xe0       an integer of 2, 4 or 8 bytes, the lowest first
//!   0xf0, 0xfe             an integer of 3 bytes, or of 1
//!   0xf1 to 0xfd           an integer from 0 to 12
//! ```
//!
//! The number of items is 0xffff if there are as many or more.

use super::{Item, little_endian, split, split_array};
use crate::error::{Defect, defect};

const HEAD_LEN: usize = 10;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;
/// The first byte of a length of five bytes.
const LONG_LEN: u8 = 0xfe;

/// The items of a ziplist.
pub(crate) struct Ziplist<'a> {
    /// The items that are to come, and the end. `None` after the end or a defect.
    rest: Option<&'a [u8]>,
    len: usize,
    /// The offset of the last item, as the ziplist says it.
    last: usize,
    /// The offset of the item before, and its length.
    before: (usize, usize),
    count: u16,
    seen: usize,
}

impl<'a> Ziplist<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Defect> {
        let (len, rest) = split_array(bytes)?;
        let (last, rest) = split_array(rest)?;
        let (count, rest) = split_array(rest)?;
        if u32::from_le_bytes(len) as usize != bytes.len() {
            return defect("it does not have as many bytes as it says");
        }
        Ok(Self {
            rest: Some(rest),
            len: bytes.len(),
            last: u32::from_le_bytes(last) as usize,
            before: (HEAD_LEN, 0),
            count: u16::from_le_bytes(count),
            seen: 0,
        })
    }

    fn step(&mut self, rest: &'a [u8]) -> Result<Option<Item<'a>>, Defect> {
        match rest {
            [END] if self.count != COUNT_UNKNOWN && usize::from(self.count) != self.seen => {
                return defect("it does not have as many items as it says");
            }
            [END] if self.last != self.before.0 => {
                return defect("its last item is not where it says");
            }
            [END] => return Ok(None),
            [END, ..] => return defect("it goes on behind its end"),
            _ => {}
        }
        let (len_before, after) = len_before(rest)?;
        if len_before != self.before.1 {
            return defect("the length before an item is not that of the item before");
        }
        let (item, after) = item(after)?;
        self.before = (self.len - rest.len(), rest.len() - after.len());
        self.seen += 1;
        self.rest = Some(after);
        Ok(Some(item))
    }
}

impl<'a> Iterator for Ziplist<'a> {
    type Item = Result<Item<'a>, Defect>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        self.step(rest).transpose()
    }
}

/// The length of the item before, and the rest.
fn len_before(bytes: &[u8]) -> Result<(usize, &[u8]), Defect> {
    match bytes.split_first() {
        None => defect("it has no end"),
        Some((&LONG_LEN, rest)) => {
            let (len, rest) = split_array(rest)?;
            Ok((u32::from_le_bytes(len) as usize, rest))
        }
        Some((&len, rest)) => Ok((len.into(), rest)),
    }
}

/// The item, from its head on, and the rest.
fn item(bytes: &[u8]) -> Result<(Item<'_>, &[u8]), Defect> {
    let ([head], rest) = split_array(bytes)?;
    let integer_len = match head {
        0xc0 => 2,
        0xd0 => 4,
        0xe0 => 8,
        0xf0 => 3,
        0xfe => 1,
        0xf1..=0xfd => return Ok((Item::Integer(i64::from(head) - 0xf1), rest)),
        _ => 0,
    };
    if integer_len > 0 {
        let (number, rest) = split(rest, integer_len)?;
        return Ok((Item::Integer(little_endian(number)), rest));
    }
    let (len, rest) = match head {
        0..=0x3f => (usize::from(head), rest),
        0x40..=0x7f => {
            let ([low], rest) = split_array(rest)?;
            (usize::from(head & 0x3f) << 8 | usize::from(low), rest)
        }
        0x80 => {
            let (len, rest) = split_array(rest)?;
            (u32::from_be_bytes(len) as usize, rest)
        }
        _ => return defect("an item is of no kind that there is"),
    };
    let (string, rest) = split(rest, len)?;
    Ok((Item::Bytes(string), rest))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A ziplist of items from their heads on.
    fn ziplist(items: &[&[u8]]) -> Vec<u8> {
        let (mut bytes, mut before, mut last) = (vec![0; HEAD_LEN], 0, HEAD_LEN);
        for item in items {
            last = bytes.len();
            match before {
                0..254 => bytes.push(before as u8),
                _ => bytes.extend([&[LONG_LEN][..], &(before as u32).to_le_bytes()].concat()),
            }
            bytes.extend_from_slice(item);
            before = bytes.len() - last;
        }
        bytes.push(END);
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&(items.len() as u16).to_le_bytes());
        bytes
    }

    fn items(bytes: &[u8]) -> Result<Vec<Item<'_>>, Defect> {
        Ziplist::new(bytes)?.collect()
    }

    fn why(bytes: &[u8]) -> String {
        items(bytes).unwrap_err().to_string()
    }

    #[test]
    fn items_of_all_kinds_are_read() {
        let (middle, long) = ([b'm'; 300], [b'l'; 20_000]);
        let bytes = ziplist(&[
            b"\x02ab",
            &[&b"\x41\x2c"[..], &middle].concat(),
            &[&b"\x80\0\0\x4e\x20"[..], &long].concat(),
            b"\xc0\0\x80",
            b"\xd0\0\0\0\x80",
            b"\xe0\0\0\0\0\0\0\0\x80",
            b"\xf0\0\0\x80",
            b"\xfe\x80",
            b"\xf1",
            b"\xfd",
            b"\0",
        ]);
        let integer = Item::Integer;
        let expected = [
            Item::Bytes(b"ab"),
            Item::Bytes(&middle),
            Item::Bytes(&long),
            integer(-0x8000),
            integer(-0x8000_0000),
            integer(i64::MIN),
            integer(-0x80_0000),
            integer(-0x80),
            integer(0),
            integer(12),
            Item::Bytes(b""),
        ];
        assert_eq!(items(&bytes).unwrap(), expected);
        assert_eq!(items(&ziplist(&[])).unwrap(), []);
    }

    #[test]
    fn wrong_bytes_are_refused_with_the_reason() {
        let good = ziplist(&[b"\xf2", b"\xf3"]);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            why(&bytes)
        };
        assert_eq!(with(0, 99), "it does not have as many bytes as it says");
        assert_eq!(with(4, 99), "its last item is not where it says");
        assert_eq!(with(8, 99), "it does not have as many items as it says");
        assert_eq!(with(12, 99), "the length before an item is not that of the item before");
        assert_eq!(with(12, 0xff), "it goes on behind its end");
        assert_eq!(with(13, 0xff), "an item is of no kind that there is");
        assert_eq!(with(13, 0x02), "it ends in the middle of an item");
        assert_eq!(with(14, 2), "it ends in the middle of an item");
        assert_eq!(why(b"\x0a\0\0\0\x0a\0\0\0\0\0"), "it has no end");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_ziplist_or_refused(mut bytes in vec(any::<u8>(), 10..100)) {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            bytes[8..10].fill(0xff);
            let _ = items(&bytes);
        }
    }
}
