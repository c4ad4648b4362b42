//! Intsets, the form of small sets of integers.
//!
//! ```text
//! bytes of an integer, 4 (it is 2, 4 or 8) | integers, 4 | integer...
//!                                             numbers with the lowest byte first; the integers in ascending order
//! ```

use super::{Item, little_endian, split_array};
use crate::error::{Defect, defect};

/// The members of an intset.
pub(crate) struct Intset<'a> {
    rest: &'a [u8],
    width: usize,
    before: Option<i64>,
}

impl<'a> Intset<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Defect> {
        let (width, rest) = split_array(bytes)?;
        let (count, rest) = split_array(rest)?;
        let width = match u32::from_le_bytes(width) {
            width @ (2 | 4 | 8) => width as usize,
            _ => return defect("its integers are of no width that there is"),
        };
        if Some(rest.len()) != (u32::from_le_bytes(count) as usize).checked_mul(width) {
            return defect("it does not have as many bytes as it says");
        }
        Ok(Self { rest, width, before: None })
    }
}

impl<'a> Iterator for Intset<'a> {
    type Item = Result<Item<'a>, Defect>;

    fn next(&mut self) -> Option<Self::Item> {
        let (number, rest) = self.rest.split_at_checked(self.width)?;
        let number = little_endian(number);
        self.rest = rest;
        if self.before.is_some_and(|before| before >= number) {
            self.rest = &[];
            return Some(defect("its integers are not in ascending order"));
        }
        self.before = Some(number);
        Some(Ok(Item::Integer(number)))
    }
}

/// The intset of integers that are in ascending order.
pub(crate) fn intset(numbers: &[i64]) -> Vec<u8> {
    let bounds = [numbers.first(), numbers.last()].map(|number| number.copied().unwrap_or(0));
    let fits =
        |bits: u32| bounds.iter().all(|number| number << (64 - bits) >> (64 - bits) == *number);
    let width = [2, 4].into_iter().find(|width| fits(width * 8)).unwrap_or(8);
    let mut bytes = [width.to_le_bytes(), (numbers.len() as u32).to_le_bytes()].concat();
    numbers.iter().for_each(|number| bytes.extend(&number.to_le_bytes()[..width as usize]));
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn items(bytes: &[u8]) -> Result<Vec<i64>, Defect> {
        Intset::new(bytes)?.map(|item| item?.integer()).collect()
    }

    proptest! {
        #[test]
        fn integers_come_back(numbers: BTreeSet<i64>, shift in 0..64) {
            let numbers: BTreeSet<_> = numbers.iter().map(|number| number >> shift).collect();
            let numbers: Vec<_> = numbers.into_iter().collect();
            prop_assert_eq!(items(&intset(&numbers)).unwrap(), numbers);
        }

        #[test]
        fn any_bytes_are_an_intset_or_refused(bytes: Vec<u8>) {
            let _ = items(&bytes);
        }
    }

    #[test]
    fn the_narrowest_width_is_chosen() {
        for (numbers, width) in [
            (&[-0x8000, 0x7fff][..], 2),
            (&[-0x8001, 0], 4),
            (&[0, 0x7fff_ffff], 4),
            (&[0, 0x8000_0000], 8),
        ] {
            let bytes = intset(numbers);
            assert_eq!(bytes[..4], [width as u8, 0, 0, 0]);
            assert_eq!(bytes.len(), 8 + width * numbers.len());
        }
    }

    #[test]
    fn wrong_bytes_are_refused_with_the_reason() {
        for (bytes, why) in [
            (&b"\x02\0\0\0\x01\0"[..], "it ends in the middle of an item"),
            (b"\x03\0\0\0\x01\0\0\0\x01\0\0", "its integers are of no width that there is"),
            (b"\x02\0\0\0\xff\xff\xff\xff\x01\0", "it does not have as many bytes as it says"),
            (b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0", "its integers are not in ascending order"),
        ] {
            assert_eq!(items(bytes).unwrap_err().to_string(), why);
        }
    }
}
