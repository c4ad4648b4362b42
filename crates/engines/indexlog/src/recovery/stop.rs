//! Giving up the recovery of a store that is closed meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use halite_contract::{Error, Result};

/// Whether recovery is to go on.
///
/// # Errors
/// [`Error::Poisoned`] if the store was closed meanwhile.
pub(crate) fn go_on(stop: &AtomicBool) -> Result<()> {
    match stop.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(Error::Poisoned { why: "the store was closed meanwhile".to_owned() }),
    }
}
