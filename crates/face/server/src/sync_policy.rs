//! When acknowledged writes are durable on an ordinary file.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use halite::Domain;

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

impl SyncPolicy {
    /// The failures that an acknowledged write survives under this policy in `domain`.
    #[must_use]
    pub fn guarantee(self, domain: Domain) -> String {
        let acknowledged = "ordinary file: an acknowledged write survives a crash";
        match self {
            _ if domain != Domain::PageCache => domain.guarantee().to_owned(),
            Self::Always => {
                format!("{acknowledged} and a power cut, as it is synced before it is acknowledged")
            }
            Self::Interval(interval) => {
                let ms = interval.as_millis();
                format!(
                    "{acknowledged}, and a power cut once it is synced, which happens every {ms} ms"
                )
            }
            Self::Never => format!(
                "{acknowledged}, and a power cut once the operating system has synced it, in its own time"
            ),
        }
    }
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
    fn a_guarantee_is_that_of_the_policy_where_there_is_a_choice() {
        let interval = SyncPolicy::Interval(Duration::from_millis(50));
        for (policy, said) in [
            (SyncPolicy::Always, "synced before it is acknowledged"),
            (interval, "once it is synced, which happens every 50 ms"),
            (SyncPolicy::Never, "once the operating system has synced it"),
        ] {
            let guarantee = policy.guarantee(Domain::PageCache);
            assert!(guarantee.contains(said), "{guarantee}");
            for domain in [Domain::Platform, Domain::Memory, Domain::Process, Domain::Volatile] {
                assert_eq!(policy.guarantee(domain), domain.guarantee());
            }
        }
        assert!(!SyncPolicy::Always.guarantee(Domain::PageCache).contains("once"));
    }

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
