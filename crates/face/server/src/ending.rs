//! The end of the server, and how long what is under way then may go on.
//!
//! Once the end has begun, requests that have arrived are still executed, for [`crate::Config::shutdown_grace`]. What
//! runs then breaks off, and requests that follow are refused: loops over keys, and other loops that may be long, look
//! at [`Ending::breaks_off`] at each step. So the end comes, whatever clients have asked for.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long threads wait for each other behind the grace: each has something short to finish at most.
const PARTING: Duration = Duration::from_secs(5);

/// When the end of the server began, if it has.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    began_at: OnceLock<Instant>,
    /// How long requests that have arrived are executed then.
    grace: Duration,
}

impl Ending {
    /// An end that has not begun.
    pub(crate) fn new(grace: Duration) -> Self {
        Self { began_at: OnceLock::new(), grace }
    }

    /// Begins the end.
    pub(crate) fn begin(&self) {
        self.began_at.get_or_init(Instant::now);
    }

    /// Whether the server ends.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.began_at.get().is_some()
    }

    /// Whether a command must not go on.
    #[inline]
    pub(crate) fn breaks_off(&self) -> bool {
        self.began_at.get().is_some_and(|began| began.elapsed() >= self.grace)
    }

    /// Whether a thread must not wait for others any more.
    pub(crate) fn parts(&self) -> bool {
        self.began_at.get().is_some_and(|began| began.elapsed() >= self.grace + PARTING)
    }
}
