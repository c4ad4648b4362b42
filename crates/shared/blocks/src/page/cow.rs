//! Copy-on-write with page version numbers (van Renen §3.2.2, Listing 1 on the left, Fig. 6).
//!
//! A page is flushed to a spare slot, and then that slot's header names the page and its version, which
//! makes it valid; the slot of the version before becomes a spare one. Recovery reads the headers and
//! takes the slot with the highest version of each page.
//!
//! A flush of a page of *n* lines takes, for any number of dirty lines:
//!
//! | | a flush of a page | the paper |
//! |---|---|---|
//! | fences | 2 | 2, and an `sfence` between pid and pvn |
//! | lines written | *n* + 1 | *n*, the header among them |
//! | flushes | a stream of the page (of a partial one, for each 4 KiB), one header | the same |
//! | lines read | none; of a partial page, *n* less the dirty ones | the same |
//! | lines fetched ahead | the header, and one in each 4 KiB of the slot that comes next | none |
//! | space | a slot and a line for each page, and [`SPARE_SLOTS`](super::SPARE_SLOTS) more | spare slots |
//!
//! The version number saves the fence with which the old slot would be invalidated; the paper gains about
//! 10 % by that. Its `sfence` between the two words is not needed: stores to one line through the cache
//! persist in the order of the program. On an ordinary file they do not, and a third fence is between them.

use halite_pmem::Fresh;

use super::copy::Copier;
use super::ground::{Ground, SPARE_SLOTS, Technique};
use super::slots::Slots;
use super::{PageBuffer, PageStore, Shape};
use crate::Result;

const TECHNIQUE: Technique =
    Technique { number: 1, name: "cow", spare_slots: SPARE_SLOTS, log_len: |_| 0 };

/// A store whose pages are never overwritten while they are valid.
pub struct CopyOnWrite {
    ground: Ground,
    slots: Slots,
    copier: Copier,
}

impl PageStore for CopyOnWrite {
    fn space_len(shape: Shape) -> u64 {
        Ground::len(TECHNIQUE, shape)
    }

    fn create(space: Fresh, shape: Shape) -> Result<Self> {
        let ground = Ground::create(TECHNIQUE, space, shape, |_, _| None)?;
        let slots = Slots::empty(&ground);
        Ok(Self { ground, slots, copier: Copier::new() })
    }

    fn open(space: Fresh) -> Result<Self> {
        let ground = Ground::open(TECHNIQUE, space)?;
        let slots = Slots::recover(&ground)?;
        Ok(Self { ground, slots, copier: Copier::new() })
    }

    fn shape(&self) -> Shape {
        self.ground.shape
    }

    fn flush(&mut self, page: u32, buffer: &mut PageBuffer) -> Result<()> {
        let Self { ground, slots, copier } = self;
        ground.check_page(page, buffer.page_size())?;
        if buffer.dirty().is_empty() {
            return Ok(());
        }
        let slot = slots.spare(ground)?;
        let from = slots.newest(page).map(|version| version.slot);
        ground.begin_flush()?;
        copier.copy(ground, buffer, from, &(), slot)?;
        slots.validate(ground, page, slot)?;
        ground.end_flush();
        buffer.was_flushed();
        Ok(())
    }

    fn read(&self, page: u32, buffer: &mut PageBuffer) -> Result<()> {
        self.ground.check_page(page, buffer.page_size())?;
        buffer.load(|bytes| match self.slots.newest(page) {
            Some(version) => bytes.copy_from_slice(self.ground.slot(version.slot)),
            None => bytes.fill(0),
        });
        Ok(())
    }
}
