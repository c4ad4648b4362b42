//! The state machine from bytes to requests.

use std::ops::Range;

use super::{Args, ProtocolError, inline};
use crate::number::parse_i64;

/// How large a request may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest word, in bytes.
    pub bulk_len_max: usize,
    /// The most words.
    pub args_max: usize,
    /// The longest line, in bytes: of words, or of a number.
    pub inline_len_max: usize,
    /// Whether the client has yet to authenticate: it may then send at most [`Limits::UNAUTHENTICATED_ARGS`] words of
    /// [`Limits::UNAUTHENTICATED_BULK_LEN`] bytes.
    pub unauthenticated: bool,
}

impl Limits {
    /// The most words of a request before authentication.
    pub const UNAUTHENTICATED_ARGS: usize = 10;
    /// The longest word of a request before authentication, in bytes.
    pub const UNAUTHENTICATED_BULK_LEN: usize = 16 << 10;
}

impl Default for Limits {
    /// 512 MiB a word, 16,777,216 words, 64 KiB a line.
    fn default() -> Self {
        Self {
            bulk_len_max: 512 << 20,
            args_max: 16 << 20,
            inline_len_max: 64 << 10,
            unauthenticated: false,
        }
    }
}

/// How far the input goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The first `len` bytes of the input are one request; its words are [`Parser::args`].
    Request {
        /// Bytes of the input that the request takes.
        len: usize,
    },
    /// The input ends within a request.
    More,
}

/// Reads requests, one at a time, from bytes that arrive in pieces.
#[derive(Debug, Default)]
pub struct Parser {
    /// The element that the bytes at `at` belong to.
    state: State,
    /// Everything in front of this offset of the input is parsed.
    at: usize,
    /// No line ends in front of this offset.
    searched: usize,
    /// Words still to come.
    args_left: usize,
    /// Where the words lie, in the input or in `text`.
    ranges: Vec<Range<usize>>,
    /// The words of a line, unescaped.
    text: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    /// `*` and the number of words.
    ArgsLine,
    /// `$` and the length of a word.
    BulkLine,
    /// A word of so many bytes, and `\r\n`.
    Bulk(usize),
    /// A line of words.
    Inline,
    /// A whole array has been read.
    Done,
    /// A whole line has been read.
    DoneInline,
}

impl Parser {
    /// A parser in front of its first request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads on. `input` holds all bytes since the request's first one, those of earlier calls included.
    ///
    /// After [`Step::Request`], look at [`Parser::args`], call [`Parser::reset`], and continue with
    /// the input behind the request.
    ///
    /// # Errors
    /// Why the input is no request within `limits`.
    #[inline]
    pub fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Step, ProtocolError> {
        loop {
            let arrived = match self.state {
                State::Start => self.start(input),
                State::ArgsLine => self.args_line(input, limits)?,
                State::BulkLine => self.bulk_line(input, limits)?,
                State::Bulk(len) => self.bulk(input, len)?,
                State::Inline => self.inline(input, limits)?,
                State::Done | State::DoneInline => return Ok(Step::Request { len: self.at }),
            };
            if !arrived {
                return Ok(Step::More);
            }
        }
    }

    /// The words of the request that [`Parser::parse`] found in `input`.
    #[must_use]
    #[inline]
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        let bytes = if self.state == State::DoneInline { &self.text } else { input };
        Args::new(bytes, &self.ranges)
    }

    /// Bytes of the request that [`Parser::parse`] found.
    pub(crate) fn request_len(&self) -> usize {
        debug_assert!(self.is_done());
        self.at
    }

    /// Bytes of memory beside the input.
    pub(crate) fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<Range<usize>>() + self.text.capacity()
    }

    /// Whether [`Parser::parse`] has found a request.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done | State::DoneInline)
    }

    /// Whether the request that [`Parser::parse`] found is a line: its words are not in the input.
    pub(crate) fn is_inline(&self) -> bool {
        self.state == State::DoneInline
    }

    /// Forgets the request, to read the next one. Memory for up to a thousand words is kept.
    #[inline]
    pub fn reset(&mut self) {
        self.state = State::Start;
        self.at = 0;
        self.searched = 0;
        self.args_left = 0;
        self.ranges.clear();
        self.text.clear();
        if self.ranges.capacity() > 1024 || self.text.capacity() > 16 << 10 {
            (self.ranges, self.text) = (Vec::new(), Vec::new());
        }
    }

    /// How many bytes of the input must still arrive before the parser can take a step.
    #[must_use]
    pub fn missing(&self, input_len: usize) -> usize {
        match self.state {
            State::Bulk(len) => (self.at + len + 2).saturating_sub(input_len),
            _ => 1,
        }
    }

    fn start(&mut self, input: &[u8]) -> bool {
        match input.first() {
            Some(b'*') => self.state = State::ArgsLine,
            Some(_) => self.state = State::Inline,
            None => return false,
        }
        true
    }

    #[inline]
    fn args_line(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        use ProtocolError::{ArgsLen, ArgsLine, UnauthenticatedArgsLen};
        let Some(line) = self.line(input, limits, ArgsLine, ArgsLen)? else { return Ok(false) };
        let count = parse_i64(&line[1..]).ok_or(ArgsLen)?;
        // A negative count is an empty request, like zero.
        let count = usize::try_from(count).unwrap_or(0);
        if count > limits.args_max {
            return Err(ArgsLen);
        }
        if limits.unauthenticated && count > Limits::UNAUTHENTICATED_ARGS {
            return Err(UnauthenticatedArgsLen);
        }
        self.args_left = count;
        self.state = if count == 0 { State::Done } else { State::BulkLine };
        Ok(true)
    }

    #[inline]
    fn bulk_line(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        use ProtocolError::{BulkLen, BulkLine, BulkMark, UnauthenticatedBulkLen};
        match input.get(self.at) {
            Some(b'$') => {}
            Some(&other) => return Err(BulkMark(other)),
            None => return Ok(false),
        }
        let Some(line) = self.line(input, limits, BulkLine, BulkLen)? else { return Ok(false) };
        let len = parse_i64(&line[1..]).and_then(|len| usize::try_from(len).ok()).ok_or(BulkLen)?;
        if len > limits.bulk_len_max {
            return Err(BulkLen);
        }
        if limits.unauthenticated && len > Limits::UNAUTHENTICATED_BULK_LEN {
            return Err(UnauthenticatedBulkLen);
        }
        self.state = State::Bulk(len);
        Ok(true)
    }

    #[inline]
    fn bulk(&mut self, input: &[u8], len: usize) -> Result<bool, ProtocolError> {
        let end = self.at + len;
        // The part of the `\r\n` that has arrived is checked at once, so that a wrong length shows as soon as it can.
        match input.get(end..) {
            None | Some([]) | Some([b'\r']) => return Ok(false),
            Some([b'\r', b'\n', ..]) => {}
            Some(_) => return Err(ProtocolError::BulkEnd),
        }
        self.ranges.push(self.at..end);
        self.at = end + 2;
        self.searched = self.at;
        self.args_left -= 1;
        self.state = if self.args_left == 0 { State::Done } else { State::BulkLine };
        Ok(true)
    }

    fn inline(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let window = &input[..input.len().min(limits.inline_len_max + 1)];
        let Some(found) = window[self.searched..].iter().position(|&byte| byte == b'\n') else {
            self.searched = window.len();
            if window.len() > limits.inline_len_max {
                return Err(ProtocolError::InlineLen);
            }
            return Ok(false);
        };
        let end = self.searched + found;
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        inline::split(line, &mut self.text, &mut self.ranges)?;
        self.at = end + 1;
        self.state = State::DoneInline;
        Ok(true)
    }

    /// The line at `at` without its `\r\n`, and steps behind it; `None` while it has not ended.
    #[inline]
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
        too_long: ProtocolError,
        no_newline: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let limit = self.at + limits.inline_len_max;
        let window = &input[..input.len().min(limit + 1)];
        let Some(found) = window[self.searched..].iter().position(|&byte| byte == b'\r') else {
            self.searched = window.len();
            return if window.len() > limit { Err(too_long) } else { Ok(None) };
        };
        let end = self.searched + found;
        self.searched = end;
        match input.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => {
                let line = &input[self.at..end];
                self.at = end + 2;
                self.searched = self.at;
                Ok(Some(line))
            }
            Some(_) => Err(no_newline),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Parsed = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

    /// Everything in `input`, which arrives in pieces of the given lengths.
    fn parse_in_pieces(input: &[u8], pieces: &[usize], limits: &Limits) -> Parsed {
        let (mut parser, mut requests) = (Parser::new(), Vec::new());
        let (mut start, mut arrived) = (0, 0);
        let mut pieces = pieces.iter().copied();
        loop {
            match parser.parse(&input[start..arrived], limits) {
                Ok(Step::Request { len }) => {
                    let args = parser.args(&input[start..arrived]);
                    requests.push(args.iter().map(<[u8]>::to_vec).collect());
                    parser.reset();
                    start += len;
                }
                Ok(Step::More) if arrived == input.len() => return (requests, None),
                Ok(Step::More) => {
                    assert!(parser.missing(arrived - start) > 0);
                    arrived = (arrived + pieces.next().unwrap_or(input.len())).min(input.len());
                }
                Err(error) => return (requests, Some(error)),
            }
        }
    }

    fn parse(input: &[u8]) -> Parsed {
        parse_in_pieces(input, &[], &small())
    }

    fn small() -> Limits {
        Limits { bulk_len_max: 1000, args_max: 20, inline_len_max: 100, unauthenticated: false }
    }

    fn error(input: &[u8]) -> Option<String> {
        parse(input).1.map(|error| error.to_string())
    }

    #[test]
    fn arrays_and_lines_are_requests() {
        let (requests, error) =
            parse(b"*2\r\n$3\r\nGET\r\n$0\r\n\r\nPING  x\r\n\n*0\r\n*-10\r\nQUIT\n");
        assert_eq!(error, None);
        let expected: [&[&[u8]]; 6] = [&[b"GET", b""], &[b"PING", b"x"], &[], &[], &[], &[b"QUIT"]];
        assert_eq!(requests, expected);
    }

    #[test]
    fn what_is_no_request_is_named() {
        for (input, expected) in [
            (&b"*3000000000\r\n"[..], "invalid multibulk length"),
            (b"*21\r\n", "invalid multibulk length"),
            (b"*x\r\n", "invalid multibulk length"),
            (b"*1\rx", "invalid multibulk length"),
            (b"*1\r\nfoo\r\n", "expected '$', got 'f'"),
            (b"*1\r\n$-10\r\n", "invalid bulk length"),
            (b"*1\r\n$blabla\r\n", "invalid bulk length"),
            (b"*1\r\n$1001\r\n", "invalid bulk length"),
            (b"*1\r\n$1\r\nabc", "expected CRLF after bulk string"),
            (b"set \"a\"b\r\n", "unbalanced quotes in request"),
            (&[b'x'; 101], "too big inline request"),
            (&[b'*'; 101], "too big mbulk count string"),
            (&[b"*1\r\n", &[b'$'; 101][..]].concat(), "too big bulk count string"),
        ] {
            let expected = format!("Protocol error: {expected}");
            assert_eq!(error(input), Some(expected), "{}", input.escape_ascii());
        }
    }

    #[test]
    fn strangers_may_send_small_requests_only() {
        let limits = Limits { unauthenticated: true, ..Limits::default() };
        let error = |input: &[u8]| parse_in_pieces(input, &[], &limits).1;
        assert_eq!(error(b"*10\r\n$16384\r\n"), None);
        assert_eq!(error(b"*11\r\n"), Some(ProtocolError::UnauthenticatedArgsLen));
        assert_eq!(error(b"*1\r\n$16385\r\n"), Some(ProtocolError::UnauthenticatedBulkLen));
    }

    #[test]
    fn memory_follows_what_has_arrived_and_not_what_was_announced() {
        let mut parser = Parser::new();
        let input = b"*1048576\r\n$536870912\r\nabc";
        assert_eq!(parser.parse(input, &Limits::default()), Ok(Step::More));
        assert!(parser.ranges.capacity() <= 4);
        assert_eq!(parser.missing(input.len()), 536_870_912 + 2 - 3);
    }

    fn request() -> impl Strategy<Value = Vec<u8>> {
        let word = prop::collection::vec(any::<u8>(), 0..20);
        let array = prop::collection::vec(word, 0..6).prop_map(|words| {
            let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
            for word in words {
                bytes.extend(format!("${}\r\n", word.len()).bytes());
                bytes.extend(word);
                bytes.extend(b"\r\n");
            }
            bytes
        });
        let line = "[ a-z\"'\\\\x0-9]{0,30}\r?\n".prop_map(String::into_bytes);
        let noise = prop::collection::vec(
            prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), any::<u8>()],
            0..8,
        );
        prop_oneof![8 => array, 2 => line, 1 => noise]
    }

    proptest! {
        #[test]
        fn any_split_of_the_input_gives_the_same_requests(
            requests in prop::collection::vec(request(), 0..8),
            pieces in prop::collection::vec(0..12usize, 0..200),
        ) {
            let input = requests.concat();
            let whole = parse(&input);
            prop_assert_eq!(&parse_in_pieces(&input, &pieces, &small()), &whole);
            let bytewise = vec![1; input.len()];
            prop_assert_eq!(&parse_in_pieces(&input, &bytewise, &small()), &whole);
        }

        #[test]
        fn what_a_client_sends_is_what_is_parsed(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..20),
        ) {
            let mut input = format!("*{}\r\n", words.len()).into_bytes();
            for word in &words {
                input.extend(format!("${}\r\n", word.len()).bytes());
                input.extend(word);
                input.extend(b"\r\n");
            }
            prop_assert_eq!(parse(&input), (vec![words], None));
        }
    }
}
