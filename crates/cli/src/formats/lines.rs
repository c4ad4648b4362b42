//! Lines of an input, with their numbers.

use std::io::{BufRead, Read};

use super::Record;
use crate::{Error, Result};

/// The longest line that a record can take: every byte as `\u00XX` in JSON, and some frame.
const LINE_LEN_MAX: u64 = 6 * (halite::KEY_LEN_MAX + halite::VALUE_LEN_MAX) as u64 + 4096;

/// The lines of an input, one at a time.
pub(super) struct Lines<R> {
    name: String,
    input: R,
    number: u64,
    line: Vec<u8>,
    len_max: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(name: String, input: R) -> Self {
        Self { name, input, number: 0, line: Vec::new(), len_max: LINE_LEN_MAX }
    }

    /// The next record that `parse` makes of a line; a line without a record is skipped.
    ///
    /// The errors of `parse`, and a record over the limits, are returned with file and line.
    pub(super) fn next_record(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> std::result::Result<Option<Record>, String>,
    ) -> Option<Result<Record>> {
        loop {
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
            let parsed = parse(&self.line).and_then(|record| match record {
                Some(record) => {
                    record.check().map(|()| Some(record)).map_err(|why| why.to_string())
                }
                None => Ok(None),
            });
            match parsed {
                Ok(Some(record)) => return Some(Ok(record)),
                Ok(None) => {}
                Err(why) => return Some(Err(self.wrong(why))),
            }
        }
    }

    /// Reads a line, without its end (`\n` or `\r\n`); false at the end of the input.
    fn advance(&mut self) -> Result<bool> {
        self.line.clear();
        self.number += 1;
        let mut bounded = self.input.by_ref().take(self.len_max + 1);
        match bounded.read_until(b'\n', &mut self.line) {
            Err(error) => return Err(Error::io(format!("{}:{}", self.name, self.number), error)),
            Ok(0) => return Ok(false),
            Ok(len) if len as u64 > self.len_max => {
                let limit = self.len_max;
                return Err(self.wrong(format!("the line is longer than {limit} bytes")));
            }
            Ok(_) => {}
        }
        if self.line.ends_with(b"\n") {
            self.line.pop();
            if self.line.ends_with(b"\r") {
                self.line.pop();
            }
        }
        Ok(true)
    }

    fn wrong(&self, why: String) -> Error {
        Error::input(format!("{}:{}", self.name, self.number), why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut lines: Lines<&[u8]>) -> Result<Vec<Vec<u8>>> {
        let whole = |line: &[u8]| Ok(Some(Record { space: None, key: line.into(), value: vec![] }));
        std::iter::from_fn(|| lines.next_record(whole))
            .map(|record| record.map(|record| record.key))
            .collect()
    }

    #[test]
    fn both_line_ends_end_a_line_and_the_last_needs_none() {
        let lines = all(Lines::new("in".into(), b"a\r\nb\n\r\r\n\nc")).unwrap();
        assert_eq!(lines, [&b"a"[..], b"b", b"\r", b"", b"c"]);
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
        let mut lines = Lines::new("in".into(), &b"four\nlonger than ten\n"[..]);
        lines.len_max = 10;
        let error = all(lines).unwrap_err();
        assert_eq!(error.to_string(), "in:2: the line is longer than 10 bytes");
    }
}
