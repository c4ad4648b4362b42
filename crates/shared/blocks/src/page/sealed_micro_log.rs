//! A micro log with one fence a flush.
//!
//! As [`MicroLog`](super::MicroLog), with the log of `sealed_log.rs`: its entries are numbered and have
//! checksums, and the lines of one go to their page together with the next entry. A flush of *d* dirty
//! lines takes, with *h* lines for an entry's header (1; 2 for pages of 32 KiB, 3 for 64 KiB):
//!
//! | | a flush of a page | the paper's micro log |
//! |---|---|---|
//! | fences | 1 | 4 |
//! | lines written | 2*d* + *h* | 2*d* + 2, and the set of lines |
//! | flushes | a stream of the entry, and one for each run of lines of the page before | two more |
//! | space | two entries a store; a slot and an unused line for each page | one entry |
//!
//! A 64-bit checksum (XXH3) tells which entry is not whole after a crash, as in a log of records.

use halite_pmem::Fresh;

use super::ground::{Ground, Technique};
use super::sealed_log::{SealedLog, log_len};
use super::slots::Version;
use super::{PageBuffer, PageStore, Shape};
use crate::Result;

const TECHNIQUE: Technique =
    Technique { number: 3, name: "micro-log-sealed", spare_slots: 0, log_len };

/// A store whose pages are updated in place, behind a log whose entries are sealed.
pub struct SealedMicroLog {
    ground: Ground,
    log: SealedLog,
}

/// Returns the place of a page, which never changes.
fn version(page: u32) -> Version {
    Version { slot: page, pvn: 0 }
}

impl PageStore for SealedMicroLog {
    fn space_len(shape: Shape) -> u64 {
        Ground::len(TECHNIQUE, shape)
    }

    fn create(space: Fresh, shape: Shape) -> Result<Self> {
        let ground = Ground::create(TECHNIQUE, space, shape, |_, _| None)?;
        let log = SealedLog::new(&ground);
        Ok(Self { ground, log })
    }

    fn open(space: Fresh) -> Result<Self> {
        let mut ground = Ground::open(TECHNIQUE, space)?;
        let log = SealedLog::recover(&mut ground, |page, found| found == version(page))?;
        Ok(Self { ground, log })
    }

    fn shape(&self) -> Shape {
        self.ground.shape
    }

    fn flush(&mut self, page: u32, buffer: &mut PageBuffer) -> Result<()> {
        self.ground.check_page(page, buffer.page_size())?;
        if buffer.dirty().is_empty() {
            return Ok(());
        }
        self.log.flush(&mut self.ground, page, version(page), buffer)?;
        buffer.was_flushed();
        Ok(())
    }

    fn read(&self, page: u32, buffer: &mut PageBuffer) -> Result<()> {
        self.ground.check_page(page, buffer.page_size())?;
        buffer.load(|bytes| {
            bytes.copy_from_slice(self.ground.slot(page));
            self.log.put_over(page, bytes);
        });
        Ok(())
    }
}
