//! A command in a log.
//!
//! ```text
//! *<words>\r\n  ($<bytes>\r\n <bytes> \r\n)...
//! ```

use std::io::BufRead;

use crate::decimal;
use crate::error::{Defect, Error, Result, Why};
use crate::source::Source;

const PART: &str = "a command";
/// Words for which memory is taken before they have arrived.
const RESERVED_MAX: u64 = 64;
/// The longest line with a number.
const LINE_LEN_MAX: usize = 32;

/// Reads the command that begins here.
pub(super) fn command<R: BufRead>(source: &mut Source<R>) -> Result<Vec<Vec<u8>>> {
    let count = number(source, b'*')?;
    if count == 0 {
        return source.refuse(PART, source.offset(), Defect::new("it has no words"));
    }
    let mut words = Vec::with_capacity(count.min(RESERVED_MAX) as usize);
    for _ in 0..count {
        let len = number(source, b'$')?;
        words.push(source.bytes("a word of a command", len)?);
        let end = source.offset();
        if source.array("a word of a command")? != *b"\r\n" {
            return source.refuse(PART, end, Defect::new("a word is longer than it says"));
        }
    }
    Ok(words)
}

/// Reads a line of a sign and a number.
fn number<R: BufRead>(source: &mut Source<R>, sign: u8) -> Result<u64> {
    let begin = source.offset();
    // A wrong sign is told from a line that is too long.
    if source.peek(PART)?.is_some_and(|found| found != sign) {
        let why = format!("there is no {} where there has to be one", char::from(sign));
        return source.refuse(PART, begin, Defect::from_text(why));
    }
    let line = source.line::<LINE_LEN_MAX>(PART)?;
    let number = line.get(1..).and_then(decimal::parse_i64);
    number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| {
        Error::new(begin, PART, Why::Defect(Defect::new("it has a number that is none")))
    })
}
