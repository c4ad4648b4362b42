//! The places of keys among the words of a request.

use crate::number::parse_i64;
use crate::resp::Args;

/// The places of a command's keys among its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The index of the first key; 0: the command has no keys.
    pub(crate) first: i32,
    /// The index of the last; negative: from the end.
    pub(crate) last: i32,
    pub(crate) step: i32,
    pub(crate) more: MoreKeys,
}

/// Keys of a command whose places depend on other words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoreKeys {
    None,
    /// The word with this index is the number of keys, which follow it.
    Counted(usize),
    /// The word with this index is the number of keys, which follow it, each with another word behind it.
    CountedPairs(usize),
    /// From this index on, the word behind the last one of these is a key. There are options with so many words behind
    /// each.
    Behind(usize, &'static [&'static str], &'static [(&'static str, usize)]),
    /// The first half of the words behind this one are keys. Before it are options, each with so many words behind it.
    HalfBehind(&'static str, &'static [(&'static str, usize)]),
    /// The word with this index is a key, unless it is empty and the name is there: then all words behind it are. Before it are
    /// options from an index on, some of which have so many words behind them.
    OneOrBehind(usize, &'static str, (usize, &'static [(&'static str, usize)])),
}

impl Keys {
    pub(super) const NONE: Self = Self { first: 0, last: 0, step: 0, more: MoreKeys::None };

    /// The indexes of the keys among the words of a request.
    #[inline]
    pub(crate) fn indexes(self, args: Args<'_>) -> impl Iterator<Item = usize> + use<> {
        let Keys { first, last, step, more } = self;
        let words = args.len();
        let last = if last < 0 { words as i32 + last } else { last };
        let end = if first == 0 { first } else { words.min(last as usize + 1) as i32 };
        let more = if more == MoreKeys::None { Vec::new() } else { more.indexes(args) };
        (first..end).step_by(step.max(1) as usize).map(|index| index as usize).chain(more)
    }
}

impl MoreKeys {
    /// The index of the word that is the number of keys, and the words from one key to the next.
    pub(crate) fn counted(self) -> Option<(usize, i32)> {
        match self {
            Self::Counted(at) => Some((at, 1)),
            Self::CountedPairs(at) => Some((at, 2)),
            _ => None,
        }
    }

    #[cold]
    pub(super) fn indexes(self, args: Args<'_>) -> Vec<usize> {
        let words = args.len();
        match self {
            Self::None => Vec::new(),
            Self::Counted(at) => {
                let count = args.get(at).and_then(parse_i64).unwrap_or(0);
                let count = usize::try_from(count).unwrap_or(0);
                // A request with too few words is refused, and has no keys before.
                let end = Some((at + 1).saturating_add(count)).filter(|&end| end <= words);
                (at + 1..end.unwrap_or(0)).collect()
            }
            Self::CountedPairs(at) => {
                let count = args.get(at).and_then(parse_i64).unwrap_or(0);
                let count = usize::try_from(count).unwrap_or(0);
                let end = (at + 1).saturating_add(count.saturating_mul(2));
                let end = Some(end).filter(|&end| end <= words);
                (at + 1..end.unwrap_or(0)).step_by(2).collect()
            }
            Self::Behind(mut at, names, options) => {
                let mut found = None;
                while let Some(word) = args.get(at) {
                    let option = options.iter().find(|(option, _)| crate::call::is(word, option));
                    let is_name = names.iter().any(|name| crate::call::is(word, name));
                    at += 1 + option.map_or(usize::from(is_name), |(_, behind)| *behind);
                    if is_name && at <= words {
                        found = Some(at - 1);
                    }
                }
                found.into_iter().collect()
            }
            Self::HalfBehind(name, options) => {
                let mut at = 1;
                while let Some(word) = args.get(at) {
                    if crate::call::is(word, name) {
                        return (at + 1..at + 1 + (words - at - 1) / 2).collect();
                    }
                    let option = options.iter().find(|(option, _)| crate::call::is(word, option));
                    let Some((_, behind)) = option else { break };
                    at += 1 + behind;
                }
                Vec::new()
            }
            Self::OneOrBehind(key, ..) if args.get(key).is_some_and(|key| !key.is_empty()) => {
                vec![key]
            }
            Self::OneOrBehind(key, name, (mut at, options)) => {
                while let Some(word) = args.get(at) {
                    if crate::call::is(word, name) {
                        return (at + 1..words).collect();
                    }
                    let option = options.iter().find(|(option, _)| crate::call::is(word, option));
                    at += 1 + option.map_or(0, |(_, behind)| *behind);
                }
                (key..words).take(1).collect()
            }
        }
    }
}
