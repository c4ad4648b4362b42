//! Slots that hold versions of pages: the headers of copy-on-write, and their contents.
//!
//! A slot's line begins with two words: the page's number (*pid*), and its version (*pvn*). They are
//! stored in this order, to one line and through the cache, so they persist in this order without a
//! fence between them, but on an ordinary file ([`halite_pmem::Fresh::order`]). A crash leaves one of three
//! states (van Renen Fig. 6): the old header, the new pid with the old pvn, the new header. When the first
//! word is stored, the page's bytes are durable, so the middle state is an outdated version of the page, or
//! a new one; both are right.
//!
//! Versions are counted for the whole store, not page by page, so that no two slots ever have the same.
//! With a counter for each page, the middle state could tie with the page's valid version, and recovery
//! might free the one slot of the two that it takes for valid after the next crash.

use std::collections::VecDeque;

use super::ground::{Ground, SPARE_SLOTS, VALUE_MAX};
use crate::{Error, Result};

/// The place of the newest version of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) slot: u32,
    pub(super) pvn: u64,
}

/// The slot to write a version to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spare {
    pub(super) slot: u32,
    /// The slot to write the version after it to.
    pub(super) after: u32,
}

const _: () = assert!(SPARE_SLOTS >= 2, "a slot to write to, and the one after it");

/// The slots of a store.
pub(super) struct Slots {
    /// By page.
    newest: Vec<Option<Version>>,
    /// The free slots, in the order in which they became free. There are at least [`SPARE_SLOTS`].
    free: VecDeque<u32>,
    /// The version that was assigned last.
    pvn: u64,
}

impl Slots {
    /// Slots of which none holds a page.
    pub(super) fn empty(ground: &Ground) -> Self {
        let newest = vec![None; ground.shape.pages as usize];
        Self { newest, free: (0..ground.slots).collect(), pvn: 0 }
    }

    /// Finds the newest version of each page, and makes the headers that it relies on durable.
    pub(super) fn recover(ground: &Ground) -> Result<Self> {
        // A process that was killed may have stored headers and not waited for them.
        let headers = ground.space.flush(ground.line_at(0)..ground.line_at(ground.slots));
        ground.space.pool().fence_found(&[headers])?;
        let mut slots = Self::empty(ground);
        slots.free.clear();
        for slot in 0..ground.slots {
            let Some((page, version)) = header(ground, slot)? else {
                slots.free.push_back(slot);
                continue;
            };
            slots.pvn = slots.pvn.max(version.pvn);
            let newest = &mut slots.newest[page as usize];
            match newest {
                Some(other) if other.pvn == version.pvn => {
                    let (slot, other, pvn) = (version.slot, other.slot, version.pvn);
                    return Err(
                        ground.damaged(format!("slots {other} and {slot} have version {pvn}"))
                    );
                }
                Some(other) if other.pvn > version.pvn => slots.free.push_back(slot),
                _ => {
                    let older = newest.replace(version);
                    slots.free.extend(older.map(|older| older.slot));
                }
            }
        }
        Ok(slots)
    }

    /// Returns where the newest version of a page is; it has none if it was never flushed.
    #[inline]
    pub(super) fn newest(&self, page: u32) -> Option<Version> {
        self.newest[page as usize]
    }

    /// Returns where to write the next version to. The slot's header is on its way to the cache.
    pub(super) fn spare(&self, ground: &Ground) -> Result<Spare> {
        if self.pvn == VALUE_MAX {
            return Err(Error::FlushesExhausted { flushes: VALUE_MAX });
        }
        let (slot, after) = (self.free[0], self.free[1]);
        ground.space.prefetch(ground.line_at(slot));
        Ok(Spare { slot, after })
    }

    /// Makes the page in the spare slot, durably, the newest version of a page (Listing 1, lines 7-11).
    /// A flush and a fence; one line. Where lines keep no order, two fences.
    pub(super) fn validate(&mut self, ground: &mut Ground, page: u32, spare: Spare) -> Result<()> {
        let slot = spare.slot;
        let (at, pvn) = (ground.line_at(slot), self.pvn + 1);
        let words = [ground.seal(at, page.into()), ground.seal(at + 8, pvn)];
        ground.space.write_words(at, &words[..1]);
        ground.space.order(at..at + 8)?;
        ground.space.write_words(at + 8, &words[1..]);
        let header = ground.space.flush(at..at + 16);
        ground.space.pool().fence([header])?;
        self.pvn = pvn;
        self.free.pop_front();
        let older = self.newest[page as usize].replace(Version { slot, pvn });
        self.free.extend(older.map(|older| older.slot));
        Ok(())
    }
}

/// The page and the version in a slot; `None` if it was never used.
fn header(ground: &Ground, slot: u32) -> Result<Option<(u32, Version)>> {
    let at = ground.line_at(slot);
    let page = ground.unseal(at, ground.word(at))?;
    let pvn = ground.unseal(at + 8, ground.word(at + 8))?;
    // A page without a version: the slot was being used for the first time.
    let (Some(page), Some(pvn)) = (page, pvn) else { return Ok(None) };
    let pages = ground.shape.pages;
    let page = u32::try_from(page).ok().filter(|page| *page < pages).ok_or_else(|| {
        ground.damaged(format!("slot {slot} holds page {page}, and there are {pages} pages"))
    })?;
    Ok(Some((page, Version { slot, pvn })))
}
