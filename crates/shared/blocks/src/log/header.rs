//! Header: payload, a barrier, the size of the log, a barrier (van Renen §3.3.1), as `libpmemlog` does
//! it.
//!
//! ```text
//! size field (a line)       entry
//! size   life   padding     len   payload     padding
//!  8      8                  8    len bytes
//! ```
//!
//! The size is where the entries end. A log has `FIELDS` size fields, each in a line of its own, which are
//! used in turn ("dancing"): with one, each append writes the same line again, which is slow; with 64 none
//! is written twice in a row. The largest size of the current life counts. Both words are stored through
//! the cache, the size first, and persist in this order ([`Fresh::order`]), so a field that has the life has a size
//! of that life. That makes a reset one store to the head, with any number of fields. On an ordinary file, whose lines
//! keep no order, the first use of a field in a life takes a third fence; from then on only its size changes.
//!
//! An append is 2 fences, ⌈(8 + n) / 64⌉ + 1 lines. The paper: two barriers, and up to one
//! line wasted by padding.

use std::borrow::Cow;

use halite_pmem::{Fresh, LINE};

use super::staging::Staging;
use super::{Algorithm, Layout, Life, frame, payload, word};
use crate::{Error, Result};

const HEADER: u64 = 8;

/// See the module.
pub struct Header<const FIELDS: u64> {
    /// The life's number as size fields store it.
    life: u64,
    layout: Layout,
    /// Where the entries end.
    size: u64,
    /// The size field that is written next.
    next: u64,
    /// How many of the fields have a size of this life.
    begun: u64,
}

impl<const FIELDS: u64> Header<FIELDS> {
    const START: u64 = (1 + FIELDS) * LINE;

    /// Returns where a size field is.
    fn field(number: u64) -> u64 {
        (1 + number) * LINE
    }
}

impl<const FIELDS: u64> Algorithm for Header<FIELDS> {
    const NAME: &'static str = if FIELDS == 1 { "header" } else { "header-dancing" };
    const ID: u8 = if FIELDS == 1 { 2 } else { 3 };
    const CONTROL_LINES: u64 = FIELDS;

    fn begin(life: &Life, layout: Layout) -> Self {
        let life = frame::seed(life.salt, life.number);
        Self { life, layout, size: Self::START, next: 0, begun: 0 }
    }

    #[inline]
    fn footprint(&self, len: u64) -> u64 {
        self.layout.pad(HEADER + len)
    }

    #[inline]
    fn persist(
        &mut self,
        space: &mut Fresh,
        staging: &mut Staging,
        (at, footprint): (u64, u64),
        entry: &[u8],
    ) -> Result<()> {
        let header = (entry.len() as u64).to_le_bytes();
        staging.persist(space, (at, footprint), entry, || header)?;
        self.size = at + footprint;
        let field = Self::field(self.next);
        self.next = (self.next + 1) % FIELDS;
        space.write_words(field, &[self.size]);
        if self.begun < FIELDS {
            space.order(field..field + 8)?;
            self.begun += 1;
        }
        space.write_words(field + 8, &[self.life]);
        space.pool().fence([space.flush(field..field + 16)])?;
        Ok(())
    }

    fn read<'a>(&self, space: &'a [u8], at: u64) -> Option<Cow<'a, [u8]>> {
        let written = space.get(..self.size.min(space.len() as u64) as usize)?;
        let entry = payload(self, written, at, HEADER, word(written, at)?)?;
        Some(Cow::Borrowed(entry))
    }

    fn read_control(&mut self, space: &[u8]) {
        let fields = (0..FIELDS).map(Self::field);
        let of_this_life = fields.filter(|field| word(space, field + 8) == Some(self.life));
        self.size = of_this_life.filter_map(|field| word(space, field)).fold(Self::START, u64::max);
    }

    fn resume(&mut self, space: &mut Fresh, end: u64, entries: u64) -> Result<()> {
        if end != self.size {
            let what = "its entries do not end where its size says";
            return Err(Error::LogDamaged { offset: space.offset(), what });
        }
        (self.next, self.begun) = (entries % FIELDS, entries.min(FIELDS));
        Ok(())
    }
}
