//! The layout that all techniques share on the medium: a header, a line for each slot, a log, slots.
//!
//! ```text
//! offset 0      header, one line: magic, version, technique, page size, number of pages, salt, checksum
//! 4096          a line of 64 bytes for each slot; the technique defines its contents
//! then          the micro log, if the technique has one
//! then          the slots, of one page each
//! ```
//!
//! Each part begins at a multiple of 4096. A technique that updates in place has one slot for each page,
//! copy-on-write has [`SPARE_SLOTS`] more. The header is written once. The salt is a random number of the
//! store, and goes into every checksum: bytes that an older store left in the same space are not valid in
//! this one.

use halite_pmem::{Fresh, LINE};
use halite_sim::planted;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{DirtyLines, PageSize, Shape};
use crate::{Error, Result};

/// Slots beyond the pages: copy-on-write needs one to write to and one to look up meanwhile, and a few
/// more let a slot's lines leave the caches before they are streamed to again.
pub const SPARE_SLOTS: u32 = 8;

const MAGIC: [u8; 8] = *b"HALpages";
const VERSION: u32 = 1;
const PART: u64 = 4096;
/// The smallest page of memory.
const PAGE_OF_MEMORY: usize = 4096;
/// Where the lines of the slots begin.
pub(super) const LINES_AT: u64 = PART;

/// The name of a store in messages.
const WANTED: &str = "page store";

/// A technique, and its needs on the medium.
#[derive(Clone, Copy)]
pub(super) struct Technique {
    /// Its number in headers.
    pub(super) number: u32,
    /// Its name in messages.
    pub(super) name: &'static str,
    pub(super) spare_slots: u32,
    /// Bytes of its log.
    pub(super) log_len: fn(PageSize) -> u64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: u32,
    technique: u32,
    page_len: u32,
    pages: u32,
    salt: u64,
    checksum: u64,
    unused: [u8; 24],
}

impl Header {
    fn checksum(&self) -> u64 {
        let Self { salt, .. } = *self;
        xxh3_64_with_seed(Self { checksum: 0, ..*self }.as_bytes(), salt)
    }
}

/// The space of a store, and where things are in it.
pub(super) struct Ground {
    pub(super) space: Fresh,
    pub(super) shape: Shape,
    pub(super) slots: u32,
    pub(super) salt: u64,
    log_at: u64,
    slots_at: u64,
    /// Whether a flush failed, or is on its way.
    failed: bool,
}

impl Ground {
    /// The bytes that a store needs.
    pub(super) fn len(technique: Technique, shape: Shape) -> u64 {
        let slots = u64::from(shape.pages) + u64::from(technique.spare_slots);
        let lines = (slots * LINE).next_multiple_of(PART);
        let log = (technique.log_len)(shape.page_size).next_multiple_of(PART);
        PART + lines + log + slots * shape.page_size.bytes()
    }

    /// Makes a store of zeros, except for the header and the slots' lines that `line_of` returns.
    pub(super) fn create(
        technique: Technique,
        space: Fresh,
        shape: Shape,
        line_of: impl Fn(&Self, u32) -> Option<[u64; 8]>,
    ) -> Result<Self> {
        if shape.pages == 0 {
            return Err(Error::NoPages);
        }
        let needed = Self::len(technique, shape);
        check_space(&space, needed)?;
        space.pool().check_synced()?;
        let salt = space.pool().random()?;
        let mut header = Header {
            magic: MAGIC,
            version: VERSION,
            technique: technique.number,
            page_len: shape.page_size.bytes() as u32,
            pages: shape.pages,
            salt,
            checksum: 0,
            unused: [0; 24],
        };
        header.checksum = header.checksum();
        let mut ground = Self::new(technique, space, shape, salt);
        let zeroed = ground.space.zero(0..zeroed_len(technique, &ground, needed));
        ground.space.pool().fence([zeroed])?;
        for slot in 0..ground.slots {
            if let Some(line) = line_of(&ground, slot) {
                ground.space.write_words(ground.line_at(slot), &line);
            }
        }
        ground.space.write(0, header.as_bytes());
        let written = ground.space.flush(0..ground.log_at);
        ground.space.pool().fence([written])?;
        Ok(ground)
    }

    /// Finds a store's parts.
    pub(super) fn open(technique: Technique, space: Fresh) -> Result<Self> {
        check_space(&space, PART)?;
        let header = space.read(0, size_of::<Header>() as u64);
        let header = Header::read_from_bytes(header).expect("as many bytes as it has");
        if header.magic != MAGIC {
            return Err(Error::foreign(&space, WANTED, "something else"));
        }
        if header.version != VERSION {
            let found = format!("one of format {}; this program reads {VERSION}", header.version);
            return Err(Error::foreign(&space, WANTED, found));
        }
        if header.checksum != header.checksum() {
            return Err(Error::damaged(&space, "the header of the pages is not whole"));
        }
        if header.technique != technique.number {
            let found = format!("one of the technique of number {}", header.technique);
            return Err(Error::foreign(&space, technique.name, found));
        }
        let page_size = PageSize::new(header.page_len.into())
            .map_err(|_| Error::damaged(&space, format!("pages of {} bytes", header.page_len)))?;
        let shape = Shape { page_size, pages: header.pages };
        if shape.pages == 0 {
            return Err(Error::damaged(&space, "a page store without pages"));
        }
        check_space(&space, Self::len(technique, shape))?;
        Ok(Self::new(technique, space, shape, header.salt))
    }

    fn new(technique: Technique, space: Fresh, shape: Shape, salt: u64) -> Self {
        let len = Self::len(technique, shape);
        let slots = shape.pages + technique.spare_slots;
        let slots_at = len - u64::from(slots) * shape.page_size.bytes();
        let log_at = slots_at - (technique.log_len)(shape.page_size).next_multiple_of(PART);
        Self { space, shape, slots, salt, log_at, slots_at, failed: false }
    }

    pub(super) fn line_at(&self, slot: u32) -> u64 {
        LINES_AT + u64::from(slot) * LINE
    }

    pub(super) fn log_at(&self) -> u64 {
        self.log_at
    }

    pub(super) fn slot_at(&self, slot: u32) -> u64 {
        self.slots_at + u64::from(slot) * self.page_len()
    }

    pub(super) fn page_len(&self) -> u64 {
        self.shape.page_size.bytes()
    }

    /// The bytes of a slot.
    pub(super) fn slot(&self, slot: u32) -> &[u8] {
        self.space.read(self.slot_at(slot), self.page_len())
    }

    /// Has the processor translate the addresses of a slot's lines that are written later: scattered lines
    /// wait for page-table walks, which overlap with other work if they begin earlier.
    #[inline]
    pub(super) fn expect(&self, slot: u32, lines: &DirtyLines) {
        for line in lines.first_of_each_word() {
            self.space.prefetch(self.slot_at(slot) + u64::from(line) * LINE);
        }
    }

    /// A line in each page of memory that a slot has: a caller that prefetches them spares a copy to the
    /// slot the walks through the page tables.
    #[inline]
    pub(super) fn places(&self, slot: u32) -> impl Iterator<Item = u64> + use<> {
        let at = self.slot_at(slot);
        (at..at + self.page_len()).step_by(PAGE_OF_MEMORY)
    }

    /// The word at `at`.
    pub(super) fn word(&self, at: u64) -> u64 {
        let bytes = self.space.read(at, 8);
        u64::from_le_bytes(bytes.try_into().expect("8 bytes are read"))
    }

    /// The word that stands for a value at a place. Zero stands for none.
    ///
    /// # Panics
    /// If the value has more than 48 bits.
    pub(super) fn seal(&self, at: u64, value: u64) -> u64 {
        assert!(value <= VALUE_MAX, "a value has 48 bits");
        value << CHECK_BITS | check(self.salt, at, value)
    }

    /// The value of a word at a place.
    pub(super) fn unseal(&self, at: u64, word: u64) -> Result<Option<u64>> {
        let value = word >> CHECK_BITS;
        match word {
            0 => Ok(None),
            _ if self.seal(at, value) == word => Ok(Some(value)),
            _ => Err(self.damaged(format!("the word at offset {at} has a wrong check"))),
        }
    }

    /// The error for damage of the store on the medium.
    pub(super) fn damaged(&self, what: String) -> Error {
        Error::damaged(&self.space, what)
    }

    /// Begins to change the medium, for a flush. After a failed flush no other is allowed: its bytes may
    /// have reached the medium, and recovery after a crash would use them, while the store in memory takes
    /// the same place for free.
    #[inline]
    pub(super) fn begin_flush(&mut self) -> Result<()> {
        if planted!("blocks.pages-flushed-after-failure", false, self.failed) {
            let (path, offset) = (self.space.pool().path().to_owned(), self.space.offset());
            return Err(Error::PagesFailed { path, offset });
        }
        self.failed = true;
        Ok(())
    }

    /// Ends a flush that is durable.
    #[inline]
    pub(super) fn end_flush(&mut self) {
        self.failed = false;
    }

    /// Checks that the store has the page, and that the buffer has the size of its pages.
    #[inline]
    pub(super) fn check_page(&self, page: u32, page_size: PageSize) -> Result<()> {
        let Shape { pages, page_size: expected } = self.shape;
        if page >= pages {
            return Err(Error::NoSuchPage { page, pages });
        }
        if page_size != expected {
            let (bytes, expected) = (page_size.bytes(), expected.bytes());
            return Err(Error::OtherPageSize { bytes, expected });
        }
        Ok(())
    }
}

const CHECK_BITS: u32 = 16;

/// The largest value that a sealed word holds.
pub(super) const VALUE_MAX: u64 = u64::MAX >> CHECK_BITS;

/// The check of a value at a place: never zero, so that the word of the value zero is none either.
fn check(salt: u64, at: u64, value: u64) -> u64 {
    let mixed = (salt ^ at.rotate_left(40) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> (64 - CHECK_BITS)).max(1)
}

/// The length to be zeroed: the contents of a spare slot have no meaning, while a slot that is not spare is
/// a page.
fn zeroed_len(technique: Technique, ground: &Ground, needed: u64) -> u64 {
    if technique.spare_slots > 0 { ground.slots_at } else { needed }
}

fn check_space(space: &Fresh, needed: u64) -> Result<()> {
    if !space.offset().is_multiple_of(LINE) {
        return Err(Error::PageSpaceMisaligned { offset: space.offset() });
    }
    if space.len() < needed {
        return Err(Error::DoesNotFit { what: "pages", needed, len: space.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_check_makes_a_value_none() {
        for salt in 0..1 << 20 {
            assert_ne!(check(salt, LINES_AT, 0), 0, "{salt}");
        }
    }
}
