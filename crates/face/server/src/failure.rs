//! Why a command was not done.

use std::borrow::Cow;
use std::sync::Arc;

use crate::stored::Unreadable;

/// The result of a command; its reply, if it was done, is written already.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command is refused; the reply has the reason: a code, a space, and a text, which may quote bytes of the
    /// client.
    Refused(Cow<'static, [u8]>),
    /// A script has failed by the refusal of one of its commands, which is counted already.
    RefusedInScript(Vec<u8>),
    /// The client waits for keys, and the command is executed again.
    Waits,
    /// The server ends before it is done.
    Interrupted,
    /// The store failed.
    Store(halite::Error),
    /// Writes could not be made durable, this one or earlier ones.
    NotDurable(Arc<halite::Error>),
}

/// The reply to a write when the store is full.
pub(crate) const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// The reply to a command that would keep too much memory of a client that is not evicted.
pub(crate) const KEPT_TOO_MUCH: &str =
    "ERR clients with NO-EVICT take too much memory; end transactions and watches first";

/// The reply to a command on a value of another type.
pub(crate) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

pub(crate) const SYNTAX: &str = "ERR syntax error";
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(crate) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub(crate) const NOT_A_FLOAT_TIMEOUT: &str = "ERR timeout is not a float or out of range";
pub(crate) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
pub(crate) const NO_SUCH_KEY: &str = "ERR no such key";
pub(crate) const DB_OUT_OF_RANGE: &str = "ERR DB index is out of range";

impl Failure {
    /// The reply.
    pub(crate) fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Refused(text) => Cow::Borrowed(text),
            Self::RefusedInScript(text) => Cow::Borrowed(text),
            Self::Waits => Cow::Borrowed(b"ERR the command waits"),
            Self::Interrupted => Cow::Borrowed(b"ERR the server is shutting down"),
            // Deletions help against a lack of space, and not against other errors.
            Self::Store(error) if error.lacks_space() => Cow::Borrowed(FULL.as_bytes()),
            Self::Store(halite::Error::TransactionTooLarge { limit, .. }) => {
                let text = "OOM what the commands change together takes more than";
                Cow::Owned(format!("{text} {limit} bytes").into_bytes())
            }
            Self::Store(error) => Cow::Owned(format!("ERR {error}").into_bytes()),
            // The code by which Redis' clients know a server that cannot write to its disk.
            Self::NotDurable(error) => {
                let text = "MISCONF writes cannot be made durable, and are refused until the server is started again";
                Cow::Owned(format!("{text}: {error}").into_bytes())
            }
        }
    }

    /// Refuses with a text that shows a word of the client as it is, up to its first zero byte, as Redis does.
    pub(crate) fn quoting(before: &str, word: &[u8], behind: &str) -> Self {
        let text = [before.as_bytes(), shown(word), behind.as_bytes()].concat();
        Self::Refused(Cow::Owned(text))
    }
}

/// The quoted part of a word.
pub(crate) fn shown(word: &[u8]) -> &[u8] {
    word.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A reply without the code of most errors, to be quoted in another one.
pub(crate) fn without_code(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"ERR ").unwrap_or(text)
}

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Self {
        Self::Refused(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Refused(Cow::Owned(text.into_bytes()))
    }
}

impl From<Vec<u8>> for Failure {
    fn from(text: Vec<u8>) -> Self {
        Self::Refused(Cow::Owned(text))
    }
}

impl From<Unreadable> for Failure {
    fn from(why: Unreadable) -> Self {
        if let Unreadable::NoString { .. } = why {
            return WRONG_TYPE.into();
        }
        format!("ERR the value cannot be read: {why}").into()
    }
}

impl From<halite::Error> for Failure {
    fn from(error: halite::Error) -> Self {
        Self::Store(error)
    }
}

#[cfg(test)]
mod tests {
    use halite::{EngineError, LsmError};

    use super::*;

    #[test]
    fn a_full_store_is_what_redis_calls_out_of_memory() {
        let full = || EngineError::Full { used: 1, limit: 1, held: 0, holder: None };
        let no_space = || Arc::new(halite_disk::Error::NoSpace { path: "LOG-000007".into() });
        for error in [
            full(),
            LsmError::NoRoomBelow { reason: Arc::new(full()) }.into(),
            LsmError::LogFull { reason: no_space() }.into(),
            LsmError::ValuesFull { reason: no_space() }.into(),
        ] {
            let failure = Failure::from(halite::Error::from(error));
            let expected = b"OOM command not allowed when used memory > 'maxmemory'.";
            assert_eq!(failure.text().as_ref(), expected);
        }
    }

    #[test]
    fn what_keeps_a_full_store_from_handing_on_is_told_as_itself() {
        let io = || std::io::Error::from_raw_os_error(5);
        let path = || "000007.sst".into();
        for (reason, told) in [
            (
                EngineError::from(Arc::new(halite_disk::Error::Io {
                    path: path(),
                    action: "write the file",
                    source: io(),
                })),
                "cannot write the file: Input/output error",
            ),
            (
                Arc::new(halite_disk::Error::Failed { path: path() }).into(),
                "what is durable of it is not certain",
            ),
            (EngineError::Poisoned { why: "a sync failed".into() }, "no longer takes writes"),
        ] {
            let below = EngineError::from(LsmError::NoRoomBelow { reason: Arc::new(reason) });
            let failure = Failure::from(halite::Error::from(below));
            let text = failure.text();
            let text = String::from_utf8_lossy(&text);
            assert!(text.starts_with("ERR the pool is full") && text.contains(told), "{text}");
        }
    }

    #[test]
    fn a_store_without_descriptors_is_not_out_of_memory() {
        let none = || halite_disk::Error::TooManyFiles { path: "LOG-000007".into() };
        let below = || Arc::new(EngineError::Disk(Arc::new(none())));
        for error in [
            LsmError::LogFile { reason: Arc::new(none()) },
            LsmError::NoRoomBelow { reason: below() },
        ] {
            let failure = Failure::from(halite::Error::from(EngineError::from(error)));
            let text = failure.text();
            let text = String::from_utf8_lossy(&text);
            assert!(text.starts_with("ERR ") && text.contains("LOG-000007: too many open files"));
        }
    }
}
