//! Tokens of replies, found in the bytes that have arrived, without copies.

use crate::head::{Head, Malformed};

/// A token: a reply that is no collection, or the head of a collection, whose items are the next tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A status, as `OK`.
    Status(&'a [u8]),
    /// An error.
    Error(&'a [u8]),
    /// A number.
    Integer(i64),
    /// No value.
    Null,
    /// A string of bytes.
    Bulk(&'a [u8]),
    /// A text, with its format before it, as `txt:`.
    Verbatim(&'a [u8]),
    /// An array of so many items.
    Array(usize),
    /// A set of so many items.
    Set(usize),
    /// A message of so many items that answers no request.
    Push(usize),
    /// A map of so many pairs of items.
    Map(usize),
}

/// The token that `bytes` begin with, and the bytes that it takes; `None` if not all of it has arrived.
///
/// # Errors
/// [`Malformed`], which no more bytes will mend.
#[inline]
pub fn token(bytes: &[u8]) -> Result<Option<(Token<'_>, usize)>, Malformed> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = bytes[..end].strip_suffix(b"\r").ok_or(Malformed)?;
    let start = end + 1;
    let token = match Head::parse(line)? {
        Head::Bulk(len) => {
            return Ok(body(bytes, start, len)?.map(|(b, end)| (Token::Bulk(b), end)));
        }
        Head::Verbatim(len) => {
            return Ok(body(bytes, start, len)?.map(|(b, end)| (Token::Verbatim(b), end)));
        }
        Head::Status(text) => Token::Status(text),
        Head::Error(text) => Token::Error(text),
        Head::Integer(number) => Token::Integer(number),
        Head::Null => Token::Null,
        Head::Array(len) => Token::Array(len),
        Head::Set(len) => Token::Set(len),
        Head::Push(len) => Token::Push(len),
        Head::Map(len) => Token::Map(len),
    };
    Ok(Some((token, start)))
}

/// The `len` bytes from `start` on, and where the end of the line behind them ends.
#[inline]
fn body(bytes: &[u8], start: usize, len: usize) -> Result<Option<(&[u8], usize)>, Malformed> {
    let end = start.checked_add(len).and_then(|end| end.checked_add(2)).ok_or(Malformed)?;
    match bytes.get(start..end) {
        None => Ok(None),
        Some(body) => body.strip_suffix(b"\r\n").ok_or(Malformed).map(|body| Some((body, end))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_found_whole_and_no_part_of_it_is() {
        for (bytes, expected) in [
            (&b"+OK\r\n"[..], Token::Status(b"OK")),
            (b"-OOM no room\r\n", Token::Error(b"OOM no room")),
            (b":-12\r\n", Token::Integer(-12)),
            (b"$-1\r\n", Token::Null),
            (b"*-1\r\n", Token::Null),
            (b"_\r\n", Token::Null),
            (b"$0\r\n\r\n", Token::Bulk(b"")),
            (b"$5\r\nab\r\nc\r\n", Token::Bulk(b"ab\r\nc")),
            (b"=6\r\ntxt:ab\r\n", Token::Verbatim(b"txt:ab")),
            (b"*0\r\n", Token::Array(0)),
            (b"~3\r\n", Token::Set(3)),
            (b"%12\r\n", Token::Map(12)),
        ] {
            let followed = [bytes, b"+OK"].concat();
            assert_eq!(token(&followed), Ok(Some((expected, bytes.len()))));
            for len in 0..bytes.len() {
                assert_eq!(token(&bytes[..len]), Ok(None), "{}", bytes[..len].escape_ascii());
            }
        }
    }

    #[test]
    fn bytes_that_are_no_reply_are_malformed() {
        for bytes in [
            &b"OK\r\n"[..],
            b"\r\n",
            b"+OK\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$\r\n",
            b":1x\r\n",
            b"_x\r\n",
            b"$3\r\nabcde",
            b"$99999999999999999999\r\n",
            b"$18446744073709551615\r\n",
            b"*-2\r\n",
        ] {
            assert_eq!(token(bytes), Err(Malformed), "{}", bytes.escape_ascii());
        }
    }
}
