//! Ctrl-C.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::{Error, Result};

/// Makes `interrupted` true at the first SIGINT or SIGTERM; the second ends the process, as a way out
/// of what does not look at it, such as a read from a pipe that nobody writes to.
pub(crate) fn raise(interrupted: &Arc<AtomicBool>) -> Result<()> {
    let register = || -> io::Result<()> {
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_default(signal, Arc::clone(interrupted))?;
            flag::register(signal, Arc::clone(interrupted))?;
        }
        Ok(())
    };
    register().map_err(|error| Error::io("signals", error))
}
