//! The reader of one file.

use std::io::{BufRead, BufReader, Read};

use super::command::command;
use crate::decimal;
use crate::error::{Defect, Error, Result, Why};
use crate::source::Source;
use crate::{Event, Limits, Reader};

const BUFFER_LEN: usize = 64 << 10;
const PART: &str = "an append-only file";
/// The longest line of a note.
const NOTE_LEN_MAX: usize = 1024;

/// The next item of an append-only file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LogEvent {
    /// A part of the RDB file that it begins with.
    Rdb(Event),
    /// The words of a command.
    Command(Vec<Vec<u8>>),
    /// When the commands that follow were carried out, in seconds since 1970.
    Timestamp(i64),
}

/// Reads an append-only file.
///
/// ```
/// use halite_rdb::Limits;
/// use halite_rdb::aof::{LogEvent, LogReader};
///
/// let file = b"#TS:1700000000\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n";
/// let mut reader = LogReader::new(&file[..], Limits::default());
/// assert_eq!(reader.next_event()?, Some(LogEvent::Timestamp(1_700_000_000)));
/// let words = [&b"DEL"[..], b"a"].map(<[u8]>::to_vec).to_vec();
/// assert_eq!(reader.next_event()?, Some(LogEvent::Command(words)));
/// assert_eq!(reader.next_event()?, None);
/// # Ok::<(), halite_rdb::Error>(())
/// ```
pub struct LogReader<R> {
    part: Part<R>,
    /// The length of what is whole, in bytes: up to the end of a command that is in no transaction, or of one.
    good: u64,
    is_in_transaction: bool,
    /// The offset at which the last command or note begins.
    begin: u64,
}

enum Part<R> {
    /// Before the first byte.
    Begin(Source<R>),
    Rdb(Box<Reader<R>>),
    Commands(Source<R>),
    End,
}

impl<R: Read> LogReader<BufReader<R>> {
    /// A reader of a file.
    #[must_use]
    pub fn new(input: R, limits: Limits) -> Self {
        Self::of_buffered(BufReader::with_capacity(BUFFER_LEN, input), limits)
    }
}

impl<R: BufRead> LogReader<R> {
    /// A reader of a file that has a buffer.
    #[must_use]
    pub fn of_buffered(input: R, limits: Limits) -> Self {
        let part = Part::Begin(Source::new(input, limits));
        Self { part, good: 0, is_in_transaction: false, begin: 0 }
    }

    /// The length of what is whole of what was read, in bytes.
    #[must_use]
    pub fn good(&self) -> u64 {
        self.good
    }

    /// The offset, in bytes, at which the command begins that was read last.
    #[must_use]
    pub fn command_offset(&self) -> u64 {
        self.begin
    }

    /// The next part of the file; `None` at its end.
    ///
    /// # Errors
    /// [`Why::Truncated`] if the file ends in the middle of a command or of a transaction, and those of the input. There
    /// is nothing after an error.
    pub fn next_event(&mut self) -> Result<Option<LogEvent>> {
        loop {
            match std::mem::replace(&mut self.part, Part::End) {
                Part::End => return Ok(None),
                Part::Begin(mut source) => {
                    self.part = match source.peek(PART)? {
                        Some(b'R') => Part::Rdb(Box::new(Reader::of_source(source)?)),
                        _ => Part::Commands(source),
                    };
                }
                Part::Rdb(mut reader) => match reader.next_event()? {
                    Some(event) => {
                        self.part = Part::Rdb(reader);
                        return Ok(Some(LogEvent::Rdb(event)));
                    }
                    None => {
                        self.good = reader.offset();
                        self.part = Part::Commands(reader.into_source());
                    }
                },
                Part::Commands(mut source) => {
                    let event = self.next_command(&mut source)?;
                    if event.is_some() {
                        self.part = Part::Commands(source);
                    }
                    return Ok(event);
                }
            }
        }
    }

    fn next_command(&mut self, source: &mut Source<R>) -> Result<Option<LogEvent>> {
        let begin = source.offset();
        self.begin = begin;
        let truncated = |part, good| Error::new(begin, part, Why::Truncated { good });
        source.begin_value();
        let event = match source.peek(PART)? {
            None if self.is_in_transaction => return Err(truncated("a transaction", self.good)),
            None => return Ok(None),
            Some(b'#') => note(source),
            Some(_) => command(source).map(LogEvent::Command),
        };
        let event = event.map_err(|error| match error.why {
            Why::Ended => truncated(error.part, self.good),
            _ => error,
        })?;
        if let LogEvent::Command(words) = &event {
            let is = |name: &[u8]| words[0].eq_ignore_ascii_case(name);
            self.is_in_transaction = is(b"MULTI") || self.is_in_transaction && !is(b"EXEC");
        }
        if !self.is_in_transaction {
            self.good = source.offset();
        }
        Ok(Some(event))
    }
}

/// Reads a line that begins with `#`. The only ones that there are say a time.
fn note<R: BufRead>(source: &mut Source<R>) -> Result<LogEvent> {
    const PART: &str = "a note of an append-only file";
    let begin = source.offset();
    let line = source.line::<NOTE_LEN_MAX>(PART)?;
    let seconds = line.strip_prefix(b"#TS:").and_then(decimal::parse_i64);
    seconds
        .map_or_else(|| source.refuse(PART, begin, Defect::new("it is no time")), Ok)
        .map(LogEvent::Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(file: &[u8]) -> (Vec<LogEvent>, Option<Error>) {
        let mut reader = LogReader::new(file, Limits::default());
        let mut events = Vec::new();
        loop {
            match reader.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return (events, None),
                Err(error) => {
                    assert_eq!(reader.next_event().unwrap(), None, "nothing comes after an error");
                    return (events, Some(error));
                }
            }
        }
    }

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
    const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
    const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

    #[test]
    fn commands_may_be_behind_an_rdb_file() {
        let rdb = b"REDIS0003\xfe\0\0\x01a\x01b\xff";
        let (read, error) = events(&[&rdb[..], SET].concat());
        assert!(error.is_none());
        assert_eq!(read.len(), 3);
        assert!(matches!(&read[1], LogEvent::Rdb(Event::Key(key)) if key.name == b"a"));
        assert!(matches!(&read[2], LogEvent::Command(words) if words[2] == b"\r\n"));
    }

    #[test]
    fn a_file_that_ends_early_says_how_far_it_is_whole() {
        let whole = [SET, SET].concat();
        for len in 0..=SET.len() {
            let (read, error) = events(&whole[..SET.len() + len]);
            assert_eq!(read.len(), 1 + len / SET.len());
            match error.map(|error| error.why) {
                None => assert!(len == 0 || len == SET.len()),
                Some(Why::Truncated { good }) => assert_eq!(good, SET.len() as u64),
                Some(other) => panic!("{other}"),
            }
        }
        let transaction = [SET, MULTI, SET, EXEC].concat();
        let (read, error) = events(&transaction);
        assert!(read.len() == 4 && error.is_none());
        let (_, error) = events(&transaction[..transaction.len() - EXEC.len()]);
        let text = error.unwrap().to_string();
        assert_eq!(
            text,
            "at byte 71, in a transaction: the file ends in the middle of it; it is whole up to byte 28"
        );
    }

    #[test]
    fn wrong_bytes_are_refused_with_the_reason() {
        for (file, why) in [
            (&b"hello\r\n"[..], "at byte 0, in a command: there is no * where there has to be one"),
            (b"*0\r\n", "at byte 4, in a command: it has no words"),
            (b"*-1\r\n", "at byte 0, in a command: it has a number that is none"),
            (b"*1\n$1\r\na\r\n", "at byte 0, in a command: its line does not end with \\r\\n"),
            (b"*1\r\n+a\r\n", "at byte 4, in a command: there is no $ where there has to be one"),
            (b"*1\r\n$1\r\nab\r", "at byte 9, in a command: a word is longer than it says"),
            (
                b"*1\r\n$9223372036854775807\r\na\r\n",
                "at byte 26, in a word of a command: it has 9223372036854775807 bytes; the limit is \
                 536870912",
            ),
            (b"#TX:1\r\n", "at byte 0, in a note of an append-only file: it is no time"),
            (
                b"RUBBISH",
                "at byte 0, in the beginning of an RDB file: it does not begin with REDIS and a version",
            ),
        ] {
            assert_eq!(events(file).1.unwrap().to_string(), why);
        }
    }
}
