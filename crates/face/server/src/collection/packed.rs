//! The entries of a small collection, one behind the other in the record of its key.
//!
//! ```text
//!  length │ bytes │ length │ bytes │ ..        a length has 7 bits a byte, the lowest first; the 8th says that more follow
//! ```

use std::ops::Range;

use crate::stored::{INLINE, Stored, Type};

/// The entries.
#[derive(Debug)]
pub(crate) enum Packed {
    /// As they are stored.
    Stored(Stored),
    /// With the tag and the byte behind it.
    Own(Vec<u8>),
}

/// Bytes before the first entry.
const HEAD: usize = 2;

/// The length 0 in two bytes, which is written in one otherwise.
const MARK: [u8; 2] = [0x80, 0];

impl Packed {
    /// No entries, of a collection of a type.
    pub(crate) fn new(of: Type) -> Self {
        Self::Own(vec![of.tag(), INLINE])
    }

    /// The entries of a stored collection; `None` if it is not in one piece.
    pub(crate) fn of(stored: Stored) -> Result<Self, Stored> {
        match stored.form().first() {
            Some(&INLINE) => Ok(Self::Stored(stored)),
            _ => Err(stored),
        }
    }

    /// Whether the lengths of all entries are right.
    pub(crate) fn is_sound(&self) -> bool {
        let mut at = HEAD;
        while at < self.stored().len() {
            let Some(entry) = entry_at(self.stored(), at) else { return false };
            at = entry.end;
        }
        true
    }

    /// The value of the key.
    pub(crate) fn stored(&self) -> &[u8] {
        match self {
            Self::Stored(stored) => stored.bytes(),
            Self::Own(bytes) => bytes,
        }
    }

    fn own(&mut self) -> &mut Vec<u8> {
        if let Self::Stored(stored) = self {
            *self = Self::Own(stored.bytes().to_vec());
        }
        match self {
            Self::Own(bytes) => bytes,
            Self::Stored(_) => unreachable!("they were copied"),
        }
    }

    /// Bytes of all entries, with their lengths.
    pub(crate) fn byte_len(&self) -> usize {
        self.stored().len() - HEAD
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.byte_len() == 0
    }

    /// The entries in order.
    pub(crate) fn iter(&self) -> Entries<'_> {
        Entries { bytes: self.stored(), at: HEAD }
    }

    /// The bytes of an entry.
    pub(crate) fn bytes(&self, entry: &Entry) -> &[u8] {
        &self.stored()[entry.bytes.clone()]
    }

    /// Appends an entry.
    pub(crate) fn push(&mut self, entry: &[u8]) {
        let bytes = self.own();
        put_len(bytes, entry.len());
        bytes.extend_from_slice(entry);
    }

    /// Inserts entries before the one that begins at a byte, or, at the end, behind the last one.
    pub(crate) fn insert(&mut self, at: usize, entries: &[&[u8]]) {
        let mut inserted = Vec::new();
        for entry in entries {
            put_len(&mut inserted, entry.len());
            inserted.extend_from_slice(entry);
        }
        self.own().splice(at..at, inserted);
    }

    /// Where the first entry begins, if there is one.
    pub(crate) fn begin() -> usize {
        HEAD
    }

    /// Where the last entry ends.
    pub(crate) fn end(&self) -> usize {
        self.stored().len()
    }

    /// Removes the bytes of whole entries.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        self.own().drain(range);
    }

    /// Whether the collection has the [mark](Packed::mark).
    pub(crate) fn is_marked(&self) -> bool {
        self.iter().nth(1).is_some_and(|(place, _)| place.bytes.start - place.start == MARK.len())
    }

    /// Marks the collection, whose second entry is empty: that entry's length becomes one of two bytes. It is read as any
    /// other length, so it means nothing to those who do not look for it, and it goes with the entry.
    pub(crate) fn mark(&mut self) {
        let second = self.iter().nth(1).filter(|(_, bytes)| bytes.is_empty());
        if let Some((place, _)) = second {
            self.own().splice(place.start..place.end, MARK);
        }
    }

    /// Replaces an entry.
    pub(crate) fn replace(&mut self, entry: &Entry, by: &[u8]) {
        let mut bytes = Vec::with_capacity(by.len() + 2);
        put_len(&mut bytes, by.len());
        bytes.extend_from_slice(by);
        self.own().splice(entry.start..entry.end, bytes);
    }
}

/// The place of an entry in the stored bytes.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Where its length begins.
    pub(crate) start: usize,
    /// Where the next one begins.
    pub(crate) end: usize,
    bytes: Range<usize>,
}

/// The entries in order: the place of each, and its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (Entry, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = entry_at(self.bytes, self.at)?;
        self.at = entry.end;
        let bytes = &self.bytes[entry.bytes.clone()];
        Some((entry, bytes))
    }
}

/// Entries as a [`Packed`] has them, which are all of some bytes.
pub(crate) fn entries_of(bytes: &[u8]) -> Entries<'_> {
    Entries { bytes, at: 0 }
}

/// Appends an entry as a [`Packed`] has it.
pub(crate) fn put_entry(to: &mut Vec<u8>, entry: &[u8]) {
    put_len(to, entry.len());
    to.extend_from_slice(entry);
}

#[inline]
fn entry_at(bytes: &[u8], start: usize) -> Option<Entry> {
    let (mut len, mut at) = (0_u64, start);
    for shift in (0..).step_by(7).take(5) {
        let byte = *bytes.get(at)?;
        at += 1;
        len |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let end = at.checked_add(usize::try_from(len).ok()?)?;
            return (end <= bytes.len()).then_some(Entry { start, end, bytes: at..end });
        }
    }
    None
}

fn put_len(to: &mut Vec<u8>, mut len: usize) {
    while len >= 0x80 {
        to.push(len as u8 | 0x80);
        len >>= 7;
    }
    to.push(len as u8);
}

#[cfg(test)]
mod tests {
    use halite::Bytes;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn entries(packed: &Packed) -> Vec<Vec<u8>> {
        packed.iter().map(|(_, bytes)| bytes.to_vec()).collect()
    }

    proptest! {
        #[test]
        fn entries_are_a_sequence(
            steps in vec((0..4_u8, any::<prop::sample::Index>(), vec(any::<u8>(), 0..200)), 0..60),
        ) {
            let (mut packed, mut model) = (Packed::new(Type::List), Vec::new());
            for (step, at, entry) in steps {
                let at = at.index(model.len() + 1);
                let place = packed.iter().nth(at).map(|(place, _)| place);
                match (step, place) {
                    (0, Some(place)) => {
                        packed.remove(place.start..place.end);
                        model.remove(at);
                    }
                    (1, Some(place)) => {
                        packed.replace(&place, &entry);
                        model[at] = entry;
                    }
                    (2, place) => {
                        let start = place.map_or(packed.end(), |place| place.start);
                        packed.insert(start, &[&entry]);
                        model.insert(at, entry);
                    }
                    _ => {
                        packed.push(&entry);
                        model.push(entry);
                    }
                }
                prop_assert_eq!(entries(&packed), model.clone());
            }
            let stored = Stored::from(Bytes::from(packed.stored()));
            let again = Packed::of(stored).unwrap();
            prop_assert!(again.is_sound());
            prop_assert_eq!(entries(&again), model);
        }

        #[test]
        fn a_mark_changes_no_entry(members in vec(vec(any::<u8>(), 0..200), 0..5)) {
            let mut packed = Packed::new(Type::Set);
            for member in &members {
                packed.push(member);
                packed.push(b"");
            }
            let before = entries(&packed);
            prop_assert!(!packed.is_marked());
            packed.mark();
            packed.mark();
            prop_assert_eq!(packed.is_marked(), !members.is_empty());
            prop_assert!(packed.is_sound());
            prop_assert_eq!(entries(&packed), before);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..50)) {
            let stored = [&[Type::Hash.tag(), INLINE], &bytes[..]].concat();
            let packed = Packed::of(Stored::from(Bytes::from(stored))).unwrap();
            let len: usize = packed.iter().map(|(place, _)| place.end - place.start).sum();
            prop_assert_eq!(packed.is_sound(), len == bytes.len());
        }
    }
}
