//! Lua's patterns.
//!
//! Lua matches them in C, where nothing can interrupt a pattern that takes exponential time, and where a long pattern
//! may take all of the stack. Here each step is counted, and the alternatives that are left lie in a vector. As in C, a zero
//! byte ends a pattern.

use std::ops::Range;

/// Captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// Items with repetitions, and captures, that may follow each other in a match: about as many as a stack has room for
/// in C.
const DEPTH_MAX: usize = 200_000;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The pattern is wrong.
    Pattern(&'static str),
    /// The script must not go on.
    Stopped,
}

type Result<T> = std::result::Result<T, Wrong>;

/// A part of the subject that a pattern has captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// It is not closed yet.
    Open(usize),
    /// A place.
    Position(usize),
    /// From a place on, so many bytes.
    Text(usize, usize),
}

/// A place in the match to which it goes back if the rest of the pattern does not match.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// An item that may be left out was taken.
    Optional { at: usize, next: usize },
    /// So many of a class were taken from a place on.
    Most { at: usize, count: usize, next: usize },
    /// One more of a class may be taken at a place.
    Least { at: usize, item: usize, end: usize },
    /// A capture was opened.
    Opened,
    /// A capture, which begins at a place, was closed.
    Closed { index: usize, start: usize },
}

/// A pattern at work on a subject.
pub(super) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    turns: Vec<Turn>,
    /// Steps that are not told of yet.
    steps: usize,
    /// Takes note of steps; false: the script must not go on.
    step: &'a dyn Fn(usize) -> bool,
}

/// Steps that are told of at once.
const STEPS: usize = 4000;

/// Whether a byte is in the class of a letter: an upper-case letter means all others.
fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 11,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return byte == class,
    };
    is_in == class.is_ascii_lowercase()
}

/// The pattern up to its end.
pub(super) fn until_zero(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|&byte| byte == 0);
    &pattern[..end.unwrap_or(pattern.len())]
}

impl<'a> Matcher<'a> {
    /// A matcher of a pattern that has no zero byte, and no anchor in front.
    pub(super) fn new(
        subject: &'a [u8],
        pattern: &'a [u8],
        step: &'a dyn Fn(usize) -> bool,
    ) -> Self {
        let captures = [Capture::Open(0); CAPTURES_MAX];
        let turns = Vec::new();
        Self { subject, pattern, captures, level: 0, turns, steps: 0, step }
    }

    /// The first match from `from` on, or the one there if the pattern is anchored.
    pub(super) fn find(&mut self, from: usize, is_anchored: bool) -> Result<Option<Range<usize>>> {
        for start in from..=self.subject.len() {
            self.level = 0;
            self.turns.clear();
            if let Some(end) = self.at(start)? {
                return Ok(Some(start..end));
            }
            if is_anchored {
                break;
            }
        }
        Ok(None)
    }

    /// The number of values that a match has: the match itself is the only one if the pattern has no captures.
    pub(super) fn count(&self) -> usize {
        self.level.max(1)
    }

    /// The value of this number, from 0 on, of a match.
    pub(super) fn capture(&self, index: usize, whole: &Range<usize>) -> Result<Capture> {
        match self.captures[..self.level].get(index) {
            Some(Capture::Open(_)) => Err(Wrong::Pattern("unfinished capture")),
            Some(capture) => Ok(*capture),
            None if index == 0 => Ok(Capture::Text(whole.start, whole.len())),
            None => Err(Wrong::Pattern("invalid capture index")),
        }
    }

    /// The number of captures.
    pub(super) fn level(&self) -> usize {
        self.level
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.pattern.get(at).copied()
    }

    fn count_steps(&mut self, steps: usize) -> Result<()> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < STEPS || (self.step)(std::mem::take(&mut self.steps)) {
            return Ok(());
        }
        Err(Wrong::Stopped)
    }

    /// The end of a match of the pattern that begins at a place of the subject.
    fn at(&mut self, start: usize) -> Result<Option<usize>> {
        let (mut at, mut item) = (start, 0);
        loop {
            if let Some(end) = self.items(at, item)? {
                return Ok(Some(end));
            }
            match self.turn_back()? {
                Some(place) => (at, item) = place,
                None => return Ok(None),
            }
        }
    }

    /// Goes on where something else can be tried: at a place of the subject, with an item of the pattern.
    fn turn_back(&mut self) -> Result<Option<(usize, usize)>> {
        while let Some(turn) = self.turns.pop() {
            match turn {
                Turn::Optional { at, next } => return Ok(Some((at, next))),
                Turn::Most { count: 0, .. } => {}
                Turn::Most { at, count, next } => {
                    let count = count - 1;
                    self.turns.push(Turn::Most { at, count, next });
                    return Ok(Some((at + count, next)));
                }
                Turn::Least { at, item, end } => {
                    self.count_steps((end - item) / 8)?;
                    if self.is_single(at, item, end) {
                        self.turns.push(Turn::Least { at: at + 1, item, end });
                        return Ok(Some((at + 1, end + 1)));
                    }
                }
                Turn::Opened => self.level -= 1,
                Turn::Closed { index, start } => self.captures[index] = Capture::Open(start),
            }
        }
        Ok(None)
    }

    fn note(&mut self, turn: Turn) -> Result<()> {
        if self.turns.len() >= DEPTH_MAX {
            return Err(Wrong::Pattern("pattern too complex"));
        }
        self.turns.push(turn);
        Ok(())
    }

    /// The end of a match of the items from one on; nothing if some item does not match.
    fn items(&mut self, mut at: usize, mut item: usize) -> Result<Option<usize>> {
        loop {
            self.count_steps(1)?;
            let Some(first) = self.byte(item) else { return Ok(Some(at)) };
            match (first, self.byte(item + 1)) {
                (b'(', Some(b')')) => {
                    self.open(Capture::Position(at))?;
                    item += 2;
                }
                (b'(', _) => {
                    self.open(Capture::Open(at))?;
                    item += 1;
                }
                (b')', _) => {
                    self.close(at)?;
                    item += 1;
                }
                (b'$', None) => return Ok((at == self.subject.len()).then_some(at)),
                (b'%', Some(b'b')) => match self.balanced(at, item + 2)? {
                    Some(end) => (at, item) = (end, item + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.frontier(at, item + 2)? {
                    Some(next) => item = next,
                    None => return Ok(None),
                },
                (b'%', Some(digit)) if digit.is_ascii_digit() => match self.again(at, digit)? {
                    Some(end) => (at, item) = (end, item + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(item)?;
                    match self.byte(end) {
                        Some(b'?') => {
                            if self.is_single(at, item, end) {
                                self.note(Turn::Optional { at, next: end + 1 })?;
                                at += 1;
                            }
                            item = end + 1;
                        }
                        Some(b'*') => (at, item) = self.most(at, item, end)?,
                        Some(b'+') if self.is_single(at, item, end) => {
                            (at, item) = self.most(at + 1, item, end)?;
                        }
                        Some(b'+') => return Ok(None),
                        Some(b'-') => {
                            self.note(Turn::Least { at, item, end })?;
                            item = end + 1;
                        }
                        _ if self.is_single(at, item, end) => (at, item) = (at + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// The place behind a class of characters.
    fn class_end(&mut self, item: usize) -> Result<usize> {
        let mut at = item + 1;
        match self.pattern[item] {
            b'%' if at < self.pattern.len() => Ok(at + 1),
            b'%' => Err(Wrong::Pattern("malformed pattern (ends with '%')")),
            b'[' => {
                at += usize::from(self.byte(at) == Some(b'^'));
                loop {
                    let Some(byte) = self.byte(at) else {
                        return Err(Wrong::Pattern("malformed pattern (missing ']')"));
                    };
                    at += 1 + usize::from(byte == b'%' && at + 1 < self.pattern.len());
                    if self.byte(at) == Some(b']') {
                        break;
                    }
                }
                self.count_steps((at - item) / 8)?;
                Ok(at + 1)
            }
            _ => Ok(at),
        }
    }

    /// Whether the byte at a place is in the class from `item` to `end`.
    fn is_single(&self, at: usize, item: usize, end: usize) -> bool {
        self.subject.get(at).is_some_and(|&byte| self.is_in(byte, item, end))
    }

    fn is_in(&self, byte: u8, item: usize, end: usize) -> bool {
        match self.pattern[item] {
            b'.' => true,
            b'%' => is_in_class(byte, self.pattern[item + 1]),
            b'[' => self.is_in_set(byte, item, end - 1),
            only => byte == only,
        }
    }

    /// Whether a byte is in the set whose brackets are at `open` and `close`.
    fn is_in_set(&self, byte: u8, open: usize, close: usize) -> bool {
        let set = &self.pattern[open + 1..close];
        let (mut set, means_in) = match set {
            [b'^', set @ ..] => (set, false),
            set => (set, true),
        };
        loop {
            let (is_in, rest) = match set {
                [] => return !means_in,
                [b'%', class, rest @ ..] => (is_in_class(byte, *class), rest),
                [b'%'] => return !means_in,
                [low, b'-', high, rest @ ..] => ((*low..=*high).contains(&byte), rest),
                [only, rest @ ..] => (byte == *only, rest),
            };
            if is_in {
                return means_in;
            }
            set = rest;
        }
    }

    /// Takes as many of a class as there are; fewer are tried if the rest does not match then.
    fn most(&mut self, at: usize, item: usize, end: usize) -> Result<(usize, usize)> {
        let rest = &self.subject[at..];
        let count = match self.pattern[item] {
            b'.' => rest.len(),
            _ => {
                let other = rest.iter().position(|&byte| !self.is_in(byte, item, end));
                other.unwrap_or(rest.len())
            }
        };
        self.count_steps(count.saturating_mul(1 + (end - item) / 8))?;
        self.note(Turn::Most { at, count, next: end + 1 })?;
        Ok((at + count, end + 1))
    }

    fn open(&mut self, capture: Capture) -> Result<()> {
        if self.level >= CAPTURES_MAX {
            return Err(Wrong::Pattern("too many captures"));
        }
        self.captures[self.level] = capture;
        self.level += 1;
        self.note(Turn::Opened)
    }

    fn close(&mut self, at: usize) -> Result<()> {
        let captures = self.captures[..self.level].iter().enumerate().rev();
        let open = captures.filter_map(|(index, capture)| match capture {
            Capture::Open(start) => Some((index, *start)),
            _ => None,
        });
        let Some((index, start)) = { open }.next() else {
            return Err(Wrong::Pattern("invalid pattern capture"));
        };
        self.captures[index] = Capture::Text(start, at - start);
        self.note(Turn::Closed { index, start })
    }

    /// The place behind what a capture has captured, if that is here again.
    fn again(&mut self, at: usize, digit: u8) -> Result<Option<usize>> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        match self.captures[..self.level].get(index) {
            Some(&Capture::Text(start, len)) => {
                self.count_steps(len / 16)?;
                let is_here = self.subject[at..].starts_with(&self.subject[start..start + len]);
                Ok(is_here.then_some(at + len))
            }
            // In C, the length of a place is too large for any rest.
            Some(Capture::Position(_)) => Ok(None),
            _ => Err(Wrong::Pattern("invalid capture index")),
        }
    }

    /// The place behind a text from one byte to another that is balanced.
    fn balanced(&mut self, at: usize, item: usize) -> Result<Option<usize>> {
        let (Some(open), Some(close)) = (self.byte(item), self.byte(item + 1)) else {
            return Err(Wrong::Pattern("unbalanced pattern"));
        };
        if self.subject.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (index, &byte) in self.subject[at + 1..].iter().enumerate() {
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    self.count_steps(index / 4)?;
                    return Ok(Some(at + index + 2));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        self.count_steps((self.subject.len() - at) / 4)?;
        Ok(None)
    }

    /// The rest of the pattern, if the set there begins here: the byte before is not in it.
    fn frontier(&mut self, at: usize, item: usize) -> Result<Option<usize>> {
        if self.byte(item) != Some(b'[') {
            return Err(Wrong::Pattern("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(item)?;
        let before = at.checked_sub(1).map_or(0, |before| self.subject[before]);
        let here = self.subject.get(at).copied().unwrap_or(0);
        let begins = !self.is_in_set(before, item, end - 1) && self.is_in_set(here, item, end - 1);
        Ok(begins.then_some(end))
    }
}
