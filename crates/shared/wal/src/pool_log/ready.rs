//! A segment that has its header, and can be appended to.

use halite_pmem::{Appender, Fresh};

use super::frame::{self, Life};

/// A segment that can be appended to.
pub(super) struct Ready {
    pub(super) number: u32,
    pub(super) life: Life,
    pub(super) appender: Appender,
}

impl Ready {
    /// Makes a claimed segment one of this salt. Its header is stored, and is written back with its first frame.
    pub(super) fn new(store_id: u128, number: u32, salt: u64, space: Fresh) -> Self {
        let mut appender = space.into_appender(0);
        appender.write(&frame::header(store_id, number, salt));
        appender.reveal();
        Self { number, life: Life::new(store_id, number, salt), appender }
    }
}
