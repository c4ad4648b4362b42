//! The slowest commands, for SLOWLOG.
//!
//! All threads share one log. It is locked for a slow command, and by the commands that read it.

use std::collections::VecDeque;

use crate::address::Address;
use crate::resp::Args;
use crate::secrets::is_secret;

/// The slow commands, the newest first.
#[derive(Debug, Default)]
pub(crate) struct Slowlog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

/// A slow command.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    /// When it was executed, in seconds since 1970.
    pub(crate) at_s: u64,
    /// How long that took, in microseconds. Waiting, for keys or for the fence, is not in it.
    pub(crate) took_us: u64,
    /// The words, shortened.
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) addr: Address,
    /// The client's name; empty for one that has left while another thread executed its command.
    pub(crate) name: String,
}

/// Words of a command that are kept, and bytes of a word.
const WORDS_MAX: usize = 32;
const WORD_LEN_MAX: usize = 128;

impl Slowlog {
    /// Adds a command, and keeps at most `len_max`.
    pub(crate) fn push(&mut self, mut entry: Entry, len_max: usize) {
        entry.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(entry);
        self.entries.truncate(len_max);
    }

    /// The newest `count` commands.
    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.iter().take(count).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

/// The words of a request, shortened to the number and lengths that are kept, without passwords.
pub(crate) fn shorten(args: Args<'_>) -> Vec<Vec<u8>> {
    let kept = if args.len() > WORDS_MAX { WORDS_MAX - 1 } else { args.len() };
    let shorten = |word: &[u8]| match word.len().checked_sub(WORD_LEN_MAX) {
        None | Some(0) => word.to_vec(),
        Some(more) => {
            let rest = format!("... ({more} more bytes)");
            [&word[..WORD_LEN_MAX], rest.as_bytes()].concat()
        }
    };
    let shown = |(index, word): (usize, &[u8])| match is_secret(args, index) {
        true => b"(redacted)".to_vec(),
        false => shorten(word),
    };
    let mut words: Vec<_> = args.iter().take(kept).enumerate().map(shown).collect();
    if kept < args.len() {
        words.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_kept() {
        for (request, kept) in [
            ("AUTH secret", "AUTH (redacted)"),
            ("auth name secret", "auth (redacted) (redacted)"),
            (
                "HELLO 3 AUTH default secret SETNAME me",
                "HELLO 3 AUTH (redacted) (redacted) SETNAME me",
            ),
            (
                "config set maxclients 5 RequirePass secret",
                "config set maxclients 5 RequirePass (redacted)",
            ),
            ("SET auth secret", "SET auth secret"),
            ("ACL SetUser name >secret", "ACL SetUser (redacted) (redacted)"),
            ("ACL CAT read", "ACL CAT read"),
            (
                "MIGRATE h 1 k 0 5 AUTH2 name secret KEYS a",
                "MIGRATE h 1 k 0 5 AUTH2 (redacted) (redacted) KEYS a",
            ),
        ] {
            let mut ranges = Vec::new();
            let mut at = 0;
            for word in request.split(' ') {
                ranges.push(at..at + word.len());
                at += word.len() + 1;
            }
            let words = shorten(Args::new(request.as_bytes(), &ranges));
            assert_eq!(words.join(&b' '), kept.as_bytes());
        }
    }

    #[test]
    fn long_commands_are_shortened() {
        let bytes = vec![b'x'; 130];
        let ranges = vec![0..130; 40];
        let words = shorten(Args::new(&bytes, &ranges));
        assert_eq!(words.len(), WORDS_MAX);
        assert!(words[0].ends_with(b"x... (2 more bytes)"));
        assert_eq!(words[31], b"... (9 more arguments)");
    }
}
