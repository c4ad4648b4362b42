//! Ranges of a pool that serve as volatile memory.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

use crate::region::Region;

/// Volatile memory in a pool (Yan §3.4.3): a range with one owner, which may use its bytes as allocated
/// memory, by their address.
///
/// It bypasses the pool's interface: its stores are not counted, not traced, not emulated, and never
/// written back on purpose. Its contents after the pool is opened again are undefined. On an ordinary file
/// ([`crate::Domain::PageCache`]) each sync writes the pages that were stored to meanwhile: DRAM is the
/// better place there. The range is given back when this is dropped.
pub struct Scratch {
    region: Region,
    // Dropped after the region: it may be the claim that reserves the range.
    keeper: Option<Box<dyn Any + Send + Sync>>,
}

impl Scratch {
    pub(crate) fn new(region: Region) -> Self {
        Self { region, keeper: None }
    }

    /// Adds a value that is dropped once the range is given back.
    #[must_use]
    pub fn kept_by(mut self, keeper: impl Any + Send + Sync) -> Self {
        self.keeper = Some(match self.keeper.take() {
            Some(before) => Box::new((before, keeper)),
            None => Box::new(keeper),
        });
        self
    }

    /// The first byte. It and the [`len`](Self::len) bytes from it on belong to this owner alone as long as
    /// it lives; they are initialised, but with unspecified contents.
    #[must_use]
    pub fn address(&self) -> NonNull<u8> {
        let start = self.region.address(0, self.region.len());
        NonNull::new(start).expect("a pool is mapped")
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.region.len() as usize
    }

    /// Whether there is no byte; a range always has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("offset", &self.region.offset())
            .field("len", &self.region.len())
            .finish_non_exhaustive()
    }
}
