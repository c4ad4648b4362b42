//! Classic: header and payload, a barrier, a footer, a barrier (van Renen §3.3.1).
//!
//! ```text
//! lsn   len   payload    padding   lsn      padding
//!  8     8    len bytes            8
//! ```
//!
//! The footer repeats the log sequence number and is stored when all bytes before it are durable: an entry
//! with a footer is whole. Under [`Layout::Lines`] the footer has a line of its own, or the line in which
//! the payload ends would be written twice.
//!
//! An append is 2 fences, ⌈(16 + n) / 64⌉ + 1 lines. The paper: two barriers, and up to two
//! lines wasted by padding.
//!
//! The numbers of a life begin at a number mixed of salt and life, which no user knows, so that neither an
//! entry of an earlier life nor a payload that looks like one is taken for an entry.

use std::borrow::Cow;

use halite_pmem::Fresh;

use super::staging::Staging;
use super::{Algorithm, Layout, Life, check_nothing_behind, frame, payload, word};
use crate::Result;

const HEADER: u64 = 16;
const FOOTER: u64 = 8;

/// See the module.
pub struct Classic {
    seed: u64,
    layout: Layout,
}

impl Classic {
    /// The log sequence number of the entry at an offset: it rises from entry to entry.
    #[inline]
    fn lsn(&self, at: u64) -> u64 {
        self.seed.wrapping_add(at)
    }
}

impl Algorithm for Classic {
    const NAME: &'static str = "classic";
    const ID: u8 = 1;

    fn begin(life: &Life, layout: Layout) -> Self {
        let seed = frame::seed(life.salt, life.number);
        Self { seed, layout }
    }

    #[inline]
    fn footprint(&self, len: u64) -> u64 {
        self.layout.pad(HEADER + len) + self.layout.pad(FOOTER)
    }

    #[inline]
    fn persist(
        &mut self,
        space: &mut Fresh,
        staging: &mut Staging,
        (at, footprint): (u64, u64),
        entry: &[u8],
    ) -> Result<()> {
        let lsn = self.lsn(at);
        let mut header = [0; HEADER as usize];
        header[..8].copy_from_slice(&lsn.to_le_bytes());
        header[8..].copy_from_slice(&(entry.len() as u64).to_le_bytes());
        let footer = self.layout.pad(FOOTER);
        let before = footprint - footer;
        staging.persist(space, (at, before), entry, || header)?;
        staging.persist(space, (at + before, footer), &[], || lsn.to_le_bytes())
    }

    fn read<'a>(&self, space: &'a [u8], at: u64) -> Option<Cow<'a, [u8]>> {
        let (lsn, len) = (word(space, at)?, word(space, at + 8)?);
        let entry = payload(self, space, at, HEADER, len)?;
        let footer = word(space, at + self.layout.pad(HEADER + len))?;
        (lsn == self.lsn(at) && footer == lsn).then_some(Cow::Borrowed(entry))
    }

    fn resume(&mut self, space: &mut Fresh, end: u64, _: u64) -> Result<()> {
        check_nothing_behind(self, space, end, self.layout, |_| 0)
    }
}
