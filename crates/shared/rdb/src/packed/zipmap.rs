//! Zipmaps, the form of small hashes before Redis 2.6.
//!
//! ```text
//! entries, 1 | entry... | 0xff           the number of entries is 254 if there are as many or more
//!
//! An entry is the length of its name, the name, the length of its value, one byte with the number of unused bytes,
//! the value, and the unused bytes. A length is 1 byte if it is less than 254, else 0xfe and 4 bytes, the lowest
//! first.
//! ```

use super::{Item, split, split_array};
use crate::error::{Defect, defect};

const END: u8 = 0xff;
const LONG_LEN: u8 = 0xfe;
const COUNT_UNKNOWN: u8 = 0xfe;

/// The names and values of a zipmap, in turns.
pub(crate) struct Zipmap<'a> {
    /// The entries that are to come, and the end. `None` after the end or a defect.
    rest: Option<&'a [u8]>,
    count: u8,
    seen: usize,
}

impl<'a> Zipmap<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Defect> {
        let ([count], rest) = split_array(bytes)?;
        Ok(Self { rest: Some(rest), count, seen: 0 })
    }

    fn step(&mut self, rest: &'a [u8]) -> Result<Option<Item<'a>>, Defect> {
        let is_name = self.seen.is_multiple_of(2);
        match rest {
            [END] if is_name => {
                let is_right =
                    self.count >= COUNT_UNKNOWN || usize::from(self.count) == self.seen / 2;
                return match is_right {
                    true => Ok(None),
                    false => defect("it does not have as many entries as it says"),
                };
            }
            [END, _, ..] if is_name => return defect("it goes on behind its end"),
            [] if is_name => return defect("it has no end"),
            _ => {}
        }
        let (len, after) = len(rest)?;
        let (unused, after) = match is_name {
            true => (0, after),
            false => split_array(after).map(|([unused], after)| (unused, after))?,
        };
        let (string, after) = split(after, len)?;
        let (_, after) = split(after, unused.into())?;
        self.rest = Some(after);
        self.seen += 1;
        Ok(Some(Item::Bytes(string)))
    }
}

impl<'a> Iterator for Zipmap<'a> {
    type Item = Result<Item<'a>, Defect>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        self.step(rest).transpose()
    }
}

fn len(bytes: &[u8]) -> Result<(usize, &[u8]), Defect> {
    match split_array(bytes)? {
        ([LONG_LEN], rest) => {
            let (len, rest) = split_array(rest)?;
            Ok((u32::from_le_bytes(len) as usize, rest))
        }
        ([END], _) => defect("an entry is of no kind that there is"),
        ([len], rest) => Ok((len.into(), rest)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items(bytes: &[u8]) -> Result<Vec<Item<'_>>, Defect> {
        Zipmap::new(bytes)?.collect()
    }

    #[test]
    fn names_and_values_are_read_and_unused_bytes_passed_over() {
        let bytes = b"\x02\x03foo\x03\0bar\x05hello\xfe\x05\0\0\0\x02world..\xff";
        let expected = [&b"foo"[..], b"bar", b"hello", b"world"].map(Item::Bytes);
        assert_eq!(items(bytes).unwrap(), expected);
        assert_eq!(items(b"\0\xff").unwrap(), []);
    }

    #[test]
    fn wrong_bytes_are_refused_with_the_reason() {
        for (bytes, why) in [
            (&b""[..], "it ends in the middle of an item"),
            (b"\0", "it has no end"),
            (b"\x01\xff", "it does not have as many entries as it says"),
            (b"\0\xff\xff", "it goes on behind its end"),
            (b"\x01\x01a\xff", "an entry is of no kind that there is"),
            (b"\x01\x01a\x01\0", "it ends in the middle of an item"),
            (b"\x01\x05ab", "it ends in the middle of an item"),
        ] {
            assert_eq!(items(bytes).unwrap_err().to_string(), why);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_zipmap_or_refused(bytes: Vec<u8>) {
            let _ = items(&bytes);
        }
    }
}
