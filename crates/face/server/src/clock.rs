//! The time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
