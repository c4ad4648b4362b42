//! The refusals that ACL LOG tells.

use std::collections::VecDeque;

/// Bytes of an object, or of a name, that are kept.
const SHOWN_LEN_MAX: usize = 1024;
/// How long a refusal counts as the same as one before, in milliseconds.
const SAME_MS: u64 = 60_000;

/// The right that a refused request lacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Command,
    Key,
    Channel,
    Auth,
}

impl Reason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Auth => "auth",
        }
    }
}

/// How the client sent the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    TopLevel,
    Multi,
    Lua,
}

impl Context {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TopLevel => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
        }
    }
}

/// A refusal, or several that are alike.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) count: u64,
    pub(crate) reason: Reason,
    pub(crate) context: Context,
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
    /// The line of CLIENT LIST of the last client.
    pub(crate) client: String,
}

/// The refusals, the newest first.
#[derive(Debug, Default)]
pub(crate) struct AclLog {
    entries: VecDeque<Entry>,
    next_id: u64,
    /// By reason: since the start, or since [`AclLog::reset_counts`].
    counts: [u64; 4],
}

impl AclLog {
    /// How many requests were refused for this reason.
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    pub(crate) fn reset_counts(&mut self) {
        self.counts = [0; 4];
    }

    /// Adds a refusal, and keeps at most `len_max`.
    pub(crate) fn add(
        &mut self,
        (reason, context): (Reason, Context),
        (object, user): (&[u8], &[u8]),
        client: String,
        now_ms: u64,
        len_max: usize,
    ) {
        self.counts[reason as usize] += 1;
        let shorten = |bytes: &[u8]| bytes[..bytes.len().min(SHOWN_LEN_MAX)].to_vec();
        let (object, user) = (shorten(object), shorten(user));
        let is_same = |entry: &Entry| {
            entry.reason == reason
                && entry.context == context
                && now_ms.abs_diff(entry.updated_ms) <= SAME_MS
                && entry.object == object
                && entry.user == user
        };
        let same = self.entries.iter().position(is_same).and_then(|at| self.entries.remove(at));
        let entry = match same {
            Some(same) => Entry { count: same.count + 1, updated_ms: now_ms, client, ..same },
            None => {
                self.next_id += 1;
                Entry {
                    id: self.next_id - 1,
                    count: 1,
                    reason,
                    context,
                    object,
                    user,
                    created_ms: now_ms,
                    updated_ms: now_ms,
                    client,
                }
            }
        };
        self.entries.push_front(entry);
        self.entries.truncate(len_max);
    }

    /// The newest `count` refusals.
    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &mut AclLog, object: &str, now_ms: u64) {
        let kind = (Reason::Key, Context::TopLevel);
        log.add(kind, (object.as_bytes(), b"u"), String::new(), now_ms, 2);
    }

    #[test]
    fn refusals_that_are_alike_are_counted() {
        let mut log = AclLog::default();
        add(&mut log, "a", 0);
        add(&mut log, "b", 1);
        add(&mut log, "a", 60_000);
        let told = |log: &AclLog| {
            let of = |entry: &Entry| (entry.id, entry.count, entry.created_ms);
            log.newest(9).iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(told(&log), [(0, 2, 0), (1, 1, 1)]);
        add(&mut log, "b", 60_002);
        assert_eq!(told(&log), [(2, 1, 60_002), (0, 2, 0)]);
        log.clear();
        assert!(told(&log).is_empty());
    }
}
