//! When acknowledged writes are durable on an ordinary file.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When the server makes writes durable where that takes the kernel's sync, which is slow: in the
/// domain `page-cache`. In every other domain a fence suffices, and each write has one.
///
/// ```
/// use halite_server::SyncPolicy;
///
/// let policy: SyncPolicy = "interval=1000".parse()?;
/// assert_eq!(policy.to_string(), "interval=1000");
/// # Ok::<(), halite_server::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncPolicy {
    /// Before a write is acknowledged. Requests that arrive together share one sync.
    #[default]
    Always,
    /// At this interval: a power cut takes at most the writes of one interval.
    Interval(Duration),
    /// When the operating system does it, and at shutdown.
    Never,
}

impl FromStr for SyncPolicy {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            None if text == "always" => Ok(Self::Always),
            None if text == "never" => Ok(Self::Never),
            Some(("interval", ms)) => match ms.parse() {
                Ok(ms) if ms > 0 => Ok(Self::Interval(Duration::from_millis(ms))),
                _ => Err(crate::Error::SyncPolicy { text: text.to_owned() }),
            },
            _ => Err(crate::Error::SyncPolicy { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for SyncPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Interval(interval) => write!(f, "interval={}", interval.as_millis()),
            Self::Never => f.write_str("never"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_its_text() {
        for text in ["always", "never", "interval=1", "interval=60000"] {
            assert_eq!(text.parse::<SyncPolicy>().unwrap().to_string(), text);
        }
        for text in ["", "Always", "interval", "interval=", "interval=0", "interval=-1", "never=1"]
        {
            assert!(text.parse::<SyncPolicy>().is_err(), "{text:?}");
        }
    }
}
